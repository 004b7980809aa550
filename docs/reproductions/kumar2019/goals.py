"""From the algorithms of kumar2019 to ours, step by step, and the project's aims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from docs.reproductions.case import Case
from docs.reproductions.kumar2019.algorithms import (
    GREEDY,
    OURS,
    TWREMAT,
    AlgorithmOne,
    length,
    share,
    solved,
)
from docs.reproductions.kumar2019.networks import training_graph
from docs.reproductions.page import Table, percent
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.context import Progress
from remat_algos.ir.budget import Budget
from remat_algos.schedule.emission import baseline_peak
from remat_algos.wording import format_bytes

STEPS: Mapping[str, Mapping[str, Any]] = {
    "more trees": {"recursion_limit": 1, "batching": False, "raw": True},
    "batches, other k": {"raw": True},
}
BUDGETS = {  # share of the peak without rematerialization, and the length wanted there
    "resnet200": ("10%", 1.4),
    "transformer_base": ("10%", 1.6),
    "feed_forward": ("6%", 1.7),
}
GOALS = {  # options, and their effect
    "resnet200": {
        "optimizer=sgd": "gradients of parameters wait for updates",
        "optimizer=sgd&batch=256": "the same, values are 8 times as large",
        "optimizer=sgd&granularity=primitive": "norms and updates step by step",
        "parameter_gradients=true": "gradients of parameters stay to the end",
    },
    "transformer_base": {
        "optimizer=sgd": "scores of 37,000 words",
        "optimizer=sgd&words=512": "scores as small as the rest",
        "optimizer=sgd&words=512&dropout=single": "masks are recomputed with dropout",
        "optimizer=sgd&words=512&dropout=single&counting=paper": "gradients read all inputs and outputs",
        "optimizer=sgd&words=512&dropout=single&granularity=primitive": "norms and softmax step by step",
    },
    "feed_forward": {
        "depth=200&optimizer=sgd": "gradients of weights are 8 times a value",
        "depth=200&optimizer=sgd&batch=16384": "they are a 16th of one",
        "depth=200&parameter_gradients=true": "they stay to the end",
        "depth=200": "no gradients of weights",
    },
}
VARIANTS = {  # options of a ResNet, and their description
    "": "as above",
    "&preactivation=true": "norms and ReLUs in front",
    "&counting=paper": "gradients that read all inputs and outputs",
    "&granularity=primitive": "norms and updates step by step",
}
QUICK_GOALS = {"feed_forward": {"depth=20": "no gradients of weights"}}
QUICK_LABELS = {"feed_forward": "feed_forward of 20 layers"}


def steps_to_ours(cases: Sequence[Case], progress: Progress | None) -> Table:
    """Table of the gain by each part of `twremat`, from algorithm 1 on."""
    columns: dict[str, Callable[[Any], str]] = {"network": str}
    for name in (TWREMAT, *STEPS, "passes"):
        columns |= {name: percent, f"{name}, length": "{:.2f}".format}
    rows: list[tuple[Any, ...]] = []
    for case in cases:
        between = [
            solved(case.graph, "least", f"{case.label}, {name}", progress, solver="twremat", **options)
            for name, options in STEPS.items()
        ]
        row = [case.simulations[TWREMAT], *between, case.simulations["twremat"]]
        rows.append((case.label, *(cell for simulation in row for cell in (share(simulation), length(simulation)))))
    return Table("steps", "From TWRemat to twremat", columns, rows)


def variants(plain: str, quick: bool, progress: Progress | None) -> Table:
    """Table of a ResNet built and counted in several ways; `plain` is the one in the tables above."""
    columns: dict[str, Callable[[Any], str]] = {"model": str, "remark": str, "nodes": str, "no_remat": format_bytes}
    for name in (GREEDY, TWREMAT, "twremat"):
        columns |= {name: percent, f"{name}, length": "{:.2f}".format}
    rows = []
    for options, remark in list(VARIANTS.items())[: 1 if quick else None]:
        reference = f"{plain}{options}"
        graph = training_graph(reference)
        greedy, trees = (solved(graph, "least", reference, progress, **OURS[name]) for name in (GREEDY, "twremat"))
        figures = [f(each) for each in (greedy, AlgorithmOne(graph).simulation(), trees) for f in (share, length)]
        rows.append((f"`{reference}`", remark, graph.n_nodes, baseline_peak(graph), *figures))
    return Table("variants", "Lowest peaks of ResNets, in shares of no_remat", columns, rows)


def goals(quick: bool, progress: Progress | None) -> Table:
    """Table of minimum lengths within the shares that the project aims at, and lowest peaks."""
    columns: dict[str, Callable[[Any], str]] = {"model": str, "remark": str, "nodes": str, "no_remat": format_bytes}
    columns |= {"aim": str, "length at the aim": "{:.2f}".format, "reached": str}
    columns |= {"lowest peak": format_bytes, "lowest": percent, "length of the lowest": "{:.2f}".format}
    columns |= {"lower bound": percent}
    rows = [
        (f"`{_reference(model, options)}`", remark, *_goal(model, options, progress))
        for model, variants in (QUICK_GOALS if quick else GOALS).items()
        for options, remark in variants.items()
    ]
    return Table("goals", "Shares of the peak without rematerialization", columns, rows)


def of_quick_goals() -> dict[str, str]:
    """Networks of the quick table of aims, by label."""
    return {
        QUICK_LABELS[model]: _reference(model, options) for model, given in QUICK_GOALS.items() for options in given
    }


def _reference(model: str, options: str) -> str:
    return f"model:{model}?{options}&cost=unit"


def _goal(model: str, options: str, progress: Progress | None) -> tuple[Any, ...]:
    graph = training_graph(_reference(model, options), unit=False)
    budget, longest = BUDGETS[model]
    base, about = baseline_peak(graph), f"{model}, {options}"
    lowest = solved(graph, "least", about, progress, solver="twremat")
    most = Budget(budget).memory_limit(base, graph.resident_memory)
    within = most is not None and lowest.peak_memory <= most
    at = length(solved(graph, budget, about, progress, solver="twremat")) if within else None
    reached = "yes" if at is not None and at <= longest else "no"
    bound = round(least_peak_bound(graph)[0] / base, 4)
    aim = f"{budget.removesuffix('%')} % at {longest}"
    return graph.n_nodes, base, aim, at, reached, lowest.peak_memory, share(lowest), length(lowest), bound
