"""Kinds of operations: what each saves, may overwrite, costs and computes; one file per family."""
