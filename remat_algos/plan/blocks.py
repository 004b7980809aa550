"""Blocks of a model: the forward nodes of a graph by module path, and what eager PyTorch adds to each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.errors import PlanError
from remat_algos.ir.arrays import Bool, Int32, Int64, brief, by_fields, frozen, row_of
from remat_algos.ir.graph import ComputationGraph


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Forward nodes of a graph, cut into blocks that may be checkpointed, in the order in which they run.

    Each field but the last three has an entry per block. A block that is checkpointed keeps its inputs and the outputs
    of the operators that a policy saves. Eager PyTorch runs all others again before the first gradient of the block, up
    to the last tensor that autograd saves in it.

    Parameters
    ----------
    names : tuple of str
        Module paths.
    members : tuple of int32[k]
        Forward nodes, ascending.
    kinds : int32[b]
        Equal blocks have one number: the same operations, bytes, costs and reads by place in the block.
    rerun_end : int32[b]
        Members with this id or a larger one are not run again.
    inputs : tuple of int32[i]
        Values that the closure of a checkpoint holds.
    trigger : int32[b]
        Backward node before which the block runs again; -1 if no gradient needs it.
    release : int32[b]
        Backward node after which the inputs and saved outputs that nothing has read are freed; -1 with such a trigger.
    draws : int32[d]
        Members that take random numbers.
    fixed : int32[f]
        Members that a policy must not save, such as those that later ones change in place.
    refusals : mapping of int to str
        By block: why it can only be kept.

    Examples
    --------
    >>> import remat_algos as ra
    >>> graph = ra.differentiate("model:llama_7b?depth=2")
    >>> blocks = Blocks.of(graph, "layers.*")
    >>> blocks.names, blocks.kinds.tolist(), [len(members) for members in blocks.members]
    (('layers.0', 'layers.1'), [0, 0], [16, 16])
    """

    names: tuple[str, ...]
    members: tuple[Int32, ...]
    kinds: Int32
    rerun_end: Int32
    inputs: tuple[Int32, ...]
    trigger: Int32
    release: Int32
    draws: Int32 = field(default_factory=lambda: np.zeros(0, np.int32))
    fixed: Int32 = field(default_factory=lambda: np.zeros(0, np.int32))
    refusals: Mapping[int, str] = field(default_factory=dict)

    __repr__ = brief
    __reduce__ = by_fields


@dataclass(frozen=True, slots=True, eq=False)
class Holds:
    """Lives of values in eager PyTorch beyond their reads, -1 where they are not longer.

    Parameters
    ----------
    held : int32[n_values]
        Last node, forward or backward, during which the value is live although nothing reads it and autograd did not
        save it: local variables, arguments of callers, the cache of autocast.
    released : int32[n_values]
        Last backward node during which the reference that autograd saved is live.
    """

    held: Int32
    released: Int32

    __repr__ = brief
    __reduce__ = by_fields
