"""Binomial checkpointing (revolve) of chains of equal nodes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from math import comb

from remat_algos.context import Clock
from remat_algos.ir.graph import ComputationGraph, derived
from remat_algos.schedule.emission import baseline
from remat_algos.solvers import tuning
from remat_algos.solvers.candidate_rows import check_positive, coarse_first, thinned
from remat_algos.solvers.chain_stages import BACKWARD, LEAF, SWEEP, ChainStages, stages_of
from remat_algos.solvers.registry import Candidate, Task, solver, training_graph


def unit_chain(graph: ComputationGraph) -> str | None:
    """Return the reason to refuse a graph whose forward part is not a chain of equal nodes, or None."""
    reason = training_graph(graph)
    if reason is None and _unit_chain(graph) is None:
        reason = "the forward part is not a chain of nodes of equal size and cost; use chain_dp"
    return reason


@solver(paper="griewank2000", needs=unit_chain, optimal_in="chain", price=0.1)
def revolve(
    graph: ComputationGraph, task: Task, clock: Clock, *, checkpoints: int | None = None
) -> Iterator[Candidate]:
    """Divide a chain of equal nodes by binomial numbers, which is optimal for each number of checkpoints.

    Parameters
    ----------
    checkpoints : int, optional
        Maximum number of values kept at a time, including the first value of the chain. By default, the largest number
        for which the schedule fits the limit; without a limit, every number is tried.

    References
    ----------
    griewank2000, sections 1 and 2.
    """
    check_positive(checkpoints=checkpoints)
    chain = _unit_chain(graph)
    yield Candidate(baseline(graph).schedule, {"checkpoints": graph.n_nodes if chain is None else len(chain)})
    if chain is None:
        return
    n = len(chain)
    most = n - 1 if task.limit is None else chain.checkpoints(task.limit)
    bound = chain.compute(most) if task.limit is not None and most >= 1 else None
    if checkpoints is not None:
        counts = [min(checkpoints, n)]
    elif task.limit is None:
        counts = coarse_first(thinned(range(1, n), tuning.MAX_COUNTS))
    else:
        counts = sorted({min(max(1, most - i), n - 1) for i in range(tuning.NEIGHBOURS + 1)}, reverse=True)
    clock.stage(len(counts))
    for done, count in enumerate(counts):
        if n + forward_runs(n, count) > tuning.MAX_SCHEDULE_STEPS:
            clock.skipped["too long"] += 1
        else:
            known = bound is not None and count <= most
            schedule = chain.stages.schedule(operations(n, count, clock.check))
            yield Candidate(schedule, {"checkpoints": count}, bound if known else None, "chain" if known else None)
        clock.progress(done + 1)


def forward_runs(n: int, checkpoints: int) -> int:
    """Return the minimum number of forward steps that reverse n steps with s checkpoints: r n - C(s + r, s + 1).

    Here r is the smallest number with C(s + r, s) >= n. Each step also runs directly before its reversal; these runs
    are not counted.
    """
    if n <= 1:
        return 0
    if checkpoints == 1:
        return n * (n - 1) // 2
    r = _repetitions(n, checkpoints)
    return r * n - comb(checkpoints + r, checkpoints + 1)


def first_checkpoint(n: int, checkpoints: int) -> int:
    """Return the optimal number of steps from the start to the first checkpoint; ties go to the smaller number."""
    if checkpoints == 1:
        return n - 1
    # The cost is convex in the number of steps, so bisection finds its minimum.
    low, high = 1, n - 1
    while low < high:
        middle = (low + high) // 2
        if _divided(n, checkpoints, middle) <= _divided(n, checkpoints, middle + 1):
            high = middle
        else:
            low = middle + 1
    return low


def operations(n: int, checkpoints: int, look: Callable[[], object] = lambda: None) -> Iterator[tuple[int, int]]:
    """Yield the pairs (operation, stage) that run n stages forward and backward; `look` is called regularly."""
    division = cache(first_checkpoint)
    waiting = [(0, n, checkpoints)]
    while waiting:
        begin, count, free = waiting.pop()
        if count == 1:
            yield LEAF, begin
            yield BACKWARD, begin
            continue
        look()
        steps = division(count, free)
        yield from ((SWEEP, stage) for stage in range(begin, begin + steps))
        waiting += [(begin, steps, free), (begin + steps, count - steps, max(1, free - 1))]


def _divided(n: int, checkpoints: int, steps: int) -> int:
    return steps + forward_runs(n - steps, checkpoints - 1) + forward_runs(steps, checkpoints)


@cache
def _repetitions(n: int, checkpoints: int) -> int:
    r = 0
    while comb(checkpoints + r, checkpoints) < n:
        r += 1
    return r


@dataclass(frozen=True, slots=True, eq=False)
class UnitChain:
    """A chain of equal stages of `size` bytes and compute `cost`; `beside` counts other bytes live at the peak."""

    stages: ChainStages
    size: int
    cost: int
    beside: int

    def __len__(self) -> int:
        return len(self.stages)

    def checkpoints(self, limit: int) -> int:
        return min(max(0, limit - self.beside) // self.size, len(self) - 1)

    def compute(self, checkpoints: int) -> int:
        extra = forward_runs(len(self), checkpoints) - (len(self) - 1)
        return self.stages.graph.needed_compute + extra * self.cost


def _unit_chain(graph: ComputationGraph) -> UnitChain | None:
    chain: UnitChain | None = derived(graph, "unit_chain", lambda: _recognised(graph))
    return chain


def _recognised(graph: ComputationGraph) -> UnitChain | None:
    """Return the chain of a graph if all its stages are single nodes with equal bytes and compute, else None."""
    stages = stages_of(graph)
    if stages is None or not stages.is_narrow or not tuning.MIN_STAGES <= len(stages) == stages.nodes.size:
        return None
    nodes, memory = stages.nodes, stages.upper
    if graph.once[nodes].any() or graph.output[stages.state].any() or not memory.same_as(stages.lower):
        return None
    sweep, _, leaf, _ = stages.costs()
    size, cost, beside = int(memory.link[0]), int(graph.compute[nodes[0]]), int(memory.backward[-1])
    equal = (
        (memory.link[:-1] == size).all()
        and (graph.node_memory[nodes] == size).all()
        and (sweep[:-1] == cost).all()
        and not leaf[:-1].any()
        and leaf[-1] == cost
        and (memory.backward[1:] == beside).all()
        and memory.backward[0] <= beside
    )
    forward = int(memory.again.following.max() + memory.gradients.max())
    return UnitChain(stages, size, cost, beside) if equal and size and forward <= size + beside else None
