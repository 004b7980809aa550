"""Dead runs and the cache pass, with every look into the future spelled out."""

from tests.oracles.plain import plain
from tests.oracles.simulation import serving_run

RECOMPUTE = 2


def drop_dead_runs(graph, order):
    """Drop one run that serves nobody, the last of them, and look again."""
    g, order = plain(graph), list(order)
    for step in range(len(order) - 1, -1, -1):
        if not serves(g, order, step):
            return drop_dead_runs(g, order[:step] + order[step + 1 :])
    return order


def serves(g, order, step):
    """Whether a later step reads what a step makes, or it makes an output, or must stand before a later run."""
    node, first = order[step], order[step] not in order[:step]
    read = any(
        x in g.values[node] and serving_run(g, order, later, x) == step
        for later in range(step + 1, len(order))
        for x in g.reads[order[later]]
    )
    pins = first and any(x in g.outputs for x in g.values[node])
    return read or pins or (first and g.mark[node] == RECOMPUTE and node in order[step + 1 :])


def prices(graph, order):
    """The cost of each run with that of all runs that are read, directly or through others, by this step alone."""
    g, order = plain(graph), list(order)
    readers = [set() for _ in order]
    for step, node in enumerate(order):
        for x in g.reads[node]:
            if x not in g.outputs:
                readers[serving_run(g, order, step, x)].add(step)
        if node not in order[:step] and any(x in g.outputs for x in g.values[node]):
            readers[step].add("the end")
    total = [g.compute[node] for node in order]
    for step in range(len(order)):
        if len(readers[step]) == 1 and "the end" not in readers[step]:
            total[readers[step].pop()] += total[step]
    return total


def replay(graph, order, limit, price):
    """One round of the cache pass: the order without the runs all of whose requested values are still there."""
    g, order = plain(graph), list(order)
    return Replay(g, order, limit, price).run()


class Replay:
    def __init__(self, g, order, limit, price):
        self.g, self.order, self.limit, self.price = g, order, limit, price
        self.required, self.pinned, self.spare, self.broken = set(), set(), {}, set()

    def run(self):
        kept = []
        for step, node in enumerate(self.order):
            requested = self.requested(node, step)
            if self.g.mark[node] != RECOMPUTE and requested <= self.spare.get(node, set()):
                self.stay(node, step, requested)
            else:
                self.make_room(node, step)
                kept.append(node)
                self.broken.discard(node)
                for x in self.g.values[node]:
                    self.classify(x, step)
            for x in self.g.reads[node]:
                self.classify(x, step)
        return kept

    def next_read(self, x, step):
        steps = range(step + 1, len(self.order))
        return next((s for s in steps if x in self.g.reads[self.order[s]]), len(self.order))

    def next_run(self, node, step):
        return next((s for s in range(step + 1, len(self.order)) if self.order[s] == node), len(self.order))

    def requested(self, node, step):
        """What this run must give: outputs not yet computed, and what is read before the next run."""
        until = self.next_run(node, step)
        values = [x for x in self.g.values[node] if x not in self.pinned]
        return {x for x in values if x in self.g.outputs or self.next_read(x, step) < until}

    def stay(self, node, step, requested):
        """The values are required from here; if not all stand ready for the next run, that one must take place."""
        self.required |= requested
        self.spare.pop(node, None)
        self.broken.discard(node)
        run = self.next_run(node, step)
        left = set(self.g.values[node]) - self.required - self.pinned
        if any(self.next_read(x, step) < self.next_run(node, run) for x in left):
            self.broken.add(node)

    def make_room(self, node, step):
        size = sum(self.g.memory[x] for x in self.g.values[node]) + self.g.workspace[node]
        while self.live_bytes() + size > self.limit:
            heavy = [v for v in sorted(self.spare) if self.bytes_of(self.spare[v])]
            if not heavy:
                return
            worst = max(heavy, key=lambda v: self.score(v, step))  # the first of them
            del self.spare[worst]
            self.broken.add(worst)

    def score(self, node, step):
        """Bytes and time for the price; in floats, as the kernel has it, since ties decide."""
        run = self.next_run(node, step)
        price = self.price[run]
        weight = self.bytes_of(self.spare[node]) / price if price else float("inf")
        return weight * (run - step)

    def classify(self, x, step):
        """What becomes of a value that has just been computed or read."""
        node = self.g.producer[x]
        self.required.discard(x)
        run, read = self.next_run(node, step), self.next_read(x, step)
        if x in self.g.outputs:
            self.pinned.add(x)
        elif read < run:
            self.required.add(x)
        elif read < self.next_run(node, run) and node not in self.broken and self.g.mark[node] != RECOMPUTE:
            self.spare.setdefault(node, set()).add(x)

    def live_bytes(self):
        return self.bytes_of(self.required | self.pinned) + sum(self.bytes_of(x) for x in self.spare.values())

    def bytes_of(self, values):
        return sum(self.g.memory[x] for x in values)
