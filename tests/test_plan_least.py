"""Least is least: no budget, frontier or solver goes below it, and where nothing fits its plan is the fallback."""

import random
from dataclasses import replace

import pytest

import remat_algos as ra
import remat_algos.search.solve as solving
import remat_algos.search.without_copies as keeping
from remat_algos.bounds.bound import LowerBound
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.context import Interrupted, Stop
from remat_algos.errors import ClaimError
from remat_algos.questions.compare import compare
from remat_algos.schedule.emission import baseline_peak
from remat_algos.search.auto import default_solvers
from remat_algos.search.plan_cache import solve_cached
from remat_algos.search.without_copies import without_copies
from remat_algos.solvers import tuning
from remat_algos.solvers.methods.search import _LimitSearch
from remat_algos.zoo.random import layered_dag
from remat_algos.zoo.registry import build
from tests.benchmarks.layered_graphs import layered_graph
from tests.fuzz.random_graphs import random_graph
from tests.raising import raises

pytestmark = pytest.mark.usefixtures("short_searches")

SHARES = (0.99, 0.97, 0.93, 0.85, 0.7)
"""Of the lowest peak: budgets below it."""
SMALL = 14  # nodes before differentiation
FAMILIES = {
    "layers": lambda seed: layered_graph(10 + seed % 12, 0.4, seed),
    "gradients of layers": lambda seed: ra.differentiate(layered_dag(4 + seed % 9, seed=seed)),
    "two towers": lambda seed: two_towers(random.Random(seed)),
    "two traversals": lambda seed: traversed_twice(random.Random(seed), blocks=2),
    "every feature": lambda seed: featured(random.Random(seed)),
}


def two_towers(rng):
    """Two chains of unequal stages that meet in a loss, with gradients."""
    lengths = rng.randint(2, 4), rng.randint(2, 4)
    ends, edges, n = [], [], 0
    for length in lengths:
        edges += [(n + i, n + i + 1) for i in range(length)]
        n += length + 1
        ends.append(n - 1)
    edges += [(end, n) for end in ends]
    sizes = [rng.randint(1, 9) for _ in range(n)]
    return ra.differentiate(ra.ComputationGraph.from_edges(edges, memory=[*sizes, 1], compute=[*sizes, 1]))


def traversed_twice(rng, blocks):
    """A stack of blocks, each of three stages beside a sum, twice in a row, with gradients."""
    sizes, edges, n = [4], [], 0
    block = [[rng.randint(1, 9) for _ in range(3)] for _ in range(blocks)]
    for each in (*block, *block):
        edges += [(n, n + 1), (n + 1, n + 2), (n + 2, n + 3), (n, n + 3)]
        sizes += [*each[:2], 4]
        n += 3
    return ra.differentiate(ra.ComputationGraph.from_edges(edges, memory=sizes, compute=sizes))


def featured(rng):
    """Of every feature, but marks, which may rule out the run without rematerialization."""
    while True:
        try:
            graph = random_graph(rng)
        except ra.GraphError:
            continue
        if graph.mark is None and 3 <= graph.n_nodes <= 2 * SMALL:
            return graph


