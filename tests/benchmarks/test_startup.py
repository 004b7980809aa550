"""CPU time of whole processes of the command line; the median of the runs stands in `extra_info`."""

import os
import resource
import statistics
import subprocess
import sys

import pytest

from remat_algos.ir.files.write import write_graph
from remat_algos.models.random import chain

COMMANDS = {"help": ["--help"], "show": ["show", "g.nodes.csv"], "solve": ["solve", "g.nodes.csv", "--budget", "50%"]}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_start_up_on_a_training_graph_of_200_nodes(benchmark, tmp_path, words):
    write_graph(chain(100, memory=1000, compute=3), tmp_path / "g.nodes.csv")
    seconds = []

    def run():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "remat_algos", *words], cwd=tmp_path, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    benchmark.pedantic(run, rounds=7, warmup_rounds=1)
    benchmark.extra_info.update(cores=os.cpu_count(), median_cpu_seconds=statistics.median(seconds))
