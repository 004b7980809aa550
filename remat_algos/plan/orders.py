"""Orders that others wrote down: plans, lists, actions, matrices; told by content."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from remat_algos.errors import PlanError, ScheduleError
from remat_algos.ir.arrays import Bool
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.record import FORMAT
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate

COMPUTE, FREE = "compute ", "free "
FORMS = "a plan, a list of nodes, `compute X` and `free Y` lines, or an npz file with the matrices R and S"


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """What a file says of the order, before there is a graph to hold it against.

    Parameters
    ----------
    source : str
        The file, for messages.
    steps : sequence of str or int
        Names or ids of nodes.
    frees : sequence of (int, str), optional
        Values that the file frees, each with the number of steps before it.
    computed, saved : bool[t, n], optional
        R and S: whether stage t computes node v, and whether it has the value of v from stage t - 1.
    derivation : mapping, optional
        The options of `differentiate` that a plan names.
    """

    source: str
    steps: Sequence[str | int] = ()
    frees: Sequence[tuple[int, str]] = ()
    computed: Bool | None = None
    saved: Bool | None = None
    derivation: Mapping[str, Any] | None = None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Order:
        """Read a file; PlanError if it is nothing of the kind."""
        file = Path(path)
        try:
            data = file.read_bytes()
        except OSError as error:
            raise PlanError(f"{file}: cannot be read ({error.strerror}); give {FORMS}") from error
        if data[:4] == b"PK\x03\x04":
            return _matrices(data, file.name)
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise PlanError(f"{file.name}: byte {error.start} is not UTF-8 text; give {FORMS}") from error
        return _json(text, file.name) if text.lstrip()[:1] in ("{", "[") else _lines(text, file.name)

    def schedule(self, graph: ComputationGraph) -> Schedule:
        """The schedule on a graph; ScheduleError if it names what is not there or frees what is still read."""
        if self.computed is not None:
            return self._of_stages(graph, self.computed)
        ids = {graph.labels[v]: v for v in range(graph.n_nodes)}
        steps = self.steps
        if len(steps) == 1 and isinstance(steps[0], str) and steps[0] not in ids:  # names on one line
            steps = [name.strip() for name in steps[0].split("," if "," in steps[0] else None)]
        order = [_node(graph, ids, step, place, self.source) for place, step in enumerate(steps)]
        schedule = Schedule(np.array(order, np.int32))
        if self.frees:
            self._check_frees(graph, schedule)
        return schedule

    def _of_stages(self, graph: ComputationGraph, computed: Bool) -> Schedule:
        if computed.shape[1] != graph.n_nodes:
            message = f"{self.source}: R has {computed.shape[1]} columns; the graph has {graph.n_nodes} nodes"
            raise ScheduleError(f"{message}, gradients among them (--inference adds none)", 0, -1)
        if self.saved is not None:
            self._check_saved(graph, computed, self.saved)
        return Schedule(np.nonzero(computed)[1].astype(np.int32))

    def _check_saved(self, graph: ComputationGraph, computed: Bool, saved: Bool) -> None:
        held = computed | saved
        lost = saved.copy()
        lost[1:] &= ~held[:-1]
        if lost.any():
            stage, node = (int(i) for i in np.argwhere(lost)[0])
            self._fail(graph, f"stage {stage} has {graph.labels[node]} from a stage that does not hold it", stage, node)
        indptr, sources = graph.predecessors
        readers = np.repeat(np.arange(graph.n_nodes), np.diff(indptr))
        for reader, source in zip(readers.tolist(), sources.tolist(), strict=True):
            broken = np.flatnonzero(computed[:, reader] & ~held[:, source])
            if broken.size:
                names = f"computes {graph.labels[reader]} without {graph.labels[source]}, which it reads"
                self._fail(graph, f"stage {broken[0]} {names}", int(broken[0]), reader)

    def _check_frees(self, graph: ComputationGraph, schedule: Schedule) -> None:
        """Nothing is read after it was freed."""
        simulation = simulate(graph, schedule)
        newest: dict[int, int] = {}
        instances = iter(sorted((place, name) for place, name in self.frees))
        lifetimes = simulation.lifetimes
        free = next(instances, None)
        for step in range(len(schedule) + 1):
            while free is not None and free[0] == step:
                value = graph.value_id(free[1])
                if value not in newest:
                    self._fail(graph, f"step {step} frees {free[1]} before it has been made", step, -1)
                end = int(lifetimes.end[newest[value]])
                if end > step and not graph.output[value]:
                    reader = graph.labels[int(schedule.order[end - 1])]
                    self._fail(
                        graph,
                        f"{free[1]} is freed before step {step}, but step {end - 1}, {reader}, reads it",
                        step,
                        -1,
                    )
                free = next(instances, None)
            if step < len(schedule):
                for i in range(lifetimes.instance_indptr[step], lifetimes.instance_indptr[step + 1]):
                    newest[int(lifetimes.value[i])] = i

    def _fail(self, graph: ComputationGraph, message: str, step: int, node: int) -> NoReturn:
        raise ScheduleError(f"{self.source}: {message}", step, node)


def read_order(path: str | os.PathLike[str], graph: ComputationGraph) -> tuple[ComputationGraph, Schedule]:
    """Read an order of running the nodes of a graph, to be judged by `simulate`.

    Parameters
    ----------
    path : path
        A plan (JSON), a list of names or ids (JSON, or text with one per line or all on one), actions (`compute X`,
        `free Y`), or an npz file with the matrices R and perhaps S, as Checkmate has them: bool[t, n], stage by node.
    graph : ComputationGraph
        Where a plan says how it was differentiated and the graph has no backward part, that is done first.

    Returns
    -------
    (ComputationGraph, Schedule)
        The graph that the order runs, and the order.

    Raises
    ------
    PlanError
        If the file is none of these.
    ScheduleError
        If it names a node that is not there, or frees or drops what is read later.

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
    if order.derivation is not None and not graph.is_training:
        graph = differentiate(graph, **order.derivation)
    return graph, order.schedule(graph)


