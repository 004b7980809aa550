"""Bytes of elements and tensors."""

import math
from collections.abc import Iterable, Mapping, Sequence

from remat_algos.errors import GraphError
from remat_algos.wording import did_you_mean

DTYPES: Mapping[str, int] = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3": 1,
    "float8_e5m2": 1,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
"""Types of elements, and the bytes of one."""


def element_bytes(dtype: str) -> int:
    """Bytes of one element of a type; GraphError for one that is no key of `DTYPES`."""
    try:
        return DTYPES[dtype]
    except (KeyError, TypeError):  # TypeError: a list, for example
        raise unknown_name("dtype", dtype, DTYPES) from None


def tensor_bytes(shape: Sequence[int], dtype: str) -> int:
    """Bytes of a contiguous tensor; the shape of a scalar is empty.

    Examples
    --------
    >>> tensor_bytes((2, 3, 224, 224), "float32")
    1204224
    """
    return math.prod(shape) * element_bytes(dtype)


def unknown_name(what: str, name: object, known: Iterable[str]) -> GraphError:
    """Return the error for an unknown name, with the nearest names, then all.

    Examples
    --------
    >>> print(unknown_name("fruit", "aple", ["apple", "plum"]))
    no fruit is called 'aple'; did you mean apple? (known: apple, plum)
    """
    names = list(known)
    near = did_you_mean(name, names, 3)
    listed = f" (known: {', '.join(names)})" if near else f"; known: {', '.join(names)}"
    return GraphError("no {what!w} is called {name!r}{near!w}{known!w}", what=what, name=name, near=near, known=listed)
