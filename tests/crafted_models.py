"""Model files that somebody crafted: each must be refused, in a sentence and at once.

A registry of mutations of small valid files (``MUTATIONS``), of bytes that are no such file
(``BYTES``), and of what else may be in its place (``PLACES``). Tests take it, and so may
scripts, started in the root of the repository, that count what was tried and what held::

    for name in names():
        print(name, refusal(make(name, new_folder())))
"""

import json
import os
import pickle
import struct
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save
from sbi.utils import BoxUniform

from ma_sbi import (
    ComposedCorrector,
    HashEncoder,
    fit_ddpm,
    fit_density,
    fit_flow,
    load_corrector,
    load_ddpm,
    load_density,
    load_flow,
)
from ma_sbi.correctors import Evidence, ResidualPools, Shift
from ma_sbi.saving import read

KINDS = ("flow", "ddpm", "density", "corrector")
LOADERS = {
    "flow": load_flow,
    "ddpm": load_ddpm,
    "density": load_density,
    "corrector": load_corrector,
}
HUGE = 10**9
ESCAPE = "\x1b[31m\x1b]0;title\x07"


class Crafted(NamedTuple):
    """A file that must be refused.

    Attributes:
        path: Where it is.
        load: What should refuse it.
    """

    path: Path
    load: Callable[[Path], Any]


@dataclass
class Model:
    """A valid model, to be damaged: its header and its tensors."""

    kind: str
    header: Any
    tensors: dict[str, torch.Tensor]

    @property
    def settings(self) -> dict[str, Any]:
        return self.header["settings"]

    @property
    def weight(self) -> str:
        """Name of a tensor of weights."""
        if self.kind == "corrector":
            return f"tensors/{self.node('model')['groups']['flow'][WEIGHT['density'][5:]]}"
        return WEIGHT[self.kind]

    @property
    def vector(self) -> str:
        """Name of a tensor of one dimension."""
        if self.kind == "corrector":
            return f"tensors/{self.node('model')['groups']['columns']['center']}"
        return VECTOR[self.kind]

    @property
    def main(self) -> str:
        """Name of a setting without which there is nothing."""
        names = {"flow": "dim_x", "ddpm": "hidden", "density": "hidden"}
        return names.get(self.kind, "tree")

    def nodes(self) -> Iterator[dict[str, Any]]:
        """Yield every part of a corrector."""
        waiting = [self.settings["tree"]]
        while waiting:
            node = waiting.pop()
            if isinstance(node, dict):
                yield node
            if isinstance(node, (dict, list)):
                waiting += node.values() if isinstance(node, dict) else node

    def node(self, kind: str) -> dict[str, Any]:
        return next(node for node in self.nodes() if node.get("is") == kind)

    def fields(self, name: str) -> dict[str, Any]:
        """Return the fields of the first object of a class."""
        return next(node["fields"] for node in self.nodes() if node.get("class") == name)

    def claim(self, name: str, value: Any) -> None:
        """Change a setting, or a field of every object of a class."""
        if self.kind != "corrector":
            self.settings[name] = value
            return
        cls, _, field = name.partition(".")
        for node in list(self.nodes()):
            if node.get("class") == cls:
                node["fields"][field] = value

    def write(self, path: Path) -> None:
        header = self.header if isinstance(self.header, str) else json.dumps(self.header)
        path.write_bytes(save(self.tensors, metadata={"ma_sbi": header}))


