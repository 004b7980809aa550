"""Settings of other runtimes that approximate a policy; they are coarser, and their peak and overhead differ."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from remat_algos.errors import PlanError
from remat_algos.interop.torch.eager_capture import EagerCapture
from remat_algos.interop.torch.selective import savable
from remat_algos.ir.arrays import Bool
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.blocks import EAGER, GRAPH, KEEP, OFFLOAD, RECOMPUTE, Blocks
from remat_algos.plan.policy import Policy
from remat_algos.text.amounts import percent
from remat_algos.wording import exact_bytes, format_bytes

MEGATRON = "Megatron-LM"
TORCHTITAN = "torchtitan"
NOTES = {
    TORCHTITAN: ("peak and overhead are for its compiled trainer, which recomputes only values that gradients need",)
}
MODULES = {"layernorm": "norm", "mlp": "mlp|ffn|feed_forward", "moe": "moe|experts"}
"""Values of Megatron's `--recompute-modules`, each with a regular expression for the names of its modules."""

Trial = tuple[tuple[str, ...], Blocks, Sequence[str], Bool]
"""Arguments of a runtime, and the blocks, decisions and saved nodes with which they are simulated."""


@dataclass(frozen=True, slots=True)
class RuntimeSetting:
    """The cheapest setting of another runtime within the budget of a plan.

    `arguments` are selectors, flags or names. `peak_memory` is the simulated peak in bytes; it includes states of the
    random generator if the runtime saves them. `overhead` is the cost in addition to one pass, in the unit of the plan,
    and `share` is the overhead in percent of one pass, as text.
    """

    runtime: str
    arguments: tuple[str, ...]
    peak_memory: int
    overhead: int | float
    share: str

    def __str__(self) -> str:
        nothing = "no recomputation" if self.runtime == MEGATRON else "no names: everything is recomputed"
        shown = " ".join(self.arguments) or nothing
        price = f"{self.runtime}: peak {exact_bytes(self.peak_memory)}, overhead {self.share}"
        return "\n".join([shown, price, *NOTES.get(self.runtime, ())])

    @classmethod
    def torchtitan(cls, policy: Policy, captured: EagerCapture) -> "RuntimeSetting":
        """Return selectors of saved operators; drop the least useful ones while the peak exceeds the budget."""
        graph, blocks = policy.graph, _blocks(policy, TORCHTITAN)
        inside: dict[str, set[int]] = {}
        for b, name in enumerate(blocks.names):
            for v in _stays(policy, captured, b):
                inside.setdefault(operator_of(captured, name, v), set()).add(b)
        nodes: dict[str, list[int]] = {}
        for operator, members in inside.items():
            nodes[operator] = [
                v
                for b in sorted(members)
                for v in blocks.members[b].tolist()
                if operator_of(captured, blocks.names[b], v) == operator
            ]

        def worth(operator: str) -> float:
            values = [x for v in nodes[operator] for x in graph.values(v)]
            return float(graph.compute[nodes[operator]].sum() / max(graph.memory[values].sum(), 1))

        ranked = sorted(nodes, key=worth, reverse=True)

        def trials() -> Iterable[Trial]:
            for count in range(len(ranked), -1, -1):
                kept = ranked[:count]
                arguments = [each for operator in kept for each in _selectors(blocks.names, operator, inside[operator])]
                saved = _marked(graph.n_nodes, [v for operator in kept for v in nodes[operator]])
                yield tuple(arguments), blocks, [RECOMPUTE] * len(blocks), saved

        return cls._cheapest(TORCHTITAN, policy, captured, trials(), GRAPH)

    @classmethod
    def megatron(cls, policy: Policy, captured: EagerCapture) -> "RuntimeSetting":
        """Return the cheapest flags to recompute the first blocks, all blocks in chunks, or modules of all blocks."""
        n, blocks = policy.graph.n_nodes, _blocks(policy, MEGATRON)

        def trials() -> Iterable[Trial]:
            for count in range(len(blocks) + 1):
                first = f"--recompute-granularity full --recompute-method block --recompute-num-layers {count}"
                decisions = [RECOMPUTE] * count + [KEEP] * (len(blocks) - count)
                yield tuple(first.split()) if count else (), blocks, decisions, np.zeros(n, bool)
            for count in range(2, len(blocks) + 1):
                if len(blocks) % count == 0 and not blocks.refusals:
                    chunks = _chunks(policy.graph, blocks, count)
                    first = f"--recompute-granularity full --recompute-method uniform --recompute-num-layers {count}"
                    yield tuple(first.split()), chunks, [RECOMPUTE] * len(chunks), np.zeros(n, bool)
            everything = [v for members in blocks.members for v in members.tolist()]
            again = {
                module: {v for v in everything if re.search(rf"(^|[._])({names})", captured.paths[v])}
                for module, names in MODULES.items()
            }
            present = [module for module in MODULES if again[module]]
            for size in range(1, len(present) + 1):
                for chosen in combinations(present, size):
                    rerun = set[int]().union(*(again[module] for module in chosen))
                    saved = _marked(n, [v for v in everything if v not in rerun])
                    flags = ("--recompute-granularity", "selective", "--recompute-modules", *chosen)
                    yield flags, blocks, [RECOMPUTE] * len(blocks), saved

        return cls._cheapest(MEGATRON, policy, captured, trials(), EAGER)

    @classmethod
    def jax(cls, policy: Policy, captured: EagerCapture) -> "RuntimeSetting":
        """Return the cheapest set of names that all blocks save; candidates are the sets that single blocks save."""
        blocks = _blocks(policy, "JAX")

        def trials() -> Iterable[Trial]:
            sets = {
                tuple(dict.fromkeys(operator_of(captured, name, v) for v in _stays(policy, captured, b)))
                for b, name in enumerate(blocks.names)
            }
            for operators in sorted({*sets, ()}):
                nodes = [
                    v
                    for name, members in zip(blocks.names, blocks.members, strict=True)
                    for v in members.tolist()
                    if operator_of(captured, name, v) in operators
                ]
                names = (each.partition("::")[0] or each.split(".")[-2] for each in operators)
                saved = _marked(policy.graph.n_nodes, nodes)
                yield tuple(dict.fromkeys(names)), blocks, [RECOMPUTE] * len(blocks), saved

        return cls._cheapest("JAX", policy, captured, trials(), GRAPH)

    @classmethod
    def _cheapest(
        cls, runtime: str, policy: Policy, captured: EagerCapture, trials: Iterable[Trial], semantics: str
    ) -> "RuntimeSetting":
        graph, settings = policy.graph, []
        # Compiled graphs save no states of the random generator.
        stashed = captured.stashed if semantics == EAGER else lambda treatments: 0
        limit = policy.peak_memory + captured.stashed(policy.treatments) if policy.limit is None else policy.limit
        for arguments, blocks, decisions, saved in trials:
            kept = [KEEP if b in blocks.refusals else each for b, each in enumerate(decisions)]
            holds = captured.holds if semantics == EAGER else None
            setting = Policy.of(graph, blocks, kept, saved, semantics=semantics, holds=holds)
            share = percent(setting.overhead, graph.needed_compute)
            settings.append(
                cls(runtime, arguments, setting.peak_memory + stashed(setting.treatments), setting.overhead, share)
            )
        fits = [each for each in settings if each.peak_memory <= limit]
        if not fits:
            raise PlanError(
                "{runtime} has no setting with a peak of at most {limit!w}; its lowest peak is {lowest!w}",
                runtime=runtime,
                limit=format_bytes(limit),
                lowest=format_bytes(min(each.peak_memory for each in settings)),
            )
        return min(fits, key=lambda each: (each.overhead, each.peak_memory, len(each.arguments)))


