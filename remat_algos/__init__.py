"""Plan which values to drop and recompute, so that training a neural network fits in memory.

    edge list -> ComputationGraph -> solver -> Schedule -> Simulation -> Plan

Examples
--------
>>> import remat_algos as ra
>>> graph = ra.ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)])
>>> plan = ra.solve(ra.differentiate(graph), "100%")
>>> plan.simulation.peak_memory
6
"""

from __future__ import annotations

import importlib
import os

from remat_algos.ir import notebook as _notebook

TYPE_CHECKING = False  # not imported: the less is loaded here, the sooner the command line minds Ctrl-C
if TYPE_CHECKING:
    from typing import Any as Any

    from remat_algos import formats as formats
    from remat_algos import models as models
    from remat_algos.allocate.allocation import Allocation
    from remat_algos.allocate.allocators.registry import list_allocators
    from remat_algos.allocate.buffers import Buffers
    from remat_algos.allocate.colouring import colour
    from remat_algos.allocate.in_place import in_place
    from remat_algos.allocate.offsets import pack
    from remat_algos.allocate.pools import PoolRun, PoolUse, arena, cuda_caching, cupy_pool
    from remat_algos.allocate.reservation import Reservation
    from remat_algos.allocate.sharing import apart, share
    from remat_algos.allocate.traces import Trace
    from remat_algos.cost.backends import gpu_missing
    from remat_algos.cost.calibration import calibrate
    from remat_algos.cost.devices import Device
    from remat_algos.errors import (
        AllocationError,
        BackendError,
        BudgetError,
        ClaimError,
        GraphError,
        GraphWarning,
        OutOfMemoryError,
        PlanError,
        RematError,
        ScheduleError,
        StaleValueError,
    )
    from remat_algos.executor.execution import Execution
    from remat_algos.executor.layer_operators import LayerOperators
    from remat_algos.executor.operators import Operators, SyntheticOperators
    from remat_algos.executor.run import execute
    from remat_algos.executor.shrunk import shrunk
    from remat_algos.executor.training import Training, train
    from remat_algos.executor.validate import validate
    from remat_algos.executor.validation import Validation
    from remat_algos.formats.buffer_tables import read_buffers, write_allocation
    from remat_algos.formats.graph_files import read_graph, write_graph
    from remat_algos.formats.in_place_tables import read_in_place
    from remat_algos.formats.mirror_counts import read_mirror_counts
    from remat_algos.formats.orders import read_order
    from remat_algos.formats.pace import read_gr, read_td, write_gr, write_td
    from remat_algos.interop.networkx import from_networkx, to_networkx
    from remat_algos.ir.backward import Backward
    from remat_algos.ir.budget import Budget
    from remat_algos.ir.differentiate import differentiate
    from remat_algos.ir.encode import encode
    from remat_algos.ir.graph import ComputationGraph
    from remat_algos.ir.labels import Labels
    from remat_algos.ir.resident import Resident
    from remat_algos.models.network import Network
    from remat_algos.plan.breakdown import Breakdown, breakdown
    from remat_algos.plan.compare import compare
    from remat_algos.plan.difference import difference
    from remat_algos.plan.explain import explain
    from remat_algos.plan.fit import fit
    from remat_algos.plan.frontier import Frontier, frontier
    from remat_algos.plan.plan import Plan
    from remat_algos.plan.solve import solve
    from remat_algos.plan.verify import verify
    from remat_algos.plan.what_if import what_if
    from remat_algos.plot.addresses import addresses_text, plot_addresses
    from remat_algos.plot.breakdown import breakdown_text, plot_breakdown
    from remat_algos.plot.decomposition import decomposition_text, plot_decomposition
    from remat_algos.plot.frontier import frontier_text, plot_frontier
    from remat_algos.plot.graph import graph_text, plot_graph
    from remat_algos.plot.lattice import plot_lattice
    from remat_algos.plot.memory import memory_text, plot_memory
    from remat_algos.plot.save import save_picture
    from remat_algos.plot.schedule import plot_schedule, schedule_text
    from remat_algos.plot.terms import plot_terms
    from remat_algos.plot.validation import plot_validation, validation_text
    from remat_algos.schedule.canonical import canonical_schedule, canonical_trace
    from remat_algos.schedule.checkpoints import checkpoint_schedule
    from remat_algos.schedule.constraints import Constraints
    from remat_algos.schedule.mirror import mirror_schedule
    from remat_algos.schedule.one_pass import lowest_pass
    from remat_algos.schedule.passes.cache import reuse_values
    from remat_algos.schedule.passes.dead_runs import drop_dead_runs
    from remat_algos.schedule.passes.polish import polish
    from remat_algos.schedule.passes.sinking import sink_runs
    from remat_algos.schedule.postponed_updates import postpone
    from remat_algos.schedule.schedule import Schedule
    from remat_algos.schedule.simulation import Simulation, simulate
    from remat_algos.schedule.unroll import unroll
    from remat_algos.solvers.echo_regions import Region, echo_regions
    from remat_algos.solvers.formula_chains import formula_frontier, least_budget
    from remat_algos.solvers.registry import list_solvers
    from remat_algos.structure.elimination import Elimination, eliminate
    from remat_algos.structure.lower_set_families import LowerSetFamily, lower_set_family
    from remat_algos.structure.lower_sets import LowerSets
    from remat_algos.structure.path_decomposition import PathDecomposition
    from remat_algos.structure.separators import SeparatorTree
    from remat_algos.structure.tree_decomposition import TreeDecomposition
    from remat_algos.structure.treewidth import WidthBounds, width_bounds
    from remat_algos.structure.undirected import UndirectedGraph

