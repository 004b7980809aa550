"""The plans of kusumoto2019 for a network, run as in the paper, simulated with and without liveness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from docs.reproductions.quick import as_reference
from remat_algos.context import Clock, Progress
from remat_algos.forks import cached_property
from remat_algos.ir.arrays import row_of, select_entries
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.kinds import operation_kind
from remat_algos.schedule.emission import baseline, canonical_schedule, canonical_trace
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.solvers.formula_chains import FormulaChains
from remat_algos.solvers.methods.liveness_dp import liveness_dp
from remat_algos.solvers.registry import Task, pareto
from remat_algos.structure.lower_sets import LowerSets, lower_set_family, single_boundary_chain
from remat_algos.zoo.registry import build

COUNTED: Mapping[str, Any] = {"dropout": "single", "counting": "paper", "cost": "paper"}


@dataclass(frozen=True, slots=True)
class PaperNetwork:
    """A network of the zoo as in the paper.

    Parameters
    ----------
    label : str
    model : str
    batch : int
    options : mapping
        Options of the model.

    Examples
    --------
    >>> network = PaperNetwork("VGG19", "vgg19", 64)
    >>> network.training().n_nodes > network.forward().n_nodes == 46
    True
    """

    label: str
    model: str
    batch: int
    options: Mapping[str, Any] = field(default_factory=dict)

    def forward(self, batch: int | None = None, **settings: Any) -> ComputationGraph:
        """The forward part: one value per operation, reads of gradients as in the published graphs, costs 10 and 1."""
        return build(self.model, batch=batch or self.batch, **{**COUNTED, **self.options, **settings}).graph

    @property
    def reference(self) -> str:
        """The model that it is made from."""
        return as_reference(self.model, {"batch": self.batch, **self.options, **COUNTED})

    def training(self, batch: int | None = None, **settings: Any) -> ComputationGraph:
        """The training graph with the gradients of the parameters."""
        return differentiate(self.forward(batch, **settings), parameter_gradients=True)


@dataclass(frozen=True, eq=False)
class CanonicalPlan:
    """A chain of lower sets, run to the letter: the last block is recomputed, and blocks are recomputed in full.

    Parameters
    ----------
    graph : ComputationGraph
    chain : LowerSets

    Examples
    --------
    >>> from remat_algos.zoo.random import chain
    >>> graph = differentiate(chain(4))
    >>> plan = CanonicalPlan(graph, single_boundary_chain(graph))
    >>> plan.peak, plan.peak_without_liveness(graph), plan.formula_overhead
    (6, 7, 3)
    """

    graph: ComputationGraph
    chain: LowerSets

    @cached_property
    def simulation(self) -> Simulation:
        """Its schedule, simulated."""
        return simulate(self.graph, canonical_schedule(self.graph, self.chain, keep_last=False, lazy=False))

    @property
    def peak(self) -> int:
        """Bytes of the simulated peak, with liveness."""
        return self.simulation.peak_memory

    @property
    def overhead(self) -> int:
        """Compute beyond one pass, recomputation for a single gradient included."""
        return self.simulation.overhead

    @property
    def formula_overhead(self) -> int:
        """Formula (1)."""
        return self.chain.overhead(self.graph)

    def peak_without_liveness(self, graph: ComputationGraph) -> int:
        """Peak in bytes if values are only dropped where the canonical strategy drops them.

        Parameters
        ----------
        graph : ComputationGraph
            Graph of the same forward part, in which unread gradients are handed over.
        """
        chain = LowerSets.of(graph, self.chain.sets(self.graph))
        return int(canonical_trace(graph, chain).max(initial=0))


class Planner:
    """The chains of a network that are best by formulas (1) and (2).

    Parameters
    ----------
    graph : ComputationGraph
    progress : callable, optional

    Examples
    --------
    >>> from remat_algos.zoo.random import chain
    >>> planner = Planner(differentiate(chain(9)))
    >>> budget = planner.least_budget("pruned")
    >>> budget == planner.least_budget("exact") == planner.plan("exact", "time").chain.peak(planner.graph)
    True
    """

    def __init__(self, graph: ComputationGraph, progress: Progress | None = None) -> None:
        self.graph = graph
        self.progress = progress
        self._chains: dict[str, FormulaChains] = {}
        self._budgets: dict[str, int] = {}

    def n_lower_sets(self, family: str) -> int:
        """Number of lower sets, the empty one included."""
        return len(self._of(family).family)

    def least_budget(self, family: str) -> int:
        """The minimum budget of formula (2) for which there is a chain."""
        if family not in self._budgets:
            below = None if family == "pruned" else self.least_budget("pruned")
            self._budgets[family] = self._of(family).program.least_budget(below)
        return self._budgets[family]

    def plan(self, family: str, strategy: str, budget: int | None = None) -> CanonicalPlan:
        """The best chain within a budget, by default the minimum: "time", "memory" or "cache", as in `exact_dp`."""
        budget = self.least_budget(family) if budget is None else budget
        chains = self._of(family)
        found = chains.best(budget, strategy)
        return CanonicalPlan(self.graph, found[0] if found else chains.family.chain([]))

    def _of(self, family: str) -> FormulaChains:
        if family not in self._chains:
            sets, clock = lower_set_family(self.graph, family), Clock(progress=self.progress)
            self._chains[family] = FormulaChains(sets, clock, keep_last=False)
        return self._chains[family]


def by_liveness(graph: ComputationGraph, progress: Progress | None = None) -> list[Schedule]:
    """The schedules of `liveness_dp`, the lowest peak first."""
    found = pareto(liveness_dp(graph, Task(), Clock(progress=progress)), lambda each: each.figures)
    return [candidate.schedule for candidate in found]


def chens(graph: ComputationGraph) -> CanonicalPlan:
    """Chen's plan as the authors of kusumoto2019 ran it."""
    return CanonicalPlan(graph, single_boundary_chain(graph))