@lru_cache
def _valid(kind: str) -> bytes:
    """Make the bytes of a small valid file."""
    prior = BoxUniform(-torch.ones(2), torch.ones(2))
    rng = torch.Generator().manual_seed(0)
    theta = 2 * torch.rand(100, 2, generator=rng) - 1
    x = theta + 0.1 * torch.randn(100, 2, generator=rng)
    if kind == "flow":
        small = {"num_transforms": 1, "hidden": (8,), "max_epochs": 2}
        model = fit_flow(prior, theta, x, flow="maf", seed=0, **small)
    elif kind == "ddpm":
        model = fit_ddpm(prior, theta, x, layers=3, hidden=8, epochs=1, num_steps=5, seed=0)
    else:
        model = fit_density(x, flow="maf", hidden=(8,), max_epochs=2, seed=0)
    if kind == "corrector":
        # Pools larger than the number of draws: another number gives other candidates.
        fitting = ResidualPools(9, noise=1e-4)
        parts = HashEncoder(16), Shift(), fitting, Evidence(model)
        departures = 0.3 * torch.randn(60, 2, generator=rng)
        model = ComposedCorrector(*parts).fit(["a", None] * 30, x[:60] + departures, x[:60])
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        return (Path(folder) / "model").read_bytes()


def valid_file(kind: str, path: Path) -> Path:
    """Write a small valid file."""
    path.write_bytes(_valid(kind))
    return path


def open_model(path: Path, kind: str) -> Model:
    """Read a valid file, to damage it."""
    saved = read(path, kind, finite=kind != "corrector")
    header = json.loads(_metadata(path.read_bytes())["ma_sbi"])
    tensors = {
        f"{group}/{name}": tensor.clone()
        for group, members in saved.groups.items()
        for name, tensor in members.items()
    }
    return Model(kind, header, tensors)


def _metadata(content: bytes) -> dict[str, str]:
    size = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8 : 8 + size])["__metadata__"]


Mutation = Callable[[Model], None]
MUTATIONS: dict[str, tuple[tuple[str, ...], Mutation]] = {}
"""By name: the kinds that it applies to, and what it does to a valid model."""


def mutation(name: str, *kinds: str) -> Callable[[Mutation], Mutation]:
    """Register a mutation of a valid model, of all kinds if none is named."""

    def register(function: Mutation) -> Mutation:
        MUTATIONS[name] = (kinds or KINDS, function)
        return function

    return register


def _set(name: str, value: Any, *kinds: str, label: str = "") -> None:
    """Register a setting that takes another value."""

    def change(model: Model) -> None:
        model.settings[name] = value

    mutation(f"{name} = {label or repr(value)}", *kinds)(change)


# Sizes that the tensors do not have.
SIZES = {
    "flow": ("dim_x", "dim_theta", "num_transforms"),
    "ddpm": ("layers", "hidden"),
    "density": ("num_transforms", "num_flows"),
    "corrector": (
        "ComposedCorrector.dim_x_",
        "HashEncoder.dim",
        "ResidualFit.num_draws",
    ),
}
for _kind, _names in SIZES.items():
    for _name in _names:
        for _value in (HUGE, 10**30, -1, 0, 2.5, True, "2", None, [2], 7):
            MUTATIONS[f"{_kind} {_name} = {_value!r}"] = (
                (_kind,),
                lambda model, name=_name, value=_value: model.claim(name, value),
            )
_set("hidden", [HUGE], "flow", "density")
_set("hidden", [50_000, 50_000], "flow", "density")
_set("hidden", [1] * 100_000, "flow", "density", label="many layers")
_set("hidden", [-8], "flow", "density")
_set("hidden", [8.0], "flow", "density")
_set("hidden", [[8]], "flow", "density")
_set("hidden", "8", "flow", "density")
_set("hidden", 8, "flow", "density")
_set("flow", "no such flow", "flow", "density")
_set("flow", ["maf"], "flow", "density")
_set("flow", "x" * 900_000, "flow", "density", label="900 kB")
_set("flow", ESCAPE, "flow", "density", label="an escape sequence")
_set("held_out_loss", "low", "density")
_set("held_out_loss", True, "density")
_set("held_out_loss", 10**400, "density", label="an integer of 400 digits")
_set("prior", "no such prior", "flow", "ddpm")
_set("prior", ["uniform"], "flow", "ddpm")
_set("prior", None, "flow", "ddpm")
_set("prior", "multivariate normal", "flow", "ddpm")


@mutation("a setting is missing")
def _(model: Model) -> None:
    model.settings.pop(model.main)


