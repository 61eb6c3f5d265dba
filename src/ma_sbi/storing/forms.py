"""Classes that can be kept in a file, and what their fields must be.

Types of fields are those that the class declares. Shapes of tensors are words::

    @stored(encoding="contexts dim_z?", codes="n < contexts", least="?")

Equal words are equal lengths, within one object; the length of a list has the name of its
field. Numbers must be finite, unless a question mark says that they need not be. ``n < m``
are indices below m, ``...`` is any shape, ``<1000`` an integer from 1 to 999. ``-`` is not
kept: None takes its place.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cached_property
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin
from typing import get_type_hints as hints_of

import numpy as np
import pandas as pd
import torch
from torch import Tensor

__all__ = ["FORMS", "Form", "form_of", "stored"]

Class = TypeVar("Class", bound=type)
FORMS: dict[str, Form] = {}
"""Every class that can be kept, by name."""
# What `ArrayLike` is written with, as modules that only declare it do not import these.
OF_ROWS = {"np": np, "pd": pd, "Sequence": Sequence, "Tensor": Tensor}
PLAIN = (bool, int, float, str, bytes, tuple, list, dict, NoneType)


class Shape(NamedTuple):
    """What a declaration says of a field.

    Attributes:
        dims: Names of the dimensions; None if there may be any.
        below: Indices are below the length of this name, or integers below this number.
        finite: Whether all numbers are finite.
    """

    dims: tuple[str, ...] | None = None
    below: str | None = None
    finite: bool = True

    @classmethod
    def read(cls, words: str) -> Shape:
        """Read a declaration."""
        dims, _, below = words.partition("<")
        finite = not dims.rstrip().endswith("?")
        names = tuple(dims.replace("?", "").split())
        anything = names == ("...",) or not (names or below)
        return cls(None if anything else names, below.strip() or None, finite)


class Form:
    """How objects of one class are kept.

    Args:
        cls: The class.
        fitted: Attributes that are no parameters: they are set after it is made.
        shapes: Declared shapes, by field.
    """

    def __init__(self, cls: type, fitted: Sequence[str], shapes: Mapping[str, str]) -> None:
        self.cls = cls
        self.fitted = tuple(fitted)
        self.left_out = {name for name, words in shapes.items() if words == "-"}
        self.shapes = {
            name: Shape.read(words)
            for name, words in shapes.items()
            if name not in self.left_out
        }

    @cached_property
    def passed(self) -> tuple[str, ...]:
        """The parameters, which are attributes of the same name."""
        names = inspect.signature(self.cls).parameters
        return tuple(name for name in names if name not in self.left_out)

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The declared type of each field."""
        declared = hints_of(self.cls)
        if not is_dataclass(self.cls):
            init = vars(self.cls).get("__init__", object.__init__)
            declared |= hints_of(init, localns=OF_ROWS)
        return {name: declared.get(name, Any) for name in (*self.passed, *self.fitted)}

    def values(self, one: Any) -> dict[str, Any]:
        """Return the fields of an object; if it is not fitted, its parameters alone."""
        is_fitted = all(hasattr(one, name) for name in self.fitted)
        names = (*self.passed, *(self.fitted if is_fitted else ()))
        return {name: getattr(one, name) for name in names}

    def make(self, values: Mapping[str, Any]) -> Any:
        """Make an object of its fields.

        Raises:
            ValueError: If they do not fit.
        """
        self.check(values)
        left_out = dict.fromkeys(self.left_out)
        made = self.cls(**{name: values[name] for name in self.passed}, **left_out)
        for name in values.keys() & self.fitted:
            setattr(made, name, values[name])
        return made

    def check(self, values: Mapping[str, Any]) -> None:
        """Check fields against what is declared.

        Raises:
            ValueError: If one is missing, unknown, or of another type or shape.
        """
        if values.keys() not in (self.hints.keys(), set(self.passed)):
            other = min(values.keys() ^ self.hints.keys())
            lack = "lacks" if other in self.hints else "also has"
            raise ValueError(f"{self.cls.__name__} {lack} {other[:60]}")
        sizes = {
            name: len(one)
            for name, one in values.items()
            if isinstance(one, (tuple, list, pd.Series, pd.DataFrame))
        }
        for name, value in values.items():
            shape = self.shapes.get(name, Shape())
            if not _fits(value, self.hints[name]):
                self._refuse(name, f"is a {type(value).__name__}")
            self._check_numbers(name, value, shape, sizes)
        for name in values.keys() & self.shapes.keys():
            shape = self.shapes[name]
            if shape.below is not None and shape.dims:
                self._check_indices(name, values[name], sizes[shape.below])

    def _check_numbers(
        self, name: str, value: Any, shape: Shape, sizes: dict[str, int]
    ) -> None:
        if isinstance(value, (tuple, list)):
            for one in value:
                self._check_numbers(name, one, shape, sizes)
        elif isinstance(value, float):
            if shape.finite and not math.isfinite(value):
                self._refuse(name, "is not finite (NaN or infinite)")
        elif type(value) is int and shape.below is not None:
            if not 0 < value < int(shape.below):
                self._refuse(name, f"is not between 1 and {int(shape.below) - 1}")
        elif isinstance(value, (Tensor, np.ndarray)) and value.dtype != object:
            self._check_tensor(name, torch.as_tensor(value), shape, sizes)

    def _check_tensor(
        self, name: str, value: Tensor, shape: Shape, sizes: dict[str, int]
    ) -> None:
        if value.is_floating_point() != (shape.below is None):
            self._refuse(name, f"is of type {value.dtype}")
        if shape.finite and not value.isfinite().all():
            self._refuse(name, "is not finite (NaN or infinite)")
        if shape.dims is None:
            return
        found = tuple(value.shape)
        fits = len(found) == len(shape.dims) and all(
            size == (int(dim) if dim.isdecimal() else sizes.setdefault(dim, size))
            for size, dim in zip(found, shape.dims, strict=True)
        )
        if not fits:
            known = (f"{dim} = {sizes[dim]}" for dim in shape.dims if dim in sizes)
            wanted = f"({', '.join(shape.dims)}), with {', '.join(known) or 'no others'}"
            self._refuse(name, f"has shape {found}, expected {wanted}")

    def _check_indices(self, name: str, value: Tensor, below: int) -> None:
        if value.numel() and not (0 <= int(value.min()) <= int(value.max()) < below):
            self._refuse(name, f"has indices that are not below {below}")

    def _refuse(self, name: str, why: str) -> None:
        raise ValueError(f"{name} of {self.cls.__name__} {why}")


