# Public names, loaded when first used; see __init__.py.
from .adapters import from_callable, from_sbi, from_zuko
from .backbones import fit_ddpm, fit_flow, load_ddpm, load_flow, load_posterior
from .checking import Check, check
from .correctors import (
    BootstrapCorrector,
    ComposedCorrector,
    MatchingCorrector,
    ShiftCorrector,
    cross_fit,
    decompose,
)
from .encoders import CategoryEncoder, HashEncoder, NumberEncoder, SentenceEncoder
from .posterior import CorrectedPosterior
from .predictive import predictive_mean

__all__ = [
    "BootstrapCorrector",
    "CategoryEncoder",
    "Check",
    "ComposedCorrector",
    "CorrectedPosterior",
    "HashEncoder",
    "MatchingCorrector",
    "NumberEncoder",
    "SentenceEncoder",
    "ShiftCorrector",
    "check",
    "cross_fit",
    "decompose",
    "fit_ddpm",
    "fit_flow",
    "from_callable",
    "from_sbi",
    "from_zuko",
    "load_ddpm",
    "load_flow",
    "load_posterior",
    "predictive_mean",
]

__version__: str
