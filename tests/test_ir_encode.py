"""Feature maps of one bit per element: where it is allowed, what it lets go, and that nothing else changes."""

import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from remat_algos.errors import GraphError
from remat_algos.formats.graphs.json_text import from_json, to_json
from remat_algos.formats.graphs.npz_bytes import from_npz, to_npz
from remat_algos.formats.orders import Order
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.encode import BITS, Codes, encode, n_encoded
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.kinds import operation_kind
from remat_algos.ir.parts import Backward, Labels
from remat_algos.plan.verify import verify
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.simulation import simulate
from remat_algos.search.solve import solve
from remat_algos.zoo.registry import build
from tests.public import refusal
from tests.strategies import orders, rows

OPS = ("ReLU", "ReLU", "ReLU6", "HardTanh", "Dropout", "DropoutMask", "Convolution", "MaxPooling", "Tanh", "")
N = 1024  # elements


def forward(*nodes, sizes=None, outputs=None):
    """A graph of (name, op, names read, names saved); a node makes a value, or several as "v w"."""
    made = [names.split() for names, *_ in nodes]
    values = [name for names in made for name in names]
    memory = [(sizes or {}).get(name, 4 * N) for name in values]
    places = lambda names: [values.index(name) for name in names.split()]  # noqa: E731
    masks = {names.split()[-1] for names, op, *_ in nodes if "Dropout" in op and names != "y"}
    return ComputationGraph.from_arrays(
        **rows("read", [places(reads) for _, _, reads, _ in nodes]),
        value_indptr=np.cumsum([0, *map(len, made)]),
        memory=memory,
        output=None if outputs is None else [name in outputs for name in values],
        backward=Backward(
            **rows("saved", [places(saved) for *_, saved in nodes]),
            grad_memory=[-1 if name in masks else m for name, m in zip(values, memory, strict=True)],
            grad_compute=[-1] * len(nodes),
            grad_workspace=[0] * len(nodes),
        ),
        labels=Labels(
            names=tuple(names[0] for names in made),
            value_names=dict(enumerate(values)),
            ops=tuple(op for _, op, *_ in nodes),
        ),
    )


def sizes(graph):
    return dict(zip(graph.value_names(), graph.memory.tolist(), strict=True))


@st.composite
def networks(draw, encodable=False):
    """Forward graphs of operations that save what they do; now and then one saves anything.

    With `encodable` three nodes follow, of which the second is a ReLU that is kept in bits: nobody else saves it.
    """
    size = draw(st.integers(2, 8))
    ops, reads, saved, ends, masks = [], [], [], [0], []
    for v in range(size):
        op = draw(st.sampled_from(OPS)) if 0 < v < size - 1 else "Convolution"
        floats = [x for x in range(ends[-1]) if x not in masks]
        most = {"DropoutMask": 0, "Convolution": 3, "": 3}.get(op, 1)
        own = draw(st.lists(st.sampled_from(floats), max_size=most, min_size=min(1, most), unique=True)) if v else []
        two = op == "Dropout" and draw(st.booleans())
        if op == "Dropout" and not two and masks:
            own.append(draw(st.sampled_from(masks)))
        first = ends[-1]
        ends.append(first + 1 + two)
        masks += [first] if op == "DropoutMask" else [first + 1] if two else []
        kind = operation_kind(op)
        if kind is None or draw(st.integers(0, 5)) == 0:
            keeps = draw(st.lists(st.sampled_from([*own, *range(first, ends[-1])]), unique=True))
        elif op == "Dropout":
            keeps = [x for x in [*own, *range(first, ends[-1])] if x in masks]
        else:
            inputs, output = kind.saved()
            keeps = [*(own if inputs else []), *([first] if output else [])]
        ops.append(op)
        reads.append(own)
        saved.append(keeps)
    memory = [draw(st.integers(0, 9)) * 16 for _ in range(ends[-1])]
    if encodable:
        c = ends[-1]
        size, memory = size + 3, [*memory, 16, 16 * draw(st.integers(1, 9)), 16]
        ops += ["Convolution", "ReLU", "MaxPooling"]
        reads += [[], [c], [c + 1]]
        saved += [[], [c + 1], []]
        ends += [c + 1, c + 2, c + 3]
    return ComputationGraph.from_arrays(
        **rows("read", reads),
        value_indptr=ends,
        memory=memory,
        workspace=draw(st.lists(st.integers(0, 5), min_size=size, max_size=size)),
        once=draw(st.lists(st.booleans(), min_size=size, max_size=size)),
        backward=Backward(
            **rows("saved", saved),
            grad_memory=[-1 if x in masks else m for x, m in enumerate(memory)],
            grad_compute=[-1] * size,
            grad_workspace=draw(st.lists(st.integers(0, 5), min_size=size, max_size=size)),
        ),
        labels=Labels(names=tuple(f"n{v}" for v in range(size)), ops=tuple(ops)),
    )


