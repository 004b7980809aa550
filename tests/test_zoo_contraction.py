"""Blocks of nodes as nodes: the same bytes between forward and backward part, no peak below the fine graph's."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.errors import GraphError
from remat_algos.ir.differentiate import PARAMETER, differentiate, everything_saved
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import KEEP, RECOMPUTE, Backward, Labels, Resident
from remat_algos.zoo.contraction import contract
from tests.oracles.plain import plain
from tests.oracles.simulation import slow_simulation
from tests.strategies import graphs, rows


def graph_of(reads, names, **arrays):
    """A graph from what each node reads, as lists of values."""
    return ComputationGraph.from_arrays(**rows("read", reads), labels=Labels(names=tuple(names)), **arrays)


def made(graph):
    """Name of each node to the names of the values that it reads and makes."""
    g = plain(graph)
    return {g.node_names[v]: tuple([g.value_names[x] for x in ids[v]] for ids in (g.reads, g.values)) for v in g.nodes}


# ---------------------------------------------------------------- a block by hand


def layer():
    """A layer of three nodes; the gradient of `norm` reads what `conv` makes, nobody's reads what `norm` makes.

    pool 4 -> (conv 10 -> norm 6 -> relu 5) -> loss 1
    """
    return graph_of(
        [[], [0], [1], [2], [3]],
        ["pool", "conv", "norm", "relu", "loss"],
        memory=[4, 10, 6, 5, 1],
        compute=[1, 7, 2, 3, 1],
        workspace=[0, 3, 0, 0, 0],
        backward=Backward(
            **rows("saved", [[], [0], [1], [3], [3]]),
            grad_memory=[4, 10, 6, 5, 1],
            grad_compute=[-1] * 5,
            grad_workspace=[0, 0, 2, 0, 0],
        ),
    )


BLOCK = ["", "layer", "layer", "layer", ""]


def test_a_block_makes_what_is_read_outside_and_what_its_gradients_read():
    layers = contract(layer(), BLOCK)
    assert made(layers) == {
        "pool": ([], ["pool"]),
        "layer": (["pool"], ["relu", "layer:inner"]),
        "loss": (["relu"], ["loss"]),
    }
    assert layers.memory.tolist() == [4, 5, 10, 1]  # norm is a temporary
    assert layers.compute.tolist() == [1, 12, 1]
    assert [layers.backward.saved(v) for v in range(3)] == [[], [0, 1, 2], [1]]
    assert layers.backward.grad_memory.tolist() == [4, 5, -1, 1]
    assert layers.backward.grad_compute.tolist() == [-1, -1, -1]


def test_workspace_is_what_is_held_inside_beyond_the_block():
    layers = contract(layer(), BLOCK)
    # conv: 4 + 10 + 3; norm: 4 + 10 + 6; relu: 4 + 10 + 6 + 5 = 25, and the block holds 4 + 5 + 10
    assert layers.workspace.tolist() == [0, 25 - 19, 0]


def test_grad_workspace_is_what_gradients_hold_inside_beyond_those_of_the_block():
    layers = contract(layer(), BLOCK)
    # pool 4, conv 10, relu 5 and grad(relu) 5 are there; grad(norm): 24 + 6, then relu and grad(relu) go;
    # grad(conv): 20 + 10 and 2 of scratch, then conv and grad(norm) go; grad(pool): 14 + 4.
    # The gradient of the block holds 24 and grad(pool) 4
    assert layers.backward.grad_workspace.tolist() == [0, 32 - 28, 0]


def test_a_gradient_inside_is_summed_and_freed_as_in_the_fine_graph():
    """a 4 -> (b 20 -> c 6 -> d 5), and d reads b too; only the gradient of d saves a value, c."""
    graph = graph_of([[], [0], [1], [2, 1]], "abcd", memory=[4, 20, 6, 5])
    rule = replace(everything_saved(graph), **rows("saved", [[], [], [], [2]]), grad_workspace=[0, 30, 0, 0])
    layers = contract(replace(graph, backward=rule), ["", "x", "x", "x"])
    # c 6 and grad(d) 5; grad(c): 11 + 6; grad(b)@d: 17 + 20, then c and grad(d) go; grad(b): 26 + 20, the sum so far
    # among them, then that and grad(c) go; grad(a): 20 + 4 and 30 of scratch. That of the block: 11 and grad(a) 4
    assert layers.backward.grad_workspace.tolist() == [0, 54 - 15]


def test_temporaries_and_inputs_of_a_block_go_after_their_last_read_where_gradients_need_none():
    graph = graph_of([[], [0], [1], [2]], "abcd", memory=[9, 8, 7, 1])
    nothing_saved = replace(everything_saved(graph), **rows("saved", [[]] * 4))
    layers = contract(replace(graph, backward=nothing_saved), ["", "x", "x", ""])
    # b: 9 + 8, then a goes; c: 8 + 7. The block holds 9 + 7
    assert layers.workspace.tolist() == [0, 17 - 16, 0]
    assert layers.memory.tolist() == [9, 7, 1]


def test_the_cost_of_gradients_is_that_of_the_nodes():
    graph = layer()
    layers = contract(replace(graph, backward=replace(graph.backward, grad_compute=[-1, 5, -1, 0, 9])), BLOCK)
    assert layers.backward.grad_compute.tolist() == [-1, 5 + 2 * 2 + 0, 9]


def test_residents_operations_and_marks_of_a_block():
    graph = layer()
    graph = replace(
        graph,
        resident=Resident([1, 2], [PARAMETER, 0], **rows("read", [[1], [1], [0], [], []]), names=["w", "image"]),
        mark=[KEEP, RECOMPUTE, RECOMPUTE, RECOMPUTE, 0],
        labels=replace(graph.labels, ops=("Pool", "Conv", "Norm", "ReLU", "Loss")),
    )
    layers = contract(graph, BLOCK)
    assert [layers.resident.reads(v) for v in range(3)] == [[1], [0, 1], []]
    assert layers.labels.ops == ("Pool", "Block", "Loss")
    assert layers.mark.tolist() == [KEEP, RECOMPUTE, 0]
    disagreeing = contract(replace(graph, mark=[0, KEEP, RECOMPUTE, KEEP, 0]), BLOCK)
    assert disagreeing.mark is None


def test_views_of_what_is_still_there_are_kept():
    graph = layer()
    image = Resident([1], [0], **rows("read", [[0], [], [], [], []]), names=["image"])
    views = {"flat": "relu", "wide": "norm", "input": "image", "small": "pool"}
    graph = replace(graph, resident=image, labels=replace(graph.labels, views=views))
    layers = contract(graph, BLOCK)
    assert dict(layers.labels.views) == {"flat": "relu", "input": "image", "small": "pool"}
    assert layers.value_id("flat") == layers.value_id("relu")


def test_outputs_are_values_of_their_block_and_a_block_of_which_nothing_is_read_has_one():
    graph = graph_of([[], [0], [1], [0], [4]], "abcde", value_indptr=[0, 1, 2, 4, 5, 6], output=[0, 1, 0, 0, 0, 0])
    assert made(contract(graph, ["", "x", "x", "y", "y"])) == {
        "a": ([], ["a"]),
        "x": (["a"], ["b", "x:inner"]),  # the gradient of c reads both values of c
        "y": (["a"], ["e", "y:inner"]),
    }


# ---------------------------------------------------------------- where blocks are cut


def test_a_mask_goes_before_the_block_that_it_stands_in():
    graph = graph_of([[], [0], [], [1, 2], [3]], ["a", "linear", "mask", "drop", "loss"], once=[0, 0, 1, 0, 0])
    layers = contract(graph, ["", "b", "b", "b", ""])
    assert made(layers) == {
        "a": ([], ["a"]),
        "mask": ([], ["mask"]),
        "b": (["a", "mask"], ["drop", "b:inner"]),
        "loss": (["drop"], ["loss"]),
    }
    assert layers.once.tolist() == [False, True, False, False]


def test_any_other_node_that_runs_once_cuts_its_block():
    graph = graph_of([[], [0], [1], [1, 2], [3]], ["a", "gate", "route", "mix", "loss"], once=[0, 0, 1, 0, 0])
    layers = contract(graph, ["", "b", "b", "b", ""])
    assert layers.node_names() == ["a", "b", "route", "b#2", "loss"]
    assert layers.once.tolist() == [False, False, True, False, False]


def test_a_block_that_reads_nothing_with_a_gradient_is_cut_where_gradients_begin():
    graph = graph_of([[], [0], [1], [2]], ["conv", "norm", "relu", "loss"])
    layers = contract(graph, ["stem", "stem", "stem", ""])
    assert layers.node_names() == ["stem", "stem#2", "loss"]
    assert "grad(conv)" in differentiate(layers).node_names()


def test_nodes_of_one_block_that_do_not_follow_one_another_are_several():
    graph = graph_of([[], [0], [1], [2], [3], [4]], "abcdef")
    assert contract(graph, ["", "x", "y", "x", "", "x"]).node_names() == ["a", "x", "y", "x#2", "e", "x#3"]


def test_a_block_is_not_called_as_anything_else_is():
    """x is a value that stays, p a resident, x#2 a node: those names are theirs; b goes in its block."""
    graph = graph_of([[], [0], [1], [2], [3], [4]], ["a", "b", "c", "x", "x#2", "e"])
    graph = replace(graph, resident=Resident([1], [0], **rows("read", [[0]] + [[]] * 5), names=["p"]))
    layers = contract(graph, ["x", "b", "b", "p", "", "p:inner"])
    assert layers.node_names() == ["x#3", "b", "p#2", "x#2", "p:inner"]
    assert layers.value_names() == ["a", "c", "b:inner", "x", "x#2", "e"]
    layers = contract(graph, ["", "", "", "b:inner", "b", "b"])
    assert layers.value_names() == ["a", "b", "c", "x", "e", "b#2:inner"]


