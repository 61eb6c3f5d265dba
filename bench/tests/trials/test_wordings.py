"""Wordings: what is written, and how calibration sets are drawn from it."""

import pytest
import torch

from ma_sbi_bench.trials import wordings
from ma_sbi_bench.trials.wordings import UNRELATED, UNSEEN, WORLDS, draw_words

written = wordings._written()


def test_there_are_as_many_texts_as_promised_and_none_twice():
    assert len(WORLDS) == 5
    texts = list(written["unrelated"])
    assert len(texts) == 40
    for world in WORLDS:
        regimes = written["worlds"][world]
        assert [len(one) for one in regimes.values()] == [12] * 4
        texts += [text for one in regimes.values() for text in one]
        for kind in wordings.WRITTEN:
            assert list(written[kind][world]) == list(regimes)
            texts += written[kind][world].values()
    assert len(texts) == len({text.lower() for text in texts}) == 40 + 240 + 60


@pytest.mark.parametrize("num_wordings", [1, 3, 8])
@pytest.mark.parametrize("world", WORLDS)
def test_no_text_of_the_test_is_in_the_calibration_set(world, num_wordings):
    words = draw_words(world, 100, num_wordings, seed=77)
    known = set(words.context)
    assert len(known) == 4 * num_wordings
    assert known == set(words.texts["seen"])
    for kind, texts in words.texts.items():
        assert kind == "seen" or not known & set(texts)
    assert len(words.texts[UNSEEN]) == 4 * (12 - num_wordings)
    assert len(words.texts[UNRELATED]) == 40


def test_departures_are_the_shifts_of_the_regimes_that_texts_speak_of():
    words = draw_words("telescope", 200, 3, seed=77)
    regime = dict(zip(words.texts["seen"], words.regimes["seen"], strict=True))
    said = torch.tensor([regime[text] for text in words.context])
    assert said.bincount().tolist() == [50] * 4
    torch.testing.assert_close(
        words.x_obs - words.x_sim, words.shifts[said], atol=1e-6, rtol=0
    )
    torch.testing.assert_close(words.shifts.norm(dim=1), torch.ones(4))


def test_noise_of_its_own_is_in_the_departures():
    clean, noisy = (
        draw_words("telescope", 2000, 3, seed=77, own_noise=own) for own in (False, True)
    )
    extra = noisy.x_obs - noisy.x_sim - (clean.x_obs - clean.x_sim)
    expected = 2**0.5 * wordings.OWN_NOISE
    # A standard deviation of 10,000 values; four standard errors.
    assert abs(extra.std() / expected - 1) < 4 / (2 * 10_000) ** 0.5


def test_a_regime_that_is_never_visited_is_in_the_test_alone():
    words = draw_words("telescope", 90, 3, seed=77, never_visited=True)
    assert len(set(words.context)) == 9
    assert len(set(words.regimes[UNSEEN])) == 1
    assert len(words.texts[UNSEEN]) == 12
    assert "seen" not in words.texts
    assert not set(words.context) & {text for some in words.texts.values() for text in some}


def test_more_rows_have_the_same_wordings_and_shifts():
    few, many = (draw_words("telescope", num, 3, seed=77) for num in (100, 500))
    assert set(few.context) == set(many.context)
    assert torch.equal(few.shifts, many.shifts)
    other = draw_words("telescope", 100, 3, seed=78)
    assert set(few.context) != set(other.context)


def test_typing_errors_keep_the_letters():
    words = draw_words("telescope", 20, 1, seed=77)
    pairs = list(zip(words.texts[UNSEEN], words.texts["typos"], strict=True))
    assert all(sorted(right) == sorted(wrong) for right, wrong in pairs)
    assert sum(right != wrong for right, wrong in pairs) > len(pairs) / 2
