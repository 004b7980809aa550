"""The networks of kumar2019: ResNets and feed-forward networks of any depth, two Transformers."""

from __future__ import annotations

import numpy as np

from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.zoo.registry import build

RESNET = "model:resnet?depth={}&optimizer=momentum"
FFN = "model:feed_forward?depth={}&batch=16384&optimizer=sgd"
TRANSFORMER = "model:transformer_{}?batch={}&sequence=256&words=33708&granularity=primitive&optimizer={}"
OPTIMIZERS = ("adam", "sgd")  # of the Transformers; the paper names none
RESNET_DEPTHS, QUICK_RESNET_DEPTHS = (50, 101, 152, 200, 302, 602), (10, 14)
FFN_DEPTHS, QUICK_FFN_DEPTHS = (50, 100, 200, 300, 400), (8, 16)
RULED = 200  # from this depth on stages grow by one rule
QUICK_LABEL = "transformer_base of 1 layer"
QUICK_TRANSFORMER = TRANSFORMER.format("base", 8, "adam") + "&depth=1"


def training_graph(reference: str, *, unit: bool = True) -> ComputationGraph:
    """The training graph of a network of the zoo; with `unit` every operation costs 1, gradients included.

    Examples
    --------
    >>> training_graph("model:feed_forward?depth=2").n_nodes
    12
    """
    graph = build(reference).graph
    if not graph.is_training:
        graph = differentiate(graph)
    return graph.with_costs(compute=np.ones(graph.n_nodes, np.int64)) if unit else graph
