"""How long the simulator takes, and the emitter and the gradients before it."""

import os
from dataclasses import replace

import numpy as np

from remat_algos.cost.links import Link
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.emission import mirror_schedule
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.schedule.timeline import evict, timeline
from remat_algos.zoo.random import chain, layered_dag

CORES = os.cpu_count()


def test_simulate_a_million_steps(benchmark):
    graph = layered_dag(1_000_000, reads=(2, 3), reach=100_000)
    schedule = Schedule(np.arange(graph.n_nodes))
    benchmark.extra_info.update(cores=CORES, nodes=graph.n_nodes, reads=graph.read_indices.size, steps=len(schedule))
    simulation = benchmark.pedantic(simulate, (graph, schedule), rounds=10, warmup_rounds=1)
    assert len(simulation.memory_trace) == 1_000_000


def with_loads(n_nodes, n_loads):
    """A graph and an order in which values that wait long are copied out, and back where they are last read."""
    graph = layered_dag(n_nodes, reads=(2, 3), reach=n_nodes // 10)
    reads = {"read_indptr": graph.read_indptr, "read_indices": graph.read_indices}
    costs = {"memory": graph.memory, "compute": graph.compute, "labels": replace(graph.labels, compute_unit="us")}
    graph = ComputationGraph.from_arrays(**reads, **costs)
    lives = simulate(graph, np.arange(n_nodes)).lifetimes
    waiting = np.flatnonzero(~graph.output[lives.value] & (lives.end - lives.made_at > 2000))
    picked = waiting[np.linspace(0, waiting.size - 1, n_loads).astype(int)]
    return graph, Schedule(np.arange(n_nodes), np.stack([lives.end[picked] - 1, lives.value[picked]], axis=1))


def test_timeline_of_a_million_actions(benchmark):
    graph, schedule = with_loads(300_000, 133_000)
    simulation, link = simulate(graph, schedule), Link.of("100MB/s")
    actions = len(schedule) + 2 * len(schedule.loads) + sum(map(len, simulation.frees()))
    benchmark.extra_info.update(cores=CORES, nodes=graph.n_nodes, reads=graph.read_indices.size, actions=actions)
    played = benchmark.pedantic(timeline, (simulation, link), rounds=10, warmup_rounds=1)
    assert len(played.stores) == 133_000


def test_lingering_of_a_million_actions(benchmark):
    graph, schedule = with_loads(300_000, 133_000)
    link, limit = Link(out=3e5, into=1e9, latency=0), int(1.3 * simulate(graph, schedule).peak_memory)
    benchmark.extra_info.update(cores=CORES, nodes=graph.n_nodes, reads=graph.read_indices.size)
    played = timeline(simulate(graph, schedule), link)
    planned = benchmark.pedantic(played.with_late_stores, (limit, 0), rounds=3, warmup_rounds=1)
    benchmark.extra_info.update(lingering=len(planned.simulation.schedule.lingering))


def test_evict_all_from_twenty_thousand_nodes(benchmark):
    """What leaves until each step has only what it needs."""
    simulation = simulate(layered_dag(20_000, reach=2000), np.arange(20_000))
    benchmark.extra_info.update(cores=CORES, nodes=20_000)
    schedule = benchmark.pedantic(evict, (simulation, 0), rounds=3)
    benchmark.extra_info.update(loads=len(schedule.loads))


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
