"""Files that are nearly right: bytes, numbers, lines, cells, JSON trees and npz arrays changed at random."""

import contextlib
import copy
import gzip
import io
import json
import re

import numpy as np

LARGEST = 400_000  # bytes of a mutated file
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
NUMBERS = (
    *(b"NaN", b"Infinity", b"-inf", b"-1", b"-0", b"0", b"1e308", b"1e309", b"1e-400", b"9" * 400, b"9" * 5000),
    *(b"2147483648", b"4294967296", b"9007199254740992", b"9223372036854775807", b"9223372036854775808", b"1_000"),
    *(b"0x10", b"1e3", b"1.5", b".5", b"5.", b"1.5 kB", b"4GiB", b"1e30GiB", b"99999999999 PB", "½²٣１".encode()),
)
TOKENS = (
    *NUMBERS,
    *(b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc0\x80", b"\xed\xa0\x80", "\u2028\u0085\u202e\U0001f600".encode()),
    *(b"\r\n", b"\r", b"\n", b"\t", b" ", b"\v", b"\x1c", b",", b",,,,", b";", b"|", b'"', b"'", b'""', b"#", b"\\"),
    *(b"\\u0000", b'"\\ud800"', b"[", b"]", b"{", b"}", b"<", b">", b"&amp;", b"&#0;", b"&#x110000;", b"<!DOCTYPE a>"),
    *(b"<![CDATA[", b"]]>", b"<!--", b"null", b"true", b"[]", b"{}", b"keep", b"recompute", b"parameter", b"state"),
    *(b"a:1", b"->", b"--", b"digraph", b"p tw", b"s td", b"b 1", b"forward", b"_", b"=1+1", b"../../x", b"%s%n"),
)
NESTED = (b"[", b'{"a":', b"(", b"<a>", b'"', b"{", b"subgraph {")
ODD_VALUES = (
    *(None, True, 0, -1, 2**31, 2**53, 2**63, 2**64, 10**400, 1.5, 1e308, -0.0, 5e-324, float("nan"), float("inf")),
    *("", "x", "4GiB", "NaN", "\0", "\ud800", "a" * 3000, "1e999", "50%", "least", "grad(a)"),
    *([], {}, [[]], [None], [1, "a"], {"a": {}}, [[[[[[]]]]]], ["conv", "conv"]),
)
KEYS = (
    "x",
    "name",
    "view_of",
    "frees",
    "packed_memory",
    "offsets",
    "allocator",
    "differentiate",
    "encode",
    "format",
    "version",
)
VARINT, FIXED64, COUNTED, FIXED32 = 0, 1, 2, 5  # kinds of fields of protobuf
ODD_NUMBERS = (0, 1, 2, 3, 7, 9, 16, 99, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1, -1, -2, -(2**31), -(2**63))
ODD_NAMES = (
    *(b"", b"x", b"zzz", b"\xff\xfe", b"\0\n\x1b[31m", b"a" * 300, b"Constant", b"Dropout", b"Conv", b"MatMul", b"If"),
    *(b"Loop", b"BatchNormalization", b"Identity", b"Shape", b"mine"),
)
ARRAYS = ("extra", "../../evil", "forward_of", "mark", "backward.saved_indptr", "resident.memory")
TYPES = ("f8", "f4", "c16", "U5", "S3", "O", "u8", ">i8", "i1", "?", "M8[s]", "i2", "V4", "f2", "u1")


def mutated(rng, name, data):
    """Other contents for a file of this name."""
    if name.endswith(".npz") and rng.random() < 0.7:
        return mutated_npz(rng, data)
    if name.endswith(".json") and rng.random() < 0.6:
        return mutated_json(rng, data)
    if name.endswith(".onnx") and rng.random() < 0.7:
        return mutated_protobuf(rng, data)
    if rng.random() < 0.05:  # compressed; damaged afterwards half of the time
        data = gzip.compress(mutated_bytes(rng, data), 1)
        return data if rng.random() < 0.5 else mutated_bytes(rng, data)
    return mutated_bytes(rng, data)


def mutated_bytes(rng, data):
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(data) + 1)
        change = rng.choices(CHANGES, WEIGHTS)[0]
        data = change(rng, data, at)
    return data[:LARGEST]


