"""The memory of a schedule at every step, computed in the most literal way."""

from dataclasses import dataclass

from tests.oracles.plain import plain


class Unsound(Exception):
    """A schedule breaks a law: "unknown", "unmade", "once", "output", "keep", "recompute" or "stale".

    A missing output is found after the last step, at the node that should have made it.
    """

    def __init__(self, law, step, node):
        super().__init__(f"{law}: step {step}, node {node}")
        self.law, self.step, self.node = law, step, node


@dataclass(frozen=True)
class SlowSimulation:
    trace: list[int]  # bytes live during each step
    peak: int  # 0 for an empty schedule
    peak_step: int  # the first of them, -1 for an empty schedule
    compute: int
    overhead: int
    lifetimes: list[tuple[int, int, int]]  # (step, value, end), half-open, in the order of making


def slow_simulation(graph, order):
    """Check every law, then follow each copy of each value from its making to its last read."""
    g, order = plain(graph), [int(v) for v in order]
    for step in range(len(order)):
        check_step(g, order, step)
    for x in sorted(g.outputs):
        if g.producer[x] not in order:
            raise Unsound("output", len(order), g.producer[x])
    check_updates(g, order)
    lives = lifetimes(g, order)
    trace = [
        sum(g.memory[x] for begin, x, end in lives if begin <= step < end) + g.workspace[node]
        for step, node in enumerate(order)
    ]
    peak = max(trace, default=0)
    compute = sum(g.compute[v] for v in order)
    single_pass = sum(g.compute[v] for v in g.needed())
    return SlowSimulation(trace, peak, trace.index(peak) if trace else -1, compute, compute - single_pass, lives)


def peak_memory(graph, order):
    return slow_simulation(graph, order).peak


def check_step(g, order, step):
    node = order[step]
    if node not in g.nodes:
        raise Unsound("unknown", step, node)
    if node in order[:step] and g.once[node]:
        raise Unsound("once", step, node)
    if node in order[:step] and g.mark[node] == 1:
        raise Unsound("keep", step, node)
    for x in g.reads[node]:
        run = serving_run(g, order, step, x)
        if run is None:
            raise Unsound("unmade", step, node)
        made_forward = not g.is_backward(g.producer[x]) and run == order.index(g.producer[x])
        if g.is_backward(node) and g.mark[g.producer[x]] == 2 and made_forward:
            raise Unsound("recompute", step, node)


def check_updates(g, order):
    """Nobody reads a parameter or state that an update has changed."""
    changed = set()
    for step, node in enumerate(order):
        if is_update(g, node):
            changed |= changeable_reads(g, node)
        elif changeable_reads(g, node) & changed:
            raise Unsound("stale", step, node)


def is_update(g, node):
    """Whether a backward node that reads parameters or states runs once and makes only unread outputs of no bytes."""
    read = {x for row in g.reads for x in row}
    silent = all(x in g.outputs and g.memory[x] == 0 and x not in read for x in g.values[node])
    return silent and g.once[node] and g.is_backward(node) and bool(changeable_reads(g, node))


def changeable_reads(g, node):
    return {r for r in g.resident_reads[node] if g.resident_role[r] != 0}


def serving_run(g, order, step, value):
    """The step that made the copy of a value read at a step: the first run for an output, else the newest."""
    runs = [s for s in range(step) if order[s] == g.producer[value]]
    if not runs:
        return None
    return runs[0] if value in g.outputs else runs[-1]


def lifetimes(g, order):
    """Every copy lives to its last read; one never read dies after its step; the first of an output lives on."""
    last_read = {}
    for step, node in enumerate(order):
        for x in g.reads[node]:
            last_read[serving_run(g, order, step, x), x] = step
    lives = []
    for step, node in enumerate(order):
        for x in g.values[node]:
            pinned = x in g.outputs and node not in order[:step]
            end = len(order) if pinned else last_read.get((step, x), step) + 1
            lives.append((step, x, end))
    return lives
