"""What adapters of other packages' posteriors do beyond the laws of all posteriors."""

import numpy as np
import pytest
import torch
from sbi.inference.posteriors import EnsemblePosterior
from sbi.utils import BoxUniform
from torch import nn
from torch.distributions import Normal

from ma_sbi import from_bayesflow, from_callable, from_sbi, from_zuko
from ma_sbi.posteriors.bayesflow import BayesFlowFunctions
from ma_sbi.posteriors.training_range import OutsideTrainingRange
from ma_sbi.protocols import has_density
from tests.some_posteriors import (
    NOISE,
    PRIOR,
    bayesflow_approximator,
    lampe_estimator,
    sbi_ensemble,
    sbi_fmpe,
    sbi_npe,
    zuko_flow,
)

X = torch.tensor([[0.5, -0.5, 0.0], [1.0, 1.0, -1.0]])


def near(x, n):
    return x + NOISE * torch.randn(n, len(x), x.shape[1])


def test_the_density_of_fmpe_is_sbis():
    theta = near(X, 4)
    adapted = from_sbi(sbi_fmpe(), leakage_samples=0).log_prob(theta, X)
    for row in range(len(X)):
        expected = sbi_fmpe().log_prob(theta[:, row], x=X[row])
        # Two solutions with steps of their own: tolerances of sbi a hundred times
        # coarser changed densities near x by 0.024 at most.
        torch.testing.assert_close(adapted[:, row], expected, atol=0.01, rtol=1e-3)


def test_the_density_of_an_ensemble_is_sbis():
    theta = near(X, 4)
    adapted = from_sbi(sbi_ensemble(), leakage_samples=0).log_prob(theta, X)
    for row in range(len(X)):
        expected = sbi_ensemble().log_prob(theta[:, row], x=X[row], norm_posterior=False)
        torch.testing.assert_close(adapted[:, row], expected)


def test_draws_of_an_ensemble_are_of_members_by_their_weights_and_not_grouped():
    ensemble = EnsemblePosterior([sbi_npe(), sbi_npe(seed=1)], weights=[0.7, 0.3])
    adapted = from_sbi(ensemble)
    far_apart = [X[:1], -X[:1]]
    for member, x in zip(adapted.members, far_apart, strict=True):
        draw = member._draw
        member._draw = lambda n, _, draw=draw, x=x: draw(n, 3 * x)
    first = adapted.sample(2000, X[:1], seed=0)[:, 0, 0] > 0
    # Standard errors of a share of 0.7, and of the share of changes, 0.42.
    assert abs(first.float().mean() - 0.7) < 5 * (0.21 / 2000) ** 0.5
    changes = (first[1:] != first[:-1]).float().mean()
    assert abs(changes - 0.42) < 5 * (0.42 / 2000) ** 0.5


def test_an_ensemble_warns_once_of_an_observation_outside():
    posterior = from_sbi(sbi_ensemble())
    with pytest.warns(OutsideTrainingRange) as caught:
        posterior.log_prob(torch.zeros(2, 1, 3), torch.full((1, 3), 500.0))
    kinds = [one.category for one in caught]
    assert kinds.count(OutsideTrainingRange) == 1


@pytest.mark.parametrize("first", [(2, 2), (1, 4)], ids=str)
def test_a_density_is_normalised_for_the_shape_of_x(first):
    """The same numbers as two observations of two trials, or as one of four."""
    prior = BoxUniform(torch.zeros(1), torch.ones(1))

    def make():
        def at(x):
            return Normal(x.mean(dim=1, keepdim=True), 0.5)

        return from_callable(
            lambda num, x: at(x).sample((num,)),
            lambda theta, x: at(x).log_prob(theta)[..., 0],
            batched=True,
            prior=prior,
        )

    x, used = torch.tensor([0.5, 0.5, 2.0, 2.0]), make()
    used.log_prob(torch.full((3, first[0], 1), 0.5), x.reshape(first))
    for shape in ((2, 2), (1, 4)):
        theta = torch.full((3, shape[0], 1), 0.5)
        expected = make().log_prob(theta, x.reshape(shape))
        assert torch.equal(used.log_prob(theta, x.reshape(shape)), expected)


