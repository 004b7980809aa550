"""`solve` with a link: what it promises beside the plan without copies."""

import itertools
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

import remat_algos as ra
from remat_algos.bounds.bound import LowerBound
from remat_algos.bounds.memory import least_peak_bound, lowest_order_with_copies
from remat_algos.context import Interrupted, Stop
from remat_algos.cost.links import Link
from remat_algos.errors import ArgumentError, BudgetError
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.parts import RECOMPUTE, Labels
from remat_algos.schedule.annealing import Annealer
from remat_algos.schedule.emission import baseline_peak
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.schedule.timeline import evict, timeline
from remat_algos.search import tuning
from remat_algos.search import with_copies as offloading
from remat_algos.search.solve import solve
from remat_algos.zoo.random import chain, layered_dag
from tests.oracles.copies import random_copies
from tests.oracles.copies_exhaustive import least_time
from tests.raising import raises
from tests.small_graphs import small_graphs

LINK = Link(out=2e9, into=1e9, latency=0, share=1)  # a byte takes half a nanosecond out, one back


def timed(graph):
    """The graph, its costs in nanoseconds."""
    return replace(graph, labels=Labels(compute_unit="ns"))


GRAPHS = [timed(graph) for _, graph in small_graphs(6, 8, 14)]
CHAIN = timed(
    differentiate(chain(12, memory=[1, 3, 2, 5, 1, 4, 2, 2, 6, 1, 3, 1], compute=[2, 5, 1, 7, 3, 1, 4, 4, 2, 6, 1, 3]))
)


def solved(graph, limit, link):
    try:
        return solve(graph, limit, link=link, effort="fast")
    except BudgetError:
        return None


@pytest.mark.parametrize("share", [0.8, 0.6, 0.4])
@pytest.mark.parametrize("graph", GRAPHS, ids=range(len(GRAPHS)))
def test_a_plan_with_copies_fits_is_above_its_bound_and_no_slower_than_that_without(graph, share):
    limit = int(share * baseline_peak(graph))
    without, plan = (solved(graph, limit, link) for link in (None, LINK))
    if plan is None:
        assert without is None
        return
    assert plan.peak_memory <= limit
    assert plan.bound.amount <= plan.time
    assert without is None or plan.time <= without.time
    assert plan.time >= plan.simulation.compute >= graph.needed_compute


def test_the_same_request_gives_the_same_plan():
    limit = baseline_peak(CHAIN) // 2
    plans = [solve(CHAIN, limit, link=LINK, effort="fast") for _ in range(2)]
    orders = [(each.schedule.order.tolist(), each.schedule.loads.tolist()) for each in plans]
    assert orders[0] == orders[1]


def test_an_endless_link_leaves_one_pass_and_a_slow_one_is_left_alone():
    limit = baseline_peak(CHAIN) * 7 // 10
    fast = solve(CHAIN, limit, link=Link(out=1e18, into=1e18, latency=0), effort="fast")
    slow = solve(CHAIN, limit, link=Link(out=1e3, into=1e3, latency=0), effort="fast")
    assert (fast.overhead_in_time, fast.simulation.stores.size > 0) == (0, True)
    assert slow.simulation.stores.size == 0
    assert slow.time == solve(CHAIN, limit, effort="fast").time


def test_host_bytes_are_within_their_limit():
    limit = baseline_peak(CHAIN) * 6 // 10
    free = solve(CHAIN, limit, link=LINK, effort="fast")
    assert free.simulation.host_peak > 3
    bound = solve(CHAIN, limit, link=replace(LINK, host=3), effort="fast")
    assert bound.simulation.host_peak <= 3
    assert bound.time >= free.time


# sizes, costs in us, limit, and pairs of nodes beside each and the next
URGENT = [
    ([16, 8, 2, 8, 2, 20, 1, 1, 1, 1], [10, 10, 8, 16, 4, 10, 10, 30, 5, 5], 27, [(0, 4), (1, 8), (0, 9)]),
    ([18, 6, 2, 8, 2, 22, 1, 1, 1, 1], [9, 12, 7, 20, 6, 10, 9, 30, 5, 5], 28, [(0, 4), (1, 8), (0, 9)]),
]


