# Written by docs/stubs.py.
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from os import PathLike
from remat_algos import allocate as allocate
from remat_algos import bounds as bounds
from remat_algos import cost as cost
from remat_algos import errors as errors
from remat_algos import executor as executor
from remat_algos import formats as formats
from remat_algos import ir as ir
from remat_algos import models as models
from remat_algos import operations as operations
from remat_algos import plot as plot
from remat_algos import schedule as schedule
from remat_algos import solvers as solvers
from remat_algos import structure as structure
from remat_algos import sweeps as sweeps
from remat_algos.context import Progress
from remat_algos.cost.devices import AnyLink
from remat_algos.errors import BudgetError as BudgetError
from remat_algos.errors import GraphError as GraphError
from remat_algos.errors import GraphWarning as GraphWarning
from remat_algos.errors import PlanError as PlanError
from remat_algos.errors import RematError as RematError
from remat_algos.errors import ScheduleError as ScheduleError
from remat_algos.executor.run import execute as execute
from remat_algos.executor.validate import validate as validate
from remat_algos.formats.graph_files import read_graph as read_graph
from remat_algos.formats.graph_files import write_graph as write_graph
from remat_algos.interop.networkx import from_networkx as from_networkx
from remat_algos.interop.networkx import to_networkx as to_networkx
from remat_algos.ir.budget import Amount
from remat_algos.ir.budget import Budget as Budget
from remat_algos.ir.graph import ComputationGraph as ComputationGraph
from remat_algos.plan.breakdown import Breakdown as Breakdown
from remat_algos.plan.breakdown import breakdown as breakdown
from remat_algos.plan.compare import Comparison
from remat_algos.plan.difference import difference as difference
from remat_algos.plan.explain import explain as explain
from remat_algos.plan.fit import fit as fit
from remat_algos.plan.frontier import Frontier as Frontier
from remat_algos.plan.plan import Plan as Plan
from remat_algos.schedule.constraints import Constraints as Constraints
from remat_algos.schedule.schedule import Order
from remat_algos.schedule.schedule import Schedule as Schedule
from remat_algos.schedule.simulation import Simulation as Simulation
from remat_algos.solvers.registry import list_solvers as list_solvers
from remat_algos.sweeps.driver import sweep as sweep
from remat_algos.sweeps.results import read_sweep as read_sweep
from typing import Any
import os
__version__: str
def compare(graph: ComputationGraph | str | PathLike[str], budget: Budget | Amount | None=..., *, solvers: Sequence[str] | None=..., effort: str=..., time_limit: float | None=..., seed: int=..., polish: bool=..., allocator: str=..., alignment: int=..., constraints: Constraints | Mapping[str, Any] | None=..., link: AnyLink | None=..., progress: Progress | None=...) -> Comparison: ...
def differentiate(graph: ComputationGraph | str | PathLike[str], *, factor: float=..., parameter_gradients: bool=..., loss: str | Sequence[str] | None=..., keep_outputs: bool=..., encode: bool | int=...) -> ComputationGraph: ...
def encode(graph: ComputationGraph | str | PathLike[str], *, bits: int=...) -> ComputationGraph: ...
def frontier(graph: ComputationGraph | str | PathLike[str], *, solvers: Sequence[str] | None=..., points: int=..., effort: str=..., time_limit: float | None=..., seed: int=..., constraints: Constraints | Mapping[str, Any] | None=..., link: AnyLink | None=..., progress: Progress | None=...) -> Frontier: ...
def simulate(graph: ComputationGraph | str | PathLike[str], schedule: Order) -> Simulation: ...
def solve(graph: ComputationGraph | str | PathLike[str], budget: Budget | Amount | None=..., *, solver: str | Callable[..., Any]=..., effort: str=..., time_limit: float | None=..., seed: int=..., raw: bool=..., polish: bool | None=..., allocator: str=..., alignment: int=..., constraints: Constraints | Mapping[str, Any] | None=..., progress: Progress | None=..., cost_noise: float | None=..., start: Order | None=..., gap: float | None=..., link: AnyLink | None=..., **options: Any) -> Plan: ...
def verify(graph: ComputationGraph | str | PathLike[str], plan: Plan | Mapping[str, Any] | str | os.PathLike[str]) -> Simulation: ...
def what_if(graph: ComputationGraph | str | PathLike[str], *, keep: str | Iterable[str | int]=..., recompute: str | Iterable[str | int]=..., schedule: Order | None=...) -> Schedule: ...