def operator_of(captured: EagerCapture, block: str, v: int) -> str:
    """Format a node as its module path below a block and its overload: "mlp.up::aten.mm.default"."""
    return f"{captured.paths[v].removeprefix(block).removeprefix('.')}::{captured.overloads[v]}"


def _blocks(policy: Policy, runtime: str) -> Blocks:
    offloaded_blocks = [each.name for each in policy.treatments if each.decision == OFFLOAD]
    if offloaded_blocks:
        raise PlanError(
            "{runtime} cannot offload single blocks, and the plan offloads {blocks!l}; plan without a link",
            runtime=runtime,
            blocks=offloaded_blocks,
        )
    assert policy.blocks is not None
    return policy.blocks


def _chunks(graph: ComputationGraph, blocks: Blocks, count: int) -> Blocks:
    """Merge every `count` consecutive blocks into one checkpoint, which keeps the inputs of this chunk of blocks."""
    starts = range(0, len(blocks), count)
    chunks = [slice(start, start + count) for start in starts]
    members = [np.concatenate(blocks.members[chunk]) for chunk in chunks]
    inputs = [np.unique(np.concatenate(blocks.inputs[chunk])) for chunk in chunks]
    # A trigger is the backward node before which a block is recomputed. The last block of a chunk has the earliest one.
    trigger = [min((each for each in blocks.trigger[chunk].tolist() if each >= 0), default=-1) for chunk in chunks]
    return replace(
        blocks,
        names=tuple(blocks.names[start] for start in starts),
        members=tuple(members),
        kinds=np.zeros(len(chunks), np.int32),
        rerun_end=np.array([blocks.rerun_end[chunk].max() for chunk in chunks]),
        inputs=tuple(x[~np.isin(graph.producer[x], inside)] for x, inside in zip(inputs, members, strict=True)),
        trigger=np.array(trigger),
        release=np.array([blocks.release[chunk].max() for chunk in chunks]),
    )


def _stays(policy: Policy, captured: EagerCapture, b: int) -> list[int]:
    """Return the nodes of a block whose outputs a policy keeps: the saved nodes, or all nodes if the block is kept."""
    treatment, names = policy.treatments[b], captured.graph.node_names()
    saved = {f"{treatment.name}.{each}" for each in treatment.saved}
    kept = treatment.decision == KEEP
    members = _blocks(policy, "").members[b].tolist()
    return [v for v in members if (kept or names[v] in saved) and savable(captured.overloads[v])]


def _selectors(blocks: Sequence[str], operator: str, inside: set[int]) -> list[str]:
    """Return selectors of an operator in the blocks `inside`. If these are all blocks of a list, "*" selects them."""
    prefixes: dict[str, None] = {}
    stacks = [name.rpartition(".")[0] for name in blocks]
    for b in sorted(inside):
        whole = all(i in inside for i, stack in enumerate(stacks) if stack == stacks[b])
        prefixes[f"{stacks[b]}.*".lstrip(".") if whole else blocks[b]] = None
    return [f"{head}{operator}" if operator.startswith("::") else f"{head}.{operator}" for head in prefixes]


def _marked(n: int, nodes: Sequence[int]) -> Bool:
    marks = np.zeros(n, bool)
    marks[list(nodes)] = True
    return marks
