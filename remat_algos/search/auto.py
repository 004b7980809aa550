"""The solvers of "auto": a table with one row per solver, and the reason for each."""

from typing import NamedTuple

from remat_algos.effort import DEFAULT, Effort
from remat_algos.ir.graph import ComputationGraph
from remat_algos.solvers.registry import Solver, in_order, list_solvers


class AutoRow(NamedTuple):
    """Why "auto" runs a solver, its minimum number of nodes, and whether to omit it silently if it refuses a graph."""

    why: str
    smallest: int = 0
    special: bool = False


TABLE = {
    "no_remat": AutoRow("the reference; if it fits, no plan is cheaper"),
    "two_cuts": AutoRow("quickly near the bound on graphs that are too large for the search", smallest=1_000),
    "drop_cheap": AutoRow("takes no time; good if cheap nodes compute large values"),
    "echo": AutoRow("takes no time; good if cheap regions read few bytes and compute many"),
    "chen_sqrt": AutoRow("few segments: a good start on long, even chains"),
    "pathremat": AutoRow("low peaks on graphs of small pathwidth"),
    "chen_greedy": AutoRow("segments of equal bytes: a good start on uneven chains"),
    "chen_recursive": AutoRow("low peaks on chains, where nodes run more than twice"),
    "revolve": AutoRow(
        "optimal on chains of equal nodes; smaller ones are searched exactly", smallest=64, special=True
    ),
    "approximate_dp": AutoRow("chains of lower sets on graphs that have too many of them for an exact program"),
    "greedy_remat": AutoRow("works on graphs of any form, and without a backward part"),
    "twremat": AutoRow("low peaks on graphs of small treewidth"),
    "liveness_dp": AutoRow("chains of lower sets whose blocks are simulated, not estimated"),
    "chain_dp": AutoRow("optimal on chains; smaller ones are searched exactly", smallest=64, special=True),
    "live_set_search": AutoRow("proves the optimum of small graphs"),
    "search": AutoRow("improves the results of the others"),
}
"""Rows in the order in which the solvers run: cheap solvers first, those that improve other candidates last."""
SPECIAL = frozenset(name for name, row in TABLE.items() if row.special)


def default_solvers(graph: ComputationGraph | None = None, effort: str = DEFAULT) -> list[Solver]:
    """Return the solvers of "auto" in the order of their runs; without a graph, those that run on every graph."""
    max_price = Effort.of(effort).solver_price

    def chosen(solver: Solver) -> bool:
        row = TABLE.get(solver.name, AutoRow("registered by its author"))
        if solver.price > max_price and not solver.improves:
            return False
        if graph is None:
            return not (row.special or row.smallest)
        return graph.n_nodes >= row.smallest and not (row.special and solver.needs(graph))

    return in_order(solver for solver in list_solvers() if solver.portfolio and chosen(solver))
