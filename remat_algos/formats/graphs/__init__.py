"""Formats of graphs, one module each."""
