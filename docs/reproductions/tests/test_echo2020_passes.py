"""The published passes of echo2020: the cases of the notes by number, line by line, and their rows in a page."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from docs.reproductions.echo2020.passes import MXNET_HEAVY, by_algorithm_1, literal, mirror_places, mxnet
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Labels
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.methods.echo import Choice, heavy_nodes
from tests.books import book
from tests.echo_cases import (
    CASES,
    COUNT,
    attention,
    diamonds,
    echoed,
    mirror_all,
    network,
    nodes,
    random_networks,
    tensors,
)
from tests.oracles import echo as oracle
from tests.strategies import rows, training_graphs

PAGE = Path(__file__).resolve().parents[2] / "solvers" / "echo.md"
each_pass = pytest.mark.parametrize("published", [literal, mxnet])


def stash(graph, published):
    """(bytes, nodes recomputed), by the pass and by its schedule."""
    details = published(graph).details
    assert details["stash"] == oracle.stash(graph, published(graph).schedule.order)
    return details["stash"], details["rerun"]


STASHES = {  # literal, mxnet
    "T1, n = 4": (4, 4),
    "T1, n = 6": (4, 4),
    "T2": (4, 4),
    "T3, T = 1": (1, 1),
    "T3, T = 2": (4, 4),
    "T3, T = 3": (9, 6),
    "T3, T = 5": (25, 10),
    "T3, T = 8": (64, 16),
    "T5": (4, 4),
    "T6": (8, 8),
    "T7": (2, 3),
    "T7b": (3, 3),
    "T8": (1, 5),
    "T9": (1, 1),
    "T10": (8, 8),
}


@pytest.mark.parametrize("case", STASHES)
def test_the_table_of_stashes(case):
    graph = network(CASES[case])
    assert (stash(graph, literal)[0], stash(graph, mxnet)[0]) == STASHES[case]


@pytest.mark.parametrize(("published", "rerun"), [(literal, 0), (mxnet, 2)])
def test_t10_where_only_the_merged_pass_recomputes(published, rerun):
    assert stash(network(CASES["T10"]), published)[1] == rerun


@pytest.mark.parametrize("steps", [3, 5])
def test_t4_algorithm_1_as_printed_saves_nothing_on_its_own_example(steps):
    """T4: with ends apart, or joined by a heavy node."""
    apart = [*attention(steps), *((f"Loss{t}", 0, f"tanh{t}", "") for t in range(steps))]
    for graph in (network(attention(steps)), network(apart, loss=False)):
        assert stash(graph, literal) == (steps**2, 0)
        assert stash(graph, mxnet) == (2 * steps, 2 * steps)


def test_t8_the_mirrors_of_the_code_are_not_in_topological_order():
    graph = network(CASES["T8"])
    names = mxnet(graph).schedule.names(graph)[6:]
    assert names.index("b") < names.index("a") < names.index("c")


@each_pass
def test_t9_long_chains_of_diamonds_are_linear(published):
    """Expanding every path would take 3 * 2**3000 steps."""
    details = published(network(diamonds(3000))).details
    assert (details["stash"], details["rerun"]) == (1, 3 * 3000 - 1)


def test_mxnet_has_its_own_list_of_heavy_operations():
    labels = Labels(ops=("Warp", "Conv", "Tanh", "Embedding"))
    edges = [(0, 1), (1, 2), (2, 3)]
    graph = ComputationGraph.from_edges(edges, compute=[10, 1, 10, 2], labels=labels)
    assert heavy_nodes(graph, MXNET_HEAVY).tolist() == [True, True, False, True]


@pytest.mark.slow
def test_the_table_on_the_page_of_echo_is_measured():
    """docs/solvers/cheap.md: the modes of `echo` beside the two passes, on the committed random networks."""
    names = {"no rematerialization": "none", "all that is cheap": "all", "algorithm 1 as printed": "literal"}
    names |= {"the pass merged into MXNet": "mxnet", "`paper`": "paper", "`exact`": "exact"}
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.read_text("utf-8").splitlines()]
    printed = {names[row[0]]: [int(cell.replace(",", "") or 0) for cell in row[1:]] for row in lines if row[0] in names}
    measured = {name: [0, 0, 0, 0] for name in names.values()}
    for graph in random_networks():
        figures = {"none": (oracle.stash(graph, baseline(graph).schedule.order), 0), "all": mirror_all(graph)}
        candidates = {"exact": echoed(graph), "paper": echoed(graph, mode="paper")}
        candidates |= {"literal": literal(graph), "mxnet": mxnet(graph)}
        figures |= {name: (each.details["stash"], each.details["rerun"]) for name, each in candidates.items()}
        for name, (memory, recomputed) in figures.items():
            more = memory == figures["exact"][0], memory, recomputed, memory > figures["none"][0]
            measured[name] = [*map(int.__add__, measured[name], map(int, more))]
    assert printed == measured
    assert measured["exact"][0] == COUNT


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
    assert nodes(by_algorithm_1(maps)) == nodes(book("echo_algorithm_1").algorithm_1(*tensors(maps)))
    lines = oracle.MergedPass(graph, nodes(maps.recomputable))
    place = mirror_places(maps)
    assert np.argsort(place, kind="stable")[np.count_nonzero(place < 0) :].tolist() == lines.visits()
    for published in literal, mxnet:
        candidate = published(graph)
        real = oracle.stash(graph, simulate(graph, candidate.schedule).schedule.order)
        # a mirror that would read a first run reads the mirror instead where that has run already
        assert real <= candidate.details["stash"]
        assert published is mxnet or real == candidate.details["stash"]
