# Public names, loaded when first used; see __init__.py.
from .checking.check import check
from .checking.result import Check
from .choosing import ChosenCorrector, fit_corrector
from .conformal_regions import ConformalRegions, conformal
from .correctors import (
    BootstrapCorrector,
    ComposedCorrector,
    MatchingCorrector,
    ShiftCorrector,
    cross_fit,
    decompose,
    per_trial,
)
from .draws import to_arviz, to_frame
from .encoders import (
    CategoryEncoder,
    HashEncoder,
    NumberEncoder,
    SentenceEncoder,
    TableEncoder,
)
from .loading import load_corrector
from .posterior import CorrectedPosterior
from .posteriors import (
    fit_ddpm,
    fit_density,
    fit_flow,
    from_bayesflow,
    from_callable,
    from_sbi,
    from_zuko,
    load_ddpm,
    load_density,
    load_flow,
    load_posterior,
)
from .predictive import predictive_mean
from .storing.packing import NotSaved

__all__ = [
    "BootstrapCorrector",
    "CategoryEncoder",
    "Check",
    "ChosenCorrector",
    "ComposedCorrector",
    "ConformalRegions",
    "CorrectedPosterior",
    "HashEncoder",
    "MatchingCorrector",
    "NotSaved",
    "NumberEncoder",
    "SentenceEncoder",
    "ShiftCorrector",
    "TableEncoder",
    "check",
    "conformal",
    "cross_fit",
    "decompose",
    "fit_corrector",
    "fit_ddpm",
    "fit_density",
    "fit_flow",
    "from_bayesflow",
    "from_callable",
    "from_sbi",
    "from_zuko",
    "load_corrector",
    "load_ddpm",
    "load_density",
    "load_flow",
    "load_posterior",
    "per_trial",
    "predictive_mean",
    "to_arviz",
    "to_frame",
]

__version__: str
