# %% [markdown]
# # Response times under instructions: when not to correct
#
# People decide, again and again, whether dots move to the left or to the right. The
# drift-diffusion model explains how long they take and how often they are wrong by three
# parameters: the drift of the evidence, the distance of the boundaries at which they
# decide, and the time that is not spent deciding.
#
# Some blocks begin with "be fast", some with "be accurate". Response times then differ,
# and the instruction stands in the data as a context. Should it be used to correct?
#
# No. An instruction changes the *parameters*: people who hurry move their boundaries
# closer. That is what one wants to measure, and a correction would remove it. This page
# shows that `check` refuses, and what would have happened otherwise.

# %%
import warnings

import numpy as np
import torch
from sbi.utils import BoxUniform

from ma_sbi import CorrectedPosterior, check, fit_corrector, fit_flow
from ma_sbi.correctors import MatchingAssumption
from ma_sbi.plots import plot_corner, plot_departures

NAMES = ["drift", "boundary", "other time"]
COLUMNS = ["log odds of an error", "fast tenth", "median", "slow tenth"]
prior = BoxUniform(torch.tensor([0.5, 0.5, 0.1]), torch.tensor([3.0, 2.5, 0.5]))


def simulate(theta, seed, num_trials=100, step=0.01, longest=4.0):
    """Summaries of a block of trials: errors, and quantiles of log response times."""
    rng = torch.Generator().manual_seed(seed)
    drift, boundary, other = (one[:, None] for one in theta.T)
    place = torch.zeros(len(theta), num_trials)
    time = torch.full_like(place, longest)
    upper = torch.zeros_like(place, dtype=torch.bool)
    going = torch.ones_like(upper)
    for tick in range(int(longest / step)):
        noise = torch.randn(place.shape, generator=rng)
        place = place + drift * step + step**0.5 * noise
        arrived = going & (place.abs() >= boundary / 2)
        time[arrived] = (tick + 0.5) * step
        upper |= arrived & (place > 0)
        going &= ~arrived
    errors = (~upper).sum(dim=1)
    odds = torch.log((errors + 0.5) / (num_trials - errors + 0.5))
    quantiles = torch.quantile((time + other).log(), torch.tensor([0.1, 0.5, 0.9]), dim=1)
    return torch.stack([odds, *quantiles], dim=1)


# %% [markdown]
# ## The posterior

# %%
torch.manual_seed(0)
theta = prior.sample((3000,))
simulations = simulate(theta, seed=1)
posterior = fit_flow(prior, theta, simulations, learning_rate=2e-3, patience=5, seed=0)

# %% [markdown]
# ## The experiment
#
# Fifty people, each under three instructions. Reality is a drift-diffusion model, so that
# *nothing* is wrong with the simulator; but the instruction moves the boundary.

# %%
INSTRUCTIONS = {"Be as fast as you can.": 0.7, "Take the time you need.": 1.0}
INSTRUCTIONS["Avoid every mistake."] = 1.3
people = torch.tensor([1.5, 1.4, 0.3]) + torch.tensor([0.3, 0.15, 0.04]) * torch.randn(
    50, 3
)
true_theta = people.repeat(3, 1)
true_theta[:, 1] *= torch.tensor(list(INSTRUCTIONS.values())).repeat_interleave(50)
instructions = np.repeat(list(INSTRUCTIONS), 50)
x_obs = simulate(true_theta, seed=2)


def boundaries(draws):
    """Mean boundary under each instruction."""
    means = draws.mean(dim=0)[:, 1]
    return {
        name: round(means[torch.from_numpy(instructions == name)].mean().item(), 2)
        for name in INSTRUCTIONS
    }


before = posterior.sample(500, x_obs, seed=0)
print("true boundaries", boundaries(true_theta[None]))
print("inferred       ", boundaries(before))

# %% [markdown]
# The posterior finds the effect as it is.
#
# ## A tempting mistake
#
# Nobody has simulations at the true parameters of these people. It is tempting to
# simulate at the inferred ones, eight times each, and to call that `x_sim`:

# %%
inferred = before.mean(dim=0)
x_sim = torch.stack([simulate(inferred, seed=10 + run) for run in range(8)], dim=1)
axes = plot_departures(x_obs, instructions, x_sim, names=COLUMNS)
axes[0].figure.savefig("response_times_departures.png")

# %% [markdown]
# Hardly anything departs: what parameters can explain, the inferred ones have explained.
# And `x_sim` now depends on the instruction, as the parameters do.

# %%
answer = check(x_obs, instructions, x_sim=x_sim, posterior=posterior, seed=0)
print(answer.verdict)
for reason in answer.reasons:
    print("-", reason)

# %% [markdown]
# ## Without pairs
#
# With a pool of simulations instead of pairs, a correction would make the blocks of every
# instruction look like the pool. That is only right if parameters have the same
# distribution under every instruction, which is what the experiment is about. Given the
# inferred parameters, `check` sees that it does not hold.

# %%
with warnings.catch_warnings():
    warnings.simplefilter("ignore", MatchingAssumption)  # what this section is about
    unpaired = check(
        x_obs,
        instructions,
        simulations=simulations,
        posterior=posterior,
        theta=inferred,
        seed=0,
    )
    matched = fit_corrector(instructions, x_obs, simulations=simulations, seed=0)
print(unpaired.verdict)
for reason in unpaired.reasons:
    print("-", reason)

# %% [markdown]
# This is what it refuses to do:

# %%
corrected = CorrectedPosterior(posterior, matched)
after = corrected.sample(500, x_obs, instructions, seed=0)
print("true boundaries", boundaries(true_theta[None]))
print("matched        ", boundaries(after))

# %%
person = 0
both = {"before": before[:, person], "after matching": after[:, person]}
axes = plot_corner(both, theta=true_theta[person], names=NAMES)
axes[0, 0].figure.savefig("response_times_posterior.png")

# %% [markdown]
# The effect of the instructions is gone: the true finding of the experiment, removed as
# if it were a fault of the apparatus. Real data show the same ([What real data
# say](../bench/real_data.md)).
#
# **What to do instead.** Use the posterior as it is. A context belongs into a correction
# if it tells how the *measurement* departs from the simulator (a slow keyboard, a screen
# that lags), and not if it tells which parameters to expect.
