"""Tables in which something is varied, as data."""

from __future__ import annotations

from typing import Any

from ma_sbi_bench.paper.words import named
from ma_sbi_bench.tables.methods_compared import LAST_ROWS, ROPE_PAPER
from ma_sbi_bench.trials.cells import CONTINUOUS, SMALLEST_Z
from ma_sbi_bench.trials.table import EXTRA_ROWS, Block, Curves, Point, TrialTable, View

__all__ = [
    "CALIBRATION_SIZE",
    "CONTINUOUS_CONTEXT",
    "CORRECTOR_NETWORK",
    "INDEX_OR_TEXT",
    "NNPE_SCALE",
    "NOISY_CONTEXT",
    "ROPE_AUTHORS",
    "ROPE_SWEEPS",
    "SINKHORN_EPSILON",
]

SIZES = (100, 500, 2000)
FITTED = ("ma_sbi_paper", "ma_sbi")

EMD = ("rope_emd", "rope_emd_aligned")
SINKHORN = ("rope_sinkhorn", "rope_sinkhorn_aligned")
LEARNED = (*EMD, *SINKHORN, "paired_departures", *FITTED, "ma_sbi_affine")
# At sizes other than 500, where the paper has them, or where a shift is not enough; on the
# other tasks 100 rows are all that the closed form needs.
SWEPT_ON = {
    "gaussian_linear": (*EMD, "ma_sbi_paper"),
    "slcp": (*EMD, *SINKHORN, *FITTED),
    "two_moons": (*EMD, *SINKHORN, "ma_sbi_paper"),
    "sir_delay_million": (*EMD, *FITTED, "ma_sbi_affine"),
    "ddm_small_shifts": (*EMD, "paired_departures", "ma_sbi_paper"),
}


def _of_size(size: int, methods: tuple[str, ...]) -> Point:
    return Point(methods, {"num_calibration": size}, quick=size < 2000)


CALIBRATION_SIZE = TrialTable(
    **named("calibration_size"),
    grid=[
        Block(
            [
                _of_size(100, swept),
                _of_size(500, ("npe", *LEARNED, *EXTRA_ROWS, "oracle")),
                _of_size(2000, swept),
            ],
            [task],
        )
        for task, swept in SWEPT_ON.items()
    ],
    views=[View("Sizes", ["task", "n_cal"], axis="n_cal")],
    order=("prior", "npe", *LEARNED, *LAST_ROWS),
    compares_ends=False,
    curves=Curves(
        ["n_cal"],
        LEARNED,
        levels=("npe", "oracle", "exact"),
        label="C2ST (SIR, DDM: error of the mean)",
        horizontal="n_cal",
    ),
)

BY_INDEX = (
    *(*EMD, "paired_departures"),
    *("index, new row", "index, nearest row", *FITTED),
)
INDEX_OR_TEXT = TrialTable(
    **named("index_or_text"),
    grid=[
        Block(
            [
                Point(("npe", *EXTRA_ROWS, "oracle")),
                *(_of_size(size, BY_INDEX) for size in SIZES),
            ]
        )
    ],
    views=[View("SLCP, index and text", ["n_cal"], axis="n_cal")],
    order=("prior", "npe", *BY_INDEX, *LAST_ROWS),
    curves=Curves(["n_cal"], BY_INDEX, horizontal="n_cal"),
)

NOISY_CONTEXT = TrialTable(
    **named("noisy_context"),
    grid=[
        Block(
            [
                *(
                    Point(
                        (*FITTED, "ma_sbi_default", "exact"),
                        {"reliability": p},
                        quick=p == 0.75,
                    )
                    for p in (0.0, 0.25, 0.5, 0.75)
                ),
                # Where texts are right: also what reads none.
                Point((*FITTED, "npe", "oracle", *EXTRA_ROWS)),
            ],
            seeds=4,
            once=EXTRA_ROWS,
        )
    ],
    views=[View("SLCP, contexts that are right with probability p", ["p", "I"], axis="p")],
    order=("prior", "npe", *FITTED, "ma_sbi_default", "exact"),
    curves=Curves(
        ["I"],
        FITTED,
        levels=("npe", "ma_sbi_marginal", "oracle"),
        horizontal="information in nats",
        log=False,
    ),
)

ROPE_AUTHORS = ("rope_ot_only", "rope")
"""As its authors run it: 2000 unlabelled observations, gamma = 0.5, an embedding net."""


