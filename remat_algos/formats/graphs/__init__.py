"""Formats of graphs, one file each."""
