"""Hostile arguments to public functions: a result or an error in words, never a crash.

Those over kernels, which check no bounds, are given what does not belong together; all are given what is of a wrong
kind (`hostile`).
"""

import dataclasses
import random
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import remat_algos as ra
from tests.fuzz import hostile

UNIT = "calls"
LARGEST = 2**62
REFUSALS = (ra.RematError, ValueError, TypeError)


def case(rng, report):
    """Calls with arguments of one graph, others of another, and some of none; as many with one of a wrong kind."""
    for _ in range(20):
        hostile.play(rng, report)
        name = rng.choice(sorted(CALLS))
        report.count("calls")
        try:
            CALLS[name](Arguments(rng, rng.randint(1, 9)))
            report.count("answered")
        except REFUSALS as error:
            report.count("refused")
            place = traceback.extract_tb(error.__traceback__)[-1]
            if not isinstance(error, ra.RematError) and "kernels" in place.filename:
                report.fault(f"{type(error).__name__} inside a kernel", f"{name}: {error}")
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            report.fault(f"{type(error).__name__} from {name}", f"{error} ({place.filename}:{place.lineno})")


@dataclasses.dataclass(frozen=True, slots=True)
class Arguments:
    """Draws arguments for graphs of about n nodes: some fit, some belong to another graph, some to none."""

    rng: random.Random
    n: int

    def one(self, *choices):
        return self.rng.choice(choices)

    def maybe(self, draw):
        """None half of the time."""
        return draw() if self.rng.random() < 0.5 else None

    def ids(self, count=None, low=-2, high=None):
        """Mostly ids of nodes."""
        high = self.n + 2 if high is None else high
        count = self.rng.randint(0, 8) if count is None else count
        return [
            self.rng.randint(low, high) if self.rng.random() < 0.3 else self.rng.randrange(self.n) for _ in range(count)
        ]

    def array(self, numbers):
        """int64, now and then with a number far out."""
        far = (-(2**31), 2**31 - 1, 2**40, -1, 10**6)
        odd = self.rng.random() < 0.05
        return np.array([self.one(x, x, x, self.one(*far)) if odd else x for x in numbers], np.int64)

    def rows(self, count, total):
        """Pointers of compressed rows, not always right at the end."""
        return self.array([0, *sorted(self.ids(count, 0, total))])

    # graphs and what belongs to them

    def forward(self):
        edges = [(self.rng.randrange(v), v) for v in range(1, self.n)]
        return ra.ComputationGraph.from_edges(
            edges, memory=[self.rng.randint(0, 9) for _ in range(self.n)], n_nodes=self.n
        )

    def chain(self):
        length = self.rng.randint(1, 30)
        return ra.ComputationGraph.from_edges([(v, v + 1) for v in range(length)])

    def training(self):
        return ra.differentiate(self.one(self.forward, self.chain)())

    def graph(self):
        return self.one(self.forward, self.training)()

    def graph_of_arrays(self):
        n = self.n
        resident = ra.ir.Resident(self.ids(2, 0, 5), [0, 1], self.rows(n, 3), self.ids(2, -1, 2), ("a", "b"))
        return ra.ComputationGraph.from_arrays(
            read_indptr=self.rows(n, 6),
            read_indices=self.array(self.ids()),
            value_indptr=self.maybe(lambda: self.rows(n, 9)),
            forward_of=self.maybe(lambda: self.array(self.ids(n))),
            mark=self.maybe(lambda: self.ids(n, -1, 3)),
            resident=self.maybe(lambda: resident),
        )

    def graph_with_gradients(self):
        forward, n = self.forward(), self.n
        backward = ra.ir.Backward(self.rows(n, 6), self.array(self.ids()), *(self.array(self.ids(n)) for _ in range(3)))
        return ra.ComputationGraph.from_arrays(
            read_indptr=forward.read_indptr, read_indices=forward.read_indices, backward=backward
        )

    def order(self):
        return self.array(self.ids()) if self.rng.random() < 0.5 else np.arange(self.graph().n_nodes)

    def schedule(self):
        return ra.Schedule(self.order())

    def simulation(self):
        return ra.solve(self.graph(), "least", solver="greedy_remat").simulation

    def limit(self):
        return self.one(None, 0, 5, LARGEST, 2**63, -1)

    # lower sets

    def words(self):
        width = self.one(1, 1, 2)
        drawn = [
            [self.rng.getrandbits(self.one(64, self.n)) for _ in range(width)] for _ in range(self.rng.randint(0, 4))
        ]
        return np.array(drawn, np.uint64)

    def sets(self):
        return [self.ids() for _ in range(self.rng.randint(0, 4))]

    def lower_sets(self):
        return (
            ra.structure.LowerSets(self.words())
            if self.rng.random() < 0.5
            else ra.structure.LowerSets.of(self.graph(), self.sets())
        )

    def chain_of_sets(self):
        return self.one(self.lower_sets, self.sets)()

    def family(self):
        return ra.structure.lower_set_family(self.training(), self.one("exact", "wide", "pruned"))

    # memory

    def intervals(self):
        count = self.rng.randint(0, 8)
        begin = np.array([self.rng.randint(0, 9) for _ in range(count)], np.int64)
        length = np.array([self.rng.randint(1, 10) for _ in range(count)], np.int64)
        return ra.allocate.Buffers(
            begin, begin + length, np.array([self.rng.randint(0, 99) for _ in range(count)], np.int64)
        )

    def hostile_buffers(self):
        count = self.rng.randint(0, 8)
        begin, end, size = (self.array(self.ids(count, 0, most)) for most in (9, 20, 99))
        more = {
            name: self.array(self.ids(count, -1, count))
            for name in ("over", "instance", "offset", "arena")
            if self.rng.random() < 0.3
        }
        return ra.allocate.Buffers(begin, end, size, **more)

    def buffers(self):
        return self.one(self.intervals, self.hostile_buffers)()

    def allocation(self):
        buffers = self.one(self.intervals(), ra.allocate.Buffers.of(self.simulation()))
        return ra.allocate.pack(buffers, time_limit=0)

    def trace(self):
        count = self.rng.randint(0, 8)
        events = [self.one(i, ~i) for i in self.ids(2 * count, -1, count)]
        return ra.allocate.Trace(
            self.array(self.ids(count, 0, 99)),
            self.array(events),
            self.array(self.ids(2 * count)),
            self.one(0, 5, 2 * count),
        )

    def pool_input(self):
        return self.one(self.trace, self.simulation)()

    # decompositions

    def undirected(self):
        edges = [(self.ids(1)[0], self.ids(1)[0]) for _ in range(self.rng.randint(0, 12))]
        if self.rng.random() < 0.5:
            return ra.structure.UndirectedGraph.from_edges(self.n + self.rng.randint(-1, 1), edges)
        return ra.structure.UndirectedGraph(self.rows(self.n, 12), np.array(self.ids(), np.int32))

    def tree(self):
        if self.rng.random() < 0.5:
            return ra.structure.TreeDecomposition(
                self.rows(3, 9), np.array(self.ids(), np.int32), np.array(self.ids(), np.int32)
            )
        bags = [self.ids() for _ in range(self.rng.randint(0, 5))]
        edges = [(self.rng.randint(-1, 4), self.rng.randint(-1, 4)) for _ in range(self.rng.randint(0, 5))]
        return ra.structure.TreeDecomposition.from_bags(bags, edges)

    def path(self):
        if self.rng.random() < 0.3:
            return ra.structure.PathDecomposition.of(self.undirected(), self.array(self.ids()))
        if self.rng.random() < 0.5:
            return ra.structure.PathDecomposition.from_spans(self.array(self.ids(self.n)), self.array(self.ids(self.n)))
        return ra.structure.PathDecomposition(self.rows(3, 9), np.array(self.ids(), np.int32))

    def elimination(self):
        return ra.structure.Elimination(
            np.array(self.ids(), np.int32), self.rows(3, 9), np.array(self.ids(), np.int32), 0
        )

    def vertices(self):
        return self.one(self.n, 0, self.n - 1, self.n + 3)


