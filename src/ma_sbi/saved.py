"""What the header of a model file claims, compared with the tensors that it holds.

A file may come from anywhere. Whatever is made from it, a size, a choice, a network, is
compared with its tensors before anything is allocated.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any, NoReturn, TypeVar

import torch
from torch import Tensor, nn

from ma_sbi.display.text import shorten

__all__ = ["Saved", "num_weights"]

INDICES = (torch.int32, torch.int64)
Network = TypeVar("Network", bound=nn.Module)


def num_weights(widths: Sequence[int]) -> int:
    """Count the weights between layers of these widths.

    Example:
        >>> num_weights([2, 10, 3])
        50
    """
    return sum(before * after for before, after in pairwise(widths))


class Saved:
    """A model file that was read; every method refuses what does not fit.

    Args:
        name: The file, as errors name it.
        settings: What its header says.
        groups: Its tensors, by group and name; all of them are finite.
    """

    def __init__(
        self, name: str, settings: dict[str, Any], groups: dict[str, dict[str, Tensor]]
    ) -> None:
        self.name = name
        self.settings = settings
        self.groups = groups

    def refuse(self, why: str) -> NoReturn:
        """Raise an error that names the file."""
        raise ValueError(f"{self.name} {why}")

    def setting(self, name: str) -> Any:
        """Return a setting that must be there."""
        if name not in self.settings:
            self.refuse(f"has no {name} in its header")
        return self.settings[name]

    def count(self, name: str, *, least: int = 1, most: int | None = None) -> int:
        """Return a setting that is an integer in this range."""
        value = self._count(self.setting(name), name, least)
        if most is not None and value > most:
            self._refuse_setting(name, f"at most {most}", value)
        return value

    def counts(self, name: str) -> list[int]:
        """Return a setting that is a list of positive integers."""
        values = self.setting(name)
        if not isinstance(values, list) or len(values) > self._num_tensors:
            self._refuse_setting(name, "a list of positive integers", values)
        return [self._count(value, name, 1) for value in values]

    def choice(self, name: str, known: Collection[str]) -> str:
        """Return a setting that is one of these words."""
        value = self.setting(name)
        if not isinstance(value, str) or value not in known:
            self._refuse_setting(name, f"one of {sorted(known)}", value)
        return value

    def number(self, name: str) -> float:
        """Return a setting that is a finite number."""
        value = self.setting(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self._refuse_setting(name, "a number", value)
        if abs(value) > torch.finfo(torch.float64).max:  # an integer of any length
            self._refuse_setting(name, "a finite number", value)
        return float(value)

    def group(self, name: str) -> dict[str, Tensor]:
        """Return a group of tensors that must be there."""
        if name not in self.groups:
            self.refuse(f"has no tensors of its {name}")
        return self.groups[name]

    def tensor(
        self,
        group: str,
        name: str,
        shape: Sequence[int | None],
        *,
        dtype: torch.dtype = torch.float32,
        positive: bool = False,
    ) -> Tensor:
        """Return a tensor of this shape and type; None is any length but zero."""
        members = self.group(group)
        if name not in members:
            self.refuse(f"has no tensor '{group}/{name}'")
        found = members[name]
        fits = len(found.shape) == len(shape) and all(
            size == wanted if wanted is not None else size > 0
            for size, wanted in zip(found.shape, shape, strict=True)
        )
        if not fits or found.dtype != dtype:
            wanted = ", ".join("any" if one is None else str(one) for one in shape)
            self.refuse(
                f"holds tensor '{group}/{name}' as {_form(found)}, expected {dtype} of "
                f"shape ({wanted})"
            )
        if positive and not (found > 0).all():
            self.refuse(f"holds tensor '{group}/{name}', which must be positive")
        return found

    def require_weights(
        self, groups: Collection[str], *, layers: int, weights: int, hint: str = ""
    ) -> None:
        """Refuse a header whose networks would have more weights than its tensors.

        Args:
            groups: Groups of the tensors.
            layers: Number of layers that the header claims, each with a tensor at least.
            weights: Number of weights that these have at least.
            hint: How the error goes on.
        """
        tensors = [tensor for group in groups for tensor in self.group(group).values()]
        numbers = sum(tensor.numel() for tensor in tensors)
        if layers > len(tensors) or weights > numbers:
            self.refuse(
                f"does not fit its header, which claims {_written(layers)} layers of at "
                f"least {_written(weights)} weights, where it holds {len(tensors)} tensors "
                f"of {numbers} numbers{hint}"
            )

    def fill(self, network: Network, group: str, hint: str = "") -> Network:
        """Give a network its tensors, of the same names, shapes and types."""
        given, wanted = self.group(group), network.state_dict()
        for name in [*wanted, *given]:
            shown = shorten(repr(f"{group}/{name}"))
            if name not in given or name not in wanted:
                lack = "lacks" if name not in given else "also holds"
                self.refuse(f"does not fit its header: it {lack} tensor {shown}{hint}")
            here, there = given[name], wanted[name]
            if here.shape != there.shape or here.dtype != there.dtype:
                self.refuse(
                    f"does not fit its header: tensor {shown} is {_form(here)}, expected "
                    f"{_form(there)}{hint}"
                )
            if here.dtype in INDICES and not _within(here, there):
                self.refuse(f"holds indices out of range in tensor {shown}")
        network.load_state_dict(given)
        return network

    @property
    def _num_tensors(self) -> int:
        return sum(map(len, self.groups.values()))

    def _count(self, value: Any, name: str, least: int) -> int:
        if type(value) is not int or value < least:
            form = "a positive integer" if least else "an integer of at least 0"
            self._refuse_setting(name, form, value)
        return value

    def _refuse_setting(self, name: str, wanted: str, found: Any) -> NoReturn:
        self.refuse(
            f"has {name} = {shorten(_written(found), 80)} in its header, expected {wanted}"
        )


def _within(indices: Tensor, known: Tensor) -> bool:
    return known.numel() == 0 or bool(((indices >= 0) & (indices <= known.max())).all())


def _form(tensor: Tensor) -> str:
    return f"{tensor.dtype} of shape {shorten(tuple(tensor.shape), 80)}"


def _written(value: Any) -> str:
    """Print a value; Python refuses to print integers of thousands of digits."""
    if isinstance(value, int) and value.bit_length() > 1_000:
        return f"an integer of {value.bit_length()} bits"
    return repr(value)
