"""Plans of activation checkpoints per block, for eager training with PyTorch and its trainers."""

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils.parametrize import ParametrizationList, is_parametrized

from remat_algos.arguments import as_flag, checked_arguments
from remat_algos.cost.devices import AnyLink
from remat_algos.cost.node_costs import AnyDevice
from remat_algos.errors import ArgumentError, BudgetError, PlanError, extended
from remat_algos.interop.torch.device_bytes import byte_limit, check_reserved, kept_bytes
from remat_algos.interop.torch.eager_capture import NORMS, EagerCapture, capture_step
from remat_algos.interop.torch.runtime_settings import RuntimeSetting, operator_of
from remat_algos.interop.torch.selective import (
    KEEP_ALL,
    Checkpoint,
    Saved,
    TrainedBlocks,
    next_contexts,
    run_block,
    savable,
)
from remat_algos.ir.arrays import is_count
from remat_algos.ir.budget import Amount, Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.graph import depths
from remat_algos.plan.block_policies import cheapest, plan_policy
from remat_algos.plan.blocks import DECISIONS, EAGER, KEEP, OFFLOAD, Blocks, offloaded
from remat_algos.plan.policy import ROW, Policy, Treatment
from remat_algos.plan.record import COUNT, Entries, check_entries, from_file
from remat_algos.result import Result
from remat_algos.wording import format_bytes, labelled, listed, one_line, tabulated

BUDGET = ("memory", "device", "optimizer", "accumulate", "reserve")  # keys of a mapping
FORMAT, VERSION = "remat-checkpoints", 1


