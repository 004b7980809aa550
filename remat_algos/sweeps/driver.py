"""`sweep`: solve many jobs on any executor, with results in a folder that survive failures of jobs and executors."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import queue
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

from remat_algos.arguments import checked_arguments
from remat_algos.context import WHOLE, Progress, n_cores, until_stopped
from remat_algos.errors import ArgumentTypeError, RematError, SweepError, about
from remat_algos.formats.graphs.npz_bytes import to_npz
from remat_algos.ir.arrays import LARGEST_SUM
from remat_algos.sweeps import tuning
from remat_algos.sweeps.children import Conditions, NotStarted, Processes, solved
from remat_algos.sweeps.folder import SweepFolder, driving
from remat_algos.sweeps.jobs import (
    PlacedJob,
    SweepJob,
    check_job,
    graph_name,
    graph_source,
    job_graph,
    job_name,
    job_record,
    placed_of_file,
    placed_of_rows,
)
from remat_algos.sweeps.results import SweepResults, results_of
from remat_algos.sweeps.worker import FAILED, reason_of

ExecutorFactory = Callable[[], Executor]


@checked_arguments
def sweep(
    jobs: str | os.PathLike[str] | Iterable[SweepJob | Mapping[str, Any]],
    folder: str | os.PathLike[str],
    executor: Executor | Callable[[], Executor] | None = None,
    retries: int = 3,
    *,
    processes: int | None = None,
    timeout: float | None = None,
    memory: int | None = None,
    part: Sequence[int] = (1, 1),
    retry_failed: bool = False,
    modules: Sequence[str] = (),
    progress: Progress | None = None,
) -> SweepResults:
    """Solve many jobs, each once, and write every result to a folder as soon as it is known.

    Jobs with a result in the folder are not solved again, so a stopped sweep continues if it is run again. Several
    drivers may work on one folder at the same time, each on its own part of the jobs.

    Parameters
    ----------
    jobs : path or iterable of SweepJob or mapping
        A file for `read_jobs`, or the argument of `list_jobs`.
    folder : path
        The folder of results, created if missing.
    executor : concurrent.futures.Executor or callable, optional
        The executor of the jobs: `dask.distributed.Client.get_executor()`, `mpi4py.futures.MPIPoolExecutor`, a pool of
        threads or processes. Each worker solves jobs in a separate process. The executor is not shut down. A callable
        that returns an executor is called again if that executor breaks. By default, there is one process per core.
    retries : int
        Maximum number of tries for a job. A try fails if the process ends, exceeds its time or memory, or raises an
        unexpected error. After the last try the job is recorded as failed.
    processes : int, optional
        Number of processes of the default executor.
    timeout : float, optional
        Seconds after which a try of a job is killed. The option `"time_limit"` of a job is different: at this limit,
        solvers return their best plan, and the job succeeds.
    memory : int, optional
        Bytes above which the process of a job is killed. Linux only.
    part : (int, int)
        (i, n): solve only part i of n, counted from 1, as in a job array of a batch system. The jobs are sorted by name
        and split into parts of about equal size.
    retry_failed : bool
        Solve failed jobs again instead of keeping their results.
    modules : sequence of str
        Modules to import where jobs are solved, such as one that registers solvers.
    progress : callable, optional
        Called as `progress(done, 1000, text)` with thousandths of the jobs; the text counts the jobs. See `Progress`.

    Returns
    -------
    SweepResults
        The results of all jobs; after an interrupt, of the jobs already solved.

    Raises
    ------
    SweepError
        If a job, the folder or the executor cannot be used, or if another driver works on the same part, uses another
        number of parts, or has another list of jobs. Results written by then are kept.
    OSError
        If the folder cannot be written to, as on a full disk.

    Examples
    --------
    >>> import tempfile
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> chain = ComputationGraph.from_edges([(i, i + 1) for i in range(8)])
    >>> rows = [{"graph": chain, "budget": [7, 9], "solver": "chen_sqrt", "effort": "fast"}]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [row["overhead"] for row in sweep(rows, folder, processes=1)]
    [4, 2]
    """
    for what, amount in (("retries", retries), ("timeout", timeout), ("memory", memory)):
        if amount is not None and not 0 < amount < LARGEST_SUM:
            raise about(what, SweepError("{what!w} is {amount}; give more than 0", what=what, amount=amount))
    if len(part) != 2 or not all(isinstance(each, int) for each in part) or not 1 <= part[0] <= part[1]:
        raise about("part", SweepError("part is {part!r}; give (i, n) with i from 1 to n", part=part))
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            raise SweepError(
                "module {module!r} cannot be imported ({why!w}); fix it, or name another",
                module=module,
                why=reason_of(error),
            ) from error
    placed = placed_of_file(jobs) if isinstance(jobs, str | os.PathLike) else placed_of_rows(jobs)
    if not placed:
        raise SweepError("there are no jobs; give some, such as [{'graph': 'model:unet', 'budget': '50%'}]")
    store, named, total = SweepFolder(Path(folder)), list[tuple[str, str]](), len(placed)
    with until_stopped() as ending:
        every = list(_recorded(placed, store))
        names = sorted({name for name, _ in every})
        i, n = part
        share = set(names[len(names) * (i - 1) // n : len(names) * i // n])
        own = [(each, name, record) for each, (name, record) in zip(placed, every, strict=True) if name in share]
        named, total = [(name, record["name"]) for _, name, record in own], len(own)
        records = {name: record for _, name, record in reversed(own)}  # the first row wins
        left = _left(own, store, retry_failed=retry_failed)
        conditions = Conditions(tuple(modules), timeout, memory, retries)
        with contextlib.ExitStack() as stack:
            make = stack.enter_context(executors(executor, processes))
            if left:
                listed = hashlib.sha256(" ".join(names).encode()).hexdigest()
                stack.enter_context(driving(store, (i, n), listed))
                # Another driver may have solved some of the jobs before this driver got the lock.
                left = [name for name in left if not _is_done(store, name, retry_failed=retry_failed)]
            _Drive(store, records, left, progress, conditions).run(make)
    return results_of(store, ending.stop, named, total)


def _recorded(placed: Sequence[PlacedJob], store: SweepFolder) -> Iterator[tuple[str, dict[str, Any]]]:
    known, by_object = store.sources(), dict[tuple[int, str], str]()
    before = dict(known)
    for each in placed:
        job = each[1]
        with _errors_of(each):
            source = graph_source(job)
            own = id(job.graph), json.dumps(job.gradients)
            graph = known.get(source, "") if source is not None else by_object.get(own, "")
            if not graph:
                graph = store.add_graph(to_npz(job_graph(job)))
                if source is not None:
                    known[source] = graph
                else:
                    by_object[own] = graph
            record = job_record(job, graph)
            name = job_name(record)
        yield name, record | {"name": graph_name(job)}
    if known != before:
        store.keep_sources(known)


def _left(
    own: Sequence[tuple[PlacedJob, str, Mapping[str, Any]]], store: SweepFolder, *, retry_failed: bool
) -> list[str]:
    left, stored = dict[str, None](), lru_cache(tuning.GRAPHS)(store.read_graph)
    for placed, name, record in own:
        if name in left or _is_done(store, name, retry_failed=retry_failed):
            continue
        job = placed[1]
        with _errors_of(placed):
            if not store.has_graph(record["graph"]):  # its file is damaged
                store.add_graph(to_npz(job_graph(job)))
            check_job(job, stored(record["graph"]))
        left[name] = None
    return list(left)


@contextlib.contextmanager
def _errors_of(placed: PlacedJob) -> Iterator[None]:
    place, job = placed
    try:
        yield
    except (RematError, TypeError, ValueError) as error:
        raise SweepError(
            "{place!w} ({graph}, budget {budget}, by {solver}): {error!w}",
            place=place,
            graph=graph_name(job),
            budget=str(job.budget),
            solver=job.solver,
            error=error,
        ) from error


def _is_done(store: SweepFolder, job: str, *, retry_failed: bool) -> bool:
    figures = store.read(job)
    return figures is not None and not (retry_failed and figures["outcome"] == FAILED)


@contextlib.contextmanager
def executors(executor: Executor | Callable[[], Executor] | None, processes: int | None) -> Iterator[ExecutorFactory]:
    """Yield a function that creates an executor; it is called again if the executor breaks."""
    if not (executor is None or isinstance(executor, Executor) or callable(executor)):
        raise ArgumentTypeError(
            "executor is {executor!r}; give an Executor, or a callable that returns one", executor=executor
        )
    if executor is not None and processes is not None:
        raise SweepError("processes applies only to the default executor; leave out processes or executor")
    if processes is not None and processes < 1:
        raise about("processes", SweepError("processes is {processes}; give 1 or more", processes=processes))
    made = list[Executor]()

    def make() -> Executor:
        if isinstance(executor, Executor):
            if made:
                raise SweepError("the executor is broken; run the sweep again with a new one: finished jobs are kept")
            made.append(executor)
            return executor
        new = Processes(processes or n_cores()) if executor is None else executor()
        if not isinstance(new, Executor):
            raise ArgumentTypeError("executor() returns {found!r}; give a callable that returns an Executor", found=new)
        made.append(new)
        return new

    try:
        yield make
    finally:
        if not isinstance(executor, Executor):
            for each in made:
                each.shutdown(wait=executor is None, cancel_futures=True)


class _Drive:
    def __init__(
        self,
        store: SweepFolder,
        records: Mapping[str, Mapping[str, Any]],
        left: Iterable[str],
        progress: Progress | None,
        conditions: Conditions,
    ) -> None:
        self.store, self.records = store, records
        self.progress, self.conditions = progress, conditions
        self.token, self.broken = os.urandom(6).hex(), 0
        self.pause_until = self.stuck_since = 0.0  # set when processes fail to start
        self.waiting = deque(left)
        self.already = len(records) - len(self.waiting)
        self.finished, self.failed = self.already, 0
        self.begun = time.monotonic()
        self.flying = dict[Future[Any], str]()
        self.back = queue.SimpleQueue[Future[Any]]()
        self.tries, self.lost, self.trials = Counter[str](), Counter[str](), count()

    def run(self, make: ExecutorFactory) -> None:
        self._report()
        if not self.waiting:
            return
        self.executor, self.graphs = make(), OrderedDict[str, Any]()
        window, looked = _workers(self.executor) * tuning.AHEAD, time.monotonic()
        try:
            while self.waiting or self.flying:
                while self.waiting and len(self.flying) < window and time.monotonic() >= self.pause_until:
                    self._submit(self.waiting.popleft(), make)
                with contextlib.suppress(queue.Empty):
                    self._receive(self.back.get(timeout=tuning.LOOK), make)
                if time.monotonic() - looked > tuning.LOOK:
                    looked, window = time.monotonic(), _workers(self.executor) * tuning.AHEAD
        finally:
            for future in self.flying:
                future.cancel()

    def _submit(self, name: str, make: ExecutorFactory) -> None:
        record = self.records[name]
        graph = record["graph"]
        trial = f"{self.token} {next(self.trials)}"  # unique, since dask caches calls
        try:
            if graph not in self.graphs:
                self.graphs[graph] = sent_graph(self.executor, self.store.graph_file(graph))
                while len(self.graphs) > tuning.GRAPHS:  # dask workers cache them too
                    self.graphs.popitem(last=False)
            future = self.executor.submit(solved, {**record, "trial": trial}, self.graphs[graph], self.conditions)
        except BrokenExecutor:
            self.waiting.append(name)
            self._anew(make)
            return
        except Exception as error:
            raise SweepError(
                "the executor accepts no jobs ({why!w}); run the sweep again with one that has workers: "
                "finished jobs are kept",
                why=" ".join(str(error).split()) or type(error).__name__,
            ) from error
        self.flying[future] = name
        future.add_done_callback(self.back.put)

    def _receive(self, future: Future[Any], make: ExecutorFactory) -> None:
        name = self.flying.pop(future, None)
        if name is None:  # future of a broken executor
            return
        self.tries[name] += 1
        try:
            figures, plan = future.result()
        except BrokenExecutor:
            self._lose(name, "the executor broke")
            self._anew(make)
            return
        except SweepError:
            raise
        except CancelledError:
            self._lose(name, "the executor lost the job")
            return
        except NotStarted as error:
            self._wait_for_starts(str(error))
            self.tries[name] -= 1
            self.waiting.append(name)
            return
        except Exception as error:
            figures, plan = {"outcome": FAILED, "reason": reason_of(error)}, ""
        if figures["outcome"] == FAILED and self.tries[name] < self.conditions.retries:
            self.waiting.append(name)
        else:
            self._keep(name, figures, plan)

    def _lose(self, name: str, reason: str) -> None:
        """Submit a job again if it was lost with its worker, up to `tuning.LOST` times."""
        self.tries[name] -= 1
        self.lost[name] += 1
        self.graphs.pop(self.records[name]["graph"], None)  # its graph may be lost
        if self.lost[name] < tuning.LOST:
            self.waiting.append(name)
        else:
            self._keep(name, {"outcome": FAILED, "reason": f"{reason} {tuning.LOST} times"}, "")

    def _wait_for_starts(self, reason: str) -> None:
        """Pause before the next process starts. Raise SweepError if all starts fail for a long time and no job runs."""
        now = time.monotonic()
        self.stuck_since = self.stuck_since or now
        self.pause_until = now + tuning.PAUSE
        if now - self.stuck_since > tuning.START_PATIENCE and not self.flying:
            raise SweepError(
                "no process for jobs has started for {patience:g} s ({reason!w}); free memory or disk space, or use "
                "fewer processes, and run the sweep again: finished jobs are kept",
                patience=tuning.START_PATIENCE,
                reason=reason,
            )

    def _anew(self, make: ExecutorFactory) -> None:
        self.broken += 1
        if self.broken > tuning.LOST:
            raise SweepError("{broken} executors failed in a row; fix the code that creates them", broken=self.broken)
        self.executor, self.graphs = make(), OrderedDict()
        names = list(self.flying.values())
        self.flying.clear()
        for name in names:
            self.tries[name] += 1
            self._lose(name, "the executor broke")

    def _keep(self, name: str, figures: Mapping[str, Any], plan: str) -> None:
        record = dict(self.records[name])
        known = {"job": name, "name": record.pop("name"), "request": record}
        self.store.write_result(name, {**known, **figures, "tries": self.tries[name]}, plan)
        self.broken = 0
        self.stuck_since = 0.0
        self.failed += figures["outcome"] == FAILED
        self.finished += 1
        self._report()

    def _report(self) -> None:
        if self.progress is None:
            return
        left, solved_here = len(self.records) - self.finished, self.finished - self.already
        words = [f"{self.finished:,} done", *([f"{self.failed:,} failed"] if self.failed else []), f"{left:,} left"]
        text = ", ".join(words)
        if left and solved_here:
            seconds = int((time.monotonic() - self.begun) / solved_here * left)
            text += f" · about {seconds // 60}:{seconds % 60:02} to go"
        self.progress(WHOLE * self.finished // max(len(self.records), 1), WHOLE, text)


def _workers(executor: Executor) -> int:
    """Return an executor's number of workers, or 32 if unknown. Raise SweepError if the scheduler of dask is gone."""
    client: Any = getattr(executor, "_client", None)
    if hasattr(client, "nthreads"):
        try:
            return max(1, sum(client.nthreads().values()))
        except Exception as error:  # dask raises many error types
            raise SweepError(
                "the Dask scheduler is gone; start one, and run the sweep again: finished jobs are kept"
            ) from error
    return getattr(executor, "_max_workers", None) or getattr(executor, "num_workers", None) or 32


def sent_graph(executor: Executor, file: Path) -> Any:
    """Return what is sent to workers for a graph: the path of its file or, for dask, a future of the bytes in the file.

    Workers of dask may have no access to the file. A task returns the bytes, since dask repeats a task whose worker is
    gone, whereas scattered data would be lost.
    """
    client: Any = getattr(executor, "_client", None)
    return client.submit(bytes, file.read_bytes()) if hasattr(client, "submit") else str(file.resolve())
