"""What a correction costs: draws of the corrected posterior over those of the plain one."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.speed.timing import Effort, Row
from benchmarks.speed.worlds import prior, simulations, triples

TABLES = ("sampling",)
NUM_DRAWS, NUM_OBSERVATIONS = 500, 12
CANDIDATES = (4, 64, 256)


def rows(effort: Effort) -> Iterator[Row]:
    """Time a point and mixtures of candidates, with and without evidence."""
    from ma_sbi import (
        ComposedCorrector,
        CorrectedPosterior,
        HashEncoder,
        ShiftCorrector,
        fit_ddpm,
        fit_density,
        fit_flow,
    )
    from ma_sbi.correctors import Evidence, Mixture, ResidualPools, Shift

    theta, x = simulations(2000)
    data = (prior(), theta, x)
    options = {"seed": 0, "device": effort.device}
    diffusion = fit_ddpm(*data, epochs=2, **options)
    posteriors = {
        "flow (nsf)": fit_flow(*data, max_epochs=2, **options),
        "flow (maf)": fit_flow(*data, flow="maf", max_epochs=2, **options),
        "diffusion, 20 steps": diffusion.deterministic(20),
        "diffusion, 200 steps": diffusion,
    }
    density = fit_density(x, max_epochs=2, **options)
    calibration = triples(4 * 300)
    correctors = {"a point": ShiftCorrector(HashEncoder())}
    for num in CANDIDATES:
        for words, inference in (
            ("", Mixture()),
            (", evidence", Evidence(density.log_prob)),
        ):
            correctors[f"{num} candidates{words}"] = ComposedCorrector(
                HashEncoder(), Shift(), ResidualPools(num), inference
            )
    contexts, x_obs, _ = triples(NUM_OBSERVATIONS, seed=5)
    x_obs = x_obs.to(effort.device)
    for words, corrector in correctors.items():
        corrector.fit(*calibration, seed=0)
        expected = 1 if words == "a point" else int(words.split()[0])
        assert len(corrector.corrections(x_obs, contexts).x) == expected  # noqa: S101
    for name, posterior in posteriors.items():
        for words, corrector in correctors.items():
            if "200 steps" in name and words not in ("a point", "64 candidates"):
                continue  # takes long, and says the same as 20 steps
            corrected = CorrectedPosterior(posterior, corrector)
            yield effort.compare(
                "sampling",
                f"{name}: {words}",
                lambda one=corrected: one.sample(NUM_DRAWS, x_obs, contexts, seed=0),
                "plain",
                lambda one=posterior: one.sample(NUM_DRAWS, x_obs, seed=0),
                least=3 if effort.quick or "200 steps" in name else 5,
                warm="200 steps" not in name,
            )
