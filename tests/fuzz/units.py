"""One graph with its costs in s, ms, us, ns, FLOPs and GFLOPs: the plans cost the same, and claim the same.

Their orders may differ where nothing is proven: the exact search rounds its lower bounds to whole costs.
Over a link only units of time are drawn: copies take times.
"""

from dataclasses import replace

import numpy as np

import remat_algos as ra
from remat_algos.cost.links import PER_SECOND, Link
from remat_algos.effort import NEAR
from remat_algos.formats.graphs.npz_bytes import to_npz
from remat_algos.schedule.emission import baseline_peak
from tests.fuzz.portfolio import graph_of

UNIT = "graphs"
TIMES = ("s", "ms", "us", "ns")
FINER = {**{unit: PER_SECOND["ns"] // PER_SECOND[unit] for unit in TIMES}, "FLOPs": 1, "GFLOPs": 10**9}
"""How many ns, or FLOPs, make one of each unit."""
LINKED = 0.4  # share of plans over a link
SIZES, RATES, LATENCIES = (1, 1000, 10**6), (1e9, 7e9 / 3, 23.456e9, 50e9), (0, 3.3333333e-6, 1e-5)
COSTS = (1, 7, 60, 10**6)  # ns or FLOPs of one unit of the cost that is drawn
SMALL = 12  # nodes of graphs that get gradients: larger ones take long without a plan
LARGEST = 10**15  # ns or FLOPs: larger sums, as floats in a coarser unit, lose digits
SAME = 1e-9
"""How far figures may be apart: floats of the same number."""


def case(rng, report):
    """One graph and budget in every unit."""
    size, cost = rng.choice(SIZES), rng.choice(COSTS)
    try:
        graph = graph_of(rng)
        memory, workspace = ([size * each for each in amounts.tolist()] for amounts in (graph.memory, graph.workspace))
        graph = graph.with_costs(memory, workspace=workspace)
    except ra.GraphError:  # of sums that are too large, too
        return
    compute = [cost * each for each in graph.compute.tolist()]
    if sum(compute) >= LARGEST:
        return
    report.count("graphs")
    link = Link(rng.choice(RATES), rng.choice(RATES), rng.choice(LATENCIES)) if rng.random() < LINKED else None
    budget = rng.choice(("least", rng.randint(baseline_peak(graph) // 4, max(1, baseline_peak(graph)))))
    small = graph.forward_of is None and graph.n_nodes <= SMALL
    factor = rng.choice((2, 1, 0.3, 1.7, 2 / 3)) if small else None
    first = None
    for unit in FINER if link is None else TIMES:
        found = answer(in_unit(graph, compute, unit), factor, budget, link)
        report.count("plans")
        if first is None:
            first = found
        elif not same(found, first) and not (link is not None and at_bound(found) and at_bound(first)):
            detail = f"{unit}, {budget}, {link}, factor {factor}, costs times {cost}: {found}, in s {first}"
            report.fault("a unit decides", detail, {"graph.npz": to_npz(graph)})


def in_unit(graph, compute, unit):
    """The graph with costs that are given in ns or FLOPs, written in a unit."""
    written = compute if FINER[unit] == 1 else [each / FINER[unit] for each in compute]
    return replace(graph, labels=replace(graph.labels, compute_unit=unit, compute_scale=1)).with_costs(compute=written)


def answer(graph, factor, budget, link):
    """What the plan does and claims, or the fallback of an error and its name; with gradients if there is a factor."""
    try:
        trained = graph if factor is None else ra.differentiate(graph, factor=factor)
        return claims(ra.solve(trained, budget, effort="fast", link=link))
    except ra.BudgetError as error:
        return [type(error).__name__, *(claims(error.plan) if error.plan is not None else ())]
    except (ra.GraphError, ra.ScheduleError) as error:  # nothing to differentiate; a mark that cannot be honoured
        return [type(error).__name__]


def claims(plan):
    """What a plan costs and claims, in ns or FLOPs."""
    labels, bound = plan.graph.labels, plan.bound
    scale = labels.compute_scale / FINER[labels.compute_unit]
    figures = (plan.time / scale, bound.amount / scale, -1.0 if plan.gap is None else float(plan.gap))
    return [plan.peak_memory, *figures, bound.source, bound.proven, bound.nodes, plan.gap == 0]


def at_bound(found):
    """True for a plan as near its bound as ends a search with copies, whose times are floats."""
    return type(found[0]) is int and 0 <= found[3] <= NEAR / 100


def same(one, other):
    """True if two plans do and claim the same."""
    return len(one) == len(other) and all(
        np.isclose(a, b, rtol=SAME, atol=SAME) if type(a) is float and type(b) is float else a == b
        for a, b in zip(one, other, strict=True)
    )
