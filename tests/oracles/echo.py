"""echo2020 by sets: the stash of a schedule, the least of all, and the two published algorithms line by line."""

from tests.oracles.plain import plain


def stash(graph, order):
    """Bytes of forward values, pinned ones aside, that are read after the forward part without running again."""
    g = plain(graph)
    steps = list(map(int, order))
    begin = next((i for i, v in enumerate(steps) if g.is_backward(v) or v in steps[:i]), len(steps))
    held = set()
    for step in range(begin, len(steps)):
        for x in g.reads[steps[step]]:
            u = g.producer[x]
            if not g.is_backward(u) and x not in g.outputs and u not in steps[begin:step]:
                held.add(x)
    return sum(g.memory[x] for x in held)


def read_back(g):
    """Unpinned forward values that a needed gradient reads."""
    gradients = [v for v in g.backward() if v in g.needed()]
    return {x for v in gradients for x in g.reads[v] if not g.is_backward(g.producer[x])} - g.outputs


def choices(graph, may):
    """(bytes stashed, nodes run again) of every choice of kept nodes; `may` holds those that may run again."""
    g, may = plain(graph), sorted(may)
    wanted = read_back(g)
    for bits in range(2 ** len(may)):
        mirrored = {v for i, v in enumerate(may) if bits >> i & 1}
        needed, rerun = set(wanted), set()
        for v in reversed(may):
            if v in mirrored and needed & set(g.values[v]):
                rerun.add(v)
                needed |= set(g.reads[v]) - g.outputs
        if rerun == mirrored:
            yield sum(g.memory[x] for x in needed if g.producer[x] not in rerun), rerun


def least_stash(graph, may):
    """The least stash, and of the choices with so small a one the fewest nodes."""
    return min(((held, len(rerun)) for held, rerun in choices(graph, may)), default=(0, 0))


class Passes:
    """The published algorithms on a graph whose nodes `may` are not heavy."""

    def __init__(self, graph, may):
        self.g = g = plain(graph)
        self.may = set(may)
        self.nodes = [v for v in g.forward() if v in g.needed()]
        self.back = read_back(g)
        self.reads = {v: [x for x in g.reads[v] if x not in g.outputs] for v in self.nodes}
        values = {x for v in self.nodes for x in g.values[v]} - g.outputs
        self.readers = {x: [v for v in self.nodes if x in self.reads[v]] for x in values}
        self.made = {v: [x for x in g.values[v] if x in values] for v in self.nodes}

    def inputs(self, v):
        return [self.g.producer[x] for x in self.reads[v]]

    def ahead(self, v):
        return [w for x in self.made[v] for w in self.readers[x]]

    def size(self, edges):
        return sum(self.g.memory[x] for x in edges)

    def algorithm_1(self):
        """Nodes on the recomputation paths."""
        off = set()
        for root in self.nodes:
            if root in self.may and self.ahead(root):
                continue
            region, todo = {root}, [root]
            while todo:
                for u in self.inputs(todo.pop()):
                    if u in self.may and u not in region:
                        region.add(u)
                        todo.append(u)
            for s in sorted(region & self.may):
                alloc, rel = set(), set()
                for e in self.reads[s]:
                    for n in set(self.readers[e]) & region:
                        alloc |= {x for x in self.made[n] if self.readers[x] or x in self.back}
                        rel |= set(self.reads[n])
                    alloc |= {e} & self.back
                if self.size(rel) >= self.size(alloc):
                    off.add(s)
        return self.may - off

    def frontiers(self):
        """Nodes on the mirror path."""
        off = set()
        while True:
            fixed = (set(self.nodes) - self.may) | off
            frontier = [v for v in self.nodes if v in self.may - off and set(self.inputs(v)) <= fixed]
            group = next((group for group in self.groups(frontier) if self.goes_off(group, frontier)), None)
            if group is None:
                return self.may - off
            off |= group

    def groups(self, frontier):
        """Frontier nodes that share inputs, the least first."""
        for v in frontier:
            group = {v}
            while True:
                edges = {x for u in group for x in self.reads[u]}
                more = group | {w for w in frontier if edges & set(self.reads[w])}
                if more == group:
                    break
                group = more
            yield group

    def goes_off(self, group, frontier):
        alloc = {x for v in group for x in self.made[v] if self.readers[x] or x in self.back}
        rel = set()
        for x in {x for v in group for x in self.reads[v]}:
            inside = x not in self.back and set(self.readers[x]) <= set(frontier)
            (rel if inside else alloc).add(x)
        return self.size(rel) >= self.size(alloc)

    def visits(self):
        """The nodes in the order in which the pass makes mirrors, all regions one after the other."""
        order, heavy = [], [v for v in self.nodes if not self.ahead(v)]
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

    def backwards(self, heads, there, heavy):
        found, queue = [], list(heads)
        while queue:
            v = queue.pop(0)
            if v not in there and v not in found:
                found.append(v)
            for u in self.inputs(v):
                (queue if u in self.may else heavy).append(u)
        return found[::-1]

    def heads(self, start):
        heads, queue = [], [start]
        while queue:
            v = queue.pop(0)
            if v in self.may and self.ahead(v):
                queue += self.ahead(v)
            else:
                heads.append(v)
        return heads
