"""Schedules executed on NumPy or CuPy, and compared with their prediction."""

from remat_algos.namespace import namespace

__all__, __getattr__, __dir__ = namespace(
    __name__,
    {
        "operators": "Operators SyntheticOperators",
        "layer_operators": "LayerOperators",
        "execution": "Execution",
        "validation": "Validation",
        "shrinking": "shrink",
        "training": "Training train",
    },
)
