# %% [markdown]
# # An epidemic with delayed reports
#
# How fast does a disease spread, and how long are people infectious? A posterior of both
# rates was trained on simulated epidemics: new cases of each day, over six weeks.
#
# Real counts are reported late. Some districts enter nothing at week-ends, some are three
# days behind. A note says which, and the simulator knows nothing of it. A late count is
# the same count in another column, so no shift of the counts corrects it.

# %%
import torch
from torch.distributions import Independent, LogNormal

from ma_sbi import CorrectedPosterior, check, fit_corrector, fit_flow
from ma_sbi.plots import (
    plot_before_after,
    plot_coverage,
    plot_departures,
    plot_observations,
    plot_tried,
)

DAYS = 42
NAMES = ["infection rate", "recovery rate"]
WEEK = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
WEEKDAYS = [f"{WEEK[day % 7]} {day // 7 + 1}" for day in range(DAYS)]
prior = Independent(LogNormal(torch.tensor([-0.7, -1.6]), torch.tensor([0.3, 0.2])), 1)


def simulate_counts(theta, seed):
    """New cases of each day among ten thousand people, of whom twenty bring it in."""
    infection, recovery = theta.T
    infected = torch.full_like(infection, 0.002)
    susceptible = 1 - infected
    new = []
    for _ in range(DAYS):
        start = susceptible
        for _ in range(4):
            step = infection * susceptible * infected / 4
            susceptible = susceptible - step
            infected = infected + step - recovery * infected / 4
        new.append(start - susceptible)
    rng = torch.Generator().manual_seed(seed)
    return torch.poisson(10_000 * torch.stack(new, dim=1), generator=rng)


# %% [markdown]
# ## The posterior
#
# It sees logarithms of counts. `fit_flow` trains a neural spline flow; one from sbi does
# as well.

# %%
torch.manual_seed(0)
theta = prior.sample((4000,))
simulations = torch.log1p(simulate_counts(theta, seed=1))
posterior = fit_flow(prior, theta, simulations, learning_rate=2e-3, patience=5, seed=0)

# %% [markdown]
# ## Reports
#
# Reality, which this page plays. Day 0 is a Monday.

# %%
IN_TIME = "Cases are entered on the day."
WEEKENDS = "No entries at week-ends, these follow on Monday."
LATE = "Entries are three days behind."
NOTES = [IN_TIME, WEEKENDS, LATE]


def report(counts, note):
    """Move counts to the day on which they are reported; what comes too late is lost."""
    day = torch.arange(DAYS)
    if note == WEEKENDS:
        reported = day + torch.where(day % 7 >= 5, 7 - day % 7, 0)
    else:
        reported = day + (3 if note == LATE else 0)
    arrives = reported < DAYS
    reports = torch.zeros_like(counts)
    return reports.index_add(0, reported[arrives], counts[arrives])


def observe(theta, notes, seed):
    """Counts by day of onset, and as they were reported, in logarithms."""
    counts = simulate_counts(theta, seed)
    reports = torch.stack(
        [report(row, note) for row, note in zip(counts, notes, strict=True)]
    )
    return torch.log1p(counts), torch.log1p(reports)


# %% [markdown]
# ## Past epidemics
#
# Of 120 districts in earlier years there are both: the counts as they were reported at
# the time, and those by day of onset, which the registry completed months later. The
# second are what the simulator describes, so they are `x_sim`. No rate of any past
# epidemic is known.

# %%
notes = [NOTES[row % 3] for row in range(120)]
x_sim, x_obs = observe(prior.sample((120,)), notes, seed=2)

second_week = range(7, 14)
axes = plot_departures(x_obs, notes, x_sim, columns=second_week, names=WEEKDAYS)
axes[0].figure.savefig("epidemic_departures.png")

# %% [markdown]
# The second week of the log counts. Week-ends are empty and Mondays too high where
# nothing is entered at week-ends; where entries are late, all days are too low while
# cases rise.
#
# ## The correction
#
# With `simulations=`, `fit_corrector` can also learn the departure forwards, from the
# counts by onset to the reports, and then the way back.

# %%
corrector = fit_corrector(
    notes, x_obs, x_sim, posterior=posterior, simulations=simulations, seed=0
)
plot_tried(corrector).figure.savefig("epidemic_tried.png")
print(corrector.why.reasons[-1])

# %%
answer = check(
    x_obs, notes, x_sim=x_sim, posterior=posterior, simulations=simulations, seed=0
)
print(answer.verdict)
for reason in answer.reasons:
    print("-", reason)

# %% [markdown]
# With care, because 120 rows are too few to be sure that the kind of report says nothing of
# the rates themselves.
#
# ## New epidemics
#
# 150 districts, with rates that this page knows. Sixty of them, Saturday of the second week
# against the Monday after it:

# %%
new_theta = prior.sample((150,))
new_notes = [NOTES[row % 3] for row in range(150)]
new_sim, new_obs = observe(new_theta, new_notes, seed=3)

ax = plot_observations(
    new_obs[:60], new_notes[:60], simulations, corrector, columns=[12, 14], names=WEEKDAYS
)
ax.figure.savefig("epidemic_observations.png")

# %%
corrected = CorrectedPosterior(posterior, corrector)


def error(draws):
    """Root mean squared error of the mean log rates."""
    return (draws.log().mean(dim=0) - new_theta.log()).square().mean(dim=0).sqrt()


errors = {
    "as reported": error(posterior.sample(300, new_obs, seed=0)),
    "corrected": error(corrected.sample(300, new_obs, new_notes, seed=0)),
    "by day of onset": error(posterior.sample(300, new_sim, seed=0)),
}
for name, (infection, recovery) in errors.items():
    print(f"{name:16} error of log rates {infection:.3f} and {recovery:.3f}")

ax = plot_coverage(
    corrected, new_theta, new_obs, new_notes, x_sim=new_sim, with_density=False
)
ax.figure.savefig("epidemic_coverage.png")

# %% [markdown]
# The posterior warns that a third of the reports are unlike anything it was trained on:
# epidemics have no empty week-ends. Corrected, they are epidemics again, and the rates are
# nearly as good as from counts by day of onset.
#
# One of the districts that are late:

# %%
axes = plot_before_after(corrected, new_obs[2], LATE, theta=new_theta[2], names=NAMES)
axes[0, 0].figure.savefig("epidemic_posterior.png")
