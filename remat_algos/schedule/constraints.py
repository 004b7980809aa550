"""Constraints on schedules: maximum runs of a node, order of first runs, bytes of a region, copies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

import numpy as np

from remat_algos.arguments import as_list, checked_arguments
from remat_algos.bounds.memory import forced_bytes
from remat_algos.errors import ArgumentError, ArgumentTypeError, GraphError, PlanError, about, extended
from remat_algos.ir.arrays import LARGEST_SUM, Bool, Int32, Int64, as_whole, by_fields, sealed
from remat_algos.ir.graph import ComputationGraph, check_graph
from remat_algos.ir.parts import RECOMPUTE
from remat_algos.schedule.simulation import Simulation, check_simulation
from remat_algos.text.amounts import parse_bytes
from remat_algos.wording import counted, exact_bytes, format_bytes, one_line, shortened

RULES_SHOWN = 3
KEYS = ("max_runs", "fixed_order", "regions", "offload", "stay", "min_copy")
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Constraints:
    """Constraints on a schedule in addition to the budget.

    Parameters
    ----------
    graph : ComputationGraph
        The graph to run. For training, it is the graph with its backward part.
    max_runs : int or mapping of str to int, optional
        Maximum runs of every node, 1 or more; or a mapping from nodes to maximum runs.
    fixed_order : bool
        If True, first runs are in id order; nodes may be recomputed anywhere.
    regions : mapping of str to (nodes, limit)
        Named groups of nodes with the maximum bytes of their values and workspaces at any step. Nodes are a sequence of
        names, or a pattern such as "encoder.*"; the limit is bytes or a string such as "4GiB". Regions are disjoint.
    offload : str or sequence of str, optional
        With a link: modules, node names or patterns. Only values of these nodes may be copied to the host. A module is
        the part of a name before a dot: "encoder" includes "encoder.0.relu". By default all values may be copied.
    stay : str or sequence of str, optional
        Modules, node names or patterns whose values are never copied.
    min_copy : int or str, optional
        Minimum size of a copied value: bytes or a string such as "1MB".

    Attributes
    ----------
    run_limit : int32[n]
        Maximum runs of each node, 0 for no limit.
    region : int32[n]
        Index in `regions` of the region of each node, -1 for none.
    region_limit : int64[k]
    movable : bool[n_values]
        True for values that may be copied to the host according to `offload`, `stay` and `min_copy`.

    Raises
    ------
    GraphError
        If a node is unknown.
    TypeError, ValueError
        If a constraint is invalid, or regions overlap.

    Examples
    --------
    Three nodes in a row, A -> B -> C:

    >>> graph = ComputationGraph.from_edges([("A", "B"), ("B", "C")])
    >>> constraints = Constraints(graph, max_runs=2, regions={"front": (["A", "B"], 1)})
    >>> print(constraints)
    at most 2 runs of each node; region front (2 nodes) within 1 B
    >>> from remat_algos.schedule.simulation import simulate
    >>> constraints.violation(simulate(graph, [0, 1, 2]))
    'step 1, B: region front has 2 B live; its limit is 1 B'
    """

    graph: ComputationGraph
    max_runs: int | Mapping[str, int] | None = None
    fixed_order: bool = False
    regions: Mapping[str, tuple[Any, Any]] = field(default_factory=lambda: NOTHING)
    offload: Any = None
    stay: Any = None
    min_copy: int | str = 0
    run_limit: Int32 = field(init=False)
    region: Int32 = field(init=False)
    region_limit: Int64 = field(init=False)
    movable: Bool = field(init=False)

    __reduce__ = by_fields

    def __post_init__(self) -> None:
        check_graph(self.graph)
        if not isinstance(self.fixed_order, bool):
            raise ArgumentTypeError("fixed_order is {fixed_order!r}; give True or False", fixed_order=self.fixed_order)
        max_runs, run_limit = _run_limits(self.graph, self.max_runs)
        regions, region, region_limit = _regions(self.graph, self.regions)
        offload, stay = (_modules(self.graph, getattr(self, name), name) for name in ("offload", "stay"))
        min_copy = _bytes(self.min_copy, "min_copy")
        movable = self.graph.memory >= min_copy
        for nodes, may in ((offload, True), (stay, False)):
            if nodes is not None:
                movable &= np.isin(self.graph.producer, nodes) == may
        names = self.graph.labels
        for name, entry in (
            ("max_runs", max_runs),
            ("run_limit", sealed(run_limit)),
            ("regions", MappingProxyType(regions)),
            ("region", sealed(region)),
            ("region_limit", sealed(region_limit)),
            ("offload", None if offload is None else tuple(names[int(v)] for v in offload)),
            ("stay", None if stay is None else tuple(names[int(v)] for v in stay)),
            ("min_copy", min_copy),
            ("movable", sealed(movable)),
        ):
            object.__setattr__(self, name, entry)

    @classmethod
    @checked_arguments
    def of(cls, graph: ComputationGraph, constraints: Constraints | Mapping[str, Any] | None) -> Constraints | None:
        """Convert an argument to constraints; return None if nothing is constrained.

        Examples
        --------
        >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)])
        >>> Constraints.of(graph, {"max_runs": 1})
        <Constraints: at most 1 run of each node>
        """
        if isinstance(constraints, Mapping):
            if unknown := [name for name in constraints if name not in KEYS]:
                raise ArgumentTypeError(
                    "constraints has the unknown entries {unknown!f}; use only {known!l}", unknown=unknown, known=KEYS
                )
            constraints = cls(graph, **{name: entry for name, entry in constraints.items() if entry is not None})
        if constraints is None:
            return None
        if not isinstance(constraints, Constraints):
            raise ArgumentTypeError(
                'constraints has type {kind!w}; give Constraints or a mapping: {{"max_runs": 2}}',
                kind=type(constraints).__name__,
            )
        if constraints.graph is not graph and constraints.graph.hash != graph.hash:
            raise GraphError(
                "the constraints are for another graph: they are for {n_nodes:node}, this one has {expected:,}; make "
                "them for this graph",
                n_nodes=constraints.graph.n_nodes,
                expected=graph.n_nodes,
            )
        copies = constraints.offload is not None or constraints.stay or constraints.min_copy
        anything = constraints.max_runs or constraints.fixed_order or constraints.regions or copies
        return constraints if anything else None

    @classmethod
    @checked_arguments
    def claimed(cls, graph: ComputationGraph, record: Any) -> Constraints | None:
        """Return the constraints in the record of a plan; raise PlanError if they are invalid."""
        try:
            if record is None:
                return None
            if not isinstance(record, Mapping):
                raise ArgumentTypeError("it is {record!r}; expected an object", record=record)
            regions = record.get("regions") or {}
            if not isinstance(regions, Mapping) or not all(isinstance(each, Mapping) for each in regions.values()):
                raise ArgumentTypeError(
                    "regions is {regions!r}; expected an object that maps the name of each region to an object",
                    regions=regions,
                )
            pairs = {name: (each.get("nodes"), each.get("limit")) for name, each in regions.items()}
            return cls.of(graph, {**record, "regions": pairs})
        except (TypeError, ValueError) as error:
            raise PlanError('"constraints" of the plan is invalid: {error!w}', error=error) from error

    def __repr__(self) -> str:
        return one_line(self, str(self))

    def __str__(self) -> str:
        parts = list[str]()
        if isinstance(self.max_runs, Mapping):
            runs = [f"{shortened(name)} at most {counted(limit, 'run')}" for name, limit in self.max_runs.items()]
            parts += runs if len(runs) <= RULES_SHOWN else [f"a limit on the runs of {counted(len(runs), 'node')}"]
        elif self.max_runs is not None:
            parts.append(f"at most {counted(self.max_runs, 'run')} of each node")
        if self.fixed_order:
            parts.append("first runs in the order of the graph")
        limits = [
            f"region {shortened(name)} ({counted(len(nodes), 'node')}) within {format_bytes(limit)}"
            for name, (nodes, limit) in self.regions.items()
        ]
        parts += limits if len(limits) <= RULES_SHOWN else [counted(len(limits), "region")]
        if self.offload is not None:
            parts.append(f"only values of {counted(len(self.offload), 'node')} may leave")
        if self.stay:
            parts.append(f"values of {counted(len(self.stay), 'node')} stay on the device")
        if self.min_copy:
            parts.append(f"no copies below {format_bytes(int(self.min_copy))}")
        return "; ".join(parts)

    def record(self) -> dict[str, Any]:
        """Return the JSON record, with nodes by name, or by id if the graph has no names."""
        in_record = str if self.graph.labels.names is not None else int
        regions = {
            name: {"nodes": list(map(in_record, nodes)), "limit": limit}
            for name, (nodes, limit) in self.regions.items()
        }
        max_runs = dict(self.max_runs) if isinstance(self.max_runs, Mapping) else self.max_runs
        record: dict[str, Any] = {"max_runs": max_runs, "fixed_order": self.fixed_order, "regions": regions}
        for name, nodes in (("offload", self.offload), ("stay", self.stay)):
            if nodes is not None:
                record[name] = list(map(in_record, nodes))
        return record | ({"min_copy": self.min_copy} if self.min_copy else {})

    def region_traces(self, simulation: Simulation) -> Int64:
        """Return int64[k, m]: live bytes of each region during each step, including the workspace of the running node.

        Examples
        --------
        >>> from remat_algos.schedule.simulation import simulate
        >>> graph = ComputationGraph.from_edges([("A", "B"), ("B", "C")])
        >>> constraints = Constraints(graph, regions={"ends": (["A", "C"], 9)})
        >>> constraints.region_traces(simulate(graph, [0, 1, 2])).tolist()
        [[1, 1, 1]]
        """
        check_simulation(simulation, self.graph)
        graph, order, lifetimes = simulation.graph, simulation.schedule.order, simulation.lifetimes
        change = np.zeros((len(self.regions), order.size + 1), np.int64)
        at = self.region[graph.producer[lifetimes.value]]
        inside = np.flatnonzero(at >= 0)
        at, memory = at[inside], graph.memory[lifetimes.value[inside]]
        np.add.at(change, (at, simulation.lifetimes.made_at[inside]), memory)
        np.subtract.at(change, (at, lifetimes.end[inside]), memory)
        traces = np.cumsum(change, axis=1)[:, :-1]
        running = np.flatnonzero(self.region[order] >= 0)
        traces[self.region[order[running]], running] += graph.workspace[order[running]]
        return traces

    def violation(self, simulation: Simulation) -> str | None:
        """Describe the first violation of a constraint by a schedule, or None if there is none.

        Examples
        --------
        >>> from remat_algos.schedule.simulation import simulate
        >>> graph = ComputationGraph.from_edges([("A", "C"), ("B", "C")])
        >>> Constraints(graph, max_runs={"A": 1}).violation(simulate(graph, [0, 1, 0, 2]))
        'step 2 is run 2 of A; its max_runs is 1'
        >>> Constraints(graph, fixed_order=True).violation(simulate(graph, [1, 0, 2]))
        'step 1 is the first run of A, after that of B; fixed_order puts it before'
        """
        check_simulation(simulation, self.graph)
        for violation in (self._runs, self._order, self._regions, self._copies):
            text = violation(simulation)
            if text is not None:
                return text
        return None

    def region_bound(self) -> tuple[str, int, int] | None:
        """Return a region whose limit no schedule can meet.

        The result is its name, a lower bound on its bytes, and the node that proves the bound. It is None if all lower
        bounds are within the limits, which does not prove that a schedule exists.

        Examples
        --------
        >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], memory=4)
        >>> Constraints(graph, regions={"all": ("*", 7)}).region_bound()
        ('all', 8, 1)
        """
        graph = self.graph
        for k, (name, (_, limit)) in enumerate(self.regions.items()):
            inside = self.region == k
            # Only the region has memory in this graph, so lower bounds on live bytes apply to the region.
            alone = graph.with_costs(
                memory=np.where(inside[graph.producer], graph.memory, 0), workspace=np.where(inside, graph.workspace, 0)
            )
            forced = forced_bytes(alone)
            if forced.max(initial=0) > limit:
                return name, int(forced.max()), int(forced.argmax())
        return None

    def _runs(self, simulation: Simulation) -> str | None:
        if self.max_runs is None:
            return None
        over = np.flatnonzero((self.run_limit > 0) & (simulation.runs > self.run_limit))
        if not over.size:
            return None
        order = simulation.schedule.order
        steps = np.argsort(order, kind="stable")  # by node, then by step
        step = int(steps[np.searchsorted(order[steps], over) + self.run_limit[over]].min())
        node, limit = int(order[step]), int(self.run_limit[order[step]])
        return f"step {step} is run {limit + 1} of {shortened(self.graph.labels[node])}; its max_runs is {limit}"

    def _order(self, simulation: Simulation) -> str | None:
        if not self.fixed_order:
            return None
        first = np.flatnonzero(simulation.schedule.first_run)
        nodes = simulation.schedule.order[first]
        before = np.maximum.accumulate(nodes)
        early = np.flatnonzero(nodes < before)
        if not early.size:
            return None
        step, node, other = int(first[early[0]]), int(nodes[early[0]]), int(before[early[0]])
        later, sooner = shortened(self.graph.labels[other]), shortened(self.graph.labels[node])
        return f"step {step} is the first run of {sooner}, after that of {later}; fixed_order puts it before"

    def _regions(self, simulation: Simulation) -> str | None:
        if not self.regions:
            return None
        traces = self.region_traces(simulation)
        over = traces > self.region_limit[:, None]
        steps = np.flatnonzero(over.any(axis=0))
        if not steps.size:
            return None
        step = int(steps[0])
        k = int(over[:, step].argmax())
        node = shortened(self.graph.labels[int(simulation.schedule.order[step])])
        live, limit = exact_bytes(int(traces[k, step])), exact_bytes(int(self.region_limit[k]))
        return f"step {step}, {node}: region {shortened(list(self.regions)[k])} has {live} live; its limit is {limit}"

    def _copies(self, simulation: Simulation) -> str | None:
        loads = simulation.schedule.loads
        wrong = np.flatnonzero(~self.movable[loads[:, 1]])
        if not wrong.size:
            return None
        step, value = (int(each) for each in loads[wrong[0]])
        node = self.graph.labels[int(self.graph.producer[value])]
        name = shortened(self.graph.value_name(value))
        if self.graph.memory[value] < self.min_copy:
            return (
                f"step {step} loads {name}, {exact_bytes(int(self.graph.memory[value]))}; min_copy is {self.min_copy}"
            )
        rule = "stay keeps it" if node in (self.stay or ()) else "offload does not name it"
        return f"step {step} loads {name}; {rule}"


def may_leave(graph: ComputationGraph, constraints: Constraints | None) -> Bool:
    """Return bool[n_values]: True for values that may be copied; outputs and values marked recompute may not."""
    movable = ~graph.output & (graph.memory > 0)
    if graph.mark is not None:
        movable &= ~((graph.mark == RECOMPUTE) & graph.forward)[graph.producer]
    if constraints is not None:
        movable &= constraints.movable
    return movable


def _modules(graph: ComputationGraph, members: Any, what: str) -> Int64 | None:
    if members is None:
        return None
    ids, names = set[int](), graph.node_names()
    for each in [members] if isinstance(members, str) else as_list(members, what):
        own = (
            [v for v, name in enumerate(names) if fnmatchcase(name, each) or name.startswith(f"{each}.")]
            if isinstance(each, str)
            else []
        )
        ids.update(own or [_node(graph, each, what)])
    return np.array(sorted(ids), np.int64)


def _run_limits(graph: ComputationGraph, max_runs: Any) -> tuple[int | Mapping[str, int] | None, Int32]:
    """Return `max_runs` in the form that is stored, and the maximum runs of each node, int32[n], 0 for no limit."""
    limits = np.zeros(graph.n_nodes, np.int32)
    if max_runs is None:
        return None, limits
    if not isinstance(max_runs, Mapping):
        limits[:] = _runs(max_runs, "")
        return _runs(max_runs, ""), limits
    by_name = dict[str, int]()
    for key, limit in max_runs.items():
        node = _node(graph, key, "max_runs")
        name = graph.labels[node]
        by_name[name] = _runs(limit, f" of {shortened(name)}")
        limits[node] = by_name[name]
    return MappingProxyType(by_name), limits


def _runs(number: Any, whose: str) -> int:
    limit = as_whole(number)
    if limit is None or limit < 1:
        kind = ArgumentTypeError if limit is None else ArgumentError
        raise about(
            "max_runs",
            kind("max_runs{whose!w} is {number!r}; give a whole number, 1 or more", whose=whose, number=number),
        )
    return min(limit, 2**31 - 1)


def _regions(graph: ComputationGraph, regions: Any) -> tuple[dict[str, tuple[tuple[str, ...], int]], Int32, Int64]:
    if not isinstance(regions, Mapping):
        raise ArgumentTypeError(
            "regions has type {kind!w}; give a mapping: {{name: (nodes, limit)}}", kind=type(regions).__name__
        )
    named, region = dict[str, tuple[tuple[str, ...], int]](), np.full(graph.n_nodes, -1, np.int32)
    for k, (name, entry) in enumerate(regions.items()):
        if not isinstance(name, str) or not isinstance(entry, tuple | list) or len(entry) != 2:
            raise ArgumentTypeError(
                'region {name} is {entry!r}; give (nodes, limit), such as ("encoder.*", "4GiB"), under a name',
                name=name,
                entry=entry,
            )
        nodes = _members(graph, entry[0], name)
        twice = region[nodes] >= 0
        if twice.any():
            node = int(nodes[twice.argmax()])
            error = ArgumentError(
                "{node} is in the regions {region} and {other}; keep it in only one of them",
                node=graph.labels[node],
                region=list(regions)[region[node]],
                other=name,
            )
            raise about("regions", error)
        region[nodes] = k
        named[name] = tuple(graph.labels[int(v)] for v in nodes), _bytes(entry[1], f"region {shortened(name)}")
    return named, region, np.array([limit for _, limit in named.values()], np.int64)


def _members(graph: ComputationGraph, members: Any, region: str) -> Int64:
    what = f"region {shortened(region)}"
    if isinstance(members, str):
        names = graph.node_names()
        nodes = [v for v, name in enumerate(names) if fnmatchcase(name, members)]
        if not nodes:
            error = ArgumentError("{what!w}: no node matches {members!r}", what=what, members=members)
            if names:
                error = extended(error, "", "; nodes are called {names!f}", names=names)
            raise about("regions", error)
    else:
        nodes = sorted({_node(graph, name, what) for name in as_list(members, f"nodes of {what}")})
        if not nodes:
            raise ArgumentError("{what!w} has no nodes; name some, or leave it out", what=what)
    return np.array(nodes, np.int64)


def _node(graph: ComputationGraph, name: Any, what: str) -> int:
    try:
        return graph.node_id(name)
    except GraphError as error:
        parameter = "regions" if what.startswith("region ") else what
        raise about(parameter, extended(error, "{what!w}: ", what=what)) from error


def _bytes(amount: Any, what: str) -> int:
    try:
        limit = parse_bytes(amount) if isinstance(amount, str) else as_whole(amount)
    except ArgumentError as error:
        parameter = "regions" if what.startswith("region") else what
        raise about(parameter, extended(error, "{what!w}: ", what=what)) from error
    if limit is None or limit < 0:
        kind = ArgumentTypeError if limit is None else ArgumentError
        raise kind("{what!w} has the limit {amount!r}; give bytes, or text such as 4GiB", what=what, amount=amount)
    return min(limit, LARGEST_SUM)
