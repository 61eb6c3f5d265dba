"""From held-out scores to the weights of proposals.

Proposals that say how x_obs comes from x_sim are first stacked among each other, by how
they predict x_sim: that tells them apart with fewest rows. Then their mixture, "nothing
departs" and the others are stacked by what the posterior makes of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ma_sbi.choosing.held_out import HeldOut, Scores
from ma_sbi.choosing.stacking import drop_idle

__all__ = ["Choice", "choose"]

# Rows of a kind (context seen, or not) without which weights are those of all rows.
FEWEST_SCORED = 5
# Nats over all rows that a proposal must add to be kept. Where x weighs candidates, it
# costs little to keep one.
DROPPED = 1.0
DROPPED_BY_EVIDENCE = 0.1
# Nats per row that evidence may seem to cost, since it can do what calibration does not
# show: overrule a context that is wrong.
MOST_SLACK = 0.05


@dataclass(frozen=True)
class Choice:
    """Weights of the proposals.

    Attributes:
        seen: Under contexts of the calibration set, shape ``(num_proposals,)``.
        unseen: Under others.
        left_alone: Weight of "nothing departs" that evidence does not touch, under
            contexts of the calibration set and others.
        use_evidence: Whether the evidence of x weighs candidates.
        gain: What evidence adds to the held-out log score of a row, and its standard
            error; None if that cannot be told.
    """

    seen: Tensor
    unseen: Tensor
    left_alone: tuple[float, float]
    use_evidence: bool
    gain: tuple[float, float] | None

    def improvement(self, held_out: HeldOut, forward: Tensor) -> tuple[float, float]:
        """Score all proposals together, minus the first, with a standard error.

        Rows whose context was seen count, if there are some.
        """
        seen = bool(held_out.seen.any())
        scores = held_out.scores[-1].at(held_out.seen if seen else ~held_out.seen)
        weight = self.seen if seen else self.unseen
        alone = scores.plain.new_tensor(self.left_alone[0 if seen else 1])
        parts = [alone.log() + scores.plain[0]]
        parts += [
            one.log() + each
            for one, each in zip(weight[~forward], scores.plain[~forward], strict=True)
        ]
        if weight[forward].any():
            mixture = scores.of(forward).together(
                weight[forward], evidence=self.use_evidence
            )
            # With evidence, weights of a mixture are those of its parts.
            share = weight[forward].sum() if self.use_evidence else torch.ones(())
            parts.append(share.log() + mixture)
        gains = (torch.stack(parts).logsumexp(dim=0) - scores.plain[0]).mean(dim=1)
        return gains.mean().item(), (gains.std() / len(gains) ** 0.5).item()


def choose(
    held_out: HeldOut,
    forward: Tensor,
    *,
    simple: Tensor,
    num_rows: int,
    num_contexts: int,
    evidence: bool = False,
    doubted: bool = False,
) -> Choice:
    """Weigh proposals.

    Args:
        held_out: Scores by x_sim and by the posterior, or the same scores twice.
        forward: Which proposals say how x_obs comes from x_sim; the first is "nothing
            departs".
        simple: Those of them that read no context.
        num_rows: Calibration rows.
        num_contexts: Different contexts among them.
        evidence: Whether there is a density of the simulations.
        doubted: Whether its assumptions seem to be violated: then it must clearly improve
            scores, and not merely leave them as they are.
    """
    first, last = held_out.scores[0], held_out.scores[-1]
    kinds = [_enough(held_out.seen), _enough(~held_out.seen)]
    plain = [_stack_forward(first.at(rows).of(forward)) for rows in kinds]
    weighed, gain, use = plain, None, False
    if evidence:
        weighed = [
            _weigh_forward(first.at(rows).of(forward), simple[forward], num_rows)
            for rows in kinds
        ]
        gain = _gain(last.of(forward), held_out.seen, plain, weighed)
        # A loss within its error, or of as little as one row in all, is none.
        slack = min(2 * gain[1], MOST_SLACK) + 1 / num_rows
        use = gain[0] > (slack if doubted else -slack)
    (seen, seen_alone), (unseen, unseen_alone) = (
        _stack_all(last.at(rows), forward, weight, evidence=use)
        for rows, weight in zip(kinds, weighed if use else plain, strict=True)
    )
    if num_contexts > 1:
        # More contexts, as it were, one for each of the simple: so many have been seen,
        # not as many as rows. In one nothing departed, in another what departs elsewhere.
        total = num_contexts + int(simple.sum())
        unseen = (num_contexts * unseen + simple) / total
        unseen_alone *= num_contexts / total
    return Choice(seen, unseen, (seen_alone, unseen_alone), use, gain)


def _enough(which: Tensor) -> Tensor:
    """Return these rows, or all of them if they are too few."""
    return which if which.sum() >= FEWEST_SCORED else torch.ones_like(which)


def _stack_forward(scores: Scores) -> Tensor:
    """Weigh the forward proposals among each other."""
    return drop_idle(scores.plain, DROPPED)


def _weigh_forward(scores: Scores, simple: Tensor, num_rows: int) -> Tensor:
    """Do the same where the evidence of x weighs candidates afterwards."""
    weight = drop_idle(scores.by_evidence, DROPPED_BY_EVIDENCE)
    # What so few rows cannot rule out is left to the simple, so that x can overrule the
    # context.
    weight = torch.maximum(weight, simple / (simple.sum() * (num_rows + 1)))
    return weight / weight.sum()


def _gain(
    scores: Scores, seen: Tensor, plain: list[Tensor], weighed: list[Tensor]
) -> tuple[float, float]:
    """Compare mixtures of forward proposals with and without evidence."""
    gains = []
    for rows, before, after in zip((seen, ~seen), plain, weighed, strict=True):
        part = scores.at(rows)
        difference = part.together(after, evidence=True) - part.together(
            before, evidence=False
        )
        gains.append(difference.mean(dim=1))
    gain = torch.cat(gains)
    return gain.mean().item(), (gain.std() / len(gain) ** 0.5).item()


def _stack_all(
    scores: Scores, forward: Tensor, weight: Tensor, *, evidence: bool
) -> tuple[Tensor, float]:
    """Weigh "nothing departs", the mixture of forward proposals, and each other one.

    Returns:
        The weights of all proposals, and that of "nothing departs" besides the mixture.
    """
    mixture = scores.of(forward).together(weight, evidence=evidence)
    candidates = torch.stack([scores.plain[0], mixture, *scores.plain[~forward]])
    nothing, ahead, *others = drop_idle(candidates, DROPPED).tolist()
    result = torch.zeros(len(forward), dtype=torch.float64)
    result[forward] = ahead * weight
    result[~forward] = torch.tensor(others, dtype=torch.float64)
    return result, nothing
