"""Slices, concatenations and other shapes of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from remat_algos.zoo.network import Shape

from .experts import ROUTED_SLICE, is_routed
from .formula import Array, Call, Formula, Readable, either

Cut = tuple[slice, ...]


def _concat(call: Call, *parts: Array) -> Array:
    return call.xp.concatenate(parts, axis=call.option("axis", 1))


def _concat_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    axis = call.option("axis", 1)
    begin = sum(call.shape(i)[axis] for i in range(k))
    return gradients[0][(slice(None),) * axis + (slice(begin, begin + call.shape(k)[axis]),)]


# ---------------------------------------------------------------- slices


def _cuts(call: Call) -> list[tuple[Cut, Cut]]:
    """Pairs (target, source) of slices, one per value: equal parts, the middle of an image, or every n-th pixel.

    Channels of the value beyond those of x are zeros, half of them in front.
    """
    before, shapes = call.shape(0), call.layer.shapes
    if len(shapes) > 1:
        axis = call.option("axis", len(before) - 1)
        size, rest = shapes[0][axis], (slice(None),) * axis
        return [((*rest, slice(j * size, (j + 1) * size)), ()) for j in range(len(shapes))]
    after = shapes[0]
    if after[1] == before[1]:  # a crop
        edges = [(n - m) // 2 for n, m in zip(before, after, strict=True)]
        return [(tuple(slice(e, e + m) for e, m in zip(edges, after, strict=True)), ())]
    steps = [slice(None, None, -(-n // m)) for n, m in zip(before[2:], after[2:], strict=True)]
    front = (after[1] - before[1]) // 2
    return [((slice(None), slice(None), *steps), (slice(None), slice(front, front + before[1])))]


def _slice(call: Call, x: Array) -> tuple[Array, ...]:
    parts = []
    for (source, target), shape in zip(_cuts(call), call.layer.shapes, strict=True):
        out = call.xp.zeros(shape, x.dtype)
        out[target] = x[source]
        parts.append(out)
    return tuple(parts)


def _slice_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array | None]) -> Array:
    dtype = next(upstream.dtype for upstream in gradients if upstream is not None)
    out = call.xp.zeros(call.shape(0), dtype)
    for (source, target), upstream in zip(_cuts(call), gradients, strict=True):
        if upstream is not None:
            out[source] = upstream[target]
    return out


def _slice_refusal(call: Call) -> str | None:
    if len(call.layer.arguments) > 1:
        return "takes rows by places that are values"
    before, after = call.shape(0), call.layer.shapes[0]
    if len(before) != len(after) or (before[0] != after[0] and len(call.layer.shapes) == 1):
        return f"cuts {after} out of {before}, which does not say where"
    return None


# ---------------------------------------------------------------- other shapes


def _permutation(before: Shape, after: Shape) -> tuple[Shape, Shape]:
    """Return the shape to which a copy reshapes its read, and the order in which it then writes the axes.

    A copy splits or joins attention heads, moves channels after or before the pixels, or moves the last axis to the
    front, also joined with the rows; any other copy keeps the order of the elements.
    """
    rank, last = len(before), (len(before) - 1, *range(len(before) - 1))
    if before == after or rank < 3:
        return before, tuple(range(rank))
    if rank == 3 and len(after) == 4:
        if before == (after[0], after[2], after[1] * after[3]):
            return (*before[:2], after[1], after[3]), (0, 2, 1, 3)
        if before == (after[0], after[2] * after[3], after[1]):
            return (after[0], *after[2:], after[1]), (0, 3, 1, 2)
    if rank == 4 and after == (before[0], before[2], before[1] * before[3]):
        return before, (0, 2, 1, 3)
    if rank == 4 and after == (before[0], before[2] * before[3], before[1]):
        return before, (0, 2, 3, 1)
    if after in ((before[-1], *before[:-1]), (before[-1] * before[0], prod(before[1:-1]))):
        return before, last
    return before, tuple(range(rank))


def _copy(call: Call, x: Array) -> Array:
    seen, axes = _permutation(call.shape(0), call.layer.shapes[0])
    return x.reshape(seen).transpose(axes).reshape(call.layer.shapes[0])


def _copy_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    seen, axes = _permutation(call.shape(0), call.layer.shapes[0])
    back = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    return gradients[0].reshape([seen[axis] for axis in axes]).transpose(back).reshape(call.shape(0))


FORMULAS = {
    "Concat": Formula(_concat, _concat_gradient),
    "Slice": either(is_routed, ROUTED_SLICE, Formula(_slice, _slice_gradient, _slice_refusal)),
    "Reshape": Formula(
        lambda call, x: x.reshape(call.layer.shapes[0]),
        lambda call, k, reads, values, gradients: gradients[0].reshape(call.shape(0)),
    ),
    "Copy": Formula(_copy, _copy_gradient),
}
