"""What the models of allocators cost."""

import os

import numpy as np
import pytest

from remat_algos.allocate.pools import cuda_caching, cupy_pool
from remat_algos.ir.differentiate import differentiate
from remat_algos.schedule.simulation import simulate
from remat_algos.zoo.random import chain

CORES = os.cpu_count()


def of_one_size():
    """A training chain of which all values have one size, so that a pool has thousands of equal chunks."""
    graph = differentiate(chain(40_000, memory=2**20))
    return simulate(graph, np.arange(graph.n_nodes))


@pytest.mark.parametrize("model", [cupy_pool, cuda_caching])
def test_a_pool_of_equal_chunks(benchmark, model):
    simulation = of_one_size()
    benchmark.extra_info.update(cores=CORES, steps=len(simulation.schedule))
    use = benchmark.pedantic(model, (simulation,), rounds=5, warmup_rounds=1)
    assert use.peak_used == simulation.peak_memory