@pytest.mark.parametrize(("sizes", "costs", "limit", "skips"), URGENT)
@pytest.mark.parametrize("effort", ["fast", "default", "best"])
def test_a_store_that_can_wait_lets_an_urgent_one_pass(effort, sizes, costs, limit, skips):
    """Exhaustive search over all places of stores finds no wait, which there is if values leave as they are made."""
    n, labels = len(sizes), Labels(compute_unit="us")
    edges = [*((i, i + 1) for i in range(n - 1)), *skips]
    graph = ra.ComputationGraph.from_edges(edges, memory=sizes, compute=costs, labels=labels)
    plan = solve(graph, limit, link=Link(1e6, 1e6, 0, share=1), effort=effort)
    assert plan.time == sum(costs) == least_time(graph, limit, sizes, sizes)
    assert plan.schedule.stores.size
    early = Schedule(plan.schedule.order, plan.schedule.loads)
    assert timeline(simulate(graph, early), plan.link).with_late_stores(limit, trials=0).time > plan.time


def test_a_mark_to_recompute_goes_with_a_link():
    mark = np.zeros(CHAIN.n_nodes, np.int8)
    mark[3] = RECOMPUTE
    marked = replace(CHAIN, mark=mark)
    plan = solve(marked, baseline_peak(CHAIN) * 6 // 10, link=LINK, effort="fast")
    assert plan.simulation.runs[3] > 1


def test_a_host_that_is_too_small_for_all_still_takes_some():
    limit = baseline_peak(CHAIN) * 6 // 10
    free, none = solve(CHAIN, limit, link=LINK, effort="fast"), solve(CHAIN, limit, effort="fast")
    host = free.simulation.host_peak * 2 // 3
    some = solve(CHAIN, limit, link=replace(LINK, host=host), effort="fast")
    assert 0 < some.simulation.host_peak <= host
    assert free.time <= some.time < none.time


def test_a_host_that_is_too_small_is_named():
    once = replace(CHAIN, once=np.ones(CHAIN.n_nodes, bool))
    assert solve(once, 30, link=LINK, effort="fast").simulation.host_peak > 1
    with raises(BudgetError, limit=30, host=1):
        solve(once, 30, link=replace(LINK, host=1), effort="fast")


def test_a_limit_below_what_one_node_needs_is_refused_in_a_sentence():
    bound = least_peak_bound(CHAIN, copies=True)[0]
    with raises(BudgetError, limit=5, lower_bound=bound):
        solve(CHAIN, 5, link=LINK, effort="fast")


def test_copies_are_tried_where_nothing_without_them_keeps_to_the_constraints():
    limit = baseline_peak(CHAIN) // 2
    rules = {"max_runs": 1, "regions": {"all": ("*", limit)}}
    with pytest.raises(BudgetError) as error:
        solve(CHAIN, limit, effort="fast", constraints=rules)
    assert error.value.plan is None
    plan = solve(CHAIN, limit, effort="fast", constraints=rules, link=LINK)
    assert plan.simulation.extra_runs == 0
    assert plan.constraints.violation(plan.simulation) is None
    marked = replace(CHAIN, mark=np.where(np.arange(CHAIN.n_nodes) == 3, RECOMPUTE, 0).astype(np.int8))
    rules = {"regions": {"all": ("*", limit)}}
    assert solve(marked, limit, effort="fast", constraints=rules, link=LINK).simulation.runs[3] > 1


def test_an_error_with_a_link_says_what_one_without_says():
    def refused(graph=CHAIN, limit=10, **options):
        with pytest.raises(BudgetError) as error:
            solve(graph, limit, link=LINK, effort="fast", **options)
        return error.value

    bound, nodes = least_peak_bound(CHAIN, copies=True)
    live = {"live": {"8": 6, "15": 6, "7": 2}, "more_values": 1}
    assert refused().fields.items() >= ({"lower_bound": bound, "forcing": [str(nodes[0])]} | live).items()
    once = replace(CHAIN, once=np.ones(CHAIN.n_nodes, bool))  # what must run once may leave
    assert refused(once).fields.items() >= live.items()
    assert refused(replace(CHAIN, mark=np.ones(CHAIN.n_nodes, np.int8))).fields["marks"] == 24
    forward = refused(timed(chain(12)), 1)
    assert "exists, even with copies over" in str(forward)
    assert forward.reasons == ()
    limit, regions = baseline_peak(CHAIN) // 2, {"regions": {"all": ("*", bound - 1)}}
    assert "; the time limit cut the search short; no schedule" in str(
        refused(limit=limit, time_limit=1e-6, constraints=regions)
    )
    violating = refused(limit=limit, constraints=regions)
    assert "violation" in violating.fields
    assert "time limit" not in str(violating)


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ({"budget": None}, {}),
        ({"budget": "50%", "allocator": "arena"}, {"name": "the allocator arena"}),
        ({"budget": "50%", "raw": True}, {"name": "raw plans"}),
    ],
)
def test_what_does_not_go_with_a_link_is_said(arguments, fields):
    with raises(ArgumentError, **fields):
        solve(CHAIN, link=LINK, **arguments)


