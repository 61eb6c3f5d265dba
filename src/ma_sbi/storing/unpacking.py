"""Trees that came from a file to objects; nothing that a file says is trusted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from ma_sbi.display.text import shorten
from ma_sbi.saved import Saved
from ma_sbi.storing.cells import Cells, from_numbers, is_known_type, unpack_cells
from ma_sbi.storing.forms import FORMS

__all__ = ["Unpacker"]

# An object of an object of ...: correctors have ten levels.
DEEPEST = 60
NOT_FINITE = {"nan", "inf", "-inf"}
# Cells that a file may hold: those of a column are made of three tensors, as a column and
# in a table.
FEW_CELLS = 1_000_000
CELLS_PER_NUMBER = 4

Models = Mapping[str, Callable[[Saved], Any]]
"""What makes a model of each kind from its settings and tensors."""


class Unpacker:
    """Makes objects of registered classes, and of no others.

    Args:
        saved: The file; its group ``tensors`` has all tensors by number.
        models: Makes models, by kind.
        yours: What the caller passed in place of what could not be saved, by role.
    """

    def __init__(self, saved: Saved, models: Models, yours: Mapping[str, Any]) -> None:
        self.saved = saved
        self.models = models
        self.yours = {role: one for role, one in yours.items() if one is not None}
        self.roles: set[str] = set()
        self._tensors = saved.groups.get("tensors", {})
        self._made: dict[str, Tensor] = {}
        self._tables: dict[str, Any] = {}
        numbers = sum(one.numel() for one in self._tensors.values())
        self._cells_left = FEW_CELLS + CELLS_PER_NUMBER * numbers
        self._makers: dict[str, Callable[[dict[str, Any], int], Any]] = {
            "float": self._float,
            "tuple": lambda node, depth: tuple(self._items(node, depth)),
            "list": self._items,
            "dict": self._dict,
            "tensor": lambda node, depth: self._tensor(node),
            "array": lambda node, depth: self._tensor(node).numpy(),
            "cells": lambda node, depth: self._once(self._cells, node),
            "column": lambda node, depth: self._once(self._column, node),
            "table": lambda node, depth: self._once(self._table, node),
            "object": self._object,
            "model": self._model,
            "yours": self._own,
        }

    def unpack(self, tree: Any) -> Any:
        """Make the object of a whole file.

        Raises:
            ValueError: If it does not fit.
        """
        made = self._unpack(tree, 0)
        for name in self._tensors:
            if name not in self._made:
                self.saved.refuse(f"also holds tensor {shorten(repr(name))}")
        return made

    def _unpack(self, node: Any, depth: int) -> Any:
        if depth > DEEPEST:
            self.saved.refuse("holds objects within objects without end")
        if node is None or isinstance(node, (bool, int, float, str)):
            return node
        kind = node.get("is") if isinstance(node, dict) else None
        if not isinstance(kind, str) or kind not in self._makers:
            self.saved.refuse(
                f"holds {shorten(repr(kind))}, which is nothing that is known"
            )
        try:
            return self._makers[kind](node, depth + 1)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            self.saved.refuse(f"holds a {kind} that is not of its form: {shorten(error)}")

    def _object(self, node: dict[str, Any], depth: int) -> Any:
        name, fields = node["class"], node["fields"]
        form = FORMS.get(name) if isinstance(name, str) else None
        if form is None:
            self.saved.refuse(f"holds a {shorten(name)}, which this version does not know")
        values = {key: self._unpack(one, depth) for key, one in fields.items()}
        try:
            return form.make(values)
        except (ValueError, TypeError) as error:
            self.saved.refuse(f"does not fit: {shorten(error, 300)}")

    def _model(self, node: dict[str, Any], depth: int) -> Any:
        kind, settings = node["kind"], node["settings"]
        if not isinstance(kind, str) or kind not in self.models:
            self.saved.refuse(f"holds a {shorten(repr(kind))}, which is no model")
        if not isinstance(settings, dict):
            self.saved.refuse("holds a model without settings")
        groups = {
            group: {name: self._numbered(number) for name, number in members.items()}
            for group, members in node["groups"].items()
        }
        for members in groups.values():
            if not all(one.isfinite().all() for one in members.values()):
                self.saved.refuse("holds numbers that are not finite (NaN or infinite)")
        return self.models[kind](Saved(self.saved.name, dict(settings), groups))

    def _own(self, node: dict[str, Any], depth: int) -> Any:
        role = node["role"]
        if role not in ("encoder", "density"):
            self.saved.refuse(f"wants {shorten(repr(role))}, which is nothing to pass")
        self.roles.add(role)
        if role not in self.yours:
            self.saved.refuse(
                f"does not hold its {role}, which is code: pass the one that it was fitted "
                f"with, {role}="
            )
        return self.yours[role]

    def _items(self, node: dict[str, Any], depth: int) -> list[Any]:
        if not isinstance(node["items"], list):
            self.saved.refuse("holds a list that is none")
        return [self._unpack(one, depth) for one in node["items"]]

    def _dict(self, node: dict[str, Any], depth: int) -> dict[Any, Any]:
        return {self._unpack(k, depth): self._unpack(v, depth) for k, v in node["items"]}

    def _float(self, node: dict[str, Any], depth: int) -> float:
        if node["value"] not in NOT_FINITE:
            self.saved.refuse("holds a number that is none")
        return float(node["value"])

    def _numbered(self, number: Any) -> Tensor:
        if not isinstance(number, str) or number not in self._tensors:
            self.saved.refuse(f"has no tensor {shorten(repr(number))}")
        if number not in self._made:
            # A copy: where a file begins a tensor may change how sums are rounded.
            self._made[number] = self._tensors[number].clone()
        return self._made[number]

    def _tensor(self, node: dict[str, Any]) -> Tensor:
        dense = self._numbered(node["number"])
        order = node.get("order")
        if order is None:
            return dense
        if sorted(order) != list(range(dense.ndim)):
            self.saved.refuse("holds a tensor of another number of dimensions")
        return dense.permute(np.argsort(order).tolist())

    def _once(self, make: Callable[[dict[str, Any]], Any], node: dict[str, Any]) -> Any:
        """Make what is written alike once: parts of a corrector share their contexts."""
        key = f"{make.__name__} {json.dumps(node, sort_keys=True)}"
        if key not in self._tables:
            self._tables[key] = make(node)
        return self._tables[key]

    def _spend(self, num_cells: int) -> None:
        """Refuse a file that names few tensors so often that its cells fill the memory."""
        self._cells_left -= num_cells
        if self._cells_left < 0:
            self.saved.refuse("holds more cells than its tensors can have")

    def _cells(self, node: dict[str, Any]) -> np.ndarray:
        cells = Cells(*(self._tensor(node[name]) for name in Cells._fields))
        self._spend(len(cells.kinds) if cells.kinds.ndim else 0)
        try:
            return unpack_cells(cells)
        except ValueError as error:
            self.saved.refuse(shorten(error, 200))

    def _column(self, node: dict[str, Any]) -> pd.Series:
        dtype = node["dtype"]
        if not isinstance(dtype, str) or not is_known_type(dtype):
            self.saved.refuse(f"holds a column of {shorten(repr(dtype))}")
        try:
            if "numbers" in node:
                return from_numbers(self._tensor(node["numbers"]), dtype)
            column = pd.Series(self._once(self._cells, node["cells"]), dtype=object)
            self._spend(len(column))
            if dtype == "category":
                categories = self._column(node["categories"])
                kind = pd.CategoricalDtype(categories, ordered=node["ordered"] is True)
                return column.astype(kind)
            return column.astype(dtype)
        except (ValueError, TypeError, OverflowError) as error:
            self.saved.refuse(f"holds a column that is none: {shorten(error, 200)}")

    def _table(self, node: dict[str, Any]) -> pd.DataFrame:
        columns, names = node["columns"], self._cells(node["names"])
        if not isinstance(columns, list) or len(columns) != len(names) or not columns:
            self.saved.refuse("holds a table with other columns than names")
        parts = [self._once(self._column, one) for one in columns]
        self._spend(sum(map(len, parts)))
        if len({len(part) for part in parts}) > 1:
            self.saved.refuse("holds a table of columns of different lengths")
        table = pd.concat(parts, axis=1)
        table.columns = pd.Index(list(names))
        return table