@mutation("settings are a list")
def _(model: Model) -> None:
    model.header["settings"] = []


@mutation("no settings")
def _(model: Model) -> None:
    model.header.pop("settings")


@mutation("no kind")
def _(model: Model) -> None:
    model.header.pop("kind")


@mutation("an unknown kind")
def _(model: Model) -> None:
    model.header["kind"] = "oracle"


@mutation("a kind of 900 kB")
def _(model: Model) -> None:
    model.header["kind"] = "k" * 900_000


@mutation("a kind with an escape sequence")
def _(model: Model) -> None:
    model.header["kind"] = ESCAPE


@mutation("a kind that is a list")
def _(model: Model) -> None:
    model.header["kind"] = [model.kind]


@mutation("another kind")
def _(model: Model) -> None:
    model.header["kind"] = KINDS[KINDS.index(model.kind) - 1]


@mutation("a version from the future")
def _(model: Model) -> None:
    model.header["versions"]["ma_sbi"] = "99.1.0"


@mutation("a version that is none")
def _(model: Model) -> None:
    model.header["versions"]["ma_sbi"] = "the newest"


@mutation("no versions")
def _(model: Model) -> None:
    model.header.pop("versions")


@mutation("a header that is a list")
def _(model: Model) -> None:
    model.header = "[1, 2]"


@mutation("a header that is no JSON")
def _(model: Model) -> None:
    model.header = "{'kind'"


@mutation("an empty header")
def _(model: Model) -> None:
    model.header = ""


@mutation("deep nesting")
def _(model: Model) -> None:
    model.header = "[" * 100_000 + "]" * 100_000


def _insert(model: Model, words: str) -> str:
    """Put words of JSON into the settings."""
    start = '"settings": {'
    return json.dumps(model.header).replace(start, f"{start}{words}, ")


@mutation("deep nesting in settings")
def _(model: Model) -> None:
    deep = "[" * 50_000 + "]" * 50_000
    model.header = _insert(model, f'"deep": {deep}')


@mutation("a setting that is NaN")
def _(model: Model) -> None:
    model.settings["more"] = float("nan")


@mutation("a setting that is infinite")
def _(model: Model) -> None:
    model.header = _insert(model, '"more": 1e999')


@mutation("an integer of 100,000 digits")
def _(model: Model) -> None:
    model.settings[model.main] = "here"
    model.header = json.dumps(model.header).replace('"here"', "9" * 100_000)


# Tensors that do not fit.
WEIGHT = {
    "flow": "estimator/net.transform.transforms.1.hyper.0.weight",
    "ddpm": "network/layers.0.weight",
    "density": "flow/transform.transforms.0.hyper.0.weight",
}
VECTOR = {
    "flow": "training_range/center",
    "ddpm": "network/x_scale.mean",
    "density": "columns/center",
}


