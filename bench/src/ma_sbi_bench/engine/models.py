"""Posteriors that cells share: how they are trained, and a folder that keeps them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ma_sbi.writing import write_text, written_whole
from ma_sbi_bench.engine.cell import Backbone
from ma_sbi_bench.engine.leftovers import set_aside

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.distributions import Distribution

    from ma_sbi_bench.tasks import Task
    from ma_sbi_bench.tasks.fortnight import FortnightSimulator

__all__ = ["Models", "fit_backbone"]

# Of a flow a draw is one evaluation, quick anywhere.
DRAWN_THERE = ("ddpm",)


class Models:
    """A cache of trained posteriors, in a folder; each definition is trained once.

    Beside each file is its checksum: a weight that has changed shows nowhere else. Files
    that were written before there were checksums have none. A third file says how long the
    training took, and where.

    Args:
        folder: Folder of the posteriors; made when the first one is trained.
        device: Where posteriors are trained, and diffusion models drawn from. It is not
            part of their definition.
    """

    def __init__(self, folder: str | Path, device: str = "cpu") -> None:
        self.folder = Path(folder)
        self.device = device

    def has(self, backbone: Backbone) -> bool:
        """Tell whether a posterior is trained already, and its file is whole."""
        return self._file(backbone).exists() and not self.damaged([backbone])

    def damaged(self, backbones: Iterable[Backbone]) -> dict[Path, str]:
        """Return the files of these posteriors that are damaged, and how."""
        files = {self._file(one): None for one in backbones}
        found = {file: _damage(file) for file in files if file.exists()}
        return {file: how for file, how in found.items() if how}

    def posterior(self, backbone: Backbone) -> Any:
        """Read a posterior, after training it if need be."""
        file = self._file(backbone)
        if not self.has(backbone):
            set_aside(self.damaged([backbone]))
            start, busy = time.perf_counter(), time.process_time()
            posterior = train(backbone, self.device)
            took = {
                "seconds": round(time.perf_counter() - start, 2),
                "cpu_seconds": round(time.process_time() - busy, 2),
                "device": self.device,
            }
            # First: who reads meanwhile must not compare a new file with an old checksum.
            _checksum_file(file).unlink(missing_ok=True)
            with written_whole(file) as unfinished:
                posterior.save(unfinished)
                written = _checksum(unfinished)
            write_text(_checksum_file(file), written)
            write_text(file.with_suffix(".json"), json.dumps(took))
        device = self.device if backbone.kind in DRAWN_THERE else "cpu"
        return kinds()[backbone.kind][1](file, _world(backbone).prior, device=device)

    def training(self, backbone: Backbone) -> dict[str, Any]:
        """Say how long the training took and where; empty if it is unknown.

        Returns:
            ``seconds``, ``cpu_seconds`` (of the processor) and ``device``.
        """
        try:
            return json.loads(self._file(backbone).with_suffix(".json").read_bytes())
        except (OSError, ValueError):
            return {}

    def _file(self, backbone: Backbone) -> Path:
        return self.folder / f"{backbone.key}.posterior"


def _damage(file: Path) -> str:
    """Say how the file of a posterior is damaged; empty if it is not."""
    from ma_sbi.saving import kind_of

    if not file.is_file():  # to open a pipe would wait for ever
        return "it is not a plain file"
    try:
        kind_of(file)
        written = _checksum_file(file)
        if written.is_file() and written.read_text(encoding="utf-8") != _checksum(file):
            return "its content is not what was written: the checksum is another"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    except ValueError as error:
        return str(error)
    return ""


def _checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _checksum_file(file: Path) -> Path:
    return file.with_suffix(".sha256")


def fit_backbone(kind: str, **options: Any) -> Callable[..., Any]:
    """Return the function that trains a kind of posterior with these options."""
    if kind not in kinds():
        raise ValueError(f"there is no posterior {kind!r}; known are {', '.join(kinds())}")
    return partial(kinds()[kind][0], **options)


def train(backbone: Backbone, device: str = "cpu") -> Any:
    """Train a posterior by its definition, on a device."""
    world = _world(backbone)
    theta, x = _simulate(world, backbone.num_simulations, backbone.seed)
    fit = fit_backbone(backbone.kind, **backbone.options)
    return fit(world.prior, theta, x, seed=backbone.seed, device=device)


@cache
def kinds() -> dict[str, tuple[Callable[..., Any], Callable[..., Any]]]:
    """List what can be trained: the function that trains it, and that which reads it.

    All but ``"density"``, that of the simulations, are posteriors.
    """
    # Imported late: sbi takes seconds, and many cells need no posterior.
    from ma_sbi import fit_density, load_density
    from ma_sbi.posteriors import fit_ddpm, fit_flow, load_ddpm, load_flow
    from ma_sbi.saving import read
    from ma_sbi_bench.methods import NNPE, Materials, Simulations
    from ma_sbi_bench.methods.nnpe import load_nnpe

    fit_maf = partial(fit_flow, flow="maf", batch_size=1000)

    def fit_embedded(prior: Distribution, theta: Tensor, x: Tensor, **options: Any) -> Any:
        net = _embedding_net(x.shape[1], theta.shape[1])
        return fit_maf(prior, theta, x, embedding_net=net, **options)

    def load_embedded(path: Path, prior: Distribution, device: str = "cpu") -> Any:
        saved = read(path, "flow")
        dim_x, dim_theta = saved.count("dim_x"), saved.count("dim_theta")
        saved.tensor("training_range", "center", (dim_x,))
        saved.require_weights(["estimator"], layers=1, weights=64 * (dim_x + dim_theta))
        net = _embedding_net(dim_x, dim_theta)
        return load_flow(path, prior, embedding_net=net, device=device)

    def fit_nnpe(
        prior: Distribution, theta: Tensor, x: Tensor, *, seed: int, **options: Any
    ) -> Any:
        given = Materials(prior=prior, simulations=Simulations(theta, x))
        return NNPE(partial(fit_maf, **options)).fit(given, seed=seed)

    def fit_first(
        prior: Distribution,
        theta: Tensor,
        x: Tensor,
        *,
        most_simulations: int | None = None,
        **options: Any,
    ) -> Any:
        return fit_density(x[:most_simulations], **options)

    return {
        "ddpm": (fit_ddpm, load_ddpm),
        "maf": (fit_maf, load_flow),
        "embedded": (fit_embedded, load_embedded),
        "nnpe": (fit_nnpe, lambda path, prior, device="cpu": load_nnpe(path, prior)),
        "density": (fit_first, lambda path, prior, device="cpu": load_density(path)),
    }


def _embedding_net(dim_x: int, dim_theta: int) -> torch.nn.Module:
    """Make a network to three summaries per parameter, as many as RoPE's authors take."""
    from ma_sbi.networks import perceptron

    return perceptron(dim_x, 3 * dim_theta, layers=4, hidden=64)


def _world(backbone: Backbone) -> Task | FortnightSimulator:
    """Make the world that a posterior is trained in."""
    from ma_sbi_bench.tasks import TASKS, get_task
    from ma_sbi_bench.tasks.fortnight import FortnightSimulator

    if backbone.world in TASKS:
        return get_task(backbone.world, **backbone.world_options)
    if backbone.world == "fortnight":
        return FortnightSimulator(**backbone.world_options)
    raise ValueError(f"there is no world {backbone.world!r} to train a posterior on")


def _simulate(
    world: Task | FortnightSimulator, num: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Draw parameters and simulate data."""
    from ma_sbi.randomness import derive, seeded
    from ma_sbi_bench.tasks import Task

    if isinstance(world, Task):
        draws = world.draw(num, seed=seed)
        return draws.theta, draws.x_sim
    with seeded(derive(seed, "prior")):
        theta = world.prior.sample((num,))
    return theta, world.simulate(theta, seed=seed)
