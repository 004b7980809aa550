"""Graph format of ONNX models."""

import re
from collections.abc import Mapping

from remat_algos.errors import GraphError
from remat_algos.formats.registry import GraphFormat
from remat_algos.ir.graph import ComputationGraph

# Field numbers of a ModelProto; every model has the fields IR_VERSION, GRAPH and OPSET.
IR_VERSION, GRAPH, OPSET = 1, 7, 8
FIELDS = frozenset((*range(1, 9), 14, 20, 25, 26))
VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5  # wire types of protobuf
_START = re.compile(rb"[\x08\x12\x1a\x22(2:Br]|[\xa2\xca\xd2]\x01")


def _read(data: bytes, source: str, dims: Mapping[str, int] | None = None) -> ComputationGraph:
    try:
        from remat_algos.interop import onnx
    except ImportError as error:
        raise GraphError("{source!p}: {error!e}", source=source, error=error) from error
    return onnx.capture(data, dims)


def _sniff(data: bytes, ending: str) -> bool:
    """Return True if the bytes consist of fields of a ModelProto; TensorFlow's protobufs have other fields."""
    if ending in GRAPH_FORMAT.endings:
        return True
    try:
        fields = _fields(data)
    except (IndexError, ValueError):
        return False
    return {(IR_VERSION, VARINT), (GRAPH, LENGTH_DELIMITED), (OPSET, LENGTH_DELIMITED)} <= fields and {
        n for n, _ in fields
    } <= FIELDS


def _fields(data: bytes) -> set[tuple[int, int]]:
    """Return (number, wire type) of each field of a protobuf message; invalid bytes raise ValueError or IndexError."""
    at, fields = 0, set[tuple[int, int]]()
    for _ in range(100_000):
        if at >= len(data):
            break
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            _, at = _varint(data, at)
        elif kind == LENGTH_DELIMITED:
            size, at = _varint(data, at)
            at += size
        elif kind in (FIXED32, FIXED64):
            at += 4 if kind == FIXED32 else 8
        else:
            raise ValueError
        fields.add((number, kind))
        if number not in FIELDS:
            raise ValueError
    if at != len(data):
        raise ValueError
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 64, 7):
        number |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return number, at
    raise ValueError


GRAPH_FORMAT = GraphFormat("ONNX", _read, endings=(".onnx",), begins=_START, sniff=_sniff, binary=True, dims=True)
