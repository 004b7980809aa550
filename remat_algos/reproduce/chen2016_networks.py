"""The networks of chen2016, section 5: ResNets of any depth, LSTMs of any length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.models.families.resnet import stage_depths
from remat_algos.models.registry import build
from remat_algos.reproduce.case import Case
from remat_algos.solvers.registry import Progress

Solvers = Mapping[str, tuple[str, Mapping[str, Any]]]
DROP, SUBLINEAR, RECURSIVE = "drop bn-relu", "sublinear plan", "recursive plan"
LSTM_SOLVERS: Solvers = {SUBLINEAR: ("chen_greedy", {}), RECURSIVE: ("chen_recursive", {})}
RESNET_SOLVERS: Solvers = {**LSTM_SOLVERS, DROP: ("drop_cheap", {"drop": "BatchNorm,ReLU"})}


def resnet(depth: int, *, stages: Sequence[int] | None = None, **settings: Any) -> ComputationGraph:
    """With pre-activation, of the depth or of so many blocks in each stage."""
    size = {"depth": depth} if stages is None else {"stages": stages}
    options = {**size, "batch": 32, "image": 224, "preactivation": True}
    return differentiate(build("resnet", workspace=0, **options, **settings).graph)


def resnet_case(
    depth: int, progress: Progress | None, solvers: Solvers = RESNET_SOLVERS, label: str = "", **settings: Any
) -> Case:
    """The plans of `solvers` for it."""
    return Case.of(f"ResNet-{depth}{label}", depth, resnet(depth, **settings), solvers, progress=progress)


def lstm(steps: int, *, weights: bool = True, **settings: Any) -> ComputationGraph:
    """With gradients of the weights; without bytes for them unless `weights`."""
    options = {"steps": steps, "batch": 64, "depth": 4, "width": 1024, "features": 50, "classes": 5000}
    graph = build("lstm", workspace=0, **options, **settings).graph
    if not weights and graph.resident is not None:
        graph = replace(graph, resident=replace(graph.resident, memory=np.zeros_like(graph.resident.memory)))
    return differentiate(graph, parameter_gradients=True)


def lstm_case(steps: int, weights: bool, progress: Progress | None, solvers: Solvers = LSTM_SOLVERS) -> Case:
    """The plans of `solvers` for it."""
    return Case.of(f"LSTM of {steps} steps", steps, lstm(steps, weights=weights), solvers, progress=progress)


def blocks(depth: int) -> tuple[int, ...]:
    """How many each stage of a ResNet has by the rule of the zoo."""
    return stage_depths("resnet", depth, bottleneck=True)


def scaled(stages: Sequence[int], depth: int) -> tuple[int, ...]:
    """Blocks of each stage in the same proportions, for `depth` layers in all; the third takes what rounding leaves.

    Examples
    --------
    >>> scaled((3, 24, 36, 3), 1001)
    (15, 121, 182, 15)
    """
    wanted = (depth - 2) // 3  # a block has three convolutions; two layers stand before and behind
    found = [round(wanted * n / sum(stages)) for n in stages]
    found[2] += wanted - sum(found)
    return tuple(found)
