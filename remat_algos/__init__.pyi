# The public names: `__init__.py` finds them here, and so do editors and type checkers. The functions that are written
# out take the path of a graph's file too; a test compares their parameters with those of the functions themselves.
import collections.abc
import os
import typing

import remat_algos.context
import remat_algos.cost.devices
import remat_algos.ir.budget
import remat_algos.plan.blocks
import remat_algos.plan.policy
import remat_algos.questions.compare
import remat_algos.schedule.schedule

from . import allocate as allocate
from . import bounds as bounds
from . import cost as cost
from . import errors as errors
from . import executor as executor
from . import formats as formats
from . import ir as ir
from . import plot as plot
from . import schedule as schedule
from . import solvers as solvers
from . import structure as structure
from . import sweeps as sweeps
from . import teach as teach
from . import zoo as zoo
from .errors import BudgetError as BudgetError
from .errors import GraphError as GraphError
from .errors import GraphWarning as GraphWarning
from .errors import PlanError as PlanError
from .errors import RematError as RematError
from .errors import ScheduleError as ScheduleError
from .executor.run import execute as execute
from .executor.validate import validate as validate
from .formats.graph_files import read_graph as read_graph
from .formats.graph_files import write_graph as write_graph
from .interop.networkx import from_networkx as from_networkx
from .interop.networkx import to_networkx as to_networkx
from .ir.budget import Budget as Budget
from .ir.differentiate import differentiate as _differentiate
from .ir.encode import encode as _encode
from .ir.graph import ComputationGraph as ComputationGraph
from .plan.block_policies import plan_policy as _plan_policy
from .plan.plan import Plan as Plan
from .plan.verify import verify as _verify
from .questions.breakdown import Breakdown as Breakdown
from .questions.breakdown import breakdown as breakdown
from .questions.compare import compare as _compare
from .questions.difference import difference as difference
from .questions.explain import explain as explain
from .questions.fit import fit as fit
from .questions.frontier import Frontier as Frontier
from .questions.frontier import frontier as _frontier
from .questions.what_if import what_if as _what_if
from .schedule.constraints import Constraints as Constraints
from .schedule.schedule import Schedule as Schedule
from .schedule.simulation import Simulation as Simulation
from .schedule.simulation import simulate as _simulate
from .search.solve import solve as _solve
from .solvers.registry import list_solvers as list_solvers
from .sweeps.driver import sweep as sweep
from .sweeps.results import read_sweep as read_sweep

__version__: str

def compare(
    graph: ComputationGraph | str | os.PathLike[str],
    budget: Budget | remat_algos.ir.budget.Amount | None = ...,
    *,
    solvers: collections.abc.Sequence[str] | None = ...,
    effort: str = ...,
    time_limit: float | None = ...,
    seed: int = ...,
    polish: bool = ...,
    allocator: str = ...,
    alignment: int = ...,
    constraints: Constraints | collections.abc.Mapping[str, typing.Any] | None = ...,
    link: remat_algos.cost.devices.AnyLink | None = ...,
    progress: remat_algos.context.Progress | None = ...,
) -> remat_algos.questions.compare.Comparison: ...
def differentiate(
    graph: ComputationGraph | str | os.PathLike[str],
    *,
    factor: float = ...,
    parameter_gradients: bool = ...,
    loss: str | collections.abc.Sequence[str] | None = ...,
    keep_outputs: bool = ...,
    encode: bool | int = ...,
) -> ComputationGraph: ...
def encode(graph: ComputationGraph | str | os.PathLike[str], *, bits: int = ...) -> ComputationGraph: ...
def frontier(
    graph: ComputationGraph | str | os.PathLike[str],
    *,
    solvers: collections.abc.Sequence[str] | None = ...,
    points: int = ...,
    effort: str = ...,
    time_limit: float | None = ...,
    seed: int = ...,
    constraints: Constraints | collections.abc.Mapping[str, typing.Any] | None = ...,
    link: remat_algos.cost.devices.AnyLink | None = ...,
    progress: remat_algos.context.Progress | None = ...,
) -> Frontier: ...
def plan_policy(
    graph: ComputationGraph | str | os.PathLike[str],
    budget: Budget | remat_algos.ir.budget.Amount,
    blocks: remat_algos.plan.blocks.Blocks | str | collections.abc.Sequence[str],
    *,
    semantics: str = ...,
    link: remat_algos.cost.devices.AnyLink | None = ...,
    holds: remat_algos.plan.blocks.Holds | None = ...,
) -> remat_algos.plan.policy.Policy: ...
def simulate(
    graph: ComputationGraph | str | os.PathLike[str], schedule: remat_algos.schedule.schedule.Order
) -> Simulation: ...
def solve(
    graph: ComputationGraph | str | os.PathLike[str],
    budget: Budget | remat_algos.ir.budget.Amount | None = ...,
    *,
    solver: str | collections.abc.Callable[..., typing.Any] = ...,
    effort: str = ...,
    time_limit: float | None = ...,
    seed: int = ...,
    raw: bool = ...,
    polish: bool | None = ...,
    allocator: str = ...,
    alignment: int = ...,
    constraints: Constraints | collections.abc.Mapping[str, typing.Any] | None = ...,
    progress: remat_algos.context.Progress | None = ...,
    start: remat_algos.schedule.schedule.Order | None = ...,
    gap: float | None = ...,
    link: remat_algos.cost.devices.AnyLink | None = ...,
    **options: typing.Any,
) -> Plan: ...
def verify(
    graph: ComputationGraph | str | os.PathLike[str],
    plan: Plan | collections.abc.Mapping[str, typing.Any] | str | os.PathLike[str],
) -> Simulation: ...
def what_if(
    graph: ComputationGraph | str | os.PathLike[str],
    *,
    keep: str | collections.abc.Iterable[str | int] = ...,
    recompute: str | collections.abc.Iterable[str | int] = ...,
    schedule: remat_algos.schedule.schedule.Order | None = ...,
) -> Schedule: ...