def stored(*fitted: str, **shapes: str) -> Callable[[Class], Class]:
    """Register a class whose objects can be kept in a file.

    Its parameters must be attributes of the same name.

    Args:
        fitted: Attributes besides, which are set after it is made.
        shapes: What fields must be, in the words of this module.
    """

    def register(cls: Class) -> Class:
        FORMS[cls.__name__] = Form(cls, fitted, shapes)
        return cls

    return register


def form_of(value: Any) -> Form | None:
    """Return how an object is kept; None if its class is not registered."""
    form = FORMS.get(type(value).__name__)
    return form if form is not None and form.cls is type(value) else None


def _fits(value: Any, hint: Any) -> bool:
    """Tell whether a value is of a declared type."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in inner)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if inner[-1] is Ellipsis:
            return all(_fits(one, inner[0]) for one in value)
        return len(value) == len(inner) and all(map(_fits, value, inner))
    if origin is dict:
        key, held = inner
        return isinstance(value, dict) and all(
            _fits(one, key) and _fits(two, held) for one, two in value.items()
        )
    if origin in (list, Sequence):
        return isinstance(value, (tuple, list)) and all(
            _fits(one, inner[0]) for one in value
        )
    if origin is Callable:
        return callable(value)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return type(value) is int
    if getattr(hint, "_is_protocol", False):
        return not isinstance(value, PLAIN)
    return isinstance(value, hint)
