"""Echo: the cases of the notes by number, the least stash against all choices, the published passes line by line."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.models.registry import build
from remat_algos.schedule.baseline import baseline, baseline_peak
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.echo import MODES, Choice
from remat_algos.solvers.echo_literal import by_algorithm_1
from remat_algos.solvers.echo_mxnet import by_frontiers, mirror_places
from tests.echo_cases import (
    CASES,
    COUNT,
    attention,
    decoder,
    diamonds,
    echoed,
    may_rerun,
    network,
    nodes,
    random_networks,
)
from tests.oracles import echo as oracle
from tests.strategies import rows, training_graphs

each_mode = pytest.mark.parametrize("mode", MODES)


def stash(graph, mode):
    """(bytes, nodes run again), as the solver says and as its schedule has it."""
    found = echoed(graph, mode=mode)
    assert found.details["stash"] == oracle.stash(graph, found.schedule.order)
    assert found.details["rerun"] == len(found.schedule) - np.count_nonzero(graph.needed)
    assert found.details["stash_without"] == oracle.stash(graph, baseline(graph).schedule.order)
    return found.details["stash"], found.details["rerun"]


def mirror_all(graph):
    """(bytes, nodes run again) where all that is cheap may run again."""
    maps = Choice.of(graph).maps
    rerun = maps.rerun(maps.recomputable)
    return maps.memory(maps.stashed(rerun)), int(rerun.sum())


# ---------------------------------------------------------------- the cases

# kept, run again; values of no bytes are left out
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
def test_what_is_kept_and_what_runs_again(case):
    graph = network(CASES[case])
    choice = Choice.of(graph)
    kept = [graph.value_name(x) for x in np.flatnonzero(choice.stashed) if graph.memory[x]]
    assert (" ".join(kept), " ".join(graph.labels[v] for v in np.flatnonzero(choice.rerun))) == EXACT[case]


TABLE = {  # no remat, mirror-all, paper, mxnet, exact
    "T1, n = 4": (16, 4, 4, 4, 4),
    "T1, n = 6": (24, 4, 4, 4, 4),
    "T2": (4, 8, 4, 4, 4),
    "T3, T = 1": (1, 2, 1, 1, 1),
    "T3, T = 2": (4, 4, 4, 4, 4),
    "T3, T = 3": (9, 6, 9, 6, 6),
    "T3, T = 5": (25, 10, 25, 10, 10),
    "T3, T = 8": (64, 16, 64, 16, 16),
    "T5": (8, 4, 4, 4, 4),
    "T6": (20, 8, 8, 8, 8),
    "T7": (2, 3, 2, 3, 2),
    "T7b": (1, 3, 3, 3, 1),
    "T8": (12, 1, 1, 5, 1),
    "T9": (80, 1, 1, 1, 1),
    "T10": (8, 8, 8, 8, 8),
}


@pytest.mark.parametrize("case", TABLE)
def test_the_table_of_stashes(case):
    graph = network(CASES[case])
    without = oracle.stash(graph, baseline(graph).schedule.order)
    ours = (without, mirror_all(graph)[0], *(stash(graph, mode)[0] for mode in ("literal", "mxnet", "exact")))
    assert ours == TABLE[case]
    assert stash(graph, "paper")[0] == (1 if case == "T8" else TABLE[case][3])


@pytest.mark.parametrize(
    ("case", "mode", "rerun"),
    [("T10", "literal", 0), ("T10", "mxnet", 2), ("T10", "exact", 0), ("T9", "exact", 119), ("T6", "exact", 3)],
)
def test_runs_beside_the_table(case, mode, rerun):
    assert stash(network(CASES[case]), mode)[1] == rerun


@pytest.mark.parametrize(
    ("case", "rerun"), [("T1, n = 4", 4), ("T5", 2), ("T6", 5), ("T10", 2)], ids=lambda given: str(given)
)
def test_mirroring_all_runs_more(case, rerun):
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
    assert case != "T9" or choice.rerun.sum() == 120


@pytest.mark.parametrize("case", ["T1, n = 6", "T2", "T3, T = 3", "T6", "T7"])
def test_without_a_loss_the_others_stay(case):
    assert stash(network(CASES[case], loss=False), "exact")[0] == TABLE[case][-1]


@pytest.mark.parametrize("steps", [3, 5])
def test_t4_algorithm_1_as_printed_saves_nothing_on_its_own_example(steps):
    """T4: with ends apart, or joined by a heavy node."""
    apart = [*attention(steps), *((f"Loss{t}", 0, f"tanh{t}", "") for t in range(steps))]
    for graph in (network(attention(steps)), network(apart, loss=False)):
        assert stash(graph, "literal") == (steps**2, 0)
        assert stash(graph, "mxnet") == stash(graph, "exact") == (2 * steps, 2 * steps)


def test_t5_the_gradient_of_a_heavy_node_reads_what_was_made_again():
    graph = network(CASES["T5"])
    names = echoed(graph).schedule.names(graph)
    assert names.count("FC") == 1
    assert names.index("grad(z)") > names.index("z", names.index("Loss")) > names.index("Loss")


def test_t6_a_heavy_node_that_saves_its_inputs_is_dead():
    """Its input is made again, itself it is not; to do that too saves no more bytes and costs a heavy run."""
    graph = network(CASES["T6"])
    assert echoed(graph).schedule.names(graph).count("FC") == 1
    more = echoed(graph, also="Linear")
    assert (more.details["stash"], "FC" in more.schedule.names(graph)[graph.n_nodes // 2 :]) == (0, True)


def test_t8_the_mirrors_of_the_code_are_not_in_topological_order():
    graph = network(CASES["T8"])
    names = echoed(graph, mode="mxnet").schedule.names(graph)[6:]
    assert names.index("b") < names.index("a") < names.index("c")


@each_mode
def test_t9_long_chains_of_diamonds_are_linear(mode):
    """Expanding every path would take 3 * 2**3000 steps."""
    found = echoed(network(diamonds(3000)), mode=mode)
    assert (found.details["stash"], found.details["rerun"]) == (1, 3 * 3000 - 1)


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


def test_no_choice_has_a_smaller_stash_on_1000_random_networks():
    for graph in random_networks():
        details = echoed(graph).details
        assert (details["stash"], details["rerun"]) == oracle.least_stash(graph, may_rerun(graph))


def test_the_page_has_what_is_measured_on_the_family():
    names = {"no rematerialization": "none", "all that is cheap": "all", **{f"`{mode}`": mode for mode in MODES}}
    page = Path(__file__).resolve().parents[1] / "docs" / "solvers" / "echo.md"
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.read_text("utf-8").splitlines()]
    printed = {names[row[0]]: [int(cell.replace(",", "") or 0) for cell in row[1:]] for row in rows if row[0] in names}
    measured = {name: [0, 0, 0, 0] for name in names.values()}
    for graph in random_networks():
        found = {"none": (oracle.stash(graph, baseline(graph).schedule.order), 0), "all": mirror_all(graph)}
        for mode in MODES:
            details = echoed(graph, mode=mode).details
            found[mode] = details["stash"], details["rerun"]
        for name, (held, rerun) in found.items():
            more = held == found["exact"][0], held, rerun, held > found["none"][0]
            measured[name] = [*map(int.__add__, measured[name], map(int, more))]
    assert printed == measured
    assert measured["exact"][0] == COUNT


@given(graph=training_graphs(max_nodes=20))
def test_no_choice_has_a_smaller_stash_whatever_the_graph(graph):
    found, may = echoed(graph), may_rerun(graph)
    assert (found.details["stash"], found.details["rerun"]) == oracle.least_stash(graph, may)
    assert found.details["stash"] == oracle.stash(graph, found.schedule.order)


@given(graph=training_graphs(max_nodes=20))
def test_of_the_least_stashes_none_computes_less(graph):
    choice = Choice.of(graph)
    least, _ = oracle.least_stash(graph, may_rerun(graph))
    for held, rerun in oracle.choices(graph, may_rerun(graph)):
        assert held > least or nodes(choice.rerun) <= rerun


def test_the_passes_do_what_their_lines_say():
    for graph in random_networks(200):
        check_passes(graph)


def test_a_node_of_two_values_in_two_regions_has_one_mirror():
    reads = rows("read", [[], [], [2], [0, 1]])
    graph = differentiate(ComputationGraph.from_arrays(**reads, value_indptr=[0, 1, 3, 4, 5], memory=0, compute=0))
    check_passes(graph)
    assert np.argsort(mirror_places(Choice.of(graph).maps)[:4], kind="stable").tolist() == [1, 2, 0, 3]


@given(graph=training_graphs(max_nodes=24))
def test_the_passes_do_what_their_lines_say_whatever_the_graph(graph):
    check_passes(graph)


def check_passes(graph):
    maps = Choice.of(graph).maps
    lines = oracle.Passes(graph, nodes(maps.recomputable))
    assert nodes(by_algorithm_1(maps)) == lines.algorithm_1()
    assert nodes(by_frontiers(maps)) == lines.frontiers()
    place = mirror_places(maps)
    assert np.argsort(place, kind="stable")[np.count_nonzero(place < 0) :].tolist() == lines.visits()
    for mode in "literal", "paper", "mxnet":
        found = echoed(graph, mode=mode)
        real = oracle.stash(graph, simulate(graph, found.schedule).schedule.order)
        # a mirror that would read a first run reads a second one, where that is there already
        assert real <= found.details["stash"]
        assert mode == "mxnet" or real == found.details["stash"]
