"""The smallest arena, by all orders in which buffers can be put down. A buffer is (begin, end, size)."""


def meet(a, b):
    """Whether two buffers are needed at the same step."""
    return a[0] < b[1] and b[0] < a[1]


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


def clashes(buffers, offsets):
    """Pairs that are needed at the same step and share a byte."""
    placed = list(zip(buffers, offsets, strict=True))
    return [
        (i, j)
        for j, (b, o) in enumerate(placed)
        for i, (a, p) in enumerate(placed[:j])
        if meet(a, b) and p < o + b[2] and o < p + a[2]
    ]
