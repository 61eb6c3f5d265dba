"""Tables that compare methods on the tasks of the paper, as data."""

from __future__ import annotations

from dataclasses import replace

from ma_sbi_bench.methods import METHODS
from ma_sbi_bench.paper.words import named
from ma_sbi_bench.trials.cells import EXACT_MEAN
from ma_sbi_bench.trials.table import EXTRA_ROWS, Block, Point, TrialTable, View

__all__ = [
    "BACKBONE_ABLATION",
    "DECOMPOSITION",
    "ENCODER_ABLATION",
    "EQUIVALENCE_MARGIN",
    "FIVE_TASKS",
    "HIDE_CALIBRATION",
    "LAST_ROWS",
    "MAIN_RESULTS",
    "ON_DIFFUSION",
    "ON_FLOW",
    "PAPER_PARTS",
    "POSTERIORS",
    "ROPE_PAPER",
    "UNSEEN_REGIMES",
    "WELL_SPECIFIED",
]

FIVE_TASKS = ("gaussian_linear", "slcp", "two_moons", "sir_delay", "ddm")
LAST_ROWS = ("ma_sbi_marginal", "ma_sbi_shuffled", "oracle", "exact")
"""What follows the methods that a table compares."""

EVERY_METHOD = (
    "prior",
    *(name for name in METHODS if name not in ("prior", "oracle")),
    "context_to_theta_paper",
    "context_to_x_paper",
    *LAST_ROWS,
)
# A quick run has these, which the paper has not, with the flow alone.
SLOW_RIVALS = (
    *("fmcpe", "frisbi", "nnpe", "rnpe"),
    *("concat_simulations", "context_to_theta", "context_to_x"),
    *("rope", "rope_star", "rope_ot_only", "rope_calibration"),
    *("rope_paper", "rope_paper_ot_only"),
)
MAIN_RESULTS = TrialTable(
    **named("main_results"),
    grid=[
        Block(
            [Point(EVERY_METHOD)],
            FIVE_TASKS,
            ["ddpm", "maf"],
            not_quick={"ddpm": SLOW_RIVALS},
        )
    ],
    views=[View("Table 1 with every method")],
    order=EVERY_METHOD,
)

EQUIVALENCE_MARGIN = 0.02
"""A method whose C2ST is within it of the oracle's is equivalent, as in the paper."""
ON_DIFFUSION = ("npe", "rope_emd", "ma_sbi_paper", "oracle")
ROPE_PAPER = ("rope_paper_ot_only", "rope_paper")
"""RoPE as the paper has it: without step 2, and with it."""
ON_FLOW = (*ON_DIFFUSION[:2], *ROPE_PAPER, *ON_DIFFUSION[2:])
# The closed form finds these shifts exactly, so that it is the oracle in every seed.
ONE_SEED = ("ma_sbi", *EXTRA_ROWS)
TEN_SEEDS = Block(
    [Point((*ON_DIFFUSION, *ONE_SEED))], seeds=10, quick_seeds=2, once=ONE_SEED
)
HIDE_CALIBRATION = TrialTable(
    **named("hide_calibration"),
    grid=[
        replace(TEN_SEEDS, points=[Point((*ON_FLOW, *ONE_SEED))], backbones=["maf"]),
        TEN_SEEDS,
    ],
    views=[View("SLCP, 500 calibration rows")],
    order=("prior", *ON_FLOW[:-1], "ma_sbi", *LAST_ROWS),
)

BOTH_BACKBONES = Point(("npe", "ma_sbi_paper", "ma_sbi", "oracle", *EXTRA_ROWS))
BACKBONE_ABLATION = TrialTable(
    **named("backbone_ablation"),
    grid=[
        block
        for backbones in (["maf"], ["ddpm"])
        for block in (
            Block(
                [replace(BOTH_BACKBONES, settings={"task_options": {"dim": 10}})],
                ["gaussian_linear"],
                backbones,
                seeds=3,
                once=ONE_SEED,  # one seed shows what they are
            ),
            Block([BOTH_BACKBONES], ["slcp"], backbones),
            Block([BOTH_BACKBONES], ["two_moons"], backbones),
        )
    ],
    views=[View("Flow and diffusion model")],
    order=("prior", "npe", "ma_sbi_paper", "ma_sbi", *LAST_ROWS),
)

DRAWN = ("exact", "npe", "ma_sbi_marginal", "ma_sbi", "oracle", "prior", "ma_sbi_shuffled")
POSTERIORS = TrialTable(
    **named("posteriors"),
    grid=[
        Block(
            [Point(DRAWN, {"observation": 0, "keep_draws": 250})], ["two_moons"], once=DRAWN
        )
    ],
    views=[View("One observation in four regimes")],
    order=DRAWN,
)

PARTS = ("ma_sbi_marginal", "ma_sbi_conditional", "ma_sbi")
PAPER_PARTS = ("ma_sbi_paper_marginal", "ma_sbi_paper_conditional", "ma_sbi_paper")
ALL_PARTS = (*PAPER_PARTS, *PARTS, "exact")
FILLER = {"task_options": {"setting": "uninformative"}}
DECOMPOSITION = TrialTable(
    **named("decomposition"),
    grid=[
        Block(
            [
                Point((*ALL_PARTS, "npe", "prior", "ma_sbi_shuffled", "oracle")),
                # It changes nothing for what reads no context, or a shuffled one.
                Point(ALL_PARTS, FILLER),
            ],
            FIVE_TASKS,
        ),
        Block(
            [Point(PARTS), Point(PARTS, FILLER)],
            ["gaussian_linear"],
            [EXACT_MEAN],
            once=PARTS,
        ),
    ],
    views=[View("Marginal, conditional, total", ["task", "context"], ["task"], "context")],
    order=("prior", "npe", *PAPER_PARTS, *PARTS, *LAST_ROWS[1:]),
    neutral=PAPER_PARTS[:2],
)

LEFT_OUT = ("npe", "ma_sbi", "ma_sbi_minilm", "rope_emd", *EXTRA_ROWS, "oracle")
UNSEEN_REGIMES = TrialTable(
    **named("unseen_regimes"),
    grid=[
        Block(
            [
                Point(LEFT_OUT, {"regime": one, "left_out": one}, quick=one == 0)
                for one in range(4)
            ],
            FIVE_TASKS[:3],
            ["maf"],
        )
    ],
    views=[View("Each regime left out", ["task", "left_out"], ["task", "left_out"])],
    order=("prior", *LEFT_OUT),
)

UNDISTURBED = ("npe", "rope_emd", "ma_sbi_paper", "ma_sbi", "ma_sbi_affine", *EXTRA_ROWS)
WELL_SPECIFIED = TrialTable(
    **named("well_specified"),
    grid=[
        Block(
            [Point(UNDISTURBED, {"task_options": {"setting": "well_specified"}})],
            FIVE_TASKS,
            ["maf"],
        )
    ],
    views=[View("No departure", ["task"])],
    order=("prior", *UNDISTURBED),
)

ENCODED = ("npe", "ma_sbi", "ma_sbi_minilm", "oracle", *EXTRA_ROWS)
ENCODER_ABLATION = TrialTable(
    **named("encoder_ablation"),
    grid=[Block([Point(ENCODED)], FIVE_TASKS)],
    views=[View("Hash and MiniLM", ["task"])],
    order=("prior", *ENCODED),
)
