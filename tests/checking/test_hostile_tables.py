"""Every hostile table is refused in a sentence, or read as what it says."""

import pandas as pd
import pytest

from ma_sbi.checking.files import read_observations
from tests.hostile_tables import CASES, PARQUETS


def test_names_of_cases_are_different():
    from tests import hostile_tables as cases

    parts = (cases.CONTEXTS, cases.NUMBERS, cases.ARRAYS, cases.FILES, cases.PARQUETS)
    assert len(CASES) == sum(map(len, parts))


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_table_is_refused_or_read_as_it_is(name, tmp_path):
    if name in PARQUETS:
        pytest.importorskip("pyarrow", reason="needs the extra 'parquet'")
    case = CASES[name]
    path = case.write(tmp_path)
    if case.refused:
        with pytest.raises(ValueError) as caught:  # noqa: PT011 (what it says comes next)
            read_observations(path, **case.options)
        said = str(caught.value)
        assert case.refused in said
        assert len(said) < 600 + len(str(path))
        assert said.isprintable()
        return
    held = read_observations(path, **case.options)
    if case.context is not None:
        found = [None if pd.isna(one) else one for one in held.context.unique()]
        assert found == list(case.context)
        texts = [[isinstance(one, str) for one in some] for some in (found, case.context)]
        assert texts[0] == texts[1]


@pytest.mark.parametrize("cells", [["007", "7"], ["1", "NA"], ["1", "1.0"]], ids=str)
def test_labels_that_look_like_numbers_are_told(cells, tmp_path):
    path = tmp_path / "rows.csv"
    rows = [f"{i},{cells[i % 2]}" for i in range(4)]
    path.write_text("\n".join(["x_obs,context", *rows]))
    (note,) = read_observations(path).notes
    assert note.startswith("context is read as labels, not as numbers: ")
    assert note.endswith("; --number context reads numbers.")
