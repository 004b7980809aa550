"""Differentiation: the backward part has one node per pair of a reader and a value that it reads."""

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from remat_algos.arguments import as_whole_number, checked_arguments
from remat_algos.errors import ArgumentTypeError, GraphError, about
from remat_algos.ir.arrays import LARGEST_SUM, Bool, Int32, Int64, gather_rows, join_rows, select_entries
from remat_algos.ir.encode import BITS
from remat_algos.ir.encode import encode as encoded
from remat_algos.ir.graph import ComputationGraph, Derivation
from remat_algos.ir.parts import OF_ALL, ROLES, Backward, GradientNames, Labels, Resident
from remat_algos.kernels.graph import backward_order, backward_reads
from remat_algos.text.amounts import LARGEST_SCALED

PARAMETER = ROLES.index("parameter")
EXACT, COST_DIGITS = 12, 7
"""Maximum significant digits of scaled gradient costs: EXACT for exact costs, COST_DIGITS for rounded ones.

With more digits, a sum of costs and times of copies could exceed the integer range.
"""


@checked_arguments
def differentiate(
    graph: ComputationGraph,
    *,
    factor: float = 2,
    parameter_gradients: bool = False,
    loss: str | Sequence[str] | None = None,
    keep_outputs: bool = False,
    encode: bool | int = False,
) -> ComputationGraph:
    """Add the backward part to a graph.

    One node is added for each node w, from the last to the first, and each differentiable value x that w reads. The
    added node reads the gradients of w's values, the values that w saves for its gradient, and the partial sum of x's
    gradient. It computes the new partial sum. The last node that adds to x's gradient is called `grad(x)`; the others
    are called `grad(x)@w`. The gradient of a loss begins with a seed, a node of cost 0 that reads the loss itself. The
    outputs of the new graph are the gradients that no node reads.

    Parameters
    ----------
    graph : ComputationGraph
        A graph without a backward part. If it has no `backward`, the gradient of a node reads all values that the node
        reads or computes.
    factor : float
        Cost of a node's gradient as a multiple of the node's own cost (about 2, chen2016). It is split evenly over the
        nodes that compute the gradient. Costs without a unit remain integers. If costs have a unit, all costs are
        multiplied by a power of ten if necessary, and so is `labels.compute_scale`.
    parameter_gradients : bool
        If True, residents of role `parameter` get gradients too, and these gradients are outputs.
    loss : str or sequence of str, optional
        Names of the values to differentiate; by default every differentiable output.
    keep_outputs : bool
        If True, the losses remain outputs; by default they may be freed.
    encode : bool or int
        First apply `encode`, which stores feature maps as one bit per element where possible. A number is the bits per
        element of the original values, and True means 32.

    Returns
    -------
    ComputationGraph
        Ids of forward nodes are unchanged. Ids of values are unchanged too, unless values are encoded.

    Raises
    ------
    GraphError
        If the graph already has a backward part, or nothing can be differentiated.

    Examples
    --------
    >>> chain = ComputationGraph.from_edges([("a", "b"), ("b", "c")])
    >>> differentiate(chain).node_names()
    ['a', 'b', 'c', 'grad(c)', 'grad(b)', 'grad(a)']
    """
    if graph.forward_of is not None:
        raise GraphError("the graph already has a backward part; differentiate the original graph")
    if not 0 <= factor < float("inf"):
        raise about("factor", GraphError("factor is {factor}; give a number of 0 or more, such as 2", factor=factor))
    if isinstance(loss, str):
        loss = [loss]
    source = graph
    bits = BITS * bool(encode) if isinstance(encode, bool | np.bool_) else as_whole_number(encode, "encode")
    if bits:
        graph = encoded(graph, bits=bits)
    backward = graph.backward or everything_saved(graph)
    seeds = _seeds(graph, backward, loss)
    sizes = backward.grad_memory if graph.resident is None else _with(backward.grad_memory, graph.resident.memory)
    target, reader = _pairs(graph, backward, seeds, parameter_gradients)
    read_indptr, read_indices, whole = backward_reads(
        target,
        reader,
        value_indptr=graph.value_indptr,
        saved_indptr=backward.saved_indptr,
        saved_indices=backward.saved_indices,
        n_targets=sizes.size,
    )
    costs, finer = _costs(graph, backward, reader, factor)
    unread = np.ones(target.size, bool)
    unread[read_indices[read_indices >= graph.n_values] - graph.n_values] = False
    return ComputationGraph(
        value_indptr=_with(graph.value_indptr, graph.n_values + np.arange(1, target.size + 1)),
        read_indptr=_with(graph.read_indptr, graph.read_indices.size + read_indptr[1:]),
        read_indices=_with(graph.read_indices, read_indices),
        memory=_with(graph.memory, sizes[target]),
        compute=_with(finer * graph.compute, costs),
        workspace=_with(graph.workspace, np.append(backward.grad_workspace, 0)[reader]),
        once=_with(graph.once, np.zeros(target.size, bool)),
        output=_with(graph.output if keep_outputs else graph.output & ~seeds, unread),
        forward_of=_with(np.full(graph.n_nodes, -1, np.int32), _owners(graph, target, reader)),
        resident=_resident(graph.resident, reader),
        mark=_with(graph.mark, np.zeros(target.size, np.int8)) if graph.mark is not None else None,
        derivation=Derivation(source.hash, _options(factor, parameter_gradients, loss, keep_outputs, bits)),
        labels=replace(_labels(graph, target, reader, whole), compute_scale=finer * graph.labels.compute_scale),
    )


