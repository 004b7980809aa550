"""How long it takes to make graphs, and to read them."""

import os
import tracemalloc

from remat_algos.formats.graph_files import read_graph, write_graph
from remat_algos.ir.graph import ComputationGraph
from remat_algos.zoo.random import layered_dag

CORES = os.cpu_count()


def test_from_arrays_with_a_million_nodes(benchmark):
    source = layered_dag(1_000_000, reads=(4, 4))
    arrays = {name: getattr(source, name) for name in ("read_indptr", "read_indices", "memory", "compute")}
    graph = benchmark.pedantic(ComputationGraph.from_arrays, kwargs=arrays, rounds=5, warmup_rounds=1)
    assert graph.n_nodes == 1_000_000
    del graph
    tracemalloc.start()
    ComputationGraph.from_arrays(**arrays)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    benchmark.extra_info.update(
        cores=CORES,
        nodes=source.n_nodes,
        reads=source.read_indices.size,
        peak_mib=peak >> 20,
        wanted_peak_mib=128,
    )


def test_read_tables_of_a_hundred_thousand_nodes(benchmark, tmp_path):
    source = layered_dag(100_000, reads=(1, 2))
    write_graph(source, tmp_path / "graph.nodes.csv")
    benchmark.extra_info.update(cores=CORES, nodes=source.n_nodes, reads=source.read_indices.size)
    graph = benchmark.pedantic(read_graph, (tmp_path / "graph.nodes.csv",), rounds=5, warmup_rounds=1)
    assert graph.hash == source.hash


def test_read_npz_of_a_million_nodes(benchmark, tmp_path):
    source = layered_dag(1_000_000)
    write_graph(source, tmp_path / "graph.npz")
    benchmark.extra_info.update(
        cores=CORES,
        nodes=source.n_nodes,
        reads=source.read_indices.size,
        file_mib=(tmp_path / "graph.npz").stat().st_size >> 20,
    )
    graph = benchmark.pedantic(read_graph, (tmp_path / "graph.npz",), rounds=5, warmup_rounds=1)
    assert graph.hash == source.hash
