"""Mistakes of users: what they call, and the sentence that must come.

``REFUSED`` gives an error before any work is done, ``WARNED`` a warning beside the answer,
``MENDED`` is no mistake any more. A new one joins by being put here.
"""

import warnings
from dataclasses import dataclass
from datetime import date, time, timedelta
from functools import cached_property

import numpy as np
import pandas as pd
import torch
import zuko
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from torch.distributions import Independent, MultivariateNormal, Uniform
from typer.testing import CliRunner

from ma_sbi import (
    BootstrapCorrector,
    CategoryEncoder,
    CorrectedPosterior,
    HashEncoder,
    MatchingCorrector,
    NumberEncoder,
    SentenceEncoder,
    ShiftCorrector,
    check,
    conformal,
    cross_fit,
    fit_corrector,
    fit_ddpm,
    fit_density,
    fit_flow,
    from_callable,
    from_sbi,
    from_zuko,
    load_corrector,
    load_posterior,
    predictive_mean,
)
from ma_sbi.cli import app

NUM = 40
NOTES = ["high", "fine"] * (NUM // 2)
GAPS = ["high", None] * (NUM // 2)
IDS = [f"id{number:05d}" for number in range(NUM)]
DATES = [date(2024, 1, 1) + timedelta(days) for days in range(NUM)]
TABLE = pd.DataFrame({"note": NOTES, "load": np.arange(NUM) * 1.0})
X = torch.randn(NUM, 2, generator=torch.Generator().manual_seed(0))
OBS = X + torch.tensor([[1.0, 0.0], [0.0, 0.0]]).repeat(NUM // 2, 1)
PRIOR = MultivariateNormal(torch.zeros(2), torch.eye(2))
BOX = Independent(Uniform(torch.zeros(2), torch.ones(2)), 1)
POOL = torch.randn(200, 2, generator=torch.Generator().manual_seed(1))
BOUNDED = from_callable(
    lambda n, x: x + torch.randn(n, 2),
    prior=Independent(Uniform(-9 * torch.ones(2), 9 * torch.ones(2)), 1),
)
POSTERIOR = from_callable(
    lambda n, x: x + 0.1 * torch.randn(n, 2),
    lambda theta, x: -(theta - x).square().sum(dim=-1),
    x_train=X,
)


@dataclass(frozen=True)
class Fitted:
    """What is fitted once for all mistakes."""

    @cached_property
    def shift(self):
        return ShiftCorrector(HashEncoder()).fit(NOTES, OBS, X)

    @cached_property
    def labels(self):
        return ShiftCorrector(CategoryEncoder()).fit(["9", "10"] * 20, OBS, X)

    @cached_property
    def chosen(self):
        return fit_corrector(["9", "10"] * 20, OBS, X, seed=0)

    @cached_property
    def of_table(self):
        return CorrectedPosterior(POSTERIOR, fit_corrector(TABLE, OBS, X, seed=0))

    @cached_property
    def crossed(self):
        halves = [0, 0, 1, 1] * (NUM // 4)
        return cross_fit(ShiftCorrector(HashEncoder()), groups=halves).fit(NOTES, OBS, X)

    @cached_property
    def corrected(self):
        return CorrectedPosterior(POSTERIOR, self.shift)


FITTED = Fitted()


def shift(encoder=None):
    return ShiftCorrector(HashEncoder() if encoder is None else encoder)


def command(*arguments):
    """Run the command line; its refusal becomes an error."""
    result = CliRunner().invoke(app, [*map(str, arguments)])
    if result.exit_code == 2:
        raise ValueError(" ".join(result.output.split()))
    return result


def with_file(folder, text, *options):
    file = folder / "rows.csv"
    file.write_text(text)
    return command("check", file, *options)


def written(folder, text):
    file = folder / "model.csv"
    file.write_text(text)
    return file


def loaded_with(folder, encoder):
    """Load a corrector with an encoder that was fitted to other labels."""
    own = make_pipeline(FunctionTransformer(in_a_column), OneHotEncoder())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shift(own).fit(NOTES, OBS, X).save(folder / "c.safetensors")
    other = make_pipeline(FunctionTransformer(in_a_column), encoder)
    return load_corrector(
        folder / "c.safetensors", encoder=other.fit([["high"], ["fine"], ["low"]])
    )


def in_a_column(entries):
    return np.asarray(entries, dtype=object).reshape(-1, 1)


def with_nan():
    x_obs = OBS.clone()
    x_obs[3] = torch.nan
    return x_obs


NO_CLASS = "encoder must be an object and not a class: write HashEncoder()"
NO_NAME = "encoder must be a scikit-learn transformer, got 'hash': pass CategoryEncoder()"
PER_ROW = "context must have one entry per observation: expected 40, got"
VECTOR = "a vector x_obs is 3 observations of one column: pass one observation of 3 columns"
POSITIVE = "must be a positive integer, got"
NO_POSTERIOR = "posterior must offer sample(num_samples, x, seed=...), got a"
HEADER = "context,x_obs_0,x_sim_0\n"

# Each is called with a folder for files.
REFUSED = {
    # the command line
    "a density of nothing": (
        lambda folder: command("fit", "rows.csv", "--out", folder / "m", "--density"),
        "--density is learned from simulations: pass --simulations",
    ),
    # encoders
    "class in fit_corrector": (
        lambda _: fit_corrector(NOTES, OBS, X, encoder=HashEncoder),
        NO_CLASS,
    ),
    "name in fit_corrector": (
        lambda _: fit_corrector(NOTES, OBS, X, encoder="hash"),
        NO_NAME,
    ),
    "class in a corrector": (lambda _: shift(HashEncoder).fit(NOTES, OBS, X), NO_CLASS),
    "name in a corrector": (lambda _: shift("hash").fit(NOTES, OBS, X), NO_NAME),
    "None as encoder": (
        lambda _: ShiftCorrector(None).fit(NOTES, OBS, X),
        "encoder must be a scikit-learn transformer, got None: pass CategoryEncoder()",
    ),
    "class in BootstrapCorrector": (
        lambda _: BootstrapCorrector(HashEncoder).fit(NOTES, OBS, X),
        NO_CLASS,
    ),
    "class in MatchingCorrector": (
        lambda _: MatchingCorrector(HashEncoder).fit(NOTES, OBS, simulations=X),
        NO_CLASS,
    ),
    "class in cross_fit": (
        lambda _: cross_fit(shift(HashEncoder)).fit(NOTES, OBS, X),
        NO_CLASS,
    ),
    "class in check": (lambda _: check(OBS, NOTES, x_sim=X, encoder=HashEncoder), NO_CLASS),
    "name in check": (lambda _: check(OBS, NOTES, x_sim=X, encoder="hash"), NO_NAME),
    "transformer of tables": (
        lambda _: shift(OneHotEncoder()).fit(NOTES, OBS, X),
        "if it reads tables, pass the context as a DataFrame with one column",
    ),
    "transformer of numbers": (
        lambda _: shift(StandardScaler()).fit(TABLE, OBS, X),
        "StandardScaler cannot read the context: could not convert string to float",
    ),
    "numbers in HashEncoder": (
        lambda _: HashEncoder().fit([1, 2]),
        "HashEncoder encodes texts, got 1 of type int; numbers go through NumberEncoder",
    ),
    "numbers in SentenceEncoder": (
        lambda _: SentenceEncoder().fit([1, 2]),
        "SentenceEncoder encodes texts, got 1 of type int; numbers go through",
    ),
    "dim of HashEncoder": (
        lambda _: HashEncoder(0).transform(["a"]),
        "dim must be a positive integer, got 0",
    ),
    "table in HashEncoder": (
        lambda _: HashEncoder().fit(TABLE),
        "HashEncoder encodes one column, got 2; combine columns with "
        "sklearn.compose.ColumnTransformer",
    ),
    "unseen of CategoryEncoder": (
        lambda _: CategoryEncoder(unseen="ignore").fit(NOTES),
        "unseen must be 'error' or 'zero', got 'ignore'",
    ),
    "CategoryEncoder not fitted": (
        lambda _: CategoryEncoder().transform(NOTES),
        "is not fitted yet. Call 'fit'",
    ),
    "new label": (
        lambda _: FITTED.labels.correct(OBS, "11"),
        "label '11' was not in the data the encoder was fitted to (known: '10', '9'); "
        "use CategoryEncoder(unseen='zero') to treat new labels as missing",
    ),
    "9.0 for 9": (
        lambda _: FITTED.labels.correct(OBS, ["9.0", "10.0"] * 20),
        "label '9.0' was not in the data the encoder was fitted to (write it as '9')",
    ),
    "a number for a label": (
        lambda _: FITTED.labels.correct(OBS, [9, 10] * 20),
        "label 9 was not in the data the encoder was fitted to (write it as '9')",
    ),
    "texts in NumberEncoder": (
        lambda _: NumberEncoder().fit(["a", "b"]),
        "other texts through HashEncoder or SentenceEncoder",
    ),
    "dates as texts": (
        lambda _: NumberEncoder().fit(["2024-01-01", "2024-01-02"]),
        "dates that are written as texts go through pandas.to_datetime first",
    ),
    "times of day": (
        lambda _: NumberEncoder().fit([time(8), time(9)]),
        "NumberEncoder encodes numbers and dates",
    ),
    "infinity in NumberEncoder": (
        lambda _: NumberEncoder().fit([1.0, np.inf]),
        "encodes finite numbers, got infinity: write None if it means missing",
    ),
    "columns of NumberEncoder": (
        lambda _: NumberEncoder().fit([[1.0, 2.0], [2.0, 3.0]]).transform([[1.0]]),
        "context must have 2 columns, got 1",
    ),
    "nothing for NumberEncoder": (
        lambda _: NumberEncoder().fit(None),
        "NumberEncoder needs at least one number per column: pass numbers",
    ),
    # contexts
    "too few contexts": (lambda _: fit_corrector(NOTES[1:], OBS, X), f"{PER_ROW} 39; one"),
    "no contexts": (
        lambda _: fit_corrector([], OBS, X),
        "context is empty: pass one entry per observation",
    ),
    "a set": (
        lambda _: fit_corrector(set(NOTES), OBS, X),
        "context must have an order, and a set has none: pass a list",
    ),
    "sets": (
        lambda _: fit_corrector([{1}, {2}] * 20, OBS, X),
        "context entries must be texts, labels or numbers (unhashable type: 'set')",
    ),
    "ragged rows": (
        lambda _: fit_corrector([["a", "b"], ["c"]] * 20, OBS, X),
        "context has rows of different lengths, 1 and 2: pass the same columns in each",
    ),
    "ragged columns": (
        lambda _: fit_corrector({"note": NOTES, "load": [1.0, 2.0]}, OBS, X),
        "pass one list per column, all of the same length",
    ),
    "context of three dimensions": (
        lambda _: fit_corrector(np.zeros((NUM, 2, 2)), OBS, X),
        "context must have one or two dimensions, got shape (40, 2, 2)",
    ),
    "tuples for one column": (
        lambda _: shift().fit([("high", "a"), ("fine", "b")] * 20, OBS, X),
        "HashEncoder encodes one column, got 2; combine columns",
    ),
    "None in check": (
        lambda _: check(OBS, None, x_sim=X),
        "the context is missing in every row: pass one text, label or number per "
        "observation; what all rows share, fit_corrector(None, x_obs, x_sim) learns",
    ),
    "one context in check": (
        lambda _: check(OBS, "note", x_sim=X),
        "the context is the same in every row ('note')",
    ),
    "text for a table": (
        lambda _: FITTED.of_table.sample(3, OBS, "high"),
        "context has single entries, such as 'high', and the corrector was fitted to "
        "columns note, load: pass a table of these, or a dict for what holds for all",
    ),
    "column for a table": (
        lambda _: FITTED.of_table.sample(3, OBS, TABLE["note"]),
        "the corrector was fitted to columns note, load: pass a table of these",
    ),
    "two entries for a table": (
        lambda _: FITTED.of_table.sample(3, OBS[:2], ("high", 1.0)),
        "the corrector was fitted to columns note, load: pass a table of these",
    ),
    "other columns": (
        lambda _: FITTED.of_table.sample(3, OBS, TABLE.rename(columns={"note": "text"})),
        "context lacks note of the columns that the corrector was fitted to: pass note",
    ),
    "dict without a column": (
        lambda _: FITTED.of_table.given({"note": "high"}),
        "context lacks load of the columns that the corrector was fitted to: pass note",
    ),
    "list in given": (
        lambda _: FITTED.of_table.given(["high", 1.0]),
        "expected 1, got 2; several columns of one observation are a tuple or a dict",
    ),
    "table for a text": (
        lambda _: FITTED.corrected.sample(3, OBS, TABLE),
        "context has 2 columns, and the corrector was fitted to single entries, such as "
        "'high': pass one column",
    ),
    "several texts in given": (
        lambda _: FITTED.corrected.given(["high", "fine"]),
        "context must have one entry per observation: expected 1, got 2",
    ),
    # observations and simulations
    "vector in fit": (lambda _: shift().fit(["high"], [1.0, 2, 3], [1.0, 2, 2]), VECTOR),
    "vector in fit_corrector": (
        lambda _: fit_corrector(["high"], torch.ones(3), torch.ones(3)),
        VECTOR,
    ),
    "vector in check": (lambda _: check(np.ones(3), ["high"], x_sim=np.ones(3)), VECTOR),
    "context and x_obs swapped": (
        lambda _: fit_corrector(OBS, NOTES, X),
        "x_obs must hold numbers, got 'high': texts belong to the context",
    ),
    "x_obs and context swapped": (
        lambda _: check(NOTES, OBS, x_sim=X),
        "x_obs must hold numbers, got 'high': texts belong to the context",
    ),
    "nothing to compare with": (
        lambda _: fit_corrector(NOTES, OBS),
        "pass x_sim, the simulations at the inputs of each observation, or simulations=",
    ),
    "rows of x_sim": (
        lambda _: fit_corrector(NOTES, OBS, X[1:]),
        "x_obs and x_sim must be paired row by row, got (40, 2) and (39, 2)",
    ),
    "columns of x_sim": (
        lambda _: shift().fit(NOTES, OBS, X[:, :1]),
        "got 40 rows x 2 columns and 40 rows x 1 columns; without pairs pass simulations=",
    ),
    "NaN in x_obs": (
        lambda _: fit_corrector(NOTES, with_nan(), X),
        "NaN or infinite values in 1 of 40 rows (first: row 3): leave these rows out",
    ),
    "names of rows": (
        lambda _: fit_corrector(
            NOTES, pd.DataFrame(OBS.numpy()), pd.DataFrame(X.numpy(), index=IDS)
        ),
        "pass .reset_index(drop=True) if they are in the same order",
    ),
    "density is not called": (
        lambda _: fit_corrector(NOTES, OBS, X, density=fit_density),
        "density is the function fit_density itself: call it, density=fit_density(...)",
    ),
    "density of a check is not called": (
        lambda _: check(OBS, NOTES, x_sim=X, density=fit_density),
        "density is the function fit_density itself: call it, density=fit_density(...)",
    ),
    "table for a model": (
        lambda folder: load_corrector(written(folder, "context,x_obs_0\n" * 9)),
        "is not a file that ma-sbi saved: pass one that save, or ma-sbi fit, wrote",
    ),
    "another encoder at loading": (
        lambda folder: loaded_with(folder, OneHotEncoder(sparse_output=False)),
        "cannot use the encoder that was passed: pass what it was fitted with",
    ),
    "names of contexts": (
        lambda _: fit_corrector(
            pd.Series(NOTES, index=IDS), pd.DataFrame(OBS.numpy()), X, seed=0
        ),
        "rows of x_obs and context have different names (context has 'id00000'), so they "
        "cannot be matched; rename them, or pass .reset_index(drop=True)",
    ),
    "names of columns": (
        lambda _: (
            shift()
            .fit(NOTES, pd.DataFrame(OBS.numpy(), columns=["a", "b"]), X)
            .correct(pd.DataFrame(OBS.numpy(), columns=["a", "c"]), NOTES)
        ),
        "(x has 'c', the fit a, b): rename them, or pass .to_numpy()",
    ),
    "x_sim for MatchingCorrector": (
        lambda _: MatchingCorrector(HashEncoder()).fit(NOTES, OBS, X),
        "MatchingCorrector matches distributions: pass simulations=",
    ),
    "pool for ShiftCorrector": (
        lambda _: shift().fit(NOTES, OBS, simulations=X),
        "ShiftCorrector learns from pairs: pass x_sim",
    ),
    "columns of a pool": (
        lambda _: fit_corrector(NOTES, OBS, simulations=X[:, :1]),
        "x_obs and simulations must have the same columns",
    ),
    "rows of a pool": (
        lambda _: fit_corrector(NOTES, OBS, X, simulations=(X, X[:5])),
        "simulations=(theta, x) must be paired row by row, got 40 and 5 rows",
    ),
    "density that is none": (
        lambda _: fit_corrector(NOTES, OBS, X, density=3),
        "density must be a function of x, such as fit_density(simulations) returns",
    ),
    "posterior that is none": (
        lambda _: fit_corrector(NOTES, OBS, X, posterior=3),
        NO_POSTERIOR,
    ),
    "corrected posterior": (
        lambda _: fit_corrector(NOTES, OBS, X, posterior=FITTED.corrected),
        "posterior reads a context, so it is corrected already, got a CorrectedPosterior: "
        "pass the posterior that was trained",
    ),
    "posterior of other columns": (
        lambda _: fit_corrector(
            NOTES, OBS.repeat(1, 2), X.repeat(1, 2), posterior=POSTERIOR, seed=0
        ),
        "x must have 2 columns, got 4: pass those of training or calibration",
    ),
    "groups of other rows": (
        lambda _: fit_corrector(NOTES, OBS, X, groups=[1, 2]),
        "groups must have one entry per observation: expected 40, got 2",
    ),
    "name of a column as groups": (
        lambda _: fit_corrector(NOTES, OBS, X, groups="site"),
        "groups must have one entry per observation: expected 40, got a single value",
    ),
    "groups that are missing": (
        lambda _: fit_corrector(NOTES, OBS, X, groups=[None] * NUM),
        "groups must not be missing, got 40 gaps: fill them, or leave these rows out",
    ),
    "theta of other rows": (
        lambda _: fit_corrector(NOTES, OBS, X, theta=X[:3], posterior=POSTERIOR),
        "theta must have one row per observation: expected 40, got 3",
    ),
    "seed of fit_corrector": (
        lambda _: fit_corrector(NOTES, OBS, X, seed=0.5),
        "seed must be an integer or None, got 0.5",
    ),
    # check
    "few rows in check": (
        lambda _: check(OBS[:4], NOTES[:4], x_sim=X[:4]),
        "a check needs at least 20 rows, got 4",
    ),
    "one group in check": (
        lambda _: check(OBS, NOTES, x_sim=X, groups=["a"] * NUM),
        "leave it out, or name at least three groups",
    ),
    "seed of check": (
        lambda _: check(OBS, NOTES, x_sim=X, seed="0"),
        "seed must be an integer or None, got '0'",
    ),
    "file as posterior": (
        lambda _: check(OBS, NOTES, x_sim=X, posterior="posterior.pt"),
        NO_POSTERIOR,
    ),
    "class as corrector": (
        lambda _: check(OBS, NOTES, x_sim=X, corrector=ShiftCorrector),
        "corrector must be an object and not a class: write ShiftCorrector(...)",
    ),
    "name as corrector": (
        lambda _: check(OBS, NOTES, x_sim=X, corrector="shift"),
        "got 'shift': pass one such as ShiftCorrector(encoder), or leave it out",
    ),
    "tensor as simulator": (
        lambda _: check(OBS, NOTES, x_sim=X, simulator=X),
        "simulator must be a function of theta, got a Tensor",
    ),
    # the corrected posterior
    "posterior and corrector swapped": (
        lambda _: CorrectedPosterior(FITTED.shift, POSTERIOR),
        "pass what fit_corrector returned, or another corrector that is fitted",
    ),
    "class as corrector of a posterior": (
        lambda _: CorrectedPosterior(POSTERIOR, ShiftCorrector),
        "pass what fit_corrector returned, or another corrector that is fitted",
    ),
    "corrector not fitted": (
        lambda _: CorrectedPosterior(POSTERIOR, shift()).sample(3, OBS, NOTES),
        "this ShiftCorrector is not fitted yet: call fit first",
    ),
    "prior as posterior": (lambda _: CorrectedPosterior(PRIOR, FITTED.shift), NO_POSTERIOR),
    "function as posterior": (
        lambda _: CorrectedPosterior(lambda n, x: x, FITTED.shift),
        "adapt it by from_sbi, from_zuko or from_callable",
    ),
    "x before num_samples": (
        lambda _: FITTED.corrected.sample(OBS, 3, NOTES),
        "num_samples must be a positive integer",
    ),
    "no draws": (lambda _: FITTED.corrected.sample(0, OBS, NOTES), f"{POSITIVE} 0"),
    "too few contexts in sample": (
        lambda _: FITTED.corrected.sample(3, OBS, NOTES[:5]),
        "expected 40, got 5; one that holds for all is a bare text or number",
    ),
    "columns of x": (
        lambda _: FITTED.corrected.sample(3, OBS[:, :1], NOTES),
        "x must have 2 columns, got 1: pass those of training or calibration",
    ),
    "no x": (
        lambda _: FITTED.corrected.sample(3, None, NOTES),
        "x must be given, got None",
    ),
    "seed of sample": (
        lambda _: FITTED.corrected.sample(3, OBS, NOTES, seed=0.5),
        "seed must be an integer or None, got 0.5",
    ),
    "theta of two dimensions": (
        lambda _: FITTED.corrected.log_prob(X, OBS, NOTES),
        "got (40, 2); for one theta per observation pass theta[None]",
    ),
    "text as theta": (
        lambda _: FITTED.corrected.log_prob("theta", OBS, NOTES),
        "theta must hold numbers, got 'theta'",
    ),
    "log_prob without a density": (
        lambda _: CorrectedPosterior(
            from_callable(lambda n, x: x + torch.randn(n, 2)), FITTED.shift
        ).log_prob(X[None], OBS, NOTES),
        "can be sampled but has no density: use sample, or from_callable with log_prob",
    ),
    # adapters
    "from_sbi of something else": (
        lambda _: from_sbi(POSTERIOR),
        "from_sbi expects an sbi posterior",
    ),
    "from_zuko of a number": (
        lambda _: from_zuko(3),
        "from_zuko expects a conditional flow that is trained, got 3",
    ),
    "from_zuko of a class": (
        lambda _: from_zuko(zuko.flows.NSF),
        "from_zuko expects a conditional flow that is trained, got the class NSF",
    ),
    "from_zuko without context": (
        lambda _: from_zuko(zuko.flows.NSF(2)).sample(3, OBS),
        "it must be conditional on x, for example zuko.flows.NSF(dim_theta, context=dim_x)",
    ),
    "from_callable of a number": (
        lambda _: from_callable(3),
        "sample must be a function of num_samples and x, got a int",
    ),
    "log_prob of from_callable": (
        lambda _: from_callable(lambda n, x: x, 3),
        "log_prob must be a function of theta and x, got a int",
    ),
    "prior of from_callable": (
        lambda _: from_callable(lambda n, x: x, prior=3),
        "prior must be a torch distribution over theta, or None, got a int",
    ),
    "shape of draws": (
        lambda _: from_callable(lambda n, x: x).sample(3, OBS),
        "the sample function must return shape (num_samples, dim_theta)",
    ),
    "text as draws": (
        lambda _: from_callable(lambda n, x: "no").sample(3, OBS),
        "what the function returns must hold numbers, got 'no'",
    ),
    # training
    "no prior": (
        lambda _: fit_flow(X, X, X),
        "prior must be a torch distribution, or a list of them, one per parameter",
    ),
    "rows of theta and x": (
        lambda _: fit_flow(PRIOR, X, X[:30]),
        "theta and x must be paired row by row, got 40 and 30 rows",
    ),
    "few simulations": (
        lambda _: fit_flow(PRIOR, X[:5], X[:5]),
        "training needs at least 20 pairs of theta and x, got 5",
    ),
    "kind of flow": (
        lambda _: fit_flow(PRIOR, X, X, flow="nspf"),
        "flow must be one of ['maf', 'nsf'], got 'nspf'",
    ),
    "theta outside the prior": (
        lambda _: fit_flow(BOX, X, X),
        "lie outside the prior's support: pass the prior that they were drawn from",
    ),
    "learning rate": (
        lambda _: fit_flow(PRIOR, X, X, learning_rate=-1),
        "learning_rate must be a positive number, got -1",
    ),
    "batch of a flow": (lambda _: fit_flow(PRIOR, X, X, batch_size=0), f"{POSITIVE} 0"),
    "share that is held out": (
        lambda _: fit_flow(PRIOR, X, X, validation_fraction=2),
        "validation_fraction must lie between 0 and 1, got 2",
    ),
    "one width": (
        lambda _: fit_flow(PRIOR, X, X, hidden=64),
        "hidden must be a list of positive integers such as (64, 64), got 64",
    ),
    "device": (
        lambda _: fit_flow(PRIOR, X, X, device="gpu"),
        "device must be one that torch knows, such as 'cpu' or 'cuda', got 'gpu'",
    ),
    "seed of fit_flow": (
        lambda _: fit_flow(PRIOR, X, X, seed="a"),
        "seed must be an integer or None, got 'a'",
    ),
    "schedule": (
        lambda _: fit_ddpm(PRIOR, X, X, schedule="cosine"),
        "schedule must be one of ['paper', 'rescaled'], got 'cosine'",
    ),
    "no epochs": (lambda _: fit_ddpm(PRIOR, X, X, epochs=0), f"epochs {POSITIVE} 0"),
    "no layers": (lambda _: fit_ddpm(PRIOR, X, X, layers=0), f"layers {POSITIVE} 0"),
    "no steps": (lambda _: fit_ddpm(PRIOR, X, X, num_steps=0), f"num_steps {POSITIVE} 0"),
    "batch of fit_ddpm": (lambda _: fit_ddpm(PRIOR, X, X, batch_size=0), f"{POSITIVE} 0"),
    "several widths": (
        lambda _: fit_ddpm(PRIOR, X, X, hidden=(64, 64)),
        "hidden must be a positive integer",
    ),
    "few rows for a density": (
        lambda _: fit_density(X),
        "a density needs at least 100 simulations, got 40",
    ),
    "density of equal rows": (
        lambda _: fit_density(torch.ones(200, 2)),
        "x must vary to have a density: all 200 rows are equal",
    ),
    "density of theta and x": (
        lambda _: fit_density((X, X)),
        "x must be a non-empty matrix (observations x dimensions), got shape (2, 40, 2)",
    ),
    "width of a density": (
        lambda _: fit_density(POOL, hidden=64),
        "hidden must be a list of positive integers such as (64, 64), got 64",
    ),
    "no file": (lambda folder: load_posterior(folder / "none"), "there is no file"),
    # around correctors
    "true parameters in another order": (
        lambda _: fit_corrector(NOTES, OBS, X, theta=X + 100, posterior=BOUNDED, seed=0),
        "theta lies outside the prior of the posterior in 40 of 40 rows (first: row 0)",
    ),
    "true parameters of another posterior": (
        lambda _: fit_corrector(NOTES, OBS, X, theta=X[:, :1], posterior=BOUNDED, seed=0),
        "theta must have 2 columns, the parameters of the posterior's prior, got 1",
    ),
    "several trials in fit": (
        lambda _: fit_corrector(NOTES, X[:, None], X[:, None]),
        "fit a corrector to single trials, one a row with the context of its observation",
    ),
    "cross_fit of a class": (
        lambda _: cross_fit(ShiftCorrector),
        "got the class ShiftCorrector: pass one such as ShiftCorrector(encoder)",
    ),
    "cross_fit of fit_corrector": (
        lambda _: cross_fit(FITTED.chosen),
        "got ChosenCorrector: pass one such as ShiftCorrector(encoder); fit_corrector "
        "leaves rows out by itself",
    ),
    "groups of cross_fit": (
        lambda _: cross_fit(shift(), groups=[1, 2]).fit(NOTES, OBS, X),
        "groups must have one entry per observation: expected 40, got 2",
    ),
    "times that are missing": (
        lambda _: cross_fit(shift(), time=[None] * NUM).fit(NOTES, OBS, X),
        "time must not be missing, got 40 gaps: fill them",
    ),
    "other rows of cross_fit": (
        lambda _: FITTED.crossed.correct(OBS + 1, NOTES),
        "x differs from them; for new observations fit the corrector itself",
    ),
    "other contexts of cross_fit": (
        lambda _: FITTED.crossed.correct(OBS, NOTES[::-1]),
        "context differs from theirs: pass that of the fit",
    ),
    "conformal of a corrector": (
        lambda _: conformal(FITTED.shift, X, OBS, NOTES),
        "pass a posterior, or CorrectedPosterior(posterior, corrector)",
    ),
    "conformal without context": (
        lambda _: conformal(FITTED.corrected, X, OBS),
        "the method reads a context: pass context, one entry per pair",
    ),
    "percents as alpha": (
        lambda _: conformal(FITTED.corrected, X, OBS, NOTES, alpha=90),
        "alpha must lie between 0 and 1, got 90: 0.1 for 90 %",
    ),
    "few pairs for conformal": (
        lambda _: conformal(FITTED.corrected, X[:5], OBS[:5], NOTES[:5], alpha=0.01),
        "alpha=0.01 needs at least 99 pairs",
    ),
    "weights of conformal": (
        lambda _: conformal(FITTED.corrected, X, OBS, NOTES, by="weighted"),
        "weighted needs either weight, a function of x, or x_test",
    ),
    "tensor as mean": (
        lambda _: predictive_mean(POSTERIOR, X, OBS),
        "mean must be a function of theta, the simulator's mean, got a Tensor",
    ),
    "mean before posterior": (
        lambda _: predictive_mean(lambda theta: theta, POSTERIOR, OBS),
        NO_POSTERIOR,
    ),
    "predictive_mean of what is corrected": (
        lambda _: predictive_mean(FITTED.corrected, lambda theta: theta, OBS),
        "pass the posterior that was trained",
    ),
    # the command line
    "check of no file": (lambda folder: command("check", folder / "none.csv"), "none.csv"),
    "check of no observations": (
        lambda folder: with_file(folder, "context,x_sim_0\na,1\n"),
        "x_obs",
    ),
    "check of no context": (
        lambda folder: with_file(folder, "x_obs_0,x_sim_0\n1,1\n"),
        "context",
    ),
    "check of texts": (
        lambda folder: with_file(folder, f"{HEADER}a,high,1\n"),
        "x_obs",
    ),
    "check of a column that is not there": (
        lambda folder: with_file(folder, f"{HEADER}a,1,1\n", "--context", "note"),
        "note",
    ),
    "no such verdict": (
        lambda folder: with_file(folder, f"{HEADER}a,1,1\n", "--require", "good"),
        "there is no verdict 'good'; known are",
    ),
}

WARNED = {
    "9 and 9.0": (
        lambda: fit_corrector(["9", "9.0"] * 20, OBS, X, seed=0),
        "'9' and '9.0' count as two contexts: write them alike if they are the same",
    ),
    "9.0 for 9, new": (
        lambda: FITTED.chosen.correct(OBS, ["9.0", "10.0"] * 20),
        "(first: '9.0', which calibration has as '9': write it the same way)",
    ),
    "two spellings of a label": (
        lambda: shift().fit(["Calm", "calm "] * 20, OBS, X),
        "'Calm' and 'calm ' count as two contexts: write them alike",
    ),
    "other units": (
        lambda: fit_corrector(NOTES, 1000 * OBS, X, seed=0),
        "more than a factor of 50 in columns 0, 1. Bring both into the same units",
    ),
    "other units in fit": (
        lambda: shift().fit(NOTES, 1000 * OBS, X),
        "more than a factor of 50 in columns 0, 1. Bring both into the same units",
    ),
    "other units in sample": (
        lambda: FITTED.corrected.sample(3, 1000 * OBS, NOTES, seed=0),
        "where its draws are unreliable; check the correction, its context and the units",
    ),
    "other units in correct": (
        lambda: FITTED.chosen.correct(1000 * OBS, ["9", "10"] * 20),
        "(first: row 0 has -125.8 in column 0, calibrated from -1.469 to 2.389): check the",
    ),
    "other units in correct, of a shift": (
        lambda: FITTED.shift.correct(OBS + 273, NOTES),
        "40 of 40 observations lie far outside those of calibration (first: row 0 has",
    ),
    "ids": (
        lambda: fit_corrector(IDS, OBS, X, encoder=HashEncoder(), seed=0),
        "no two of 40 rows share a context (first: 'id00000'), so what is learned of one "
        "tells nothing of another: pass labels that repeat",
    ),
    "ids as labels": (
        lambda: shift(CategoryEncoder()).fit(IDS, OBS, X),
        "pass labels that repeat, or what was noted in place of an id",
    ),
    "no context": (
        lambda: fit_corrector(None, OBS, X, seed=0),
        "the context is missing in every row, so only the departure that all rows share "
        "can be learned: pass one text, label or number per observation",
    ),
    "no context in fit": (
        lambda: shift().fit(None, OBS, X),
        "the context is missing in every row",
    ),
    "name of a column": (
        lambda: fit_corrector("note", OBS, X, seed=0),
        "every calibration row has the same context ('note'), so only the average "
        "departure can be learned and the context has no effect: pass one entry per "
        "observation",
    ),
    "few rows": (
        lambda: fit_corrector(NOTES[:4], OBS[:4], X[:4], seed=0),
        "are too few to learn a departure from (at least 16 rows, in two groups)",
    ),
    "theta without posterior": (
        lambda: fit_corrector(NOTES, OBS, X, theta=X, seed=0),
        "theta is not used without a posterior: pass posterior=",
    ),
}


def texts_and_numbers():
    parts = [("text", TfidfVectorizer(), "note"), ("number", StandardScaler(), ["load"])]
    return ColumnTransformer(parts)


MENDED = {
    "texts that are missing": (
        lambda: shift(TfidfVectorizer()).fit(GAPS, OBS, X).correct(OBS, GAPS)[::2],
        lambda: X[::2],
    ),
    "texts that are missing in a table": (
        lambda: (
            shift(texts_and_numbers())
            .fit(TABLE.assign(note=GAPS), OBS, X)
            .correct(OBS, TABLE.assign(note=GAPS))
        ),
        lambda: (
            shift(texts_and_numbers())
            .fit(TABLE.assign(note=["high", ""] * 20), OBS, X)
            .correct(OBS, TABLE.assign(note=["high", ""] * 20))
        ),
    ),
    "no text at all": (
        lambda: shift(TfidfVectorizer()).fit(GAPS, OBS, X).correct(OBS, None),
        lambda: shift(TfidfVectorizer()).fit(GAPS, OBS, X).correct(OBS, [None] * NUM),
    ),
    "dates": (
        lambda: NumberEncoder().fit(DATES).transform(DATES),
        lambda: NumberEncoder().fit(np.arange(NUM)).transform(np.arange(NUM)),
    ),
    "spans of time": (
        lambda: NumberEncoder().fit([timedelta(1), timedelta(3)]).transform(timedelta(3)),
        lambda: NumberEncoder().fit([1.0, 3.0]).transform(3.0),
    ),
    "row of a table": (
        lambda: FITTED.of_table.corrections(OBS[:1], TABLE.iloc[0]).x,
        lambda: FITTED.of_table.corrections(OBS[:1], TABLE.iloc[[0]]).x,
    ),
    "tuple": (
        lambda: FITTED.of_table.corrections(OBS[:1], ("high", 0.0)).x,
        lambda: FITTED.of_table.corrections(OBS[:1], TABLE.iloc[[0]]).x,
    ),
    "columns in another order": (
        lambda: FITTED.of_table.corrections(OBS, TABLE[["load", "note"]]).log_weight,
        lambda: FITTED.of_table.corrections(OBS, TABLE).log_weight,
    ),
    "dict of columns": (
        lambda: FITTED.of_table.corrections(OBS, TABLE.to_dict(orient="list")).x,
        lambda: FITTED.of_table.corrections(OBS, TABLE).x,
    ),
    "dicts": (
        lambda: FITTED.of_table.corrections(OBS, TABLE.to_dict(orient="records")).x,
        lambda: FITTED.of_table.corrections(OBS, TABLE).x,
    ),
    "generator": (
        lambda: FITTED.corrected.corrections(OBS, (note for note in NOTES)).x,
        lambda: FITTED.corrected.corrections(OBS, NOTES).x,
    ),
}
