"""Theory: every bound of the paper as a function, and what it needs to hold."""

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
from ma_sbi_bench.theory.discrete import (
    discrete_information,
    erasure_channel,
    explained_variance,
    gap_closed_by_context,
    symmetric_channel,
)
from ma_sbi_bench.theory.gaussian import (
    GaussianWorld,
    MonteCarloMean,
    canonical_information,
    canonical_mmse,
)
from ma_sbi_bench.theory.identifiability import (
    exclusive_or,
    is_identifiable,
    is_jointly_injective,
    posterior_table,
)
from ma_sbi_bench.theory.tails import (
    announced_tail,
    bounded_bound,
    truncation_bound,
    truncation_residual,
)
from ma_sbi_bench.theory.talagrand import (
    Transport,
    gaussian_transport,
    quantile_distance,
    tilted_transport,
    two_point_transport,
)

__all__ = [
    "Coupling",
    "GaussianWorld",
    "ModalDeparture",
    "MonteCarloMean",
    "Transport",
    "announced_tail",
    "bounded_bound",
    "break_even_information",
    "canonical_information",
    "canonical_mmse",
    "discrete_information",
    "erasure_channel",
    "estimation_error",
    "exclusive_or",
    "expected_gain",
    "explained_variance",
    "gap_closed_by_context",
    "gaussian_transport",
    "is_identifiable",
    "is_jointly_injective",
    "lipschitz_bound",
    "posterior_table",
    "quantile_distance",
    "sub_gaussian_bound",
    "sub_gaussian_proxy",
    "symmetric_channel",
    "tilted_transport",
    "triples_needed",
    "truncation_bound",
    "truncation_residual",
    "two_point_proxy",
    "two_point_transport",
]
