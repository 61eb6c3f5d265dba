# Loaded when first used; see __init__.py.
from .facts import Facts
from .result import Check
from .verdict import Advice, Decision, Verdict, decide

__all__ = ["Advice", "Check", "Decision", "Facts", "Verdict", "decide"]