__version__ = "0.1.0"

_HOMES = {
    "BudgetError": "errors",
    "ClaimError": "errors",
    "GraphError": "errors",
    "GraphWarning": "errors",
    "PlanError": "errors",
    "RematError": "errors",
    "ScheduleError": "errors",
    "Budget": "ir.budget",
    "ComputationGraph": "ir.graph",
    "differentiate": "ir.differentiate",
    "read_graph": "formats.graph_files",
    "write_graph": "formats.graph_files",
    "from_networkx": "interop.networkx",
    "to_networkx": "interop.networkx",
    "Schedule": "schedule.schedule",
    "Simulation": "schedule.simulation",
    "simulate": "schedule.simulation",
    "checkpoint_schedule": "schedule.checkpoints",
    "list_allocators": "allocate.allocators.registry",
    "list_solvers": "solvers.registry",
    "Constraints": "schedule.constraints",
    "canonical_schedule": "schedule.canonical",
    "canonical_trace": "schedule.canonical",
    "polish": "schedule.passes.polish",
    "reuse_values": "schedule.passes.cache",
    "drop_dead_runs": "schedule.passes.dead_runs",
    "sink_runs": "schedule.passes.sinking",
    "postpone": "schedule.postponed_updates",
    "lowest_pass": "schedule.one_pass",
    "LowerSets": "structure.lower_sets",
    "LowerSetFamily": "structure.lower_set_families",
    "lower_set_family": "structure.lower_set_families",
    "least_budget": "solvers.formula_chains",
    "formula_frontier": "solvers.formula_chains",
    "UndirectedGraph": "structure.undirected",
    "Elimination": "structure.elimination",
    "eliminate": "structure.elimination",
    "WidthBounds": "structure.treewidth",
    "width_bounds": "structure.treewidth",
    "TreeDecomposition": "structure.tree_decomposition",
    "PathDecomposition": "structure.path_decomposition",
    "SeparatorTree": "structure.separators",
    "read_gr": "formats.pace",
    "write_gr": "formats.pace",
    "read_td": "formats.pace",
    "write_td": "formats.pace",
    "plot_lattice": "plot.lattice",
    "plot_terms": "plot.terms",
    "plot_decomposition": "plot.decomposition",
    "decomposition_text": "plot.decomposition",
    "Backward": "ir.backward",
    "Labels": "ir.labels",
    "Resident": "ir.resident",
    "Network": "models.network",
    "compare": "plan.compare",
    "difference": "plan.difference",
    "explain": "plan.explain",
    "fit": "plan.fit",
    "Frontier": "plan.frontier",
    "frontier": "plan.frontier",
    "read_order": "formats.orders",
    "read_mirror_counts": "formats.mirror_counts",
    "mirror_schedule": "schedule.mirror",
    "unroll": "schedule.unroll",
    "Plan": "plan.plan",
    "solve": "plan.solve",
    "verify": "plan.verify",
    "what_if": "plan.what_if",
    "frontier_text": "plot.frontier",
    "plot_frontier": "plot.frontier",
    "graph_text": "plot.graph",
    "plot_graph": "plot.graph",
    "memory_text": "plot.memory",
    "plot_memory": "plot.memory",
    "save_picture": "plot.save",
    "plot_schedule": "plot.schedule",
    "schedule_text": "plot.schedule",
    "encode": "ir.encode",
    "breakdown": "plan.breakdown",
    "Breakdown": "plan.breakdown",
    "plot_breakdown": "plot.breakdown",
    "breakdown_text": "plot.breakdown",
    "pack": "allocate.offsets",
    "share": "allocate.sharing",
    "apart": "allocate.sharing",
    "colour": "allocate.colouring",
    "in_place": "allocate.in_place",
    "Buffers": "allocate.buffers",
    "Allocation": "allocate.allocation",
    "read_buffers": "formats.buffer_tables",
    "write_allocation": "formats.buffer_tables",
    "AllocationError": "errors",
    "read_in_place": "formats.in_place_tables",
    "plot_addresses": "plot.addresses",
    "addresses_text": "plot.addresses",
    "echo_regions": "solvers.echo_regions",
    "Region": "solvers.echo_regions",
    "execute": "executor.run",
    "Execution": "executor.execution",
    "Operators": "executor.operators",
    "SyntheticOperators": "executor.operators",
    "BackendError": "errors",
    "OutOfMemoryError": "errors",
    "StaleValueError": "errors",
    "gpu_missing": "cost.backends",
    "calibrate": "cost.calibration",
    "Device": "cost.devices",
    "validate": "executor.validate",
    "Validation": "executor.validation",
    "shrunk": "executor.shrunk",
    "plot_validation": "plot.validation",
    "validation_text": "plot.validation",
    "Trace": "allocate.traces",
    "PoolUse": "allocate.pools",
    "PoolRun": "allocate.pools",
    "cupy_pool": "allocate.pools",
    "cuda_caching": "allocate.pools",
    "arena": "allocate.pools",
    "Reservation": "allocate.reservation",
    "LayerOperators": "executor.layer_operators",
    "train": "executor.training",
    "Training": "executor.training",
}

