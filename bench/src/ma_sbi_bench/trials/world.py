"""The world of a trial: a task with the calibration and test rows that a cell asks for.

Test observations are the same for every seed; the calibration set and all noise come from
the seed. Where there is an exact posterior, each of a few observations is seen in every
regime, or in one of them in turn; where the context is a number, at every intensity of a
grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ma_sbi.randomness import derive
from ma_sbi_bench.engine.cell import Cell
from ma_sbi_bench.tasks import Draws, Task, get_task
from ma_sbi_bench.trials.cells import BY_MEAN
from ma_sbi_bench.trials.published import published_draws

__all__ = ["World", "blurred", "regime_weights"]

# Forms whose name says what their contexts are, where no setting does.
CONTEXTS = {
    "ma_sbi_shuffled": "shuffled",
    "ma_sbi_number": "number",
    "ma_sbi_unseen": "unseen",
}


@dataclass(frozen=True)
class World:
    """A task with its calibration and test rows, all that a seed decides.

    Attributes:
        task: The task.
        calibration: Calibration rows.
        test: Test rows.
        reference: Exact draws, shape ``(num_draws, num_rows, dim_theta)``; None where the
            posterior mean is judged.
        regime_weights: Probability of each regime given the context of each test row,
            shape ``(num_rows, num_regimes)``; None where the context is the regime.
    """

    task: Task
    calibration: Draws
    test: Draws
    reference: Tensor | None
    regime_weights: Tensor | None

    @classmethod
    def of(cls, cell: Cell, calibration_set: int = 0) -> World:
        """Make the world of a trial.

        Args:
            cell: The trial.
            calibration_set: Which of several calibration sets; the first is the one that
                posteriors are corrected by.
        """
        settings = cell.settings
        task = get_task(cell.task, **settings.get("task", {}))
        rng = np.random.default_rng(derive(cell.seed, "contexts"))
        test = _test_rows(task, cell)
        calibration = _calibration_rows(task, cell, calibration_set)
        reliability = settings.get("reliability", 1.0)
        if reliability < 1.0:
            texts = [regime.text for regime in task.regimes]
            calibration, test = (
                rows._replace(context=blurred(rows.context, texts, reliability, rng))
                for rows in (calibration, test)
            )
        weights = regime_weights(task, test, reliability) if task.regimes else None
        how = settings.get("context", CONTEXTS.get(cell.method, "true"))
        calibration, test = _treated(how, calibration, test, rng)
        reference = None
        if cell.task not in BY_MEAN:
            reference = _reference(test, cell)
        return cls(task, calibration, test, reference, weights)


def _test_rows(task: Task, cell: Cell) -> Draws:
    """Draw rows, or every observation in every regime; the same for every seed."""
    if cell.task in BY_MEAN:
        test = task.draw(cell.settings["rows"], seed=derive(0, "test"))
    else:
        theta, x_sim = _observations(task, *_which_observations(cell))
        regimes = torch.arange(len(task.regimes))
        if "intensities" in cell.settings:
            regimes = torch.linspace(0, 1, cell.settings["intensities"])
        rows = torch.arange(len(theta)).repeat_interleave(len(regimes))
        regime = regimes.repeat(len(theta))
        x_sim = x_sim[rows]
        context = task.contexts(regime, seed=derive(cell.seed, "test contexts"))
        test = Draws(theta[rows], x_sim, task.depart(x_sim, regime), regime, context)
    return _select(test, _cases(test, cell))


def _which_observations(cell: Cell) -> tuple[int, bool]:
    """Say how many observations a cell asks for, and whether they are sbibm's own."""
    return cell.settings["observations"], bool(cell.settings.get("published"))


def _observations(task: Task, num: int, published: bool) -> tuple[Tensor, Tensor]:  # noqa: FBT001
    """Give parameters and clean observations, the same for every seed."""
    if published:
        return published_draws(task.name)
    once = task.draw(num, seed=derive(0, "test"))
    return once.theta, once.x_sim


