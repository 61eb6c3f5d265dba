"""Small worlds whose departures, leaks and posteriors are known in closed form."""

import torch
from torch.distributions import Independent, Normal

from ma_sbi import from_callable

SHIFTS = torch.tensor([[1.5, 0.0], [0.0, -1.0], [0.5, 0.5]])


def law(x):
    """The posterior of theta ~ N(0, 1), x = theta + N(0, 0.5^2)."""
    return Independent(Normal(0.8 * x, 0.2**0.5), 1)


def exact():
    return from_callable(
        lambda num, x: law(x).sample((num,)), lambda t, x: law(x).log_prob(t), batched=True
    )


def simulate(theta):
    return theta + 0.5 * torch.randn_like(theta)


class World:
    """Observations shifted by a regime that is independent of theta.

    Attributes:
        theta: Parameters, shape ``(n, 2)``.
        x_sim: Simulations, shape ``(n, 2)``.
        x_obs: The same, shifted by the regime's row of ``shifts``.
        regime: A number per row.
        context: A text per row that names the regime.
        other: A number per row that is independent of everything.
    """

    def __init__(self, n=400, shifts=SHIFTS, seed=0):
        rng = torch.Generator().manual_seed(seed)
        self.theta = torch.randn(n, 2, generator=rng)
        self.x_sim = self.theta + 0.5 * torch.randn(n, 2, generator=rng)
        self.regime = torch.randint(len(shifts), (n,), generator=rng)
        self.x_obs = self.x_sim + shifts[self.regime]
        self.other = torch.randint(3, (n,), generator=rng)
        self.context = [f"regime {one}" for one in self.regime]


def hidden_leaks(n, seed=0):
    """Simulations in which a regression sees little of theta.

    The first parameter moves one of four columns, by a tenth of its variance: its sign
    explains (2 / pi) / 40, 1.6 % of all. The second sets the spread of all four and moves
    no mean.

    Returns:
        theta, shape ``(n, 2)``, and x_sim, shape ``(n, 4)``.
    """
    rng = torch.Generator().manual_seed(seed)
    theta = torch.randn(n, 2, generator=rng)
    spread = (0.5 + theta[:, 1:].abs()) / (0.25 + (2 / torch.pi) ** 0.5 + 1) ** 0.5
    x_sim = 3 * spread * torch.randn(n, 4, generator=rng)
    x_sim[:, 0] += theta[:, 0]
    return theta, x_sim


def delayed_waves(n, seed=0):
    """Waves a sin(t) + b cos(t) that are seen half a step later in one of two regimes.

    A delay by d maps (a, b) to a rotation by d: the departure depends on x, and its mean
    over waves is zero in either regime.

    Returns:
        context, x_obs and x_sim, both of shape ``(n, 6)``.
    """
    rng = torch.Generator().manual_seed(seed)
    weights = torch.randn(n, 2, generator=rng)
    time = torch.arange(6.0)
    delay = torch.tensor([0.5, 0.0]).repeat(n // 2)[:, None]

    def wave(at):
        return weights[:, :1] * at.sin() + weights[:, 1:] * at.cos()

    noise = 0.05 * torch.randn(2, n, 6, generator=rng)
    return (
        ["late", "on time"] * (n // 2),
        wave(time - delay) + noise[0],
        wave(time) + noise[1],
    )
