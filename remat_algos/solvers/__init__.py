"""Helpers shared by the solvers; the solvers themselves are in `methods`, one file each."""

from remat_algos.namespace import namespace

__all__, __getattr__, __dir__ = namespace(
    __name__,
    {
        "echo_regions": "Region find_echo_regions",
        "formula_chains": "formula_frontier least_budget",
    },
)
