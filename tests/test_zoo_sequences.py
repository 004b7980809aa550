"""Feed-forward networks, LSTMs, translation, Transformers, language models, experts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.errors import GraphError, ScheduleError
from remat_algos.ir.differentiate import differentiate
from remat_algos.schedule.emission import checkpoint_schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.zoo.registry import build
from tests.raising import raises

TEXT = {"batch": 2, "sequence": 5, "depth": 2, "words": 11}
TINY = {
    "feed_forward": {"batch": 2, "depth": 3, "width": 4, "features": 5},
    "lstm": {"batch": 2, "steps": 3, "depth": 2, "width": 4, "features": 3, "classes": 5},
    "nmt": {"batch": 2, "steps": 3, "depth": 2, "width": 4, "source_words": 9, "words": 7},
    "transformer_base": {**TEXT, "width": 8, "heads": 2},
    "transformer_big": {**TEXT, "width": 8, "heads": 2, "fused": True},
    "gpt2_small": {**TEXT, "width": 8, "heads": 2},
    "gpt2_medium": {**TEXT, "width": 8, "heads": 2, "fused": True},
    "llama_7b": {**TEXT, "width": 8, "heads": 2},
    "llama3_8b": {**TEXT, "width": 16, "heads": 4, "kv_heads": 2, "inner": 12, "fused": False},
    "mixtral_8x7b": {**TEXT, "width": 16, "heads": 4, "kv_heads": 2, "inner": 12, "experts": 3},
    "switch_base_8": {**TEXT, "width": 8, "heads": 2, "inner": 12, "experts": 3},
}


def tiny(model, **options):
    return build(model, **{**TINY[model], **options})


def ops(network, block):
    """Operations of the layers whose names begin with `block`."""
    return [layer.op for layer in network.layers if layer.name.startswith(block)]


def shape(network, name):
    return next(layer.shapes[0] for layer in network.layers if layer.name == name)


# ---------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        # published: touvron2023, dubey2024, jiang2024, fedus2022
        ("llama_7b", 6_738_415_616),
        ("llama_13b", 13_015_864_320),
        ("llama3_8b", 8_030_261_248),
        ("mixtral_8x7b", 46_702_792_704),
        ("switch_base_8", 619_339_008),
        # by hand
        ("feed_forward", 101 * (1024 * 1024 + 1024)),
        ("lstm", 4096 * (50 + 1024 + 1) + 3 * 4096 * (2 * 1024 + 1) + 5000 * 1025),
        ("transformer_base", 37_000 * 512 + 6 * ((4 + 8) * 512**2 + 2 * (2 * 512 * 2048 + 2048 + 512) + 5 * 2 * 512)),
        ("transformer_big", 37_000 * 1024 + 6 * (12 * 1024**2 + 2 * (2 * 1024 * 4096 + 4096 + 1024) + 10 * 1024)),
    ],
)
def test_parameters_are_those_published_or_counted_by_hand(model, parameters):
    assert build(model, batch=1, **({"steps": 1} if model == "lstm" else {})).n_parameters == parameters


def test_parameters_of_nmt_by_hand():
    words = (17_191 + 7_709) * 512
    directions = 2 * 4 * 256 * (512 + 256 + 1)
    upper = 4 * 512 * (512 + 512 + 1)
    decoder = 4 * 512 * (1024 + 512 + 1) + 4 * 512 * (512 + 512 + 1)  # the first cell reads word and hidden state
    attention = 512 * 512 + 512 * 512 + 512  # keys, query, score
    combined = 512 * 1024 + 512
    first = 4 * (512 * 512 + 512)  # h and c of two cells
    scores = 7_709 * (512 + 1)
    parts = (words, directions, upper, decoder, attention, combined, first, scores)
    assert build("nmt", steps=1).n_parameters == sum(parts)


@pytest.mark.parametrize(
    ("options", "millions"),
    [
        ({}, 65),
        ({"depth": 2}, 36),
        ({"depth": 4}, 50),
        ({"depth": 8}, 80),
        ({"width": 256, "inner": 2048}, 28),
        ({"width": 1024, "inner": 2048}, 168),
        ({"inner": 1024}, 53),
        ({"inner": 4096}, 90),
    ],
)
def test_base_transformers_of_the_papers_table_have_41100_words(options, millions):
    """vaswani2017, table 3, all of whose rows this explains; with the 37,000 of its text there are 2 million fewer."""
    assert round(build("transformer_base", words=41_100, **options).n_parameters / 1e6) == millions


@given(
    width=st.integers(1, 6).map(lambda k: 4 * k),
    depth=st.integers(1, 3),
    sequence=st.integers(1, 6),
    words=st.integers(1, 9),
)
def test_language_models_follow_their_formulas(width, depth, sequence, words):
    sizes = {"batch": 1, "sequence": sequence, "depth": depth, "width": width, "heads": 2, "words": words}
    gpt2 = build("gpt2_small", positions=7, **sizes)
    assert gpt2.n_parameters == (words + 7) * width + depth * (12 * width**2 + 13 * width) + 2 * width
    products = 12 * width**2 * sequence + 2 * sequence**2 * width
    assert gpt2.macs == depth * products + words * width * sequence
    llama = build("llama_7b", inner=5, **sizes)
    assert llama.n_parameters == 2 * words * width + depth * (4 * width**2 + 15 * width + 2 * width) + width


def test_tied_weights_are_one_resident():
    resident = tiny("transformer_base").graph.resident
    shared = resident.names.index("embedding.weight")
    assert np.count_nonzero(resident.read_indices == shared) == 3  # source, target, scores


# ---------------------------------------------------------------- multiply-adds


@pytest.mark.parametrize(
    ("model", "options", "macs"),
    [
        # 12 layers x (12 x 768^2 x 1024 + 2 x 1024^2 x 768) + 50257 x 768 x 1024
        ("gpt2_small", {}, 145_824_153_600),
        ("gpt2_xl", {}, 1_753_351_782_400),
        # layers x (4 d^2 + 3 d f) x 2048 + 2 x 2048^2 d, and the scores 32000 d x 2048
        ("llama_7b", {}, 32 * ((4 * 4096**2 + 3 * 4096 * 11_008) * 2048 + 2 * 2048**2 * 4096) + 32_000 * 4096 * 2048),
        # keys and values of a quarter of the width
        (
            "llama3_8b",
            {},
            32 * ((2.5 * 4096**2 + 3 * 4096 * 14_336) * 2048 + 2 * 2048**2 * 4096) + 128_256 * 4096 * 2048,
        ),
        # the products of two experts per word, the router, and the sum of the two
        (
            "mixtral_8x7b",
            {},
            32 * ((2.5 * 4096**2 + 6 * 4096 * 14_336 + 8 * 4096 + 2 * 4096) * 2048 + 2 * 2048**2 * 4096)
            + 32_000 * 4096 * 2048,
        ),
        # per layer pair: 4 + 8 projections, 3 attentions, 2 x 2 products with 2048
        (
            "transformer_base",
            {"sequence": 100},
            6 * (12 * 512**2 * 100 + 3 * 2 * 100**2 * 512 + 4 * 512 * 2048 * 100) + 37_000 * 512 * 100,
        ),
        ("feed_forward", {"depth": 3, "features": 10}, 10 * 1024 + 2 * 1024**2 + 1024 * 10),
        ("lstm", {"steps": 2}, 2 * (4096 * (50 + 1024) + 3 * 4096 * 2048 + 5000 * 1024)),
    ],
)
def test_multiply_adds_by_hand(model, options, macs):
    assert build(model, batch=1, **options).macs == macs


@pytest.mark.parametrize("model", ["transformer_base", "gpt2_small", "llama_7b"])
def test_fused_attention_does_the_same_products(model):
    apart, fused = (tiny(model, fused=choice) for choice in (False, True))
    assert apart.macs == fused.macs
    assert apart.n_parameters == fused.n_parameters
    assert any(layer.shapes[0][-2:] == (5, 5) for layer in apart.layers)  # the scores
    assert not any(layer.shapes[0][-2:] == (5, 5) for layer in fused.layers)


# ---------------------------------------------------------------- structure


def test_feed_forward_is_linear_and_relu_in_turn():
    network = tiny("feed_forward")
    assert [layer.op for layer in network.layers] == [*["Linear", "ReLU"] * 3, "Linear", "MeanSquare"]
    assert [layer.shapes[0] for layer in network.layers] == [*[(2, 4)] * 6, (2, 5), ()]


def test_lstm_has_a_cell_per_step_and_layer():
    network = tiny("lstm")
    assert (
        network.graph.n_nodes == 3 * (2 * 13 + 2) + 2
    )  # 13 operations a cell, scores and loss a step, sums but for the first
    assert shape(network, "lstm.layer1.step2.cell.gates") == (2, 16)
    assert shape(network, "lstm.layer1.step2.cell.h") == (2, 4)
    resident = network.graph.resident
    weight = resident.names.index("lstm.layer1.state_weight")
    assert np.count_nonzero(resident.read_indices == weight) == 3


def test_nmt_decodes_by_attention():
    network = build("nmt", batch=2, steps=5, width=8, source_words=9, words=7)
    assert shape(network, "encoder.forward.layer0.step0.cell.h") == (2, 4)  # half the width in each direction
    assert shape(network, "encoder.both0") == (2, 8)
    assert shape(network, "source.keys") == (2, 5, 8)
    assert shape(network, "decoder.feed0") == (2, 16)
    assert ops(network, "attention.step4") == [
        *("Linear", "Add", "Tanh", "Linear", "Mask", "Softmax", "MatMul", "Concat", "Linear", "Tanh")
    ]
    assert shape(network, "head.scores") == (2, 5, 7)
    cells = 5 * 13 * (2 + 1 + 2)  # two directions, upper encoder, decoder
    others = 2 * 2 + 5 + 2 + 4 * 2 + 5 + 5 * 10 + 3  # words, both, keys, first states, feed, attention, head
    assert network.graph.n_nodes == cells + others


def test_one_layer_of_nmt_has_no_upper_encoder():
    assert not ops(tiny("nmt", depth=1), "encoder.upper")


def test_nmt_shows_what_echo_makes_again():
    """echo2020, figure 8: the gradient of tanh reads its result, that of the sum nothing; all steps share the keys."""
    steps = 12
    network = build("nmt", batch=2, steps=steps, depth=1, width=8, source_words=9, words=7)
    training = differentiate(network.graph)
    names = training.node_names()
    backward = training.forward_of >= 0
    readers = np.repeat(np.arange(training.n_nodes), np.diff(training.read_indptr))
    read_back = set(training.producer[training.read_indices[backward[readers]]].tolist())
    sums = [names.index(f"attention.step{t}.sum") for t in range(steps)]
    likenesses = [names.index(f"attention.step{t}.tanh") for t in range(steps)]
    assert read_back.isdisjoint(sums)
    assert read_back.issuperset(likenesses)
    kept = ~backward
    whole = simulate(training, checkpoint_schedule(training, kept))
    kept[sums + likenesses] = False
    again = simulate(training, checkpoint_schedule(training, kept))
    one = 2 * steps * 8 * 4
    assert whole.peak_memory - again.peak_memory > (steps - 4) * one  # all but those at work


def test_transformer_layers_by_hand():
    network = tiny("transformer_base")
    attention = ["Linear"] * 3 + ["Copy"] * 3 + ["MatMul", "Scale", "Mask", "Softmax", "MatMul", "Copy", "Linear"]
    after = ["DropoutMask", "Dropout", "Add", "LayerNorm"]
    products = ["Linear", "ReLU", "Linear"]
    assert ops(network, "encoder.layer1") == [*attention, *after, *products, *after]
    assert ops(network, "decoder.layer1") == [*attention, *after, *attention, *after, *products, *after]
    assert shape(network, "decoder.layer0.source.attention.scores") == (2, 2, 5, 5)
    assert shape(network, "encoder.layer0.mlp.fc1") == (2, 5, 32)


def test_gpt2_layer_by_hand():
    network = tiny("gpt2_small", dropout="single")
    scores = ["MatMul", "Scale", "Mask", "Softmax", "Dropout", "MatMul"]
    assert ops(network, "h.1") == [
        *("LayerNorm", "Linear", "Slice", "Copy", "Copy", "Copy", *scores, "Copy", "Linear", "Dropout", "Add"),
        *("LayerNorm", "Linear", "GELU", "Linear", "Dropout", "Add"),
    ]
    assert shape(network, "h.1.attn.c_attn") == (2, 5, 24)
    assert shape(network, "h.1.mlp.c_fc") == (2, 5, 32)
    assert shape(network, "embedding.wpe") == (1, 5, 8)


def test_llama_layer_by_hand():
    network = tiny("llama_7b", kv_heads=1)
    assert ops(network, "layers.1") == [
        *("RMSNorm", "Linear", "Linear", "Linear", "Rotary", "Rotary", "Attention", "Linear", "Add"),
        *("RMSNorm", "Linear", "SiLU", "Linear", "Multiply", "Linear", "Add"),
    ]
    assert shape(network, "layers.0.self_attn.q_proj") == (2, 5, 8)
    assert shape(network, "layers.0.self_attn.k_rotary") == (2, 5, 4)  # one head for the two of q
    assert shape(network, "layers.0.mlp.gate_proj") == (2, 5, 256)  # 8/3 of 8, rounded up to a multiple of 256


@pytest.mark.parametrize(
    ("options", "room"),
    [
        ({}, 7),  # 2 x 5 words, each to 2 of 3 experts: 20 / 3
        ({"capacity": 125}, 9),  # 20 / 3 x 5/4 = 8.33
        ({"capacity": 1}, 1),
        ({"capacity": 900}, 10),  # no more than all words
        ({"experts": 4, "chosen": 1}, 3),  # 10 / 4
    ],
)
def test_experts_have_room_for_their_share(options, room):
    network = tiny("mixtral_8x7b", **options)
    dispatch = next(layer for layer in network.layers if layer.name == "layers.0.moe.dispatch")
    assert dispatch.shapes == ((room, 16),) * options.get("experts", 3)
    assert shape(network, "layers.1.moe.expert2.gate_proj") == (room, 12)


def test_routing_must_not_run_again_and_the_rest_may():
    graph = tiny("mixtral_8x7b", dropout="single").graph
    assert [graph.labels[node] for node in np.flatnonzero(graph.once)] == ["layers.0.moe.route", "layers.1.moe.route"]
    training = differentiate(graph)
    node = graph.node_names().index("layers.0.moe.route")
    order = list(range(training.n_nodes))
    simulate(training, [*order[:node], node - 1, *order[node:]])
    with pytest.raises(ScheduleError, match="route"):
        simulate(training, [*order[: node + 1], node, *order[node + 1 :]])


def test_switch_has_experts_in_every_second_layer():
    network = tiny("switch_base_8", depth=4)
    routers = [layer.name for layer in network.layers if layer.op == "Route"]
    blocks = [f"{side}.block{k}" for side in ("encoder", "decoder") for k in (1, 3)]
    assert routers == [f"{block}.products.moe.route" for block in blocks]
    assert shape(network, "decoder.embedding.bias.masked") == (2, 5, 5)  # heads x words x words, for all layers
    total = network.graph.reads(network.graph.n_nodes - 1)
    assert len(total) == 1 + 4  # cross-entropy, and a balance for each layer of experts


def test_the_learned_bias_of_switch_is_added_and_its_mask_is_a_mask():
    network = tiny("switch_base_8", dropout="single")
    masks = [layer.name for layer in network.layers if layer.op == "Mask"]
    assert masks == ["decoder.embedding.bias.masked"]  # of the bias, once for all layers
    biased = {layer.name: layer.op for layer in network.layers if layer.name.endswith(".biased")}
    attentions = [("encoder", "self"), ("decoder", "self")]
    assert biased == {f"{side}.block{k}.{name}.attention.biased": "Add" for side, name in attentions for k in (0, 1)}
    saved = network.graph.backward
    nodes = [network.graph.node_id(name) for name in biased]
    assert [len(saved.saved(v)) for v in nodes] == [0] * 4


# ---------------------------------------------------------------- every model, every setting


@pytest.mark.parametrize("model", TINY)
def test_the_loss_alone_is_left_unread(model):
    graph = tiny(model).graph
    assert graph.output.sum() == 1
    training = differentiate(graph)
    assert simulate(training, np.arange(training.n_nodes)).compute == training.compute.sum()


@pytest.mark.parametrize(
    ("model", "option", "per_step"),
    [("feed_forward", "depth", 2), ("gpt2_small", "depth", 25), ("llama_7b", "depth", 16), ("lstm", "steps", 29)],
)
def test_depth_and_length_add_the_same_nodes_each(model, option, per_step):
    counts = [tiny(model, **{option: k}).graph.n_nodes for k in (2, 3, 4)]
    assert np.diff(counts).tolist() == [per_step, per_step]


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("model", "options", "fields"),
    [
        ("nmt", {"width": 5}, {"width": 5}),
        ("gpt2_small", {"sequence": 1025}, {"sequence": 1025, "positions": 1024}),
        ("gpt2_small", {"heads": 3}, {"width": 8, "heads": 3}),
        ("llama_7b", {"width": 6}, {"width": 6, "divisor": 4}),
        ("llama_7b", {"heads": 4, "kv_heads": 3}, {"heads": 4, "kv_heads": 3}),
        ("mixtral_8x7b", {"chosen": 4}, {"chosen": 4, "experts": 3}),
        ("transformer_base", {"heads": 3}, {"width": 8, "heads": 3}),
        ("lstm", {"steps": 0}, {"name": "steps", "value": 0}),
        ("switch_base_8", {"kv_heads": 2}, {"name": "kv_heads"}),
    ],
)
def test_impossible_wishes_are_refused(model, options, fields):
    with raises(GraphError, model=model, **fields):
        tiny(model, **options)
