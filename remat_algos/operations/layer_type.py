"""The type of the layer that a node belongs to, from its name and its operation."""

from __future__ import annotations

import re
from collections.abc import Mapping

from remat_algos.operations.kind import OTHER, operation_kind

WORDS: Mapping[str, str] = {
    **dict.fromkeys(("embedding", "embeddings", "embed", "embed_tokens"), "embedding"),
    **dict.fromkeys(("attention", "attn", "self_attention", "self_attn", "cross_attention"), "attention"),
    **dict.fromkeys(("rnn", "lstm", "gru", "cell"), "RNN"),
    **dict.fromkeys(("mlp", "ff", "feed_forward", "moe", "expert", "experts"), "feed forward"),
    **dict.fromkeys(("head", "heads", "classifier", "logits", "output", "loss"), "output"),
}
"""Types by a part of the name of a node, between dots and without its number; the first row that fits counts."""

INNER: Mapping[str, str] = dict.fromkeys(("self", "source", "cross"), "attention")
"""The same for parts that are not the first one."""

_RANK = {name: rank for rank, name in enumerate(dict.fromkeys([*WORDS.values(), *INNER.values()]))}


def layer_type(name: str, op: str, by: str = "layer") -> str:
    """The type of the layer that a forward node belongs to; by "operation", the kind of its operation.

    Examples
    --------
    >>> layer_type("encoder.layer3.self.q_proj", "Linear"), layer_type("layer1.0.conv2", "Conv2d")
    ('attention', 'convolution')
    >>> layer_type("layer1.0.conv2", "Conv2d", by="operation")
    'Convolution'
    """
    kind = operation_kind(op)
    if by == "operation":
        return (kind.name if kind is not None else op) or OTHER
    parts = [re.sub(r"\d+$", "", part) for part in name.lower().split(".")]
    found = [WORDS[part] for part in parts if part in WORDS]
    found += [INNER[part] for part in parts[1:] if part in INNER]
    if found:
        return min(found, key=_RANK.__getitem__)
    return kind.layer if kind is not None else OTHER
