"""How many contexts are encoded per second."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.speed.timing import Effort, Row

TABLES = ("encoding",)
WORDS = ("pump", "valve", "left", "right", "hot", "cold", "slow", "fast", "leak", "drift")


def texts(num: int) -> list[str]:
    """Write different texts."""
    return [
        f"{WORDS[row % 10]} {WORDS[row // 10 % 10]} reads high, item {row}"
        for row in range(num)
    ]


def hashed(num: int) -> Callable[[], object]:
    """Prepare the hash of texts that differ."""
    from ma_sbi import HashEncoder

    context = texts(num)
    return lambda: HashEncoder().fit_transform(context)


def repeated(num: int) -> Callable[[], object]:
    """Prepare the hash of 100 texts that are repeated."""
    from ma_sbi import HashEncoder

    context = texts(100) * (num // 100)
    return lambda: HashEncoder().fit_transform(context)


def labelled(num: int) -> Callable[[], object]:
    """Prepare ten labels one-hot."""
    from ma_sbi import CategoryEncoder

    context = [WORDS[row % 10] for row in range(num)]
    return lambda: CategoryEncoder().fit_transform(context)


def embedded(num: int) -> Callable[[], object]:
    """Prepare sentences, each different."""
    from ma_sbi import SentenceEncoder

    context = texts(num)
    return lambda: SentenceEncoder().fit_transform(context)


HUNDREDS = [100, 1_000, 10_000, 100_000]
ENCODERS: dict[str, tuple[Callable[[int], Callable[[], object]], list[int]]] = {
    "HashEncoder, texts that differ": (hashed, HUNDREDS),
    "HashEncoder, 100 texts repeated": (repeated, [*HUNDREDS, 1_000_000]),
    "CategoryEncoder, 10 labels": (labelled, [*HUNDREDS, 1_000_000]),
    "SentenceEncoder, texts that differ": (embedded, [10, 100, 1_000]),
}


def rows(effort: Effort) -> Iterator[Row]:
    """Time every encoder at growing numbers of contexts."""
    for name, (prepare, sizes) in ENCODERS.items():
        few = sizes[:-1] if effort.quick else sizes
        yield from effort.growth("encoding", name, few, prepare)
