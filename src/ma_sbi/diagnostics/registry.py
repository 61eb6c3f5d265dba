"""Every diagnostic of a check. A new one is a file in this folder and its name here."""

from __future__ import annotations

from importlib import import_module

from ma_sbi.diagnostics.diagnostic import Diagnostic

__all__ = ["DIAGNOSTICS"]

# In the order in which they are run: some use what earlier ones found.
FILES = (
    "exclusion",
    "leak_power",
    "dependence",
    "information",
    "departure_family",
    "out_of_distribution",
    "outside_range",
    "posterior_means",
    "coverage",
    "predictive_check",
)

DIAGNOSTICS: dict[str, Diagnostic] = {
    one.name: one
    for one in (import_module(f"ma_sbi.diagnostics.{file}").DIAGNOSTIC for file in FILES)
}
"""By name, the key of their results."""
