"""FLOPs of ONNX operators, from the shapes of their inputs and outputs."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

Shape = tuple[int, ...] | None
Shapes = Sequence[Shape]
Formula = Callable[[Shapes, Shapes, Mapping[str, Any]], int]
MICROSOFT = "com.microsoft."


def operator_flops(op: str, reads: Shapes, values: Shapes, attributes: Mapping[str, Any]) -> int:
    """Return the FLOPs of a matrix product, a convolution, or an operator built from these, or 0 for any other.

    A multiplication and an addition count as two. Element-wise parts (biases, activations, softmax) are not counted,
    and masks do not reduce the count. `reads` and `values` have the order of the operator's signature; `op` starts with
    its domain, unless that is ONNX's own.
    """
    formula = FORMULAS.get(op)
    if formula is None:
        return 0
    # Formulas access optional tensors by position, and a call may omit the last ones, so the lists are padded with
    # None. No operator has more than 16 tensors.
    omitted: list[Shape] = [None] * 16
    return formula([*reads, *omitted], [*values, *omitted], attributes)


def _of(shape: Shape) -> tuple[int, ...]:
    if shape is None:
        raise LookupError("a shape")
    return shape


def _product(reads: Shapes, values: Shapes, attributes: Mapping[str, Any]) -> int:
    """Return the FLOPs of a matrix product; it sums over the first matrix's columns, or over its rows if transposed."""
    left = _of(reads[0])
    rows = 0 if attributes.get("transBatchA") else -2
    return 2 * prod(_of(values[0])) * left[rows if attributes.get("transA") else -1]


def _convolution(weight: int) -> Formula:
    """Return the formula for a convolution; `weight` is the position of its weight among the inputs."""
    return lambda reads, values, _: 2 * prod(_of(values[0])) * prod(_of(reads[weight])[1:])


def _transposed_convolution(reads: Shapes, _values: Shapes, _attributes: Mapping[str, Any]) -> int:
    return 2 * prod(_of(reads[0])) * prod(_of(reads[1])[1:])


def _recurrent(reads: Shapes, _values: Shapes, _attributes: Mapping[str, Any]) -> int:
    """Return the FLOPs of RNN, GRU or LSTM, including padded steps; the weights contain all gates and directions."""
    x, weight, recurrence = map(_of, reads[:3])
    return 2 * x[0] * x[1] * (prod(weight) + prod(recurrence))


def _scores(queries: int, results: int, length: int, past: Shape) -> int:
    """Return the FLOPs of queries times keys and of scores times values; `past` is the shape of cached keys."""
    return 2 * (queries + results) * (length + (past[-2] if past else 0))


def _attention(reads: Shapes, values: Shapes, _: Mapping[str, Any]) -> int:
    return _scores(prod(_of(reads[0])), prod(_of(values[0])), _of(reads[1])[-2], reads[4])


