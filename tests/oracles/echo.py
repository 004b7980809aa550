"""echo2020 by sets: the stash of a schedule, the minimum stash, and the order of the pass merged into MXNet."""

from tests.oracles.plain import plain


def stash(graph, order):
    """Bytes of forward values, pinned ones aside, that are read after the forward part and not recomputed before."""
    g = plain(graph)
    steps = list(map(int, order))
    begin = next((i for i, v in enumerate(steps) if g.is_backward(v) or v in steps[:i]), len(steps))
    stashed = set()
    for step in range(begin, len(steps)):
        for x in g.reads[steps[step]]:
            u = g.producer[x]
            if not g.is_backward(u) and x not in g.outputs and u not in steps[begin:step]:
                stashed.add(x)
    return sum(g.memory[x] for x in stashed)


def read_back(g):
    """Unpinned forward values that a needed gradient reads."""
    gradients = [v for v in g.backward() if v in g.needed()]
    return {x for v in gradients for x in g.reads[v] if not g.is_backward(g.producer[x])} - g.outputs


def choices(graph, allowed):
    """(bytes stashed, recomputed nodes) of every choice; `allowed` are the nodes that may be recomputed."""
    g, allowed = plain(graph), sorted(allowed)
    targets = read_back(g)
    for bits in range(2 ** len(allowed)):
        mirrored = {v for i, v in enumerate(allowed) if bits >> i & 1}
        needed, recomputed = set(targets), set()
        for v in reversed(allowed):
            if v in mirrored and needed & set(g.values[v]):
                recomputed.add(v)
                needed |= set(g.reads[v]) - g.outputs
        if recomputed == mirrored:
            yield sum(g.memory[x] for x in needed if g.producer[x] not in recomputed), recomputed


def minimum_stash(graph, allowed):
    """The minimum stash, and the minimum number of recomputed nodes among the choices with it."""
    return min(((stashed, len(recomputed)) for stashed, recomputed in choices(graph, allowed)), default=(0, 0))


class MergedPass:
    """The order of the pass merged into MXNet on a graph whose nodes `cheap` are not heavy."""

    def __init__(self, graph, cheap):
        self.g = g = plain(graph)
        self.cheap = set(cheap)
        self.nodes = [v for v in g.forward() if v in g.needed()]
        self.reads = {v: [x for x in g.reads[v] if x not in g.outputs] for v in self.nodes}
        values = {x for v in self.nodes for x in g.values[v]} - g.outputs
        self.readers = {x: [v for v in self.nodes if x in self.reads[v]] for x in values}
        self.values = {v: [x for x in g.values[v] if x in values] for v in self.nodes}

    def inputs(self, v):
        return [self.g.producer[x] for x in self.reads[v]]

    def successors(self, v):
        return [w for x in self.values[v] for w in self.readers[x]]

    def visits(self):
        """The nodes in the order in which the pass makes mirrors, all regions one after the other."""
        order, heavy = [], [v for v in self.nodes if not self.successors(v)]
        while heavy:
            start = heavy.pop(0)
            if start in order:
                continue
            region = self.backwards([start], set(order), heavy)  # regions may share a node of several values
            while (outside := self.outside_reader(region, order)) is not None:
                region += self.backwards(self.heads(outside), {*region, *order}, heavy)
            order += region
        return order

    def outside_reader(self, region, order):
        readers = (w for v in region for x in self.reads[v] for w in self.readers[x])
        return next((w for w in readers if w not in region and w not in order), None)

    def backwards(self, heads, visited, heavy):
        reached, queue = [], list(heads)
        while queue:
            v = queue.pop(0)
            if v not in visited and v not in reached:
                reached.append(v)
            for u in self.inputs(v):
                (queue if u in self.cheap else heavy).append(u)
        return reached[::-1]

    def heads(self, start):
        heads, queue = [], [start]
        while queue:
            v = queue.pop(0)
            if v in self.cheap and self.successors(v):
                queue += self.successors(v)
            else:
                heads.append(v)
        return heads
