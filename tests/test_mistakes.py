"""Every mistake of a user gets a sentence that says what to do next."""

import re
import warnings

import numpy as np
import pytest

from tests.mistakes import FITTED, MENDED, OBS, REFUSED, TABLE, WARNED

# What to do is a command, or what must be true.
NEXT = re.compile(
    r"\b(must|fit|needs?|pass|write|use|leave|call|subtract|bring|adapt|combine|translate|check"
    r"|expects?|fill|give|go(es)? through|at least|known are|there is no)\b",
    re.IGNORECASE,
)
LONGEST = 400


def say_what_to_do(message):
    return (
        NEXT.search(message) is not None and "\n" not in message and len(message) <= LONGEST
    )


def test_there_are_many():
    assert len(REFUSED) + len(WARNED) >= 60


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_is_refused_in_a_sentence(name, tmp_path):
    call, sentence = REFUSED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((ValueError, OSError), match=re.escape(sentence)) as refusal:
            call(tmp_path)
    assert say_what_to_do(str(refusal.value)), str(refusal.value)


@pytest.mark.parametrize("name", WARNED)
def test_a_doubt_is_a_warning(name):
    call, sentence = WARNED[name]
    with pytest.warns(UserWarning, match=re.escape(sentence)) as caught:
        call()
    said = [str(one.message) for one in caught if sentence in str(one.message)]
    assert len(said) == 1
    assert say_what_to_do(said[0]), said[0]


@pytest.mark.parametrize("name", MENDED)
@pytest.mark.filterwarnings("ignore")
def test_what_is_meant_is_done(name):
    call, meant = MENDED[name]
    np.testing.assert_allclose(call(), meant(), atol=1e-4)


def test_a_row_of_a_table_is_one_context():
    by_row, by_dict = (
        FITTED.of_table.given(context).correct(OBS[:2]).x
        for context in (TABLE.iloc[0], {"load": 0.0, "note": "high"})
    )
    np.testing.assert_array_equal(by_row, by_dict)


def test_good_contexts_give_no_doubt():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FITTED.shift.correct(OBS, "high")
