"""Reading of orders in other forms, recognized by content: plans, lists, actions, matrices."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.cost.links import Link
from remat_algos.errors import GraphError, PlanError, ScheduleError
from remat_algos.files import decoded, read_bytes
from remat_algos.formats.graphs.npz_bytes import load_arrays
from remat_algos.ir.arrays import Bool
from remat_algos.ir.csr import row_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.record import FORMAT, copies, derivation_of, differentiated, link_of
from remat_algos.schedule.schedule import Schedule, with_copies
from remat_algos.schedule.simulation import simulate
from remat_algos.text.wording import first_line, shortened, shortened_path

ZIP = (b"PK\x03\x04", b"PK\x05\x06")  # how an npz file begins, and an empty one
MAX_DIGITS = 10  # of an id
COMPUTE, OTHERS = "compute ", ("free", "store", "load")
_JSON = re.compile(r'\s*(\{\s*(["}]|$)|\[\s*(["[\]{\d-]|true|false|null|$))')  # a node may be called [CLS]
FORMS = "a plan, a list of nodes, `compute X` and `free Y` lines, or an npz file with the matrices R and S"


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """The order in a file, before it is checked against a graph.

    Parameters
    ----------
    source : str
        The file, for messages.
    steps : sequence of str or int
        Names or ids of nodes.
    lines : sequence of str
        Lines of text instead: names, actions, comments. A node may be called `compute x` or `#1`, so the graph decides.
    computed, saved : bool[t, n], optional
        R and S: stage t computes node v; it has the value of v from stage t - 1.
    is_plan : bool
        True for a plan, which records how its graph was differentiated.
    derivation : mapping, optional
        The options of `differentiate` that a plan records, if any.
    loads, lingering : sequence of pairs
        Of a plan that copies: (step, value) and (value, step).
    link : Link, optional
        Of a plan that copies.
    """

    source: str
    steps: Sequence[str | int] = ()
    lines: Sequence[str] = ()
    computed: Bool | None = None
    saved: Bool | None = None
    is_plan: bool = False
    derivation: Mapping[str, Any] | None = None
    loads: Sequence[tuple[int, str | int]] = ()
    lingering: Sequence[tuple[str | int, int]] = ()
    link: Link | None = None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Order:
        """Read a file; PlanError if it holds no order."""
        source = shortened_path(Path(path).name)
        try:
            data = read_bytes(path)
            if data[:4] in ZIP:
                return _matrices(data, source)
            text = decoded(data, source, f"give {FORMS}")
        except GraphError as error:
            raise PlanError(str(error)) from error
        return _json(text, source) if _JSON.match(text) else _lines(text, source)

    def differentiated(self, graph: ComputationGraph) -> ComputationGraph:
        """The graph differentiated as the plan records; unchanged without a record, or if it has gradients."""
        if self.derivation is None or graph.is_training:
            return graph
        try:
            return differentiated(graph, self.derivation)
        except PlanError as error:
            raise PlanError(f"{self.source}: {error}") from error

    def schedule(self, graph: ComputationGraph) -> Schedule:
        """The schedule on a graph.

        ScheduleError for an unknown name, a value that is freed before its last read, and loads without a store.
        """
        if self.computed is not None:
            return self._of_stages(graph, self.computed)
        ids = {graph.labels[v]: v for v in range(graph.n_nodes)}
        steps, others = self._of_lines(ids) if self.lines else (self.steps, {})
        order = [_node(graph, ids, step, place, self.source) for place, step in enumerate(steps)]
        schedule = Schedule(np.array(order, np.int32))
        try:
            if not others:
                return with_copies(graph, schedule, self.loads, self.lingering)
            schedule = with_copies(graph, schedule, others["load"])
        except ScheduleError as error:
            self._fail(str(error), error.step, error.node)
        self._check_stores(graph, schedule, others["store"])
        return self._check_frees(graph, schedule, others["free"]) if others["free"] else schedule

    def _of_lines(self, known: Collection[str]) -> tuple[list[str], dict[str, list[tuple[int, str]]]]:
        """Names of nodes, and by `OTHERS` those of values, each with the number of steps before it."""
        lines = [line for line in self.lines if line in known or not line.startswith("#")]
        if not lines:
            raise PlanError(f"{self.source}: the file is empty; give {FORMS}")
        deeds = (COMPUTE, *(f"{deed} " for deed in OTHERS))
        if all(line in known for line in lines) or not all(line.startswith(deeds) for line in lines):
            if len(lines) == 1 and lines[0] not in known:  # names on one line
                lines = [name.strip() for name in lines[0].split("," if "," in lines[0] else None)]
            return lines, {}
        steps, others = list[str](), {deed: list[tuple[int, str]]() for deed in OTHERS}
        for line in lines:
            deed, _, name = line.partition(" ")
            if line.startswith(COMPUTE):
                steps.append(name.strip())
            else:
                others[deed].append((len(steps), name.strip()))
        return steps, others

    def _of_stages(self, graph: ComputationGraph, computed: Bool) -> Schedule:
        if computed.shape[1] != graph.n_nodes:
            message = f"{self.source}: R has {computed.shape[1]} columns; the graph has {graph.n_nodes} nodes"
            raise ScheduleError(f"{message}, gradients among them (--inference adds none)", 0, -1)
        if self.saved is not None:
            self._check_saved(graph, computed, self.saved)
        return Schedule(np.nonzero(computed)[1].astype(np.int32))

    def _check_saved(self, graph: ComputationGraph, computed: Bool, saved: Bool) -> None:
        live = computed | saved
        lost = saved.copy()
        lost[1:] &= ~live[:-1]
        if lost.any():
            stage, node = (int(i) for i in np.argwhere(lost)[0])
            self._fail(
                f"stage {stage} has {shortened(graph.labels[node])} in S, but the stage before does not",
                stage,
                node,
            )
        indptr, sources = graph.predecessors
        readers = row_of(indptr)
        for reader, source in zip(readers.tolist(), sources.tolist(), strict=True):
            broken = np.flatnonzero(computed[:, reader] & ~live[:, source])
            if broken.size:
                names = shortened(graph.labels[reader]), shortened(graph.labels[source])
                fault = f"stage {broken[0]} computes {names[0]} without {names[1]}, which it reads"
                self._fail(fault, int(broken[0]), reader)

    def _check_stores(self, graph: ComputationGraph, schedule: Schedule, stores: Sequence[tuple[int, str]]) -> None:
        """Check that what is loaded, and nothing else, is stored where `Simulation.actions` stores it."""
        loaded, stored = {graph.value_name(x) for x in schedule.loads[:, 1].tolist()}, set[str]()
        first = {graph.labels[v]: step for step, v in reversed(list(enumerate(schedule.order.tolist())))}
        for step, name in stores:
            if name not in loaded:
                self._fail(f"{shortened(name)} is stored before step {step:d}, but never loaded; take it out", step)
            node = graph.labels[int(graph.producer[graph.value_id(name)])]
            if step != first.get(node, -1) + 1:
                self._fail(
                    f"{shortened(name)} is stored before step {step:d}; do it right after its node first ran", step
                )
            stored.add(name)
        for step, x in schedule.loads.tolist():
            if graph.value_name(x) not in stored:
                self._fail(f"step {step:d} loads {shortened(graph.value_name(x))}, which is never stored", step)

    def _check_frees(self, graph: ComputationGraph, schedule: Schedule, frees: Sequence[tuple[int, str]]) -> Schedule:
        """Check that only live values are freed, and that no freed value is read.

        Return the schedule with what lingers: first instances of loaded values that are freed later than they could be.
        """
        try:
            lifetimes = simulate(graph, schedule).lifetimes
        except ScheduleError as error:
            self._fail(str(error), error.step, error.node)
        live: dict[int, list[int]] = {}  # instances of each value: several only of one that is loaded
        values, firsts = np.unique(lifetimes.value, return_index=True)
        loaded, lingering = set(schedule.loads[:, 1].tolist()), []
        stored = set(firsts[np.isin(values, schedule.loads[:, 1])].tolist())
        made = 0
        for step, name in frees:
            for i in range(made, int(lifetimes.instance_indptr[step])):
                value = int(lifetimes.value[i])
                live[value] = [*live.get(value, []), i] if value in loaded else [i]
            made = int(lifetimes.instance_indptr[step])
            try:
                value = graph.value_id(name)
            except GraphError as error:
                self._fail(f"before step {step:d} {shortened(name)} is freed: {error}", step)
            freed = f"{shortened(name)} is freed before step {step:d}, but"
            if not live.get(value):
                self._fail(f"{freed} it is not in memory there", step)
            if graph.output[value] and step < len(schedule):
                self._fail(f"{freed} it is an output, which stays in memory", step)
            ends = {i: int(lifetimes.end[i]) for i in live[value]}
            instance = next((i for i, end in ends.items() if end == step), min(ends, key=ends.__getitem__))
            live[value].remove(instance)
            end = ends[instance]
            if end > step:
                reader = shortened(graph.labels[int(schedule.order[end - 1])])
                self._fail(f"{freed} step {end - 1}, {reader}, reads it", step)
            if instance in stored and end < step:
                lingering.append((value, step))
        return Schedule(schedule.order, schedule.loads, lingering)  # type: ignore[arg-type]  # the constructor makes an array

    def _fail(self, message: str, step: int, node: int = -1) -> NoReturn:
        raise ScheduleError(f"{self.source}: {message}", step, node)


@checked_arguments
def read_order(path: str | os.PathLike[str], graph: ComputationGraph) -> tuple[ComputationGraph, Schedule]:
    """Read an order of running the nodes of a graph, to be evaluated by `simulate`.

    Parameters
    ----------
    path : path
        A plan (JSON), a list of names or ids (JSON, or text with one per line or all on one), actions (`compute X`,
        `free Y`, `store Y`, `load Y`), or an npz file with the matrices R and perhaps S, as Checkmate has them:
        bool[t, n], stage by node.
    graph : ComputationGraph
        Differentiated first if the order is a plan that records how, and the graph has no backward part.

    Returns
    -------
    (ComputationGraph, Schedule)
        The graph that the order runs, and the order.

    Raises
    ------
    PlanError
        If the file is in none of these forms, or a plan's options of `differentiate` do not fit the graph.
    ScheduleError
        If it names an unknown node, frees or drops a value that is read later, frees one that is not live, or loads
        one that is not stored.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> graph = ComputationGraph.from_edges([("A", "B"), ("A", "C"), ("B", "C")])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "order.txt")
    ...     _ = file.write_text("A B A C")
    ...     read_order(file, graph)[1].order.tolist()
    [0, 1, 0, 2]
    """
    order = Order.read(path)
    graph = order.differentiated(graph)
    return graph, order.schedule(graph)


def _node(graph: ComputationGraph, ids: Mapping[str, int], step: str | int, place: int, source: str) -> int:
    """The node with a name or an id."""
    if isinstance(step, str) and step in ids:
        return ids[step]
    name = str(step)
    if name.isdecimal():
        if len(name) <= MAX_DIGITS and int(name) < graph.n_nodes:
            return int(name)
        message = f"step {place} runs node {shortened(name)}; nodes are 0 to {graph.n_nodes - 1}"
        raise ScheduleError(f"{source}: {message}", place, -1)
    try:
        return graph.node_id(name)
    except ValueError as error:
        raise ScheduleError(f"{source}: step {place}: {error}", place, -1) from error


def _json(text: str, source: str) -> Order:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlanError(f"{source}: not valid JSON ({first_line(error)}); give {FORMS}") from error
    if isinstance(content, dict):
        if content.get("format") != FORMAT or not isinstance(content.get("schedule"), list):
            raise PlanError(f'{source}: not a plan: it has no "format": "{FORMAT}" with a "schedule"; give {FORMS}')
        steps = _steps(content["schedule"], source)
        try:
            derivation, (loads, lingering) = derivation_of(content), copies(content)
            link = link_of(content)
        except PlanError as error:
            raise PlanError(f"{source}: {error}") from error
        return Order(source, steps, is_plan=True, derivation=derivation, loads=loads, lingering=lingering, link=link)
    return Order(source, _steps(content, source))


def _steps(content: Any, source: str) -> list[str | int]:
    if not isinstance(content, list) or not all(
        isinstance(s, str) or (type(s) is int and 0 <= s < 2**31) for s in content
    ):
        raise PlanError(f"{source}: the list contains an entry that is neither the name nor the id of a node")
    return content


def _lines(text: str, source: str) -> Order:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise PlanError(f"{source}: the file is empty; give {FORMS}")
    return Order(source, lines=lines)


def _matrices(data: bytes, source: str) -> Order:
    try:
        matrices = load_arrays(data, source, ("R", "S"))
    except GraphError:
        raise
    except Exception as error:  # an archive of arrays can be broken in more ways than can be listed
        raise PlanError(f"{source}: not an npz file that can be read; give {FORMS}") from error
    if "R" not in matrices:
        raise PlanError(f"{source}: the npz file has no matrix R; give {FORMS}")
    for name, matrix in matrices.items():
        numbers = matrix.ndim == 2 and matrix.dtype.kind in "biuf"
        if not numbers or matrix.shape != matrices["R"].shape or not np.isin(matrix, (0, 1)).all():
            raise PlanError(
                f"{source}: {shortened(name)} must be a matrix of 0 and 1 with a row per stage and a column per node"
            )
    saved = matrices["S"].astype(bool) if "S" in matrices else None
    return Order(source, computed=matrices["R"].astype(bool), saved=saved)
