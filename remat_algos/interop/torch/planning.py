"""Planning of joint graphs: capture a graph, solve it within a budget, and split it into two modules for the plan."""

import contextlib
import logging
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import fx

from remat_algos.context import Clock
from remat_algos.cost.devices import AnyLink, Device, get_device, get_link
from remat_algos.cost.node_costs import AnyDevice, Cost
from remat_algos.errors import ArgumentTypeError, BudgetError, GraphError
from remat_algos.interop.torch.calls import STATE, wait_for_copies
from remat_algos.interop.torch.capture_model import RNG, Captured, check_choice, read_joint_graph, tidy
from remat_algos.interop.torch.costs import PROFILE, check_times, price
from remat_algos.interop.torch.device_bytes import byte_limit, check_reserved, gradient_bytes, kept_bytes
from remat_algos.interop.torch.lowering import split
from remat_algos.interop.torch.outside import UnplannedPart, warn_of, warn_user
from remat_algos.interop.torch.private_names import (
    COMPILE_MORE,
    ONE_GRAPH_OF_DDP,
    OUTSIDE,
    BoxedCode,
    Break,
    Gather,
    PlainInput,
    Saved,
    SavedUnchecked,
    compile_id,
    gathers,
    inner_gradient,
    parallel_gradients,
    recompile_limit,
    record_breaks,
    specialize_sizes,
)
from remat_algos.interop.torch.references import References
from remat_algos.interop.torch.report import GraphReport, saved_bytes
from remat_algos.interop.torch.storages import STORAGES, tensors
from remat_algos.ir.budget import LEAST, NEAR_LOWEST, Amount, Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan
from remat_algos.schedule.simulation import Simulation
from remat_algos.search.plan_cache import answered_before
from remat_algos.search.request import Request, check_link_goes_with
from remat_algos.search.solve import answered
from remat_algos.wording import counted, did_you_mean

Reread = Mapping[int | str, Sequence[str]]
"""Nodes recomputed from each input. Keys are positions of arguments, or names of parameters and buffers."""