def _flip(rng, data, at):
    return data[: at - 1] + bytes([rng.randrange(256)]) + data[at:] if at else data


def _cut(rng, data, at):
    return data[:at]


def _remove(rng, data, at):
    return data[:at] + data[at + rng.randint(1, 20) :]


def _insert(rng, data, at):
    return data[:at] + rng.choice(TOKENS) * rng.choice((1, 1, 1, 1, 3, 50)) + data[at:]


def _copy(rng, data, at):
    begin = rng.randrange(len(data) + 1)
    return data[:at] + data[begin : begin + rng.randint(1, 60)] + data[at:]


def _number(rng, data, at):
    found = list(NUMBER.finditer(data))
    if not found:
        return data
    place = rng.choice(found)
    plain = str(rng.choice((rng.randint(-3, 12), 2 ** rng.randint(0, 70)))).encode()
    return data[: place.start()] + (rng.choice(NUMBERS) if rng.random() < 0.6 else plain) + data[place.end() :]


def _lines(rng, data, at):
    lines = data.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    way = rng.randrange(3)
    if way == 0:
        lines[i], lines[j] = lines[j], lines[i]
    elif way == 1:
        lines.insert(i, lines[j])
    else:
        cells = lines[i].split(b",")
        cells[rng.randrange(len(cells))] = rng.choice([*lines[j].split(b","), rng.choice(TOKENS)])
        lines[i] = b",".join(cells)
    return b"\n".join(lines)


def _words(rng, data, at):
    words = re.split(rb"(\W+)", data)
    words[rng.randrange(len(words))] = rng.choice(words)
    return b"".join(words)


def _nest(rng, data, at):
    return data[:at] + rng.choice(NESTED) * rng.choice((10, 1000, 100_000)) + data[at:]


def _line_ends(rng, data, at):
    return data.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\n", b"\v")))


def _separators(rng, data, at):
    return data.replace(b",", rng.choice((b";", b"\t", b"|", b", ", b" ")))


CHANGES = (_flip, _cut, _remove, _insert, _copy, _number, _lines, _words, _nest, _line_ends, _separators)
WEIGHTS = (18, 6, 8, 13, 7, 23, 15, 5, 2, 3, 3)


def mutated_json(rng, data):
    """One to four places of the tree hold something else."""
    try:
        tree = json.loads(data)
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            _change_tree(rng, tree)
        return json.dumps(tree).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):  # bytes that were mutated before
        return mutated_bytes(rng, data)


def _change_tree(rng, tree):
    places, todo = [], [tree]
    while todo:
        branch = todo.pop()
        keys = list(branch) if isinstance(branch, dict) else range(len(branch)) if isinstance(branch, list) else ()
        places += [(branch, key) for key in keys]
        todo += [branch[key] for key in keys]
    if not places:
        return
    branch, key = rng.choice(places)
    odd = copy.deepcopy(rng.choice(ODD_VALUES))
    way = rng.choices(("odd", "remove", "copy", "add"), (55, 15, 15, 15))[0]
    if way == "odd":
        branch[key] = odd
    elif way == "remove":
        del branch[key]
    elif way == "copy":
        other, place = rng.choice(places)
        branch[key] = copy.deepcopy(other[place])
    elif isinstance(branch, list):
        branch.insert(key, odd)
    else:
        branch[rng.choice(KEYS)] = odd


def mutated_protobuf(rng, data):
    """One to four fields of the messages of protobuf hold something else, are gone, or are there twice."""
    try:
        tree = _message(data)
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            _change_fields(rng, tree)
        return _written(tree)
    except (ValueError, IndexError):  # bytes that were mutated before
        return mutated_bytes(rng, data)


