"""Sharing, colouring, a place for each: the note's tables, the published planner as an oracle, and laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.in_place import find_overwrites
from remat_algos.allocate.sharing import colour, separate_storage, share_storage
from remat_algos.errors import AllocationError
from remat_algos.schedule.simulation import simulate
from remat_algos.zoo.random import chain
from remat_algos.zoo.registry import build
from tests.oracles import allocations
from tests.oracles.plain import plain
from tests.public import refusal
from tests.raising import raises
from tests.strategies import graphs, orders, training_graphs
from tests.test_allocate_buffers import some_buffers
from tests.test_allocate_in_place import even, loose, network

MATCH_RANGES = [0, 1, 2, 3, 16]


def buffers_of(graph, table=None, *, written_over=True):
    simulation = simulate(graph, range(graph.n_nodes))
    return Buffers.of(simulation, find_overwrites(simulation, table) if written_over else None)


def blocks(allocation, names):
    """The members of each block, as the table of the note has them."""
    allocation.verify()
    members = {}
    for i, block in enumerate(allocation.storage.tolist()):
        members.setdefault(block, []).append(names[i])
    return sorted("{" + " ".join(own) + "}" for own in members.values())


# ---------------------------------------------------------------- tables of the note


@pytest.mark.parametrize(
    ("op", "method", "count"),
    [
        ("ReLU", share_storage, 1),
        ("ReLU", separate_storage, 1),
        ("-", share_storage, 2),
        ("-", colour, 2),
        ("-", separate_storage, 50),
    ],
)
def test_a_chain_of_fifty(op, method, count):
    graph = network("/".join(["v0: -", *(f"v{i}: {op} v{i - 1}" for i in range(1, 50))]))
    found = method(buffers_of(graph))
    found.verify()
    assert len(set(found.storage)) == found.size == count


FIGURE_1 = (
    "fc1: Linear/sig: Sigmoid fc1/fc2: Linear sig/softmax: Softmax fc2/dsoftmax: dSoftmax softmax/"
    "dfc2: dLinear dsoftmax/dw2: dWeight dsoftmax sig/dsig: dSigmoid dfc2 sig{more}/dfc1: dLinear dsig/"
    "dw1: dWeight dsig"
)


def figure_1(more="", *, written_over=True):
    """The network of chen2016's figure 1 in values of one byte; its input and its label are no values."""
    graph = network(FIGURE_1.format(more=more), outputs=("dw1", "dw2", "dfc1"))
    return graph.labels.names, buffers_of(graph, {"dSoftmax": 0, "dSigmoid": 0}, written_over=written_over)


def test_figure_1_without_any_of_it():
    names, buffers = figure_1(written_over=False)
    assert blocks(separate_storage(buffers), names) == sorted(f"{{{name}}}" for name in names)
    assert share_storage(buffers, 0).size == 10


def test_figure_1_in_place():
    names, buffers = figure_1()
    wanted = ["{dfc1}", "{dfc2 dsig}", "{dw1}", "{dw2}", "{fc1 sig}", "{fc2 softmax dsoftmax}"]
    assert blocks(separate_storage(buffers), names) == blocks(share_storage(buffers, 0), names) == wanted


@pytest.mark.parametrize("match_range", [1, 16, None])
def test_figure_1_in_place_and_shared(match_range):
    names, buffers = figure_1()
    found = share_storage(buffers, match_range)
    assert blocks(found, names) == ["{dfc2 dsig}", "{dw2}", "{fc1 sig dw1}", "{fc2 softmax dsoftmax dfc1}"]
    assert (found.size, buffers.max_live, found.proven) == (4, 4, True)


def test_figure_1_where_a_gradient_reads_more_than_it_must():
    names, buffers = figure_1(more=" fc1")
    found = blocks(share_storage(buffers, 16), names)
    assert found == ["{dfc2 dsig}", "{dw2}", "{fc1}", "{fc2 softmax dsoftmax dfc1}", "{sig dw1}"]


def test_an_output_that_nobody_reads_gets_a_block_and_gives_it_back():
    graph = network("a: -/b: -/c: - a", outputs="c")
    assert blocks(share_storage(buffers_of(graph), 16), "abc") == ["{a}", "{b c}"]


@pytest.mark.parametrize(
    ("sizes", "match_range", "lengths"),
    [
        ([100, 1, 8], 16, [1, 100]),
        ([100, 1, 8], 1, [1, 8, 100]),
        ([4, 1, 10], 16, [1, 10]),
        ([4, 1, 10], 1, [1, 4, 10]),
        ([100, 5, 7, 100], 16, [5, 100, 100]),
        ([100, 5, 7, 100], 1, [5, 7, 100]),
        ([100, 5, 7, 100], 0, [5, 7, 100, 100]),
        ([10, 1, 20, 1, 40], 16, [1, 40]),
        ([10, 1, 20, 1, 40], 1, [1, 10, 20, 40]),
    ],
)
def test_chains_with_match_ranges(sizes, match_range, lengths):
    buffers = buffers_of(chain(len(sizes), memory=sizes))
    found = share_storage(buffers, match_range)
    found.verify()
    assert sorted(int(buffers.size[found.storage == b].max()) for b in set(found.storage)) == lengths
    assert found.size == sum(lengths)


def test_a_wider_range_is_not_better_and_the_best_is_searched():
    buffers = buffers_of(chain(4, memory=[100, 5, 7, 100]))
    assert buffers.max_live == 107
    assert [share_storage(buffers, r).size for r in (0, 1, 16, None)] == [212, 112, 205, 112]
    assert share_storage(buffers).method == "sharing, match range 1"


