"""What "auto" tries: one row for each solver, with the reason."""

from typing import NamedTuple

from remat_algos.effort import DEFAULT, Effort
from remat_algos.ir.graph import ComputationGraph
from remat_algos.solvers.registry import Solver, in_order, list_solvers


class AutoRow(NamedTuple):
    """Why "auto" runs a solver, from how many nodes on, and whether only on graphs that the solver can serve."""

    why: str
    smallest: int = 0
    special: bool = False


TABLE = {
    "no_remat": AutoRow("the reference; where it fits, nothing is cheaper"),
    "two_cuts": AutoRow("near the bound at once on graphs that are too large for the search", smallest=1_000),
    "drop_cheap": AutoRow("takes no time; good where cheap nodes make large values"),
    "echo": AutoRow("takes no time; good where cheap regions read little and make much"),
    "chen_sqrt": AutoRow("few segments: a good start on long, even chains"),
    "pathremat": AutoRow("low peaks on graphs of small path width"),
    "chen_greedy": AutoRow("segments of even bytes: a good start on uneven chains"),
    "chen_recursive": AutoRow("low peaks on chains, where nodes run more than twice"),
    "revolve": AutoRow(
        "optimal on chains of equal nodes; smaller ones are searched exactly", smallest=64, special=True
    ),
    "approximate_dp": AutoRow("chains of lower sets on graphs with too many of them for others"),
    "greedy_remat": AutoRow("works on graphs of any form, and without a backward part"),
    "twremat": AutoRow("low peaks on graphs of small tree width"),
    "liveness_dp": AutoRow("chains of lower sets whose blocks are simulated, not estimated"),
    "chain_dp": AutoRow("optimal on chains; smaller ones are searched exactly", smallest=64, special=True),
    "live_set_search": AutoRow("proves the optimum of small graphs"),
    "search": AutoRow("improves what the others found"),
}
"""By price: in this order the solvers run, those that improve others' candidates at the end."""
SPECIAL = frozenset(name for name, row in TABLE.items() if row.special)


def default_solvers(graph: ComputationGraph | None = None, effort: str = DEFAULT) -> list[Solver]:
    """Return the solvers of "auto" for a graph, in the order in which they run.

    Solvers of others that were registered for "auto" run too. By effort "fast" only cheap ones run, and those that
    improve what others found. Without a graph, those that run on graphs of every size and form.
    """
    dearest = Effort.of(effort).solver_price

    def chosen(solver: Solver) -> bool:
        row = TABLE.get(solver.name, AutoRow("registered by its author"))
        if solver.price > dearest and not solver.improves:
            return False
        if graph is None:
            return not (row.special or row.smallest)
        return graph.n_nodes >= row.smallest and not (row.special and solver.needs(graph))

    return in_order(solver for solver in list_solvers() if solver.portfolio and chosen(solver))
