"""Attention, fused and as its operations; recurrent cells; weights that are shared."""

from collections import Counter
from math import prod

import pytest

from remat_algos.ir.differentiate import differentiate
from tests.oracles.plain import plain
from tests.test_zoo_layers import ROWS, saved, tensor, tokens, vocabulary

# ---------------------------------------------------------------- attention


def attention(kv_width=8, heads=2, rows=5, **options):
    settings = {name: options.pop(name) for name in ("granularity", "counting") if name in options}
    net = vocabulary(**settings)
    q = tensor(net, (2, rows, 8), "q")
    k, v = (tensor(net, (2, 5, kv_width), name) for name in "kv")
    net.attention(q, k, v, heads, name="y", **options)
    return net.network()


def test_attention_is_copies_scores_softmax_dropout_context():
    network = attention()
    inner = [(layer.name, layer.op, layer.shapes) for layer in network.layers if layer.name.startswith("y.")]
    heads, scores = (2, 2, 5, 4), (2, 2, 5, 5)  # 2 heads, each 4 wide
    assert inner == [
        ("y.q", "Copy", (heads,)),
        ("y.k", "Copy", (heads,)),
        ("y.v", "Copy", (heads,)),
        ("y.scores", "MatMul", (scores,)),
        ("y.scaled", "Scale", (scores,)),
        ("y.softmax", "Softmax", (scores,)),
        ("y.dropout.mask", "DropoutMask", (scores,)),
        ("y.dropout", "Dropout", (scores,)),
        ("y.context", "MatMul", (heads,)),
        ("y.joined", "Copy", ((2, 5, 8),)),
    ]
    held = saved(network)
    assert held["y.scores"] == {"y.q", "y.k"}
    assert held["y.context"] == {"y.dropout", "y.v"}
    assert held["y.softmax"] == {"y.softmax"}


def test_only_unfused_attention_has_values_of_a_number_per_pair():
    fused, unfused = attention(fused=True), attention()
    pairs = 2 * 2 * 5 * 5
    sizes = {
        network: Counter(prod(shape) for layer in network.layers for shape in layer.shapes)
        for network in (fused, unfused)
    }
    assert sizes[fused][pairs] == 0
    assert sizes[unfused][pairs] == 5  # scores, scaled, softmax, mask, dropout
    assert fused.macs == unfused.macs == 2 * pairs * 4


def test_without_dropout_and_with_a_mask():
    net = vocabulary()
    x = tensor(net, ROWS)
    net.attention(x, x, x, 2, mask=net.input("allowed", (5, 5), "bool"), dropout=False, name="y")
    ops = Counter(layer.op for layer in net.network().layers)
    assert (ops["Mask"], ops["DropoutMask"], ops["Dropout"]) == (1, 0, 0)


def biased(fused, mask=False):
    net = vocabulary()
    x = tensor(net, ROWS)
    bias = tensor(net, (2, 5, 5), "bias")  # of each head, for both examples
    allowed = net.input("allowed", (5, 5), "bool") if mask else None
    net.attention(x, x, x, 2, bias=bias, mask=allowed, fused=fused, dropout=False, name="y")
    return net.network()


def test_a_bias_is_added_to_the_scaled_scores_and_not_saved():
    network = biased(fused=False, mask=True)
    inner = {layer.name: layer.op for layer in network.layers if layer.name.startswith("y.")}
    assert list(inner.items())[4:7] == [("y.scaled", "Scale"), ("y.biased", "Add"), ("y.masked", "Mask")]
    held = saved(network)
    assert held["y.biased"] == held["y.masked"] == set()  # the mask is a resident
    assert not any("bias" in names for names in held.values())


def test_a_fused_attention_saves_its_bias_and_adds_it_once_for_each_score():
    network, without = biased(fused=True), attention(fused=True)
    assert saved(network)["y"] == {"x", "bias", "y", "y.logsumexp"}
    assert network.layers[-1].macs == without.layers[-1].macs
    assert network.layers[-1].flops - without.layers[-1].flops == 2 * 2 * 5 * 5


@pytest.mark.parametrize("fused", [False, True])
def test_a_learned_bias_has_a_gradient_of_its_own_shape(fused):
    graph = differentiate(biased(fused).graph)
    assert graph.memory[graph.value_id("grad(bias)")] == 2 * 5 * 5 * 4


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(("kv_heads", "rows"), [(4, 5), (2, 5), (1, 5), (1, 3)])
def test_shared_heads_of_keys_do_not_change_the_work(kv_heads, rows, fused):
    """4 heads of 2; 2 * 4 * rows * 5 scores of 2 products, and as many for the context."""
    network = attention(kv_width=2 * kv_heads, heads=4, kv_heads=kv_heads, rows=rows, fused=fused)
    assert network.macs == 2 * (2 * 4 * rows * 5) * 2
    assert network.layers[-1].shapes[0] == (2, rows, 8)
    key = next(layer for layer in network.layers if layer.name == ("k" if fused else "y.k"))
    assert prod(key.shapes[0]) == 2 * 5 * 2 * kv_heads


# ---------------------------------------------------------------- recurrent cells, shared weights, parts


def test_an_lstm_cell_is_thirteen_operations():
    net = vocabulary()
    weights = net.lstm_weights(3, 4)
    h, c = net.lstm_cell(tensor(net, (2, 3)), tensor(net, (2, 4), "h0"), tensor(net, (2, 4), "c0"), weights)
    network = net.network()
    cell = Counter(layer.op for layer in network.layers if layer.name.startswith("cell"))
    assert cell == {"Linear": 2, "Add": 2, "Slice": 1, "Sigmoid": 3, "Tanh": 2, "Multiply": 3}
    assert cell.total() == 13
    assert h.shape == c.shape == (2, 4)
    assert network.macs == 2 * 16 * 3 + 2 * 16 * 4  # 4 gates of 4, of the input and of the state
    assert network.n_parameters == 16 * 3 + 16 * 4 + 16


def test_steps_of_a_cell_share_its_weights():
    net = vocabulary()
    weights = net.lstm_weights(3, 4)
    h, c = tensor(net, (2, 4), "h0"), tensor(net, (2, 4), "c0")
    for step in range(5):
        h, c = net.lstm_cell(tensor(net, (2, 3), f"x{step}"), h, c, weights)
    network = net.network()
    g = plain(network.graph)
    readers = Counter(g.resident_names[r] for row in g.resident_reads for r in row if g.resident_role[r] == 1)
    assert readers == {"cell.input_weight": 5, "cell.state_weight": 5, "cell.bias": 5}
    assert network.n_parameters == 16 * 3 + 16 * 4 + 16
    assert len(set(g.node_names)) == len(g.node_names)


def test_a_tied_weight_counts_once_and_its_gradients_are_summed():
    net = vocabulary(parameter_gradients=True)
    weight = net.parameter("words", (100, 8))
    x = net.embedding(tokens(net, 2, 5), 100, 8, weight=weight, name="embed")
    scores = net.linear(x, 100, parameters=[weight], name="head")
    net.softmax_cross_entropy(scores, net.input("targets", (2, 5), "int64"))
    network = net.network()
    g = plain(network.graph)
    assert (network.n_parameters, network.parameter_memory) == (800, 3200)
    assert [g.node_names[v] for v, row in enumerate(g.resident_reads) if g.resident_names.index("words") in row][
        :2
    ] == [
        "embed",
        "head",
    ]
    assert [name for name in g.node_names if name.startswith("grad(words)")] == ["grad(words)@head", "grad(words)"]