def differentiate_as(graph: ComputationGraph, options: Mapping[str, Any]) -> ComputationGraph:
    """Call `differentiate` with options from a file or a table; raise TypeError if an option is unknown."""
    known = [parameter for parameter in inspect.signature(differentiate).parameters if parameter != "graph"]
    if unknown := [name for name in options if name not in known]:
        wrong = "differentiate has no option {unknown!r}; its options are {known!l}"
        raise ArgumentTypeError(wrong, unknown=unknown[0], known=known)
    return differentiate(graph, **options)


def _options(
    factor: float, parameter_gradients: bool, loss: Sequence[str] | None, keep_outputs: bool, bits: int
) -> dict[str, Any]:
    options = {
        "factor": int(factor) if isinstance(factor, int | np.integer) else float(factor),
        "parameter_gradients": bool(parameter_gradients),
        "loss": list(map(str, loss)) if loss is not None else None,
        "keep_outputs": bool(keep_outputs),
    }
    # Omit `encode` if it is off, so that the options equal those in plans saved before the option existed.
    return options | ({"encode": int(bits)} if bits else {})


def gradient_pairs(
    graph: ComputationGraph, *, parameter_gradients: bool = False, loss: str | Sequence[str] | None = None
) -> tuple[Int32, Int32]:
    """Return two int32[g]: target and reader of each gradient node that `differentiate` adds, in id order.

    A target t >= `n_values` is the resident t - `n_values`. The reader of a seed is -1.
    """
    backward = graph.backward or everything_saved(graph)
    seeds = _seeds(graph, backward, [loss] if isinstance(loss, str) else loss)
    return _pairs(graph, backward, seeds, parameter_gradients)


def _pairs(graph: ComputationGraph, backward: Backward, seeds: Bool, parameter_gradients: bool) -> tuple[Int32, Int32]:
    seeded = np.zeros(graph.n_values + len(graph.resident_names), np.uint8)
    seeded[: graph.n_values] = seeds
    targets = _targets(graph, backward, parameter_gradients)
    order: tuple[Int32, Int32] = backward_order(graph.value_indptr, *targets, seeded)
    return order


def everything_saved(graph: ComputationGraph) -> Backward:
    """Return the default gradients, which read everything that their node reads or computes."""
    n = graph.n_nodes
    own = np.arange(graph.n_values, dtype=np.int32)
    saved = join_rows(graph.read_indptr, graph.read_indices, graph.value_indptr, own)
    return Backward(*saved, graph.memory, np.full(n, -1, np.int64), np.zeros(n, np.int64))


def _seeds(graph: ComputationGraph, backward: Backward, loss: Sequence[str] | None) -> Bool:
    has_gradient = backward.grad_memory >= 0
    if loss is None:
        seeds = graph.output & has_gradient
        if not seeds.any():
            raise GraphError("no output has a gradient, so there is nothing to differentiate; name a loss")
        return seeds
    seeds = np.zeros(graph.n_values, bool)
    for name in loss:
        value = graph.value_id(name)
        if not has_gradient[value]:
            raise GraphError("{name!r} has no gradient, so it cannot be a loss", name=name)
        seeds[value] = True
    if not seeds.any():
        raise GraphError("no loss is named, so there is nothing to differentiate; name a loss")
    return seeds


def _targets(graph: ComputationGraph, backward: Backward, parameter_gradients: bool) -> tuple[Int64, Int32]:
    """Return the targets of each node's gradients: values that it reads, then parameters, numbered from `n_values`."""
    has_gradient = (backward.grad_memory >= 0)[graph.read_indices]
    reads = select_entries(graph.read_indptr, graph.read_indices, has_gradient)
    resident = graph.resident
    if not parameter_gradients or resident is None:
        return reads
    is_parameter = (resident.role == PARAMETER)[resident.read_indices]
    indptr, parameters = select_entries(resident.read_indptr, resident.read_indices, is_parameter)
    return join_rows(*reads, indptr, parameters + graph.n_values)


