"""Objects to trees of plain values, with their tensors beside them."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable
from typing import Any, get_args, get_origin

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ma_sbi.protocols import Encoder
from ma_sbi.saving import Packed
from ma_sbi.storing.cells import is_known_type, pack_cells, to_numbers
from ma_sbi.storing.forms import form_of

__all__ = ["NotSaved", "Packer"]

OUR_MODELS = "ma_sbi.posteriors."
# Integers of JSON that every reader has.
LARGEST = 2**63


class NotSaved(UserWarning):
    """Something is code of the user's own, and has to be passed again at loading."""


class Packer:
    """Turns objects into trees; equal tensors are kept once.

    Attributes:
        tensors: All tensors of the trees, by number.
        yours: What is the user's own and was left out, by what it is for.
    """

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.yours: dict[str, str] = {}
        self._numbers: dict[bytes, str] = {}

    def pack(self, value: Any, hint: Any = Any) -> Any:
        """Turn an object into a tree.

        Args:
            value: The object.
            hint: What its place is declared to hold.

        Raises:
            ValueError: If some part of it cannot be kept.
        """
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, int) and abs(value) < LARGEST:
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"is": "float", "value": str(value)}
        if isinstance(value, Packed):
            return {"is": "model", **self._model(value)}
        if isinstance(value, (tuple, list)):
            kind = "tuple" if isinstance(value, tuple) else "list"
            inner = (get_args(hint) or (Any,))[0]
            return {"is": kind, "items": [self.pack(one, inner) for one in value]}
        if isinstance(value, dict):
            items = [[self.pack(key), self.pack(one)] for key, one in value.items()]
            return {"is": "dict", "items": items}
        if isinstance(value, Tensor):
            return {"is": "tensor", **self._tensor(value)}
        if isinstance(value, np.ndarray):
            if value.dtype == object:
                return {"is": "cells", **self._cells(value)}
            return {"is": "array", **self._tensor(torch.from_numpy(value))}
        if isinstance(value, pd.Series):
            return {"is": "column", **self._column(value)}
        if isinstance(value, pd.DataFrame):
            columns = [self._column(value.iloc[:, i]) for i in range(value.shape[1])]
            names = self._cells(value.columns.tolist())
            return {"is": "table", "names": names, "columns": columns}
        return self._object(value, hint)

    def _object(self, value: Any, hint: Any) -> dict[str, Any]:
        form = form_of(value)
        if form is not None:
            values = form.values(value)
            form.check(values)
            packed = {
                name: self.pack(one, form.hints[name]) for name, one in values.items()
            }
            return {"is": "object", "class": type(value).__name__, "fields": packed}
        # What others derive from our classes does more than is written here.
        if type(value).__module__.startswith(OUR_MODELS) and hasattr(value, "packed"):
            return self.pack(value.packed())
        role = _role(hint)
        if role is None:
            raise ValueError(
                f"a {type(value).__name__} is code that ma-sbi does not know, and is not "
                "saved"
            )
        self.yours[role] = type(value).__name__
        return {"is": "yours", "role": role}

    def _model(self, model: Packed) -> dict[str, Any]:
        groups = {
            group: {
                name: self._tensor(one.contiguous())["number"]
                for name, one in members.items()
            }
            for group, members in model.groups.items()
        }
        return {"kind": model.kind, "settings": model.settings, "groups": groups}

    def warn(self, stacklevel: int) -> None:
        """Say what was left out."""
        for role, name in self.yours.items():
            warnings.warn(
                f"the {role} is a {name}, which is code of another package or your own and "
                f"is not saved: pass it again, as load_corrector(path, {role}=...)",
                NotSaved,
                stacklevel=stacklevel + 1,
            )

    def _tensor(self, value: Tensor) -> dict[str, Any]:
        """Keep a tensor with the order of its dimensions in memory.

        Products of matrices round differently in another order.
        """
        value = value.detach().cpu()
        order = sorted(range(value.ndim), key=lambda dim: -value.stride()[dim])
        if not value.permute(order).is_contiguous():
            order = list(range(value.ndim))
        dense = value.permute(order).contiguous()
        key = hashlib.sha256(repr((dense.dtype, tuple(dense.shape))).encode())
        key.update(dense.numpy().tobytes())
        number = self._numbers.setdefault(key.digest(), str(len(self._numbers)))
        self.tensors[number] = dense
        is_plain = order == list(range(value.ndim))
        return {"number": number} | ({} if is_plain else {"order": order})

    def _cells(self, values: Any) -> dict[str, Any]:
        cells = pack_cells(list(values))
        return {name: self._tensor(one) for name, one in cells._asdict().items()}

    def _column(self, column: pd.Series) -> dict[str, Any]:
        dtype = str(column.dtype)
        if not is_known_type(dtype):
            raise ValueError(f"a context has a column of {dtype}, which is not saved")
        numbers = to_numbers(column)
        if numbers is not None:
            return {"dtype": dtype, "numbers": self._tensor(numbers)}
        packed: dict[str, Any] = {
            "dtype": dtype,
            "cells": self._cells(column.astype(object)),
        }
        if dtype == "category":
            categories = self._column(pd.Series(column.cat.categories))
            packed |= {"categories": categories, "ordered": bool(column.cat.ordered)}
        return packed


def _role(hint: Any) -> str | None:
    """Tell what the user's own code may be, in a place that is declared so."""
    declared = (hint, *get_args(hint))
    if Encoder in declared:
        return "encoder"
    if any(one is Callable or get_origin(one) is Callable for one in declared):
        return "density"
    return None
