"""Blocks between articulation values, each planned by `live_set_search`, and combined along the chain."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from remat_algos.bounds.memory import least_peak_bound
from remat_algos.context import SearchContext
from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Float64, Int32, Int64
from remat_algos.ir.csr import from_lists, indptr_of, row_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.baseline import baseline
from remat_algos.schedule.postponed_updates import postpone_updates
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.candidates import Candidate, evaluated
from remat_algos.solvers.chain_stages import SWEEP, ChainStages, chain_of_stages, stages_of
from remat_algos.solvers.live_set_search import best_within
from remat_algos.solvers.registry import solver
from remat_algos.solvers.segments import check_positive

MAX_BLOCKS = 100
MAX_VALUES = 64  # of a block that is searched
SLOTS = 500  # of memory
CAPS = 6  # different amounts of bytes that a block may keep from its forward to its backward nodes
PEAKS = 5  # limits of the peak for each of them
MAX_STATES = 10_000  # sets of live values of one search
FEW = 64  # schedules that are simulated

FRESH, AGAIN = range(2)  # whether the stages run for the first time
STAYS, CHARGED = range(2)  # whether the input of a block stays anyway, or as long as the block wants


def chain_of_blocks(graph: ComputationGraph) -> str | None:
    """`needs`: the forward part is a chain of stages, and no node is marked."""
    reason = chain_of_stages(graph)
    if reason is None and graph.mark is not None and graph.mark[graph.needed].any():
        reason = "it does not serve graphs with marks; remove them, or name another solver"
    return reason


@solver(needs=chain_of_blocks, narrow=True, portfolio=False)
def block_search(
    graph: ComputationGraph, limit: int | None, context: SearchContext, *, max_states: int = MAX_STATES
) -> Iterator[Candidate]:
    """Cut the forward part where one value passes, search the best schedules of each block, combine them.

    A block is what lies between two cuts, with the backward nodes that read its values. The exact search over live
    values finds its cheapest schedules, for several amounts of bytes that it may keep until its backward nodes run, and
    for several peaks. A dynamic program over the chain chooses one for each block; and, as `chain_dp` does, where only
    the value at a cut is kept and blocks are computed again. Equal blocks are searched once. It does not interleave
    blocks, and claims no optimum.

    Parameters
    ----------
    max_states : int
        Maximum number of sets of live values in a search of a block.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> edges = [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5), (4, 6), (5, 7), (6, 7)]
    >>> graph = differentiate(ComputationGraph.from_edges(edges))
    >>> figures = [evaluated(graph, each.schedule).figures for each in block_search(graph, 9, SearchContext())]
    >>> min(figures)[0] <= 9
    True
    """
    check_positive(max_states=max_states)
    reason, whole = chain_of_blocks(graph), stages_of(graph)
    if reason is not None or whole is None:
        raise GraphError(reason or "")
    chain = whole.joined(MAX_BLOCKS)
    one_pass = baseline(graph)
    yield Candidate(one_pass.schedule, {"blocks": len(chain)}, simulation=one_pass)
    table = _BlockTable(_Blocks(chain, max_states, context), one_pass.peak_memory)
    table.fill(context)
    chosen = table.chosen(limit)
    context.stage(len(chosen), "blocks")
    for done, slots in enumerate(chosen):
        details = {"blocks": len(chain), "promise": slots * table.unit + table.pinned}
        yield evaluated(graph, table.schedule(slots), details)
        context.progress(done + 1)


# ---------------------------------------------------------------- one block


@dataclass(frozen=True, slots=True, eq=False)
class BlockSchedule:
    """One way to run a block.

    Parameters
    ----------
    kept : int
        Bytes from its forward to its backward nodes. The value that passes to the next block counts if nodes of this
        block read it.
    peak, compute : int
    order : int32[*]
        Places in the block's own graph.
    """

    kept: int
    peak: int
    compute: int
    order: Int32

    @property
    def figures(self) -> tuple[int, int, int]:
        """Bytes kept, peak and compute."""
        return self.kept, self.peak, self.compute


@dataclass(frozen=True, slots=True, eq=False)
class BlockGraph:
    """A block as a graph of its own.

    Parameters
    ----------
    graph : ComputationGraph
    nodes : int32[*]
        Its nodes in the whole graph; -1 for the entry, which makes the input, and the pause.
    pause : int
        A node that runs once between forward and backward nodes, while the stages behind run; it reads the value that
        passes to them, and makes the gradients that come back. -1 if the block is the last.
    passed : int
        Bytes of the value that passes to the next block, where that is not counted as kept.
    """

    graph: ComputationGraph
    nodes: Int32
    pause: int
    passed: int

    def measured(self, order: Int32) -> BlockSchedule:
        """A schedule with its figures."""
        run, kept = simulate(self.graph, Schedule(order)), 0
        if self.pause >= 0:
            step = int(np.flatnonzero(order == self.pause)[0])
            kept = int(run.memory_trace[step] - self.graph.node_memory[self.pause]) - self.passed
        return BlockSchedule(kept, run.peak_memory, run.compute, order)

    def within(self, kept: int, limit: int) -> ComputationGraph:
        """The graph in which no more than `kept` bytes stay in the pause: the others are its workspace."""
        if self.pause < 0:
            return self.graph
        workspace = self.graph.workspace.copy()
        workspace[self.pause] = max(0, limit - kept - self.passed - int(self.graph.node_memory[self.pause]))
        return replace(self.graph, workspace=workspace)

    def parts(self, order: Int32) -> tuple[Int32, Int32]:
        """Nodes of the whole graph before and after the pause."""
        at = int(np.flatnonzero(order == self.pause)[0]) if self.pause >= 0 else 0
        before, after = self.nodes[order[:at]], self.nodes[order[at:]]
        return before[before >= 0], after[after >= 0]

    def searched(self, context: SearchContext, max_states: int) -> Iterator[BlockSchedule]:
        """Schedules for falling amounts of bytes kept, and for each of them for falling peaks."""
        first = self.measured(np.flatnonzero(self.graph.needed).astype(np.int32))
        yield first
        if self.graph.n_values > MAX_VALUES:
            return
        step = max(1, (first.peak - least_peak_bound(self.graph)[0]) // PEAKS)
        caps = np.unique(np.linspace(0, first.kept, CAPS if self.pause >= 0 else 1).astype(np.int64))
        for cap in caps[::-1].tolist():
            limit = 2 * int(self.graph.memory.sum() + self.graph.workspace.max(initial=0)) + 1
            for _ in range(PEAKS + 1):
                context.check()
                best = best_within(self.within(cap, limit), limit, context.share(), max_states)
                if best is None:
                    break
                schedule = self.measured(best.order)
                yield schedule
                limit = schedule.peak - step


class _Blocks:
    """The blocks of a chain, and their schedules; equal ones are searched once.

    Parameters
    ----------
    chain : ChainStages
    max_states : int
    context : SearchContext
    """

    def __init__(self, chain: ChainStages, max_states: int, context: SearchContext) -> None:
        graph = self.graph = chain.graph
        self.chain, self.max_states, self.context = chain, max_states, context
        self.stage = np.full(graph.n_nodes, -1, np.int64)
        self.stage[chain.nodes] = chain.stage
        self.stage[chain.backward_nodes] = chain.backward_stage
        self.sweeps = [chain.schedule([(SWEEP, a)]).order for a in range(len(chain))]
        self.swept = np.isin(np.arange(graph.n_nodes), np.concatenate(self.sweeps))
        self.lasting = graph.once & self.swept  # their values stay from the first sweep on
        reader = row_of(graph.read_indptr)
        own = self.stage[reader] == self.stage[graph.producer[graph.read_indices]]
        read = np.isin(chain.link, graph.read_indices[own])
        self.keeps_link = read & (chain.link >= 0)  # nodes of the same stage read it
        self.searched: dict[bytes, list[BlockSchedule]] = {}

    def link_bytes(self, a: int) -> int:
        """Bytes of the value that passes from a stage to the next."""
        link = int(self.chain.link[a]) if 0 <= a < len(self.chain) else -1
        return int(self.graph.memory[link]) if link >= 0 else 0

    def schedules(self, block: BlockGraph) -> list[BlockSchedule]:
        """The schedules of a block, none of which another dominates."""
        graph = block.graph
        costs = graph.memory, graph.compute, graph.workspace, np.array([block.pause, block.passed])
        arrays = graph.value_indptr, graph.read_indptr, graph.read_indices, graph.once, graph.output, *costs
        key = b"|".join(array.tobytes() for array in arrays)
        if key not in self.searched:
            best: list[BlockSchedule] = []
            searched = block.searched(self.context, self.max_states)
            for each in sorted(searched, key=lambda each: each.figures):
                if not any(all(map(int.__le__, other.figures, each.figures)) for other in best):
                    best.append(each)
            self.searched[key] = best
        return self.searched[key]

    def block(self, a: int, when: int, entry: int, *, leaf: bool) -> BlockGraph | None:
        """A stage as a graph of its own; None if there is nothing to run.

        Values that are there anyway are left out: gradients that a leaf reads, an input that is given, and where the
        stage has run before, outputs and values of nodes that run once. Outputs of forward nodes have no bytes: they
        are counted apart from all blocks.
        """
        graph, link = self.graph, int(self.chain.link[a])
        ran = self.lasting if when == AGAIN else np.zeros(graph.n_nodes, bool)
        own = np.flatnonzero((self.stage == a) & graph.needed & ~ran)
        rows = [self._row(v, when) for v in own.tolist()]
        pause, passed, n_forward = -1, 0, int(graph.forward[own].sum())
        if not leaf:
            back = [(x, int(graph.memory[x]), False) for x in self._gradients_into(own[n_forward:])]
            rows.insert(n_forward, _BlockRow(-1, [link], [*back, (-1, 0, True)], once=True))
            pause, passed = n_forward, 0 if self.keeps_link[a] else self.link_bytes(a)
        elif not any(output for row in rows for _, _, output in row.values):
            return None
        if entry == CHARGED and a and self.chain.link[a - 1] >= 0:
            rows.insert(0, _BlockRow(-1, [], [(int(self.chain.link[a - 1]), self.link_bytes(a - 1), False)], once=True))
            pause += pause >= 0
        values = [value for row in rows for value in row.values]
        place = {x: i for i, (x, *_) in enumerate(values) if x >= 0 and not (when == AGAIN and self._there(x))}
        read_indptr, read_indices = from_lists([[place[x] for x in row.reads if x in place] for row in rows])
        local = ComputationGraph.from_arrays(
            read_indptr=read_indptr,
            read_indices=read_indices,
            value_indptr=indptr_of([len(row.values) for row in rows]),
            memory=[memory for _, memory, _ in values],
            output=[output for _, _, output in values],
            compute=[row.compute for row in rows],
            workspace=[row.workspace for row in rows],
            once=[row.once for row in rows],
        )
        return BlockGraph(local, np.array([row.node for row in rows], np.int32), pause, passed)

    def _there(self, x: int) -> bool:
        """Whether a value stays from the first sweep over its stage on."""
        return bool(self.graph.output[x] and self.graph.forward[self.graph.producer[x]])

    def _row(self, v: int, when: int) -> "_BlockRow":
        graph, values, workspace = self.graph, [], int(self.graph.workspace[v])
        for x in range(int(graph.value_indptr[v]), int(graph.value_indptr[v + 1])):
            memory, output = int(graph.memory[x]), bool(graph.output[x])
            if graph.forward[v] and output:
                output = when == FRESH or not self.swept[v]
                workspace, memory = (workspace + memory, 0) if output else (workspace, memory)
            elif not graph.forward[v]:
                output = output or self._read_below(x, int(self.stage[v]))
            values.append((x, memory, output))
        reads = graph.read_indices[graph.read_indptr[v] : graph.read_indptr[v + 1]].tolist()
        return _BlockRow(v, reads, values, int(graph.compute[v]), workspace, bool(graph.once[v]))

    def _read_below(self, x: int, a: int) -> bool:
        """Whether a backward node of a stage before a reads a value."""
        indptr, readers = self.graph.readers
        below = self.stage[readers[indptr[x] : indptr[x + 1]]]
        return bool(((below >= 0) & (below < a)).any())

    def _gradients_into(self, backward: Int64) -> list[int]:
        """Values of backward nodes of later stages that these nodes read."""
        graph, stage = self.graph, self.stage
        reads = (graph.read_indices[graph.read_indptr[v] : graph.read_indptr[v + 1]].tolist() for v in backward)
        made = {x: int(graph.producer[x]) for row in reads for x in row}
        return sorted(x for x, u in made.items() if not graph.forward[u] and stage[u] > stage[backward[0]])


@dataclass(frozen=True, slots=True, eq=False)
class _BlockRow:
    """A node of a block: its reads, its values with bytes and whether they are outputs."""

    node: int
    reads: list[int]
    values: list[tuple[int, int, bool]]
    compute: int = 0
    workspace: int = 0
    once: bool = False


# ---------------------------------------------------------------- the chain

State = tuple[int, int, int, int]
"""FRESH or AGAIN, STAYS or CHARGED, first and last stage."""
Part = Int32 | tuple[State, int]
"""Nodes to run, or a state with its slots."""
Move = tuple[Float64, Callable[[int], list[Part]]]
"""Costs by slots, and what is run within some slots."""


class _BlockTable:
    """Minimum compute of stages a to b and back, for each number of slots of memory.

    Parameters
    ----------
    blocks : _Blocks
    highest : int
        Peak in bytes.
    """

    def __init__(self, blocks: _Blocks, highest: int) -> None:
        graph, chain, stage = blocks.graph, blocks.chain, blocks.stage
        self.blocks, self.chain, self.upper = blocks, chain, chain.upper
        self.pinned = self.upper.pinned
        free = max(1, highest - self.pinned)
        self.unit = -(-free // SLOTS)
        self.width = free // self.unit + 1
        self.rows: dict[State, Float64] = {}
        differ = blocks.lasting.any() or (graph.output & graph.forward[graph.producer]).any()
        self.times = (FRESH, AGAIN) if differ else (FRESH,)
        k = len(chain)
        self.sweep_costs = [int(graph.compute[nodes].sum()) for nodes in blocks.sweeps]
        self.fixed, self.pins, self.gradients = (np.zeros(k + 1, np.int64) for _ in range(3))
        np.add.at(self.fixed, stage[blocks.lasting], graph.node_memory[blocks.lasting])
        backward = ~graph.forward[graph.producer] & graph.needed[graph.producer]
        made = stage[graph.producer]
        ends = np.flatnonzero(backward & graph.output)
        np.add.at(self.pins, made[ends], graph.memory[ends])
        reader = stage[row_of(graph.read_indptr)]
        lowest = np.full(graph.n_values, k)
        np.minimum.at(lowest, graph.read_indices[reader >= 0], reader[reader >= 0])
        for x in np.flatnonzero(backward & ~graph.output).tolist():
            self.gradients[lowest[x] + 1 : made[x] + 1] += graph.memory[x]  # live when stage j has run backward
        self.options: dict[tuple[int, int, int, bool], list[tuple[BlockGraph | None, int, list[BlockSchedule]]]] = {}

    def fill(self, context: SearchContext) -> None:
        """Compute all rows, short ones first; those of stages that run again before the others."""
        k = len(self.chain)
        context.stage(k * (k + 1) // 2 * len(self.times), "blocks", part=0.9)
        for when, length in ((when, n) for when in reversed(self.times) for n in range(1, k + 1)):
            for a in range(k - length + 1):
                for entry in (STAYS, CHARGED):
                    state = when, entry, a, a + length - 1
                    self.rows[state] = np.min([costs for costs, _ in self._moves(state)], axis=0)
                context.advance(1)

    def points(self) -> list[int]:
        """The fewest slots for each of the different costs, rising."""
        root = self.rows[FRESH, STAYS, 0, len(self.chain) - 1]
        finite = np.flatnonzero(np.isfinite(root))
        points: list[int] = finite[np.diff(root[finite], prepend=np.inf) < 0].tolist()
        return points

    def chosen(self, limit: int | None) -> list[int]:
        """Slots of the schedules to simulate: all where they are few, else spread, or near a limit."""
        points = self.points()
        if limit is None or len(points) <= FEW:
            return points[:: 1 + len(points) // (4 * FEW)]
        n_within = sum(slots * self.unit + self.pinned <= limit for slots in points)
        first = max(0, n_within - FEW // 4)
        return points[first:n_within][::-1] + points[n_within:][: FEW - FEW // 4]

    def schedule(self, slots: int) -> Schedule:
        """The schedule within so many slots."""
        runs: list[Int32] = []
        todo: list[Part] = [((FRESH, STAYS, 0, len(self.chain) - 1), slots)]
        while todo:
            part = todo.pop()
            if isinstance(part, np.ndarray):
                runs.append(part)
                continue
            state, left = part
            best = min(self._moves(state), key=lambda move: float(move[0][left]))
            todo.extend(reversed(best[1](left)))
        return Schedule(postpone_updates(self.blocks.graph, np.concatenate([np.zeros(0, np.int32), *runs])))

    def _moves(self, state: State) -> Iterator[Move]:
        """All ways to begin a state."""
        when, entry, a, b = state
        yield from self._through(when, entry, a, b)
        if entry == CHARGED:
            given, link = (when, STAYS, a, b), self._slots(self.blocks.link_bytes(a - 1))
            yield _shifted(self.rows[given], link), lambda left: [(given, left - link)]
        else:
            yield from self._checkpoints(when, a, b)

    def _through(self, when: int, entry: int, a: int, b: int) -> Iterator[Move]:
        """Run the first block forward, those behind and back, then the first block backward."""
        rest = when, STAYS if self.blocks.keeps_link[a] else CHARGED, a + 1, b
        pins = int(self.pins[a + 1 : b + 1].sum())
        for block, kept, schedules in self._options(when, entry, a, leaf=a == b):
            costs = np.full(self.width, np.inf)
            for each in schedules:
                enough = costs[self._slots(each.peak + pins) :]
                np.minimum(enough, each.compute, out=enough)
            if a < b:
                costs += _shifted(self.rows[rest], kept)
            yield costs, partial(self._around, block, schedules, pins, (rest, kept) if a < b else None)

    def _around(
        self,
        block: BlockGraph | None,
        schedules: list[BlockSchedule],
        pins: int,
        inner: tuple[State, int] | None,
        left: int,
    ) -> list[Part]:
        """The cheapest schedule that fits, and in its pause the blocks behind."""
        if block is None:
            return []
        best = min((x for x in schedules if self._slots(x.peak + pins) <= left), key=lambda x: x.compute)
        before, after = block.parts(best.order)
        return [before, after] if inner is None else [before, (inner[0], left - inner[1]), after]

    def _options(
        self, when: int, entry: int, a: int, *, leaf: bool
    ) -> list[tuple[BlockGraph | None, int, list[BlockSchedule]]]:
        """The schedules of a block by the slots that they keep."""
        key = when, entry, a, leaf
        if key not in self.options:
            block = self.blocks.block(a, when, entry, leaf=leaf)
            nothing = [BlockSchedule(0, 0, 0, np.zeros(0, np.int32))]
            by_kept: dict[int, list[BlockSchedule]] = {}
            for each in nothing if block is None else self.blocks.schedules(block):
                by_kept.setdefault(self._slots(each.kept), []).append(each)
            self.options[key] = [(block, kept, schedules) for kept, schedules in by_kept.items()]
        return self.options[key]

    def _checkpoints(self, when: int, a: int, b: int) -> Iterator[Move]:
        """Sweep over stages a to j - 1, keep the last link, run j to b and back, then a to j - 1 again."""
        upper, again = self.upper, self.times[-1]
        first = upper.first_once if when == FRESH else upper.first
        following = upper.following_once if when == FRESH else upper.following
        need, cost, fixed = 0, 0, 0
        for j in range(a + 1, b + 1):
            need = max(need, int(first[a] if j == a + 1 else following[j - 1]) + fixed)
            cost += self.sweep_costs[j - 1]
            fixed += int(self.fixed[j - 1])
            later, before = (when, STAYS, j, b), (again, STAYS, a, j - 1)
            kept = self._slots(self.blocks.link_bytes(j - 1) + fixed)
            back = self._slots(int(self.gradients[j] + self.pins[j : b + 1].sum()) + fixed)
            costs = cost + _shifted(self.rows[later], kept) + _shifted(self.rows[before], back)
            costs[: self._slots(need)] = np.inf
            yield costs, partial(self._halves, when, later, before, kept, back)

    def _halves(self, when: int, later: State, before: State, kept: int, back: int, left: int) -> list[Part]:
        sweeps = self.blocks.sweeps[before[2] : later[2]]
        if when == AGAIN:
            sweeps = [nodes[~self.blocks.lasting[nodes]] for nodes in sweeps]
        return [*sweeps, (later, left - kept), (before, left - back)]

    def _slots(self, amount: int) -> int:
        return max(0, -(-int(amount) // self.unit))  # a block may keep less than the value that passes


def _shifted(costs: Float64, slots: int) -> Float64:
    """Costs where so many slots are taken off."""
    slots = max(0, min(slots, costs.size))
    return np.concatenate([np.full(slots, np.inf), costs[: costs.size - slots]])
