"""Steps of training whose kernels a GPU launches at once.

A step of a small network is hundreds of kernels, each of which takes less time than its
launch does. A CUDA graph launches all of them together: they are recorded once, and
replayed on other rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

__all__ = ["adam", "replayed", "set_learning_rate"]

log = logging.getLogger(__name__)

# Steps before kernels are recorded: libraries choose theirs, and Adam makes its moments.
WARM_STEPS = 3


def adam(
    parameters: Iterable[Tensor],
    learning_rate: float,
    device: torch.device,
    *,
    fused: bool | None = None,
) -> torch.optim.Adam:
    """Make an optimiser whose steps can be replayed.

    Args:
        parameters: What it changes, on ``device``.
        learning_rate: Its step size.
        device: Where they are.
        fused: Whether all parameters change in one kernel; on CUDA they always do.
    """
    if device.type != "cuda":
        return torch.optim.Adam(parameters, lr=learning_rate, fused=fused)
    # A number would be recorded with the kernels, and could not change.
    rate = torch.tensor(learning_rate, device=device)
    return torch.optim.Adam(parameters, lr=rate, fused=True, capturable=True)


def set_learning_rate(optimiser: torch.optim.Adam, learning_rate: float) -> None:
    """Change the step size, in place where a recorded step reads it."""
    group = optimiser.param_groups[0]
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(learning_rate)
    else:
        group["lr"] = learning_rate


def replayed(
    function: Callable[[Tensor], Tensor], device: torch.device, *, alike: bool = True
) -> Callable[[Tensor], Tensor]:
    """Return a function that does the same; on CUDA it replays recorded kernels.

    Args:
        function: Takes numbers of rows, shape ``(n,)``, and returns a tensor. It must not
            wait for the device: that cannot be recorded, and raises an error of torch.
        device: Where it works; elsewhere than on CUDA the function itself is returned.
        alike: Whether it does the same operations in every call; if not, it is not
            recorded.
    """
    if device.type != "cuda":
        return function
    if not alike:
        log.info("kernels are launched one by one: steps may differ from each other")
        return function
    return Replayed(function, device)


class Replayed:
    """A function on CUDA that is recorded after some calls, and replayed from then on.

    Every call counts: those before it is recorded, and those with another number of rows,
    run as they are.
    """

    def __init__(self, function: Callable[[Tensor], Tensor], device: torch.device) -> None:
        self.function = function
        self.stream = torch.cuda.Stream(device)
        self.left = WARM_STEPS
        self.rows: Tensor | None = None
        self.graph: torch.cuda.CUDAGraph | None = None
        self.result = torch.empty(0)

    def __call__(self, rows: Tensor) -> Tensor:
        if self.rows is None:
            self.rows = rows.clone()
        if rows.shape != self.rows.shape:
            return self.function(rows)
        if self.left:
            self.left -= 1
            return self._aside(rows)
        self.rows.copy_(rows)
        if self.graph is None:
            self.graph = self._record(self.rows)
        self.graph.replay()
        return self.result.clone()

    def _aside(self, rows: Tensor) -> Tensor:
        """Run the function on the stream on which it will be recorded."""
        current = torch.cuda.current_stream(rows.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            result = self.function(rows)
        current.wait_stream(self.stream)
        return result

    def _record(self, rows: Tensor) -> torch.cuda.CUDAGraph:
        """Record the kernels, which does not run them."""
        graph = torch.cuda.CUDAGraph()
        # Other threads may use the device meanwhile, but for its default generator.
        with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
            self.result = self.function(rows)
        return graph
