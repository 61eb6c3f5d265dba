"""Theory: every bound of the paper as a function, and what it needs to hold."""

from ma_sbi.theory.estimation import (
    break_even_information,
    estimation_error,
    expected_gain,
    triples_needed,
)

__all__ = [
    "break_even_information",
    "estimation_error",
    "expected_gain",
    "triples_needed",
]