@pytest.mark.parametrize("graph", GRAPHS, ids=range(len(GRAPHS)))
def test_what_leaves_longest_makes_any_limit_that_one_step_allows(graph):
    """Where a step needs all that is live in it, nothing more can leave."""
    one_pass = simulate(graph, np.flatnonzero(graph.needed))
    needed = 0
    for step, taken in enumerate(one_pass.steps()):
        own = {x for x, _ in taken.reads} | set(graph.values(taken.node))
        pinned = {int(x) for x in np.flatnonzero(graph.output) if x not in own}
        live = set(one_pass.lifetimes.value[one_pass.lifetimes.made_at <= step].tolist())
        total = sum(int(graph.memory[x]) for x in own | (pinned & live)) + int(graph.workspace[taken.node])
        needed = max(needed, total)
    assert simulate(graph, evict(one_pass, 0)).peak_memory == needed


def evicted(simulation, limit):
    """Loads of the rule of `evict`, in the order in which they are found."""
    lives, trace, loads, gone = simulation.lifetimes, simulation.memory_trace.tolist(), [], set()
    uses = [[int(step)] for step in lives.made_at]
    for step, taken in enumerate(simulation.steps()):
        for _, i in taken.reads:
            uses[i].append(step)
    while trace and max(trace) > limit:
        step, best = trace.index(max(trace)), (0,)
        for i, x in enumerate(lives.value.tolist()):
            for gap in zip(uses[i], uses[i][1:], strict=False):
                if not simulation.graph.output[x] and gap[0] < step < gap[1] and (i, gap) not in gone:
                    best = max(best, (int(simulation.graph.memory[x]) * (gap[1] - gap[0]), -i, x, gap))
        if best[0] == 0:
            break
        _, i, x, (before, after) = best
        gone.add((-i, (before, after)))
        trace[before + 1 : after] = [each - int(simulation.graph.memory[x]) for each in trace[before + 1 : after]]
        loads.append((after, x))
    return loads


def lowest_by_all_orders(graph):
    """The lowest peak with copies over all orders of one pass: what a step needs, and outputs made before it."""
    reads, makes = ([set(of(v)) for v in range(graph.n_nodes)] for of in (graph.reads, graph.values))
    peaks = []
    for order in itertools.permutations(np.flatnonzero(graph.needed).tolist()):
        made, peak = set(), 0
        for v in order:
            if not reads[v] <= made:
                break
            live = {x for x in made if graph.output[x]} | reads[v] | makes[v]
            peak = max(peak, int(graph.memory[list(live)].sum()) + int(graph.workspace[v]))
            made |= makes[v]
        else:
            peaks.append(peak)
    return min(peaks)


