"""Matrix products, embeddings, attention, recurrent cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from remat_algos.cost.devices import tensor_bytes
from remat_algos.zoo.builder import ExtraValue
from remat_algos.zoo.network import Shape, Tensor
from remat_algos.zoo.pointwise import Pointwise

CELL_GATES = 4


@dataclass(frozen=True, slots=True)
class LSTMWeights:
    """Parameters of an LSTM cell, shared by all steps."""

    of_input: Tensor
    of_state: Tensor
    bias: Tensor


class Products(Pointwise):
    """Layers on tensors of shape (batch, length, width) or (rows, width)."""

    def linear(
        self, x: Tensor, features: int, *, bias: bool = True, parameters: Sequence[Tensor] = (), name: str = "linear"
    ) -> Tensor:
        """A linear layer over the last axis; its gradient reads x.

        `parameters` can share a weight (features, width of x), and optionally a bias, with other layers.
        """
        full = self.named(name)
        before = x.shape[self._axis(full, x, -1)]
        if not parameters:
            weights = [self.parameter(f"{full}.weight", (features, before))]
            parameters = [*weights, self.parameter(f"{full}.bias", (features,))] if bias else weights
        else:
            self._expect_shape(full, "weight", parameters[0], (features, before))
            for shared in parameters[1:]:
                self._expect_shape(full, "bias", shared, (features,))
        shape = (*x.shape[:-1], features)
        if self.settings.primitive and len(parameters) > 1:
            product = self.run("Linear", [x, parameters[0]], shape, name=f"{full}.product", macs=prod(shape) * before)
            return self.run("Add", [product, parameters[1]], shape, name=full, elements=prod(shape), dtype=x.dtype)
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
        """Look up a row of the weight per token; its gradient reads the tokens, which are residents."""
        full = self.named(name)
        if weight is None:
            weight = self.parameter(f"{full}.weight", (words, width))
        self._expect_shape(full, "weight", weight, (words, width))
        shape = (*tokens.shape, width)
        size = tensor_bytes(shape, self.settings.dtype)
        return self.run("Embedding", [tokens, weight], shape, name=full, bytes_moved=2 * size)

    def matmul(self, x: Tensor, y: Tensor, *, transposed: bool = False, name: str = "matmul") -> Tensor:
        """For each example and head, the product of x and y, or of x and y transposed; its gradient reads both."""
        full = self.named(name)
        read = {"name": full, "shape": x.shape, "other": y.shape, "how": " transposed" if transposed else ""}
        if not len(x.shape) == len(y.shape) >= 2 or x.shape[:-3] != y.shape[:-3] or not _shared(x, y):
            raise self.fault(
                "{name} multiplies {shape!w} by {other!w}{how!w}; give equal numbers of matrices, or heads that divide",
                **read,
            )
        inner, columns = (y.shape[-1], y.shape[-2]) if transposed else (y.shape[-2], y.shape[-1])
        if x.shape[-1] != inner:
            raise self.fault("{name} multiplies {shape!w} by {other!w}{how!w}; give equal inner lengths", **read)
        shape = (*x.shape[:-1], columns)
        return self.run(
            "MatMul", [x, y], shape, name=full, macs=prod(shape) * inner, dtype=x.dtype, transposed=transposed
        )

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
        bias: Tensor | None = None,
        fused: bool = False,
        dropout: bool = True,
        name: str = "attention",
    ) -> Tensor:
        """Scaled dot-product attention of q, k and v, all of shape (batch, length, width).

        With `fused` it is one node. Its gradient reads q, k, v, the result and one number per row, and accumulates in
        float32; its dropout draws the same mask each time, from its stored seed. Otherwise there is a value of shape
        (batch, heads, length, length) after each step: scores, scaling, bias, mask, softmax, dropout. With `kv_heads`,
        several heads of q share a head of k and v.
        """
        kv_heads = heads if kv_heads is None else kv_heads
        scores = self._scores(name, q, k, v, heads, kv_heads)
        self._broadcast(name, [x for x in (bias, mask) if x is not None], scores)
        if fused:
            return self._fused(q, k, v, scores, mask, bias, name)
        with self.scope(name):
            return self._unfused(q, k, v, kv_heads, scores, mask, bias, dropout)

    def _scores(self, name: str, q: Tensor, k: Tensor, v: Tensor, heads: int, kv_heads: int) -> Shape:
        """Return the shape of the attention scores: (batch, heads, length of q, length of k)."""
        if any(len(x.shape) != 3 for x in (q, k, v)) or q.shape[0] != k.shape[0]:
            raise self.fault(
                "{name} reads shapes {q!w}, {k!w} and {v!w}; give (batch, length, width) with equal batches",
                name=name,
                q=q.shape,
                k=k.shape,
                v=v.shape,
            )
        width, before = q.shape[-1], k.shape[-1]
        if min(heads, kv_heads) < 1 or width % heads or heads % kv_heads or before != width // heads * kv_heads:
            raise self.fault(
                "{name} has width {width} in {heads} heads, and keys of width {key_width} in {kv_heads} heads; give "
                "widths that are multiples of their heads, with equal head sizes",
                name=name,
                width=width,
                heads=heads,
                key_width=before,
                kv_heads=kv_heads,
            )
        self._same_shape(name, [k, v])
        return q.shape[0], heads, q.shape[1], k.shape[1]

    def _fused(
        self, q: Tensor, k: Tensor, v: Tensor, scores: Shape, mask: Tensor | None, bias: Tensor | None, name: str
    ) -> Tensor:
        return self.run(
            "Attention",
            [x for x in (q, k, v, bias, mask) if x is not None],
            q.shape,
            name=self.named(name),
            extra=[ExtraValue("logsumexp", scores[:3], "float32")],
            macs=2 * prod(scores) * (q.shape[-1] // scores[1]),
            elements=prod(scores),
            flops=0 if bias is None else prod(scores),
            grad_workspace=tensor_bytes(q.shape, "float32") if self.settings.several_values else 0,
            dtype=q.dtype,
            heads=scores[1],
        )

    def _unfused(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        kv_heads: int,
        scores: Shape,
        mask: Tensor | None,
        bias: Tensor | None,
        dropout: bool,
    ) -> Tensor:
        batch, heads, rows, columns = scores
        size = q.shape[-1] // heads
        by_head = self.copy(q, batch, heads, rows, size, name="q")
        k, v = (self.copy(x, batch, kv_heads, columns, size, name=side) for x, side in ((k, "k"), (v, "v")))
        x = self.scale(self.matmul(by_head, k, transposed=True, name="scores"), name="scaled", factor=size**-0.5)
        if bias is not None:
            x = self.pointwise("Add", [x, bias], name="biased")
        if mask is not None:
            x = self.mask(x, mask, name="masked")
        shares = self.softmax(x)
        if dropout:
            shares = self.dropout(shares)
        return self.copy(self.matmul(shares, v, name="context"), *q.shape, name="joined")

    # ---------------------------------------------------------------- recurrent cells

    def lstm_weights(self, before: int, hidden: int, name: str = "cell") -> LSTMWeights:
        """Create the parameters of an LSTM cell with one bias."""
        full = self.named(name)
        shapes = {"input_weight": (CELL_GATES * hidden, before), "state_weight": (CELL_GATES * hidden, hidden)}
        of_input, of_state = (self.parameter(f"{full}.{what}", shape) for what, shape in shapes.items())
        return LSTMWeights(of_input, of_state, self.parameter(f"{full}.bias", (CELL_GATES * hidden,)))

    def lstm_cell(
        self, x: Tensor, h: Tensor, c: Tensor, weights: LSTMWeights, name: str = "cell"
    ) -> tuple[Tensor, Tensor]:
        """A step of an LSTM as separate operations: two products, their sum, four gates, the new h and c."""
        with self.scope(name):
            width = weights.of_state.shape[0]
            from_x = self.linear(x, width, parameters=[weights.of_input, weights.bias], name="from_input")
            from_h = self.linear(h, width, parameters=[weights.of_state], name="from_state")
            i, f, g, o = self.split(self.add(from_x, from_h, name="gates"), CELL_GATES, name="parts")
            i, f, o = (self.sigmoid(gate, name=side) for gate, side in ((i, "in"), (f, "forget"), (o, "out")))
            kept = self.multiply(f, c, name="kept")
            c = self.add(kept, self.multiply(i, self.tanh(g, name="new"), name="added"), name="c")
            return self.multiply(o, self.tanh(c, name="squashed"), name="h"), c


def _shared(x: Tensor, y: Tensor) -> bool:
    """Return True if x and y have equal numbers of heads, or several heads of x share a head of y."""
    heads, shared = x.shape[-3:-2], y.shape[-3:-2]
    return heads == shared or (len(x.shape) > 3 and heads[0] % shared[0] == 0)
