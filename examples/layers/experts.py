"""Mixtures of experts: rows choose experts, go to them, and gather their results.

The slot of a row is `turn * experts + expert`: the row is number `turn` of the expert, counted from 0. First choices
come before second ones, each in the order of the rows. An expert has room for a number of rows; the rows behind them
get nothing from it and give nothing back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .formula import Array, Call, Formula, Readable, onehot

SLOT_DTYPE = "int32"


def is_routed(call: Call) -> bool:
    """True if an operation is routed: its last read is the slots that `Route` computed."""
    return call.layer.arguments[-1].dtype == SLOT_DTYPE


def _route(call: Call, probabilities: Array) -> Array:
    """Return the slots of the most probable experts, in the order of the rows; ties go to the first expert."""
    xp, (rows, experts) = call.xp, probabilities.shape
    chosen = call.layer.shapes[0][1]
    best = xp.argsort(-probabilities, axis=-1, kind="stable")[:, :chosen]
    in_turn = best.T.reshape(-1)  # all first choices, then all second ones
    mine = onehot(xp, in_turn, experts).astype(xp.int64)
    turn = (xp.cumsum(mine, axis=0) * mine).sum(axis=-1) - 1
    return (turn * experts + in_turn).reshape(chosen, rows).T.astype(SLOT_DTYPE)


# ---------------------------------------------------------------- to the experts and back


def _dispatch(xp: Any, rows: Array, slots: Array, expert: int, experts: int, room: int) -> Array:
    """(room, width) from (rows, chosen, width): the rows of an expert, zeros in free places."""
    at = xp.where(slots % experts == expert, xp.minimum(slots // experts, room), room)
    out = xp.zeros((room + 1, rows.shape[-1]), rows.dtype)  # the extra row collects rows of other experts
    out[at] = rows
    return out[:room]


def _combine(xp: Any, parts: Sequence[Array], slots: Array) -> Array:
    """(rows, chosen, width): the results of each row from its experts, zeros where there was no room."""
    experts, room = len(parts), parts[0].shape[0]
    turn = slots // experts
    at = xp.where(turn < room, slots % experts * room + turn, experts * room)  # else the zeros behind all
    return xp.concatenate([*parts, xp.zeros((1, parts[0].shape[1]), parts[0].dtype)], axis=0)[at]


def _spread(xp: Any, rows: Array, slots: Array) -> Array:
    """Repeat each row for each expert that it chose."""
    return xp.broadcast_to(rows[:, None], (*slots.shape, rows.shape[-1]))


# ---------------------------------------------------------------- three slices


def _gathers(call: Call) -> bool:
    """True if the slice gathers (rows, chosen, width) from the rows of all experts."""
    return len(call.layer.shapes[0]) == 3


def _sends(call: Call) -> bool:
    """True if the slice sends (room, width) rows to each expert; else it takes probabilities of chosen experts."""
    return len(call.layer.shapes) > 1 or call.layer.shapes[0] != call.layer.arguments[-1].shape


def _slice(call: Call, *arguments: Array) -> Any:
    xp, (*parts, slots) = call.xp, arguments
    if _gathers(call):
        return _combine(xp, parts, slots)
    if not _sends(call):
        return parts[0][xp.arange(slots.shape[0])[:, None], slots % parts[0].shape[1]]
    rows, experts, room = _spread(xp, parts[0], slots), len(call.layer.shapes), call.layer.shapes[0][0]
    return tuple(_dispatch(xp, rows, slots, expert, experts, room) for expert in range(experts))


def _slice_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array | None]) -> Array:
    xp, slots = call.xp, reads[len(reads) - 1]
    upstream = [
        xp.zeros(shape, next(g.dtype for g in gradients if g is not None)) if gradient is None else gradient
        for gradient, shape in zip(gradients, call.layer.shapes, strict=True)
    ]
    if _gathers(call):
        return _dispatch(xp, upstream[0], slots, k, len(reads) - 1, call.shape(k)[0])
    if _sends(call):
        return _combine(xp, upstream, slots).sum(axis=1)
    experts = call.shape(0)[1]
    return xp.where(onehot(xp, slots % experts, experts), upstream[0][..., None], 0).sum(axis=1)


def _slice_refusal(call: Call) -> str | None:
    *parts, slots = (x.shape for x in call.layer.arguments)
    fits = len(slots) == 2 and parts and all(len(shape) == 2 for shape in parts)
    return None if fits and (len(parts) == 1 or _gathers(call)) else "takes by slots, but not rows of tables"


# ---------------------------------------------------------------- how busy experts are


def _load(call: Call, slots: Array) -> Array:
    """Share of the rows that chose each expert, with or without room for them."""
    experts = call.layer.shapes[0][0]
    count = onehot(call.xp, slots.reshape(-1) % experts, experts).sum(axis=0)
    return (count / slots.shape[0]).astype(call.layer.dtypes[0])


ROUTED_SLICE = Formula(_slice, _slice_gradient, _slice_refusal)
ROUTED_SUM = Formula(_load, None)
"""Formulas of a `Slice` and a `Sum` that read the slots of `Route`."""

FORMULAS = {
    "Route": Formula(_route, None),
}
