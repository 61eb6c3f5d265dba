"""The paper's tables, copied once more: rows and columns as it prints them.

Written from the paper, not from ``paper.csv``. A dash is a place that it leaves empty.
"""

from collections.abc import Iterator

Key = tuple[str, str, str, str, str, str]
"""Table, metric, task, backbone, method and axis, as in ``paper.csv``."""

# The worlds that are as large as the paper's.
SIR, DDM = "sir_delay_million", "ddm_small_shifts"
FIVE = ("gaussian_linear", "slcp", "two_moons", SIR, DDM)
METRIC_OF = {SIR: "mse", DDM: "mse"}

MAIN = """
npe                      0     0     0     0     0
nnpe_isotropic           -     20    -21   +97   99
nnpe_matched             -2    -     -     -     -
concat                   -25   -425  -28   +100  24
rope_emd                 9     28    -2    99.8  80
rope_sinkhorn            +18   22    +4    +98   +2
context_to_theta_paper   -776  -448  -36   -     -824
context_to_x_paper       -462  -374  -37   -     -1025
ma_sbi_paper             91    93    95    87    101
"""
# The first table prints NPE's 0 % by definition, and a footnote NNPE's other scale.
FOOTNOTE = {("nnpe_isotropic", "gaussian_linear"): "-88"}
RAW = """
npe                      0.557 0.784 0.924 40.41 0.0455
nnpe_isotropic           -     0.768 0.967 1.066 0.0218
nnpe_matched             0.558 -     -     -     -
concat                   0.570 0.951 0.981 0.064 0.0374
rope_emd                 0.544 0.772 0.928 0.091 0.0366
rope_sinkhorn            0.547 0.777 0.915 0.770 0.0451
context_to_theta_paper   0.962 0.996 0.999 -     0.2423
context_to_x_paper       0.798 0.994 1.000 -     0.2903
ma_sbi_paper             0.509 0.745 0.726 4.55  0.0223
oracle                   0.504 0.742 0.716 0.002 0.0217
"""
# Median, its quartiles, median of the share, its quartiles, p.
FLOW = """
npe                 0.758 0.755 0.762 -     -     -     0.999
rope_emd            0.762 0.757 0.778 -5    -25   +17   0.999
rope_paper_ot_only  0.892 0.881 0.895 -313  -363  -222  1.000
rope_paper          0.903 0.897 0.906 -336  -404  -255  1.000
ma_sbi_paper        0.719 0.712 0.725 +93.6 +84   +97   -
oracle              0.714 0.708 0.726 -     -     -     -
"""
# Median, mean, deviation, quartiles.
DIFFUSION = """
rope_emd      0.770 0.775 0.016 0.763 0.784
npe           0.779 0.778 0.012 0.771 0.787
ma_sbi_paper  0.748 0.744 0.018 0.727 0.756
oracle        0.744 0.743 0.017 0.729 0.753
"""
# Mean, deviation and interval of the paired difference.
PAIRED = """
maf   +0.003 0.004 +0.001 +0.006
ddpm  +0.002 0.004 -0.001 +0.004
"""
ROPE_SWEEP = """
N_s=200   0.922 0.919
N_s=500   0.913 0.917
N_s=1000  0.905 0.911
N_s=2000  0.899 0.907
N_s=5000  0.909 0.904
N_o=200   0.856 0.863
"""
BACKBONES = """
maf   +106 +101 +102
ddpm  +111 +99  +102
"""
THREE_WAY = """
slcp        informative    5    45  93
slcp        uninformative  -2   5   4
two_moons   informative    -13  10  95
sir_delay_million   informative    79   50  95
sir_delay_million   uninformative  64   4   67
ddm_small_shifts         informative    20   74  94
ddm_small_shifts         uninformative  30   -3  27
"""
ANALYTIC = """
informative    19 81 100
uninformative  19 0  19
"""
SLCP_SIZES = """
100   0.777 0.787 0.786 0.758 0.741
500   0.772 0.777 0.784 0.745 0.742
2000  0.786 0.807 0.787 0.735 0.733
"""
GL_SIZES = """
100   +50.7 +114.5
500   +9.2  +99.0
2000  -15.1 +120.5
"""
TWO_MOONS_SIZES = """
100   -11.7 -5.6 +68.4
500   -1.4  +4.4 +97.5
2000  +3.5  +5.2 +98.7
"""
SIR_SIZES = """
100   +99.7 +54.0
500   +99.7 +92.5
2000  +99.8 +95.8
"""
DDM_SIZES = """
100   0.0467 0.0489 0.0180 0.0192 7.4  103.9
500   0.0249 0.0481 0.0190 0.0192 80.3 100.6
2000  0.0258 0.0491 0.0187 0.0184 75.8 98.8
"""
INDEX_OR_TEXT = """
100  23.5 9.4  45.8
500  18.0 -6.0 105.2
"""
THEOREM_1 = """
zero               0.00  0.00001 0.00000 0.00000
graded_0.1_to_0.9  1.36  0.1427  0.1818  0.2358
uniform_0.5        0.72  0.1082  0.1081  0.1244
oracle_0.999       15.54 0.4322  0.4317  2.6882
"""
EXCLUSION = """
SLCP            -0.002 +0.007 1.00
SIR             -0.001 +0.49  0.70
DDM             +0.000 +0.022 1.00
Two_Moons       +0.001 +0.053 1.00
COVID_+_OxCGRT  +0.003 +0.172 0.752
Evans-Hawkins   +0.000 +0.061 1.000
"""
COMPUTE = """
training  training      18
rope_emd  fit           0.3
ma_sbi_paper  fit       1
npe           one_case  2
rope_emd      one_case  2
ma_sbi_paper  one_case  2
npe           total     42
rope_emd      total     42
ma_sbi_paper  total     43
all           cpu_hours 12
"""
# Figures that stand in the text or in a caption, in the order of the paper.
IN_TEXT = {
    ("hide_calibration", "margin", "slcp", "", "", ""): "0.02",
    ("hide_calibration", "tost_p_below", "slcp", "maf", "ma_sbi_paper", ""): "0.0001",
    ("noisy_context", "threshold", "slcp", "ddpm", "ma_sbi_paper", ""): "0.5",
    ("noisy_context", "gap_closed", "slcp", "ddpm", "ma_sbi_paper", "p=0"): "5.2",
    ("noisy_context", "gap_closed", "slcp", "ddpm", "ma_sbi_paper", "p=0.25"): "-36",
    ("covid", "loss", "paper-loo", "", "NPE", ""): "6.93",
    ("covid", "loss", "paper-loo", "", "stochastic", ""): "3.16",
    ("covid", "gain", "paper-loo", "", "stochastic", "over NPE"): "54.4",
    ("covid", "p_below", "paper-loo", "", "stochastic", "over NPE"): "0.0001",
    ("instructions", "gain", "evans_hawkins", "", "matched", "over NPE"): "-2.8",
    ("sharpness", "ratio", "", "", "", "smallest"): "0.33",
    ("sharpness", "ratio", "", "", "", "largest"): "0.995",
    ("encoder_ablation", "difference_within", "", "", "ma_sbi_minilm", ""): "0.02",
    ("sinkhorn_epsilon", "hours", "slcp", "maf", "rope_sinkhorn", ""): "1.5",
    ("hide_calibration", "gap_closed_median", "slcp", "ddpm", "rope_emd", ""): "6",
    ("hide_calibration", "tost_p_below", "slcp", "ddpm", "ma_sbi_paper", ""): "0.0001",
    ("rope_sweeps", "c2st_low", "slcp", "maf", "npe", "reference"): "0.775",
    ("rope_sweeps", "c2st_high", "slcp", "maf", "npe", "reference"): "0.778",
    ("rope_sweeps", "c2st", "slcp", "maf", "ma_sbi_paper", "reference"): "0.707",
    ("rope_sweeps", "c2st_low", "slcp", "maf", "oracle", "reference"): "0.701",
    ("rope_sweeps", "c2st_high", "slcp", "maf", "oracle", "reference"): "0.705",
    ("rope_sweeps", "c2st", "slcp", "maf", "rope_emd", "reference"): "0.769",
    (
        "continuous_context",
        "gap_closed",
        "slcp_continuous",
        "ddpm",
        "ma_sbi_paper",
        "",
    ): "96.8",
    (
        "continuous_context",
        "shift_error",
        "slcp_continuous",
        "ddpm",
        "ma_sbi_paper",
        "",
    ): "12.3",
    (
        "continuous_context",
        "gap_below",
        "slcp_continuous",
        "ddpm",
        "npe - oracle",
        "z < 0.3",
    ): "0.03",
}


