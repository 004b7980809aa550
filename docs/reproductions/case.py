"""A network of some size, and the simulation of each strategy on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remat_algos.context import Progress
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import ROLES
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.simulation import Simulation
from remat_algos.search.solve import solve

NO_REMAT = "no_remat"
PARAMETER = ROLES.index("parameter")


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A training graph with schedules for it, simulated.

    Parameters
    ----------
    label : str
    size : int
        Number that grows from case to case.
    graph : ComputationGraph
    simulations : mapping of str to Simulation
        Simulations by strategy, including "no_remat".

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.zoo.random import chain
    >>> case = Case.of("chain", 9, differentiate(chain(9)), ["chen_sqrt"])
    >>> case.unshared, case.peak("no_remat"), case.peak("chen_sqrt"), case.overhead("chen_sqrt")
    (18, 11, 7, 0.16)
    """

    label: str
    size: int
    graph: ComputationGraph
    simulations: Mapping[str, Simulation]

    @classmethod
    def of(
        cls,
        label: str,
        size: int,
        graph: ComputationGraph,
        solvers: Sequence[str] | Mapping[str, tuple[str, Mapping[str, Any]]],
        *,
        progress: Progress | None = None,
    ) -> Case:
        """The plan with the lowest peak of each solver, without the passes of `solve`.

        `solvers` are names or, by strategy, a name and its options. Raises `Interrupted` if a solver was stopped: its
        best so far is not a result of the paper.
        """
        asked = solvers if isinstance(solvers, Mapping) else {name: (name, {}) for name in solvers}
        simulations = {NO_REMAT: baseline(graph)}
        for strategy, (solver, options) in asked.items():
            told = named(progress, f"{label}, {strategy}")
            plan = solve(graph, "least", solver=solver, raw=True, progress=told, **options)
            plan.report.stop.check("interrupted; nothing was written")
            simulations[strategy] = plan.simulation
        return cls(label, size, graph, simulations)

    @property
    def unshared(self) -> int:
        """Bytes of all values together, as if never freed."""
        return int(self.graph.memory[self.graph.needed[self.graph.producer]].sum())

    @property
    def parameter_memory(self) -> int:
        """Bytes of the parameters, which are not part of peaks."""
        resident = self.graph.resident
        return int(resident.memory[resident.role == PARAMETER].sum()) if resident is not None else 0

    def peak(self, strategy: str) -> int:
        """Bytes of the simulated peak."""
        return self.simulations[strategy].peak_memory

    def forward_peak(self, strategy: str) -> int:
        """The maximum of the live bytes of forward values, without gradients."""
        traces = self.simulations[strategy].trace_by_role()
        return int((traces["kept"] + traces["recomputed"]).max())

    def overhead(self, strategy: str, priced: ComputationGraph | None = None) -> float:
        """Compute beyond one pass, as a share of it; `priced` is the same graph with other costs."""
        graph = self.graph if priced is None else priced
        compute = int(graph.compute[self.simulations[strategy].schedule.order].sum())
        return round((compute - graph.needed_compute) / max(1, graph.needed_compute), 4)


def named(progress: Progress | None, name: str) -> Progress | None:
    """A progress callback that puts a name in front of each message."""
    return progress and (lambda done, total, what: progress(done, total, f"{name}: {what}" if what else name))
