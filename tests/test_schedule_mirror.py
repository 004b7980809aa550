"""Algorithm 2 against the paper's own construction, level by level, and the mirrored graph that it is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.solve import solve
from remat_algos.schedule.mirror import mirror_schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.schedule.unrolling import unroll
from tests.oracles.plain import plain
from tests.oracles.simulation import slow_simulation
from tests.strategies import training_graphs


@st.composite
def mirrored(draw, most=3):
    """A training graph and mirror counts of at most so much."""
    graph = draw(training_graphs(max_nodes=18))
    return graph, [0 if once else draw(st.integers(0, most)) for once in graph.once.tolist()]


def level_by_level(graph, m):
    """chen2016, algorithm 2 as the paper builds it: the runs in order, each (node, copy), and what each reads.

    At level k every node with m(v) >= k gets copy k, which reads the newest copies of its predecessors at that moment;
    a gradient reads the newest of all; in order of the gradients, each is put down after those of its ancestors that
    are not there yet.
    """
    g = plain(graph)
    needed = g.needed()
    reads, newest = {}, {}
    for level in range(1 + max((m[v] for v in g.forward()), default=0)):
        for v in g.forward():
            if m[v] >= level:
                # a pinned value is there from its first run
                reads[v, level] = [(u, 0) if x in g.outputs else newest[u] for x, u in inputs(g, v)]
                newest[v] = (v, level)
    for v in g.backward():
        reads[v, 0] = [(u, 0) if g.is_backward(u) or x in g.outputs else newest[u] for x, u in inputs(g, v)]
    order = [(v, 0) for v in g.forward() if v in needed]

    def put(run):
        if run not in order:
            for source in reads[run]:
                put(source)
            order.append(run)

    for v in g.backward():
        if v in needed:
            put((v, 0))
    return order, reads


def inputs(g, v):
    return [(x, g.producer[x]) for x in g.reads[v]]


@given(mirrored())
def test_the_order_is_that_of_the_papers_construction(decision):
    graph, m = decision
    order, _ = level_by_level(graph, m)
    assert mirror_schedule(graph, m).order.tolist() == [v for v, _ in order]


@given(mirrored())
def test_the_mirrored_graph_has_the_papers_copies_and_their_reads(decision):
    """Of what is read: the value is the same whichever copy gives it, the newest run does."""
    graph, m = decision
    order, _ = level_by_level(graph, m)
    unrolled = unroll(graph, mirror_schedule(graph, m))
    assert unrolled.n_nodes == len(order) == len(set(order))
    step = {run: i for i, run in enumerate(order)}
    g, mirror = plain(graph), plain(unrolled)
    for (v, _), i in step.items():
        sources = [(mirror.producer[x], u) for x, u in zip(mirror.reads[i], g.predecessors(v), strict=True)]
        assert all(j < i and order[j][0] == u for j, u in sources)


@given(mirrored())
def test_the_mirrored_graph_costs_and_holds_what_the_schedule_does(decision):
    graph, m = decision
    schedule = mirror_schedule(graph, m)
    unrolled, simulation = unroll(graph, schedule), simulate(graph, schedule)
    once_each = slow_simulation(unrolled, list(range(unrolled.n_nodes)))
    assert (once_each.peak, once_each.compute) == (simulation.peak_memory, simulation.compute)
    assert once_each.trace == simulation.memory_trace.tolist()
    assert unrolled.n_nodes == int(simulation.runs.sum())


@given(training_graphs(max_nodes=18))
def test_counts_of_nought_are_no_rematerialization(graph):
    schedule = mirror_schedule(graph, np.zeros(graph.n_nodes, int))
    base = solve(graph, solver="no_remat", raw=True)
    simulation = simulate(graph, schedule)
    assert schedule.order.tolist() == base.schedule.order.tolist()
    assert (simulation.peak_memory, simulation.overhead) == (base.peak_memory, 0)


@given(mirrored(most=1))
def test_a_node_runs_at_most_once_more_than_its_count(decision):
    graph, m = decision
    runs = simulate(graph, mirror_schedule(graph, m)).runs
    assert (runs[graph.forward] <= 1 + np.array(m)[graph.forward]).all()
    assert (runs[~graph.forward] <= 1).all()


@pytest.mark.parametrize("count", [2, 3, 1000])
def test_copies_that_nobody_reads_are_not_run(count):
    """The first copy of 0 feeds the copy of 1, the last one the gradient of 0; those between have no reader."""
    graph = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2)]))
    assert mirror_schedule(graph, [count, 1, 0, 0, 0, 0]).order.tolist() == [0, 1, 2, 3, 0, 1, 4, 0, 5]
