"""One large graph on many cores: searches that run apart and exchange the best schedule."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from remat_algos.arguments import as_seed, checked_arguments
from remat_algos.context import WHOLE, Progress, Stop, until_stopped
from remat_algos.effort import DEFAULT, Effort
from remat_algos.errors import SweepError
from remat_algos.files import write_whole
from remat_algos.formats.graphs.npz_bytes import to_npz
from remat_algos.ir.budget import Amount, Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan
from remat_algos.plan.solve import solve
from remat_algos.schedule.baseline import baseline_peak
from remat_algos.sweeps.children import NotStarted, solved
from remat_algos.sweeps.driver import PAUSE, ExecutorFactory, executors, sent_graph
from remat_algos.sweeps.worker import FAILED, ISLAND, PLANNED
from remat_algos.text.wording import first_line, quoted, shortened

ISLANDS, ROUNDS, TRIES = 4, 4, 3
MIN_MOVES = 1024
SEEDS = 1_000_003  # apart from island to island


@checked_arguments
def search_islands(
    graph: ComputationGraph,
    budget: Budget | Amount,
    executor: Executor | Callable[[], Executor] | None = None,
    *,
    islands: int = ISLANDS,
    rounds: int = ROUNDS,
    moves: int = 1_000_000,
    seed: int = 0,
    effort: str = DEFAULT,
    processes: int | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Search one graph on several islands, each with a seed of its own, that exchange the best schedule.

    In each round every island searches (`search`) for a number of moves, from the best schedule of all islands so far;
    in the first from one pass. The plan depends on `islands`, `rounds`, `moves` and `seed` alone, not on the executor
    or the number of its workers.

    Parameters
    ----------
    graph : ComputationGraph
        For training, one with a backward part.
    budget : Budget, int or str
        A limit in bytes, or a share of the peak without rematerialization.
    executor : concurrent.futures.Executor or callable, optional
        As `sweep` takes it.
    islands, rounds : int
        Searches at once, and how often they exchange the best.
    moves : int
        Of each search; at least 1,024.
    seed : int
    effort : {"fast", "default", "best"}
        Of the last step: the best schedule is improved by `solve`, whose lower bound the plan has.
    processes : int, optional
        Of the default executor.
    progress : callable, optional
        A `Progress`.

    Returns
    -------
    Plan
        Of the solver `search`, never worse than the best of the islands. After an interrupt it is the best until then,
        marked `Plan.interrupted`; before the first round has ended, KeyboardInterrupt is raised.

    Raises
    ------
    BudgetError
        If no schedule within the budget was found.
    SweepError
        If an island fails, or the budget is no limit in bytes.
    TypeError, ValueError
        If the budget or another argument is invalid.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(30)]))
    >>> plan = search_islands(chain, 16, islands=2, rounds=2, moves=2_000, effort="fast")
    >>> plan.peak_memory, plan.overhead
    (16, 17)
    """
    budget, seed = Budget.of(budget), as_seed(seed)
    Effort.of(effort)
    for what, number, low in (("islands", islands, 1), ("rounds", rounds, 1), ("moves", moves, MIN_MOVES)):
        if number < low:
            raise SweepError(f"{what} is {shortened(number)}; give {low:,} or more")
    limit = None
    if not budget.least and budget.above_lowest is None:
        limit = budget.memory_limit(baseline_peak(graph), graph.resident_memory)
    if limit is None:
        raise SweepError(f"budget {quoted(str(budget))} is no limit in bytes; give one, such as '50%' or '8GiB'")
    best = list[int]()
    with (
        until_stopped() as ending,
        TemporaryDirectory(prefix="remat-islands-") as folder,
        executors(executor, processes) as make,
    ):
        file = Path(folder, "graph.npz")
        write_whole(file, to_npz(graph))
        workers = _Workers(make, file)
        for turn in range(rounds):
            requests = [
                {"graph": graph.hash, ISLAND: {"limit": limit, "moves": moves, "start": best, "seed": own}}
                for own in (seed + SEEDS * (turn * islands + island) for island in range(islands))
            ]
            best = min(workers.answers(requests))[-1]
            if progress is not None:
                progress(WHOLE * (turn + 1) // (rounds + 1), WHOLE, f"round {turn + 1} of {rounds}")
    if not best:
        ending.pass_on()
    plan = solve(graph, budget, solver="search", start=best, seed=seed, effort=effort, max_moves=1)
    if progress is not None and ending.stop is Stop.DONE:
        progress(WHOLE, WHOLE, "done")
    options = {"islands": islands, "rounds": rounds, "moves": moves, "seed": seed}
    return replace(plan, options=options, report=replace(plan.report, stop=plan.report.stop | ending.stop))


class _Workers:
    """The executor that searches islands, with the graph, and anew where it broke."""

    def __init__(self, make: ExecutorFactory, file: Path) -> None:
        self.make, self.file = make, file
        self._begin()

    def _begin(self) -> None:
        self.pool = self.make()
        self.shared = sent_graph(self.pool, self.file)

    def answers(self, requests: Sequence[Mapping[str, Any]]) -> list[tuple[int, int, int, list[int]]]:
        """Bytes above the limit, compute, peak and order of each island; SweepError for one that fails each time."""
        found, reason = list[tuple[int, int, int, list[int]]](), ""
        for trial in range(TRIES):
            if trial:
                time.sleep(PAUSE)
            flying, left, broken = list[tuple[Mapping[str, Any], Future[Any]]](), list[Mapping[str, Any]](), False
            for request in requests:
                try:
                    flying.append((request, self.pool.submit(solved, {**request, "trial": trial}, self.shared)))
                except BrokenExecutor as error:
                    left, broken, reason = [*left, request], True, first_line(error)
            for request, future in flying:
                try:
                    figures, _ = future.result()
                except (BrokenExecutor, NotStarted) as error:
                    broken |= isinstance(error, BrokenExecutor)
                    figures = {"outcome": FAILED, "reason": first_line(error)}
                if figures["outcome"] == PLANNED:
                    found.append((figures["above"], figures["compute"], figures["peak_memory"], figures["order"]))
                else:
                    left, reason = [*left, request], figures["reason"]
            if not left:
                return found
            requests = left
            if broken:
                self._begin()
        raise SweepError(f"an island failed {TRIES} times: {reason}")