def test_a_graph_with_a_backward_part_is_refused():
    with pytest.raises(GraphError, match="contract its forward graph, then differentiate"):
        contract(differentiate(layer()), [""] * 9)


def test_blocks_must_be_named_for_all_nodes():
    with pytest.raises(GraphError, match=r"block has 3 entries, expected 5 \(one per node"):
        contract(layer(), ["x"] * 3)


# ---------------------------------------------------------------- laws


@st.composite
def cases(draw):
    """A graph, and runs of nodes of one block."""
    graph, block = draw(graphs(min_nodes=1, seeded=True)), []
    while len(block) < graph.n_nodes:
        block += [draw(st.sampled_from(["", "A", "B"]))] * draw(st.integers(1, 5))
    return graph, block[: graph.n_nodes]


def in_id_order(graph):
    return [v for v in range(graph.n_nodes) if graph.needed[v]]


def peak(graph):
    return slow_simulation(graph, in_id_order(graph)).peak


def held_between(graph):
    """Bytes that outlast the step before the first gradient."""
    g, order = plain(graph), in_id_order(graph)
    first = next(step for step, v in enumerate(order) if g.is_backward(v))
    return sum(g.memory[x] for begin, x, end in slow_simulation(graph, order).lifetimes if begin < first < end)


def unread_gradients(graph):
    g = plain(graph)
    return {g.node_names[v] for v in g.backward() if g.values[v][0] in g.outputs}