def _cases(test: Draws, cell: Cell) -> Tensor:
    """Choose test rows: all, those of one observation or regime, or some."""
    rows = torch.arange(len(test.regime))
    num_observations = cell.settings.get("observations", len(rows))
    observation = rows // (len(rows) // num_observations)
    if cell.settings.get("cases") == "some":
        if cell.task in BY_MEAN:
            return rows[: len(rows) // 2]
        return rows[test.regime == observation % (int(test.regime.max()) + 1)]
    if cell.observation is not None:
        rows = rows[observation == cell.observation]
    return rows if cell.regime is None else rows[test.regime[rows] == cell.regime]


def _calibration_rows(task: Task, cell: Cell, calibration_set: int) -> Draws:
    """Draw calibration rows, without a regime that is left out."""
    num, left_out = cell.num_calibration or 0, cell.settings.get("left_out")
    more = f" {calibration_set}" if calibration_set else ""
    seed = derive(cell.seed, f"calibration{more}")
    if left_out is None:
        return task.draw(num, seed=seed)
    # Regimes are stratified: enough for as many rows of the others.
    draws = task.draw(2 * num, seed=seed)
    kept = (draws.regime != left_out).nonzero().flatten()[:num]
    return _select(draws, kept)


def _select(draws: Draws, rows: Tensor) -> Draws:
    index = torch.arange(len(draws.theta))[rows]
    return Draws(
        draws.theta[index],
        draws.x_sim[index],
        draws.x_obs[index],
        draws.regime[index],
        [draws.context[row] for row in index.tolist()],
    )


def blurred(
    context: Sequence[str], texts: Sequence[str], reliability: float, rng: Any
) -> list[str]:
    """Replace a share of the contexts by a text picked at random."""
    keep = rng.random(len(context)) < reliability
    other = rng.integers(len(texts), size=len(context))
    rows = zip(context, other, keep, strict=True)
    return [text if kept else texts[index] for text, index, kept in rows]


def _treated(how: str, calibration: Draws, test: Draws, rng: Any) -> tuple[Draws, Draws]:
    """Replace contexts, or leave out calibration rows whose text the test has."""
    if how == "shuffled":
        shuffled = rng.permutation(calibration.context).tolist()
        return calibration._replace(context=shuffled), test
    if how in ("index", "nearest"):
        index = [f"row {row}" for row in range(len(calibration.context))]
        new = [f"new row {row}" for row in range(len(test.context))]
        if how == "nearest":
            nearest = torch.cdist(test.x_obs, calibration.x_obs).argmin(dim=1)
            new = [index[row] for row in nearest.tolist()]
        return calibration._replace(context=index), test._replace(context=new)
    if how == "number":
        calibration, test = (
            rows._replace(context=rows.regime.tolist()) for rows in (calibration, test)
        )
    elif how == "unseen":
        seen = set(test.context)
        new_texts = torch.tensor([text not in seen for text in calibration.context])
        calibration = _select(calibration, new_texts)
    return calibration, test


def regime_weights(
    task: Task, test: Draws, reliability: float, share: Tensor | None = None
) -> Tensor:
    """Give the probability of each regime given what the log says.

    Args:
        task: The task.
        test: Test rows.
        reliability: Probability that a text is its regime's; else it is any of them.
        share: How often each regime occurs, shape ``(num_regimes,)``; all alike if None.

    Returns:
        Shape ``(num_rows, num_regimes)``.
    """
    even = torch.full((len(test.regime), len(task.regimes)), 1 / len(task.regimes))
    if task.setting == "uninformative":
        return even
    texts = [regime.text for regime in task.regimes]
    said = torch.tensor([texts.index(text) for text in test.context])
    certain = torch.nn.functional.one_hot(said, len(texts))
    weights = reliability * certain + (1 - reliability) * even
    if share is not None:
        weights = weights * share
        weights = weights / weights.sum(dim=1, keepdim=True)
    return weights


def _reference(test: Draws, cell: Cell) -> Tensor:
    """Draw the exact answers, once for each observation."""
    options = tuple(sorted(cell.settings.get("task", {}).items()))
    which = _which_observations(cell)
    once = _reference_once(cell.task, options, *which, cell.settings["draws"])
    if cell.observation is not None:
        once = once[:, [cell.observation]]
    return once.repeat_interleave(len(test.regime) // once.shape[1], dim=1)


@lru_cache(maxsize=8)
def _reference_once(
    name: str,
    options: tuple[tuple[str, Any], ...],
    observations: int,
    published: bool,  # noqa: FBT001
    draws: int,
) -> Tensor:
    task = get_task(name, **dict(options))
    x_sim = _observations(task, observations, published)[1]
    return task.reference(x_sim, draws, seed=derive(0, "reference"))
