"""Backbones: amortized posteriors trained here."""

from ma_sbi.backbones.ddpm import DiffusionPosterior, fit_ddpm, load_ddpm, noise_schedule
from ma_sbi.backbones.flow import FlowPosterior, fit_flow, load_flow
from ma_sbi.backbones.loading import load_posterior

__all__ = [
    "DiffusionPosterior",
    "FlowPosterior",
    "fit_ddpm",
    "fit_flow",
    "load_ddpm",
    "load_flow",
    "load_posterior",
    "noise_schedule",
]