LOG = logging.getLogger(__name__)
TODAY = "today"
"""Budget that equals the model's peak without a plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRequest:
    """Options for planning a model; `solver`, `effort` and `link` are as for `remat_algos.solve`.

    - `budget`: limit of the peak, not of the values saved for the backward part. A percentage refers to the lowest peak
      found for one pass, "least" means "least+0.1%", and "today" is the model's peak with its own
      `torch.utils.checkpoint`.
    - `rng`: "replay" recomputes random operators with the generator's state of their first run; "once" never recomputes
      them.
    - `cost`: as for `remat_algos.interop.onnx.capture`, or "profile", which times operators on this machine.
    - `device`: device for "roofline" and "occupancy", by default "A100 80GB". With
      `link`, it is required unless costs are times.
    - `workspace`: run each kind of operator once to measure its workspace.
    - `infeasible`: if no plan is within the budget, "warn" and run the plan with the lowest peak, or "raise"
      BudgetError.
    - `optimizer`: "sgd", "momentum", "adam" or "adamw", whose states a device budget counts too.
    - `accumulate`: count gradients kept from earlier steps in a device budget.
    - `reserve`: bytes of a device budget to keep free.
    - `recurrent`: let torch.compile capture nn.LSTM, nn.GRU and nn.RNN, which it does not by default.
    """

    budget: Budget | Amount
    solver: str = "auto"
    effort: str = "fast"
    rng: str = "replay"
    cost: Cost = "roofline"
    device: AnyDevice | None = None
    workspace: bool = False
    infeasible: str = "warn"
    optimizer: str | None = None
    accumulate: bool = False
    reserve: Amount = 0
    link: AnyLink | None = None
    recurrent: bool = False

    def __post_init__(self) -> None:
        if not self.as_today:
            Budget.of(self.budget)  # raises if invalid
        check_choice("rng", self.rng, RNG)
        check_choice("infeasible", self.infeasible, ("warn", "raise"))
        check_reserved(self.budget, self.optimizer, self.accumulate, self.reserve)
        if self.device not in (None, PROFILE) and not isinstance(self.device, Device):
            object.__setattr__(self, "device", get_device(self.device))
        if self.link is not None:
            object.__setattr__(self, "link", get_link(self.link))
            check_times(self.cost, self.device)
            if not self.as_today:
                check_link_goes_with(Budget.of(self.budget))

    @classmethod
    def of(cls, budget: Budget | Amount, **options: Any) -> "TrainingRequest":
        """Create a request from a user's options; raise TypeError for an unknown option."""
        names = [name for name in cls.__dataclass_fields__ if name != "budget"]
        for name in options:
            if name not in names:
                raise ArgumentTypeError(
                    "{name!r} is not an option{near!w}; options are {names!l}",
                    name=name,
                    near=did_you_mean(name, names),
                    names=names,
                )
        return cls(budget=budget, **options)

    @property
    def as_today(self) -> bool:
        """True if the budget is the model's peak without a plan."""
        return isinstance(self.budget, str) and self.budget.strip().lower() == TODAY

    @property
    def is_share(self) -> bool:
        """True if the number of bytes of the budget depends on the graph."""
        memory = self.budget.memory if isinstance(self.budget, Budget) else self.budget
        return isinstance(memory, str) and ("%" in memory or LEAST in memory.lower() or self.as_today)

    def beside(self, graph: ComputationGraph) -> int:
        """Return the bytes that a device budget counts in addition to a graph's peak and residents."""
        return kept_bytes(graph, self.optimizer, self.accumulate)

    def capture(self, joint: fx.GraphModule, num_forward: int) -> Captured:
        return read_joint_graph(
            tidy(joint, self.rng == "replay"),
            num_forward,
            partial(price, cost=self.cost, workspace=self.workspace, device=self.device),
        )

    def plan(self, graph: ComputationGraph, references: References, above: list[tuple[BudgetError, int]]) -> Plan:
        """Return a plan within the budget; if there is none, add the error to `above` and return the lowest-peak plan.

        With the solver "auto", the plan is at least as good as each of the `references` that is within the budget.
        """
        budget = self._in_bytes(references)
        limit = None if budget.above_lowest else budget.memory_limit(0, graph.resident_memory)
        plan, failure = None, None
        request = Request.of(graph, budget, solver=self.solver, effort=self.effort, link=self.link)
        try:
            plan = answered_before(request)
        except BudgetError as error:
            plan, failure = error.plan, error
        start = references.better(plan, limit) if request.named is None else None
        if start is not None:
            return answered(request.started(start.schedule), Clock())
        if failure is None:
            assert plan is not None
            return plan
        if self.infeasible == "raise" or plan is None:
            raise failure
        above.append((failure.with_traceback(None), plan.peak_memory))
        return plan

    def _in_bytes(self, references: References) -> Budget:
        if self.as_today:
            return Budget(references.as_is.peak_memory)
        budget = Budget.of(self.budget)
        if budget.least:
            return replace(budget, memory=NEAR_LOWEST)
        if self.is_share and budget.above_lowest is None:
            shared = Budget(budget.memory).memory_limit(references.one_pass.peak_memory, 0)
            return replace(budget, memory=shared)
        return budget