def check(graph, effort, shares=SHARES):
    """All that is promised of the lowest peak of one graph."""
    least = ra.solve(graph, "least", effort=effort)
    lowest = least.peak_memory
    assert least.peak_bound <= lowest
    for share in shares:
        limit = int(share * lowest)
        if limit < lowest:
            with pytest.raises(ra.BudgetError) as caught:
                ra.solve(graph, limit, effort=effort)
            assert caught.value.reached == lowest
            assert caught.value.plan.overhead >= least.overhead
    again = ra.solve(graph, lowest, effort=effort)
    assert (again.peak_memory, again.overhead) == (lowest, least.overhead)
    assert ra.solve(graph, (lowest + baseline_peak(graph)) // 2, effort=effort).peak_memory >= lowest
    assert ra.frontier(graph, effort=effort, points=4).plans[0].peak_memory == lowest


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("family", FAMILIES)
def test_no_budget_and_no_frontier_goes_below_the_lowest_peak(family, seed):
    check(FAMILIES[family](seed), "fast", SHARES[1::2])


@pytest.mark.slow  # ten minutes
@pytest.mark.parametrize("effort", ["fast", "default"])
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("family", FAMILIES)
def test_no_budget_and_no_frontier_goes_below_the_lowest_peak_of_200_graphs(family, seed, effort):
    check(FAMILIES[family](100 + seed), effort)


@pytest.mark.slow
@pytest.mark.parametrize("effort", ["fast", "default"])
@pytest.mark.parametrize("name", ["unet", "resnet18", "vgg16_bn", "mobilenet_v2", "lstm?layers=1"])
def test_no_budget_and_no_frontier_goes_below_the_lowest_peak_of_networks(name, effort):
    check(ra.differentiate(build(name).graph), effort)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_solver_reaches_a_lower_peak_alone(family):
    graph = FAMILIES[family](3)
    lowest = ra.solve(graph, "least", effort="fast").peak_memory
    for solver in default_solvers(graph, "fast"):
        if solver.needs(graph) is None:
            assert ra.solve(graph, "least", effort="fast", solver=solver.name).peak_memory >= lowest


def test_neither_search_alone_nor_compare_goes_lower_on_more_than_100_nodes():
    graph = layered_graph(tuning.ALONE_NODES + 4, 0.45, 0)
    lowest = ra.solve(graph, "least", effort="fast").peak_memory
    assert ra.solve(graph, "least", effort="fast", solver="search").peak_memory >= lowest
    compared = compare(graph, int(0.97 * lowest), effort="fast", solvers=["greedy_remat", "search"])
    assert all(entry.plan is None and entry.reached >= lowest for entry in compared.entries)


def test_a_bound_that_another_solver_proves_is_that_of_the_plan():
    """Of a graph whose order alone reaches the lowest peak of any schedule, which is above the bound of any node."""
    edges = [(0, 1), (1, 2), (2, 3), (1, 4), (3, 5), (4, 6), (5, 7), (6, 7)]
    memory = [1568, 3136, 1568, 512, 512, 256, 256, 512]
    graph = ra.ComputationGraph.from_edges(edges, memory=memory, compute=[0, 1, 1, 1, 1, 1, 1, 1])
    plan = ra.solve(graph, "least")
    assert plan.peak_memory == plan.peak_bound == 4960 > least_peak_bound(graph)[0]


def test_a_lower_budget_that_is_not_met_has_the_same_fallback():
    graph = layered_graph(16, 0.4, 1)
    plans = []
    for share in ("60%", "30%", "20%"):
        with pytest.raises(ra.BudgetError) as caught:
            ra.solve(graph, share, effort="fast")
        plans.append(caught.value.plan)
    assert len({plan.peak_memory for plan in plans}) == 1


@pytest.mark.parametrize("allocator", ["cuda_caching", "cupy_pool"])
def test_the_fallback_of_an_allocator_is_that_of_least_with_it(allocator):
    graph = layered_graph(16, 0.4, 1)
    least = ra.solve(graph, "least", effort="fast", allocator=allocator)
    for limit in (3, int(0.9 * least.peak_memory), least.reservation.memory - 1):
        with pytest.raises(ra.BudgetError) as caught:
            ra.solve(graph, limit, effort="fast", allocator=allocator)
        assert caught.value.plan.reservation.memory == least.reservation.memory
        assert caught.value.plan.overhead >= least.overhead
    again = ra.solve(graph, least.reservation.memory, effort="fast", allocator=allocator)
    assert again.overhead >= least.overhead


def test_a_limit_that_only_the_lowest_peak_meets_is_met():
    """The solvers near the limit do not; the search then begins at that of the lowest peak."""
    graph = layered_graph(24, 0.4, 0)
    least = ra.solve(graph, "least", effort="fast")
    found = ra.solve(graph, least.peak_memory, effort="fast")
    assert found.peak_memory == least.peak_memory
    assert found.simulation.compute <= least.simulation.compute


def test_a_limit_that_first_searches_meet_needs_no_whole_search_for_the_lowest_peak(monkeypatch):
    calls, graph = [], layered_graph(70, 0.4, 0)
    limit = 7 * baseline_peak(graph) // 10
    for name in ("within", "_lowest"):
        called = getattr(_LimitSearch, name)
        note = lambda self, *rest, name=name, called=called: calls.append(name) or called(self, *rest)  # noqa: E731
        monkeypatch.setattr(_LimitSearch, name, note)
    plan = ra.solve(graph, limit, solver="search")
    assert plan.peak_memory <= limit
    assert calls == ["within", "_lowest", "within"]
    with pytest.raises(ra.BudgetError):
        ra.solve(graph, limit // 2, solver="search")
    assert calls[3:] == ["within", "_lowest"] * 2


def test_compare_reaches_what_least_reaches():
    graph = layered_graph(20, 0.4, 2)
    lowest = compare(graph, "least", effort="fast").entries[0].plan.peak_memory
    assert lowest == ra.solve(graph, "least", effort="fast").peak_memory


def test_the_text_of_the_lowest_peak_answers_that_question():
    graph = ra.differentiate(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(12)]))
    plan = ra.solve(graph, "least")
    text = str(plan)
    assert plan.peak_memory == plan.peak_bound == 4 > least_peak_bound(graph)[0] - 1
    assert "no schedule has a lower peak" in text
    assert "others" in text
    assert " x the peak" in text.split("others")[1].split("lower bound")[0]
    assert "no schedule within its peak computes less" in " ".join(text.split())
    assert plan.record()["peak_bound"] == 4
    assert set(plan.report.peaks) == set(plan.report.overheads)
    assert min(plan.report.peaks.values()) == 4


