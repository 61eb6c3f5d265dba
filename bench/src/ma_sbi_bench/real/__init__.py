"""Real data, read from a local folder or from its official source; none is in the package.

Set ``MA_SBI_DATA`` to a folder in the tidy layout, or let the official files be downloaded.
"""

from ma_sbi_bench.real.covid.jhu import read_jhu
from ma_sbi_bench.real.covid.load import COUNTRIES, PAPER_COUNTRIES, CovidData, load_covid
from ma_sbi_bench.real.covid.oxcgrt import read_codebook, read_oxcgrt, read_oxcgrt_notes
from ma_sbi_bench.real.covid.repairs import find_dumps, spread_corrections
from ma_sbi_bench.real.covid.windows import REGIME_CUTS, Windows, covid_windows
from ma_sbi_bench.real.instructions.evans_hawkins import (
    load_evans_hawkins,
    read_evans_hawkins,
)
from ma_sbi_bench.real.instructions.load import (
    RESPONSE_TIMES,
    RegimeText,
    load_response_times,
    regime_texts,
)
from ma_sbi_bench.real.source import fetch, tidy_file, tidy_folder

__all__ = [
    "COUNTRIES",
    "PAPER_COUNTRIES",
    "REGIME_CUTS",
    "RESPONSE_TIMES",
    "CovidData",
    "RegimeText",
    "Windows",
    "covid_windows",
    "fetch",
    "find_dumps",
    "load_covid",
    "load_evans_hawkins",
    "load_response_times",
    "read_codebook",
    "read_evans_hawkins",
    "read_jhu",
    "read_oxcgrt",
    "read_oxcgrt_notes",
    "regime_texts",
    "spread_corrections",
    "tidy_file",
    "tidy_folder",
]