@pytest.mark.parametrize("seed", range(30))
def test_the_lowest_peak_with_copies_is_that_of_the_best_order(seed):
    random = Random(seed)
    n = random.randint(2, 6)
    edges = [(u, v) for v in range(1, n) for u in range(v) if random.random() < 0.3] or [(0, 1)]
    edges += [(v, n) for v in range(n) if v not in {each for edge in edges for each in edge}]
    n = 1 + max(max(edge) for edge in edges)
    sizes = {name: [random.randint(0, 6) for _ in range(n)] for name in ("memory", "workspace")}
    outputs = [*(random.random() < 0.5 for _ in range(n - 1)), True]
    graph = ra.ComputationGraph.from_edges(edges, output=outputs, **sizes)
    bound, order = lowest_order_with_copies(graph)
    assert bound == lowest_by_all_orders(graph)
    assert simulate(graph, evict(simulate(graph, order), 0)).peak_memory == bound


@pytest.mark.parametrize("graph", GRAPHS, ids=range(len(GRAPHS)))
def test_the_largest_and_longest_leaves_first(graph):
    """On orders with recomputation and loads; a load that is found later comes later within its step."""
    random = Random(graph.n_nodes)
    for share in (0.9, 0.6, 0.0):
        order, loads, *_ = random_copies(random, graph)
        simulation = simulate(graph, Schedule(order, loads))
        limit = int(share * simulation.peak_memory)
        expected = sorted([*loads, *evicted(simulation, limit)], key=lambda load: load[0])
        assert list(map(tuple, evict(simulation, limit).loads.tolist())) == expected


