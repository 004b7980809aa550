"""Policies per block: the simulation, and the cheapest one, against all policies by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos.ir.parts import Labels
from remat_algos.plan.blocks import Blocks, block_schedule
from tests.oracles import block_policies as oracle


@st.composite
def models(draw, blocks=(2, 3), operators=(3, 4), equal=None, large=6):
    """A training graph of a few blocks in a row, with a node before and after them."""
    equal = draw(st.booleans()) if equal is None else equal
    count = draw(st.integers(*blocks))

    def layer():
        size = draw(st.integers(*operators))
        rows = []
        for i in range(size):
            before = sorted(draw(st.sets(st.integers(-1, i - 1), min_size=1, max_size=2)))
            costs = [draw(st.integers(1, large)) for _ in range(2)] + [draw(st.sampled_from([0, 0, 2]))]
            rows.append((before if i else [-1], *costs, draw(st.integers(0, 9)) == 0, draw(st.integers(0, 9)) == 0))
        return rows

    layers = [layer()] * count if equal else [layer() for _ in range(count)]
    names, edges, memory, compute, workspace, once = ["first"], [], [draw(st.integers(1, large))], [1], [0], [False]
    for b, rows in enumerate(layers):
        start = len(names) - 1
        for i, (before, size, cost, scratch, single, skips) in enumerate(rows):
            edges += {(start + 1 + u, len(names)) for u in before} | ({(0, len(names))} if skips else set())
            workspace.append(scratch)
            once.append(single)
            names.append(f"layers.{b}.op{i}")
            memory.append(size)
            compute.append(cost)
    edges.append((len(names) - 1, len(names)))
    names.append("loss")
    graph = ra.ComputationGraph.from_edges(
        edges,
        memory=[*memory, 1],
        compute=[*compute, 1],
        workspace=[*workspace, 0],
        once=[*once, False],
        labels=Labels(names=tuple(names)),
    )
    return ra.differentiate(graph)


def nodes(members):
    return np.isin(np.arange(max(members, default=0) + 1), list(members))


def mask(graph, chosen):
    found = np.zeros(graph.n_nodes, bool)
    found[list(chosen)] = True
    return found


@given(graph=models(), data=st.data())
@settings(max_examples=60)
def test_the_simulation_holds_what_eager_pytorch_does(graph, data):
    blocks = Blocks.of(graph, "layers.*")
    decisions = data.draw(st.lists(st.sampled_from(["keep", "recompute"]), min_size=len(blocks), max_size=len(blocks)))
    members = np.concatenate(blocks.members).tolist()
    saved = data.draw(st.sets(st.sampled_from(members)))
    found = ra.simulate(graph, block_schedule(graph, blocks, decisions, mask(graph, saved)))
    assert (found.peak_memory, found.overhead) == oracle.eager_run(graph, blocks, decisions, saved)


def exact(graph, semantics="eager"):
    blocks = Blocks.of(graph, "layers.*")

    def graph_run(graph, blocks, decisions, saved):
        found = ra.simulate(graph, block_schedule(graph, blocks, decisions, mask(graph, saved), "graph"))
        return found.peak_memory, found.overhead

    best = oracle.frontier(graph, blocks, oracle.eager_run if semantics == "eager" else graph_run)
    for (peak, cost), (following, _) in zip(best, [*best[1:], (best[-1][0] + 1, 0)], strict=True):
        for limit in {peak, following - 1}:
            policy = ra.plan_policy(graph, limit, blocks, semantics=semantics)
            assert policy.peak_memory <= limit
            yield limit, policy.overhead, cost
    with pytest.raises(ra.BudgetError):
        ra.plan_policy(graph, best[0][0] - 1, blocks, semantics=semantics)


@pytest.mark.parametrize("semantics", ["eager", "graph"])
@pytest.mark.parametrize("equal", [True, False])
@given(data=st.data())
@settings(max_examples=20)
def test_no_policy_is_cheaper(semantics, equal, data):
    graph = data.draw(models(blocks=(2, 2), operators=(4, 5), equal=equal))
    for limit, overhead, cost in exact(graph, semantics):
        assert overhead == cost, limit
