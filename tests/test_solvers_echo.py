"""Echo: the cases of the notes by number, the minimum stash against all choices, mode "paper" by the book."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from remat_algos.errors import ArgumentError
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import KEEP, RECOMPUTE, Labels
from remat_algos.schedule.emission import baseline, baseline_peak
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.methods.echo import MODES, Choice, by_frontiers, heavy_nodes
from remat_algos.zoo.registry import build
from tests.books import book
from tests.echo_cases import (
    CASES,
    attention,
    decoder,
    diamonds,
    echoed,
    forward_graph,
    mirror_all,
    network,
    nodes,
    random_networks,
    recomputable,
    tensors,
)
from tests.oracles import echo as oracle
from tests.raising import raises
from tests.strategies import training_graphs

each_mode = pytest.mark.parametrize("mode", MODES)


def stash(graph, mode):
    """(bytes, recomputed nodes), by the solver and by its schedule."""
    candidate = echoed(graph, mode=mode)
    assert candidate.details["stash"] == oracle.stash(graph, candidate.schedule.order)
    assert candidate.details["rerun"] == len(candidate.schedule) - np.count_nonzero(graph.needed)
    assert candidate.details["stash_without"] == oracle.stash(graph, baseline(graph).schedule.order)
    return candidate.details["stash"], candidate.details["rerun"]


# ---------------------------------------------------------------- the cases

# stashed values, recomputed nodes; values of no bytes are left out
EXACT = {
    "T1, n = 4": ("e1", "e2 e3 e4"),
    "T1, n = 6": ("e1", "e2 e3 e4 e5 e6"),
    "T2": ("tanh", ""),
    "T3, T = 1": ("tanh0", ""),
    "T3, T = 2": ("tanh0 tanh1", ""),
    "T3, T = 3": ("X Y0 Y1 Y2", "add0 tanh0 add1 tanh1 add2 tanh2"),
    "T5": ("y", "z"),
    "T6": ("e1 t", "e2 e3 e4"),
    "T7": ("v2", ""),
    "T7b": ("v1", ""),
    "T8": ("H", "a b c"),
    "T10": ("X tanh", ""),
}


@pytest.mark.parametrize("case", EXACT)
def test_stashed_values_and_recomputed_nodes(case):
    graph = network(CASES[case])
    choice = Choice.of(graph)
    kept = [graph.value_name(x) for x in np.flatnonzero(choice.stashed) if graph.memory[x]]
    assert (" ".join(kept), " ".join(graph.labels[v] for v in np.flatnonzero(choice.recomputed))) == EXACT[case]


TABLE = {  # no rematerialization, mirror-all, paper, exact
    "T1, n = 4": (16, 4, 4, 4),
    "T1, n = 6": (24, 4, 4, 4),
    "T2": (4, 8, 4, 4),
    "T3, T = 1": (1, 2, 1, 1),
    "T3, T = 2": (4, 4, 4, 4),
    "T3, T = 3": (9, 6, 6, 6),
    "T3, T = 5": (25, 10, 10, 10),
    "T3, T = 8": (64, 16, 16, 16),
    "T5": (8, 4, 4, 4),
    "T6": (20, 8, 8, 8),
    "T7": (2, 3, 3, 2),
    "T7b": (1, 3, 3, 1),
    "T8": (12, 1, 1, 1),
    "T9": (80, 1, 1, 1),
    "T10": (8, 8, 8, 8),
}


@pytest.mark.parametrize("case", TABLE)
def test_the_table_of_stashes(case):
    graph = network(CASES[case])
    without = oracle.stash(graph, baseline(graph).schedule.order)
    assert (without, mirror_all(graph)[0], stash(graph, "paper")[0], stash(graph, "exact")[0]) == TABLE[case]


@pytest.mark.parametrize(
    ("case", "mode", "rerun"), [("T10", "paper", 2), ("T10", "exact", 0), ("T9", "exact", 119), ("T6", "exact", 3)]
)
def test_recomputed_nodes_beside_the_table(case, mode, rerun):
    assert stash(network(CASES[case]), mode)[1] == rerun


@pytest.mark.parametrize(("case", "rerun"), [("T1, n = 4", 4), ("T5", 2), ("T6", 5), ("T10", 2)], ids=str)
def test_mirroring_all_recomputes_more(case, rerun):
    assert mirror_all(network(CASES[case]))[1] == rerun


@pytest.mark.parametrize(
    ("case", "without", "exact", "kept"),
    [
        ("T5", 12, 8, "y FC"),
        ("T7b", 5, 3, "H"),
        ("T8", 16, 5, "H G"),
        ("T9", 81, 1, "H"),
        ("T10", 12, 12, "X W2 tanh"),
    ],
)
def test_without_a_loss_the_reads_of_seeds_count(case, without, exact, kept):
    graph = network(CASES[case], loss=False)
    choice = Choice.of(graph)
    assert (oracle.stash(graph, baseline(graph).schedule.order), stash(graph, "exact")[0]) == (without, exact)
    assert " ".join(graph.value_name(x) for x in np.flatnonzero(choice.stashed)) == kept
    assert case != "T9" or choice.recomputed.sum() == 120


@pytest.mark.parametrize("case", ["T1, n = 6", "T2", "T3, T = 3", "T6", "T7"])
def test_without_a_loss_the_others_stay(case):
    assert stash(network(CASES[case], loss=False), "exact")[0] == TABLE[case][-1]


@pytest.mark.parametrize("steps", [3, 5])
@each_mode
def test_t4_the_attention_of_figure_8_with_ends_apart(mode, steps):
    apart = [*attention(steps), *((f"Loss{t}", 0, f"tanh{t}", "") for t in range(steps))]
    assert stash(network(apart, loss=False), mode) == (2 * steps, 2 * steps)


def test_t5_the_gradient_of_a_heavy_node_reads_a_recomputed_value():
    graph = network(CASES["T5"])
    names = echoed(graph).schedule.names(graph)
    assert names.count("FC") == 1
    assert names.index("grad(z)") > names.index("z", names.index("Loss")) > names.index("Loss")


def test_t6_a_heavy_node_that_saves_its_inputs_is_dead():
    """Its input is recomputed, the node is not; with `also`, heavy nodes are recomputed, and nothing is stashed."""
    graph = network(CASES["T6"])
    assert echoed(graph).schedule.names(graph).count("FC") == 1
    more = echoed(graph, also="Linear")
    assert (more.details["stash"], "FC" in more.schedule.names(graph)[graph.n_nodes // 2 :]) == (0, True)


@each_mode
def test_t9_long_chains_of_diamonds_are_linear(mode):
    """Expanding every path would take 3 * 2**3000 steps."""
    candidate = echoed(network(diamonds(3000)), mode=mode)
    assert (candidate.details["stash"], candidate.details["rerun"]) == (1, 3 * 3000 - 1)


def test_t12_resnet_152():
    """MXNet's own assertion, on the network of its test: pre-activated, batch 32, 224 x 224.

    The total is the simulated peak with all that is resident: parameters, statistics, inputs.
    """
    graph = differentiate(build("resnet152", batch=32, image=224, preactivation=True).graph, parameter_gradients=True)
    peak = simulate(graph, echoed(graph).schedule).peak_memory
    assert (peak + graph.resident_memory) / (baseline_peak(graph) + graph.resident_memory) < 0.6


@pytest.mark.parametrize(("steps", "before", "after"), [(5, 44, 32), (10, 139, 67), (20, 479, 137), (40, 1759, 277)])
def test_peaks_of_figure_8(steps, before, after):
    graph = network(decoder(steps), loss=False)
    assert (baseline_peak(graph), simulate(graph, echoed(graph).schedule).peak_memory) == (before, after)


# ---------------------------------------------------------------- against all choices


def test_no_choice_has_a_smaller_stash_on_300_random_networks():
    for graph in random_networks(300):
        details = echoed(graph).details
        assert (details["stash"], details["rerun"]) == oracle.minimum_stash(graph, recomputable(graph))


@given(graph=training_graphs(max_nodes=20))
def test_no_choice_has_a_smaller_stash_whatever_the_graph(graph):
    candidate = echoed(graph)
    assert (candidate.details["stash"], candidate.details["rerun"]) == oracle.minimum_stash(graph, recomputable(graph))
    assert candidate.details["stash"] == oracle.stash(graph, candidate.schedule.order)


@given(graph=training_graphs(max_nodes=20))
def test_no_choice_with_the_minimum_stash_computes_less(graph):
    choice = Choice.of(graph)
    minimum, _ = oracle.minimum_stash(graph, recomputable(graph))
    for stashed, recomputed in oracle.choices(graph, recomputable(graph)):
        assert stashed > minimum or nodes(choice.recomputed) <= recomputed


def test_mode_paper_does_what_its_lines_say():
    for graph in random_networks(200):
        check_paper(graph)


@given(graph=training_graphs(max_nodes=24))
def test_mode_paper_does_what_its_lines_say_whatever_the_graph(graph):
    check_paper(graph)


def check_paper(graph):
    maps = Choice.of(graph).maps
    assert nodes(by_frontiers(maps)) == nodes(book("echo_pass").echo_pass(*tensors(maps)))
    stash(graph, "paper")


# ---------------------------------------------------------------- which nodes may be recomputed


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
    ("options", "fields"),
    [
        ({"only": "Warp"}, {"option": "only", "word": "Warp", "operations": ["Convolution", "Linear", "ReLU", "Tanh"]}),
        ({"also": "ReLU, decoder"}, {"option": "also", "word": "decoder"}),
        ({"only": " ,"}, {"option": "only", "words": " ,"}),
        ({"mode": "fast"}, {"mode": "fast"}),
        ({"mode": "mxnet"}, {"mode": "mxnet"}),
        ({"mode": "literal"}, {"mode": "literal"}),
    ],
    ids=str,
)
def test_options_that_mean_nothing_are_refused(options, fields):
    with raises(ArgumentError, **fields):
        echoed(layered(), **options)


def test_a_graph_without_operations_has_none_that_an_option_could_name():
    with raises(ArgumentError, option="only", word="ReLU"):
        recomputable(ComputationGraph.from_edges([(0, 1)]), only="ReLU")


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
