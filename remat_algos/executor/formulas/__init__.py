"""Formulas of operations, with true gradients."""