def _transports(form: str) -> list[Point]:
    """Vary the simulations in RoPE's transport, then the observations.

    2000 simulations and twelve observations are what it has anyway; observations beyond
    the twelve are unlabelled.
    """
    simulations = [
        Point((form,), {"options": {"num_simulations": num}}, quick=num <= 500)
        for num in (200, 500, 1000, 5000)
    ]
    options = {"num_simulations": 2000, "rows": "unlabelled"}
    observations = [
        Point((form,), {"options": options, "unlabelled": num - 12}, quick=num == 50)
        for num in (50, 200, 500, 2000)
    ]
    return [*simulations[:3], Point((form,), quick=False), simulations[3], *observations]


def _rope_view(heading: str, column: str, axis: str = "") -> View:
    return View(
        heading, [column], axis=axis, backbone="maf", swept=ROPE_PAPER + ROPE_AUTHORS
    )


ROPE_SWEEPS = TrialTable(
    **named("rope_sweeps"),
    grid=[
        Block(
            [
                Point(("npe", "ma_sbi", *EXTRA_ROWS, "oracle")),
                Point((*EMD, "ma_sbi_paper")),  # what the paper calls references
                *(point for form in ROPE_PAPER for point in _transports(form)),
                *(
                    Point((form,), {"options": options}, quick=not options)
                    for form in ROPE_AUTHORS
                    for options in ({"gamma": 0.02}, {"gamma": 0.1}, {})
                ),
            ],
            backbones=["maf"],
        ),
        Block(
            [Point(("npe", *ROPE_AUTHORS, "ma_sbi", *EXTRA_ROWS, "oracle"))],
            ["gaussian_linear", "two_moons"],
            ["embedded"],
        ),
    ],
    views=[
        _rope_view("N_s, at N_o = 12", "N_s", "N_s"),
        _rope_view("N_o, at N_s = 2000", "N_o", "N_o"),
        _rope_view("gamma, with 2000 unlabelled observations", "gamma"),
        View("A flow with an embedding net", ["task"], backbone="embedded"),
    ],
    curves=Curves(["N_s", "N_o"], levels=("npe", "oracle", "prior")),
)


def _options(method: str, *tried: dict[str, Any], beside: tuple[str, ...]) -> list[Point]:
    """Try options of a method on SLCP; what it is compared with comes first."""
    swept = [
        Point((method,), {"options": options}, quick=number < 2)
        for number, options in enumerate(tried)
    ]
    return [Point(("npe", *beside, *EXTRA_ROWS, "oracle")), *swept]


CORRECTOR_NETWORK = TrialTable(
    **named("corrector_network"),
    grid=[
        Block(
            _options(
                "ma_sbi_network",
                *({"hidden": num} for num in (32, 64, 256)),
                *({"hidden": 128, "weight_decay": one} for one in (1e-5, 1e-4, 1e-3, 1e-2)),
                beside=FITTED,
            ),
            backbones=["maf"],
        )
    ],
    views=[View("SLCP", ["hidden", "weight_decay"])],
    order=("prior", "npe", *FITTED),
    curves=Curves(["hidden", "weight_decay"], usual={"hidden": ("ma_sbi_paper", 128)}),
)

SINKHORN_EPSILON = TrialTable(
    **named("sinkhorn_epsilon"),
    grid=[
        Block(
            [
                Point(("npe", *SINKHORN, *EXTRA_ROWS, "oracle")),
                *(
                    Point(SINKHORN, {"options": {"epsilon": value}}, quick=value < 0.1)
                    for value in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
                ),
            ],
            backbones=["maf"],
        )
    ],
    views=[View("SLCP", ["epsilon"])],
    order=("prior", "npe", *SINKHORN),
    curves=Curves(["epsilon"]),
)

NOISES = ("nnpe_isotropic", "nnpe_matched", "nnpe")
NNPE_SCALE = TrialTable(
    **named("nnpe_scale"),
    grid=[
        Block(
            _options(
                "nnpe_isotropic",
                *({"scale": value} for value in (0.03, 0.1, 1.0, 3.0)),
                beside=NOISES,
            ),
            ["slcp", "gaussian_linear"],
        )
    ],
    views=[View("SLCP and Gaussian linear", ["task", "scale"])],
    order=("prior", "npe", *NOISES),
    curves=Curves(["scale"], usual={"scale": ("nnpe_isotropic", 0.3)}),
)

OVER_INTENSITIES = (
    *("prior", "npe", "ma_sbi", "ma_sbi_unseen", "ma_sbi_paper", "ma_sbi_number"),
    *("ma_sbi_default", "ma_sbi_shuffled", "ma_sbi_marginal", "oracle", "exact"),
)
CONTINUOUS_CONTEXT = TrialTable(
    **named("continuous_context"),
    grid=[Block([Point(OVER_INTENSITIES)], [CONTINUOUS], ["ddpm", "maf"])],
    views=[View(f"Continuous context, z >= {SMALLEST_Z}")],
    order=OVER_INTENSITIES,
)