def _owners(graph: ComputationGraph, target: Int32, reader: Int32) -> Int32:
    """Return the owner of each gradient: the producer of a value, the reader of a parameter."""
    owner, of_value = reader.copy(), target < graph.n_values
    owner[of_value] = graph.producer[target[of_value]]
    return owner


def _costs(graph: ComputationGraph, backward: Backward, reader: Int32, factor: float) -> tuple[Int64, int]:
    """Return int64[g], the cost of each gradient node, and the power of ten by which all costs are scaled.

    The cost of a forward node's gradient is split evenly over its gradient nodes. Costs with a unit are scaled until
    each share is an integer or has enough digits. The number of digits does not depend on the unit. The first gradient
    node gets the rounding remainder.
    """
    shares = np.flatnonzero(reader >= 0)
    first = np.flatnonzero(np.diff(reader[shares], prepend=-1))
    count = np.diff(first, append=shares.size).tolist()
    node, times = reader[shares[first]], _ratio(factor)
    p, q = times.numerator, times.denominator
    own = zip(backward.grad_compute[node].tolist(), graph.compute[node].tolist(), strict=True)
    cost = [q * gradient if gradient >= 0 else p * forward for gradient, forward in own]  # in units of 1/q
    if max(cost, default=0) >= q * LARGEST_SUM:
        raise GraphError("factor {factor!r} makes total compute 2**53 or more; give a smaller factor", factor=factor)
    finer = step = 1
    if graph.labels.compute_unit:
        total = int(graph.compute.sum()) - (-sum(cost) // q)
        places = min(_places(cost, count, q), len(str(LARGEST_SCALED // max(1, total))) - 1)
        finer, step = 10 ** max(0, places), 10 ** max(0, -places)
    whole = []
    for each, n in zip(cost, count, strict=True):
        sum_of_parts, beyond = divmod(finer * each, q)
        if beyond:  # half to even, like `round`
            sum_of_parts = step * round(Fraction(finer * each, q * step))
        part = sum_of_parts // (n * step) * step
        whole.append((part, sum_of_parts - n * part))
    share, rest = np.array(whole, np.int64).reshape(-1, 2).T
    compute = np.zeros(reader.size, np.int64)
    compute[shares] = np.repeat(share, count)
    compute[shares[first]] += rest
    return compute, finer


def _places(cost: Sequence[int], count: Sequence[int], q: int) -> int:
    """Return k such that shares 10**k * cost / (q * count) are integers or have at least `COST_DIGITS` digits."""
    positive = [(each, q * n) for each, n in zip(cost, count, strict=True) if each]
    if not positive:
        return 0
    digits = min(len(str(each // n)) if each >= n else 1 - len(str(n // each)) for each, n in positive)
    parts = math.lcm(*{n // math.gcd(each, n) for each, n in positive})
    exact = next((k for k in range(max(0, EXACT - digits) + 1) if 10**k % parts == 0), None)
    return COST_DIGITS - digits if exact is None else exact


def _ratio(factor: float) -> Fraction:
    """Return a simple fraction such as 2/3 if the float approximates one, and otherwise the float's decimal value."""
    printed = Fraction(str(factor))
    near = printed.limit_denominator(10**6)
    return near if abs(near - printed) <= printed / 10**12 else printed


def _labels(graph: ComputationGraph, target: Int32, reader: Int32, whole: Int32) -> Labels:
    last = reader.copy()
    last[whole[whole >= 0]] = OF_ALL
    names, ops = GradientNames(graph.labels, graph.value_indptr, graph.resident_names, target, last), graph.labels.ops
    if ops is not None:
        # The last entry, index -1, is for seeds.
        gradient = [*(f"grad({op})" if op else "" for op in ops), ""]
        ops = (*ops, *(gradient[w] for w in reader.tolist()))
    if not names.distinct:
        _check_names(names, reader)
    return replace(graph.labels, names=names, ops=ops)


def _check_names(names: GradientNames, reader: Int32) -> None:
    labels, all_names = names.labels, list(names)
    used = set(all_names[: names.n_nodes])
    for i, name in enumerate(all_names[names.n_nodes :]):
        if name in used:
            raise GraphError(
                "the gradient {name} clashes with another name; rename {reader!r} or {value!r}",
                name=name,
                reader=labels[reader[i]] if reader[i] >= 0 else "loss",
                value=names.of(i),
            )
        used.add(name)


def _resident(resident: Resident | None, reader: Int32) -> Resident | None:
    if resident is None:
        return None
    indptr, indices = resident.read_indptr, resident.read_indices
    with_seed = np.append(indptr, indptr[-1])  # empty last row for seeds
    read_indptr, read_indices = gather_rows(with_seed, indices, np.append(np.arange(indptr.size - 1), reader))
    return replace(resident, read_indptr=read_indptr, read_indices=read_indices)


def _with(forward: np.ndarray, backward: np.ndarray) -> np.ndarray:
    return np.concatenate([forward, backward])
