"""Tests for ma_sbi.display.grouping."""

import numpy as np
import pytest

from ma_sbi.display.grouping import MISSING, labels, most_frequent


def group(contexts, most):
    return most_frequent(np.array(contexts, dtype=object), most)


@pytest.mark.parametrize("most", [1, 3, 10, 400])
def test_every_row_is_in_one_group_however_many_contexts_there_are(most):
    rng = np.random.default_rng(0)
    contexts = [f"run {one}" for one in rng.integers(326, size=1000)] + [MISSING] * 7
    groups = group(contexts, most)
    rows = np.concatenate([one.rows for one in groups])
    assert sorted(rows) == list(range(1007))
    assert len(groups) <= most + 2


def test_the_most_frequent_come_first_and_the_rest_is_summed_up():
    groups = group([*"dcbbbaaa", *"aef"], most=2)
    assert labels(groups) == [
        "a (n = 4)",
        "b (n = 3)",
        "4 other contexts (n = 4)",
    ]


def test_a_single_rare_context_is_named():
    assert [one.name for one in group([*"aaabbc"], most=2)] == ["a", "b", "c"]


def test_missing_rows_have_an_entry_of_their_own_at_the_end():
    groups = group(["a", "b", "c", "d", MISSING, "a"], most=1)
    assert [one.name for one in groups] == ["a", "3 other contexts", MISSING]
    assert groups[-1].rows.tolist() == [4]


def test_a_number_and_its_text_are_different_contexts():
    assert [len(one.rows) for one in group([1, "1", 1, "1", "1"], most=5)] == [3, 2]


def test_long_names_are_shortened_and_control_characters_replaced():
    groups = group(["\x1b[31m" + "very " * 50], most=1)
    assert len(labels(groups, 20)[0]) <= 20 + len(" (n = 1)")
    assert "\x1b" not in labels(groups)[0]


@pytest.mark.parametrize("where", ["begin", "middle", "end"])
def test_names_that_differ_anywhere_have_different_labels(where):
    same = "The technician noted in the log that the probe of bench three "
    names = {
        "begin": [f"{one} {same * 2}" for one in ("high", "low")],
        "middle": [f"{same} {one} {same}" for one in ("high", "low")],
        "end": [f"{same * 2} reads {one}" for one in ("high", "low")],
    }[where]
    found = labels(group(names, most=5))
    assert len(set(found)) == 2
    assert all(len(one) <= 44 + len(" (n = 1)") for one in found)
