"""One call and one command that say whether to trust a correction."""

from ma_sbi.checking.check import check
from ma_sbi.checking.facts import Facts
from ma_sbi.checking.result import Check
from ma_sbi.checking.verdict import Advice, Decision, Verdict, decide

__all__ = ["Advice", "Check", "Decision", "Facts", "Verdict", "check", "decide"]
