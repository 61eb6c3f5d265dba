"""Theory that the diagnostics use: the cost of estimation, and Theorem 1's bound."""

from ma_sbi.theory.estimation import (
    break_even_information,
    estimation_error,
    expected_gain,
    triples_needed,
)
from ma_sbi.theory.sub_gaussian import (
    Coupling,
    ModalDeparture,
    lipschitz_bound,
    sub_gaussian_bound,
    sub_gaussian_proxy,
    two_point_proxy,
)

__all__ = [
    "Coupling",
    "ModalDeparture",
    "break_even_information",
    "estimation_error",
    "expected_gain",
    "lipschitz_bound",
    "sub_gaussian_bound",
    "sub_gaussian_proxy",
    "triples_needed",
    "two_point_proxy",
]