# These take the path of a graph's file in place of the graph; it is read here, since `plan` knows no file format.
_READING = ("differentiate", "encode", "solve", "compare", "frontier", "verify", "simulate", "what_if")

__all__ = [
    "read_graph",
    "write_graph",
    "from_networkx",
    "to_networkx",
    "ComputationGraph",
    "differentiate",
    "Schedule",
    "simulate",
    "list_allocators",
    "list_solvers",
    "solve",
    "compare",
    "verify",
    "Plan",
    "frontier",
    "Frontier",
    "explain",
    "difference",
    "read_order",
    "read_mirror_counts",
    "mirror_schedule",
    "unroll",
    "checkpoint_schedule",
    "LowerSets",
    "LowerSetFamily",
    "lower_set_family",
    "least_budget",
    "formula_frontier",
    "canonical_schedule",
    "canonical_trace",
    "polish",
    "reuse_values",
    "drop_dead_runs",
    "sink_runs",
    "postpone",
    "lowest_pass",
    "UndirectedGraph",
    "width_bounds",
    "WidthBounds",
    "eliminate",
    "Elimination",
    "TreeDecomposition",
    "PathDecomposition",
    "SeparatorTree",
    "read_gr",
    "write_gr",
    "read_td",
    "write_td",
    "what_if",
    "fit",
    "plot_memory",
    "memory_text",
    "plot_schedule",
    "schedule_text",
    "plot_frontier",
    "frontier_text",
    "plot_graph",
    "graph_text",
    "plot_lattice",
    "plot_terms",
    "plot_decomposition",
    "decomposition_text",
    "save_picture",
    "Simulation",
    "Labels",
    "Resident",
    "Backward",
    "Budget",
    "Constraints",
    "Network",
    "RematError",
    "GraphError",
    "GraphWarning",
    "ScheduleError",
    "BudgetError",
    "PlanError",
    "ClaimError",
    "encode",
    "breakdown",
    "Breakdown",
    "plot_breakdown",
    "breakdown_text",
    "pack",
    "share",
    "apart",
    "colour",
    "in_place",
    "Buffers",
    "Allocation",
    "read_buffers",
    "write_allocation",
    "AllocationError",
    "read_in_place",
    "plot_addresses",
    "addresses_text",
    "echo_regions",
    "Region",
    "execute",
    "Execution",
    "Operators",
    "SyntheticOperators",
    "BackendError",
    "OutOfMemoryError",
    "StaleValueError",
    "gpu_missing",
    "calibrate",
    "Device",
    "validate",
    "Validation",
    "shrunk",
    "plot_validation",
    "validation_text",
    "Trace",
    "PoolUse",
    "PoolRun",
    "cupy_pool",
    "cuda_caching",
    "arena",
    "Reservation",
    "LayerOperators",
    "train",
    "Training",
]

# A checkout holds its kernels beside this package, not in it: without this a plain install, used from the
# checkout's root, would be shadowed by a package without kernels.
_root = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
if all(map(os.path.exists, (f"{_root}/kernels/__init__.py", f"{_root}/setup.py"))):
    __path__.append(_root)
del _root


def _html(subject: Any) -> str | None:
    return importlib.import_module(f"{__name__}.plot.notebook").html(subject)


_notebook.draw = _html


def __getattr__(name: str) -> Any:
    if name in ("formats", "models"):  # the rooms with a door of their own: ra.models.build(...)
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name in _READING:
        found = importlib.import_module(f"{__name__}.formats.graph_files").reading(found, __name__)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "formats", "models"})
