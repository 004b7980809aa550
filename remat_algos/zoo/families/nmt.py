"""Neural machine translation: LSTMs with attention."""

from __future__ import annotations

from remat_algos.zoo.builder import Tensor
from remat_algos.zoo.families.lstm import Stack
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.registry import family


@family({"nmt": {}})
def nmt(
    net: Layers,
    *,
    batch: int = 128,
    steps: int = 100,
    depth: int = 2,
    width: int = 512,
    source_words: int = 17_191,
    words: int = 7_709,
) -> None:
    """Translation model of Sockeye (hieber2017): LSTM encoder, LSTM decoder, and attention with a tanh layer.

    This is the example of echo2020, with the sizes of zhu2018 for IWSLT15 English-Vietnamese. The first encoder layer
    is bidirectional, with half the width per direction. At each decoder step, the state is projected and added to every
    projected source state; a tanh, a dot product with a vector, and a softmax give the attention weights of the
    source states. The tanh has shape (batch, steps, width) at each step. The gradient of tanh reads its output, but the
    gradient of the sum reads nothing, so echo2020, figure 8, recomputes the tanh from one tensor that all steps share.
    The output layer reads the states of all steps at once. A cell has one bias. In Sockeye a cell has two, so
    Sockeye's model has 8,192 more parameters.

    Parameters
    ----------
    steps : int
        Number of words of a source sentence, and of a target sentence.
    depth : int
        Number of LSTM layers in the encoder, and in the decoder.
    width : int
        Length of embeddings, cell states and the attention layer.
    source_words, words : int
        Vocabulary sizes of the source and the target language.
    """
    if width % 2:
        raise net.fault("width {width} is halved for the two directions; give an even number", width=width)
    states = _encoder(net, _words(net, "source", batch, steps, source_words, width), depth, width)
    attention = _Attention(net, states, width)
    first = [(_initial(net, states[-1], f"h{k}"), _initial(net, states[-1], f"c{k}")) for k in range(depth)]
    decoder = Stack.of(net, "decoder", 2 * width, (batch, width), depth, first)
    hidden = net.input("hidden", (batch, width))
    decoded = []
    for time, word in enumerate(_words(net, "target", batch, steps, words, width)):
        query = decoder.step(net.concat(word, hidden, name=f"decoder.feed{time}"), time)
        with net.block(f"attention.step{time}"):
            hidden = attention(query)
        decoded.append(hidden)
    with net.block("head"):
        scores = net.linear(_sequence(net, decoded), words, name="scores")
    net.softmax_cross_entropy(scores, net.input("labels", (batch, steps), "int64"))


def _words(net: Layers, name: str, batch: int, steps: int, words: int, width: int) -> list[Tensor]:
    with net.scope(name):
        embedded = net.embedding(net.input("tokens", (batch, steps), "int64"), words, width)
        return [net.view(x, batch, width) for x in net.split(embedded, steps, axis=1)]


def _encoder(net: Layers, words: list[Tensor], depth: int, width: int) -> list[Tensor]:
    batch, last = words[0].shape[0], len(words) - 1
    ahead, back = (Stack.of(net, f"encoder.{side}", width, (batch, width // 2), 1) for side in ("forward", "backward"))
    left = [ahead.step(word, time) for time, word in enumerate(words)]
    right = [back.step(word, last - time) for time, word in enumerate(reversed(words))]
    both = enumerate(zip(left, reversed(right), strict=True))
    states = [net.concat(x, y, name=f"encoder.both{time}") for time, (x, y) in both]
    if depth == 1:
        return states
    upper = Stack.of(net, "encoder.upper", width, (batch, width), depth - 1)
    return [upper.step(state, time) for time, state in enumerate(states)]


def _initial(net: Layers, last: Tensor, name: str) -> Tensor:
    with net.scope(f"decoder.first.{name}"):
        return net.tanh(net.linear(last, last.shape[1]))


def _sequence(net: Layers, states: list[Tensor]) -> Tensor:
    batch, width = states[0].shape
    return net.concat(*(net.view(state, batch, 1, width) for state in states), name="states")


class _Attention:
    """Function from a query to its attentional hidden state; all steps share the weights."""

    def __init__(self, net: Layers, states: list[Tensor], width: int) -> None:
        with net.scope("source"):
            self.source = _sequence(net, states)
            self.keys = net.linear(self.source, width, bias=False, name="keys")
        self.net = net
        self.of_query = net.parameter("attention.query.weight", (width, width))
        self.of_score = net.parameter("attention.score.weight", (1, width))
        self.of_hidden = [
            net.parameter("attention.hidden.weight", (width, 2 * width)),
            net.parameter("attention.hidden.bias", (width,)),
        ]
        self.mask = net.input("source_mask", self.source.shape[:2], "bool")

    def __call__(self, query: Tensor) -> Tensor:
        net, (batch, steps, width) = self.net, self.source.shape
        projected = net.linear(query, width, parameters=[self.of_query], name="query")
        projected = net.view(projected, batch, 1, width)
        likeness = net.tanh(net.pointwise("Add", [self.keys, projected], name="sum"))
        scores = net.view(net.linear(likeness, 1, parameters=[self.of_score], name="scores"), batch, steps)
        shares = net.softmax(net.mask(scores, self.mask, name="masked"))
        context = net.matmul(net.view(shares, batch, 1, steps), self.source, name="context")
        both = net.concat(query, net.view(context, batch, width), name="both")
        return net.tanh(net.linear(both, width, parameters=self.of_hidden, name="hidden"), name="state")