def _change_fields(rng, tree):
    """A field is a list of its number, its kind, and an int, bytes or the fields of a message."""
    places, todo = [], [tree]
    while todo:
        fields = todo.pop()
        places += [(fields, k) for k in range(len(fields))]
        todo += [content for *_, content in fields if isinstance(content, list)]
    if not places:
        return
    fields, k = rng.choice(places)
    _, kind, content = fields[k]
    alike = [other[j][2] for other, j in places if other[j][1] == kind]
    way = rng.choices(("odd", "remove", "copy", "other", "number"), (45, 15, 10, 20, 10))[0]
    if way == "remove":
        del fields[k]
    elif way == "copy":
        fields.insert(k, copy.deepcopy(fields[k]))
    elif way == "other":
        fields[k][2] = copy.deepcopy(rng.choice(alike))
    elif way == "number":
        fields[k][0] = rng.randint(1, 26)
    elif kind == VARINT:
        fields[k][2] = rng.choice(ODD_NUMBERS)
    elif kind == COUNTED:
        fields[k][2] = rng.choice((*ODD_NAMES, *(other for other in alike if isinstance(other, bytes))))
    else:
        fields[k][2] = rng.randbytes(len(content))


def _message(data):
    """The fields of a message; ValueError or IndexError if it is none."""
    at, fields = 0, []
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            content, at = _varint(data, at)
        elif kind in (FIXED64, COUNTED, FIXED32):
            size, at = _varint(data, at) if kind == COUNTED else (8 if kind == FIXED64 else 4, at)
            content, at = data[at : at + size], at + size
        else:
            raise ValueError
        if not number or at > len(data):
            raise ValueError
        if kind == COUNTED and content:
            with contextlib.suppress(ValueError, IndexError):  # a text, or numbers
                content = _message(content)
        fields.append([number, kind, content])
    return fields


def _varint(data, at):
    number = 0
    for shift in range(0, 64, 7):
        number |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return number, at
    raise ValueError


def _written(fields):
    out = b""
    for number, kind, content in fields:
        out += _varint_bytes(number << 3 | kind)
        if kind == VARINT:
            out += _varint_bytes(content % 2**64)
        else:
            data = _written(content) if isinstance(content, list) else content
            out += (_varint_bytes(len(data)) if kind == COUNTED else b"") + data
    return out


def _varint_bytes(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def mutated_npz(rng, data):
    """One or two arrays have other numbers, types, shapes or names."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        for _ in range(rng.choice((1, 1, 2))):
            _change_arrays(rng, arrays)
        out = io.BytesIO()
        (np.savez if rng.random() < 0.9 else np.savez_compressed)(out, **arrays)
        return out.getvalue()
    except Exception:  # zip and npy readers raise what they like, and some arrays cannot be made
        return mutated_bytes(rng, data)


def _change_arrays(rng, arrays):
    name = rng.choice(sorted(arrays))
    array = arrays[name]
    way = rng.choices(("number", "type", "shape", "length", "remove", "float", "add"), (35, 20, 10, 10, 10, 5, 10))[0]
    if name == "remat_graph" and rng.random() < 0.6:
        arrays[name] = np.frombuffer(mutated_json(rng, array.tobytes()), np.uint8)
    elif way == "number" and array.size:
        arrays[name] = array.ravel().astype(np.int64)
        arrays[name][rng.randrange(array.size)] = rng.choice(
            (-1, 0, 1, 2, 3, 7, 100, 2**31 - 1, -(2**31), 2**53, 2**62)
        )
    elif way == "type":
        arrays[name] = array.astype(rng.choice(TYPES))
    elif way == "shape":
        arrays[name] = array.reshape(-1, 1) if rng.random() < 0.5 else array.ravel()[0]
    elif way == "length":
        arrays[name] = np.concatenate([array, array]) if rng.random() < 0.5 else array[:-1]
    elif way == "remove":
        del arrays[name]
    elif way == "float":
        arrays[name] = array.astype(float) + rng.choice((0.5, float("nan"), float("inf"), 0))
    else:
        arrays[rng.choice(ARRAYS)] = rng.choice((array, np.arange(3), np.zeros(0)))