def all_fed(graph):
    """Whatever reads no value with a gradient reads a parameter, so that every gradient leads somewhere."""
    g = plain(everything_explicit(graph))
    reads = [
        row if any(g.grad_memory[x] >= 0 for x in g.reads[v]) else [*row, len(g.resident_memory)]
        for v, row in enumerate(g.resident_reads)
    ]
    roles, names = [*g.resident_role, PARAMETER], [*g.resident_names, "w"]
    return replace(graph, resident=Resident([*g.resident_memory, 5], roles, **rows("read", reads), names=names))


def everything_explicit(graph):
    return graph if graph.backward is not None else replace(graph, backward=everything_saved(graph))


def losses_as_large_as_their_gradients(graph):
    graph = everything_explicit(graph)
    seeded = graph.output & (graph.backward.grad_memory >= 0)
    sizes = np.where(seeded, graph.memory, graph.backward.grad_memory)
    return replace(graph, backward=replace(graph.backward, grad_memory=sizes))


@given(graphs())
def test_contracting_nothing_changes_nothing(graph):
    assert contract(graph, [""] * graph.n_nodes).hash == graph.hash
    assert contract(graph, graph.node_names()).hash == graph.hash


@given(cases())
def test_compute_outputs_and_once_nodes_stay(case):
    graph, block = case
    layers = contract(graph, block)
    fine, coarse = plain(graph), plain(layers)
    assert sum(coarse.compute) == sum(fine.compute)
    assert {coarse.value_names[x] for x in coarse.outputs} == {fine.value_names[x] for x in fine.outputs}
    once = {fine.node_names[v] for v in fine.nodes if fine.once[v]}
    assert {coarse.node_names[v] for v in coarse.nodes if coarse.once[v]} == once
    assert len(coarse.nodes) <= len(fine.nodes)