def test_a_network_that_only_predicts_needs_nearly_no_memory():
    """vgg19: 70 buffers in three blocks; resnets of 50 and of 101 layers take the same bytes."""
    vgg19 = buffers_of(build("vgg19").graph)
    found = share_storage(vgg19)
    found.verify()
    assert len(set(found.storage)) == 3
    assert found.size < 1.05 * vgg19.max_live < 0.35 * separate_storage(vgg19).size
    shallow, deep = (buffers_of(build(name).graph) for name in ("resnet50", "resnet101"))
    assert share_storage(deep).size < 1.01 * share_storage(shallow).size
    assert separate_storage(deep).size > 1.4 * separate_storage(shallow).size


# ---------------------------------------------------------------- the published planner


@given(st.data())
def test_blocks_are_those_of_the_published_planner(data):
    graph = even(data.draw(graphs() | training_graphs()), data).with_costs(workspace=0)
    order, match_range = data.draw(orders(graph)), data.draw(st.sampled_from(MATCH_RANGES))
    ops, table = graph.labels.ops, loose(graph)
    g = plain(graph)

    def pairs(node):
        places = table.get(ops[node], ()) if ops else ()
        return [(0, place) for place in places if place < len(g.reads[node])]

    simulation = simulate(graph, order)
    over = find_overwrites(simulation, table) if graph.forward_of is None else None  # sums are ours alone
    found = share_storage(Buffers.of(simulation, over), match_range)
    members, lengths = allocations.planned(graph, order, match_range, pairs if over is not None else lambda node: [])
    ours = [np.flatnonzero(found.storage == b) for b in range(len(members))]
    # of blocks that are equal and come back in one step it may take the other one
    assert sorted(int(graph.memory[simulation.lifetimes.value[own]].max()) for own in ours) == sorted(lengths)
    assert found.size == sum(lengths)


# ---------------------------------------------------------------- laws


@given(buffers=some_buffers(most=12), match_range=st.sampled_from([*MATCH_RANGES, None]))
def test_sharing_and_colouring_are_sound_and_lie_between_max_live_and_no_sharing(buffers, match_range):
    alone = separate_storage(buffers).size
    for found in (share_storage(buffers, match_range), colour(buffers)):
        assert not allocations.faults(buffers, found.offset, found.size)
        assert buffers.max_live == found.bound <= found.size <= alone
    assert match_range != 0 or share_storage(buffers, 0).size == alone


@given(buffers=some_buffers(most=12))
def test_the_search_is_never_worse_than_a_range_that_it_tries(buffers):
    assert share_storage(buffers).size == min(share_storage(buffers, r).size for r in (0, 1, 2, 4, 8, 16))


@given(buffers=some_buffers(most=12, in_place=False))
def test_colouring_equal_sizes_needs_no_more_than_max_live(buffers):
    found = colour(Buffers(buffers.begin, buffers.end, np.full(len(buffers), 3)))
    assert found.proven


@given(buffers=some_buffers(most=4, steps=4, in_place=False))
def test_no_blocks_are_smaller_than_the_best_parting(buffers):
    least = allocations.least_blocks(buffers)
    assert buffers.max_live <= least <= min(share_storage(buffers).size, colour(buffers).size)


@given(st.data())
def test_schedules_run_at_the_addresses(data):
    """Every read of every run finds its value, workspaces and what is in place among them."""
    graph = even(data.draw(graphs() | training_graphs()), data)
    order = data.draw(orders(graph))
    simulation = simulate(graph, order)
    over = find_overwrites(simulation, loose(graph))
    buffers = Buffers.of(simulation, over)
    for method in (share_storage, colour, separate_storage):
        found = method(buffers)
        cells = [set(range(b, b + s)) for b, s in zip(found.offset.tolist(), buffers.size.tolist(), strict=True)]
        allocations.play(graph, order, cells, over)


@given(buffers=some_buffers(most=12), alignment=st.sampled_from([1, 4, 64]))
def test_alignment_divides_offsets_and_the_arena(buffers, alignment):
    for method in (share_storage, colour, separate_storage):
        found = method(buffers, alignment=alignment)
        found.verify()
        assert not allocations.faults(buffers, found.offset, found.size, alignment)
        assert found.size % alignment == 0
        assert found.bound == buffers.rounded(alignment).max_live <= found.size


def test_nothing_needs_no_memory():
    for method in (share_storage, colour, separate_storage):
        found = method(Buffers([], [], []))
        assert (found.size, found.proven) == (0, True)
    assert share_storage(Buffers([0], [1], [0])).size == 0


def test_what_cannot_be_asked_for_is_refused():
    buffers = Buffers([0], [1], [8])
    for wrong in (-1, 1.5, True, "2"):
        with pytest.raises(refusal(wrong, AllocationError), match=f"is {wrong!r}; give a whole number"):
            share_storage(buffers, wrong)
    for method in (share_storage, colour, separate_storage):
        for wrong in (3, 2**70):
            with raises(AllocationError, alignment=wrong):
                method(buffers, alignment=wrong)
        with raises(AllocationError, alignment=4503599627370496):
            method(Buffers([0, 0], [1, 1], [8, 8]), alignment=2**52)
    assert share_storage(buffers, 10**30).size == 8


def test_five_thousand_buffers():
    rng = np.random.default_rng(0)
    begin = rng.integers(0, 5_000, 5_000)
    buffers = Buffers(begin, begin + rng.integers(1, 750, 5_000), rng.integers(1, 1_000_000, 5_000))
    for method in (share_storage, colour):
        found = method(buffers)
        found.verify()
        assert found.size < 1.25 * buffers.max_live