class Partitioner:
    """Plans the graphs of one model within one budget, and collects the reports.

    A budget in bytes applies to all graphs together, so bytes that earlier graphs keep for their backward part are
    subtracted. A percentage applies to each graph's own peak. Without torch.compile, all graphs are regarded as one
    graph with different shapes.
    """

    def __init__(self, request: TrainingRequest) -> None:
        self.request = request
        self.reports: list[GraphReport] = []
        self.reread: Reread = {}  # of the latest graph
        self.parts: dict[str, UnplannedPart] = {}  # key: description
        self._last_compilations = set[tuple[int, int]]()
        self._compiling: tuple[int, int] | None = None
        self._place = (0, 0)
        # Number of graphs that torch.compile has captured for training or inference.
        self._n_graphs = 0
        self._inner: list[Break] = []  # torch.func gradients inside graphs
        self._running = 0  # unfinished calls of the model
        # For each graph without a plan within the budget: the error and the lowest peak.
        self._infeasible: list[tuple[BudgetError, int]] = []
        self._warned_above = self._warned_nothing = self._warned_infeasible = self._warned_waiting = False
        # Keys are places of graphs (`GraphReport.place`). `_runs` contains the maximum number of runs that waited for
        # backward at the same time. `_pending` contains one saved storage of each waiting run.
        self._runs: dict[tuple[int, int], int] = {}
        self._pending: dict[tuple[int, int], list[weakref.ref[Any]]] = {}
        self._buckets = 0  # bytes of DDP's gradient buckets
        self._gathers: dict[int, Gather] = {}  # key: parameter group of FSDP2

    def __call__(
        self, joint: fx.GraphModule, inputs: Any, *, num_fwd_outputs: int, **ignored: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Plan a joint graph and return its forward and backward modules, as a partition function of AOTAutograd."""
        start = time.perf_counter()
        self._place, self._buckets = self._next_place(), max(self._buckets, parallel_gradients())
        model = self.request.capture(joint, num_fwd_outputs)
        captured = time.perf_counter()
        references = References.of(model)
        plan = replace(self.request, budget=self._left(model.graph), reserve=0, accumulate=False).plan(
            model.graph, references, self._infeasible
        )
        if not self._running:
            self._warn_infeasible()
        planned = time.perf_counter()
        modules = split(model, plan.simulation)
        self.reread = recomputed_from_inputs(model, plan.simulation)
        self._note(model, plan, references, (captured - start, planned - captured, time.perf_counter() - planned))
        return modules

    def compile_forward(self, module: fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        """Return a boxed function that runs the forward module and counts calls whose backward part has not run."""
        run, place, index = box(module, inputs), self._place, _largest_saved(module)
        if index is None:
            return run
        waiting, peak = self.reports[-1].waiting, self.reports[-1].plan.peak_memory
        pending = self._pending.setdefault(place, [])

        def counted_run(inputs: list[Any]) -> Any:
            if waiting and not self._warned_waiting and any(map(_is_accumulated, inputs)):
                self._warned_waiting = True
                warn_user(
                    "{waiting!b} of the peak of {peak!b} are gradients that wait for the end of "
                    "the backward part, whereas eager PyTorch adds each to .grad and calls its hooks as soon as it is "
                    "computed; compile the model's blocks one by one, so that each passes on its own gradients",
                    waiting=waiting,
                    peak=peak,
                )
            results = run(inputs)
            pending[:] = [each for each in pending if each() is not None]
            pending.append(weakref.ref(results[index].untyped_storage()))
            if len(pending) > self._runs.get(place, 1):
                self._runs[place] = len(pending)
                self._note_runs(place)
            return results

        counted_run._boxed_call = True  # type: ignore[attr-defined]
        return counted_run

    def _note_runs(self, place: tuple[int, int]) -> None:
        """Update the last report after a new maximum of calls that wait for their backward part; warn if it is two."""
        if self.reports:
            self.reports[-1] = replace(self.reports[-1], whole=self._whole())
        if self._runs[place] == 2:
            warn_user(
                "a graph runs again before the backward part of its previous call, for the same model or for another "
                "block of its class, so its saved tensors are live more than once, but the budget is for one call; "
                "lower the budget, or batch the inputs into one call (reports[-1].whole counts every call)"
            )

    def monitor(self, model: Any) -> Callable[[], None]:
        """Start a call; the returned function ends it and warns once about each part that runs outside the graphs."""
        end, trains = record_breaks(self.request.recurrent), torch.is_grad_enabled()
        self._inner, self._running, first = [], self._running + 1, len(self.reports)

        def leave() -> None:
            self._running -= 1
            # FSDP2 forms its parameter groups in the first call.
            if len(self.reports) > first and (groups := gathers(model)):
                self._gathers |= groups
                self.reports[-1] = replace(self.reports[-1], whole=self._whole())
            parts = [part for each in end() + self._inner if (part := UnplannedPart.of(each, model)) is not None]
            new = {str(part): part for part in parts if str(part) not in self.parts}
            self.parts |= new
            for i in range(first, len(self.reports)):
                self.reports[i] = replace(self.reports[i], graph_breaks=tuple(self.parts))
            captured = bool(self._n_graphs or self.reports)
            if new or (trains and not captured and not self.parts and not self._warned_nothing):
                self._warned_nothing = not new
                warn_of([*new.values()], bool(self.reports))
            if not self._running:
                self._warn_infeasible()

        return leave

    @contextlib.contextmanager
    def compiling(self, module: fx.GraphModule, inputs: Any) -> Iterator[None]:
        """Specialize the current compilation to the sizes of its inputs; warn if it is the last that PyTorch allows."""
        compiled = compile_id()
        self._n_graphs += 1
        if compiled is not None and compiled[1] + 1 == recompile_limit() and compiled not in self._last_compilations:
            self._last_compilations.add(compiled)
            warn_user(
                "PyTorch compiles this part of the model for the last of {recompile_limit!w} times: with another "
                "shape, number or mode it runs uncompiled, without plan and budget; pad batches to fewer shapes, "
                "pass numbers that change from step to step as tensors, or {compile_more!w}",
                recompile_limit=recompile_limit(),
                compile_more=COMPILE_MORE,
            )
        specialize_sizes(inputs)
        n_planned = len(self.reports)
        yield
        if len(self.reports) == n_planned and (gradient := inner_gradient(module)) is not None:
            self._inner.append(gradient)

    def _next_place(self) -> tuple[int, int]:
        before, self._compiling = self._compiling, compile_id()
        if self._compiling is None:
            return 0, 0
        return self._compiling[0], self._place[1] + 1 if self._compiling == before else 0

    def _left(self, graph: ComputationGraph) -> Budget | Amount:
        """Return the budget minus the bytes that earlier graphs save and, for a device budget, all other bytes."""
        if self.request.as_today:
            return self.request.budget
        budget = Budget.of(self.request.budget)
        saved = sum(self._largest(lambda report: report.saved).values())
        others = sum(self._largest(lambda report: report.plan.graph.resident_memory + report.beside).values())
        reserved = others + self.request.beside(graph) + byte_limit(self.request.reserve)

        memory = budget.memory
        if memory is not None and not self.request.is_share:
            memory = max(byte_limit(memory) - saved, 0)
        device = None if budget.device is None else max(byte_limit(budget.device) - saved - reserved, 0)
        return replace(budget, memory=memory, device=device)

    def _largest(self, figure: Callable[[GraphReport], int]) -> dict[tuple[int, int], int]:
        most: dict[tuple[int, int], int] = {}
        for report in self.reports:
            if report.place < self._place:
                most[report.place] = max(most.get(report.place, 0), figure(report))
        return most

    def _note(self, model: Captured, plan: Plan, references: References, seconds: tuple[float, float, float]) -> None:
        graph, simulation = plan.graph, plan.simulation
        draws = [v for v, each in enumerate(model.operators) if each is not None and STATE in each.meta]
        report = GraphReport(
            plan=plan,
            references=references,
            replayed=int((simulation.runs[draws] - 1).sum()),
            capturing=seconds[0],
            planning=seconds[1],
            lowering=seconds[2],
            place=self._place,
            saved=saved_bytes(simulation),
            beside=self.request.beside(graph),
            whole=0,
            graph_breaks=tuple(self.parts),
        )
        self.reports.append(report)
        self.reports[-1] = replace(report, whole=self._whole())
        LOG.info("%s", self.reports[-1].summary())
        self._warn_above()

    def _warn_infeasible(self) -> None:
        if not self._infeasible or self._warned_infeasible:
            return
        self._warned_infeasible = True
        (error, peak), *others = self._infeasible
        warn_user(
            "{error!w}; the plan with the lowest peak runs: {peak!B}{others!w}",
            error=error,
            peak=peak,
            others=f"; {counted(len(others), 'other graph')} of the model likewise" if others else "",
        )

    def _warn_above(self) -> None:
        whole, several = self.reports[-1].whole, len({report.place for report in self.reports}) > 1
        if self.request.as_today:
            limit = self._whole(lambda report: report.references.as_is)
        elif self.request.is_share or (memory := Budget.of(self.request.budget).memory) is None:
            return
        else:
            limit = byte_limit(memory)
        if whole <= limit or not several or self._warned_above:
            return
        self._warned_above = True
        remedy = ONE_GRAPH_OF_DDP if self._buckets else "lower the budget, or give a share such as 50%, for each graph"
        warn_user(
            "the graphs of the model together peak at {whole!B}, above {limit!b}, because they are "
            "planned one after the other; {remedy!w}",
            whole=whole,
            limit=limit,
            remedy=remedy,
        )

    def _whole(self, run_of: Callable[[GraphReport], Simulation] = lambda report: report.plan.simulation) -> int:
        """Return an upper limit on the joint peak of all graphs, including buckets of DDP and parameters of FSDP2."""
        # While one graph is at its peak, the saved values of earlier graphs and the gradients of later graphs are live.
        most: dict[tuple[int, int], list[int]] = {}
        for report in self.reports:
            graph, run = report.plan.graph, run_of(report)
            figures = (run.peak_memory, saved_bytes(run), gradient_bytes(graph))
            most[report.place] = [max(pair) for pair in zip(figures, most.get(report.place, figures), strict=True)]
        places, runs = sorted(most), self._runs
        parallel = self._buckets + gathered_bytes(self._gathers.values())
        # Any graph can have pending runs, in any order. The pending runs of one graph may have different parameters,
        # because blocks of one class share a graph.
        if any(runs.get(place, 1) > 1 for place in places):
            pending = sum(runs.get(place, 1) * (most[place][1] + most[place][2]) for place in places)
            return parallel + pending + max(peak - saved - gradients for peak, saved, gradients in most.values())
        return parallel + max(
            most[place][0] + sum(most[p][1] for p in places if p < place) + sum(most[p][2] for p in places if p > place)
            for place in places
        )


def _largest_saved(module: fx.GraphModule) -> int | None:
    """Return the index of the largest tensor that a forward module saves; prefer tensors that are not model outputs."""
    output = module.graph.output_node()
    results = output.args[0]
    descriptors = output.meta.get("desc") or [None] * len(results)
    saved = [isinstance(what, (Saved, SavedUnchecked)) for what in descriptors]
    returned = {each for each, kept in zip(results, saved, strict=True) if not kept}
    sizes = {
        place: (each not in returned, sum(size for _, size in each.meta[STORAGES]))
        for place, (each, kept) in enumerate(zip(results, saved, strict=True))
        if kept and isinstance(each, fx.Node) and each.op == "call_function"
    }
    return max(sizes, key=sizes.__getitem__, default=None)


def gathered_bytes(groups: Collection[Gather]) -> int:
    """Return an upper estimate of gathered bytes: groups that stay gathered after forward, plus twice the largest."""
    kept = sum(group.size for group in groups if group.kept)
    return kept + 2 * max((group.size for group in groups), default=0)


def _is_accumulated(tensor: Any) -> bool:
    """Return True for a parameter whose gradient is added to an existing one or read by a hook."""
    if not isinstance(tensor, torch.Tensor) or not tensor.is_leaf or not tensor.requires_grad:
        return False
    return tensor.grad is not None or bool(tensor._post_accumulate_grad_hooks)


def box(module: fx.GraphModule, inputs: Any) -> Callable[..., Any]:
    """Return a module as a function that empties its list of inputs, so that each is freed after its last read."""
    module.graph.set_codegen(BoxedCode())
    module.recompile()

    def run(inputs: list[Any]) -> Any:
        try:
            return module.forward(inputs)
        except BaseException:
            wait_for_copies()
            raise

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def recomputed_from_inputs(model: Captured, simulation: Simulation) -> Reread:
    assert model.module is not None
    inputs = [node for node in model.module.graph.nodes if node.op in ("placeholder", "get_attr")]
    descriptors = [node.meta.get("desc") for node in inputs]
    keys = [_key(each) for each in descriptors if not isinstance(each, OUTSIDE)]  # in resident order
    graph, readers = model.graph, dict[int | str, list[str]]()
    if graph.resident is None:
        return readers
    for v in (simulation.runs > 1).nonzero()[0].tolist():
        for key in [keys[resident] for resident in graph.resident.reads(v)]:
            if key is not None:
                readers.setdefault(key, []).append(graph.labels[v])
    return readers


def _key(descriptor: Any) -> int | str | None:
    return descriptor.idx if isinstance(descriptor, PlainInput) else getattr(descriptor, "target", None)


def check_before_backward(results: Any, inputs: Sequence[tuple[str, Any, Sequence[str]]]) -> None:
    """Make the backward part raise GraphError if an input has changed; items are (name, tensor, recomputed nodes)."""
    versions = [
        (name, weakref.ref(tensor), tensor._version, nodes)
        for name, tensor, nodes in inputs
        if isinstance(tensor, torch.Tensor) and not tensor.is_inference()
    ]
    for node in {each.grad_fn for each in tensors(results) if each.grad_fn is not None}:
        node.register_prehook(partial(_compare, versions))


def _compare(versions: Sequence[tuple[str, Callable[[], Any], int, Sequence[str]]], gradients: Any) -> None:
    for name, tensor_of, version, again in versions:
        tensor = tensor_of()
        if tensor is not None and tensor._version != version:
            raise GraphError(
                "{name} was changed in place between the forward part and the backward part, which recomputes "
                "{again!l} from it; change it after backward, or give the model a copy",
                name=name,
                again=again,
            )
