"""The evidence beside ma-sbi: worlds with known answers, rivals, and the paper's check."""

__version__ = "0.2.0"
