"""The networks of echo2020, with the sizes of its framework."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from docs.reproductions.echo2020.sockeye import sockeye_transformer
from docs.reproductions.quick import as_reference
from remat_algos.ir.arrays import from_lists
from remat_algos.ir.differentiate import differentiate, everything_saved
from remat_algos.ir.encode import encode
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.kinds import operation_kind
from remat_algos.ir.parts import KEEP, ROLES
from remat_algos.questions.breakdown import parameter_gradients
from remat_algos.zoo.network import Network
from remat_algos.zoo.optimizers import OPTIMIZERS
from remat_algos.zoo.registry import build

DEVICE = "RTX 2080 Ti"
PARAMETER = ROLES.index("parameter")
ACTIVATIONS = ("Tanh", "Sigmoid", "ReLU", "HardTanh")
FLOAT = 4  # bytes


@dataclass(frozen=True, slots=True)
class Workload:
    """A network of the zoo as the paper trains it.

    Parameters
    ----------
    label : str
    make : callable
        `make(batch=..., **options)` is the network.
    batches : tuple of int
        Batch sizes of the footprints.
    batch : int
        Batch size of everything else.
    optimizer : str
    options : mapping
        Options of the model.
    quick : mapping
        Options of a small network with the same parts.
    quick_label : str
        Label of that network.

    Examples
    --------
    >>> network = Workload("ResNet-18", partial(build, "resnet18"), (2,), 2, "momentum", {"image": 32})
    >>> graph = network.training(network.forward())
    >>> graph.is_training, weights(graph) == 3 * FLOAT * 11_689_512
    (True, True)
    """

    label: str
    make: Callable[..., Network]
    batches: tuple[int, ...]
    batch: int
    optimizer: str
    options: Mapping[str, Any] = field(default_factory=dict)
    quick: Mapping[str, Any] = field(default_factory=dict)
    quick_label: str = ""

    def forward(
        self, batch: int | None = None, *, inputs: bool = True, float_masks: bool = True, **options: Any
    ) -> ComputationGraph:
        """The forward part, its compute in ns on the paper's GPU.

        Parameters
        ----------
        batch : int, optional
        inputs : bool
            Gradients of activations read the inputs too, as in the paper's framework.
        float_masks : bool
            Dropout masks are tensors of float32, as there.
        **options
            Options of the model.
        """
        options = {"cost": "roofline", "device": DEVICE, **self.options, **options}
        graph = self.make(batch=batch or self.batch, **options).graph
        graph = with_float_masks(graph) if float_masks else graph
        return saving_inputs(graph) if inputs else graph

    def training(self, forward: ComputationGraph, *, encoded: bool = False) -> ComputationGraph:
        """The training graph with resident weights; with 1-bit feature maps if `encoded`."""
        graph = differentiate(encode(forward) if encoded else forward, parameter_gradients=True)
        return with_resident_weights(graph, 2 + len(OPTIMIZERS[self.optimizer].states))

    def smaller(self) -> Workload:
        """The small network of quick pages, at one batch size."""
        options = {**self.options, **self.quick}
        return replace(self, label=self.quick_label, options=options, batches=(self.batch,))

    @property
    def reference(self) -> str:
        """Reference of the model in the zoo, or the call of a recipe of this page."""
        options = {"batch": self.batch, **self.options}
        if isinstance(self.make, partial):
            return as_reference(self.make.args[0], {**self.make.keywords, **options})
        return f"{self.make.__name__}({', '.join(f'{name}={value}' for name, value in options.items())})"


NMT = Workload(
    "NMT",
    partial(build, "nmt"),
    (64, 128, 256),
    128,
    "adam",
    {"steps": 100},
    {"steps": 6, "width": 32, "source_words": 100, "words": 100},
    "nmt of 6 words",
)
NMT_DEEP = Workload(
    "NMT, twice as deep",
    partial(build, "nmt"),
    (16, 32, 64, 128),
    16,
    "adam",
    {"steps": 100, "depth": 4, "width": 1024, "source_words": 32_000, "words": 32_000},
    {"steps": 4, "width": 32, "source_words": 100, "words": 100},
    "nmt of 4 words, 4 layers",
)
DEEP_SPEECH = Workload(
    "DeepSpeech2",
    partial(build, "deepspeech2"),
    (8, 16, 24, 32),
    8,
    "momentum",
    {"sequence": 1600},
    {"sequence": 16, "width": 64, "depth": 2},
    "deepspeech2 of 16 frames",
)
TRANSFORMER = Workload(
    "Transformer",
    sockeye_transformer,
    (32, 64, 96),
    64,
    "adam",
    {"sequence": 100},
    {"sequence": 16, "width": 64, "depth": 2, "words": 200},
    "transformer of 2 layers",
)
RESNET = Workload(
    "ResNet-152",
    partial(build, "resnet"),
    (8, 16, 32),
    32,
    "momentum",
    {"depth": 152, "preactivation": True},
    {"depth": 50, "image": 64},
    "resnet of 64 pixels",
)
WORKLOADS = (NMT, DEEP_SPEECH, TRANSFORMER, RESNET)


def with_float_masks(graph: ComputationGraph) -> ComputationGraph:
    """The graph with MXNet's dropout masks, which are float32 tensors; the zoo's have a byte for each element."""
    is_mask = np.array([op == "DropoutMask" for op in graph.labels.ops or ()], bool)[graph.producer]
    return replace(graph, memory=np.where(is_mask, FLOAT * graph.memory, graph.memory)) if is_mask.any() else graph


def saving_inputs(graph: ComputationGraph) -> ComputationGraph:
    """The graph with gradients of activations that read the inputs too, as in MXNet when it calls cuDNN."""
    saved, kinds = _saved(graph), _kinds(graph)
    for v, kind in enumerate(kinds):
        if kind in ACTIVATIONS:
            saved[v] |= {*graph.reads(v)}
    return _with_saved(graph, saved)


def without_inputs(graph: ComputationGraph, kinds: Container[str]) -> ComputationGraph:
    """The graph in which gradients of some kinds of operation read no inputs; the reads of mirrors remain."""
    saved = _saved(graph)
    for v, kind in enumerate(_kinds(graph)):
        if kind in kinds:
            saved[v] -= {*graph.reads(v)}
    return _with_saved(graph, saved)


def inputs_kept(graph: ComputationGraph, kinds: Container[str]) -> ComputationGraph:
    """The graph with marks to keep the inputs read by gradients of some kinds of operation."""
    saved = _saved(graph)
    read = [x for v, kind in enumerate(_kinds(graph)) if kind in kinds for x in saved[v] & {*graph.reads(v)}]
    mark = np.zeros(graph.n_nodes, np.int8)
    mark[graph.producer[np.array(read, np.int64)]] = KEEP
    return replace(graph, mark=mark)


def _kinds(graph: ComputationGraph) -> list[str]:
    """The kind of each node, or ""."""
    kinds = (operation_kind(graph.labels.op(v)) for v in range(graph.n_nodes))
    return [kind.name if kind is not None else "" for kind in kinds]


def _saved(graph: ComputationGraph) -> list[set[int]]:
    """The values that the gradient of each node reads."""
    backward = graph.backward or everything_saved(graph)
    return [{*backward.saved(v)} for v in range(graph.n_nodes)]


def _with_saved(graph: ComputationGraph, saved: Sequence[set[int]]) -> ComputationGraph:
    backward = graph.backward or everything_saved(graph)
    indptr, indices = from_lists([sorted(row) for row in saved])
    return replace(graph, backward=replace(backward, saved_indptr=indptr, saved_indices=indices))


def with_resident_weights(graph: ComputationGraph, times: int) -> ComputationGraph:
    """The graph with parameters, their gradients and optimizer states resident from the start, as bound by MXNet.

    Gradients of parameters then have no bytes of their own; a parameter has `times` as many.
    """
    of_parameter = parameter_gradients(graph)[graph.producer]
    resident = graph.resident
    if resident is not None:
        bound = np.where(resident.role == PARAMETER, times * resident.memory, resident.memory)
        resident = replace(resident, memory=bound)
    return replace(graph, memory=np.where(of_parameter, 0, graph.memory), resident=resident, derivation=None)


def weights(graph: ComputationGraph) -> int:
    """Bytes of parameters, their gradients and states."""
    resident = graph.resident
    return int(resident.memory[resident.role == PARAMETER].sum()) if resident is not None else 0
