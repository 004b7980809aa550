"""Write an unrolled LSTM as lstm.nodes.csv, lstm.edges.csv and lstm.values.csv.

Usage: python lstm.py [FOLDER, by default that of this script]

A language model: each step looks up a word, runs one cell and scores the next word; the loss is the sum over steps.
All steps share the parameters, so each parameter is one resident that every step reads. The cell is PyTorch's fused
cell: two products, then one operation that computes the state h, the memory c and the gates. Its gradient reads the
memories before and after it, and the gates, but not the products. (In PyTorch the gradients of both products are one
tensor; here they are two.)
"""

from tables import FLOAT, INDEX, Tables, saved

BATCH, STEPS, HIDDEN, WORDS = 32, 8, 512, 2048

graph = Tables(decimals=3)


def cell(step, from_word, from_state, memory):
    """Add a cell: each gate is three additions and a sigmoid or tanh; c takes three operations, h two."""
    shape = (BATCH, HIDDEN)
    c = {"name": f"t{step}.c", "memory_bytes": BATCH * HIDDEN * FLOAT, "saved": 1}
    gates = saved(f"t{step}.gates", (BATCH, 4 * HIDDEN))
    reads = [from_word, from_state, memory, "cell.bias"]
    operations = BATCH * HIDDEN * (4 * 4 + 3 + 2)
    h = graph.node(f"t{step}.h", "LSTMCell", reads, shape, operations, saves=[memory], more=[c, gates])
    return h, c["name"]


def lstm():
    words = graph.resident("words", (STEPS, BATCH), INDEX)
    targets = graph.resident("targets", (STEPS, BATCH), INDEX)
    h = graph.resident("t0.h", (BATCH, HIDDEN), role="state")
    c = graph.resident("t0.c", (BATCH, HIDDEN), role="state")
    embedding = graph.parameter("embedding", WORDS, HIDDEN)
    input_weight = graph.parameter("cell.input_weight", 4 * HIDDEN, HIDDEN)
    state_weight = graph.parameter("cell.state_weight", 4 * HIDDEN, HIDDEN)
    graph.parameter("cell.bias", 2, 4 * HIDDEN)
    score = graph.parameter("score.weight", WORDS, HIDDEN), graph.parameter("score.bias", WORDS)
    losses = []
    for t in range(1, STEPS + 1):
        word = graph.embedding(f"t{t}.word", words, embedding, (BATCH, HIDDEN))
        from_word = graph.linear(f"t{t}.from_word", word, 4 * HIDDEN, [input_weight])
        from_state = graph.linear(f"t{t}.from_state", h, 4 * HIDDEN, [state_weight])
        h, c = cell(t, from_word, from_state, c)
        scores = graph.linear(f"t{t}.scores", h, WORDS, score)
        losses.append(graph.cross_entropy(f"t{t}.loss", scores, targets, f"t{t}.probabilities"))
    graph.node("loss", "Sum", losses, (), STEPS)


if __name__ == "__main__":
    lstm()
    graph.write(__file__)
