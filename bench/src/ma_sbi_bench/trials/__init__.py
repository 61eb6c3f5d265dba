"""Trials: a method fitted to a calibration set, judged on test observations."""
