# Names of the room, loaded when first used; see __init__.py.
from .budget import Budget
from .cell import Backbone, Cell, Measurement
from .comparing import Compared, Line
from .experiment import Experiment
from .laboratory import Laboratory
from .registry import EXPERIMENTS, get_experiment
from .store import Store

__all__ = [
    "EXPERIMENTS",
    "Backbone",
    "Budget",
    "Cell",
    "Compared",
    "Experiment",
    "Laboratory",
    "Line",
    "Measurement",
    "Store",
    "get_experiment",
]