def _multi_head_attention(reads: Shapes, values: Shapes, _: Mapping[str, Any]) -> int:
    query, key, results = _of(reads[0]), reads[1], prod(_of(values[0]))
    # Without keys, the queries are packed with keys and values. In keys of rank 4, the head dimension precedes the
    # length.
    if key is None:
        return _scores(prod(query) // 3, results, query[1], reads[6])
    return _scores(prod(query), results, key[2 if len(key) == 4 else 1], reads[6])


def _projected_attention(past: int) -> Formula:
    """Return the formula for onnxruntime's Attention, which also projects its input to queries, keys and values."""

    def formula(reads: Shapes, values: Shapes, attributes: Mapping[str, Any]) -> int:
        x, weight = _of(reads[0]), _of(reads[1])
        width = attributes.get("qkv_hidden_sizes", [weight[-1] // 3])[0]
        rows = prod(x[:-1])
        return 2 * rows * prod(weight) + _scores(rows * width, prod(_of(values[0])), x[1], reads[past])

    return formula


def _grouped_attention(reads: Shapes, values: Shapes, _: Mapping[str, Any]) -> int:
    # Queries can be packed with keys and values, so their number of elements is taken from the result.
    result, present = prod(_of(values[0])), values[1]
    length, past = (present[-2], None) if present else (_of(reads[0])[1], reads[3])
    return _scores(result, result, length, past)


def _linear_attention(reads: Shapes, _values: Shapes, attributes: Mapping[str, Any]) -> int:
    """Return the FLOPs of linear attention: for each token, reads by query heads, and one or two updates of states."""
    query, value = _of(reads[0]), _of(reads[2])
    heads, states = attributes["q_num_heads"], attributes["kv_num_heads"]
    updates = 2 if "delta" in _text(attributes.get("update_rule", "gated_delta")) else 1
    return 2 * prod(query[:2]) * (query[2] // heads) * (value[2] // states) * (heads + updates * states)


def _einsum(reads: Shapes, _values: Shapes, attributes: Mapping[str, Any]) -> int:
    """Return the FLOPs of an einsum that contracts pairs from left to right; pairs without a summed index have none."""
    equation = "".join(_text(attributes["equation"]).split())
    written, arrow, result = equation.partition("->")
    shapes = [shape for shape in reads if shape is not None]
    terms = [_labels(term, shape) for term, shape in zip(written.split(","), shapes, strict=True)]
    lengths: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, length in zip(term, shape, strict=True):
            lengths[label] = max(length, lengths.get(label, 1))  # broadcast
    labels = [label for term in terms for label in term]
    kept = set(result) if arrow else {label for label in labels if labels.count(label) == 1}
    kept |= {label for label in labels if label.startswith(".")} if "..." in result or not arrow else set()
    operands = [{label for label in term if label in kept or _shared(label, terms)} for term in terms]
    flops, product = 0, operands[0]
    for k, operand in enumerate(operands[1:], 2):
        both, needed = product | operand, kept.union(*operands[k:])
        product = both & needed
        if product != both:
            flops += 2 * prod(lengths[label] for label in both)
    return flops


def _labels(term: str, shape: tuple[int, ...]) -> list[str]:
    """Return one label per dimension of a term; dimensions of an ellipsis are numbered from its end."""
    before, ellipsis, after = term.partition("...")
    hidden = len(shape) - len(before) - len(after) if ellipsis else 0
    return [*before, *(f".{k}" for k in range(hidden, 0, -1)), *after]


def _shared(label: str, terms: Sequence[Sequence[str]]) -> bool:
    return sum(label in term for term in terms) > 1


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


FORMULAS: Mapping[str, Formula] = {
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul", "Gemm"), _product),
    **dict.fromkeys(("Conv", "ConvInteger", "DeformConv", "CausalConvWithState"), _convolution(1)),
    "QLinearConv": _convolution(3),
    "ConvTranspose": _transposed_convolution,
    **dict.fromkeys(("RNN", "GRU", "LSTM"), _recurrent),
    "Einsum": _einsum,
    "Attention": _attention,
    "ai.onnx.preview.FlexAttention": _attention,
    "LinearAttention": _linear_attention,
    **{
        MICROSOFT + op: formula
        for ops, formula in (
            (
                (
                    *("FusedMatMul", "FusedMatMulActivation", "TransposeMatMul", "FusedGemm", "GemmFastGelu", "QGemm"),
                    *("MatMulNBits", "MatMulBnb4", "MatMulFpQ4", "MatMulInteger16", "MatMulIntegerToFloat"),
                    *("DynamicQuantizeMatMul", "GemmFloat8"),
                ),
                _product,
            ),
            (("FusedConv", "NhwcConv", "NhwcFusedConv", "CausalConvWithState"), _convolution(1)),
            (("QLinearConv",), _convolution(3)),
            (("ConvTransposeWithDynamicPads",), _transposed_convolution),
            (("DynamicQuantizeLSTM",), _recurrent),
            (("MultiHeadAttention",), _multi_head_attention),
            (("Attention",), _projected_attention(4)),
            (("QAttention",), _projected_attention(8)),
            (("GroupQueryAttention",), _grouped_attention),
        )
        for op in ops
    },
}
