"""Schedules run for real, on NumPy or CuPy, and held against what was predicted."""
