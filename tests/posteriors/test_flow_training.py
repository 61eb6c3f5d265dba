"""Tests for ma_sbi.posteriors.flow_training."""

import warnings
from contextlib import redirect_stdout
from io import StringIO

import pytest
import torch
from sbi.inference import NPE
from sbi.neural_nets import posterior_nn
from sbi.utils.sbiutils import mcmc_transform
from torch import nn

from ma_sbi import fit_flow
from ma_sbi.randomness import seeded
from tests.no_tracker import NoTracker
from tests.some_posteriors import PRIOR, simulations


def trained_by_sbi(theta, x, *, seed, flow, num_transforms, embedding_net, **options):
    """Train with sbi's own loop what fit_flow trains."""
    real_theta = mcmc_transform(PRIOR)(theta)  # draws from the prior, to test it
    with seeded(seed), redirect_stdout(StringIO()):
        trainer = NPE(
            density_estimator=posterior_nn(
                f"zuko_{flow}",
                num_transforms=num_transforms,
                hidden_features=(8,),
                embedding_net=embedding_net,
            ),
            tracker=NoTracker(),
        )
        trainer.append_simulations(real_theta, x)
        return trainer.train(**options), trainer.summary["epochs_trained"][-1]


CASES = {
    "nsf": {"flow": "nsf", "num_transforms": 1, "batch_size": 50, "max_epochs": 3},
    "maf": {"flow": "maf", "num_transforms": 2, "batch_size": 70, "max_epochs": 3},
    # A batch may be larger than what is held out, and than what is trained on.
    "large batches": {"flow": "maf", "num_transforms": 1, "batch_size": 150},
    "stops early": {
        "flow": "maf",
        "num_transforms": 1,
        "batch_size": 20,
        "patience": 1,
        "learning_rate": 0.05,
        "max_epochs": 100,
    },
    "embedding": {"flow": "maf", "num_transforms": 1, "embedding_net": nn.Linear(3, 2)},
}


@pytest.mark.filterwarnings("ignore:training stopped", "ignore:Maximum number of epochs")
@pytest.mark.parametrize("name", CASES)
def test_a_seed_gives_the_weights_that_sbi_gives(name):
    options = {
        "batch_size": 100,
        "max_epochs": 4,
        "patience": 3,
        "learning_rate": 1e-3,
        "validation_fraction": 0.2,
        "embedding_net": nn.Identity(),
    } | CASES[name]
    theta, x = simulations(300)
    ours = fit_flow(PRIOR, theta, x, hidden=(8,), seed=1, **options)
    theirs, epochs = trained_by_sbi(
        theta,
        x,
        seed=1,
        flow=options["flow"],
        num_transforms=options["num_transforms"],
        embedding_net=options["embedding_net"],
        training_batch_size=options["batch_size"],
        learning_rate=options["learning_rate"],
        validation_fraction=options["validation_fraction"],
        stop_after_epochs=options["patience"],
        max_num_epochs=options["max_epochs"] - 1,  # sbi trains one more
    )
    if name == "stops early":
        assert epochs < options["max_epochs"]
    expected = theirs.state_dict()
    found = ours.estimator.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], expected[key]) for key in expected)


def test_one_epoch_is_enough():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="training stopped")
        posterior = fit_flow(PRIOR, *simulations(100), hidden=(8,), max_epochs=1, seed=0)
    assert posterior.sample(2, torch.zeros(1, 3), seed=0).isfinite().all()


@pytest.mark.parametrize("learning_rate", [1e3, 1e30])
def test_a_loss_that_is_no_number_is_said_to_diverge(learning_rate):
    with pytest.raises(ValueError, match="training diverged at learning_rate"):
        fit_flow(PRIOR, *simulations(100), learning_rate=learning_rate, seed=0)
