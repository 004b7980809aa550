"""How long it takes to build networks of the zoo."""

import os

import pytest

from remat_algos.zoo.registry import build

BUILT = {
    "resnet of 20,000 operations": ("resnet", {"stages": (200, 400, 1200, 200)}),
    "lstm of 20,000 operations": ("lstm", {"steps": 370}),
    "gpt2_xl": ("gpt2_xl", {}),
    "resnet200, primitive, with adam": ("resnet200", {"granularity": "primitive", "optimizer": "adam"}),
}


@pytest.mark.parametrize("case", BUILT)
def test_build(benchmark, case):
    model, options = BUILT[case]
    graph = benchmark.pedantic(build, (model,), options, rounds=5, warmup_rounds=1).graph
    benchmark.extra_info.update(
        cores=os.cpu_count(), nodes=graph.n_nodes, reads=graph.read_indices.size, values=graph.n_values
    )