def transcribed() -> dict[Key, str]:
    """Give every figure by its labels, as it is printed but for signs and per cent."""
    found = dict(_labelled())
    return {key: text.removeprefix("+") for key, text in found.items() if text != "-"}


def _rows(table: str) -> Iterator[list[str]]:
    for line in table.strip().splitlines():
        yield [
            word.replace("_", " ") if word[0].isupper() else word for word in line.split()
        ]


def _labelled() -> Iterator[tuple[Key, str]]:
    for method, *shares in _rows(MAIN):
        for task, share in zip(FIVE, shares, strict=True):
            if method != "npe":
                text = FOOTNOTE.get((method, task), share)
                yield ("main_results", "gap_closed", task, "ddpm", method, ""), text
    for method, *values in _rows(RAW):
        for task, value in zip(FIVE, values, strict=True):
            metric = METRIC_OF.get(task, "c2st")
            yield ("main_results", metric, task, "ddpm", method, ""), value
    ten = "hide_calibration"
    of_c2st, of_share = (
        [f"{name}_{part}" for part in ("median", "q25", "q75")]
        for name in ("c2st", "gap_closed")
    )
    tables = (
        ("maf", FLOW, (*of_c2st, *of_share, "tost_p")),
        ("ddpm", DIFFUSION, ("c2st_median", "c2st", "c2st_std", *of_c2st[1:])),
    )
    for backbone, table, metrics in tables:
        for method, *values in _rows(table):
            for metric, value in zip(metrics, values, strict=True):
                yield (ten, metric, "slcp", backbone, method, ""), value
    for backbone, *values in _rows(PAIRED):
        for end, value in zip(("", "_std", "_low", "_high"), values, strict=True):
            yield (ten, f"difference{end}", "slcp", backbone, "ma_sbi_paper", ""), value
    forms = ("rope_paper_ot_only", "rope_paper")
    for line in ROPE_SWEEP.strip().splitlines():
        at, *values = line.split()
        for method, value in zip(forms, values, strict=True):
            yield ("rope_sweeps", "c2st", "slcp", "maf", method, at), value
    for backbone, *shares in _rows(BACKBONES):
        for task, share in zip(FIVE, shares, strict=False):
            where = ("gap_closed", task, backbone, "ma_sbi_paper", "")
            yield ("backbone_ablation", *where), share
    for task, context, *shares in _rows(THREE_WAY):
        for part, share in zip(("_marginal", "_conditional", ""), shares, strict=True):
            where = (task, "ddpm", f"ma_sbi_paper{part}", f"context={context}")
            yield ("decomposition", "gap_closed", *where), share
    for context, *shares in _rows(ANALYTIC):
        for part, share in zip(("_marginal", "_conditional", ""), shares, strict=True):
            where = ("exact mean", f"ma_sbi{part}", f"context={context}")
            yield ("decomposition", "gap_closed", "gaussian_linear", *where), share
    yield from _over_sizes()
    for name, *values in _rows(THEOREM_1):
        pattern = name.replace("_", " ")
        names = ("information", "fitted", "exact_bound", "linear_bound")
        for metric, value in zip(names, values, strict=True):
            yield ("theorem_1", metric, "", "", pattern, ""), value
    for data, *values in _rows(EXCLUSION):
        for name, value in zip(("sim", "obs", "delta"), values, strict=True):
            yield ("exclusion", f"r2_{name}", data, "", "", ""), value
    for method, phase, value in _rows(COMPUTE):
        metric = phase if phase == "cpu_hours" else phase.replace("_", " ")
        yield ("compute", metric, "", "", method, ""), value
    yield from IN_TEXT.items()


