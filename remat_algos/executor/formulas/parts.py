"""Parts of tensors, tensors behind one another, other shapes."""

from __future__ import annotations

from collections.abc import Sequence

from remat_algos.executor.formulas.formula import Array, Call, Formula, Seen
from remat_algos.models.network import Shape

Cut = tuple[slice, ...]


def _concat(call: Call, *parts: Array) -> Array:
    return call.xp.concatenate(parts, axis=call.option("axis", 1))


def _concat_gradient(call: Call, k: int, reads: Seen, values: Seen, gradients: Sequence[Array]) -> Array:
    axis = call.option("axis", 1)
    begin = sum(call.shape(i)[axis] for i in range(k))
    return gradients[0][(slice(None),) * axis + (slice(begin, begin + call.shape(k)[axis]),)]


# ---------------------------------------------------------------- slices


def _cuts(call: Call) -> list[tuple[Cut, Cut]]:
    """Which part of x goes where in each value: equal parts, the middle of an image, or each n-th pixel of it.

    Channels that the value has beyond those of x are zeros, half of them in front.
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
    made = []
    for (taken, into), shape in zip(_cuts(call), call.layer.shapes, strict=True):
        out = call.xp.zeros(shape, x.dtype)
        out[into] = x[taken]
        made.append(out)
    return tuple(made)


def _slice_gradient(call: Call, k: int, reads: Seen, values: Seen, gradients: Sequence[Array | None]) -> Array:
    dtype = next(given.dtype for given in gradients if given is not None)
    out = call.xp.zeros(call.shape(0), dtype)
    for (taken, into), given in zip(_cuts(call), gradients, strict=True):
        if given is not None:
            out[taken] = given[into]
    return out


def _slice_refusal(call: Call) -> str | None:
    if len(call.layer.arguments) > 1:
        return "takes rows by places that are values"
    before, after = call.shape(0), call.layer.shapes[0]
    if len(before) != len(after) or (before[0] != after[0] and len(call.layer.shapes) == 1):
        return f"cuts {after} out of {before}, which does not say where"
    return None


# ---------------------------------------------------------------- other shapes


def _heads_parted(before: Shape, after: Shape) -> bool:
    """Whether (batch, rows, width) becomes (batch, heads, rows, size)."""
    return len(before) == 3 and len(after) == 4 and before == (after[0], after[2], after[1] * after[3])


def _copied(x: Array, after: Shape) -> Array:
    """In another shape: heads are parted or joined, else elements stand in the same order."""
    if _heads_parted(x.shape, after):
        return x.reshape(*x.shape[:2], after[1], after[3]).swapaxes(1, 2)
    if _heads_parted(after, x.shape):
        return x.swapaxes(1, 2).reshape(after)
    return x.reshape(after)


PARTS = {
    "Concat": Formula(_concat, _concat_gradient),
    "Slice": Formula(_slice, _slice_gradient, _slice_refusal),
    "Reshape": Formula(
        lambda call, x: x.reshape(call.layer.shapes[0]),
        lambda call, k, reads, values, gradients: gradients[0].reshape(call.shape(0)),
    ),
    "Copy": Formula(
        lambda call, x: _copied(x, call.layer.shapes[0]),
        lambda call, k, reads, values, gradients: _copied(gradients[0], call.shape(0)),
    ),
}
