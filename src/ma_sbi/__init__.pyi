# Public names, loaded when first used; see __init__.py.
from .adapters import from_callable, from_sbi, from_zuko
from .backbones import fit_ddpm, fit_flow, load_ddpm, load_flow
from .correctors import ComposedCorrector, ShiftCorrector, decompose
from .encoders import CategoryEncoder, HashEncoder, NumberEncoder, SentenceEncoder
from .posterior import CorrectedPosterior

__all__ = [
    "CategoryEncoder",
    "ComposedCorrector",
    "CorrectedPosterior",
    "HashEncoder",
    "NumberEncoder",
    "SentenceEncoder",
    "ShiftCorrector",
    "decompose",
    "fit_ddpm",
    "fit_flow",
    "from_callable",
    "from_sbi",
    "from_zuko",
    "load_ddpm",
    "load_flow",
]

__version__: str
