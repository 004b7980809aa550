"""The networks of chen2016, section 5: ResNets of any depth, LSTMs of any length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from docs.reproductions.case import Case
from docs.reproductions.quick import as_reference
from remat_algos.context import Progress
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.zoo.families.resnet import stage_depths
from remat_algos.zoo.registry import build

Solvers = Mapping[str, tuple[str, Mapping[str, Any]]]
DROP, SUBLINEAR, RECURSIVE = "drop bn-relu", "sublinear plan", "recursive plan"
LSTM_SOLVERS: Solvers = {SUBLINEAR: ("chen_greedy", {}), RECURSIVE: ("chen_recursive", {})}
RESNET_SOLVERS: Solvers = {**LSTM_SOLVERS, DROP: ("drop_cheap", {"drop": "BatchNorm,ReLU"})}


OF_RESNETS: Mapping[str, Any] = {"batch": 32, "image": 224, "preactivation": True, "workspace": 0}
OF_LSTMS: Mapping[str, Any] = {"batch": 64, "depth": 4, "width": 1024, "features": 50, "classes": 5000, "workspace": 0}


def resnet(depth: int, *, stages: Sequence[int] | None = None, **settings: Any) -> ComputationGraph:
    """A ResNet with pre-activation, of a given depth or number of blocks per stage."""
    size = {"depth": depth} if stages is None else {"stages": stages}
    return differentiate(build("resnet", **size, **OF_RESNETS, **settings).graph)


def resnet_reference(depth: int) -> str:
    """The model that it is made from.

    Examples
    --------
    >>> resnet_reference(62)
    'model:resnet?depth=62&batch=32&image=224&preactivation=true&workspace=0'
    """
    return as_reference("resnet", {"depth": depth, **OF_RESNETS})


def resnet_case(
    depth: int, progress: Progress | None, solvers: Solvers = RESNET_SOLVERS, label: str = "", **settings: Any
) -> Case:
    """The plans of `solvers` for it."""
    return Case.of(f"ResNet-{depth}{label}", depth, resnet(depth, **settings), solvers, progress=progress)


def lstm(steps: int, *, weights: bool = True, **settings: Any) -> ComputationGraph:
    """An LSTM with gradients of the weights; without bytes for them unless `weights`."""
    graph = build("lstm", steps=steps, **OF_LSTMS, **settings).graph
    if not weights and graph.resident is not None:
        graph = replace(graph, resident=replace(graph.resident, memory=np.zeros_like(graph.resident.memory)))
    return differentiate(graph, parameter_gradients=True)


def lstm_reference(steps: int) -> str:
    """The model that it is made from."""
    return as_reference("lstm", {"steps": steps, **OF_LSTMS})


def lstm_case(steps: int, weights: bool, progress: Progress | None, solvers: Solvers = LSTM_SOLVERS) -> Case:
    """The plans of `solvers` for it."""
    return Case.of(f"LSTM of {steps} steps", steps, lstm(steps, weights=weights), solvers, progress=progress)


def blocks(depth: int) -> tuple[int, ...]:
    """The number of blocks in each stage of a ResNet, by the rule of the zoo."""
    return stage_depths("resnet", depth, bottleneck=True)


def scaled(stages: Sequence[int], depth: int) -> tuple[int, ...]:
    """Blocks of each stage in the same proportions, for `depth` layers in all; the third takes the remainder.

    Examples
    --------
    >>> scaled((3, 24, 36, 3), 1001)
    (15, 121, 182, 15)
    """
    wanted = (depth - 2) // 3  # a block has three convolutions; two layers are outside
    found = [round(wanted * n / sum(stages)) for n in stages]
    found[2] += wanted - sum(found)
    return tuple(found)
