"""Every public class keeps its protocol."""

import inspect

import pytest
import torch

import ma_sbi
from ma_sbi import protocols
from ma_sbi.correctors import BaseCorrector, ComposedCorrector, ShiftCorrector
from ma_sbi.posteriors.amortized import Amortized
from ma_sbi.posteriors.diffusion import DiffusionPosterior
from ma_sbi.protocols import Corrections


@pytest.mark.parametrize("name", ma_sbi.__all__)
def test_every_public_name_is_documented(name):
    assert inspect.getdoc(getattr(ma_sbi, name))


@pytest.mark.parametrize("corrector", [BaseCorrector, ComposedCorrector, ShiftCorrector])
@pytest.mark.parametrize("method", ["correct", "corrections"])
def test_correctors_have_the_signature_of_the_protocol(corrector, method):
    expected = inspect.signature(getattr(protocols.Corrector, method)).parameters
    assert list(inspect.signature(getattr(corrector, method)).parameters) == list(expected)


def test_posteriors_have_the_signature_of_the_protocol():
    expected = inspect.signature(protocols.AmortizedPosterior.sample).parameters
    assert list(inspect.signature(Amortized.sample).parameters) == list(expected)


def test_only_a_diffusion_model_declares_its_density_expensive():
    assert not Amortized.expensive_density
    assert DiffusionPosterior.expensive_density


def test_a_certain_correction_is_one_candidate_of_weight_one():
    x, log_abs_det = torch.randn(3, 2), torch.randn(3)
    certain = Corrections.certain(x, log_abs_det)
    assert torch.equal(certain.x, x[None])
    assert torch.equal(certain.log_weight, torch.zeros(1, 3))
    assert torch.equal(certain.log_abs_det, log_abs_det[None])
    assert not certain.shared


def test_candidates_of_a_pool_are_the_same_for_every_observation():
    pool, log_weight = torch.randn(4, 2), torch.randn(4, 3).log_softmax(dim=0)
    among = Corrections.among(pool, log_weight)
    assert among.shared
    assert torch.equal(among.x, pool[:, None].repeat(1, 3, 1))
    assert torch.equal(among.log_weight, log_weight)


def test_rows_are_selected_in_every_part():
    among = Corrections.among(torch.randn(4, 2), torch.randn(4, 3))
    some = among.rows(slice(1, 3))
    assert torch.equal(some.x, among.x[:, 1:])
    assert torch.equal(some.log_weight, among.log_weight[:, 1:])
    assert some.log_abs_det.shape == (4, 2)
    assert some.shared
