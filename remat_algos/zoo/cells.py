"""Recurrent cells made of products and element-wise operations."""

from __future__ import annotations

from dataclasses import dataclass

from remat_algos.zoo.network import Tensor
from remat_algos.zoo.products import Products

CELL_GATES = 4


@dataclass(frozen=True, slots=True)
class LSTMWeights:
    """Parameters of a cell, shared by all steps."""

    of_input: Tensor
    of_state: Tensor
    bias: Tensor


class Cells(Products):
    """Steps of recurrent layers."""

    def lstm_weights(self, before: int, hidden: int, name: str = "cell") -> LSTMWeights:
        """Parameters of an LSTM cell with one bias."""
        full = self.named(name)
        shapes = {"input_weight": (CELL_GATES * hidden, before), "state_weight": (CELL_GATES * hidden, hidden)}
        of_input, of_state = (self.parameter(f"{full}.{what}", shape) for what, shape in shapes.items())
        return LSTMWeights(of_input, of_state, self.parameter(f"{full}.bias", (CELL_GATES * hidden,)))

    def lstm_cell(
        self, x: Tensor, h: Tensor, c: Tensor, weights: LSTMWeights, name: str = "cell"
    ) -> tuple[Tensor, Tensor]:
        """A step of an LSTM as separate operations: two products, their sum, four gates, the new c and h."""
        with self.scope(name):
            width = weights.of_state.shape[0]
            from_x = self.linear(x, width, parameters=[weights.of_input, weights.bias], name="from_input")
            from_h = self.linear(h, width, parameters=[weights.of_state], name="from_state")
            i, f, g, o = self.split(self.add(from_x, from_h, name="gates"), CELL_GATES, name="parts")
            i, f, o = (self.sigmoid(gate, name=side) for gate, side in ((i, "in"), (f, "forget"), (o, "out")))
            kept = self.multiply(f, c, name="kept")
            c = self.add(kept, self.multiply(i, self.tanh(g, name="new"), name="added"), name="c")
            return self.multiply(o, self.tanh(c, name="squashed"), name="h"), c
