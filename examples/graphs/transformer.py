"""Write a transformer block as transformer.nodes.csv, transformer.edges.csv and transformer.values.csv.

Usage: python transformer.py [FOLDER, by default that of this script]

One block with layer norms first, as PyTorch runs it without a fused kernel: attention with a causal mask, then two
linear layers; dropout and a residual connection follow both. Queries, keys and values are slices of one tensor, so they
are views, and their gradients are as large as the whole tensor; matrix products per head need another layout, so they
are copied. The block is trained to match the output of another network (`target`).
"""

from math import prod

from tables import FLOAT, INDEX, MASK, Tables, saved

BATCH, TOKENS, WIDTH, HEADS, WORDS = 8, 512, 768, 12, 32000
HEAD = WIDTH // HEADS

graph = Tables()


def layer_norm(name, source):
    """Add a layer norm, 7 per element. Its gradient reads its input, the means and the inverse deviations."""
    shape = graph.shapes[source]
    more = [saved(f"{name}.{statistic}", shape[:-1]) for statistic in ("mean", "rstd")]
    parameters = 2 * shape[-1] * FLOAT
    return graph.node(name, "LayerNorm", [source], shape, 7 * prod(shape), (1, 0), more=more, param_memory=parameters)


def elementwise(name, op, reads, operations=1, needs=(0, 0)):
    """Add an operation with the shape of its first read."""
    shape = graph.shapes[reads[0]]
    return graph.node(name, op, reads, shape, operations * prod(shape), needs)


def copy(name, source, shape):
    return graph.node(name, "Copy", [source], shape, prod(shape))


def product(name, first, second, shape, inner):
    """Add a matrix product per head; its gradient reads both factors."""
    return graph.node(name, "MatMul", [first, second], shape, 2 * prod(shape) * inner, (1, 0))


def attention(x):
    per_head, pairs = (BATCH, HEADS, TOKENS, HEAD), (BATCH, HEADS, TOKENS, TOKENS)
    qkv = graph.linear("qkv", x, 3 * WIDTH)
    q, k, v = (graph.view(name, qkv, per_head) for name in ("q", "k", "v"))
    q, k = copy("q.heads", q, per_head), copy("k.heads", k, per_head)
    scaled = elementwise("scaled", "Scale", [product("scores", q, k, pairs, HEAD)])
    masked = elementwise("masked", "Mask", [scaled, "mask"])
    attended = graph.dropout("attention.dropout", elementwise("softmax", "Softmax", [masked], 4, (0, 1)))
    context = product("context", attended, copy("v.heads", v, per_head), per_head, TOKENS)
    return graph.linear("projection", copy("context.joined", context, (BATCH, TOKENS, WIDTH)), WIDTH)


def mlp(x):
    x = elementwise("gelu", "GELU", [graph.linear("mlp.linear1", x, 4 * WIDTH)], 5, (1, 0))
    return graph.linear("mlp.linear2", x, WIDTH)


def transformer():
    shape = (BATCH, TOKENS, WIDTH)
    tokens = graph.resident("tokens", shape[:-1], INDEX)
    target = graph.resident("target", shape)
    graph.resident("mask", (TOKENS, TOKENS), MASK)
    x = graph.embedding("x", tokens, graph.parameter("embedding", WORDS, WIDTH), shape)
    attended = graph.dropout("projection.dropout", attention(layer_norm("norm1", x)))
    x = elementwise("residual1", "Add", [x, attended])
    x = elementwise("residual2", "Add", [x, graph.dropout("mlp.dropout", mlp(layer_norm("norm2", x)))])
    graph.node("loss", "MeanSquare", [x, target], (), 3 * prod(shape), (1, 0))


if __name__ == "__main__":
    transformer()
    graph.write(__file__)