def _over_sizes() -> Iterator[tuple[Key, str]]:
    ours, raw, share = "ma_sbi_paper", "c2st", "gap_closed"
    rope = [("rope_emd", share)]
    tables = {
        "slcp": (
            SLCP_SIZES,
            [(one, raw) for one in ("rope_emd", "rope_sinkhorn", "npe", ours, "oracle")],
        ),
        "gaussian_linear": (GL_SIZES, [*rope, (ours, share)]),
        "two_moons": (TWO_MOONS_SIZES, [*rope, ("rope_sinkhorn", share), (ours, share)]),
        SIR: (SIR_SIZES, [*rope, (ours, share)]),
        DDM: (
            DDM_SIZES,
            [(one, "mse") for one in ("rope_emd", "npe", ours, "oracle")]
            + [*rope, (ours, share)],
        ),
    }
    for task, (table, columns) in tables.items():
        for size, *values in _rows(table):
            for (method, metric), value in zip(columns, values, strict=True):
                where = (task, "ddpm", method, f"n_cal={size}")
                yield ("calibration_size", metric, *where), value
    for size, *shares in _rows(INDEX_OR_TEXT):
        for method, value in zip(("rope_emd", "index, new row", ours), shares, strict=True):
            where = ("slcp", "ddpm", method, f"n_cal={size}")
            yield ("index_or_text", share, *where), value
