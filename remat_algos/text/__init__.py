"""Printing and reading of figures and words: units, decimals, names in sentences, tables."""
