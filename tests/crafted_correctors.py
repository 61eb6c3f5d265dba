"""Files of correctors that somebody crafted: more of what ``crafted_models`` registers."""

from collections.abc import Callable
from typing import Any

import torch

from tests.crafted_models import Model, mutation


# Fields of objects that do not fit.
def _field(name: str, cls: str, field: str, value: Any) -> None:
    """Register a field of a corrector that takes another value."""

    @mutation(f"{cls}.{field} {name}", "corrector")
    def _(model: Model) -> None:
        model.claim(f"{cls}.{field}", value)


_field("is a text", "ResidualFit", "width", "wide")
_field("is a list", "ResidualFit", "others", {"is": "list", "items": []})
_field("is a number", "ResidualFit", "residuals", 1.0)
_field("is nothing", "ResidualFit", "residuals", None)
_field("is NaN", "ResidualFit", "others", {"is": "float", "value": "nan"})
_field("is code", "ResidualFit", "others", {"is": "float", "value": "__import__('os')"})
_field("is of no kind", "ResidualFit", "others", {"is": "pickle", "value": "gASV"})
_field("is of a list of kinds", "ResidualFit", "others", {"is": ["float"]})
_field("is a bare list", "ResidualFit", "others", [1.0])
_field("is no tensor", "ResidualFit", "codes", {"is": "tensor", "number": "none"})
_field("has no number", "ResidualFit", "codes", {"is": "tensor"})
_field("is more", "ResidualFit", "more", 1.0)
_field("is a text", "SeenContexts", "encoder", "HashEncoder")
_field("is a dict", "SeenContexts", "repeat", {"is": "dict", "items": [1]})
_field("is of words", "SeenContexts", "names", {"is": "tuple", "items": ["a"]})
_field("is no object", "ComposedCorrector", "fitted_", {"is": "object"})
_field(
    "is of an unknown class",
    "ComposedCorrector",
    "fitted_",
    {"is": "object", "class": "os.system", "fields": {"command": "true"}},
)
_field(
    "is yours",
    "ComposedCorrector",
    "fitted_",
    {"is": "yours", "role": "fit"},
)
_field(
    "is of another class",
    "ComposedCorrector",
    "departure_",
    {"is": "object", "class": "Point", "fields": {}},
)
_field(
    "is a model of no kind",
    "ComposedCorrector",
    "inference_",
    {"is": "model", "kind": "oracle", "settings": {}, "groups": {}},
)
_field(
    "is a model without tensors",
    "Evidence",
    "log_density",
    {"is": "model", "kind": "density", "settings": {}, "groups": {}},
)
_field(
    "is a column of objects",
    "SeenContexts",
    "known",
    {"is": "column", "dtype": "object", "numbers": {"number": "0"}},
)
_field(
    "is a column of no type",
    "SeenContexts",
    "known",
    {"is": "column", "dtype": "void", "numbers": {"number": "0"}},
)
_field("is an empty table", "SeenContexts", "known", {"is": "table", "columns": []})


def _change(name: str, cls: str, field: str, change: Callable[..., torch.Tensor]) -> None:
    """Register a tensor of a field that is changed."""

    @mutation(f"{cls}.{field} {name}", "corrector")
    def _(model: Model) -> None:
        # Equal tensors are kept once: this one gets a number of its own.
        node = model.fields(cls)[field]
        old = model.tensors[f"tensors/{node['number']}"]
        node["number"] = "changed"
        model.tensors["tensors/changed"] = change(old.clone()).contiguous()


_change("is cut", "ResidualFit", "residuals", lambda old: old[:-1])
_change("is transposed", "ResidualFit", "residuals", lambda old: old.T)
_change("has another dimension", "ResidualFit", "residuals", lambda old: old[None])
_change("is NaN", "ResidualFit", "residuals", lambda old: old * torch.nan)
_change("is infinite", "ResidualFit", "atoms", lambda old: old / 0)
_change("is of integers", "ResidualFit", "atoms", lambda old: old.long())
_change("is of numbers", "ResidualFit", "codes", lambda old: old.double())
_change("is beyond the contexts", "ResidualFit", "codes", lambda old: old + 100)
_change("is negative", "ResidualFit", "codes", lambda old: old - 100)
_change("is beyond the atoms", "ResidualFit", "atom", lambda old: old + 100)
_change("is narrow", "ResidualFit", "encoding", lambda old: old[:, :-1])
_change("is wide", "SeenContexts", "encoding", lambda old: old.repeat(1, 2))
_change("is of one context", "SeenContexts", "encoding", lambda old: old[:1])
_change("is other corrections", "Shown", "mean", lambda old: old + 1)
_change("is of other columns", "Shown", "x", lambda old: old.repeat(1, 2))


@mutation("a field is missing", "corrector")
def _(model: Model) -> None:
    model.fields("ResidualFit").pop("atoms")


@mutation("the order of dimensions is none", "corrector")
def _(model: Model) -> None:
    model.fields("ResidualFit")["residuals"]["order"] = [1, 1]


@mutation("objects within objects", "corrector")
def _(model: Model) -> None:
    for _ in range(100):
        model.settings["tree"] = {"is": "list", "items": [model.settings["tree"]]}


@mutation("the corrector is none", "corrector")
def _(model: Model) -> None:
    model.fields("Kept")["corrector"] = model.fields("ComposedCorrector")["encoder"]


@mutation("an object that is no corrector", "corrector")
def _(model: Model) -> None:
    model.settings["tree"] = model.fields("ComposedCorrector")["encoder"]


@mutation("encoders without end", "corrector")
def _(model: Model) -> None:
    wide = {"is": "object", "class": "HashEncoder", "fields": {"dim": 999_999}}
    many = {"is": "tuple", "items": [wide] * 1000}
    names = {"is": "tuple", "items": list(map(str, range(1000)))}
    model.fields("SeenContexts")["encoder"] = {
        "is": "object",
        "class": "TableEncoder",
        "fields": {"encoders": many, "encoders_": many, "names_": names},
    }


def _cells(name: str, change: Callable[[torch.Tensor], torch.Tensor], part: str) -> None:
    @mutation(f"cells: {name}", "corrector")
    def _(model: Model) -> None:
        number = model.fields("SeenContexts")["known"]["cells"][part]["number"]
        model.tensors[f"tensors/{number}"] = change(model.tensors[f"tensors/{number}"])


_cells("of unknown kinds", lambda old: old + 200, "kinds")
_cells("of another length", lambda old: old + 1, "lengths")
_cells("of a negative length", lambda old: old - 10, "lengths")
_cells("of huge lengths", lambda old: old + 2**62, "lengths")
_cells("that are no text", lambda old: old * 0 + 255, "text")
_cells("that are floats", lambda old: old.float(), "kinds")
