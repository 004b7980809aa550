"""The unit in which costs are written decides nothing: neither the plan, nor what is claimed about it."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remat_algos import differentiate, solve, verify
from remat_algos.cost.links import FINE, PER_SECOND, Link, in_units
from remat_algos.errors import BudgetError, ClaimError
from remat_algos.ir.arrays import LARGEST_SUM
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.labels import Labels
from remat_algos.plan.plan import plan_of

TIMES = ("ms", "us", "ns")


@st.composite
def training_graphs(draw):
    """Arguments of a chain with skips: edges, bytes, and costs in ns."""
    n = draw(st.integers(3, 7))
    skips = draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=3))
    edges = sorted({(i, i + 1) for i in range(n - 1)} | {(u, v) for u, v in skips if u < v})
    memory = draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))
    compute = draw(st.lists(st.integers(1, 2000), min_size=n, max_size=n))
    return edges, [10**6 * size for size in memory], [60 * cost for cost in compute]


def in_unit(arguments, unit):
    """The training graph with its costs, in ns, written in another unit."""
    edges, memory, compute = arguments
    costs = compute if unit == "ns" else [cost / (10**9 // PER_SECOND[unit]) for cost in compute]
    graph = ComputationGraph.from_edges(edges, memory=memory, compute=costs, labels=Labels(compute_unit=unit))
    return differentiate(graph)


def same(plan, other):
    """Assert that two plans do and claim the same, their times in seconds."""
    for one, two in zip(claims(plan), claims(other), strict=True):
        assert one == (pytest.approx(two, rel=1e-9) if isinstance(two, float) else two)


def claims(plan):
    """What a plan does and claims, its times in seconds."""
    labels, bound, schedule = plan.graph.labels, plan.bound, plan.schedule
    second = PER_SECOND[labels.compute_unit] * labels.compute_scale
    yield from (schedule.order.tolist(), schedule.loads.tolist(), schedule.lingering.tolist())
    yield from (plan.time / second, bound.compute / second, float(plan.gap))
    yield from (bound.source, bound.proven, bound.nodes, plan.gap == 0)


def solved(graph, **options):
    try:
        return solve(graph, "60%", effort="fast", **options)
    except BudgetError as error:
        return error.plan


rates = st.sampled_from([1e9, 50e9, 23.456e9, 7e9 / 3, 24_873_512_345.678])
latencies = st.sampled_from([0, 1e-5, 3.3333333e-6])


@settings(max_examples=15)
@given(arguments=training_graphs(), out=rates, into=rates, latency=latencies)
def test_a_plan_over_a_link_is_the_same_in_every_unit_of_time(arguments, out, into, latency):
    plans = [solved(in_unit(arguments, unit), link=Link(out, into, latency)) for unit in TIMES]
    for plan in plans[1:]:
        same(plan, plans[0])


@given(arguments=training_graphs(), out=rates, into=rates, latency=latencies, unit=st.sampled_from(TIMES))
def test_copies_take_whole_ticks_or_are_exact_to_a_billionth(arguments, out, into, latency, unit):
    graph, link = in_unit(arguments, unit), Link(out, into, latency)
    ticks, refined = link.ticks(graph), link.refined(graph)
    assert refined.compute.tolist() == (ticks * graph.compute).tolist()
    per_second = PER_SECOND[unit] * graph.labels.compute_scale
    for up, down, rate in zip(link.times(refined), link.times(refined, down=True), (out, into), strict=True):
        exact = [
            ticks * per_second * (Fraction(repr(latency)) + m / Fraction(repr(rate))) for m in graph.memory.tolist()
        ]
        assert all(d <= x <= u <= d + 1 for d, x, u in zip(down.tolist(), exact, up.tolist(), strict=True))
        assert (up == down).all() or (up.min() >= FINE <= refined.compute[refined.compute > 0].min())
        assert up.sum() + refined.compute.sum() < LARGEST_SUM
    assert link.ticks(refined) == 1


@given(st.integers(0, LARGEST_SUM - 1), st.integers(1, 10**6))
def test_ticks_can_be_told_from_the_time_in_units(ticks, per_unit):
    assert round(Fraction(in_units(ticks, per_unit)) * per_unit) == ticks


@given(arguments=training_graphs(), data=st.data())
def test_no_bound_in_a_coarse_unit_is_above_a_schedule_that_exists(arguments, data):
    """Costs in whole ms, copies of some us; the plan of the same graph in us is a schedule that exists."""
    edges, memory, compute = arguments
    link = Link(50e9, 50e9, data.draw(latencies))
    times = []
    for unit, scale in (("ms", 1), ("us", 1000)):
        costs, labels = np.array(compute) // 60 * scale, Labels(compute_unit=unit)
        graph = differentiate(ComputationGraph.from_edges(edges, memory=memory, compute=costs, labels=labels))
        plan = solved(graph, link=link)
        times.append((plan.bound.compute / scale if plan.bound else 0, plan.time / scale))
    assert max(bound for bound, _ in times) <= min(time for _, time in times)


def test_a_time_that_is_not_whole_is_verified_and_a_higher_bound_is_not():
    n = 9
    graph = in_unit(([(i, i + 1) for i in range(n - 1)], [10**6] * n, [6000] * n), "us")
    plan = solve(graph, "60%", link=Link(23.456e9, 23.456e9, 0), effort="fast")
    assert plan.time != int(plan.time)
    verify(graph, plan)
    again = plan_of(plan.record(), graph)
    assert (again.time, again.bound.compute, again.bound.proven) == (plan.time, plan.bound.compute, True)
    above = plan.bound.compute + 1 / plan.timeline.ticks
    with pytest.raises(ClaimError):
        plan_of(plan.record() | {"bound": above, "gap": (plan.time - above) / above}, graph, strict=True)