def two_clips():
    """Two gradients save one input; only when the first does with bits can the second, whose output is held."""
    clips = ("a", "ReLU6", "c", "c a"), ("b", "ReLU6", "c", "c")
    return forward(("c", "Convolution", "", ""), *clips, ("p", "MaxPooling", "a", ""), outputs={"b", "p"})


# ---------------------------------------------------------------- T11: N float32 in N / 8 bytes, under the condition


def test_t11_a_relu_that_nobody_else_saves_is_kept_in_a_bit_per_element():
    graph = forward(("c", "Convolution", "", ""), ("r", "ReLU", "c", "r"), ("p", "MaxPooling", "r", ""))
    encoded = encode(graph)
    assert sizes(encoded) == {"c": 4 * N, "r": 4 * N, "r:sign": N // 8, "p": 4 * N}
    assert [encoded.value_name(x) for x in encoded.backward.saved(1)] == ["r:sign"]
    assert encoded.backward.grad_workspace.tolist() == [0, 4 * N, 0]  # where the bits are decoded
    assert encoded.node_names() == graph.node_names()


@pytest.mark.parametrize(
    "nodes",
    [
        [("c", "Linear", "", ""), ("r", "ReLU", "c", "r"), ("d", "Linear", "r", "r")],
        [("c", "Linear", "", ""), ("r", "ReLU", "c", "r"), ("p", "MaxPooling", "r", ""), ("d", "Linear", "r", "r")],
        [("c", "Linear", "", ""), ("t", "Tanh", "c", "t"), ("p", "MaxPooling", "t", "")],
        [("c", "Linear", "", ""), ("p", "MaxPooling", "c", "c p")],
    ],
    ids=["saved by its reader", "saved by one of two", "not of one bit", "no activation"],
)
def test_t11_what_another_gradient_reads_in_full_is_not_encoded(nodes):
    graph = forward(*nodes)
    assert encode(graph) is graph
    assert n_encoded(graph, BITS) == 0


def test_an_output_is_held_in_full_and_gets_no_code():
    graph = forward(("c", "Linear", "", ""), ("r", "ReLU", "c", "r"))
    assert encode(graph) is graph


@pytest.mark.parametrize("op", ["ReLU6", "Clip", "HardTanh"])
def test_clipping_needs_to_know_only_where_it_clipped(op):
    encoded = encode(forward(("c", "Linear", "", ""), ("r", op, "c", "r"), ("p", "MaxPooling", "r", "")))
    assert sizes(encoded)["r:inside"] == N // 8


def test_a_relu_that_saves_its_input_does_with_bits_too():
    encoded = encode(forward(("c", "Linear", "", ""), ("r", "ReLU", "c", "c"), ("d", "Linear", "r", "r")))
    assert [encoded.value_name(x) for x in encoded.backward.saved(1)] == ["r:sign"]


def test_t11_a_dropout_mask_of_bytes_becomes_a_bit_per_element_for_all_its_readers():
    nodes = (
        ("m", "DropoutMask", "", ""),
        ("x", "Linear", "", "x"),
        ("y", "Dropout", "x m", "m"),
        ("z", "Linear", "y", "y"),
    )
    encoded = encode(forward(*nodes, sizes={"m": N}))
    assert sizes(encoded) == {"m": N // 8, "x": 4 * N, "y": 4 * N, "z": 4 * N}
    assert encoded.workspace.tolist() == [N, 0, N, 0]
    assert encoded.backward.grad_workspace.tolist() == [0, 0, N, 0]
    assert sizes(encode(forward(*nodes)))["m"] == N // 8  # a mask of float32
    assert sizes(encode(forward(*nodes, sizes={"m": N}), bits=16))["m"] == N // 4  # 2 N elements of 2 bytes, if so


def test_a_mask_that_something_else_reads_stays_as_it_is():
    nodes = (
        ("m", "DropoutMask", "", ""),
        ("x", "Linear", "", "x"),
        ("y", "Dropout", "x m", "m"),
        ("z", "Multiply", "y m", "m"),
    )
    graph = forward(*nodes)
    assert encode(graph) is graph


def test_a_mask_that_a_dropout_makes_itself_becomes_bits():
    encoded = encode(
        forward(("x", "Linear", "", "x"), ("d d.mask", "Dropout", "x", "d.mask"), ("z", "Linear", "d", "d"))
    )
    assert sizes(encoded)["d.mask"] == N // 8
    assert (encoded.workspace[1], encoded.backward.grad_workspace[1]) == (4 * N, 4 * N)


def test_what_one_gradient_reads_no_more_lets_another_go():
    graph = two_clips()
    encoded = encode(graph)
    assert [encoded.value_name(x) for v in (1, 2) for x in encoded.backward.saved(v)] == ["a:inside", "b:inside"]
    assert (n_encoded(graph, BITS), encoded.backward.grad_workspace.tolist()) == (2, [0, 4 * N, 4 * N, 0])


def test_a_long_row_of_gradients_lets_one_after_the_other_go():
    """Each reads its input and its output; only the first is alone with one of them."""
    chain = [("n0", "Convolution", "", ""), *((f"n{v}", "ReLU", f"n{v - 1}", f"n{v - 1} n{v}") for v in range(1, 300))]
    graph = forward(*chain, ("end", "Tanh", "n299", "n299"))
    assert len(Codes.of(graph, graph.backward, BITS)) == 299


# ---------------------------------------------------------------- laws on any graph


@given(graph=networks(), bits=st.sampled_from([2, 8, 32]), data=st.data())
def test_no_step_of_any_order_holds_more_but_for_the_bits(graph, bits, data):
    codes = Codes.of(graph, graph.backward, bits)
    plain, encoded = differentiate(graph), differentiate(graph, encode=bits)
    assert encoded.n_nodes == plain.n_nodes
    order = data.draw(orders(plain)) if plain.n_nodes <= 20 else baseline(plain).schedule.order
    before, after = simulate(plain, order), simulate(encoded, order)
    names = {encoded.value_name(x) for x in range(encoded.n_values)} - {
        plain.value_name(x) for x in range(plain.n_values)
    } | {graph.value_name(int(x)) for x in codes.masks}
    full = {graph.value_name(x) for v in codes.nodes.tolist() for x in graph.backward.saved(v)}
    decodes = (encoded.workspace > plain.workspace)[after.schedule.order]
    held = np.zeros(len(before.schedule), np.int64)
    for x, begin, end in zip(after.lifetimes.value, after.lifetimes.made_at, after.lifetimes.end, strict=True):
        if encoded.value_name(int(x)) in names:
            held[begin:end] += encoded.memory[x]
        elif encoded.value_name(int(x)) in full:  # because something that reads it runs again
            held[begin:end] += np.where(decodes[begin:end], encoded.memory[x], 0)
    assert (after.memory_trace <= before.memory_trace + held).all()
    assert after.compute == before.compute


def test_a_relu_that_is_held_for_a_second_run_stands_beside_what_is_decoded():
    graph = forward(("c", "Linear", "", ""), ("r", "ReLU", "c", "r"), ("p", "MaxPooling", "r", ""), sizes={"p": N})
    plain, encoded = differentiate(graph), differentiate(graph, encode=True)
    order = [*range(plain.n_nodes), 2]
    before, after = simulate(plain, order), simulate(encoded, order)
    assert after.peak_memory == before.peak_memory + 4 * N + N // 8


@given(graph=networks(), bits=st.sampled_from([2, 8, 32]))
@example(graph=two_clips(), bits=32)
def test_encoding_twice_is_encoding_once(graph, bits):
    encoded = encode(graph, bits=bits)
    assert encode(encoded, bits=bits) is encoded
    assert (encoded is graph) == (n_encoded(graph, bits) == 0)
    assert (encoded.hash == graph.hash) == (encoded is graph)


@given(graph=networks(encodable=True))
def test_an_encoded_graph_is_written_and_read_again(graph):
    encoded = encode(graph)
    assert encoded is not graph
    assert from_json(to_json(encoded)).hash == encoded.hash
    assert from_npz(to_npz(encoded)).hash == encoded.hash


@given(graph=networks())
def test_differentiate_encodes_as_encode_does_and_says_so(graph):
    whole = differentiate(graph, encode=True)
    assert whole.hash == differentiate(encode(graph)).hash
    assert whole.source_hash == graph.hash
    assert whole.derivation.options["encode"] == BITS
    assert "encode" not in differentiate(graph).derivation.options


@given(graph=networks(), bits=st.sampled_from([2, 32]))
def test_plans_of_encoded_graphs_hold_for_the_graph_as_it_was(graph, bits):
    record = json.loads(json.dumps(solve(differentiate(graph, encode=bits), solver="no_remat").record()))
    assert verify(graph, record).peak_memory == record["peak_memory"]
    order = Order("plan", is_plan=True, derivation=record["differentiate"])
    assert order.differentiated(graph).hash == differentiate(graph, encode=bits).hash


# ---------------------------------------------------------------- the zoo


@pytest.mark.parametrize(
    ("model", "nodes", "masks"),
    [
        (
            "vgg19",
            ["stage1.relu2", "stage2.relu2", "stage3.relu4", "stage4.relu4", "stage5.relu4", "fc1.relu", "fc2.relu"],
            2,
        ),
        ("resnet50", ["stem.relu", "layer4.2.relu"], 0),  # before a pooling; all others before a convolution
        ("transformer_base", [], 32),
        ("feed_forward", [], 0),
    ],
)
def test_the_networks_of_the_zoo(model, nodes, masks):
    graph = build(model, batch=2).graph
    codes = Codes.of(graph, graph.backward, BITS)
    assert [graph.labels[int(v)] for v in codes.nodes] == nodes
    assert len(codes.masks) == masks
    before, after = baseline(differentiate(graph)).peak_memory, baseline(differentiate(graph, encode=True)).peak_memory
    assert after < before if len(codes) else after == before


def test_masks_of_a_transformer_take_an_eighth():
    graph = build("transformer_base", batch=2).graph
    encoded = encode(graph)
    masks = [x for x in range(graph.n_values) if graph.labels.op(int(graph.producer[x])) == "DropoutMask"]
    assert masks
    assert (8 * encoded.memory[masks] == graph.memory[masks]).all()


def test_half_precision_has_a_sixteenth_in_signs():
    graph = build("vgg11", batch=1, dtype="float16").graph
    relu = graph.value_id("stage1.relu1")
    encoded = encode(graph, bits=16)
    assert 16 * encoded.memory[encoded.value_id("stage1.relu1:sign")] == graph.memory[relu]


@pytest.mark.parametrize("solver", ["chen_sqrt", "chen_greedy", "approximate_dp", "twremat"])
def test_solvers_reach_lower_on_encoded_graphs_or_lose_no_more_than_bits(solver):
    graph = build("vgg11", batch=1, image=64).graph
    plain, encoded = (solve(differentiate(graph, encode=e), "least", solver=solver).simulation for e in (False, True))
    assert 32 * encoded.peak_memory <= 33 * plain.peak_memory


# ---------------------------------------------------------------- bad input


def test_a_backward_part_cannot_be_encoded_any_more():
    with pytest.raises(GraphError, match="already has a backward part"):
        encode(differentiate(build("vgg11", batch=1, image=64).graph))


@pytest.mark.parametrize(
    ("encoding", "bits"),
    [
        *((lambda graph, bits: encode(graph, bits=bits), bits) for bits in (0, 1, 65, True, "32", 32.5, None)),
        *((lambda graph, bits: differentiate(graph, encode=bits), bits) for bits in (1, -1, "yes")),
    ],
)
def test_an_element_has_a_sensible_number_of_bits(encoding, bits):
    graph = forward(("c", "Linear", "", ""), ("r", "ReLU", "c", "r"), ("p", "MaxPooling", "r", ""))
    with pytest.raises(refusal(bits, GraphError), match=r"give a number such as 32|give a whole number"):
        encoding(graph, bits)


def test_graphs_without_operations_or_saved_lists_stay_as_they_are():
    graph = ComputationGraph.from_edges([(0, 1)])
    assert encode(graph) is graph
