"""PriorGuide: ours against sbi's, where the answer is known.

theta ~ N(0, I) in two dimensions, x ~ N(theta, I), a new prior N((1, -1), 0.5^2 I): all
posteriors are Gaussian. Prints the error of the mean in posterior deviations and the ratio
of deviations, averaged over observations, with the unguided model's, and the seconds.

    python bench/benchmarks/prior_guide.py
"""

import time

import torch
from sbi.inference import NPSE
from torch.distributions import MultivariateNormal

from ma_sbi import fit_ddpm
from ma_sbi_bench.methods import Materials, get_method

NUM_SIMULATIONS, NUM_DRAWS = 10_000, 1000
OLD = MultivariateNormal(torch.zeros(2), torch.eye(2))
NEW = MultivariateNormal(torch.tensor([1.0, -1.0]), 0.25 * torch.eye(2))
X = torch.tensor([[0.0, 0.0], [1.0, -0.5], [-0.5, 0.5], [1.5, -1.5]])


class NoTracker:
    """Keeps sbi from writing TensorBoard files into the working directory."""

    log_dir = None

    def log_metric(self, name, value, step=None): ...  # noqa: D102

    def flush(self): ...  # noqa: D102


def exact(prior):
    """Give mean and deviation of theta given X under a prior with covariance v I."""
    variance = prior.covariance_matrix[0, 0]
    weight = variance / (1 + variance)
    return prior.mean + weight * (X - prior.mean), weight.sqrt()


def report(name, start, draws, prior):
    mean, deviation = exact(prior)
    error = ((draws.mean(dim=0) - mean).square().sum(dim=1).sqrt() / deviation).mean()
    ratio = (draws.std(dim=0) / deviation).mean()
    seconds = time.perf_counter() - start
    print(f"{name:34s} mean off by {error:.3f}   deviation x {ratio:.3f}   {seconds:.1f} s")


def main():
    torch.set_num_threads(1)
    rng = torch.Generator().manual_seed(0)
    theta = torch.randn(NUM_SIMULATIONS, 2, generator=rng)
    x = theta + torch.randn(NUM_SIMULATIONS, 2, generator=rng)

    start = time.perf_counter()
    base = fit_ddpm(OLD, theta, x, schedule="rescaled", seed=0)
    print(f"our model trained in {time.perf_counter() - start:.0f} s")
    start = time.perf_counter()
    report("ours, unguided", start, base.sample(NUM_DRAWS, X, seed=0), OLD)
    for name in ("prior_guide", "prior_guide_jacobian"):
        start = time.perf_counter()
        method = get_method(name, target_prior=NEW)
        method.fit(Materials(prior=OLD, posterior=base), seed=0)
        report(name, start, method.sample(NUM_DRAWS, X, seed=0), NEW)

    start = time.perf_counter()
    trainer = NPSE(OLD, sde_type="ve", tracker=NoTracker(), show_progress_bars=False)
    trainer.append_simulations(theta, x)
    trainer.train(max_num_epochs=100, show_train_summary=False)
    posterior = trainer.build_posterior()
    print(f"sbi's model trained in {time.perf_counter() - start:.0f} s")
    guide = {"train_prior": OLD, "test_prior": NEW}
    for name, options, prior in (
        ("sbi, unguided", {}, OLD),
        ("sbi, guided", {"guidance_method": "prior_guide", "guidance_params": guide}, NEW),
    ):
        start = time.perf_counter()
        draws = [
            posterior.sample((NUM_DRAWS,), x=row, show_progress_bars=False, **options)
            for row in X
        ]
        report(name, start, torch.stack(draws, dim=1), prior)


if __name__ == "__main__":
    main()