def test_a_density_of_bayesflow_leaves_the_global_generator_alone():
    class Approximator:
        def sample(self, num_samples, conditions, seed):
            return {"t": np.zeros((len(conditions["x"]), num_samples, 1))}

        def log_prob(self, data):
            return np.zeros(len(data["x"]))

    before = torch.get_rng_state()
    functions = BayesFlowFunctions(Approximator(), "x")
    functions.log_prob(torch.zeros(2, 1, 1), torch.zeros(1, 3))
    assert torch.equal(torch.get_rng_state(), before)


def test_an_ensemble_has_a_density_only_if_all_members_do():
    adapted = from_sbi(sbi_ensemble())
    assert has_density(adapted)
    adapted.members[1] = type("Sampler", (), {"has_density": False})()
    assert not has_density(adapted)
    with pytest.raises(ValueError, match="can be sampled but has no density"):
        adapted.log_prob(near(X, 1), X)


def test_how_often_a_density_is_normalised_can_be_chosen():
    edge = torch.tensor([[1.9, 0.0, 0.0]])
    theta = edge[None] - 0.1
    for adapted in (from_sbi(sbi_npe()), from_sbi(sbi_ensemble())):
        share = adapted.acceptance(edge, 2000)
        assert 0.2 < share < 0.95
        raw = adapted.normalised_by(0).log_prob(theta, edge)
        normalised = adapted.log_prob(theta, edge)
        # Members of the ensemble are normalised each by their own share, which differ.
        torch.testing.assert_close(normalised - raw, -share.log()[None], atol=0.1, rtol=0)
    assert from_sbi(sbi_npe()).acceptance(torch.zeros(1, 3), 100) == 1


def test_a_lampe_estimator_is_its_flow():
    estimator = lampe_estimator()
    theta = near(X, 3)
    expected = zuko_flow()(X).log_prob(theta)
    assert torch.equal(from_zuko(estimator).log_prob(theta, X), expected)


def test_lampes_flow_matching_has_draws_and_a_density():
    inference = pytest.importorskip("lampe.inference", reason="lampe is not installed")
    adapted = from_zuko(inference.FMPE(3, 3, hidden_features=(8,)))
    draws = adapted.sample(4, X, seed=0)
    assert draws.shape == (4, 2, 3)
    assert adapted.log_prob(draws, X).shape == (4, 2)


def test_a_network_of_two_arguments_is_no_flow():
    class Ratio(nn.Module):
        def forward(self, theta, x):
            return theta + x

    with pytest.raises(ValueError, match="a Ratio takes 2 arguments"):
        from_zuko(Ratio())


def test_bayesflow_draws_and_evaluates_as_it_does_itself(capfd):
    workflow = bayesflow_approximator()
    adapted = from_bayesflow(workflow, "x")
    capfd.readouterr()
    draws = adapted.sample(3, X, seed=0)
    found = adapted.log_prob(draws, X)
    assert capfd.readouterr().err == ""
    for row in range(len(X)):
        theta = draws[:, row].numpy()
        data = {"theta": theta[:, :2], "last": theta[:, 2:], "x": X[[row] * 3].numpy()}
        expected = torch.as_tensor(workflow.approximator.log_prob(data=data))
        torch.testing.assert_close(found[:, row], expected.float(), atol=1e-4, rtol=1e-4)


def test_bayesflow_says_what_it_cannot_do():
    workflow = bayesflow_approximator()
    theta = near(X, 2).requires_grad_()
    with pytest.raises(ValueError, match="has no gradients"):
        from_bayesflow(workflow, "x").log_prob(theta, X)
    with pytest.raises(ValueError, match="x must have 4 columns, for x, n; got 3"):
        from_bayesflow(workflow, {"x": (3,), "n": 1}).sample(2, X)
    assert from_bayesflow(workflow, {"x": 3}).sample(2, X, seed=0).shape == (2, 2, 3)


def test_posteriors_move_as_sbis_do():
    for adapted in (from_sbi(sbi_npe()), from_sbi(sbi_ensemble()), from_zuko(zuko_flow())):
        before = adapted.sample(2, X, seed=0)
        assert adapted.to("cpu") is adapted
        assert torch.equal(adapted.sample(2, X, seed=0), before)
    with pytest.raises(ValueError, match="a flow with a prior stays"):
        from_zuko(zuko_flow(), prior=PRIOR).to("meta")
