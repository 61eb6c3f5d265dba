# Public names, loaded when first used: training needs no sbi, and sbi takes seconds.
from .amortized import Amortized
from .bayesflow import from_bayesflow
from .callables import from_callable
from .density import SimulationDensity, fit_density, load_density
from .diffusion import DiffusionPosterior, fit_ddpm, load_ddpm, noise_schedule
from .flow import FlowPosterior, fit_flow, load_flow
from .loading import PickledPosterior, load_posterior
from .sbi import from_sbi
from .truncation import LeakyPosterior
from .zuko import from_zuko

__all__ = [
    "Amortized",
    "DiffusionPosterior",
    "FlowPosterior",
    "LeakyPosterior",
    "PickledPosterior",
    "SimulationDensity",
    "fit_ddpm",
    "fit_density",
    "fit_flow",
    "from_bayesflow",
    "from_callable",
    "from_sbi",
    "from_zuko",
    "load_ddpm",
    "load_density",
    "load_flow",
    "load_posterior",
    "noise_schedule",
]
