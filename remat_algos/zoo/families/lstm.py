"""Unrolled LSTMs."""

from __future__ import annotations

from dataclasses import dataclass

from remat_algos.zoo.builder import Tensor
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.products import LSTMWeights
from remat_algos.zoo.registry import family

# The states h and c of a cell.
State = tuple[Tensor, Tensor]


@dataclass(slots=True)
class Stack:
    """Stacked LSTM cells, with their current states."""

    net: Layers
    name: str
    weights: list[LSTMWeights]
    states: list[State]

    @classmethod
    def of(
        cls, net: Layers, name: str, before: int, shape: tuple[int, int], depth: int, states: list[State] | None = None
    ) -> Stack:
        """Create cells with states of `shape` (batch, width); `states` are the initial states, by default residents."""
        inputs = [before, *[shape[1]] * (depth - 1)]
        weights = [net.lstm_weights(size, shape[1], f"{name}.layer{k}") for k, size in enumerate(inputs)]
        if states is None:
            states = [(net.input(f"{name}.h{k}", shape), net.input(f"{name}.c{k}", shape)) for k in range(depth)]
        return cls(net, name, weights, states)

    def step(self, x: Tensor, time: int) -> Tensor:
        for k, weights in enumerate(self.weights):
            with self.net.block(f"{self.name}.layer{k}.step{time}"):
                self.states[k] = self.net.lstm_cell(x, *self.states[k], weights)
            x = self.states[k][0]
        return x


@family({"lstm": {}})
def lstm(
    net: Layers,
    *,
    batch: int = 64,
    steps: int = 64,
    depth: int = 4,
    width: int = 1024,
    features: int = 50,
    classes: int = 5000,
) -> None:
    """Stacked LSTMs over a sequence, with a softmax over classes at each step.

    The defaults are those of chen2016, section 5.3: speech with 50 features and one class per step. The loss is the
    sum of the losses of all steps, added one by one. A cell has one bias; some frameworks have two.
    """
    stack = Stack.of(net, "lstm", features, (batch, width), depth)
    scores = [net.parameter("classifier.weight", (classes, width)), net.parameter("classifier.bias", (classes,))]
    total = None
    for time in range(steps):
        x = stack.step(net.input(f"input{time}", (batch, features)), time)
        with net.block(f"classifier.step{time}"):
            x = net.linear(x, classes, parameters=scores)
            loss = net.softmax_cross_entropy(x, net.input("target", (batch,), "int64"))
            total = loss if total is None else net.add(total, loss, name="total")
