"""What a plan does in each submodule of a model."""

from collections import defaultdict
from dataclasses import dataclass

from remat_algos.schedule.simulation import Simulation
from remat_algos.text.layout import tabulated
from remat_algos.text.units import format_bytes, percent


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """One submodule.

    Parameters
    ----------
    name : str
        As in `named_modules`; empty for what the model itself calls.
    saved, freed : int
        Bytes that it leaves to the backward part by the plan, and how many less that is than in one pass.
    recomputed : int
        Bytes recomputed.
    compute : int
        Cost of these runs, in the unit of the graph.
    """

    name: str
    saved: int
    freed: int
    recomputed: int
    compute: int


@dataclass(frozen=True, slots=True)
class ModuleTable:
    """Submodules, the cheapest per byte first; printed as a table.

    Parameters
    ----------
    rows : tuple of ModuleRow
    one_pass : int
        Compute of one pass, of which overheads are shares.
    """

    rows: tuple[ModuleRow, ...]
    one_pass: int

    @classmethod
    def of(cls, simulation: Simulation, one_pass: Simulation, depth: int | None = None) -> "ModuleTable":
        """The figures of a plan beside those of one pass; below a depth, submodules belong to that above them."""
        graph = simulation.graph
        names = [_module(name, depth) for name in graph.node_names()]
        saved, before, again, compute = (defaultdict[str, int](int) for _ in range(4))
        for run, sums in ((simulation, saved), (one_pass, before)):
            for x in {x for x, _ in run.saved}:
                sums[names[graph.producer[x]]] += int(graph.memory[x])
        for v in range(graph.n_nodes):
            if (more := int(simulation.runs[v]) - 1) > 0:
                again[names[v]] += more * int(graph.node_memory[v])
                compute[names[v]] += more * int(graph.compute[v])
        rows = [
            ModuleRow(name, saved[name], max(before[name] - saved[name], 0), again[name], compute[name])
            for name in dict.fromkeys(names)
            if saved[name] or before[name] or again[name]
        ]
        rows.sort(key=lambda row: (row.compute / row.freed if row.freed else float("inf"), -row.freed))
        return cls(tuple(rows), graph.needed_compute)

    @property
    def recompute(self) -> list[str]:
        """Submodules of which something runs again: what a framework's list of checkpoints takes."""
        return [row.name for row in self.rows if row.recomputed and row.name]

    @property
    def keep(self) -> list[str]:
        """Submodules that keep what they save, and of which nothing runs again."""
        return [row.name for row in self.rows if row.saved and not row.recomputed and row.name]

    def __str__(self) -> str:
        cells = [
            (
                row.name or "(the model)",
                format_bytes(row.freed),
                format_bytes(row.recomputed),
                percent(row.compute, self.one_pass),
                format_bytes(row.saved),
            )
            for row in self.rows
        ]
        return "\n".join(tabulated(("module", "freed", "recomputed", "overhead", "saved"), cells))


def _module(name: str, depth: int | None) -> str:
    """The submodule in the name of a node."""
    path = name.split(".")[:-1]
    return ".".join(path if depth is None else path[:depth])