def test_memory_that_lingers_is_no_reason_for_another_load():
    one_pass = simulate(CHAIN, np.flatnonzero(CHAIN.needed))
    bare = simulate(CHAIN, evict(one_pass, one_pass.peak_memory * 6 // 10))
    slow = timeline(bare, replace(LINK, out=2e8))
    lingering = slow.with_late_stores(one_pass.peak_memory, trials=0).simulation
    assert lingering.schedule.lingering.size
    assert lingering.peak_memory > bare.peak_memory
    again = evict(lingering, bare.peak_memory)
    assert simulate(CHAIN, again).peak_memory <= bare.peak_memory
    assert sorted(again.loads[:, 1]) == sorted(set(bare.schedule.loads[:, 1]))


@pytest.mark.parametrize(
    ("effort", "near", "first", "bounds"),
    [
        ("fast", False, Stop.DONE, 1),
        ("default", True, Stop.DONE, 1),
        ("default", False, Stop.DONE, 2),
        ("default", False, Stop.INTERRUPTED, 1),
    ],
)
@pytest.mark.usefixtures("short_searches")
def test_the_bound_is_raised_after_a_search_that_did_not_meet_it(monkeypatch, effort, near, first, bounds):
    limit, known, search = baseline_peak(CHAIN) // 2, [], offloading._CopySearch.fastest
    low, high = CHAIN.needed_compute, solve(CHAIN, limit, link=LINK, effort="fast").time + 10**6

    def bounded(self, bound, limit, clock, *, last=False):
        known.append(last)
        self.stop |= Stop.DONE if last else first
        return LowerBound(high if near else low)

    def searched(self, *arguments):
        found = search(self, *arguments)
        self.stop |= Stop.DEADLINE
        return found

    monkeypatch.setattr(offloading._CopySearch, "_bound", bounded)
    monkeypatch.setattr(offloading._CopySearch, "fastest", searched)
    plan = solve(CHAIN, limit, link=LINK, effort=effort)
    assert known == [False, True][:bounds]
    # A time limit of the search, and an interrupt before it, are those of the plan.
    assert plan.report.stop is (Stop.DEADLINE | first)


@pytest.mark.usefixtures("short_searches")
def test_a_search_ends_within_the_gap_above_its_bound():
    limit = baseline_peak(CHAIN) // 2
    plans = [solve(CHAIN, limit, link=LINK, effort="fast", gap=gap) for gap in (0, 1000)]
    assert plans[0].time < plans[1].time


def test_eviction_begins_at_the_lowest_limit_of_a_region():
    def lowest(regions):
        constraints = None if regions is None else SimpleNamespace(regions=regions)
        return offloading.strictest_limit(constraints, 9)

    assert lowest(None) == lowest({}) == 9
    assert lowest({"one": ((0,), 7), "other": ((1,), 5)}) == 5
    assert lowest({"one": ((0,), 12)}) == 9


def test_starts_with_loads_keep_to_the_host_and_the_constraints():
    fits, large, wrong, alone = (
        SimpleNamespace(stores=np.arange(count), host_peak=peak, name=name)
        for count, peak, name in ((1, 5, "fits"), (1, 6, "large"), (1, 1, "wrong"), (0, 0, "alone"))
    )
    constraints = SimpleNamespace(violation=lambda each: "too often" if each.name == "wrong" else None)

    def starts(host, limits):
        request = SimpleNamespace(start=(fits, large, wrong, alone), constraints=limits)
        return [each.name for each in offloading.usable_starts(request, host)]

    assert starts(None, None) == ["fits", "large", "wrong"]
    assert starts(5, None) == ["fits", "wrong"]
    assert starts(5, constraints) == ["fits"]


def test_the_search_over_a_slower_link_takes_its_part_of_the_work(monkeypatch):
    annealers, begin = list[Annealer](), Annealer.__init__

    def begun(self, *arguments, **named):
        begin(self, *arguments, **named)
        annealers.append(self)

    # No schedule meets a time of 0, so no search ends early.
    monkeypatch.setattr(offloading._CopySearch, "_bound", lambda *_, **__: LowerBound(0))
    monkeypatch.setattr(Annealer, "__init__", begun)
    solve(CHAIN, baseline_peak(CHAIN) * 7 // 10, link=LINK, effort="fast", gap=0)
    work = {link: sum(each.done for each in annealers if each.link == link) for link in (LINK, LINK.at(tuning.SLOWER))}
    assert work[LINK.at(tuning.SLOWER)] == pytest.approx(tuning.SLOWER_PART * sum(work.values()), rel=0.01)


@pytest.mark.parametrize("below", [True, False])
def test_where_nothing_fits_without_copies_fast_begins_at_the_lowest_plan_too(below, monkeypatch):
    begun, fitted = list[tuple[str, bool]](), offloading._CopySearch.fitted

    def recorded(self, starts, limit, **options):
        begun.extend((name, each.peak_memory <= limit) for each, name in starts)
        return fitted(self, starts, limit, **options)

    monkeypatch.setattr(offloading._CopySearch, "fitted", recorded)
    graph = timed(differentiate(layered_dag(8, seed=4)))  # 612 bytes without copies, 526 with them
    limit = solve(graph, "least", effort="fast").peak_memory - below
    solve(graph, limit, link=LINK, effort="fast")
    assert ("the plan without copies", not below) in begun
    assert (("eviction from the plan without copies", True) in begun) == below


class Interrupting:
    """A progress callback that raises KeyboardInterrupt at its n-th call."""

    def __init__(self, call):
        self.call, self.calls, self.last, self.before = call, 0, 0, 0

    def __call__(self, done, total, text):
        self.calls += 1
        if self.calls == self.call:
            self.before = done
            raise KeyboardInterrupt
        self.last = done


@pytest.mark.parametrize("budget", ["60%", "least", ra.Budget(overhead="50%")], ids=str)
@pytest.mark.usefixtures("short_searches")
def test_an_interrupt_at_any_time_gives_the_best_plan_so_far_and_is_told(budget):
    whole = Interrupting(0)
    plan = solve(CHAIN, budget, link=LINK, effort="fast", progress=whole)
    assert (plan.interrupted, whole.last) == (False, 1000)
    told = 0
    for call in range(1, whole.calls, max(1, whole.calls // 12)):
        stopped = Interrupting(call)
        try:
            plan = solve(CHAIN, budget, link=LINK, effort="fast", progress=stopped)
        except Interrupted:
            # Before the first limit there is no plan within an overhead.
            assert isinstance(budget, ra.Budget)
            continue
        assert (plan.interrupted, stopped.last < 1000 or stopped.before == 1000) == (True, True), call
        assert plan.limit is None or plan.peak_memory <= plan.limit
        ra.verify(CHAIN, plan)
        told += 1
    assert told > 3
