"""How long bounds take on networks of the zoo, and how near they come to the best schedules that are known."""

import functools
import os

import pytest

import remat_algos as ra
from remat_algos.bounds.closure import overhead_bound
from remat_algos.schedule.emission import baseline_peak
from remat_algos.zoo.registry import build

OVERHEADS = {  # that are to be proved, in per cent of one pass
    ("resnet50", 80): 0.129,
    ("resnet50", 50): 0.727,
    ("resnet50", 25): 5.28,
    ("mobilenet_v2", 80): 1.203,
    ("mobilenet_v2", 50): 3.138,
    ("vit_b_16", 50): 1.436,
    ("vit_b_16", 25): 14.32,
    ("gpt2_small", 50): 1.475,
    ("gpt2_small", 25): 21.22,
    ("llama_7b", 50): 5.554,
    ("llama_7b", 25): 17.634,
    ("transformer_base", 50): 14.86,
    ("deepspeech2_1rnn", 50): 11.93,
    ("deepspeech2_1rnn", 25): 31.94,
    ("switch_base_8", 50): 1.058,
    ("switch_base_8", 25): 14.98,
    ("lstm", 50): 4.195,
    ("lstm", 25): 16.39,
    ("nmt", 50): 0.217,
    ("nmt", 25): 7.11,
}


@functools.cache
def network(name):
    return ra.differentiate(build(name).graph)


@pytest.mark.parametrize(("name", "percent"), OVERHEADS, ids=lambda part: part if isinstance(part, str) else f"{part}%")
def test_closure_bound(benchmark, name, percent):
    graph = network(name)
    limit = baseline_peak(graph) * percent // 100
    rounds = 1 if graph.n_nodes > 4000 else 3
    bound = benchmark.pedantic(overhead_bound, (graph, limit), rounds=rounds, warmup_rounds=graph.n_nodes <= 4000)
    overhead = 100 * (bound.amount - graph.needed_compute) / graph.needed_compute
    benchmark.extra_info.update(
        cores=os.cpu_count(),
        nodes=graph.n_nodes,
        reads=graph.read_indices.size,
        overhead_percent=round(overhead, 3),
        wanted_overhead_percent=OVERHEADS[name, percent],
    )
