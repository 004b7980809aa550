"""In-place updates: a value that a node computes may overwrite a value that the node reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from remat_algos.arguments import as_text, checked_arguments
from remat_algos.errors import AllocationError, GraphError
from remat_algos.ir.arrays import Bool, Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.kinds import operation_kind
from remat_algos.kernels.offsets import written_over
from remat_algos.schedule.simulation import Simulation, check_simulation
from remat_algos.wording import did_you_mean

InPlaceTable = Mapping[str, int | Sequence[int] | str | None]
"""Maps an operation to the index of the input that its first value may overwrite, to several indices in order of
preference, or to None if it must not work in place. Maps the name of a value to the name of the value that it must
overwrite."""


@checked_arguments
def find_overwrites(simulation: Simulation, table: InPlaceTable | None = None) -> Int64:
    """Find the earlier instance that each instance overwrites in place, or -1 (chen2016).

    A node whose operation may work in place overwrites a value that it reads if no later step reads that value, and if
    the new value has the same size and is used. If several values qualify, the first is overwritten. Outputs and values
    that are copied to the host are never overwritten. A partial sum of a gradient overwrites the previous one.

    Parameters
    ----------
    simulation : Simulation
    table : mapping of str to int, tuple of int, str or None
        Overrides of the built-in rules. An operation, such as "Multiply" or its gradient "grad(Multiply)", maps to the
        index, from 0, of the input that its first value may overwrite, to several indices in order of preference, or to
        None if it must not work in place. The name of a value maps to the name of the value that it must overwrite.

    Returns
    -------
    int64[n_instances]
        The overwritten instance of each instance, or -1.

    Raises
    ------
    AllocationError
        If a name in the table is unknown, if none of an operation's nodes has an input with the index in the table, or
        if a value that must be overwritten is read later.
    TypeError
        If `simulation` is not a Simulation. For a plan, pass `plan.simulation`.

    References
    ----------
    chen2016, section 3; pairs are tried in the order of NNVM's planner.

    Examples
    --------
    The sum overwrites its first read, which nothing else reads, unless the table lists the other read first.

    >>> from remat_algos.ir.parts import Labels
    >>> from remat_algos.schedule.simulation import simulate
    >>> labels = Labels(("conv", "relu", "sum"), ops=("Convolution", "ReLU", "Add"))
    >>> graph = ComputationGraph.from_arrays(read_indptr=[0, 0, 1, 3], read_indices=[0, 1, 0], labels=labels)
    >>> simulation = simulate(graph, [0, 1, 2])
    >>> find_overwrites(simulation).tolist(), find_overwrites(simulation, {"Add": (1, 0)}).tolist()
    ([-1, -1, 1], [-1, -1, 0])
    """
    check_simulation(simulation)
    graph, lifetimes, order = simulation.graph, simulation.lifetimes, simulation.schedule.order
    written, read, demanded = _pairs(graph, table or {})
    # A copy to the host may end after the last read of the instance.
    stored = np.zeros(lifetimes.value.size, np.uint8)
    stored[simulation.store_instances[0]] = 1
    over: Int64
    over, step, pair = written_over(
        graph.arrays,
        order,
        instance_indptr=lifetimes.instance_indptr,
        value=lifetimes.value,
        end=lifetimes.end,
        stored=stored,
        pair_indptr=np.searchsorted(graph.producer[written], np.arange(graph.n_nodes + 1)),
        output_value=written,
        read=read,
        demanded=demanded.view(np.uint8),
    )
    if step >= 0:
        raise _impossible(simulation, step, int(written[pair]), int(read[pair]))
    return over


def _pairs(graph: ComputationGraph, table: InPlaceTable) -> tuple[Int64, Int64, Bool]:
    """Return pairs (value, input that it may overwrite) and flags for required pairs, which come first per node."""
    for name in table:
        as_text(name, "a name in the in-place table")
    demands = [_demand(graph, written, read) for written, read in table.items() if isinstance(read, str)]
    allowed = {op: places for op, places in table.items() if not isinstance(places, str)}
    groups = (np.array(demands, np.int64).reshape(-1, 2), _sums(graph), _operations(graph, allowed))
    written, read = np.concatenate(groups).T
    kind = np.repeat(np.arange(len(groups)), [len(pairs) for pairs in groups])
    order = np.lexsort((kind, graph.producer[written]))
    return written[order], read[order], kind[order] == 0


def _demand(graph: ComputationGraph, written: str, read: str) -> tuple[int, int]:
    try:
        y, x = graph.value_id(written), graph.value_id(read)
    except GraphError as error:
        raise AllocationError("the in-place table names an unknown value: {error!w}", error=error) from error
    node = int(graph.producer[y])
    if x not in graph.reads(node):
        raise AllocationError(
            "{written!w} cannot overwrite {read!w}, which {name} does not read",
            written=written,
            read=read,
            name=graph.labels[node],
        )
    if graph.memory[y] != graph.memory[x]:
        raise AllocationError(
            "{written!w} cannot overwrite {read!w}; they have {size} and {read_size} bytes, but must have the "
            "same size",
            written=written,
            read=read,
            size=graph.memory[y],
            read_size=graph.memory[x],
        )
    return y, x


def _sums(graph: ComputationGraph) -> Int64:
    """Return (new sum, previous sum) for each addition to a gradient that `differentiate` inserts.

    The addition reads a gradient first and the previous sum last. In a sum for a value, only the previous sum has the
    same owner as the new sum. In a sum for a parameter, only the gradient has that owner.
    """
    owner = graph.forward_of
    if owner is None:
        return np.empty((0, 2), np.int64)
    node = np.flatnonzero((np.diff(graph.read_indptr) > 1) & (owner >= 0))
    first, last = (graph.read_indices[graph.read_indptr[node + at] - at] for at in (0, 1))
    producers = graph.producer[first], graph.producer[last]
    of_first, of_last = (owner[producer] for producer in producers)
    is_sum = (of_first >= 0) & (of_last >= 0) & ((of_first == owner[node]) != (of_last == owner[node]))
    return np.stack([graph.value_indptr[node], last], axis=1)[is_sum]


def _operations(graph: ComputationGraph, table: Mapping[str, int | Sequence[int] | None]) -> Int64:
    """Return (first value, input) for each node whose operation may work in place, in order of preference."""
    ops, n_reads = graph.labels.ops or (), np.diff(graph.read_indptr)
    explicit = {_plain(name): _places(name, places) for name, places in table.items()}
    if explicit:
        _check_operations(table, explicit, ops, n_reads.tolist())
    places_of = {op: _places_of(op, explicit) for op in set(ops)}
    rows = [(node, place) for node, op in enumerate(ops) for place in places_of[op]]
    node, place = np.array(rows, np.int64).reshape(-1, 2).T
    valid = place < n_reads[node]
    node, place = node[valid], place[valid]
    return np.stack([graph.value_indptr[node], graph.read_indices[graph.read_indptr[node] + place]], axis=1)


def _places_of(op: str, explicit: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    name = _plain(op)
    if name in explicit:
        return explicit[name]
    inner = _differentiated(name)
    kind = operation_kind(inner or name)
    return () if kind is None else kind.gradient_places if inner else kind.in_place


def _places(name: str, entry: int | Sequence[int] | None) -> tuple[int, ...]:
    places = () if entry is None else tuple(entry) if isinstance(entry, tuple | list) else (entry,)
    for place in places:
        if isinstance(place, bool) or not isinstance(place, int | np.integer) or place < 0:
            raise AllocationError(
                "the in-place table gives {place!w} for {name!r}; give the index of an input of the operation, from 0",
                place=place,
                name=name,
            )
    return places


def _plain(op: str) -> str:
    inner = _differentiated(op)
    kind = operation_kind(inner or op)
    return op if kind is None else f"grad({kind.name})" if inner else kind.name


def _differentiated(op: str) -> str:
    """Return "ReLU" for "grad(ReLU)"; an empty string if the operation is not a gradient."""
    return op[5:-1] if op.startswith("grad(") and op.endswith(")") else ""


def _check_operations(
    table: Iterable[str], explicit: Mapping[str, tuple[int, ...]], ops: Sequence[str], n_reads: Sequence[int]
) -> None:
    """Raise AllocationError for an unknown operation, or an index beyond the inputs of all its nodes."""
    max_reads: dict[str, int] = {}
    for op, count in zip(ops, n_reads, strict=False):
        max_reads[op] = max(max_reads.get(op, 0), count)
    for name in table:
        if name not in max_reads and operation_kind(_differentiated(name) or name) is None:
            near = did_you_mean(name, max_reads, 1)
            raise AllocationError(
                "the in-place table names {name!r}, which is not an operation of the graph{near!w}",
                name=name,
                near=near,
            )
        plain = _plain(name)
        counts = [count for op, count in max_reads.items() if _plain(op) == plain]
        if counts and max(explicit[plain], default=-1) >= max(counts):
            remedy = "give an index below {n_reads}" if max(counts) else "leave it out"
            raise AllocationError(
                "the in-place table gives {place} for {name!r}, which has at most {n_reads:read}; " + remedy,
                place=max(explicit[plain]),
                name=name,
                n_reads=max(counts),
            )


def _impossible(simulation: Simulation, step: int, written: int, read: int) -> AllocationError:
    graph, order = simulation.graph, simulation.schedule.order
    y, x = graph.value_name(written), graph.value_name(read)
    if graph.output[read]:
        return AllocationError(
            "{written} cannot overwrite {read}, an output, which stays live to the end; leave the pair out",
            written=y,
            read=x,
        )
    lifetimes = simulation.lifetimes
    instance = np.flatnonzero((lifetimes.value == read) & (lifetimes.made_at <= step))[-1]
    for later in range(step + 1, int(lifetimes.end[instance])):
        if read in graph.reads(int(order[later])):
            return AllocationError(
                "{written} cannot overwrite {read} at step {step}: {reader} reads it at step {later}; leave the "
                "pair out",
                written=y,
                read=x,
                step=step,
                reader=graph.labels[int(order[later])],
                later=later,
            )
    if read in simulation.stores:
        return AllocationError(
            "{written} cannot overwrite {read} at step {step}, since it is copied to the host; leave the pair out",
            written=y,
            read=x,
            step=step,
        )
    return AllocationError(
        "{written} cannot overwrite {read}, which another value also overwrites; leave one of them out",
        written=y,
        read=x,
    )
