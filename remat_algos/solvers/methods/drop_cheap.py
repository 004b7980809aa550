"""Recompute the results of cheap operations (chen2016, section 4.2)."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from remat_algos.context import Clock
from remat_algos.errors import ArgumentError
from remat_algos.ir.arrays import Bool, Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.kinds import kind_name, operation_kind
from remat_algos.solvers.candidate_rows import Recipe, cost_per_byte, longest_row, near, thinned
from remat_algos.solvers.registry import Candidate, Task, solver, training_graph
from remat_algos.wording import comma_separated

# Operations that are kept even if MXNet's own marks allow their recomputation.
MXNET_NEVER = ("Dropout", "DropoutMask")
MXNET_KEEPS = ("Convolution", "Linear", "Concat", "SoftmaxCrossEntropy", *MXNET_NEVER)


@solver(paper="chen2016", needs=training_graph, price=0.01)
def drop_cheap(
    graph: ComputationGraph,
    task: Task,
    clock: Clock,
    *,
    drop: str | Sequence[str] | None = None,
    threshold: float | None = None,
    keep: str = "heavy",
) -> Iterator[Candidate]:
    """Keep values that are expensive to compute; recompute cheap ones, such as batch norm, activations and pooling.

    Convolutions and matrix products are kept. Other operations, including unknown ones, are recomputed if their compute
    per byte is below a threshold; every distinct threshold is tried.

    Parameters
    ----------
    drop : str or sequence of str, optional
        Names of operations, as a sequence or separated by commas. Exactly these operations are recomputed, which gives
        a single plan for any limit. "BatchNorm,ReLU" is "drop bn-relu" in section 5.
    threshold : float, optional
        The threshold, in units of compute per byte. It gives a single plan for any limit.
    keep : {"heavy", "mxnet"}
        "mxnet" keeps the nodes that the mirror option of MXNet keeps: convolutions, fully connected layers,
        concatenations, the softmax of the loss, dropout, and nodes marked to be kept. It gives a single plan for any
        limit. This is the baseline "Mirror" of echo2020. Early versions of MXNet also kept batch norm. A ResNet-152
        then needs as much memory as without rematerialization, but the baseline in the paper saves a quarter.

    References
    ----------
    chen2016, section 4.2; echo2020, section VI, for "mxnet".
    """
    return near(graph, [_row(graph, drop, threshold, keep)], task.limit, clock)


def _row(graph: ComputationGraph, drop: str | Sequence[str] | None, threshold: float | None, keep: str) -> list[Recipe]:
    _check(drop, threshold, keep)
    if drop is not None:
        kinds = _kinds(graph, drop)
        return [(partial(_counts, _of_kinds(graph, kinds.__contains__)), {"drop": ",".join(kinds)})]
    if keep == "mxnet":
        _operations(graph, "keep", keep)
        return [(partial(_counts, _of_kinds(graph, lambda kind: kind not in MXNET_KEEPS)), {"keep": keep})]
    light, cost = _of_kinds(graph, _is_light), cost_per_byte(graph)
    if threshold is not None:
        return [(partial(_counts, light, cost, float(threshold)), {"threshold": float(threshold)})]
    costs = np.unique(cost[light & np.isfinite(cost)]).tolist()
    # The first threshold recomputes no node; the last recomputes every light node that has bytes.
    swept = thinned([*costs, math.inf], longest_row(graph))
    return [(partial(_counts, light, cost, t), {"threshold": t if t < math.inf else None}) for t in swept]


def _counts(dropped: Bool, cost: NDArray[np.float64] | None = None, threshold: float = math.inf) -> Int64:
    """Return mirror counts, int64[n]: 1 for dropped nodes. With `cost`, only those below the threshold get 1."""
    return (dropped if cost is None else dropped & (cost < threshold)).astype(np.int64)


def _check(drop: str | Sequence[str] | None, threshold: float | None, keep: str) -> None:
    if keep not in ("heavy", "mxnet"):
        raise ArgumentError("keep is {keep!r}; use heavy or mxnet", keep=keep)
    choices = {"drop": drop is not None, "threshold": threshold is not None, f"keep={keep}": keep != "heavy"}
    several = [name for name, is_chosen in choices.items() if is_chosen]
    if len(several) > 1:
        raise ArgumentError(
            "{one} alone determines which nodes are dropped; leave out {other}", one=several[0], other=several[1]
        )
    if threshold is not None:
        try:
            sound = not isinstance(threshold, bool) and 0 <= float(threshold) < math.inf
        except (TypeError, ValueError):
            sound = False
        if not sound:
            raise ArgumentError(
                "threshold is {threshold!r}; give units of compute per byte, 0 or more", threshold=threshold
            )


def _of_kinds(graph: ComputationGraph, is_one: Callable[[str], bool]) -> Bool:
    """Mark the needed forward nodes whose kind of operation satisfies `is_one`, bool[n]."""
    ops = graph.labels.ops or ("",) * graph.n_nodes
    answers = {op: is_one(kind_name(op)) for op in set(ops)}
    return graph.forward & graph.needed & np.fromiter((answers[op] for op in ops), bool, graph.n_nodes)


def _is_light(kind: str) -> bool:
    known = operation_kind(kind)
    return known is None or not known.heavy


def _operations(graph: ComputationGraph, option: str, wish: str) -> list[str]:
    ops = [graph.labels.op(int(v)) for v in np.flatnonzero(graph.forward)]
    kinds = [kind_name(op) for op in ops if op]
    if not kinds:
        raise ArgumentError(
            "{option} is {wish!r}, which needs operation names, but the graph has none; give a threshold",
            option=option,
            wish=wish,
        )
    return sorted(set(kinds), key=lambda kind: (-kinds.count(kind), kind))


def _kinds(graph: ComputationGraph, drop: str | Sequence[str]) -> list[str]:
    names = comma_separated(drop)
    if not names:
        raise ArgumentError("drop is {drop!r}, which names no operation; give names, or leave it out", drop=drop)
    there = _operations(graph, "drop", ",".join(names))
    for name in names:
        if operation_kind(name) is None and name not in there:
            raise ArgumentError(
                "drop names {name!r}, which is not an operation of this graph; its operations are {there!l}",
                name=name,
                there=there,
            )
    return list(dict.fromkeys(map(kind_name, names)))