def as_frameworks_save(graph: ComputationGraph) -> ComputationGraph:
    """The forward graph with gradients that read nothing if so in frameworks (sums, crops).

    Examples
    --------
    Of a U-Net, those of four crops, of two dropouts and of four joints of two values each.

    >>> graph = PaperNetwork("U-Net", "unet", 1, {"image": 188}).forward()
    >>> len(graph.backward.saved_indices) - len(as_frameworks_save(graph).backward.saved_indices)
    14
    """
    back, ops = graph.backward, graph.labels.ops
    if back is None or ops is None:
        return graph
    kinds = [operation_kind(op) for op in ops]
    saves = np.array([kind is None or bool(any(kind.saved()) or kind.extra) for kind in kinds])
    indptr, indices = select_entries(back.saved_indptr, back.saved_indices, saves[row_of(back.saved_indptr)])
    return replace(graph, backward=replace(back, saved_indptr=indptr, saved_indices=indices))


def peak_of_a_tape(graph: ComputationGraph) -> int:
    """The peak of one pass that keeps everything that gradients read until the end of the backward pass.

    Examples
    --------
    Values of 4, 1 and 1 bytes. In the last step the gradients of the first two stand beside all three; with liveness
    the third one is gone by then.

    >>> chain = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2)], memory=[4, 1, 1]))
    >>> peak_of_a_tape(chain), baseline(chain).peak_memory
    (11, 10)
    """
    simulation = baseline(graph)
    lives, backward = simulation.lifetimes, ~graph.forward
    taped = np.zeros(graph.n_values, bool)
    taped[graph.read_indices[backward[row_of(graph.read_indptr)]]] = True
    saved = (taped & graph.forward[graph.producer])[lives.value]
    freed = np.zeros(len(simulation.schedule) + 1, np.int64)
    np.add.at(freed, lives.end[saved], graph.memory[lives.value[saved]])
    return int((simulation.memory_trace + np.cumsum(freed)[:-1]).max(initial=0))
