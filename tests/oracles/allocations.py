"""Memory as dictionaries: who holds what, step by step."""

import itertools

from tests.oracles.plain import integers, plain
from tests.oracles.simulation import lifetimes, serving_run

# ---------------------------------------------------------------- buffers


def intervals(buffers):
    """(begin, end, size, over) of each, in plain numbers."""
    return list(zip(*(integers(getattr(buffers, field)) for field in ("begin", "end", "size", "over")), strict=True))


def holders(rows, step):
    """Buffers that need their bytes at a step; what is written over at it has handed them on."""
    live = [i for i, (begin, end, _, _) in enumerate(rows) if begin <= step < end]
    handed_on = {rows[i][3] for i in live if rows[i][0] == step}
    return [i for i in live if i not in handed_on]


def steps(rows):
    return range(max((end for _, end, _, _ in rows), default=0))


def max_live(buffers):
    rows = intervals(buffers)
    return max((sum(rows[i][2] for i in holders(rows, step)) for step in steps(rows)), default=0)


def faults(buffers, offset, size, alignment=1):
    """What is wrong with addresses: kinds of faults, looked for byte by byte."""
    rows, offset, found = intervals(buffers), integers(offset), set()
    for i, (_, _, length, under) in enumerate(rows):
        if offset[i] < 0 or offset[i] + length > size:
            found.add("outside")
        if offset[i] % alignment:
            found.add("askew")
        if under >= 0 and offset[under] != offset[i]:
            found.add("elsewhere")
    for step in steps(rows):
        taken = [byte for i in holders(rows, step) for byte in range(offset[i], offset[i] + rows[i][2])]
        if len(set(taken)) < len(taken):
            found.add("overlap")
    return found


def conflict(rows, i, j):
    return any(i in held and j in held for held in (holders(rows, step) for step in steps(rows)))


# ---------------------------------------------------------------- schedules


class Spoilt(Exception):
    """A step reads a value, or the schedule leaves an output, that something else was written over."""


def play(graph, order, places, over):
    """Run a schedule in memory whose cells remember the instance that was written to them last.

    `places` has the cells of each instance, in the order of `lifetimes`, then those of the workspaces, step by step;
    `over` has the instance that each may be written over.
    """
    g, order, over = plain(graph), integers(order), integers(over)
    lives = lifetimes(g, order)
    instance = {(step, x): i for i, (step, x, _) in enumerate(lives)}
    memory, spaces = {}, iter(places[len(lives) :])

    def check(i):
        if any(memory[cell] != i for cell in places[i]):
            raise Spoilt(lives[i])

    for step, node in enumerate(order):
        read = [instance[serving_run(g, order, step, x), x] for x in g.reads[node]]
        made = [instance[step, x] for x in g.values[node]]
        for i in read:
            check(i)
        written = [(i, places[i]) for i in made] + [("workspace", next(spaces)) for _ in range(g.workspace[node] > 0)]
        memory |= {cell: who for who, own in written for cell in own}
        # all of them are there while the node runs, but for what one of its values takes the place of
        for i in [*made, *read]:
            if not any(over[j] == i for j in made):
                check(i)
    for i, (step, x, _) in enumerate(lives):
        if x in g.outputs and step == order.index(g.producer[x]):
            check(i)


def one_cell_each(over, n_workspaces):
    """The places for `play` where an instance has a cell of its own or takes that of another one."""
    cells = []
    for i, under in enumerate(integers(over)):
        cells.append({i} if under < 0 else cells[under])
    return cells + [{("workspace", k)} for k in range(n_workspaces)]


# ---------------------------------------------------------------- NNVM's planner


def planned(graph, order, match_range, pairs):
    """Blocks by counters, as NNVM's planner makes them: (members of each, bytes of each).

    `pairs(node)` has places of (own value, read) that the node may work in place on. Workspaces are no part of it.
    """
    g, order = plain(graph), integers(order)
    lives = lifetimes(g, order)
    instance = {(step, x): i for i, (step, x, _) in enumerate(lives)}
    reads = [[instance[serving_run(g, order, s, x), x] for x in g.reads[v]] for s, v in enumerate(order)]
    makes = [[instance[s, x] for x in g.values[v]] for s, v in enumerate(order)]
    size = [g.memory[x] for _, x, _ in lives]
    ref = [sum(i in row for row in reads) for i in range(len(lives))]
    for i, (step, x, _) in enumerate(lives):
        ref[i] += x in g.outputs and step == order.index(g.producer[x])
    block, count, length, members, free = {}, [], [], [], []
    for step, node in enumerate(order):
        taken = set()
        for k, r in pairs(node):
            i, under = makes[step][k], reads[step][r]
            alone = i not in block and under not in taken and count[block[under]] == 1
            if alone and ref[i] > 0 and size[i] == size[under] > 0:
                block[i] = block[under]
                count[block[i]] += ref[i]
                members[block[i]].append(i)
                taken.add(under)
        for i in sorted((i for i in makes[step] if i not in block), key=lambda i: -size[i]):
            block[i] = request(size[i], match_range, free, length)
            if block[i] == len(members):
                members.append([])
                count.append(0)
            members[block[i]].append(i)
            count[block[i]] = ref[i]
        for i in reads[step]:
            count[block[i]] -= 1
            if count[block[i]] == 0:
                free.append(block[i])
        free += [block[i] for i in makes[step] if ref[i] == 0]
    return members, length


def request(size, match_range, free, length):
    """A block of so many bytes: a free one, which may grow, or a new one. `free` is in the order of coming back."""
    usable = free if match_range else []
    larger = [b for b in usable if size <= length[b] <= size * match_range]
    smaller = [b for b in usable if size // match_range <= length[b] < size]
    if larger:
        found = min(larger, key=lambda b: length[b])  # the first of equal ones
    elif smaller:
        found = max(reversed(smaller), key=lambda b: length[b])  # the last
    else:
        length.append(size)
        return len(length) - 1
    free.remove(found)
    length[found] = max(length[found], size)
    return found


def least_blocks(buffers):
    """The least bytes of blocks side by side, over all ways to part buffers so that none conflict in a block."""
    rows = intervals(buffers)
    pairs = [(i, j) for i, j in itertools.combinations(range(len(rows)), 2) if conflict(rows, i, j)]
    best = None
    for block in itertools.product(range(len(rows)), repeat=len(rows)):
        if not any(block[i] == block[j] for i, j in pairs):
            lengths = {b: max(row[2] for row, c in zip(rows, block, strict=True) if c == b) for b in set(block)}
            best = min(sum(lengths.values()), sum(lengths.values()) if best is None else best)
    return best or 0
