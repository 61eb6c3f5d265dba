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
    "NETWORKS",
    "OTHER_MAGNITUDES",
    "ON_DIFFUSION",
    "ON_FLOW",
    "PAPER_PARTS",
    "POSTERIORS",
    "ROPE_PAPER",
    "UNSEEN_REGIMES",
    "WELL_SPECIFIED",
]

PAPERS_SIZE = ("sir_delay_million", "ddm_small_shifts")
"""SIR and DDM, as large as the paper's R^2 on the context says."""
OTHER_MAGNITUDES = ("sir_delay", "ddm")
"""SIR and DDM with fewer counts and larger shifts: beside them, with every rival."""
FIVE_TASKS = ("gaussian_linear", "slcp", "two_moons", *PAPERS_SIZE)
LAST_ROWS = (
    *("ma_sbi_default", "ma_sbi_marginal", "ma_sbi_shuffled"),
    *("oracle", "exact"),
)
"""What follows the methods that a table compares."""

EVERY_METHOD = (
    "prior",
    *(name for name in METHODS if name not in ("prior", *LAST_ROWS)),
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
NOT_IN_TABLE_1 = (
    *(*SLOW_RIVALS, "nnpe_matched", "npe_rs"),
    *("classifier_free", "classifier_free_guided", "prior_guide", "prior_guide_jacobian"),
)
MAIN_RESULTS = TrialTable(
    **named("main_results"),
    grid=[
        Block(
            [Point(EVERY_METHOD)],
            (*FIVE_TASKS[:3], *OTHER_MAGNITUDES),
            ["ddpm", "maf"],
            not_quick={"ddpm": SLOW_RIVALS},
        ),
        Block(
            [Point([name for name in EVERY_METHOD if name not in NOT_IN_TABLE_1])],
            PAPERS_SIZE,
            ["ddpm", "maf"],
        ),
    ],
    views=[View("Table 1 with every method")],
    order=EVERY_METHOD,
)

EQUIVALENCE_MARGIN = 0.02
"""A method whose C2ST is within it of the oracle's is equivalent, as in the paper."""
NETWORKS = (
    *("ma_sbi_paper", "ma_sbi_paper_256"),
    *("ma_sbi_unit_hash", "ma_sbi_unit_hash_256"),
)
"""The paper's network with 128 and 256 hidden units, on its hash and on unit vectors."""
ON_DIFFUSION = ("npe", "rope_emd", "rope_emd_aligned", *NETWORKS, "oracle")
ROPE_PAPER = ("rope_paper_ot_only", "rope_paper")
"""RoPE as the paper has it: without step 2, and with it."""
ON_FLOW = (*ON_DIFFUSION[:3], *ROPE_PAPER, *ON_DIFFUSION[3:])
# The closed form finds these shifts exactly, so that it is the oracle in every seed.
ONE_SEED = ("ma_sbi", *EXTRA_ROWS)
TEN_SEEDS = Block(
    [Point((*ON_DIFFUSION, *ONE_SEED))], seeds=10, quick_seeds=2, once=ONE_SEED
)
# On sbibm's own observations stand the rows that the paper prints of them, not their other
# readings.
OTHER_READINGS = ("rope_emd", *NETWORKS[1:])
PUBLISHED = {
    backbone: Point(
        [name for name in methods if name not in OTHER_READINGS],
        {"published": True},
        quick=False,
    )
    for backbone, methods in (("maf", ON_FLOW), ("ddpm", ON_DIFFUSION))
}
HIDE_CALIBRATION = TrialTable(
    **named("hide_calibration"),
    grid=[
        replace(TEN_SEEDS, points=[Point((*ON_FLOW, *ONE_SEED))], backbones=["maf"]),
        TEN_SEEDS,
        *(
            replace(TEN_SEEDS, points=[point], backbones=[backbone], once=())
            for backbone, point in PUBLISHED.items()
        ),
    ],
    views=[
        View("SLCP, 500 calibration rows"),
        View("sbibm's three observations", published=True),
    ],
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

DRAWN = (
    *("exact", "npe", "ma_sbi_marginal", "ma_sbi", "ma_sbi_default"),
    *("oracle", "prior", "ma_sbi_shuffled"),
)
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
ALL_PARTS = (*PAPER_PARTS, *PARTS, "ma_sbi_default", "exact")
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
    order=("prior", "npe", *PAPER_PARTS, *PARTS, LAST_ROWS[0], *LAST_ROWS[2:]),
    neutral=PAPER_PARTS[:2],
)

BY_NEIGHBOURS = ("rope_emd", "rope_emd_aligned")
LEFT_OUT = ("npe", "ma_sbi", "ma_sbi_minilm", *BY_NEIGHBOURS, *EXTRA_ROWS, "oracle")
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

CORRECTED = ("ma_sbi_paper", "ma_sbi", "ma_sbi_affine")
UNDISTURBED = ("npe", *BY_NEIGHBOURS, *CORRECTED, *EXTRA_ROWS)
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

ENCODED = (
    *("npe", "ma_sbi", "ma_sbi_minilm", "ma_sbi_paper", "ma_sbi_minilm_paper"),
    *("oracle", *EXTRA_ROWS),
)
ENCODER_ABLATION = TrialTable(
    **named("encoder_ablation"),
    grid=[Block([Point(ENCODED)], FIVE_TASKS)],
    views=[View("Hash and MiniLM", ["task"])],
    order=("prior", *ENCODED),
)
