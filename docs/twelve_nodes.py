"""All methods of the four papers on one graph, for docs/papers/twelve_nodes.md."""

import itertools
from typing import Any

import remat_algos as ra
from remat_algos.schedule.emission import mirror_schedule

METHODS: list[tuple[str, str, str, str, dict[str, Any]]] = [  # paper, section, name on the page, solver, options
    ("", "", "one pass", "no_remat", {}),
    ("chen2016", "4.1", "mirror counts, all", "", {}),
    ("chen2016", "4.1, 4.3", "√n segments", "chen_sqrt", {"segments": "sqrt", "keep_last": False}),
    ("chen2016", "4.3", "segments, all numbers", "chen_sqrt", {}),
    ("chen2016", "4.2", "drop bn-relu", "drop_cheap", {"drop": "BatchNorm,ReLU"}),
    ("chen2016", "4.2", "drop by cost per byte", "drop_cheap", {}),
    (
        "chen2016",
        "4.3, A",
        "greedy, six B",
        "chen_greedy",
        {"grid": "paper", "rank_by": "allocation", "keep_last": False},
    ),
    ("chen2016", "4.3", "greedy, every B", "chen_greedy", {}),
    ("chen2016", "4.4", "recursion", "chen_recursive", {}),
    ("kusumoto2019", "4.1", "exhaustive search", "exhaustive_lower_sets", {}),
    ("kusumoto2019", "4.2", "exact, time-centric", "exact_dp", {"strategy": "time"}),
    ("kusumoto2019", "4.4", "exact, memory-centric", "exact_dp", {"strategy": "memory"}),
    ("kusumoto2019", "4.3", "pruned, time-centric", "approximate_dp", {"family": "pruned", "strategy": "time"}),
    ("kusumoto2019", "4.4", "pruned, memory-centric", "approximate_dp", {"family": "pruned", "strategy": "memory"}),
    ("kumar2019", "4", "GreedyRemat", "greedy_remat", {"max_block": 1, "moves": False}),
    ("kumar2019", "4; XLA", "GreedyRemat, blocks", "greedy_remat", {}),
    ("kumar2019", "3", "TWRemat(1)", "twremat", {"recursion_limit": 1, "orders": 1, "batching": False}),
    ("kumar2019", "3, 4.3", "TWRemat(k), batches", "twremat", {}),
    ("kumar2019", "for 5", "bags in a row", "pathremat", {}),
    ("echo2020", "V", "Echo, algorithm 1", "echo", {"mode": "paper"}),
    ("echo2020", "IV", "Echo, minimum stash", "echo", {}),
    ("echo2020", "VI", "Mirror", "drop_cheap", {"keep": "mxnet"}),
]


def solved(graph: ra.ComputationGraph, budget: int | str) -> dict[str, ra.Simulation]:
    """Return the schedule of each method, by name, simulated; methods that find no plan are missing."""
    runs = {}
    for _, _, name, solver, options in METHODS:
        try:
            if solver:
                runs[name] = ra.solve(graph, budget, solver=solver, raw=True, **options).simulation
        except ra.BudgetError:
            pass
    return runs


def with_counts(graph: ra.ComputationGraph, n_forward: int) -> dict[int, ra.Simulation]:
    """Try all mirror counts of 0 and 1; return the cheapest schedule for each peak."""
    cheapest: dict[int, ra.Simulation] = {}
    for bits in itertools.product((0, 1), repeat=n_forward):
        run = ra.simulate(graph, mirror_schedule(graph, [*bits, *[0] * (graph.n_nodes - n_forward)]))
        if run.peak_memory not in cheapest or run.overhead < cheapest[run.peak_memory].overhead:
            cheapest[run.peak_memory] = run
    return cheapest


def figures(run: ra.Simulation) -> tuple[int, int, int]:
    """Return peak, overhead and length."""
    return run.peak_memory, run.overhead, len(run.schedule)


def text(run: ra.Simulation, n_forward: int) -> str:
    """Return one character per step: small for a first run, capital for a later one, a dot for a gradient."""
    seen: set[int] = set()
    letters = []
    for v in run.schedule.order.tolist():
        label = run.graph.labels[v]
        letters.append("." if v >= n_forward else label.upper() if v in seen else label)
        seen.add(v)
    return "".join(letters)


def recomputed(run: ra.Simulation, n_forward: int) -> str:
    """Return the forward nodes that run more than once, as code."""
    capitals = {letter for letter in text(run, n_forward) if letter.isupper()}
    return ", ".join(f"`{letter.lower()}`" for letter in sorted(capitals))
