"""Addresses for what a schedule holds."""
