"""Kinds of operations: what each saves, may overwrite, costs and computes; one file per family."""

from remat_algos.namespace import namespace

__all__, __getattr__, __dir__ = namespace(
    __name__,
    {
        "kind": "OperationKind register operation_kind operation_kinds",
        "formula": "Formula",
    },
)
