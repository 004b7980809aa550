"""PyTorch models, planned and run within a budget."""

from remat_algos.namespace import namespace

__all__, __getattr__, __dir__ = namespace(
    __name__,
    {
        "compiled": "backend capture partition_fn reports",
        "module": "rematerialize",
        "joint": "Captured",
        "lowering": "lower",
        "peaks": "Peaks measure_peak",
        "planning": "GraphReport",
        "modules": "ModuleTable ModuleRow",
        "references": "References",
        "inductor": "InductorPartitioner",
    },
    library="torch",
)
