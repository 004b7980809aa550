"""Read execution orders (plans, lists, actions or matrices, recognized by content) and mirror counts."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.cost.links import Link
from remat_algos.errors import GraphError, PlanError, ScheduleError, extended
from remat_algos.files import decoded, json_of, read_bytes, read_text
from remat_algos.formats.columns import Known, fault, faults_as
from remat_algos.formats.csv_tables import read_table
from remat_algos.formats.graphs.npz_bytes import load_arrays
from remat_algos.ir.arrays import Bool, Int64, row_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import KEEP
from remat_algos.plan.record import FORMAT, copies, derivation_of, differentiated, link_of
from remat_algos.schedule.schedule import Copies, Schedule, with_copies
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.wording import listed

COUNT_COLUMNS: Known = {"node": ("name", "id"), "count": ("mirror_count",)}
COUNT_FORMS = "a table with the columns node and count, or a JSON object of names and counts"
MAX_REPEATS = 2**31 - 1
Row = tuple[int, str, Any]
"""(line in the file or 0, node, mirror count of the node)."""


@checked_arguments
def read_mirror_counts(graph: ComputationGraph, path: str | os.PathLike[str]) -> Int64:
    """Read the number of recomputations of each node, for `mirror_schedule`.

    Parameters
    ----------
    graph : ComputationGraph
    path : path
        CSV with the columns node and count, or a JSON object {node: count}; nodes are names or ids. A node that is not
        listed has 0.

    Returns
    -------
    int64[n]

    Raises
    ------
    GraphError
        If the file has neither format; if a node is unknown, is a gradient or is listed twice; if a count is not a
        whole number of 0 or more; or if a node that must run only once or is marked "keep" has a count above 0.

    References
    ----------
    chen2016, algorithm 2 and section 4.5.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> graph = ComputationGraph.from_edges([("A", "B"), ("B", "C")])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "mirror.csv")
    ...     _ = file.write_text("node,count\\nA,2\\nB,1\\n")
    ...     read_mirror_counts(graph, file).tolist()
    [2, 1, 0]
    """
    text, source = read_text(path, f"give {COUNT_FORMS}"), Path(path).name
    if text.lstrip()[:1] in ("{", "["):
        return _counts(graph, source, _counts_in_json(text, source))
    table = read_table(text, source, COUNT_COLUMNS, ("node", "count"))
    lines = map(table.line, range(len(table)))
    return _counts(graph, source, zip(lines, table.texts("node"), table.texts("count"), strict=True))


def _counts_in_json(text: str, source: str) -> list[Row]:
    try:
        counts = json_of(text)
    except ValueError as error:
        raise fault(source, "{error!w}; give {forms!w}", error=error, forms=COUNT_FORMS) from error
    if not isinstance(counts, dict):
        raise fault(source, "not a JSON object; give {forms!w}", forms=COUNT_FORMS)
    if counts.get("format") == FORMAT:
        raise fault(source, "the file is a plan, not a table of mirror counts; give {forms!w}", forms=COUNT_FORMS)
    return [(0, name, count) for name, count in counts.items()]


def _counts(graph: ComputationGraph, source: str, rows: Iterable[Row]) -> Int64:
    count, named = np.zeros(graph.n_nodes, np.int64), set()
    for line, name, value in rows:
        try:
            node = _node(graph, name)
        except GraphError as error:
            raise fault(source, error.template, line, **error.fields) from error
        if node < 0:
            unknown = "there is no node {name}; nodes are 0 to {last}"
            raise fault(source, unknown, line, name=name, last=graph.n_nodes - 1)
        shown = graph.labels[node]
        if node in named:
            raise fault(source, "{name} is listed twice; keep one of its counts", line, name=shown)
        named.add(node)
        count[node] = _count(source, line, shown, value)
        if not graph.forward[node]:
            raise fault(source, "{name} is a gradient, which runs once; leave it out", line, name=shown)
        if count[node] and graph.once[node]:
            once = "{name} must run only once, so its count is 0, not {value!w}"
            raise fault(source, once, line, name=shown, value=value)
        if count[node] and graph.mark is not None and graph.mark[node] == KEEP:
            kept = "{name} is marked to be kept, so its count is 0, not {value!w}"
            raise fault(source, kept, line, name=shown, value=value)
    return count


def _count(source: str, line: int, name: str, value: Any) -> int:
    text = value if isinstance(value, str) else json.dumps(value)
    digits = text.removeprefix("-")
    whole = digits.isascii() and digits.isdecimal() and isinstance(value, str | int)
    if not whole or (text.startswith("-") and digits.strip("0")):
        wrong = "the count of {name} is {found}; give a whole number, 0 or more"
        raise fault(source, wrong, line, name=name, found=text or "empty")
    if len(digits.lstrip("0")) > len(str(MAX_REPEATS)) or int(digits) > MAX_REPEATS:
        large = "the count of {name} is {text}; give at most {max_count}"
        raise fault(source, large, line, name=name, text=text, max_count=MAX_REPEATS)
    return int(digits)


# First bytes of npz files and of empty npz files.
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
COMPUTE, OTHERS = "compute ", ("free", "store", "load")
Other = tuple[str, int, str]
"""("free", "store" or "load"; number of steps before the action; name of the value)."""
_JSON = re.compile(r'\s*(\{\s*(["}]|$)|\[\s*(["[\]{\d-]|true|false|null|$))')  # a node may be called [CLS]
FORMS = "a plan, a list of nodes, `compute X` and `free Y` lines, or an npz file with the matrices R and S"
EMPTY = "the file is empty; give {forms!w}"


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """The order in a file, not yet checked against a graph.

    It is stored in one of three forms. `steps` are names or ids of nodes. `lines` are names, actions and comments; only
    the graph can distinguish them, because a node may be called `compute x`. `computed` and `saved` are the matrices R
    and S, bool[t, n]: in stage t node v is computed (R), or its value is still live from stage t - 1 (S).
    """

    source: str
    steps: Sequence[str | int] = ()
    lines: Sequence[str] = ()
    computed: Bool | None = None
    saved: Bool | None = None
    is_plan: bool = False
    derivation: Mapping[str, Any] | None = None
    copies: Copies = ([], [], [])
    link: Link | None = None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Order:
        """Read a file; raise PlanError if it contains no order."""
        source = Path(path).name
        with faults_as(PlanError):
            data = read_bytes(path)
            if data[:4] in ZIP:
                return _matrices(data, source)
            text = decoded(data, source, f"give {FORMS}")
            return _json(text, source) if _JSON.match(text) else _lines(text, source)

    def differentiated(self, graph: ComputationGraph) -> ComputationGraph:
        """Differentiate a graph as the plan records; return it unchanged if it has gradients or nothing is recorded."""
        if self.derivation is None or graph.is_training:
            return graph
        try:
            return differentiated(graph, self.derivation)
        except PlanError as error:
            raise extended(error, "{source!p}: ", source=self.source) from error

    def schedule(self, graph: ComputationGraph) -> Schedule:
        """Convert to a schedule; raise ScheduleError for unknown names, early frees and loads without a store."""
        if self.computed is not None:
            return self._of_stages(graph, self.computed)
        steps, others = self._of_lines({*graph.node_names()}) if self.lines else (self.steps, None)
        order = [self._node(graph, step, place) for place, step in enumerate(steps)]
        schedule = Schedule(np.array(order, np.int32))
        try:
            if others is None:
                return with_copies(graph, schedule, *self.copies)
            loads, stores = ([(step, x) for action, step, x in others if action == kind] for kind in ("load", "store"))
            simulation = simulate(graph, with_copies(graph, schedule, loads, (), stores))
        except ScheduleError as error:
            raise extended(error, "{source!p}: ", source=self.source) from error
        return self._as_written(simulation, others)

    @faults_as(PlanError)
    def _of_lines(self, node_names: Collection[str]) -> tuple[list[str], list[Other] | None]:
        lines = [line for line in self.lines if line in node_names or not line.startswith("#")]
        if not lines:
            raise fault(self.source, EMPTY, forms=FORMS)
        deeds = (COMPUTE, *(f"{action} " for action in OTHERS))
        actions = [line for line in lines if line.startswith(deeds)]
        if 0 < len(actions) < len(lines) and not all(line in node_names for line in actions):
            wrong = next(line for line in lines if not line.startswith(deeds))
            other = "{wrong!r} is not an action; lines of an action list begin with {some!w}"
            raise fault(self.source, other, wrong=wrong, some=listed([COMPUTE.strip(), *OTHERS]))
        if not actions or all(line in node_names for line in lines):
            # A file may list all names on one line.
            if len(lines) == 1 and lines[0] not in node_names:
                lines = [name.strip() for name in lines[0].split("," if "," in lines[0] else None)]
            return lines, None
        steps, others = list[str](), list[Other]()
        for line in lines:
            action, _, name = line.partition(" ")
            if line.startswith(COMPUTE):
                steps.append(name.strip())
            else:
                others.append((action, len(steps), name.strip()))
        return steps, others or None

    def _node(self, graph: ComputationGraph, step: str | int, place: int) -> int:
        try:
            node = _node(graph, step)
        except GraphError as error:
            raise self._fault("step {step}: {error!w}", place, error=error) from error
        if node < 0:
            unknown = "step {step} runs node {name}; nodes are 0 to {last}"
            raise self._fault(unknown, place, name=step, last=graph.n_nodes - 1)
        return node

    def _of_stages(self, graph: ComputationGraph, computed: Bool) -> Schedule:
        if computed.shape[1] != graph.n_nodes:
            wrong = (
                "R has {n_columns} columns, but the graph has {n_nodes} nodes, including gradients (--inference adds "
                "none)"
            )
            raise self._fault(wrong, 0, n_columns=computed.shape[1], n_nodes=graph.n_nodes)
        if self.saved is not None:
            self._check_saved(graph, computed, self.saved)
        return Schedule(np.nonzero(computed)[1].astype(np.int32))

    def _check_saved(self, graph: ComputationGraph, computed: Bool, saved: Bool) -> None:
        live = computed | saved
        lost = saved.copy()
        lost[1:] &= ~live[:-1]
        if lost.any():
            stage, node = (int(i) for i in np.argwhere(lost)[0])
            invented = "stage {step} has {name} in S, but the stage before neither computes nor stores it"
            raise self._fault(invented, stage, node, name=graph.labels[node])
        indptr, sources = graph.predecessors
        readers = row_of(indptr)
        for reader, source in zip(readers.tolist(), sources.tolist(), strict=True):
            broken = np.flatnonzero(computed[:, reader] & ~live[:, source])
            if broken.size:
                gone = "stage {step} computes {reader} without {read}, which it reads"
                names = {"reader": graph.labels[reader], "read": graph.labels[source]}
                raise self._fault(gone, int(broken[0]), reader, **names)

    def _as_written(self, simulation: Simulation, others: Sequence[Other]) -> Schedule:
        """Return the schedule that frees each value at its `free` line; raise ScheduleError for invalid actions."""
        graph, lives, order = simulation.graph, simulation.lifetimes, simulation.schedule.order
        stored = {*simulation.schedule.stores[:, 1].tolist()}
        for step, x in simulation.schedule.loads.tolist():
            if x not in stored:
                raise self._fault("step {step} loads {value}, which is never stored", step, value=graph.value_name(x))
        indptr, values, ends = (each.tolist() for each in (lives.instance_indptr, lives.value, lives.end))
        source = {values[i]: i for i in simulation.store_instances[0].tolist()}
        live: dict[int, list[int]] = {}
        late, computed = dict[int, int](), 0
        for action, step, name in [*others, ("", len(order), "")]:
            for i in range(computed, indptr[step]):
                if values[i] not in live or not graph.output[values[i]]:
                    live.setdefault(values[i], []).append(i)
            computed = indptr[step]
            if action == "store" and source[value := graph.value_id(name)] not in live[value]:
                raise self._fault("{name} is stored before step {step}, but it is already freed", step, name=name)
            elif action == "free":
                i = self._freed(simulation, live, step, name)
                if ends[i] < step:
                    late[i] = step
        late |= {i: len(order) for x, left in live.items() if not graph.output[x] for i in left if ends[i] < len(order)}
        rows, made_at = list[tuple[int, int, int]](), lives.made_at.tolist()
        for i, until in late.items():
            ends[i], x, step = until, values[i], made_at[i]
            if x in values[i + 1 : indptr[step + 1]]:
                twice = "step {step} makes {value} twice; free its first copy before the step"
                raise self._fault(twice, step, value=graph.value_name(x))
            rows.append((x, step, until))
        return Schedule(order, simulation.schedule.loads, rows, _placed(simulation, ends))  # type: ignore[arg-type]

    def _freed(self, simulation: Simulation, live: dict[int, list[int]], step: int, name: str) -> int:
        graph, order = simulation.graph, simulation.schedule.order
        try:
            value = graph.value_id(name)
        except GraphError as error:
            raise self._fault("before step {step} {name} is freed: {error!w}", step, name=name, error=error) from error
        freed = partial(self._fault, step=step, name=name)
        if not live.get(value):
            raise freed("{name} is freed before step {step}, but it is not in memory")
        if graph.output[value] and step < len(order):
            raise freed("{name} is freed before step {step}, but it is an output, which stays in memory")
        ends = {i: int(simulation.lifetimes.end[i]) for i in live[value]}
        instance = next((i for i, end in ends.items() if end == step), min(ends, key=ends.__getitem__))
        end = ends[instance]
        if end > step and value in graph.reads(int(order[end - 1])):
            late = "{name} is freed before step {step}, but step {last}, {reader}, reads it"
            raise freed(late, last=end - 1, reader=graph.labels[int(order[end - 1])])
        if end > step:
            raise freed("{name} is freed before step {step}, but it is stored before step {end}", end=end)
        live[value].remove(instance)
        return instance

    def _fault(self, template: str, step: int, node: int = -1, **fields: Any) -> ScheduleError:
        return ScheduleError("{source!p}: " + template, source=self.source, step=step, node=node, **fields)


def _placed(simulation: Simulation, ends: Sequence[int]) -> list[tuple[int, int]]:
    lives, rows = simulation.lifetimes, list[tuple[int, int]]()
    first = set(np.unique(lives.value, return_index=True)[1].tolist())
    made_at = lives.made_at.tolist()
    stores = zip(*(each.tolist() for each in simulation.store_instances), strict=True)
    for step, group in groupby(stores, key=itemgetter(1)):
        instances = [i for i, _ in group]
        default = sorted((i for i in instances if i in first and made_at[i] == step - 1), key=lambda i: (ends[i], i))
        if instances[: len(default)] == default:
            del instances[: len(default)]
        rows += [(step, int(lives.value[i])) for i in instances]
    return rows


@checked_arguments
def read_order(path: str | os.PathLike[str], graph: ComputationGraph) -> tuple[ComputationGraph, Schedule]:
    """Read an execution order of a graph's nodes, for `simulate`.

    Parameters
    ----------
    path : path
        A plan (JSON); a list of names or ids (JSON, or text with one name per line or all on one line); actions
        (`compute X`, `free Y`, `store Y`, `load Y`); or an npz file with the matrices R and optionally S of Checkmate,
        bool[t, n], stage by node. With `free` actions, a value is live until it is freed, or to the end; with `compute`
        actions only, values are freed after their last reads.
    graph : ComputationGraph
        If the order is a plan and the graph has no backward part, the graph is first differentiated as recorded in the
        plan.

    Returns
    -------
    (ComputationGraph, Schedule)
        The graph of the order, and the order.

    Raises
    ------
    PlanError
        If the file has none of these forms, or the options of `differentiate` in the plan do not fit the graph.
    ScheduleError
        If the order contains an unknown node, frees a value before its last read, frees or stores a value that is not
        live, or loads a value that is not stored.

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


