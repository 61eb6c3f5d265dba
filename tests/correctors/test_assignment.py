"""Tests for ma_sbi.correctors.assignment."""

import pytest
import torch

from ma_sbi.correctors.assignment import assign, leave_out

CENTRES = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]], dtype=torch.float64)


def draw(*shape, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def certain(regime, num=3):
    return torch.eye(num, dtype=torch.float64)[regime]


def equal(num=3):
    return torch.full((num,), 1 / num, dtype=torch.float64)


def test_leaving_a_context_out_is_fitting_without_it():
    rng = torch.Generator().manual_seed(0)
    member = torch.rand(9, 3, dtype=torch.float64, generator=rng)
    member = member / member.sum(dim=1, keepdim=True)
    encoding, spread = draw(9, 2), 0.7
    found = leave_out(encoding, member, spread)
    for one in range(9):
        others = torch.arange(9) != one
        rest = member[others]
        centres = rest.T @ encoding[others] / rest.sum(dim=0)[:, None]
        count = rest.sum(dim=0).square() / rest.square().sum(dim=0)
        expected = (encoding[one] - centres).square().sum(dim=1) - spread / count
        torch.testing.assert_close(found.distance[one], expected)
        apart = (encoding[one] - centres.mean(dim=0)).square().sum()
        torch.testing.assert_close(found.from_middle[one], apart)


def test_a_regime_without_other_contexts_cannot_be_recognised():
    found = leave_out(draw(3, 2), certain(torch.tensor([0, 0, 1]), 2), 0.0)
    expected = [[False, False], [False, False], [False, True]]
    assert found.distance.isinf().tolist() == expected
    assert found.from_middle.isfinite().all()


def test_distances_do_not_depend_on_how_many_contexts_a_centre_has():
    # Centres of 2 and of 40 contexts, both at the origin: at any point the mean difference
    # of the two distances is zero, and would be 50 (1/2 - 1/40) = 24 uncorrected.
    differences = []
    for seed in range(60):
        regime = torch.tensor([0] * 2 + [1] * 40)
        encoding = draw(42, 50, seed=seed)
        assignment = assign(encoding, certain(regime, 2), equal(2))
        near, far = assignment.distance(torch.zeros(1, 50)).squeeze(0)
        differences.append(near - far)
    differences = torch.stack(differences)
    assert abs(differences.mean()) < 4 * differences.std() / 60**0.5


def test_probabilities_are_those_of_bayes_rule():
    # Gaussian contexts: the posterior of the regime is known.
    regime = torch.arange(300) % 3
    assignment = assign(CENTRES[regime] + draw(300, 2), certain(regime), equal())
    new = CENTRES[regime] + draw(300, 2, seed=1)
    found, unlike = assignment(new)
    expected = (-0.5 * torch.cdist(new, CENTRES).square()).softmax(dim=1)
    # Sharpnesses are a factor of 1.5 apart; in 30 draws of this world the mean difference
    # was 0.013, with a standard deviation of 0.005.
    assert (found - expected)[~unlike].abs().mean() < 0.013 + 4 * 0.005


def test_how_often_contexts_are_wrong_is_found():
    # Far apart, but a third of the contexts have a regime at random.
    regime = torch.arange(600) % 3
    wrong = torch.arange(600) % 9 < 3
    said = torch.where(wrong, torch.arange(600) // 9 % 3, regime)
    encoding = 20 * CENTRES[said] + draw(600, 2)
    found, _ = assign(encoding, certain(regime), equal())(20 * CENTRES)
    share = (said == regime).double().mean()
    # Misread shares are a factor of 1.5 to 2 apart.
    assert (found.diag() - share).abs().max() < 0.1


def test_frequent_regimes_are_more_probable_between_two():
    regime = torch.tensor([0] * 40 + [1] * 40)
    encoding = CENTRES[regime] + 0.5 * draw(80, 2)
    share = torch.tensor([0.9, 0.1], dtype=torch.float64)
    assignment = assign(encoding, certain(regime, 2), share)
    centre = assignment.centres.mean(dim=0, keepdim=True)
    found, _ = assignment(centre)
    assert found[0, 0] > 0.8


def test_contexts_that_tell_nothing_are_not_believed():
    regime = torch.arange(90) % 3
    found, _ = assign(draw(90, 5), certain(regime), equal())(draw(30, 5, seed=1))
    assert (found - 1 / 3).abs().mean() < 0.1


def test_one_context_for_each_regime_says_nothing_of_others():
    share = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    found, unlike = assign(CENTRES, certain(torch.arange(3)), share)(draw(4, 2))
    torch.testing.assert_close(found, share.expand(4, 3))
    assert not unlike.any()


def test_labels_that_are_encoded_one_by_one_say_nothing_of_others():
    regime = torch.arange(12) % 3
    encoding = torch.eye(13, dtype=torch.float64)
    found, _ = assign(encoding[:12], certain(regime), equal())(encoding[12:])
    torch.testing.assert_close(found, equal()[None])


def test_few_known_contexts_and_all_far_ones_are_called_unlike():
    regime = torch.arange(60) % 3
    spread = torch.zeros(3, 100, dtype=torch.float64)
    spread[:, :2] = CENTRES
    assignment = assign(spread[regime] + 0.3 * draw(60, 100), certain(regime), equal())
    known = spread[torch.arange(2000) % 3] + 0.3 * draw(2000, 100, seed=1)
    alarms = assignment(known)[1].double().mean().item()
    # 1.5 %; the limit rests on 60 contexts.
    assert 0.001 < alarms < 0.06
    probability, unlike = assignment(known + 1.0)
    assert unlike.all()
    torch.testing.assert_close(probability, equal().expand(2000, 3))


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_unit_of_the_encoding_is_irrelevant(scale):
    regime = torch.arange(30) % 3
    encoding, new = CENTRES[regime] + draw(30, 2), draw(10, 2, seed=1)
    expected, _ = assign(encoding, certain(regime), equal())(new)
    found, _ = assign(scale * encoding, certain(regime), equal())(scale * new)
    torch.testing.assert_close(found, expected)
