"""From a graph and a budget to a simulated plan."""

from remat_algos.namespace import namespace

__all__, __getattr__, __dir__ = namespace(
    __name__,
    {
        "breakdown": "Breakdown",
    },
)