@given(cases(), st.booleans())
def test_no_less_is_held_between_forward_and_backward_part_and_gradients_cost_no_less(case, parameter_gradients):
    graph, block = case
    options = {"parameter_gradients": parameter_gradients}
    fine, coarse = differentiate(graph, **options), differentiate(contract(graph, block), **options)
    assert held_between(coarse) >= held_between(fine)
    assert coarse.needed_compute >= fine.needed_compute


@given(cases())
def test_the_same_is_held_where_every_node_has_a_gradient(case):
    graph, block = case
    graph = all_fed(with_default_outputs(graph))
    fine = differentiate(graph, parameter_gradients=True)
    coarse = differentiate(contract(graph, block), parameter_gradients=True)
    assert held_between(coarse) == held_between(fine)
    assert coarse.needed_compute == fine.needed_compute


def with_default_outputs(graph):
    """Every value has a gradient, and everything leads to an output."""
    g = plain(graph)
    explicit = everything_explicit(graph)
    rule = replace(explicit.backward, grad_memory=np.maximum(g.grad_memory, 0), grad_compute=[-1] * len(g.nodes))
    read = {x for row in g.reads for x in row}
    output = [x not in read for x in range(len(g.memory))]
    return replace(graph, backward=rule, output=output)


@given(cases(), st.booleans())
def test_the_peak_without_rematerialization_is_not_lower(case, parameter_gradients):
    """But for blocks that end a gradient which the fine graph hands out unread: of these, fewer are contracted."""
    graph, block = losses_as_large_as_their_gradients(case[0]), case[1]
    options = {"parameter_gradients": parameter_gradients}
    fine = differentiate(graph, **options)
    for contracted in ("AB", "A", "B", ""):
        coarse = differentiate(contract(graph, [name if name in contracted else "" for name in block]), **options)
        if unread_gradients(fine) <= unread_gradients(coarse):
            break
    assert peak(coarse) >= peak(fine)


@given(cases())
def test_the_peak_is_not_lower_where_every_gradient_leads_to_a_parameter(case):
    graph, block = all_fed(losses_as_large_as_their_gradients(case[0])), case[1]
    fine = differentiate(graph, parameter_gradients=True)
    coarse = differentiate(contract(graph, block), parameter_gradients=True)
    assert peak(coarse) >= peak(fine)