def _node(graph: ComputationGraph, node: str | int) -> int:
    """Return the id of the node with a name, or an id itself, -1 if it is unknown. Raise GraphError for other names."""
    if isinstance(node, str):
        try:
            return graph.node_id(node)
        except GraphError:
            if not (node.isascii() and node.isdecimal()):
                raise
    digits = str(node)
    return int(digits) if len(digits) <= 10 and int(digits) < graph.n_nodes else -1


def _json(text: str, source: str) -> Order:
    try:
        content = json_of(text)
    except ValueError as error:
        raise fault(source, "{error!w}; give {forms!w}", error=error, forms=FORMS) from error
    if not isinstance(content, dict):
        return Order(source, _steps(content, source))
    if content.get("format") != FORMAT or not isinstance(content.get("schedule"), list):
        other = 'not a plan: it has no "format": "{known}" with a "schedule"; give {forms!w}'
        raise fault(source, other, known=FORMAT, forms=FORMS)
    steps = _steps(content["schedule"], source)
    try:
        derivation, copied, link = derivation_of(content), copies(content), link_of(content)
    except PlanError as error:
        raise extended(error, "{source!p}: ", source=source) from error
    return Order(source, steps, is_plan=True, derivation=derivation, copies=copied, link=link)


def _steps(content: Any, source: str) -> list[str | int]:
    if not isinstance(content, list) or not all(
        isinstance(s, str) or (type(s) is int and 0 <= s < 2**31) for s in content
    ):
        raise fault(source, "the list contains an entry that is neither the name nor the id of a node")
    return content


def _lines(text: str, source: str) -> Order:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise fault(source, EMPTY, forms=FORMS)
    return Order(source, lines=lines)


def _matrices(data: bytes, source: str) -> Order:
    try:
        matrices = load_arrays(data, source, ("R", "S"))
    except GraphError:
        raise
    except Exception as error:
        raise fault(source, "not an npz file that can be read; give {forms!w}", forms=FORMS) from error
    if "R" not in matrices:
        raise fault(source, "the npz file has no matrix R; give {forms!w}", forms=FORMS)
    for name, matrix in matrices.items():
        numbers = matrix.ndim == 2 and matrix.dtype.kind in "biuf"
        if not numbers or matrix.shape != matrices["R"].shape or not np.isin(matrix, (0, 1)).all():
            wrong = "{name} must be a matrix of 0 and 1 with a row per stage and a column per node"
            raise fault(source, wrong, name=name)
    saved = matrices["S"].astype(bool) if "S" in matrices else None
    return Order(source, computed=matrices["R"].astype(bool), saved=saved)
