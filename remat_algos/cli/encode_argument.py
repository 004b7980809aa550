"""Feature maps of one bit per element, on the command line."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from remat_algos.text.wording import counted, shortened, shortened_path

if TYPE_CHECKING:
    from remat_algos.ir.graph import ComputationGraph

BITS = 32


def add_encode(group: Any) -> None:
    """Add --encode, --element-bits to a parser or one of its groups."""
    group.add_argument(
        "--encode",
        action="store_true",
        help="keep feature maps as one bit per element where gradients need no more (ReLU, dropout)",
    )
    group.add_argument(
        "--element-bits",
        type=int,
        metavar="N",
        help=f"with --encode: bits per element (default: those of the model, else {BITS})",
    )


def encode_bits(arguments: argparse.Namespace, source: str, *, is_training: bool, inference: bool = False) -> int:
    """Bits of an element if feature maps are encoded, else 0; `source` names the graph, perhaps a model."""
    element_bits: int | None = arguments.element_bits
    if not arguments.encode:
        if element_bits is not None:
            raise argparse.ArgumentTypeError(f"--element-bits {shortened(element_bits)} goes with --encode; add it")
        return 0
    if inference:
        raise argparse.ArgumentTypeError("--encode is for gradients; leave out --inference, or it")
    if is_training:
        raise argparse.ArgumentTypeError(
            f"--encode: {shortened_path(source)} has its own backward part; give the graph without it"
        )
    return _own_bits(source) if element_bits is None else element_bits


def encoding_note(graph: ComputationGraph, bits: int) -> str:
    """The effect of encoding on a graph, as part of a sentence; empty without it."""
    from remat_algos.ir.encode import n_encoded

    if not bits:
        return ""
    count = n_encoded(graph, bits)
    return f"; {counted(count, 'feature map') if count else 'no feature map'} at 1 bit per element"


def _own_bits(source: str) -> int:
    """Bits of the dtype of a model; the default for a file."""
    from remat_algos.cost.shapes import element_bytes
    from remat_algos.zoo.reference import is_reference
    from remat_algos.zoo.registry import options_of, read_reference

    if not is_reference(source):
        return BITS
    model, given = read_reference(source)
    return 8 * element_bytes(given.get("dtype", options_of(model)["dtype"].default))
