"""Packages whose files have a `GRAPH_FORMAT` each."""

names: tuple[str, ...] = ("remat_algos.formats.graphs",)
"""`remat_algos/__init__.py` adds `interop.model_files`, which this package does not import."""
