"""Recomputation over lower sets: seven networks under all strategies, and time against batch size."""
