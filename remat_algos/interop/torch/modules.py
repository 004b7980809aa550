"""The effect of a plan on each submodule of a model."""

from collections import defaultdict
from dataclasses import dataclass

from remat_algos.plan.policy import module_of
from remat_algos.schedule.simulation import Simulation
from remat_algos.text.layout import tabulated
from remat_algos.text.units import format_bytes, percent


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """One submodule.

    Parameters
    ----------
    name : str
        As in `named_modules`; empty for calls by the model itself.
    saved, freed : int
        Bytes that it leaves to the backward part under the plan, and their reduction relative to one pass.
    recomputed : int
        Bytes recomputed.
    compute : int
        Cost of the recomputation, in the unit of the graph.
    """

    name: str
    saved: int
    freed: int
    recomputed: int
    compute: int


@dataclass(frozen=True, slots=True)
class ModuleTable:
    """Table of submodules, the cheapest per byte first.

    Parameters
    ----------
    rows : tuple of ModuleRow
    one_pass : int
        Compute of one pass, to which overheads are relative.
    """

    rows: tuple[ModuleRow, ...]
    one_pass: int

    @classmethod
    def of(cls, simulation: Simulation, one_pass: Simulation, depth: int | None = None) -> "ModuleTable":
        """The figures of a plan relative to one pass; below a depth, submodules count for the one above."""
        graph = simulation.graph
        names = [module_of(graph, x, depth) for x in graph.value_indptr[:-1].tolist()]
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
        """Submodules with recomputation, for a framework's list of checkpoints."""
        return [row.name for row in self.rows if row.recomputed and row.name]

    @property
    def keep(self) -> list[str]:
        """Submodules that keep all saved values and recompute nothing."""
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
