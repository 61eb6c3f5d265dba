"""The paper's corrector: a shift of the observation that the context predicts."""

from __future__ import annotations

from typing import Literal

from ma_sbi.correctors.composed import FITTED, Axes, FittableCorrector
from ma_sbi.correctors.departures import Shift
from ma_sbi.correctors.fitting import Fitting
from ma_sbi.correctors.inference import Point
from ma_sbi.correctors.network import Network
from ma_sbi.correctors.ridge import Ridge
from ma_sbi.protocols import Encoder
from ma_sbi.storing.forms import stored

__all__ = ["ShiftCorrector"]

RECIPES: dict[str, type[Ridge] | type[Network]] = {"converged": Ridge, "paper": Network}


@stored(*FITTED)
class ShiftCorrector(FittableCorrector):
    r"""Shift the observation by what its context predicts (Eq. 2 of the paper).

    .. math:: \tilde q(\theta \mid x, z) = \hat q(\theta \mid x - \hat\delta(z)), \qquad
        \hat\delta = \arg\min \sum_i \|x_{obs,i} - x_{sim,i} - \hat\delta(z_i)\|^2

    Args:
        encoder: Context to vectors; any scikit-learn transformer.
        recipe: ``"converged"`` solves the least-squares problem in closed form and
            chooses its own regularisation (:class:`Ridge`); ``"paper"`` trains the
            network of the paper's appendix (:class:`Network`), which at a few hundred
            triples stops far from the solution. Or an instance of either class.

    Example:
        >>> import torch
        >>> from ma_sbi import HashEncoder, ShiftCorrector
        >>> x_sim = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
        >>> notes = ["The sensor reads high.", "All is well."] * 10
        >>> x_obs = x_sim + torch.tensor([[1.0, 0.0], [0.0, 0.0]]).repeat(10, 1)
        >>> corrector = ShiftCorrector(HashEncoder()).fit(notes, x_obs, x_sim)
        >>> corrector.shift(["The sensor reads high."]).round(decimals=3).tolist()
        [[1.0, 0.0]]
    """

    def __init__(
        self,
        encoder: Encoder,
        recipe: Literal["converged", "paper"] | Fitting = "converged",
    ) -> None:
        self.encoder = encoder
        self.recipe = recipe

    def axes(self) -> Axes:
        """Name the departure, the fit and the inference."""
        if not isinstance(self.recipe, str):
            return Axes(Shift(), self.recipe, Point())
        if self.recipe not in RECIPES:
            raise ValueError(
                f"recipe must be one of {sorted(RECIPES)} or a fitting, got {self.recipe!r}"
            )
        return Axes(Shift(), RECIPES[self.recipe](), Point())