def test_every_plan_says_what_no_schedule_goes_below():
    graph = ra.differentiate(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(12)]))
    plan = ra.solve(graph, "80%")
    assert f"no schedule goes below {plan.peak_bound} B\n" in str(plan)
    assert not plan.report.peaks


def test_a_peak_bound_in_a_file_is_ours_or_a_claim(tmp_path):
    graph = ra.ComputationGraph.from_edges([(0, 1), (0, 2), (1, 2)], memory=[4, 2, 1])
    plan = ra.solve(graph, "least")
    for bound in (9, 6, "7", 7.5, None):
        with raises(ClaimError, claimed=bound, found=7):
            ra.verify(graph, plan.record() | {"peak_bound": bound})
    record = plan.record() | {"peak_bound": 7}
    assert ra.verify(graph, record).peak_memory == 7
    details = record["details"] | {"peak_bound": 8}
    with raises(ClaimError, claimed=8):
        ra.verify(graph, record | {"details": details})


# ---------------------------------------------------------------- a little above it


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(3))
def test_a_little_above_the_lowest_peak_costs_no_more(family, seed):
    graph = FAMILIES[family](seed)
    least = ra.solve(graph, "least", effort="fast")
    for share, percent in ((0, "0"), (0.1, "10")):
        near = ra.solve(graph, f"least+{percent}%", effort="fast")
        assert near.peak_memory <= int(least.peak_memory * (1 + share))
        assert near.overhead <= least.overhead


def test_a_few_bytes_more_save_a_run():
    graph = ra.differentiate(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(12)], memory=[1000] * 12 + [1]))
    least = ra.solve(graph, "least")
    near = ra.solve(graph, "least+34%")
    assert near.overhead < least.overhead
    assert near.limit == int(least.peak_memory * 1.34)


def test_its_two_searches_share_the_time_and_the_progress():
    seen = []
    graph = ra.differentiate(layered_dag(8, seed=1))
    plan = ra.solve(graph, "least+1%", time_limit=20, progress=lambda done, total, text: seen.append((done, total)))
    assert plan.limit is None or plan.peak_memory <= plan.limit
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (1000, 1000)


def test_a_plan_of_fewer_bytes_than_a_budget_has_no_bound_of_these_bytes(monkeypatch):
    graph = ra.differentiate(layered_dag(6, seed=2))
    limit, taken = ra.solve(graph, "least", effort="fast").peak_memory - 1, []

    def fewer(request, clock, lowest, whole):
        """A plan of fewer bytes, with a bound that holds for these alone."""
        taken.append(lowest)
        reservation = replace(lowest.reservation, memory=limit - 1)
        return replace(lowest, reservation=reservation, bound_or_search=LowerBound(10**9))

    monkeypatch.setattr(keeping, "least", fewer)
    plan = ra.solve(graph, limit, effort="fast")
    assert (len(taken), plan.limit, plan.budget.memory) == (1, limit, limit)
    assert plan.bound.amount <= plan.simulation.compute


@pytest.mark.parametrize("solver", ["auto", "chen_sqrt"])
@pytest.mark.parametrize("raises_nothing", [True, False])
def test_an_interrupt_of_its_second_search_keeps_the_plan_of_the_first_and_is_told(monkeypatch, solver, raises_nothing):
    graph, plans = ra.differentiate(layered_dag(6, seed=2)), []

    def search(request, clock):
        plan = without_copies(request, clock)
        plans.append(plan)
        if len(plans) == 1:
            return plan
        if raises_nothing:
            return replace(plans[0], report=replace(plans[0].report, stop=Stop.INTERRUPTED))
        raise Interrupted("before a plan within the budget was found")

    monkeypatch.setattr(solving, "without_copies", search)
    plan = ra.solve(graph, "least+0%", solver=solver, effort="fast")
    assert len(plans) == 2
    assert plan.schedule.order.tolist() == plans[0].schedule.order.tolist()
    assert plan.interrupted


def test_other_tools_take_no_share_above_it():
    graph = ra.differentiate(layered_dag(4, seed=1))
    for tool in (ra.compare, ra.frontier):
        with pytest.raises((ValueError, TypeError)):
            tool(graph, "least+1%")


def test_it_is_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("REMAT_CACHE_DIR", str(tmp_path))
    graph = ra.differentiate(layered_dag(6, seed=2))
    first = solve_cached(graph, "least+5%")
    assert solve_cached(graph, "least+5%").schedule.order.tolist() == first.schedule.order.tolist()
    assert first.peak_memory <= 1.05 * solve_cached(graph, "least").peak_memory