def _what_if(a):
    graph = a.training()
    return ra.what_if(graph, keep=["0"], recompute=a.one([], ["1"]), schedule=a.maybe(a.schedule))


CALLS: dict[str, Callable[[Arguments], Any]] = {
    # schedules
    "simulate": lambda a: ra.simulate(a.graph(), a.order()),
    "polish": lambda a: ra.schedule.polish(a.graph(), a.simulation(), a.limit()),
    "reuse_values": lambda a: ra.schedule.reuse_values(a.graph(), a.schedule(), a.limit(), rounds=a.one(0, 1, 6)),
    "drop_dead_runs": lambda a: ra.schedule.drop_dead_runs(a.graph(), a.schedule()),
    "sink_runs": lambda a: ra.schedule.sink_runs(a.graph(), a.schedule()),
    "emit": lambda a: ra.schedule.emit(a.graph(), a.order()),
    "unroll": lambda a: ra.schedule.unroll(a.graph(), a.schedule()),
    "lowest_pass": lambda a: ra.schedule.lowest_pass(
        a.graph(), a.one(None, 1, 0, -1, 3), search=a.one(False, True), max_moves=a.one(100, 0, 2000), seed=a.one(0, 1)
    ),
    "checkpoint_schedule": lambda a: ra.schedule.checkpoint_schedule(
        a.graph(), a.one(a.ids(), [True] * a.n, [True] * (a.n + 1))
    ),
    "mirror_schedule": lambda a: ra.schedule.mirror_schedule(a.graph(), a.array(a.ids(a.one(a.n, 2 * a.n, 3), -1, 3))),
    "canonical_schedule": lambda a: ra.schedule.canonical_schedule(
        a.graph(), a.chain_of_sets(), lazy=a.one(True, False)
    ),
    "canonical_trace": lambda a: ra.schedule.canonical_trace(a.graph(), a.chain_of_sets(), liveness=a.one(True, False)),
    "execute": lambda a: ra.execute(a.graph(), a.schedule(), limit=a.one(None, 0, 10**4)),
    "execute at addresses": lambda a: ra.execute(a.graph(), a.schedule(), allocation=a.allocation()),
    # plans
    "solve": lambda a: ra.solve(a.graph(), a.limit(), solver=a.one("greedy_remat", "liveness_dp", "twremat", "echo")),
    "what_if": _what_if,
    "explain": lambda a: ra.explain(ra.solve(a.training(), "least", solver="greedy_remat"), a.one(None, "0", "x")),
    # graphs
    "ComputationGraph": lambda a: ra.differentiate(a.graph_of_arrays()).hash,
    "Backward": lambda a: ra.differentiate(a.graph_with_gradients()),
    # lower sets
    "LowerSets.kept": lambda a: a.lower_sets().kept(a.graph()),
    "LowerSets.blocks": lambda a: a.lower_sets().blocks(a.graph()),
    "LowerSets.terms": lambda a: a.lower_sets().terms(a.graph()),
    "LowerSets.sets": lambda a: a.lower_sets().sets(a.graph()),
    "LowerSets.overhead": lambda a: a.lower_sets().overhead(a.graph()),
    "LowerSets.peak": lambda a: a.lower_sets().peak(a.graph()),
    "LowerSetFamily": lambda a: ra.structure.LowerSetFamily(a.training(), a.array(a.ids()), a.words()).sets(),
    "LowerSetFamily.chain": lambda a: a.family().chain(a.ids()),
    "LowerSetFamily.subset": lambda a: a.family().subset(a.array(a.ids())).sets(),
    "lower_set_family": lambda a: ra.structure.lower_set_family(
        a.training(), cap=a.one(0, 1, -1, 5), max_sets=a.one(None, 0, 1, -1)
    ),
    # memory
    "pack": lambda a: ra.allocate.pack(
        a.buffers(), capacity=a.limit(), alignment=a.one(1, 64, 2**40), time_limit=a.one(0, 0.01)
    ),
    "pack_arenas": lambda a: ra.allocate.pack_arenas(
        a.buffers(), a.one([50, 40], [a.limit(), 64], a.limit(), []), alignment=a.one(1, 64), time_limit=a.one(0, 0.01)
    ),
    "pack of over": lambda a: ra.allocate.pack(
        ra.allocate.Buffers.of(a.simulation(), a.array(a.ids())), time_limit=0.01
    ),
    "share": lambda a: ra.allocate.share_storage(a.buffers(), a.one(None, 0, 1, 16, -1)),
    "colour": lambda a: ra.allocate.colour(a.buffers()),
    "separate_storage": lambda a: ra.allocate.separate_storage(a.buffers()),
    "in_place": lambda a: ra.allocate.find_overwrites(
        a.simulation(), {a.one("a", "0", "1"): a.one(None, 0, 5, "0", (1, 0), -1, 2**40)}
    ),
    "Allocation": lambda a: ra.allocate.Allocation(
        a.buffers(), a.array(a.ids()), a.array(a.ids()), a.n, "x", 0
    ).verify(),
    "Allocation.side_by_side": lambda a: ra.allocate.Allocation.side_by_side(a.buffers(), a.array(a.ids()), "x"),
    "arena": lambda a: ra.allocate.arena(a.allocation(), steps=a.one(None, 0, 2, 10**5)),
    "cupy_pool": lambda a: ra.allocate.cupy_pool(a.pool_input(), limit=a.limit(), addresses=a.maybe(a.ids)),
    "cuda_caching": lambda a: ra.allocate.cuda_caching(
        a.pool_input(), limit=a.limit(), max_split_size=a.one(None, 0, 21 << 20, -1), addresses=a.maybe(a.ids)
    ),
    "Trace.of_buffers": lambda a: ra.allocate.cupy_pool(
        ra.allocate.Trace.of_buffers(a.buffers(), a.one(None, 0, 3, 100))
    ),
    "Trace.during": lambda a: a.trace().during(a.array(a.ids())),
    # decompositions
    "eliminate": lambda a: ra.structure.eliminate(
        a.undirected(), a.one("fill", "degree", "x"), seed=a.one(None, 0, -1)
    ),
    "width_bounds": lambda a: ra.structure.width_bounds(
        a.undirected(), seeds=a.one(0, 1, -1), exact=a.one(True, False)
    ),
    "UndirectedGraph.neighbours": lambda a: a.undirected().neighbours(a.ids(1)[0]),
    "UndirectedGraph.edges": lambda a: a.undirected().edges(),
    "TreeDecomposition.reduce": lambda a: a.tree().reduce(),
    "TreeDecomposition.verify": lambda a: a.tree().verify(a.undirected()),
    "TreeDecomposition.bag": lambda a: a.tree().bag(a.ids(1)[0]),
    "TreeDecomposition.of": lambda a: ra.structure.TreeDecomposition.of(a.elimination()),
    "SeparatorTree.balanced": lambda a: ra.structure.SeparatorTree.balanced(a.tree(), a.vertices()),
    "SeparatorTree.cheapest": lambda a: ra.structure.SeparatorTree.cheapest(a.tree(), a.array([1] * a.vertices())),
    "SeparatorTree.middle": lambda a: ra.structure.SeparatorTree.middle(a.path(), a.vertices()),
    "PathDecomposition.spans": lambda a: a.path().spans(a.vertices()),
    "PathDecomposition.tree": lambda a: a.path().tree().reduce(),
    "PathDecomposition.verify": lambda a: a.path().verify(a.undirected()),
}
