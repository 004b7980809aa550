"""How long the table of a chain takes."""

import os

import numpy as np
import pytest

from remat_algos.context import Clock
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.solvers.chain_stages import stages_of
from remat_algos.solvers.methods.chain_dp import ChainTable
from remat_algos.solvers.registry import list_candidates

SLOTS = 500


def uneven_chain(n):
    """A chain with sizes of 1 to 2 MB and costs of 1 to 100."""
    chance = np.random.default_rng(n)
    sizes, costs = chance.integers(10**6, 2 * 10**6, n), chance.integers(1, 100, n)
    return differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(n - 1)], memory=sizes, compute=costs))


@pytest.mark.parametrize("stages", [100, 200, 400])
def test_table(benchmark, stages):
    chain = stages_of(uneven_chain(stages))
    memory = chain.upper
    arguments = chain, memory, memory.highest, SLOTS, Clock()
    table = benchmark.pedantic(ChainTable.of, arguments, rounds=3, warmup_rounds=1)
    benchmark.extra_info.update(cores=os.cpu_count(), stages=stages, slots=SLOTS, bytes=table.entries.nbytes)
    assert np.isfinite(table.root[-1])


def test_revolve(benchmark):
    graph = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(2_999)]))
    found = benchmark.pedantic(list_candidates, (graph, "revolve", 40), rounds=3, warmup_rounds=1)
    benchmark.extra_info.update(cores=os.cpu_count(), nodes=graph.n_nodes)
    assert any(each.figures[1] == each.bound for each in found)
