"""The smallest arena, by all orders in which buffers can be put down. A buffer is (begin, end, size)."""


def meet(a, b):
    """Whether two buffers are needed at the same step."""
    return a[0] < b[1] and b[0] < a[1]


def share(a, p, b, o):
    """Whether buffers at offsets p and o share a byte at a step."""
    return meet(a, b) and max(p, o) < min(p + a[2], o + b[2])


def lowest(buffer, placed):
    """The lowest offset at which a buffer is apart from those that have one."""
    taken = [(o, o + b[2]) for b, o in placed if meet(b, buffer)]
    tops = sorted({0, *(top for _, top in taken)})
    return next(o for o in tops if all(o + buffer[2] <= low or o >= top for low, top in taken))


def fits(buffers, capacity, placed=(), last=0):
    """Whether all can be put down within a capacity, in some order: each on top of all that it meets, none lower than
    the one before it."""
    offsets = [max((o + b[2] for b, o in placed if meet(b, buffer)), default=0) for buffer in buffers]
    if any(offset + buffer[2] > capacity for buffer, offset in zip(buffers, offsets, strict=True)):
        return False  # later it could only lie higher
    for i, (buffer, offset) in enumerate(zip(buffers, offsets, strict=True)):
        rest = buffers[:i] + buffers[i + 1 :]
        if offset >= last and fits(rest, capacity, (*placed, (buffer, offset)), offset):
            return True
    return not buffers


def least_arena(buffers):
    """Bytes of the smallest arena: let all fall there as far as they can, and put them down in the order of their
    offsets."""
    return next(size for size in range(max_live(buffers), sum(b[2] for b in buffers) + 1) if fits(buffers, size))


def max_live(buffers):
    """Bytes needed at the worst step."""
    return max((sum(b[2] for b in buffers if b[0] <= step < b[1]) for step, _, _ in buffers), default=0)


def placements(buffer, capacities, fixed):
    """All (arena, offset) of a buffer; `fixed` is (arena, offset), -1 for any, and a fixed offset is in arena 0."""
    own, at = fixed
    own = 0 if own < 0 <= at else own
    return [
        (arena, offset)
        for arena, capacity in enumerate(capacities)
        for offset in range(capacity - buffer[2] + 1)
        if own in (-1, arena) and at in (-1, offset)
    ]


def split(buffers, capacities, fixed, placed=()):
    """Whether all buffers can be placed in arenas of given capacities, trying every byte of each."""
    if len(placed) == len(buffers):
        return True
    buffer = buffers[len(placed)]
    return any(
        split(buffers, capacities, fixed, (*placed, (arena, offset)))
        for arena, offset in placements(buffer, capacities, fixed[len(placed)])
        if not any(
            arena == other and share(buffer, offset, b, low) for b, (other, low) in zip(buffers, placed, strict=False)
        )
    )


def least_arena_around(buffers, offsets):
    """Bytes of the smallest arena in which buffers lie at these offsets, -1 for any."""
    fixed = [(0, offset) for offset in offsets]
    most = sum(b[2] for b in buffers) + max(offsets, default=0) + 1
    return next(size for size in range(most + 1) if split(buffers, [size], fixed))


def clashes(buffers, offsets):
    """Pairs that are needed at the same step and share a byte."""
    placed = list(zip(buffers, offsets, strict=True))
    return [(i, j) for j, (b, o) in enumerate(placed) for i, (a, p) in enumerate(placed[:j]) if share(a, p, b, o)]
