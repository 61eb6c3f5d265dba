"""Loading a corrector from a file, which cannot run code."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

# What is in a file is made of classes that are registered when they are imported.
import ma_sbi.choosing
import ma_sbi.correctors.common  # noqa: F401
from ma_sbi.correctors.composed import BaseCorrector
from ma_sbi.correctors.files import KIND, Kept, Shown
from ma_sbi.display.text import shorten
from ma_sbi.posteriors.kinds import POSTERIORS, UNPACK, unpack_with
from ma_sbi.protocols import Encoder
from ma_sbi.saved import Saved
from ma_sbi.saving import read
from ma_sbi.storing.unpacking import Unpacker

__all__ = ["load_corrector", "load_kept"]


def load_corrector(
    path: str | Path,
    *,
    encoder: Encoder | None = None,
    density: Callable[[Tensor], Tensor] | None = None,
    device: torch.device | str | None = None,
) -> BaseCorrector:
    """Load a corrector that ``save`` wrote; it corrects as it did, to the last bit.

    A few calibration rows are in the file with their corrections. They are corrected again,
    and the file is refused if they come out differently: so a wrong encoder or density, or
    a package that has changed its mind, is found at once.

    Args:
        path: The file.
        encoder: The fitted encoder, if the file does not hold it because it is not one of
            this package.
        density: The density of the simulations, likewise.
        device: Where a density that is in the file is evaluated; torch's default device if
            None.

    Raises:
        ValueError: If the file holds something else, was written by a newer version, does
            not fit together, or needs an encoder or a density that was not passed.
        OSError: If there is no such file.
        ImportError: If its encoder needs a package that is not installed.
    """
    return load_kept(path, KIND, encoder=encoder, density=density, device=device).corrector


def load_kept(
    path: str | Path,
    kind: str,
    *,
    encoder: Any = None,
    density: Any = None,
    device: Any = None,
    **options: Any,
) -> Kept:
    """Load a corrector with all that is kept with it.

    Args:
        path: The file.
        kind: What it must hold.
        encoder: As of :func:`load_corrector`.
        density: Likewise.
        device: Of models.
        options: Of the posterior, such as its prior.
    """
    saved = read(path, kind, finite=False)

    def make(kind: str, held: Saved) -> Any:
        own = options if kind in POSTERIORS else {}
        return unpack_with(kind)(held, device=device, **own)

    models = {kind: partial(make, kind) for kind in UNPACK}
    unpacker = Unpacker(saved, models, {"encoder": encoder, "density": density})
    kept = unpacker.unpack(saved.setting("tree"))
    if not isinstance(kept, Kept) or not isinstance(kept.corrector, BaseCorrector):
        saved.refuse("holds no corrector")
    unasked = unpacker.yours.keys() - unpacker.roles
    if unasked:
        name = min(unasked)
        saved.refuse(f"holds its {name}, or needs none: do not pass {name}=")
    _check_shown(saved, kept, passed=sorted(unpacker.roles))
    return kept


def _check_shown(saved: Saved, kept: Kept, *, passed: list[str]) -> None:
    """Correct the rows that are shown again, and compare."""
    own = f"; is this the {' and the '.join(passed)} it was fitted with?" if passed else ""
    try:
        now = Shown.of(kept.corrector, kept.shown.x, kept.shown.context)
    except ImportError:
        raise
    except Exception as error:  # noqa: BLE001 (what does not fit may fail in any way)
        if passed:
            saved.refuse(
                f"cannot use the {' and the '.join(passed)} that was passed: pass what it "
                f"was fitted with ({shorten(error, 150)})"
            )
        saved.refuse(f"does not fit together: {shorten(error, 200)}")
    if not kept.shown.is_like(now):
        saved.refuse(
            "corrects its own examples differently from when it was saved"
            f"{own or '; it was changed, or a package that it relies on was'}"
        )
