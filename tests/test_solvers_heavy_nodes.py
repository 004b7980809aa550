"""Heavy nodes and recomputable nodes: by operation, by cost, by name, by mark."""

from dataclasses import replace

import numpy as np
import pytest

from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.labels import KEEP, RECOMPUTE, Labels
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.echo_choice import MODES, Choice, heavy_nodes
from tests.echo_cases import CASES, echoed, forward_graph, network, nodes, recomputable
from tests.oracles import echo as oracle

each_mode = pytest.mark.parametrize("mode", MODES)


def test_unknown_operations_are_heavy_if_they_cost_more_than_the_mean():
    graph = ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)], compute=[10, 1, 10, 2])
    assert heavy_nodes(graph).tolist() == [True, False, True, False]
    assert not heavy_nodes(ComputationGraph.from_edges([(0, 1)], compute=3)).any()
    labels = Labels(ops=("Warp", "Conv", "Tanh", "Embedding"))
    assert heavy_nodes(replace(graph, labels=labels)).tolist() == [True, True, False, False]


def test_a_node_that_costs_nearly_all_is_heavy_among_thousands():
    """Its compute times their number is above 2**63."""
    compute = np.ones(4096, np.int64)
    compute[7] = 2**52
    graph = ComputationGraph.from_edges([(v, v + 1) for v in range(4095)], compute=compute)
    assert np.flatnonzero(heavy_nodes(graph)).tolist() == [7]


def test_a_node_of_the_mean_is_not_heavy():
    assert heavy_nodes(ComputationGraph.from_edges([(0, 1), (1, 2)], compute=[1, 2, 3])).tolist() == [0, 0, 1]
    assert heavy_nodes(ComputationGraph.from_edges([(0, 1), (1, 2)], compute=[1, 2, 2])).tolist() == [0, 1, 1]


def layered():
    names = ("encoder.layer0.conv", "encoder.layer0.tanh", "attention.step12.fc", "attention.step12.relu", "loss")
    labels = Labels(names=names, ops=("Conv2d", "Tanh", "Linear", "ReLU", "Linear"))
    chain = forward_graph([[], [0], [1], [2], [3]], [[], [1], [1], [3], []], [2, 8, 2, 8, 0], labels)
    return differentiate(chain)


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({}, {1, 3}),
        ({"only": "ReLU"}, {3}),
        ({"only": "encoder"}, {1}),
        ({"only": "step"}, {3}),
        ({"only": ["layer0", "ReLU"]}, {1, 3}),
        ({"only": "Tanh, ReLU"}, {1, 3}),
        ({"only": "Convolution"}, set()),
        ({"also": "Convolution"}, {0, 1, 3}),
        ({"also": "attention"}, {1, 2, 3}),
        ({"only": "ReLU", "also": "Conv"}, {0, 3}),
    ],
    ids=str,
)
def test_only_and_also_name_operations_and_layers(options, allowed):
    graph = layered()
    assert recomputable(graph, **options) == allowed
    assert nodes(Choice.of(graph, **options).recomputed) <= allowed
    assert echoed(graph, **options).details["stash"] == oracle.minimum_stash(graph, allowed)[0]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"only": "Warp"}, "only names 'Warp', no operation or layer of this graph; it has the operations Conv"),
        ({"also": "decoder"}, "also names 'decoder', no operation or layer"),
        ({"only": " ,"}, "only is ' ,', which names nothing"),
        ({"mode": "fast"}, "mode is 'fast'; use exact or paper"),
        (
            {"mode": "mxnet"},
            "mode is 'mxnet', which is part of the reproduction of echo2020; use exact or paper",
        ),
        (
            {"mode": "literal"},
            "mode is 'literal', which is part of the reproduction of echo2020; use exact or paper",
        ),
    ],
    ids=str,
)
def test_options_that_mean_nothing_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        echoed(layered(), **options)


@pytest.mark.parametrize("marks", [{"tanh": KEEP, "e1": KEEP, "e4": RECOMPUTE}, {"H": RECOMPUTE}, {"e1": RECOMPUTE}])
@each_mode
def test_marks_have_the_last_word(mode, marks):
    graph = network([*CASES["T1, n = 4"], ("tanh", 4, "e4", "tanh")])
    mark = np.zeros(graph.n_nodes, int)
    for name, wish in marks.items():
        mark[graph.node_id(name)] = wish
    graph = replace(graph, mark=mark, derivation=None)
    simulation = simulate(graph, echoed(graph, mode=mode).schedule)  # which checks marks
    assert (simulation.runs[mark == KEEP] == 1).all()


def test_what_must_run_once_does():
    graph = network(CASES["T1, n = 4"])
    graph = replace(graph, once=np.isin(np.arange(graph.n_nodes), [2, 3]), derivation=None)
    candidate = echoed(graph)
    assert candidate.schedule.mirror_count(graph.n_nodes)[[2, 3]].tolist() == [0, 0]
    assert candidate.details["stash"] == 12
