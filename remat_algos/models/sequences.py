"""Products of matrices, embeddings, attention, recurrent cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from remat_algos.cost.shapes import tensor_bytes
from remat_algos.errors import GraphError
from remat_algos.models.builder import Further, Tensor
from remat_algos.models.pointwise import Pointwise

CELL_GATES = 4


@dataclass(frozen=True, slots=True)
class LSTMWeights:
    """Parameters of a cell, which all its steps share."""

    of_input: Tensor
    of_state: Tensor
    bias: Tensor


class Sequences(Pointwise):
    """Layers on tensors of shape (batch, length, width), and on rows."""

    def linear(
        self, x: Tensor, features: int, *, bias: bool = True, parameters: Sequence[Tensor] = (), name: str = "linear"
    ) -> Tensor:
        """A product with a matrix along the last axis; its gradient reads x.

        `parameters` are a weight (features, width of x) and perhaps a bias that others share.

        Raises
        ------
        GraphError
            If the shared weight has another shape.
        """
        full = self.named(name)
        before = x.shape[-1]
        if not parameters:
            made = [self.parameter(f"{full}.weight", (features, before))]
            parameters = [*made, self.parameter(f"{full}.bias", (features,))] if bias else made
        elif parameters[0].shape != (features, before):
            shape = parameters[0].shape
            raise GraphError(f"{self.model}: {full} wants a weight of {(features, before)}, not of {shape}")
        shape = (*x.shape[:-1], features)
        if self.settings.primitive and len(parameters) > 1:
            product = self.run("Linear", [x, parameters[0]], shape, name=f"{full}.product", macs=prod(shape) * before)
            return self.run("Add", [product, parameters[1]], shape, name=full, flops=prod(shape), dtype=x.dtype)
        return self.run(
            "Linear",
            [x, *parameters],
            shape,
            name=full,
            macs=prod(shape) * before,
            flops=prod(shape) if len(parameters) > 1 else 0,
            dtype=x.dtype,
        )

    def embedding(
        self, tokens: Tensor, words: int, width: int, *, weight: Tensor | None = None, name: str = "embedding"
    ) -> Tensor:
        """A row of the weight for each token; its gradient reads the tokens, which are residents."""
        full = self.named(name)
        if weight is None:
            weight = self.parameter(f"{full}.weight", (words, width))
        shape = (*tokens.shape, width)
        size = tensor_bytes(shape, self.settings.dtype)
        return self.run("Embedding", [tokens, weight], shape, name=full, bytes_moved=2 * size)

    def matmul(self, x: Tensor, y: Tensor, *, transposed: bool = False, name: str = "matmul") -> Tensor:
        """A product of matrices per example and head, with y or with y turned; its gradient reads both.

        Raises
        ------
        GraphError
            If the matrices do not fit.
        """
        full = self.named(name)
        inner, columns = (y.shape[-1], y.shape[-2]) if transposed else (y.shape[-2], y.shape[-1])
        if x.shape[-1] != inner:
            found = f"{full} multiplies {x.shape} by {y.shape}{' turned' if transposed else ''}"
            raise GraphError(f"{self.model}: {found}; give equal inner lengths")
        shape = (*x.shape[:-1], columns)
        return self.run("MatMul", [x, y], shape, name=full, macs=prod(shape) * inner, dtype=x.dtype)

    # ---------------------------------------------------------------- attention

    def attention(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        heads: int,
        *,
        kv_heads: int | None = None,
        mask: Tensor | None = None,
        fused: bool = False,
        dropout: bool = True,
        name: str = "attention",
    ) -> Tensor:
        """Each row of q, by its likeness to the rows of k, gathers rows of v; all of shape (batch, length, width).

        Fused it is one node: its gradient reads q, k, v, the result and a number per row, and adds up in float32.
        Else the scores, of batch x heads x length x length, are values: scaled, masked, softmax, dropout.
        With `kv_heads` k and v have fewer heads, each shared by several of q. Dropout in the fused node draws the same
        mask again from its stored seed.

        Raises
        ------
        GraphError
            If the heads do not divide the widths, or widths and lengths do not fit.
        """
        kv_heads = heads if kv_heads is None else kv_heads
        batch, rows, width = q.shape
        if min(heads, kv_heads) < 1 or width % heads or heads % kv_heads or k.shape[-1] != width // heads * kv_heads:
            raise GraphError(
                f"{self.model}: {name} has width {width} and {k.shape[-1]} for {heads} heads and {kv_heads} of keys; "
                "give numbers that divide"
            )
        self._same_shape(name, [k, v])
        size = width // heads
        if fused:
            macs = 2 * batch * heads * rows * k.shape[1] * size
            return self.run(
                "Attention",
                [q, k, v, *([mask] if mask else [])],
                q.shape,
                name=self.named(name),
                further=[Further("logsumexp", (batch, heads, rows), "float32")],
                macs=macs,
                flops=5 * batch * heads * rows * k.shape[1],
                grad_workspace=tensor_bytes(q.shape, "float32") if self.settings.several_values else 0,
                dtype=q.dtype,
                heads=heads,
            )
        with self.scope(name):
            q = self.copy(q, batch, heads, rows, size, name="q")
            k, v = (self.copy(x, batch, kv_heads, x.shape[1], size, name=side) for x, side in ((k, "k"), (v, "v")))
            scores = self.scale(self.matmul(q, k, transposed=True, name="scores"), name="scaled")
            if mask is not None:
                scores = self.mask(scores, mask, name="masked")
            shares = self.softmax(scores)
            if dropout:
                shares = self.dropout(shares)
            context = self.matmul(shares, v, name="context")
            return self.copy(context, batch, rows, width, name="joined")

    # ---------------------------------------------------------------- recurrent cells

    def lstm_weights(self, before: int, hidden: int, name: str = "cell") -> LSTMWeights:
        """Parameters of an LSTM cell with one bias."""
        full = self.named(name)
        shapes = {"input_weight": (CELL_GATES * hidden, before), "state_weight": (CELL_GATES * hidden, hidden)}
        of_input, of_state = (self.parameter(f"{full}.{what}", shape) for what, shape in shapes.items())
        return LSTMWeights(of_input, of_state, self.parameter(f"{full}.bias", (CELL_GATES * hidden,)))

    def lstm_cell(
        self, x: Tensor, h: Tensor, c: Tensor, weights: LSTMWeights, name: str = "cell"
    ) -> tuple[Tensor, Tensor]:
        """One step of an LSTM as its operations: two products, their sum, four gates, the new memory c and state h."""
        with self.scope(name):
            width = weights.of_state.shape[0]
            from_x = self.linear(x, width, parameters=[weights.of_input, weights.bias], name="from_input")
            from_h = self.linear(h, width, parameters=[weights.of_state], name="from_state")
            i, f, g, o = self.split(self.add(from_x, from_h, name="gates"), CELL_GATES, name="parts")
            i, f, o = (self.sigmoid(gate, name=side) for gate, side in ((i, "in"), (f, "forget"), (o, "out")))
            kept = self.multiply(f, c, name="kept")
            c = self.add(kept, self.multiply(i, self.tanh(g, name="new"), name="added"), name="c")
            return self.multiply(o, self.tanh(c, name="squashed"), name="h"), c

    def ctc_loss(self, x: Tensor, targets: Tensor, name: str = "loss") -> Tensor:
        """-log of the chance of a transcript, over all its alignments; its gradient reads x and the forward chances."""
        rows = (x.shape[0], x.shape[1], 2 * targets.shape[1] + 1)
        return self.run(
            "CTCLoss",
            [x, targets],
            (),
            name=self.named(name),
            further=[Further("alpha", rows, "float32")],
            flops=5 * prod(x.shape) + 6 * prod(rows),
            dtype="float32",
        )
