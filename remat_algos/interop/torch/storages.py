"""Bytes of storages of fake tensors, and of operators whose real results take more."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import torch
from torch import fx

from remat_algos.interop.torch.private_names import storage_key, tree_leaves

STORAGES = "storages"
"""Key in `meta`: (key, bytes) of the storage of each tensor of a result; equal keys, equal storage."""
HOST = ("cpu", "meta")  # devices that use the operators and the generator of the CPU


def storages(result: Any) -> list[tuple[int, int]]:
    """Key and bytes of the storage of each tensor of a result."""
    return [(storage_key(tensor), int(tensor.untyped_storage().nbytes())) for tensor in tensors(result)]


def real_storages(node: fx.Node) -> list[tuple[int, int]]:
    """Key and bytes of the storages that an operator really uses for its results."""
    stored, lower_bound = storages(node.meta.get("val")), OVERALLOCATED.get(str(node.target))
    if lower_bound is None or next(tensors(node.meta["val"])).device.type not in HOST:
        return stored
    args = fx.node.map_arg(node.args, lambda read: read.meta["val"])
    names = [argument.name for argument in node.target._schema.arguments]
    bytes_of = lower_bound(dict(zip(names, args, strict=False)) | node.kwargs)
    return [(key, max(size, int(more)) if size else 0) for (key, size), more in zip(stored, bytes_of, strict=True)]


def tensors(result: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of a result or of arguments, nested ones included."""
    return (each for each in tree_leaves(result) if isinstance(each, torch.Tensor))


def _loss(arguments: Mapping[str, Any]) -> list[int]:
    """Storage of a loss: a mean or a sum is put in place of its terms."""
    terms = torch.broadcast_shapes(arguments["self"].shape, arguments["target"].shape)
    return [prod(terms) * torch.result_type(arguments["self"], arguments["target"]).itemsize]


def _columns(arguments: Mapping[str, Any]) -> list[int]:
    """Storage of an image, which replaces the columns."""
    return [arguments["self"].numel() * arguments["self"].itemsize]


def _bags(arguments: Mapping[str, Any]) -> list[int]:
    """Storage with an extra element for the end."""
    indices, offsets = arguments["indices"], arguments["offsets"]
    ends = (offsets.numel() + 1) * offsets.itemsize
    return [0, (indices.numel() + 1) * indices.itemsize, ends, ends]


def _copied(arguments: Mapping[str, Any]) -> list[int]:
    """Return the whole storage of the destination, or 0 if its elements overlap."""
    into = arguments["self"]
    shares = any(size > 1 and not stride for size, stride in zip(into.shape, into.stride(), strict=True))
    return [0 if shares else into.untyped_storage().nbytes()]


OVERALLOCATED: dict[str, Callable[[Mapping[str, Any]], list[int]]] = {
    "aten.mse_loss.default": _loss,
    "aten.smooth_l1_loss.default": _loss,
    "aten.soft_margin_loss.default": _loss,
    "aten.binary_cross_entropy.default": _loss,
    "aten.col2im.default": _columns,
    "aten.copy.default": _copied,
    "aten._embedding_bag.default": _bags,
    "aten._embedding_bag_forward_only.default": _bags,
}
"""Operators that on the CPU store a result in more than a fake tensor says: the bytes, from their arguments by name.

tests/interop/test_torch_storages.py compares those of PyTorch's own database.
"""
