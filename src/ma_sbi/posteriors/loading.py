"""Loading a saved posterior of any kind."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from pathlib import Path

import torch
from torch.distributions import Distribution

from ma_sbi.display.text import shorten
from ma_sbi.posteriors.kinds import POSTERIORS, unpack_with
from ma_sbi.protocols import AmortizedPosterior
from ma_sbi.saving import kind_of, named, read, require_file

__all__ = ["PickledPosterior", "load_posterior"]

OTHERS = {
    "density": "load_density",
    "corrector": "load_corrector",
    "corrected posterior": "CorrectedPosterior.load",
}
# How files of pickle's protocols 2 and later begin.
PICKLE = b"\x80"


class PickledPosterior(UserWarning):
    """A posterior was read from a pickle, which can run any code."""


def load_posterior(
    path: str | Path,
    prior: Distribution | None = None,
    *,
    device: torch.device | str | None = None,
    allow_pickle: bool = False,
) -> AmortizedPosterior:
    """Load a posterior that ``save`` wrote: of a flow, a diffusion model or ``from_sbi``.

    Args:
        path: The file.
        prior: The prior it was trained with; needed only if the file does not hold it,
            because it is neither uniform, normal nor lognormal.
        device: Where to sample; torch's default device if None.
        allow_pickle: Whether an sbi posterior may be read from a file of ``pickle.dump``
            or ``torch.save``. Reading one can run any code: allow it only for files that
            you wrote yourself.

    Raises:
        ValueError: If the file holds something else, or not its prior, does not fit its
            header, or is a pickle.
        OSError: If there is no such file.
    """
    require_file(path)
    name = named(path)
    if _is_pickle(path):
        if not allow_pickle:
            raise ValueError(
                f"{name} is a pickle, and reading one can run any code; save the posterior "
                "with from_sbi(posterior).save(path, network), or, if you wrote the file "
                "yourself, allow it (--allow-pickle, or load_posterior(path, "
                "allow_pickle=True))"
            )
        return _unpickle(path, name)
    kind = kind_of(path)
    if kind in OTHERS:
        raise ValueError(f"{name} holds a {kind}, not a posterior; {OTHERS[kind]} reads it")
    if kind not in POSTERIORS:
        raise ValueError(f"{name} holds {shorten(repr(kind))}, expected a posterior")
    saved = read(path, kind)
    posterior: AmortizedPosterior = unpack_with(kind)(saved, prior, device=device)
    return posterior


def _is_pickle(path: str | Path) -> bool:
    """Tell whether ``pickle.dump`` or ``torch.save`` wrote a file, without reading it."""
    with Path(path).open("rb") as file:
        begins = file.read(9)
    if zipfile.is_zipfile(path):
        try:
            with zipfile.ZipFile(path) as archive:
                return any(one.endswith("data.pkl") for one in archive.namelist())
        except (zipfile.BadZipFile, NotImplementedError, ValueError):
            return False  # nor a model: its reader says so
    # A safetensors file may begin with the same byte, but then its header follows.
    return begins.startswith(PICKLE) and not begins.endswith(b"{")


def _unpickle(path: str | Path, name: str) -> AmortizedPosterior:
    warnings.warn(
        f"{name} is a pickle: reading it can run any code",
        PickledPosterior,
        stacklevel=3,
    )
    try:
        if zipfile.is_zipfile(path):
            held = torch.load(path, weights_only=False, map_location="cpu")
        else:
            with Path(path).open("rb") as file:
                held = pickle.load(file)  # noqa: S301 (the caller allowed it)
    except Exception as error:  # (what is in a pickle may fail in any way)
        raise ValueError(f"{name} cannot be unpickled: {shorten(error)}") from error
    if hasattr(held, "sample_batched"):
        from ma_sbi.posteriors.sbi import from_sbi

        return from_sbi(held)
    if callable(getattr(held, "sample", None)):
        return held
    raise ValueError(f"{name} holds a {type(held).__name__}, expected a posterior")
