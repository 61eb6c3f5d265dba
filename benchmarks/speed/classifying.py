"""C2ST: the recipe in torch, for many tests at once, against sbi's own function."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from benchmarks.speed.timing import Effort, Row, row_of

TABLES = ("c2st",)
NUM_TESTS = 6


def rows(effort: Effort) -> Iterator[Row]:
    """Time tests of normal draws that differ by a quarter of a deviation."""
    from sbi.utils.metrics import c2st

    from ma_sbi.metrics import c2st_batch

    num_tests = 2 if effort.quick else NUM_TESTS
    for dim, num_draws in ((2, 500), (10, 500), (2, 1000)):
        if effort.quick and num_draws > 500:
            continue
        rng = torch.Generator().manual_seed(0)
        reference = torch.randn(num_draws, num_tests, dim, generator=rng)
        samples = torch.randn(num_draws, num_tests, dim, generator=rng) + 0.25
        found: dict[str, float] = {}

        def ours(a=samples, b=reference, found=found) -> None:
            found["ours"] = c2st_batch(a, b, recipe="fast").mean().item()

        def theirs(a=samples, b=reference, found=found) -> None:
            # The same test: sbi's default is a random forest, and it standardises by what
            # comes first, ours by the reference.
            values = [
                c2st(b[:, one], a[:, one], classifier="mlp").item()
                for one in range(a.shape[1])
            ]
            found["theirs"] = sum(values) / len(values)

        what = f"{num_tests} tests, {num_draws} draws, {dim} columns"
        turns = effort.turns_of(ours, theirs, least=2)
        values = (found["ours"], found["theirs"])
        yield row_of("c2st", what, num_draws, "sbi's c2st, mlp", turns, *values)
