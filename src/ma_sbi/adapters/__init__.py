"""Adapters: posteriors trained elsewhere, under the one protocol."""

from ma_sbi.adapters.callables import from_callable
from ma_sbi.adapters.sbi import from_sbi
from ma_sbi.adapters.truncation import LeakyPosterior
from ma_sbi.adapters.zuko import from_zuko

__all__ = ["LeakyPosterior", "from_callable", "from_sbi", "from_zuko"]
