"""The kernel of the search over schedules, for a graph with its marks and constraints."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from remat_algos.cost.links import Link
from remat_algos.ir.arrays import Bool, Float64, Int32, Int64
from remat_algos.ir.csr import gather_rows, indptr_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.labels import KEEP, RECOMPUTE
from remat_algos.ir.updates import updates_and_readers
from remat_algos.kernels.graph import GraphArrays
from remat_algos.kernels.schedule_state import ScheduleRules
from remat_algos.kernels.search import LARGEST_LIMIT, N_EXPONENTIALS, ScheduleSearch
from remat_algos.kernels.timeline import Engines
from remat_algos.schedule.constraints import Constraints, may_leave
from remat_algos.schedule.schedule import Schedule


@dataclass(frozen=True, slots=True, eq=False)
class SearchKernel:
    """The kernel's state of the needed nodes of a graph, in units of bytes that sum up to less than 2**30.

    Sizes are rounded up and limits down, so what is within the limit in units is so in bytes.

    Parameters
    ----------
    state : ScheduleSearch
    nodes : array_like of int
        The needed nodes; the kernel numbers them in this order.
    number : array_like of int
        The kernel's number of each node, -1 if it is not needed.
    unit : int
        Bytes.
    region_limits : array_like of int
        In units.
    mean_compute : float
        Of a node; 1 if none costs anything.
    values : array_like of int
        Those of the needed nodes; the kernel numbers them in this order.
    """

    state: ScheduleSearch
    nodes: Int32
    number: Int32
    unit: int
    region_limits: Int64
    mean_compute: float
    values: Int32

    @classmethod
    def of(
        cls,
        graph: ComputationGraph,
        *,
        max_runs: int,
        seed: int | Sequence[int] = 0,
        constraints: Constraints | None = None,
        link: Link | None = None,
        leaving: Bool | None = None,
    ) -> "SearchKernel":
        """The kernel for a graph whose nodes may run `max_runs` times, where marks and constraints allow it.

        With a link, values may be copied to the host and back, or those of `leaving` alone, and the cost of a schedule
        is its time.

        Examples
        --------
        >>> graph = ComputationGraph.from_edges([(0, 2), (1, 2)], memory=[2, 4, 1])
        >>> kernel = SearchKernel.of(graph, max_runs=1)
        >>> kernel.start(Schedule([0, 1, 2]), 7, goal=-1), kernel.best.order.tolist()
        (True, [0, 1, 2])
        """
        nodes = np.flatnonzero(graph.needed).astype(np.int32)
        number = np.full(graph.n_nodes, -1, np.int32)
        number[nodes] = np.arange(nodes.size)
        total = int(graph.memory.sum()) + int(graph.workspace.max(initial=0))
        unit = max(1, -(-total // (LARGEST_LIMIT // 2)))
        limits = np.empty(0, np.int64) if constraints is None else constraints.region_limit
        state = _state(graph, nodes, number, unit, max_runs, seed, constraints, link, leaving)
        mean = float(graph.compute[nodes].mean()) if nodes.size else 0.0
        values = np.flatnonzero(graph.needed[graph.producer]).astype(np.int32)
        return cls(state, nodes, number, unit, limits // unit, mean or 1.0, values)

    def start(self, schedule: Schedule, limit: int, *, goal: int, within: bool = False) -> bool:
        """Begin at a schedule, nothing being the best so far; False if it violates a law or a constraint.

        `within` says that its peak in bytes is within the limit, as its peak in units may not be.
        """
        self.state.forget()
        order = self.number[schedule.order]
        if schedule.loads.size:
            step, value = schedule.loads[np.isin(schedule.loads[:, 1], self.values)].T
            order = np.insert(order, step, self.nodes.size + np.searchsorted(self.values, value))
        limits = limit // self.unit, self.region_limits
        return bool(self.state.start(order[order >= 0], *limits, goal, within))

    def cool(self, hot: float, cold: float, part: float) -> None:
        """Set the temperature to what it is after a part of a search, from `hot` to `cold` mean costs of a node."""
        # Rounded before the mean comes in, so that a search is the same on every machine and in every unit of cost.
        self.state.temperature = self.mean_compute * float(np.float32(hot * (cold / hot) ** part))

    @property
    def best(self) -> Schedule:
        """The best schedule so far; until one fits that of the lowest peak."""
        ids = self.state.best_order()
        loads = np.flatnonzero(ids >= self.nodes.size)
        if not loads.size:
            return Schedule(self.nodes[ids])
        pairs = np.stack([loads - np.arange(loads.size), self.values[ids[loads] - self.nodes.size]], axis=1)
        return Schedule(self.nodes[np.delete(ids, loads)], pairs)


def _state(
    graph: ComputationGraph,
    nodes: Int32,
    number: Int32,
    unit: int,
    max_runs: int,
    seed: int | Sequence[int],
    constraints: Constraints | None,
    link: Link | None,
    leaving: Bool | None,
) -> ScheduleSearch:
    needed = graph.needed
    values = needed[graph.producer]
    mark = np.zeros(graph.n_nodes, np.int8) if graph.mark is None else graph.mark
    run_limit = np.full(graph.n_nodes, max_runs)
    run_limit[graph.once | (mark == KEEP)] = 1
    region, rank_of_first = np.zeros(graph.n_nodes, np.int32), np.empty(0, np.int32)
    if constraints is not None:
        run_limit = np.where(constraints.run_limit > 0, np.minimum(constraints.run_limit, run_limit), run_limit)
        region = constraints.region + 1
        rank_of_first = np.arange(nodes.size if constraints.fixed_order else 0, dtype=np.int32)
    update, reader = (number[pair] for pair in updates_and_readers(graph))
    both = (update >= 0) & (reader >= 0)
    memory = -(-graph.memory[values] // unit)
    new_value = np.cumsum(values) - 1
    read_indptr, reads = gather_rows(graph.read_indptr, graph.read_indices, nodes)
    arrays = GraphArrays(
        value_indptr=indptr_of(np.diff(graph.value_indptr)[nodes]),
        read_indptr=read_indptr,
        read_indices=new_value[reads].astype(np.int32),
        memory=memory,
        output=graph.output[values].view(np.uint8),
        compute=graph.compute[nodes],
        workspace=-(-graph.workspace[nodes] // unit),
    )
    rules = ScheduleRules(
        arrays,
        max_runs=run_limit[nodes].astype(np.int32),
        region=region[nodes].astype(np.int32),
        late=((mark == RECOMPUTE) & graph.forward)[nodes].view(np.uint8),
        backward=(~graph.forward[nodes]).view(np.uint8),
        rank=rank_of_first,
        update=update[both],
        reader=reader[both],
    )
    loadable, engines = np.empty(0, np.uint8), None
    if link is not None:
        # The search copies nothing that has a limit of its own.
        movable = may_leave(graph, constraints) & (region[graph.producer] == 0)
        loadable = (movable if leaving is None else movable & leaving)[values].view(np.uint8)
        engines = Engines(*(times[values] for times in link.times(graph)), memory)
    first = int(np.random.SeedSequence(seed).generate_state(1, np.uint32)[0])
    weights = np.sqrt(memory.astype(np.float64))
    return ScheduleSearch(arrays, rules, weights, _exponentials(), first, loadable=loadable, engines=engines)


@cache
def _exponentials() -> Float64:
    """Quantiles of the exponential distribution, rounded so that they are the same on every machine."""
    middle = (np.arange(N_EXPONENTIALS) + 0.5) / N_EXPONENTIALS
    return np.round(-np.log(middle) * 2**16) / 2**16
