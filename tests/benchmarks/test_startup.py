"""How long whole processes of the command line take."""

import os
import subprocess
import sys

import pytest

from remat_algos.formats.graph_files import write_graph
from remat_algos.ir.differentiate import differentiate
from remat_algos.zoo.random import chain, layered_dag

COMMANDS = {
    "help": ["--help"],
    "show": ["show", "g.nodes.csv"],
    "solve": ["solve", "g.nodes.csv", "--budget", "50%"],
}


def measure(benchmark, words, folder, *, rounds, **info):
    """Time the command, its bytecode cached as an install caches it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    command = [sys.executable, "-m", "remat_algos", *words]

    def run():
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)

    benchmark.pedantic(run, rounds=rounds, warmup_rounds=1)
    benchmark.extra_info.update(cores=os.cpu_count(), **info)


@pytest.mark.parametrize("command", COMMANDS)
def test_start_up_on_a_training_graph_of_200_nodes(benchmark, tmp_path, command):
    forward = chain(100, memory=1000, compute=3)
    write_graph(forward, tmp_path / "g.nodes.csv")
    graph = differentiate(forward)
    info = {"nodes": graph.n_nodes, "reads": graph.read_indices.size}
    measure(benchmark, COMMANDS[command], tmp_path, rounds=7, **info)


def test_show_npz_of_a_million_nodes(benchmark, tmp_path):
    forward = layered_dag(1_000_000)
    write_graph(forward, tmp_path / "g.npz")
    graph = differentiate(forward)
    info = {"nodes": graph.n_nodes, "reads": graph.read_indices.size}
    del forward, graph
    measure(benchmark, ["show", "g.npz"], tmp_path, rounds=3, **info)
