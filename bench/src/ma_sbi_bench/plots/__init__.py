"""Figures: functions from numbers to a picture."""
