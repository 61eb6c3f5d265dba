# Public names, loaded when first used; see __init__.py.
from ma_sbi.adapters import from_callable, from_sbi, from_zuko
from ma_sbi.backbones import fit_ddpm, fit_flow
from ma_sbi.correctors import ComposedCorrector, ShiftCorrector, decompose
from ma_sbi.encoders import CategoryEncoder, HashEncoder, NumberEncoder, SentenceEncoder
from ma_sbi.posterior import CorrectedPosterior

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
]

__version__: str