def _weight(model: Model, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    model.tensors[model.weight] = change(model.tensors[model.weight])


def _filled(value: float) -> Mutation:
    def change(model: Model) -> None:
        weight = model.tensors[model.weight]
        weight.view(-1)[0] = value

    return change


mutation("a weight is NaN")(_filled(float("nan")))
mutation("a weight is infinite")(_filled(float("inf")))
mutation("a weight is minus infinity")(_filled(float("-inf")))
for _dtype in (torch.int64, torch.int8, torch.float16, torch.bfloat16, torch.float64):
    mutation(f"weights are {_dtype}")(
        lambda model, dtype=_dtype: _weight(model, lambda old: old.to(dtype))
    )
mutation("weights are transposed")(lambda m: _weight(m, lambda old: old.T.contiguous()))
mutation("weights are a vector")(lambda m: _weight(m, lambda old: old.flatten()))
mutation("weights are empty")(lambda m: _weight(m, lambda old: old[:0]))
mutation("weights are one number")(lambda m: _weight(m, lambda old: old.sum()))
mutation("no tensors")(lambda m: m.tensors.clear())


@mutation("a weight is missing")
def _(model: Model) -> None:
    model.tensors.pop(model.weight)


@mutation("a vector is of another length")
def _(model: Model) -> None:
    model.tensors[model.vector] = torch.zeros(5, dtype=model.tensors[model.vector].dtype)


@mutation("a vector is a matrix")
def _(model: Model) -> None:
    model.tensors[model.vector] = model.tensors[model.vector][None].repeat(2, 1)


@mutation("a vector is of integers")
def _(model: Model) -> None:
    model.tensors[model.vector] = model.tensors[model.vector].long()


@mutation("a vector is empty")
def _(model: Model) -> None:
    model.tensors[model.vector] = model.tensors[model.vector][:0]


@mutation("a vector is missing")
def _(model: Model) -> None:
    model.tensors.pop(model.vector)


@mutation("one more tensor")
def _(model: Model) -> None:
    group = model.weight.split("/")[0]
    model.tensors[f"{group}/more"] = torch.zeros(2)


@mutation("a tensor with a name of 500 kB")
def _(model: Model) -> None:
    group = model.weight.split("/")[0]
    model.tensors[f"{group}/{'n' * 500_000}"] = torch.zeros(2)


@mutation("a tensor with an escape sequence in its name")
def _(model: Model) -> None:
    group = model.weight.split("/")[0]
    model.tensors[f"{group}/{ESCAPE}"] = torch.zeros(2)


@mutation("a tensor without a group")
def _(model: Model) -> None:
    model.tensors[model.weight.split("/")[1]] = model.tensors.pop(model.weight)


@mutation("scales are zero", "ddpm", "density")
def _(model: Model) -> None:
    name = "network/theta_scale.scale" if model.kind == "ddpm" else "columns/scale"
    model.tensors[name].zero_()


@mutation("the order of columns is out of range", "flow", "density")
def _(model: Model) -> None:
    name = model.weight.replace("hyper.0.weight", "order")
    model.tensors[name] += 100


@mutation("bounds of the prior are swapped", "flow", "ddpm")
def _(model: Model) -> None:
    low, high = model.tensors["prior/low"], model.tensors["prior/high"]
    model.tensors["prior/low"], model.tensors["prior/high"] = high, low


@mutation("the prior is of more parameters", "flow", "ddpm")
def _(model: Model) -> None:
    for name in ("prior/low", "prior/high"):
        model.tensors[name] = model.tensors[name].repeat(2)


@mutation("the prior has one bound", "flow", "ddpm")
def _(model: Model) -> None:
    model.tensors.pop("prior/low")


@mutation("the schedule rises", "ddpm")
def _(model: Model) -> None:
    model.tensors["schedule/signal"] = model.tensors["schedule/signal"].flip(0)


@mutation("the schedule is above 1", "ddpm")
def _(model: Model) -> None:
    model.tensors["schedule/signal"] += 1


@mutation("no column varies", "density")
def _(model: Model) -> None:
    model.tensors["columns/varies"].zero_()


@mutation("a width that takes a long vector for a layer", "flow", "ddpm", "density")
def _(model: Model) -> None:
    # The file has a vector of this length, but no matrix.
    long = 50_000
    group = model.weight.split("/")[0]
    model.tensors[f"{group}/long"] = torch.zeros(long)
    model.settings["hidden"] = long if model.kind == "ddpm" else [long, long]


# What is no file of ours: from the bytes of a valid one.
Bytes = Callable[[bytes], bytes]
SHORT = b"\x08\x00\x00\x00\x00\x00\x00\x00"


def _with_table(change: Callable[[dict[str, Any]], None]) -> Bytes:
    """Change the table of tensors in the header of a safetensors file."""

    def make(content: bytes) -> bytes:
        size = struct.unpack("<Q", content[:8])[0]
        table = json.loads(content[8 : 8 + size])
        change(table)
        header = json.dumps(table).encode()
        return struct.pack("<Q", len(header)) + header + content[8 + size :]

    return make


def _first(table: dict[str, Any]) -> dict[str, Any]:
    return next(entry for name, entry in table.items() if name != "__metadata__")


def _claim_shape(table: dict[str, Any]) -> None:
    _first(table)["shape"] = [HUGE, HUGE]


def _claim_offsets(table: dict[str, Any]) -> None:
    _first(table)["data_offsets"] = [0, 2**62]


def _overlap(table: dict[str, Any]) -> None:
    for name, entry in table.items():
        if name != "__metadata__":
            entry["data_offsets"] = [0, entry["data_offsets"][1] - entry["data_offsets"][0]]


def _unknown_dtype(table: dict[str, Any]) -> None:
    _first(table)["dtype"] = "F4096"


def _no_metadata(table: dict[str, Any]) -> None:
    table.pop("__metadata__")


BYTES: dict[str, Bytes] = {
    "empty": lambda content: b"",
    "one byte": lambda content: content[:1],
    "cut in the length": lambda content: content[:5],
    "cut in the header": lambda content: content[:100],
    "cut in the tensors": lambda content: content[:-10],
    "more at the end": lambda content: content + b"more",
    "a text": lambda content: b"these are no tensors at all",
    "zeros": lambda content: bytes(1000),
    "a header of 2^63 bytes": lambda content: struct.pack("<Q", 2**63) + content[8:],
    "a header of 90 MB": lambda content: struct.pack("<Q", 90_000_000) + content[8:],
    "a header of 2 MB": lambda content: struct.pack("<Q", 2_000_000) + b" " * 2_000_000,
    "a header that is no text": lambda content: SHORT + b"\xff" * 8,
    "a zip": lambda content: b"PK\x03\x04" + b"\x00" * 60,
    "the end of a zip": lambda content: b"PK\x05\x06" + b"\xff" * 18,
    "a pickle": lambda content: pickle.dumps({"weights": [1.0]}),
    "a shape of 10^18": _with_table(_claim_shape),
    "offsets beyond the end": _with_table(_claim_offsets),
    "tensors that overlap": _with_table(_overlap),
    "an unknown type": _with_table(_unknown_dtype),
    "no metadata": _with_table(_no_metadata),
}


def _folder(path: Path) -> None:
    path.mkdir()


def _nowhere(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def _itself(path: Path) -> None:
    path.symlink_to(path)


PLACES: dict[str, Callable[[Path], None]] = {
    "nothing": lambda path: None,
    "a folder": _folder,
    "a link to nowhere": _nowhere,
    "a link to itself": _itself,
}
if hasattr(os, "mkfifo"):
    PLACES["a pipe"] = os.mkfifo


def names() -> list[str]:
    """Name every crafted file, without making any."""
    of_models = [f"{k}: {name}" for name, (kinds, _) in MUTATIONS.items() for k in kinds]
    of_bytes = [f"{kind}: {name}" for name in (*BYTES, *PLACES) for kind in KINDS]
    return of_models + of_bytes


def make(name: str, folder: Path) -> Crafted:
    """Make one crafted file.

    Args:
        name: One of :func:`names`.
        folder: Where to.
    """
    kind, _, what = name.partition(": ")
    path = folder / "crafted model"
    if what in MUTATIONS:
        model = open_model(valid_file(kind, folder / f"valid {kind}"), kind)
        MUTATIONS[what][1](model)
        model.write(path)
    elif what in BYTES:
        path.write_bytes(BYTES[what](_valid(kind)))
    else:
        PLACES[what](path)
    return Crafted(path, LOADERS[kind])


def refusal(crafted: Crafted) -> str | None:
    """Return the sentence that refuses a file; None if it is accepted.

    Errors that are neither ``ValueError`` nor ``OSError`` are no refusals, and are raised.
    """
    try:
        crafted.load(crafted.path)
    except (ValueError, OSError) as error:
        return str(error)
    return None


# The attacks on objects register themselves here.
from tests import crafted_correctors  # noqa: E402, F401
