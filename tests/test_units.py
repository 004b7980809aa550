"""The unit in which costs are written decides nothing: neither the plan, nor what is claimed about it."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remat_algos import differentiate, solve, verify
from remat_algos.cost import tuning
from remat_algos.cost.links import PER_SECOND, Link, in_units
from remat_algos.errors import BudgetError, ClaimError, GraphError
from remat_algos.ir.arrays import LARGEST_SUM
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Labels
from remat_algos.plan.plan import plan_of
from tests.fuzz import units
from tests.fuzz.units import FINER, TIMES

pytestmark = pytest.mark.usefixtures("short_searches")


@st.composite
def training_graphs(draw):
    """Arguments of a chain with skips: edges, bytes, costs in ns, and the factor of gradients."""
    n = draw(st.integers(3, 7))
    skips = draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=3))
    edges = sorted({(i, i + 1) for i in range(n - 1)} | {(u, v) for u, v in skips if u < v})
    memory = draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))
    compute = draw(st.lists(st.integers(1, 2000), min_size=n, max_size=n))
    factor = draw(st.sampled_from([2, 1, 0.3, 1.7, 2 / 3]))
    return edges, [10**6 * size for size in memory], compute, factor


def in_unit(arguments, unit):
    """The training graph with its costs, in ns or FLOPs, written in another unit."""
    edges, memory, compute, factor = arguments
    costs = compute if FINER[unit] == 1 else [cost / FINER[unit] for cost in compute]
    graph = ComputationGraph.from_edges(edges, memory=memory, compute=costs, labels=Labels(compute_unit=unit))
    return differentiate(graph, factor=factor)


def same(plan, other):
    """Assert that two plans do and claim the same."""
    assert units.same(units.claims(plan), units.claims(other)), (units.claims(plan), units.claims(other))
    for rows in ("order", "loads", "stores", "lingering"):
        assert getattr(plan.schedule, rows).tolist() == getattr(other.schedule, rows).tolist(), rows


def solved(graph, share="60%", **options):
    try:
        return solve(graph, share, effort="fast", **options)
    except BudgetError as error:
        return error.plan


@given(arguments=training_graphs(), share=st.sampled_from(["60%", "80%"]))
def test_a_plan_is_the_same_in_every_unit(arguments, share):
    plans = [solved(in_unit(arguments, unit), share) for unit in FINER]
    for plan in plans[1:]:
        same(plan, plans[0])


@pytest.mark.parametrize(
    ("costs", "compute", "scale"),
    [
        ([4.8e-07, 2.4e-06], [48, 240], 10**8),
        ([1e-12, 3e-12], [1, 3], 10**12),
        ([1e-9, 1e6], [1, 10**15], 10**9),
        ([1e15, 2e15], [10**15, 2 * 10**15], 1),
        # 4.8e-07 and 0.1 with the noise of floats: rounded, since exact sums would be too large.
        ([480 * 1e-9 * 1.0000000000000002, 2.4e-6], [4_800_000_000, 24_000_000_000], 10**16),
        ([0.1, 0.30000000000000004], [10**9, 3 * 10**9], 10**10),
        ([1 / 3, 2 / 3], [3_333_333_333, 6_666_666_667], 10**10),
    ],
)
def test_the_scale_of_costs_follows_from_the_numbers(costs, compute, scale):
    graph = ComputationGraph.from_edges([(0, 1)], compute=costs)
    assert (graph.compute.tolist(), graph.labels.compute_scale) == (compute, scale)


@given(st.lists(st.floats(1e-12, 1e15) | st.just(0.0), min_size=2, max_size=6))
def test_costs_are_kept_to_a_billionth_of_themselves_or_refused(costs):
    edges, positive = [(i, i + 1) for i in range(len(costs) - 1)], [cost for cost in costs if cost]
    near = not positive or (sum(positive) < 10**5 * min(positive) and sum(positive) < 2**51)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = ComputationGraph.from_edges(edges, compute=costs)
    except GraphError:
        if near:
            raise
        return
    wide = sum(positive) * 10**9 > 2**47 * min(positive, default=1)  # with a notice
    for cost, kept in zip(costs, graph.compute.tolist(), strict=True):
        exact = Fraction(repr(cost)) * graph.labels.compute_scale
        assert abs(kept - exact) * 10**9 <= exact or (wide and abs(kept - exact) * 2**47 <= graph.compute.sum())


@pytest.mark.parametrize("costs", [[5e-324, 1.0], [1.5e-9, 1e8], [1e-310, 3e-310]])
def test_costs_that_no_scale_keeps_are_refused(costs):
    with pytest.raises(GraphError, match="cannot be stored in one unit"):
        ComputationGraph.from_edges([(0, 1)], compute=costs)


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
        assert (up == down).all() or (up.min() >= tuning.FINE <= refined.compute[refined.compute > 0].min())
        assert up.sum() + refined.compute.sum() < LARGEST_SUM
    assert link.ticks(refined) == 1


@given(st.integers(0, LARGEST_SUM - 1), st.integers(1, 10**6))
def test_ticks_can_be_told_from_the_time_in_units(ticks, per_unit):
    assert round(Fraction(in_units(ticks, per_unit)) * per_unit) == ticks


@given(arguments=training_graphs(), data=st.data())
def test_no_bound_in_a_coarse_unit_is_above_a_schedule_that_exists(arguments, data):
    """Costs in whole ms, copies of some us; the plan of the same graph in us is a schedule that exists."""
    edges, memory, compute, factor = arguments
    link = Link(50e9, 50e9, data.draw(latencies))
    times = []
    for unit, scale in (("ms", 1), ("us", 1000)):
        costs, labels = np.array(compute) * scale, Labels(compute_unit=unit)
        graph = ComputationGraph.from_edges(edges, memory=memory, compute=costs, labels=labels)
        plan = solved(graph := differentiate(graph, factor=factor), link=link)
        scale *= graph.labels.compute_scale
        times.append((plan.bound.amount / scale if plan.bound else 0, plan.time / scale))
    assert max(bound for bound, _ in times) <= min(time for _, time in times)


def test_a_time_that_is_not_whole_is_verified_and_a_higher_bound_is_not():
    n = 9
    graph = in_unit(([(i, i + 1) for i in range(n - 1)], [10**6] * n, [6000] * n, 2), "us")
    plan = solve(graph, "60%", link=Link(23.456e9, 23.456e9, 0), effort="fast")
    assert plan.time != int(plan.time)
    verify(graph, plan)
    again = plan_of(plan.record(), graph)
    assert (again.time, again.bound.amount, again.bound.proven) == (plan.time, plan.bound.amount, True)
    above = plan.bound.amount + 1 / plan.timeline.ticks
    with pytest.raises(ClaimError):
        plan_of(plan.record() | {"bound": above, "gap": (plan.time - above) / above}, graph, strict=True)


@pytest.mark.parametrize("costs", [np.array([1, 2], "m8[ms]"), [np.timedelta64(1, "s"), np.timedelta64(2, "s")]])
def test_differences_of_times_are_no_costs(costs):
    with pytest.raises(GraphError, match=r"timedelta64\(1,'m?s'\) is not a cost; write a number"):
        ComputationGraph.from_edges([(0, 1)], compute=costs)


class Indexed(np.ndarray):
    """Numbers with an index, as a Series has."""

    index = (0, 1, 2)


@pytest.mark.parametrize("edges", [[("2", "0"), ("0", "1")], [("1", "0"), ("0", "2")]])
def test_an_index_from_0_is_not_taken_for_names_in_another_order(edges):
    sizes = np.array([100, 200, 300]).view(Indexed)
    with pytest.raises(
        GraphError, match="memory has the index 0, 1, 2 and so on, but the nodes have these names in another order"
    ):
        ComputationGraph.from_edges(edges, memory=sizes)
    assert ComputationGraph.from_edges([("0", "1"), ("1", "2")], memory=sizes).memory.tolist() == [100, 200, 300]
