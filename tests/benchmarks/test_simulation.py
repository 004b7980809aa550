"""How long the simulator takes, and the emitter and the gradients before it."""

import os

import numpy as np

from remat_algos.ir.differentiate import differentiate
from remat_algos.models.random import chain, layered_dag
from remat_algos.schedule.mirror import mirror_schedule
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate

CORES = os.cpu_count()


def test_simulate_a_million_steps(benchmark):
    graph = layered_dag(1_000_000, reads=(2, 3), reach=100_000)
    schedule = Schedule(np.arange(graph.n_nodes))
    benchmark.extra_info.update(cores=CORES, nodes=graph.n_nodes, reads=graph.read_indices.size, steps=len(schedule))
    simulation = benchmark.pedantic(simulate, (graph, schedule), rounds=10, warmup_rounds=1)
    assert len(simulation.memory_trace) == 1_000_000


def test_mirror_schedule_of_a_long_chain(benchmark):
    graph = differentiate(chain(100_000))
    kept = np.arange(graph.n_nodes) % 316 == 0
    benchmark.extra_info.update(cores=CORES, nodes=graph.n_nodes)
    schedule = benchmark.pedantic(mirror_schedule, (graph, np.where(kept, 0, 1)), rounds=10, warmup_rounds=1)
    assert len(schedule) > graph.n_nodes


def test_differentiate_ten_thousand_nodes(benchmark):
    graph = layered_dag(10_000)
    benchmark.extra_info.update(cores=CORES, nodes=graph.n_nodes, reads=graph.read_indices.size)
    training = benchmark.pedantic(differentiate, (graph,), rounds=5, warmup_rounds=1)
    assert training.is_training
