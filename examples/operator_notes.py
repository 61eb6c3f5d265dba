# %% [markdown]
# # An sbi posterior with operator notes
#
# A laboratory measures how fast dyes stop glowing. A lamp excites a sample, and photons
# are counted in eight gates of half a nanosecond. The simulator knows two parameters: how
# bright the sample is, and the lifetime of its glow. A posterior was trained on it with
# sbi.
#
# The instrument has a log. Some days its lamp is new, some days the filter wheel jams,
# and some days somebody leaves the room light on. The simulator knows nothing of that.

# %%
import torch
from sbi.inference import NPE
from torch.distributions import Independent, Normal

from ma_sbi import CorrectedPosterior, check, fit_corrector, from_sbi
from ma_sbi.plots import (
    plot_before_after,
    plot_candidates,
    plot_coverage,
    plot_departures,
    plot_tried,
)

NAMES = ["log brightness", "log lifetime"]
GATES = [f"gate {gate}" for gate in range(8)]
prior = Independent(Normal(torch.tensor([5.5, 0.2]), torch.tensor([0.7, 0.5])), 1)


def expected(theta):
    """Photons per gate."""
    start = 0.5 * torch.arange(8)
    return theta[:, :1].exp() * torch.exp(-start / theta[:, 1:].exp())


def count(photons, seed):
    """Log counts, of which the posterior is trained."""
    rng = torch.Generator().manual_seed(seed)
    return torch.log1p(torch.poisson(photons, generator=rng))


def simulate(theta, seed):
    return count(expected(theta), seed)


# %% [markdown]
# ## The posterior
#
# Nothing here is special to ma-sbi. `from_sbi` wraps what sbi gives.

# %%
torch.manual_seed(0)
theta = prior.sample((3000,))
trainer = NPE(prior).append_simulations(theta, simulate(theta, seed=1))
trainer.train(training_batch_size=200, learning_rate=2e-3, stop_after_epochs=5)
posterior = from_sbi(trainer.build_posterior())

# %% [markdown]
# ## The log
#
# What the operators write, and what it does to the photons. You do not know the second
# column; this page does, because it plays reality.

# %%
LOG = {
    "Routine run, nothing to report.": lambda photons: photons,
    "New lamp since this morning, signal is strong.": lambda photons: 1.5 * photons,
    "Filter wheel jammed half way.": lambda photons: 0.6 * photons,
    "Room light was on during the run.": lambda photons: photons + 25.0,
}


def observe(theta, notes, seed):
    photons = expected(theta)
    rows = [LOG[note](row) for note, row in zip(notes, photons, strict=True)]
    return count(torch.stack(rows), seed)


def draw_notes(num, seed):
    rng = torch.Generator().manual_seed(seed)
    return [list(LOG)[pick] for pick in torch.randint(len(LOG), (num,), generator=rng)]


# %% [markdown]
# ## Control runs
#
# Once a day a reference dye is measured, whose brightness and lifetime are certified. So
# the simulator can be run at the same settings, several times, which shows its noise.
# That is `x_sim`. (Other sources are listed in [Where x_sim comes
# from](../how_to/where_x_sim_comes_from.md).)

# %%
settings = prior.sample((320,))
notes = draw_notes(320, seed=2)
x_obs = observe(settings, notes, seed=3)
x_sim = torch.stack([simulate(settings, seed=10 + run) for run in range(8)], dim=1)

axes = plot_departures(x_obs, notes, x_sim, columns=[0, 3, 7], names=GATES)
axes[0].figure.savefig("operator_notes_departures.png")

# %% [markdown]
# A new lamp and a jammed filter change all gates alike, in logarithms. The room light is
# another matter: late gates, which are dark, suffer most, and how much depends on the
# sample.
#
# ## May we correct by these notes?
#
# `check` compares what a correction gains on rows that it has not seen. It needs no
# posterior; with one it would also judge the parameters, which takes minutes here.

# %%
answer = check(x_obs, notes, x_sim=x_sim, theta=settings, seed=0)
print(answer.verdict)
for reason in answer.reasons:
    print("-", reason)

# %% [markdown]
# ## What was learned
#
# With the posterior and the certified settings, corrections are judged by how probable they
# make the true parameters. What was tried:

# %%
corrector = fit_corrector(notes, x_obs, x_sim, posterior=posterior, theta=settings, seed=0)
plot_tried(corrector).figure.savefig("operator_notes_tried.png")

# %% [markdown]
# ## A new sample
#
# A dye with a true brightness of exp(5) and a lifetime of 1 ns is measured under the new
# lamp.

# %%
dye = torch.tensor([[5.0, 0.0]])
note = "New lamp since this morning, signal is strong."
x = observe(dye, [note], seed=4)
corrected = CorrectedPosterior(posterior, corrector)

axes = plot_before_after(corrected, x, note, theta=dye, names=NAMES)
axes[0, 0].figure.savefig("operator_notes_posterior.png")

plot_candidates(corrector, x, note, names=GATES).figure.savefig(
    "operator_notes_candidates.png"
)

# %% [markdown]
# Uncorrected, the posterior is sure of a brightness that is wrong by the strength of the
# lamp. The correction moves it to the truth. It is as wide as its candidates say: the
# lamp is known from some eighty control runs, not perfectly.
#
# ## On average
#
# 200 new samples, whose parameters this page knows:

# %%
new_theta = prior.sample((200,))
new_notes = draw_notes(200, seed=5)
new_x = observe(new_theta, new_notes, seed=6)


def error(draws):
    """Root mean squared error of the posterior means."""
    return (draws.mean(dim=0) - new_theta).square().mean(dim=0).sqrt()


before = error(posterior.sample(200, new_x, seed=0))
after = error(corrected.sample(200, new_x, new_notes, seed=0))
for name, wrong, right in zip(NAMES, before, after, strict=True):
    print(f"error of {name:15} {wrong:.2f} before, {right:.2f} after")

ax = plot_coverage(corrected, new_theta, new_x, new_notes, with_density=False)
ax.figure.savefig("operator_notes_coverage.png")

# %% [markdown]
# ## Back to sbi
#
# `given` fixes a note and returns a posterior of sbi, for all of sbi's tools.

# %%
of_sbi = corrected.given(note)
draws = of_sbi.sample((1000,), x=x, show_progress_bars=False)
print("mean of 1000 draws from sbi's posterior:", draws.mean(dim=0).numpy().round(2))
