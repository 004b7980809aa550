"""What running a schedule costs beside the operators, and what the synthetic ones cost."""

import os

import numpy as np

from remat_algos.executor.operators import SyntheticOperators
from remat_algos.executor.run import execute
from remat_algos.ir.differentiate import differentiate
from remat_algos.schedule.emission import mirror_schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.zoo.random import layered_dag

CORES = os.cpu_count()


class Nothing:
    """Operators that do nothing: what is left is the executor's own time."""

    def prepare(self, backend, graph):
        pass

    def residents(self, backend):
        return []

    def run(self, node, reads, residents, values, workspace):
        pass

    def checksum(self, array):
        return 0


def recomputing():
    """Every forward node of a graph of tiny values runs again."""
    graph = differentiate(layered_dag(10_000))
    return simulate(graph, mirror_schedule(graph, np.where(graph.forward, 1, 0)))


def test_steps_beside_their_operators(benchmark):
    simulation = recomputing()
    steps = len(simulation.schedule)
    benchmark.extra_info.update(cores=CORES, steps=steps)
    found = benchmark.pedantic(execute, (simulation.graph, simulation, Nothing()), rounds=5, warmup_rounds=1)
    assert found.used.tolist() == found.predicted.tolist()


def test_steps_of_synthetic_operators(benchmark):
    simulation = recomputing()
    operators = SyntheticOperators(simulation.graph)
    benchmark.extra_info.update(cores=CORES, steps=len(simulation.schedule))
    found = benchmark.pedantic(execute, (simulation.graph, simulation, operators), rounds=3, warmup_rounds=1)
    assert found.mismatches == []