def _node(graph: ComputationGraph, ids: Mapping[str, int], step: str | int, place: int, source: str) -> int:
    """The node of a name, or of an id."""
    if isinstance(step, str) and step in ids:
        return ids[step]
    if isinstance(step, int) or step.isdecimal():
        if int(step) < graph.n_nodes:
            return int(step)
        raise ScheduleError(f"{source}: step {place} runs node {step}; nodes are 0 to {graph.n_nodes - 1}", place, -1)
    try:
        return graph.node_id(step)
    except ValueError as error:
        raise ScheduleError(f"{source}: step {place}: {error}", place, -1) from error


def _json(text: str, source: str) -> Order:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise PlanError(f"{source}: not valid JSON ({error}); give {FORMS}") from error
    if isinstance(found, dict):
        if found.get("format") != FORMAT or not isinstance(found.get("schedule"), list):
            raise PlanError(f'{source}: no plan: it has no "format": "{FORMAT}" with a "schedule"; give {FORMS}')
        derivation = found.get("differentiate")
        return Order(
            source, _steps(found["schedule"], source), derivation=derivation if isinstance(derivation, dict) else None
        )
    return Order(source, _steps(found, source))


def _steps(found: Any, source: str) -> list[str | int]:
    if not isinstance(found, list) or not all(isinstance(s, str) or (type(s) is int and 0 <= s < 2**31) for s in found):
        raise PlanError(f"{source}: the list holds something that is neither the name nor the id of a node")
    return found


def _lines(text: str, source: str) -> Order:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        raise PlanError(f"{source}: the file is empty; give {FORMS}")
    if all(line.startswith((COMPUTE, FREE)) for line in lines):
        steps: list[str | int] = []
        frees = []
        for line in lines:
            if line.startswith(COMPUTE):
                steps.append(line.removeprefix(COMPUTE))
            else:
                frees.append((len(steps), line.removeprefix(FREE)))
        return Order(source, steps, frees)
    return Order(source, lines)


def _matrices(data: bytes, source: str) -> Order:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            held = {name: archive[name] for name in archive.files}
    except Exception as error:  # an archive of arrays can be broken in more ways than can be listed
        raise PlanError(f"{source}: not an npz file that can be read; give {FORMS}") from error
    if "R" not in held:
        raise PlanError(f"{source}: the npz file has no matrix R; give {FORMS}")
    matrices = {name: held[name] for name in ("R", "S") if name in held}
    for name, matrix in matrices.items():
        if matrix.ndim != 2 or matrix.shape != matrices["R"].shape or not np.isin(matrix, (0, 1)).all():
            raise PlanError(f"{source}: {name} is no matrix of 0 and 1 with a row per stage and a column per node")
    saved = matrices["S"].astype(bool) if "S" in matrices else None
    return Order(source, computed=matrices["R"].astype(bool), saved=saved)
