"""Schedules executed on NumPy or CuPy, and compared with their prediction."""