@dataclass(frozen=True, slots=True)
class CheckpointPlan(Result):
    """The decision on each block of a PyTorch model, for eager training.

    A checkpointed block keeps its inputs and the outputs of its saved operators; the block is recomputed before its
    first gradient. `plan_checkpoints` makes a plan for a budget; a plan written by hand has no figures.

    Parameters
    ----------
    treatments : sequence of Treatment
        Decision on each block, in the order in which the blocks run. A saved operator is written as the path of its
        module below the block, its overload, and the number of earlier calls of this overload in the block:
        "mlp.up::aten.mm.default#4".
    peak_memory : int, optional
        Predicted peak in bytes, without parameters or inputs.
    overhead, bound : int or float, optional
        `overhead` is the cost in addition to one pass. `bound` is a lower bound on the overhead of all schedules within
        the budget. Both are in the unit of the graph's costs.
    gap : float, optional
        Difference between the total cost and its lower bound, as a fraction of the lower bound.
    resident_memory : int, optional
        Bytes in addition to the peak: parameters, buffers and inputs, or one rank's part of them.
    report : str
        Text that `print(plan)` prints.
    policy : Policy, optional
        Policy for the captured step, with its graph and simulation; it is not saved to files.
    captured : EagerCapture, optional
        The captured step; it is not saved to files.

    Examples
    --------
    >>> from remat_algos.plan.policy import Treatment
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    >>> saved = ("::aten.addmm.default#0",)
    >>> plan = CheckpointPlan([Treatment("0", "recompute", saved), Treatment("1", "keep")])
    >>> with plan.apply(model):
    ...     model(torch.ones(2, 4)).sum().backward()
    >>> model[0].weight.grad.shape
    torch.Size([4, 4])
    """

    treatments: tuple[Treatment, ...]
    peak_memory: int | None = None
    overhead: int | float | None = None
    bound: int | float | None = None
    gap: float | None = None
    resident_memory: int | None = None
    report: str = ""
    policy: Policy | None = field(default=None, compare=False)
    captured: EagerCapture | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "treatments", tuple(self.treatments))
        names = [each.name for each in self.treatments]
        for each in self.treatments:
            if each.decision not in DECISIONS:
                raise PlanError(
                    "block {block!r} has decision {decision!r}; expected {known!l}",
                    block=each.name,
                    decision=each.decision,
                    known=list(DECISIONS),
                )
            if names.count(each.name) > 1:
                raise PlanError("block {block!r} has two decisions; give one", block=each.name)
            for operator in each.saved:
                _parsed(operator)

    def __repr__(self) -> str:
        peak = "" if self.peak_memory is None else f"peak {format_bytes(self.peak_memory)}"
        counts = (sum(each.decision == decision for each in self.treatments) for decision in DECISIONS)
        return one_line(self, *(f"{n} {each}" for n, each in zip(counts, DECISIONS, strict=True) if n), peak)

    def heading(self) -> list[str]:
        return self.report.split("\n") if self.report else []

    @property
    def limit(self) -> int | None:
        """The budget in bytes. It is None without a budget, or if the plan comes from a file."""
        return None if self.policy is None else self.policy.limit

    @checked_arguments
    def apply(self, model: nn.Module) -> "AppliedPlan":
        """Wrap the forward of each block, except those with the decision "keep".

        `remove()` of the result, or the end of `with plan.apply(model):`, restores the model. Blocks are checkpointed
        whenever gradients are recorded. `torch.compile` and `fully_shard` may be applied before or after. Copies and
        pickles of the model keep the plan; its `state_dict` does not change. Raise PlanError, without a change to the
        model, if the model lacks a block or operator of the plan, already has a plan, or is checkpointed by its
        trainer.
        """
        modules = dict(model.named_modules())
        missing = [each.name for each in self.treatments if each.name not in modules]
        if missing:
            raise PlanError(
                "the model has no blocks {missing!l}; make a plan for this model, and apply it to the planned module "
                "itself, before DistributedDataParallel or other wrappers",
                missing=missing,
            )
        for name, module in modules.items():
            if getattr(module, "gradient_checkpointing", False):
                raise PlanError(
                    "the trainer already checkpoints {module!r}; switch off its gradient checkpointing, or pass "
                    "plan.kwargs to it instead of plan.apply(model)",
                    module=name or type(model).__name__,
                )
        _check_free(model)
        wrapped = []
        for each in self.treatments:
            block = modules[each.name]
            for operator in each.saved:
                path, overload, _ = _parsed(operator)
                if path and path not in dict(block.named_modules()):
                    raise PlanError("block {block!r} has no module {path!r}", block=each.name, path=path)
                if not savable(overload):
                    raise PlanError(
                        "block {block!r} cannot save {operator!r}: it is a view or changes a tensor in place",
                        block=each.name,
                        operator=operator,
                    )
            if each.decision != KEEP:
                wrapped.append((block, _wrapped(block, each)))
        self._warn_of_similar(modules)
        return AppliedPlan(wrapped)

    def _warn_of_similar(self, modules: Mapping[str, nn.Module]) -> None:
        """Warn if a block has siblings of its own class that neither the plan nor the captured step contains."""
        place = {name: (name.rpartition(".")[0], type(module)) for name, module in modules.items()}
        planned, paths = {each.name for each in self.treatments}, () if self.captured is None else self.captured.paths
        similar = {place[name] for name in planned}
        planned.update(*(accumulate(path.split("."), "{}.{}".format) for path in {*paths}))
        if others := [name for name in modules if place[name] in similar and name not in planned]:
            words = f"the plan has no blocks {listed(others)}: they keep everything; make a plan for this model"
            warnings.warn(words, stacklevel=3)

    @property
    def kwargs(self) -> dict[str, Any]:
        """Value for `gradient_checkpointing_kwargs` of transformers, if the trainer checkpoints the blocks of the plan.

        Read this property once per model. The value contains a function, which JSON cannot represent: with a logger
        that writes the trainer's arguments as JSON, such as TensorBoard's, use `plan.apply(model)` instead.
        """
        offloaded = [each.name for each in self.treatments if each.decision == OFFLOAD]
        if offloaded:
            raise PlanError(
                "a trainer's context_fn cannot offload the inputs of {blocks!l}; use plan.apply(model), or plan "
                "without a link",
                blocks=offloaded,
            )
        trained = TrainedBlocks([KEEP_ALL if each.decision == KEEP else _saved(each) for each in self.treatments])
        return {"use_reentrant": False, "context_fn": partial(next_contexts, trained)}

    def torchtitan(self) -> RuntimeSetting:
        """Return selectors such as "layers.*.mlp.up::aten.mm.default" for torchtitan's option to save operators.

        The option is `--compile.full_recompute_save_ops`. A selector saves every call to its overload in the module,
        and the compiler recomputes only values that gradients need. Peak and overhead are simulated accordingly.
        """
        return RuntimeSetting.torchtitan(*self._source())

    def megatron(self) -> RuntimeSetting:
        """Return the cheapest flags of Megatron-LM (`--recompute-granularity` and others) within the budget."""
        return RuntimeSetting.megatron(*self._source())

    def jax(self) -> RuntimeSetting:
        """Return the names for `jax.checkpoint_policies.save_only_these_names`, one set for all blocks."""
        return RuntimeSetting.jax(*self._source())

    def _source(self) -> tuple[Policy, EagerCapture]:
        if self.policy is None or self.captured is None:
            raise PlanError(
                "a plan from a file, or written by hand, has no graph; call this on the result of plan_checkpoints"
            )
        return self.policy, self.captured

    def record(self) -> dict[str, Any]:
        figures = {name: getattr(self, name) for name in FIGURES}
        blocks = [each.record() for each in self.treatments]
        return {"format": FORMAT, "version": VERSION, **figures, "report": self.report.split("\n"), "blocks": blocks}


