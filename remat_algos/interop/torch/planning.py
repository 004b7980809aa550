"""Planning of joint graphs: captured, solved within a budget, and split into the two modules that run the plan."""

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
"""Nodes recomputed from an input, by its place among the arguments, or by the name of a parameter or buffer."""

LOG = logging.getLogger(__name__)
TODAY = "today"
"""The budget that is the peak which the model has today."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRequest:
    """The request to plan a model; `solver`, `effort` and `link` are as for `remat_algos.solve`.

    `budget`: limit of the peak, not of values saved for the backward part; shares are of the best order of one pass
    that was found, "least" is "least+0.1%", and "today" the model's peak with its own `torch.utils.checkpoint`.
    `rng`: random operators may run again ("replay", with the generator's state of their first run), or only "once".
    `cost`: "roofline", "occupancy", "flops", "profile" (measured here), or a function that gives ns of (FLOPs, bytes).
    `device`: whose times "roofline" and "occupancy" are, by default an "A100 80GB"; a link needs it, or costs in time.
    `workspace`: run each kind of operator once, to measure its workspace.
    `infeasible`: "warn" and run the plan with the lowest peak if none is within the budget, or "raise".
    `optimizer`, `accumulate`, `reserve`: what a device budget also reserves, states of "sgd", "momentum", "adam" or
    "adamw", gradients kept from earlier steps, and bytes.
    `recurrent`: let torch.compile capture nn.LSTM, nn.GRU and nn.RNN, which it leaves out by default.
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
            Budget.of(self.budget)  # checks it
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
        """Return a request from users' options; TypeError for an unknown option."""
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
        """True if the budget is the peak that the model has today."""
        return isinstance(self.budget, str) and self.budget.strip().lower() == TODAY

    @property
    def is_share(self) -> bool:
        """True if the budget depends on the graph."""
        memory = self.budget.memory if isinstance(self.budget, Budget) else self.budget
        return isinstance(memory, str) and ("%" in memory or LEAST in memory.lower() or self.as_today)

    def beside(self, graph: ComputationGraph) -> int:
        """Bytes that a device budget counts in addition to a graph's peak and residents."""
        return kept_bytes(graph, self.optimizer, self.accumulate)

    def capture(self, joint: fx.GraphModule, num_forward: int) -> Captured:
        return read_joint_graph(
            tidy(joint, self.rng == "replay"),
            num_forward,
            partial(price, cost=self.cost, workspace=self.workspace, device=self.device),
        )

    def plan(self, graph: ComputationGraph, references: References, above: list[tuple[BudgetError, int]]) -> Plan:
        """A plan within the budget, or one with the lowest peak, whose error and peak are appended to `above`.

        With the solver "auto" it is no worse than a reference that fits.
        """
        budget = self._in_bytes(references)
        limit = None if budget.above_lowest else budget.memory_limit(0, graph.resident_memory)
        plan, failed = None, None
        request = Request.of(graph, budget, solver=self.solver, effort=self.effort, link=self.link)
        try:
            plan = answered_before(request)
        except BudgetError as error:
            plan, failed = error.plan, error
        start = references.better(plan, limit) if request.named is None else None
        if start is not None:
            return answered(request.started(start.schedule), Clock())
        if failed is None:
            assert plan is not None
            return plan
        if self.infeasible == "raise" or plan is None:
            raise failed
        # The traceback would keep the tensors of the calls around it alive.
        above.append((failed.with_traceback(None), plan.peak_memory))
        return plan

    def _in_bytes(self, references: References) -> Budget:
        """Return the budget of one graph in bytes, not as a share."""
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
    """Plans the graphs of one model within one budget, and keeps the reports.

    A budget in bytes is for all graphs together: bytes that earlier graphs keep for their backward part are subtracted.
    A share is of each graph's own peak. Without torch.compile all graphs count as shapes of one.
    """

    def __init__(self, request: TrainingRequest) -> None:
        self.request = request
        self.reports: list[GraphReport] = []
        self.reread: Reread = {}  # for the graph planned last
        self.parts: dict[str, UnplannedPart] = {}  # parts outside all graphs, by description
        self._last_compilations = set[tuple[int, int]]()
        self._compiling: tuple[int, int] | None = None
        self._place = (0, 0)
        # number of graphs captured by torch.compile, for training and inference
        self._n_graphs = 0
        self._inner: list[Break] = []  # gradients that are computed within graphs, in this call
        self._running = 0  # calls of the model in progress
        self._infeasible: list[tuple[BudgetError, int]] = []  # graphs without a plan
        self._warned_above = self._warned_nothing = self._warned_infeasible = self._warned_waiting = False
        self._runs: dict[tuple[int, int], int] = {}  # runs by place, before backward
        self._pending: dict[tuple[int, int], list[weakref.ref[Any]]] = {}  # by place: a saved storage per run
        self._buckets = 0  # bytes of DDP's gradient buckets
        self._gathers: dict[int, Gather] = {}  # FSDP2 gathers, by parameter group

    def __call__(
        self, joint: fx.GraphModule, inputs: Any, *, num_fwd_outputs: int, **ignored: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Return the forward and the backward module of a joint graph: a partition function of AOTAutograd."""
        start = time.perf_counter()
        self._place, self._buckets = self._next_place(), max(self._buckets, parallel_gradients())
        model = self.request.capture(joint, num_fwd_outputs)
        known = time.perf_counter()
        references = References.of(model)
        plan = replace(self.request, budget=self._left(model.graph), reserve=0, accumulate=False).plan(
            model.graph, references, self._infeasible
        )
        if not self._running:
            self._warn_infeasible()
        planned = time.perf_counter()
        modules = split(model, plan.simulation)
        self.reread = recomputed_from_inputs(model, plan.simulation)
        self._note(model, plan, references, (known - start, planned - known, time.perf_counter() - planned))
        return modules

    def compile_forward(self, module: fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        """A boxed forward module that notes how often its saved values exist, if it runs again before backward."""
        run, place, kept = box(module, inputs), self._place, _largest_saved(module)
        if kept is None:
            return run
        waiting, peak = self.reports[-1].waiting, self.reports[-1].plan.peak_memory
        pending = self._pending.setdefault(place, [])

        def counted_run(inputs: list[Any]) -> Any:
            if waiting and not self._warned_waiting and any(map(_is_accumulated, inputs)):
                self._warned_waiting = True
                warn_user(
                    "{waiting!b} of the peak of {peak!b} are gradients that wait for the end of "
                    "the backward part, where eager PyTorch adds each to .grad, and calls its hooks, as soon as it is"
                    " made; compile the blocks of the model one by one, so that each hands over its own",
                    waiting=waiting,
                    peak=peak,
                )
            results = run(inputs)
            pending[:] = [each for each in pending if each() is not None]
            pending.append(weakref.ref(results[kept].untyped_storage()))
            if len(pending) > self._runs.get(place, 1):
                self._runs[place] = len(pending)
                self._note_runs(place)
            return results

        counted_run._boxed_call = True  # type: ignore[attr-defined]
        return counted_run

    def _note_runs(self, place: tuple[int, int]) -> None:
        """Add the bytes of graphs that run several times before their backward part to the last report, and warn."""
        if self.reports:
            self.reports[-1] = replace(self.reports[-1], whole=self._whole())
        if self._runs[place] == 2:
            warn_user(
                "a graph runs again before the backward part of its previous call, for the same model or for another "
                "block of its class, so its saved tensors are held more than once, and the budget is for one call; "
                "lower the budget, or batch the inputs into one call (reports[-1].whole counts every call)"
            )

    def monitor(self, model: Any) -> Callable[[], None]:
        """Begin a call of the model; the result ends it, and warns once of each part that runs outside the graphs.

        If nothing does, it warns of the first call of which torch.compile captures nothing.
        """
        end, trains = record_breaks(self.request.recurrent), torch.is_grad_enabled()
        self._inner, self._running, first = [], self._running + 1, len(self.reports)

        def leave() -> None:
            self._running -= 1
            if len(self.reports) > first and (found := gathers(model)):  # FSDP2 settles them in the first call
                self._gathers |= found
                self.reports[-1] = replace(self.reports[-1], whole=self._whole())
            parts = [part for each in end() + self._inner if (part := UnplannedPart.of(each, model)) is not None]
            new = {str(part): part for part in parts if str(part) not in self.parts}
            self.parts |= new
            for i in range(first, len(self.reports)):
                self.reports[i] = replace(self.reports[i], graph_breaks=tuple(self.parts))
            captured = bool(self._n_graphs or self.reports)  # the latter alone with a user's own backend
            if new or (trains and not captured and not self.parts and not self._warned_nothing):
                self._warned_nothing = not new
                warn_of([*new.values()], bool(self.reports))
            if not self._running:
                self._warn_infeasible()

        return leave

    @contextlib.contextmanager
    def compiling(self, module: fx.GraphModule, inputs: Any) -> Iterator[None]:
        """Context in which a graph of torch.compile is compiled, for its own sizes; warns at a frame's last one."""
        compiled = compile_id()
        self._n_graphs += 1
        if compiled is not None and compiled[1] + 1 == recompile_limit() and compiled not in self._last_compilations:
            self._last_compilations.add(compiled)
            warn_user(
                "PyTorch compiles this part of the model the last of {recompile_limit!w} times: with another "
                "shape, number or mode it runs uncompiled, without plan and budget; pad batches to fewer shapes, "
                "give what changes from step to step as tensors, or {compile_more!w}",
                recompile_limit=recompile_limit(),
                compile_more=COMPILE_MORE,
            )
        specialize_sizes(inputs)
        n_planned = len(self.reports)
        yield
        if len(self.reports) == n_planned and (found := inner_gradient(module)) is not None:
            self._inner.append(found)

    def _next_place(self) -> tuple[int, int]:
        """Frame and part of the current graph."""
        before, self._compiling = self._compiling, compile_id()
        if self._compiling is None:
            return 0, 0
        return self._compiling[0], self._place[1] + 1 if self._compiling == before else 0

    def _left(self, graph: ComputationGraph) -> Budget | Amount:
        """Return the budget of a graph, minus bytes that earlier graphs hold and other bytes on the device."""
        if self.request.as_today:
            return self.request.budget
        budget = Budget.of(self.request.budget)
        saved = sum(self._largest(lambda report: report.saved).values())
        others = sum(self._largest(lambda report: report.plan.graph.resident_memory + report.beside).values())
        beside = others + self.request.beside(graph) + byte_limit(self.request.reserve)
        memory = budget.memory
        if memory is not None and not self.request.is_share:
            memory = max(byte_limit(memory) - saved, 0)
        device = None if budget.device is None else max(byte_limit(budget.device) - saved - beside, 0)
        return replace(budget, memory=memory, device=device)

    def _largest(self, figure: Callable[[GraphReport], int]) -> dict[tuple[int, int], int]:
        """Return the largest figure of each graph over its shapes, by place, before the current place."""
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
            "{error!w}; the plan of least peak runs: {peak!B}{others!w}",
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
            "the graphs of the model together peak at {whole!B}, above {limit!b}, since they are"
            " planned one after the other; {remedy!w}",
            whole=whole,
            limit=limit,
            remedy=remedy,
        )

    def _whole(self, run_of: Callable[[GraphReport], Simulation] = lambda report: report.plan.simulation) -> int:
        """Maximum bytes of all graphs: one at its peak, what earlier ones keep, later gradients, DDP and FSDP2."""
        most: dict[tuple[int, int], list[int]] = {}
        for report in self.reports:
            graph, run = report.plan.graph, run_of(report)
            figures = (run.peak_memory, saved_bytes(run), gradient_bytes(graph))
            most[report.place] = [max(pair) for pair in zip(figures, most.get(report.place, figures), strict=True)]
        places, runs = sorted(most), self._runs
        beside = self._buckets + gathered_bytes(self._gathers.values())
        if any(runs.get(place, 1) > 1 for place in places):  # in any order
            # each run may have its own parameters, as blocks of one class have
            held = sum(runs.get(place, 1) * (most[place][1] + most[place][2]) for place in places)
            return beside + held + max(peak - saved - gradients for peak, saved, gradients in most.values())
        return beside + max(
            most[place][0] + sum(most[p][1] for p in places if p < place) + sum(most[p][2] for p in places if p > place)
            for place in places
        )


def _largest_saved(module: fx.GraphModule) -> int | None:
    """Return the index of the largest result that a forward module saves, if possible one that it does not return."""
    output = module.graph.output_node()
    results = output.args[0]
    about = output.meta.get("desc") or [None] * len(results)
    saved = [isinstance(what, (Saved, SavedUnchecked)) for what in about]
    returned = {each for each, kept in zip(results, saved, strict=True) if not kept}
    sizes = {
        place: (each not in returned, sum(size for _, size in each.meta[STORAGES]))
        for place, (each, kept) in enumerate(zip(results, saved, strict=True))
        if kept and isinstance(each, fx.Node) and each.op == "call_function"
    }
    return max(sizes, key=sizes.__getitem__, default=None)


def gathered_bytes(groups: Collection[Gather]) -> int:
    """Upper estimate of the bytes of gathered parameters: groups kept after the forward part, and the largest twice."""
    kept = sum(group.size for group in groups if group.kept)
    return kept + 2 * max((group.size for group in groups), default=0)


def _is_accumulated(tensor: Any) -> bool:
    """True for a parameter whose new gradient is added to another, or read by a hook."""
    if not isinstance(tensor, torch.Tensor) or not tensor.is_leaf or not tensor.requires_grad:
        return False
    return tensor.grad is not None or bool(tensor._post_accumulate_grad_hooks)


def box(module: fx.GraphModule, inputs: Any) -> Callable[..., Any]:
    """A module that empties the list of its inputs, to release each after its last read; errors wait for its copies."""
    module.graph.set_codegen(BoxedCode())
    module.recompile()

    def run(inputs: list[Any]) -> Any:
        try:
            return module.forward(inputs)
        except BaseException:
            wait_for_copies()
            raise

    run._boxed_call = True  # type: ignore[attr-defined]  # AOTAutograd looks for it
    return run


def recomputed_from_inputs(model: Captured, simulation: Simulation) -> Reread:
    """For each input, the nodes that run again and read it."""
    assert model.module is not None
    inputs = [node for node in model.module.graph.nodes if node.op in ("placeholder", "get_attr")]
    about = [node.meta.get("desc") for node in inputs]
    keys = [_key(each) for each in about if not isinstance(each, OUTSIDE)]  # in the order of residents
    graph, found = model.graph, dict[int | str, list[str]]()
    if graph.resident is None:
        return found
    for v in (simulation.runs > 1).nonzero()[0].tolist():
        for key in [keys[resident] for resident in graph.resident.reads(v)]:
            if key is not None:
                found.setdefault(key, []).append(graph.labels[v])
    return found


def _key(about: Any) -> int | str | None:
    return about.idx if isinstance(about, PlainInput) else getattr(about, "target", None)


def check_before_backward(results: Any, inputs: Sequence[tuple[str, Any, Sequence[str]]]) -> None:
    """Raise at the backward part if an input has changed, given name, tensor, and nodes recomputed from it."""
    seen = [
        (name, weakref.ref(tensor), tensor._version, again)
        for name, tensor, again in inputs
        if isinstance(tensor, torch.Tensor) and not tensor.is_inference()
    ]
    for node in {each.grad_fn for each in tensors(results) if each.grad_fn is not None}:
        node.register_prehook(partial(_compare, seen))


def _compare(seen: Sequence[tuple[str, Callable[[], Any], int, Sequence[str]]], gradients: Any) -> None:
    for name, tensor_of, version, again in seen:
        tensor = tensor_of()
        if tensor is not None and tensor._version != version:
            raise GraphError(
                "{name} was changed in place between the forward part and the backward part, which computes "
                "{again!l} from it again; change it after backward, or give the model a copy",
                name=name,
                again=again,
            )
