"""Greedy rematerialization: one walk along an order, everything looked up afresh."""

import math

from tests.oracles.plain import plain


class Run:
    """One run of a node; `moved` and `denied` tell of runs that nobody had read when they were put off.

    `position` is its place in the given order, `read_at` the step at which it ran or was last read.
    """

    def __init__(self, node, position):
        self.node, self.position, self.read_at = node, position, 0
        self.moved = self.denied = False


class Walk:
    """`at` is the place of the current run in the list; what stands before it is placed."""

    def __init__(self, graph, order, limit, max_block, rule):
        self.g = plain(graph)
        self.runs = [Run(v, i) for i, v in enumerate(order)]
        self.limit, self.max_block, self.at, self.step, self.rule = limit, max_block, 0, 0, rule

    def go(self):
        while self.at < len(self.runs):
            self.step += 1
            self.runs[self.at].read_at = self.step
            least, most = 1, 1
            while self.allocates() and self.live_bytes() > self.limit and least <= self.max_block:
                block = self.choose(least, most)
                if block is None:
                    least, most = most + 1, min(2 * most, self.max_block)
                else:
                    self.put_off(block)
                    least, most = 1, 1
            for x in self.g.reads[self.runs[self.at].node]:
                self.source(x, self.at).read_at = self.step
            self.at += 1
        return [run.node for run in self.runs]

    def allocates(self):
        node = self.runs[self.at].node
        return self.g.workspace[node] + sum(self.g.memory[x] for x in self.g.values[node]) > 0

    # ------------------------------------------------------------ who reads what

    def source(self, x, place):
        """The run whose copy of a value is read at a place: of an output the first, else the newest."""
        made = [run for run in self.runs[:place] if run.node == self.g.producer[x]]
        return made[0] if x in self.g.outputs else made[-1]

    def readers(self, run, x, places):
        """Places at which that copy is read."""
        return [i for i in places if x in self.g.reads[self.runs[i].node] and self.source(x, i) is run]

    def to_come(self, run, x):
        return self.readers(run, x, range(self.at, len(self.runs)))

    def stays(self, run, x):
        return x in self.g.outputs and next(r for r in self.runs if r.node == run.node) is run

    def awaited(self, run):
        """Values that are still to be read and that another run could make."""
        return [x for x in self.g.values[run.node] if not self.stays(run, x) and self.to_come(run, x)]

    def is_read_before(self, run):
        return any(self.readers(run, x, range(self.at)) for x in self.g.values[run.node])

    def is_dead(self, run, x):
        return not self.to_come(run, x) and run is not self.runs[self.at] and not self.stays(run, x)

    def live_bytes(self):
        current = self.runs[self.at]
        placed = [(run, x) for run in self.runs[: self.at] for x in self.g.values[run.node]]
        live = [x for run, x in placed if self.stays(run, x) or self.to_come(run, x)]
        now = [*live, *self.g.values[current.node]]
        return sum(self.g.memory[x] for x in now) + self.g.workspace[current.node]

    # ------------------------------------------------------------ blocks

    def choose(self, least, most):
        """The runs of the cheapest block of so many, its end first; of equal ones that which starts first."""
        found = []
        for end in range(self.at):
            if sum(self.g.memory[x] for x in self.awaited(self.runs[end])) > 0:
                found += [key for key in self.blocks(end, most) if key[2] >= least]
        if not found:
            return None
        _, start, size = min(found)
        return [self.runs[start + i] for i in reversed(range(size))]

    def blocks(self, end, most):
        """(cost, start, size) of every block with this end that saves something."""
        saved, needed, unread, runs = 0, set(), self.max_block > 1, []
        for size in range(1, min(most, end + 1) + 1):
            run = self.runs[end + 1 - size]
            if not self.is_free(run):
                return
            made = [x for x in self.g.values[run.node] if (run, x) in needed]
            if not made and not self.awaited(run):
                continue  # it would not run again
            runs.append(run)
            saved += sum(self.g.memory[x] for x in [*made, *self.awaited(run)])
            unread = unread and not self.is_read_before(run)
            for x in self.g.reads[run.node]:
                made = self.source(x, self.at + 1)
                if (made, x) not in needed and self.is_dead(made, x):
                    needed.add((made, x))
                    saved -= self.g.memory[x]
            if saved > 0:
                yield (-math.inf if unread else self.rule(**self.arguments(saved, runs))), end + 1 - size, size

    def arguments(self, saved, runs):
        """What a rule may ask about a block that saves so many bytes."""
        readers = [i for run in runs for x in self.awaited(run) for i in self.to_come(run, x)]
        here = self.runs[self.at].position
        return {
            "nbytes": saved,
            "cost": sum(self.g.compute[run.node] for run in runs),
            "since_read": self.step - max(run.read_at for run in runs),
            "until_read": min((max(1, self.runs[i].position - here) for i in readers), default=math.inf),
            "readers": len(readers),
            "limit": self.limit,
        }

    def is_free(self, run):
        read_now = [self.source(x, self.at) for x in self.g.reads[self.runs[self.at].node]]
        return not (self.g.once[run.node] or self.g.mark[run.node] == 1 or run.denied or run in read_now)

    def put_off(self, block):
        for run in block:
            if run in self.runs and self.awaited(run):
                self.run_again(run)

    def run_again(self, run):
        place = min(i for x in self.awaited(run) for i in self.to_come(run, x))
        for x in self.g.reads[run.node]:
            later = [i for i in self.to_come(self.source(x, self.at + 1), x) if i > self.at]
            if x not in self.g.outputs and later:
                place = min(place, max(later))
        again = Run(run.node, self.runs[place].position)
        self.runs.insert(place, again)
        if self.is_useless(run):
            again.moved, again.denied = True, run.moved
            self.drop(run)

    def is_useless(self, run):
        return not self.is_read_before(run) and all(self.is_dead(run, x) for x in self.g.values[run.node])

    def drop(self, run):
        """Take it out, and then those that only it had read."""
        fed = [self.source(x, self.runs.index(run)) for x in self.g.reads[run.node]]
        self.runs.remove(run)
        self.at -= 1
        for other in fed:
            if other in self.runs and self.runs.index(other) < self.at and self.is_useless(other):
                self.drop(other)


def xla(nbytes, limit, **_):
    return limit // nbytes


def greedy(graph, order, limit, max_block, rule=xla):
    """The order that one walk under a limit makes of a sound one."""
    return Walk(graph, order, limit, max_block, rule).go()