FIGURES = ("peak_memory", "overhead", "bound", "gap", "resident_memory")
ENTRIES: Entries = {
    **{name: (lambda entry: entry is None or _is_number(entry), "a number or null") for name in FIGURES},
    **{
        name: (lambda entry: entry is None or is_count(entry), f"{COUNT}, or null") for name in FIGURES if "mem" in name
    },
    "blocks": (lambda entry: isinstance(entry, list), "a list of blocks"),
    "report": (ROW["saved"][0], "a list of texts"),
}
BLOCK: Entries = {
    **ROW,
    "inputs": (ROW["saved"][0], "a list of names of arguments"),
    "memory": (is_count, COUNT),
    "compute": (is_count, COUNT),
    "copies": (lambda entry: _is_number(entry), "a number"),
}
"""Checks of the entries in the JSON of a plan, and of each of its blocks."""


@checked_arguments
def plan_checkpoints(
    model: nn.Module,
    inputs: Sequence[Any] | Mapping[str, Any],
    budget: Budget | Amount | Mapping[str, Any],
    *,
    keywords: Mapping[str, Any] | None = None,
    blocks: str | Sequence[str] | None = None,
    loss: Callable[[Any], torch.Tensor] | None = None,
    on: torch.device | str | None = None,
    cost: Any = "roofline",
    device: AnyDevice | None = None,
    workspace: bool = False,
    link: AnyLink | None = None,
    shards: Mapping[str, int] | None = None,
) -> CheckpointPlan:
    """Plan, for a memory budget, which blocks of a model are checkpointed and which of their outputs stay saved.

    One training step is captured on fake tensors: nothing is computed, and parameters may be on the device "meta".
    The plan can be applied with other batch sizes and sequence lengths, but its figures hold for the captured one.

    Parameters
    ----------
    model : torch.nn.Module
        Model in its training mode. If it trains under autocast, call this function under autocast too.
    inputs : sequence or mapping
        Arguments of one call to the model: a sequence of positional arguments, or a mapping of keyword arguments.
    budget : Budget, int, str or mapping
        Limit of the peak, without parameters or inputs: bytes, "20GiB", "50%" of the peak without checkpoints, or
        "least" for the lowest peak. {"device": "24GiB", "optimizer": "adamw"} limits the whole device, so parameters,
        inputs and optimizer states count too. The entry "accumulate": true adds the gradients of earlier batches, and
        "reserve" is a number of bytes to keep free.
    keywords : mapping, optional
        Keyword arguments of the call, if `inputs` is a sequence.
    blocks : str or sequence of str, optional
        Module paths such as "model.layers.*". By default, the blocks are the layers that trainers of Hugging
        Face checkpoint. If a model has no such layers, each entry of a list of modules is a block, and so is each
        module next to such a list. If lists are nested, the depth with the lowest peak is selected.
        "layers.*|layers.*.mlp" plans once for each pattern and returns the cheapest plan.
    loss : callable, optional
        Function from the model's result to a scalar; by default the result itself or its entry `loss`.
    on : torch.device or str, optional
        Device for which the step is captured; "cuda" needs no GPU. By default the device of the tensors.
    cost, device, workspace
        As for `capture`.
    link : Link, Device, str, path or mapping, optional
        Link to the host, as for `remat_algos.solve`; inputs of blocks may then be offloaded too.
    shards : mapping, optional
        {"world": 8} plans for one of 8 ranks, with `fully_shard` applied to each block and to the model: a rank stores
        its shard of parameters and gradients, and all parameters of at most two blocks at a time.

    Returns
    -------
    CheckpointPlan

    Raises
    ------
    GraphError
        If the result is not a loss, or a parameter would get no gradient.
    PlanError
        If the model already has a plan, no module matches `blocks`, or no block can be checkpointed.
    BudgetError
        If no plan fits. The message states the lowest peak found, and why some blocks can only be kept.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> def block():
    ...     return nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32))
    >>> model = nn.Sequential(*(block() for _ in range(4)))
    >>> plan = plan_checkpoints(model, (torch.ones(256, 32),), "80%", loss=torch.sum)
    >>> plan.treatments[0].decision, plan.treatments[3].decision, plan.peak_memory <= plan.policy.limit
    ('recompute', 'keep', True)
    """
    if isinstance(blocks, str) and "|" in blocks:
        plan = partial(plan_checkpoints, model, inputs, budget, keywords=keywords, loss=loss, on=on, cost=cost)
        plan = partial(plan, device=device, workspace=workspace, link=link, shards=shards)
        best: CheckpointPlan = cheapest(partial(plan, blocks=cut.strip()) for cut in blocks.split("|"))
        return best
    _check_free(model)
    world = 1 if shards is None else shards.get("world")
    if not is_count(world) or not world or set(shards or ()) - {"world"}:
        raise ArgumentError('shards is {shards!r}; give the number of ranks as "world"', shards=shards)
    capture = partial(capture_step, model, inputs, keywords=keywords, loss=loss, on=on, cost=cost, device=device)
    capture = partial(capture, workspace=workspace)
    captured = _by_default(model, capture) if blocks is None else capture(blocks=blocks)
    cut = _with_refusals(model, captured, link is not None)
    if captured.checkpoints and (cut.trigger < 0).all():
        raise PlanError("the model already checkpoints these blocks itself; switch that off to plan them")
    rank = _Rank.of(model, captured.graph, cut.names, world)
    limits, states, reserve = _limits(budget, captured.graph)
    graph = rank.graph(captured.graph)
    if limits.device is not None:
        unplanned = reserve + -(-states // rank.world) + rank.extra
        if unplanned > byte_limit(limits.device):
            template = (
                "the device budget {device} is less than parameters, inputs and optimizer states take ({reached!b}); "
                "give more"
            )
            raise BudgetError(template, unplanned, unplanned, [], device=limits.device)
        limits = replace(limits, device=byte_limit(limits.device) - unplanned + graph.resident_memory)
    policy = _within(partial(plan_policy, graph, blocks=cut, link=link, holds=captured.holds), limits, captured)
    stashed = captured.stashed(policy.treatments)
    lines = labelled([*policy.figures(stashed), *rank.rows(), *_notes(cut, captured.notes, stashed)])
    return CheckpointPlan(
        _selected(policy, captured),
        policy.peak_memory + stashed,
        policy.overhead,
        policy.bound.amount - graph.needed_compute,
        policy.gap,
        rank.extra,
        "\n".join([*tabulated(policy.columns, policy.rows()), *lines]),
        policy,
        captured,
    )


def _within(plan: Callable[[Any], Policy], limits: Budget, captured: EagerCapture) -> Policy:
    policy = None
    try:
        policy = plan(limits)
        if policy.limit is None or policy.peak_memory + captured.stashed(policy.treatments) <= policy.limit:
            return policy
        remaining = policy.limit - captured.stashed([Treatment("", OFFLOAD)] * len(policy.treatments))
        return replace(plan(max(remaining, 0)), limit=policy.limit)
    except BudgetError as error:
        limit: int = error.fields["limit"] if policy is None else policy.limit or 0
        lowest = plan("least")
        reached = lowest.peak_memory + captured.stashed(lowest.treatments)
        if reached <= limit:
            return replace(lowest, limit=limit)
        failure = BudgetError(
            "no plan of checkpoints has a peak of at most {limit!b}; the lowest found is {reached!b}",
            reached=reached,
            lower_bound=error.lower_bound,
            nodes=error.nodes,
            names=error.names,
            limit=limit,
        )
        blocks = lowest.blocks
        if blocks is not None and blocks.refusals:
            failure = extended(
                failure,
                "",
                "; {count} of {blocks} blocks can only be kept: {reasons!w}",
                count=len(blocks.refusals),
                blocks=len(blocks),
                reasons="; ".join(dict.fromkeys(blocks.refusals.values())),
            )
        raise failure from error


def _notes(blocks: Blocks, notes: Sequence[str], stashed: int) -> Iterator[tuple[str, str]]:
    for reason in dict.fromkeys(blocks.refusals.values()):
        names = [blocks.names[b] for b, each in blocks.refusals.items() if each == reason]
        yield "refused", f"{listed(names)}: {reason}"
    yield from (("note", each) for each in notes)
    if stashed:
        yield "states", f"{format_bytes(stashed)} of the peak are states of the random generator, saved by checkpoints"


def _selected(policy: Policy, captured: EagerCapture) -> tuple[Treatment, ...]:
    node, selected = {name: v for v, name in enumerate(captured.graph.node_names())}, []
    loads = set(policy.simulation.schedule.loads[:, 1].tolist())
    for each, arguments in zip(policy.treatments, captured.arguments, strict=True):
        nodes = [node[f"{each.name}.{name}"] for name in each.saved]
        nodes = [v for v in nodes if savable(captured.overloads[v])]
        saved = tuple(operator_of(captured, each.name, v) + f"#{captured.counts[v]}" for v in nodes)
        offloads = each.decision == OFFLOAD
        inputs = tuple(name for x, names in arguments.items() if offloads and x in loads for name in names)
        selected.append(replace(each, saved=saved, inputs=inputs))
    return tuple(selected)


def _by_default(model: nn.Module, capture: Callable[..., EagerCapture]) -> EagerCapture:
    """Capture with the blocks that give the lowest estimated peak. A trainer's blocks get a third off it."""
    marked = [name for name, each in model.named_modules() if hasattr(type(each), "gradient_checkpointing")]
    layers = [name for name in marked if not any(each.startswith(f"{name}.") for each in marked)]
    candidates = [layers, *(list(_entries("", model, depth, layers)) for depth in (1, 0, 2, 3))]
    # A division into one or two blocks is too coarse, so their children are another candidate.
    if not layers and len(candidates[1]) < 3:
        candidates.append(
            [p for p, _ in model.named_modules() if p and p.rpartition(".")[0] in (candidates[1] or [""])]
        )
    cuts = [list(each) for each in dict.fromkeys(map(tuple, candidates)) if each] or [[]]
    captured = capture(blocks=cuts[0])
    peaks = [_lowest_peak(captured, each) / (1.5 if each == layers else 1) for each in cuts]
    return capture(blocks=cuts[best]) if (best := peaks.index(min(peaks))) else captured


def _entries(path: str, module: nn.Module, depth: int, layers: Sequence[str]) -> Iterator[str]:
    """Yield the paths of blocks: entries of lists of modules, up to `depth` lists deep, and modules next to lists."""
    lists, uncalled = _is_stack(module), type(module).forward is nn.Module.forward
    for name, child in module.named_children():
        inside = f"{path}.{name}".lstrip(".")
        plain = inside not in layers and not is_parametrized(child)
        within = depth > lists and plain and any(map(_is_stack, child.modules()))
        if isinstance(child, ParametrizationList):
            continue
        if within or type(child).forward is nn.Module.forward:
            yield from _entries(inside, child, depth - lists, layers)
        elif lists or uncalled or any(child.children()):
            yield inside


def _is_stack(module: nn.Module) -> bool:
    """Return True for a list or sequence of composite modules, False for a sequence of single operators."""
    entries = [each for each in module.children() if list(each.parameters())]
    several = any(type(each).__module__[:8] != "torch.nn" or list(each.children()) for each in entries)
    return isinstance(module, nn.ModuleList | nn.ModuleDict | nn.Sequential) and several


def _lowest_peak(captured: EagerCapture, cut: Sequence[str]) -> float:
    """Estimate the peak if all blocks in `cut` are recomputed, or infinity if blocks such as experts are parallel."""
    graph, outside = captured.graph, len(cut)
    refused = [f"{captured.blocks.names[b]}." for b in captured.blocks.refusals]
    number = {name: b for b, name in enumerate(cut) if not f"{name}.".startswith(tuple(refused))}
    outer = [accumulate(path.split("."), "{}.{}".format) for path in captured.paths]
    block = np.array([next((number[each] for each in paths if each in number), outside) for paths in outer])
    last = np.zeros(outside + 1, np.int64)
    np.maximum.at(last, block, depths(graph.read_indptr, graph.read_indices, graph.producer))
    ends = [(name.rpartition(".")[0], at) for name, at in zip(cut, last.tolist(), strict=False) if at]
    computed_in, read, reader = block[graph.producer], graph.read_indices, np.repeat(block, np.diff(graph.read_indptr))
    saved = np.isin(np.arange(graph.n_values), captured.holds.saved[0])
    stays = saved & (computed_in == outside)
    stays[read[(reader < outside) & (reader != computed_in[read])]] = True
    live = np.cumsum(graph.memory * stays) + np.bincount(computed_in, graph.memory * (saved & ~stays))[computed_in]
    peak = live[graph.forward[graph.producer]].max() + outside * captured.state
    return math.inf if len(set(ends)) < len(ends) else int(peak)


def _with_refusals(model: nn.Module, captured: EagerCapture, offloads: bool) -> Blocks:
    """Return the blocks. Add the reasons why blocks cannot be recomputed and, with `offloads`, cannot be offloaded."""
    graph, blocks, refusals = captured.graph, captured.blocks, dict(captured.blocks.refusals)
    loaded = offloaded(graph, blocks, [OFFLOAD] * len(blocks), EAGER)
    for b, members in enumerate(blocks.members):
        for v in members[graph.once[members]].tolist():
            norm = isinstance(model.get_submodule(captured.paths[v]), NORMS)
            if not savable(captured.overloads[v]) and not norm:
                refusals.setdefault(b, "it changes a buffer in place, and recomputing it would change that again")
        if offloads and not captured.arguments[b].keys() >= set(loaded[b].tolist()):
            refusals.setdefault(b, "it uses a tensor that is not one of its arguments; only arguments are offloaded")
    return replace(blocks, refusals=refusals)


def _limits(budget: Any, graph: ComputationGraph) -> tuple[Budget, int, int]:
    if isinstance(budget, Budget):
        return budget, 0, 0
    options = dict(budget) if isinstance(budget, Mapping) else {"memory": budget}
    if not options.keys() & {"memory", "device"} or options.keys() - BUDGET:
        raise ArgumentError(
            "budget has the entries {given!l}; give memory or device, and use only the entries {known!l}",
            given=list(options) or ["none"],
            known=list(BUDGET),
        )
    optimizer, accumulate = options.pop("optimizer", None), as_flag(options.pop("accumulate", False), "accumulate")
    reserve = options.pop("reserve", 0)
    limits = Budget(**options)
    check_reserved(limits, optimizer, accumulate, reserve)
    if optimizer is not None and limits.device is None:
        raise ArgumentError(
            "optimizer {optimizer!r} needs a device budget; give device too, such as 16GiB", optimizer=optimizer
        )
    return limits, kept_bytes(graph, optimizer, accumulate), byte_limit(reserve)


@dataclass(frozen=True, slots=True)
class _Rank:
    """Bytes that one rank of `fully_shard`, or a single process, stores in addition to activations."""

    world: int
    inputs: int
    parameters: int
    gathered: int = 0
    gradients: int = 0

    @classmethod
    def of(cls, model: nn.Module, graph: ComputationGraph, blocks: Sequence[str], world: int) -> "_Rank":
        whole = sum(each.nbytes for each in set(model.parameters()))
        inputs = graph.resident_memory - whole
        if world == 1:
            return cls(1, inputs, whole)
        groups = [list(model.get_submodule(name).parameters()) for name in blocks]
        inside = {id(each) for group in groups for each in group}
        rest = [each for each in model.parameters() if id(each) not in inside]
        gathered, gradients = (
            sum(each.nbytes for each in rest if each.requires_grad or every)
            + max(
                sum(each.nbytes for group in groups[i : i + 2] for each in group if each.requires_grad or every)
                for i in range(len(groups))
            )
            for every in (True, False)
        )
        return cls(world, inputs, -(-whole // world), gathered, gradients)

    @property
    def extra(self) -> int:
        return self.inputs + self.parameters + self.gathered + self.gradients

    def graph(self, graph: ComputationGraph) -> ComputationGraph:
        if self.world == 1:
            return graph
        gradients = graph.output & ~graph.forward[graph.producer]
        return graph.with_costs(memory=np.where(gradients, -(-graph.memory // self.world), graph.memory))

    def rows(self) -> Iterator[tuple[str, str]]:
        parts = [f"inputs {format_bytes(self.inputs)}"]
        if self.world > 1:
            parts += [f"two gathered blocks, and parameters outside of blocks, {format_bytes(self.gathered)}"]
            parts += [f"their gradients before reduction {format_bytes(self.gradients)}"]
        what = "parameters" if self.world == 1 else f"1 of {self.world} shards of the parameters"
        yield "not in peak", f"{what} {format_bytes(self.parameters)}, {', '.join(parts)}"


@checked_arguments
def load_checkpoints(path: str | os.PathLike[str]) -> CheckpointPlan:
    """Read a plan that `CheckpointPlan.save` wrote.

    Raises
    ------
    PlanError
        If the file is damaged or is not such a plan.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from remat_algos.plan.policy import Treatment
    >>> file = Path(mkdtemp()) / "policy.json"
    >>> CheckpointPlan([Treatment("layers.0", "keep")]).save(file)
    >>> load_checkpoints(file)
    <CheckpointPlan: 1 keep>
    """
    return from_file(path, _loaded)


class AppliedPlan:
    """A plan applied to a model, until `remove()` or the end of a `with` block."""

    def __init__(self, blocks: Sequence[tuple[nn.Module, partial[Any]]]) -> None:
        self._blocks = [(block, wrapped, block.__dict__.get("forward")) for block, wrapped in blocks]
        for block, wrapped in blocks:
            block.forward = wrapped

    def remove(self) -> None:
        """Restore the forward of each block; if one was replaced meanwhile, raise PlanError and change nothing."""
        for block, wrapped, _ in self._blocks:
            if block.__dict__.get("forward") is not wrapped:
                raise PlanError(
                    "the forward of a {kind} was replaced after the plan was applied; restore it first",
                    kind=type(block).__name__,
                )
        for block, _, before in self._blocks:
            del block.forward
            if before is not None:
                block.forward = before
        self._blocks = []

    def __enter__(self) -> "AppliedPlan":
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self.remove()
        except PlanError:
            if error[0] is None:
                raise


def _wrapped(block: nn.Module, treatment: Treatment) -> partial[Any]:
    modules = tuple(each for each in block.modules() if isinstance(each, NORMS) or [*each.parameters(False)])
    offloads = treatment.decision == OFFLOAD
    return partial(run_block, block.forward, Checkpoint(_saved(treatment), modules, offloads, treatment.inputs))


def _check_free(model: nn.Module) -> None:
    for name, module in model.named_modules():
        forward = module.__dict__.get("forward")
        if isinstance(forward, partial) and forward.func is run_block:
            raise PlanError("block {block!r} already has a plan; remove it first", block=name)


def _parsed(operator: str) -> tuple[str, str, int]:
    path, _, rest = operator.partition("::")
    overload, _, place = rest.partition("#")
    if overload.count(".") != 2 or not place.isdecimal():
        raise PlanError(
            'saved operator {operator!r} does not look like "mlp.up::aten.mm.default#4": path below the block, '
            "overload, number of its earlier calls",
            operator=operator,
        )
    return path, overload, int(place)


def _saved(treatment: Treatment) -> Saved:
    return tuple(_parsed(operator)[1:] for operator in treatment.saved)


def _loaded(record: Mapping[str, Any]) -> CheckpointPlan:
    if record.get("format") != FORMAT or record.get("version") != VERSION:
        raise PlanError("this is not a plan of checkpoints of version {version}", version=VERSION)
    check_entries(record, ENTRIES, "the plan")
    rows = [{"saved": [], "inputs": [], **row} if isinstance(row, dict) else {} for row in record["blocks"]]
    for row in rows:
        check_entries(row, BLOCK, "a block of the plan")
    entries: list[dict[str, Any]] = [{name: row[name] for name in BLOCK} for row in rows]
    blocks = tuple(
        Treatment(**{**each, "saved": tuple(each["saved"]), "inputs": tuple(each["inputs"])}) for each in entries
    )
    return CheckpointPlan(blocks, **{name: record[name] for name in FIGURES}, report="\n".join(record["report"]))


def _is_number(entry: Any) -> bool:
    return isinstance(entry, int | float) and not isinstance(entry, bool) and math.isfinite(entry)
