"""Plans for costs that are not exact: the laws of the sampled overheads, and the robust choice."""

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remat_algos.allocate.allocators.registry import list_allocators
from remat_algos.context import Clock, Stop
from remat_algos.errors import GraphError, PlanError
from remat_algos.ir.budget import Budget
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan import cost_noise as module
from remat_algos.plan.cost_noise import CostNoise, choose_robust, quantile
from remat_algos.plan.plan import Plan
from remat_algos.plan.portfolio import Portfolio
from remat_algos.plan.problem import Problem
from remat_algos.plan.solve import solve
from remat_algos.plan.verify import verify
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers import registry
from remat_algos.solvers.candidates import Candidate, evaluated
from remat_algos.solvers.registry import Solver, any_graph
from remat_algos.zoo.random import chain
from tests.oracles.cost_noise import sampled_costs, slow_overheads, slow_quantile
from tests.strategies import graphs, orders, training_graphs

pytestmark = pytest.mark.usefixtures("short_searches")

FEW = settings(max_examples=30)
CHAIN = differentiate(chain(12))

# One node of cost 100 may run twice, or fifty of cost 2 and one more: 2 % dearer, and half as uncertain.
DEAR, CHEAP = 0, range(1, 52)
STAR = ComputationGraph.from_edges([(v, 52) for v in range(52)], compute=[100, *[2] * 51, 1000])
ONE_DEAR = [DEAR, DEAR, *CHEAP, 52]
MANY_CHEAP = [DEAR, *(v for cheap in CHEAP for v in (cheap, cheap)), 52]


@st.composite
def graphs_with_orders(draw, count=4):
    """A graph and some orders for it."""
    graph = draw(graphs(max_nodes=8) | training_graphs(max_nodes=12))
    return graph, [draw(orders(graph)) for _ in range(draw(st.integers(1, count)))]


def candidates_of(graph, *schedules):
    return [evaluated(graph, Schedule(order)) for order in schedules]


def robust_of(candidates, noise, budget="100%", graph=STAR):
    return choose_robust(Problem.of(graph, Budget.of(budget)), candidates, noise)


@pytest.fixture
def toy(monkeypatch):
    """A solver of the star that yields both of its orders."""

    def toy(graph, task, clock):
        yield Schedule(ONE_DEAR)
        yield Schedule(MANY_CHEAP)

    monkeypatch.setitem(registry.SOLVERS.entries, "toy", Solver(toy, paper="", needs=any_graph, optimal_in=None))
    return "toy"


# ---------------------------------------------------------------- sampled overheads


@FEW
@given(
    graphs_with_orders(), st.sampled_from([1e-6, 0.2, 0.7, 1]), st.sampled_from([10, 11, 19, 20, 64]), st.integers(0, 9)
)
def test_overheads_and_their_quantile_are_those_of_a_direct_loop(case, deviation, samples, seed):
    graph, orders_ = case
    noise = CostNoise(deviation, samples, seed)
    overheads = noise.overheads(graph, [simulate(graph, order) for order in orders_])
    costs = sampled_costs(graph, deviation, samples, seed)
    expected = [slow_overheads(graph, order, costs) for order in orders_]
    np.testing.assert_allclose(overheads, np.array(expected).reshape(overheads.shape), rtol=1e-9, atol=1e-10)
    assert quantile(overheads).tolist() == [slow_quantile(row) for row in overheads.tolist()]


@FEW
@given(graphs_with_orders(), st.randoms())
def test_the_order_of_the_schedules_changes_no_bit(case, random):
    graph, orders_ = case
    simulations, noise = [simulate(graph, order) for order in orders_], CostNoise(0.3, 33)
    overheads = noise.overheads(graph, simulations)
    places = list(range(len(simulations)))
    random.shuffle(places)
    shuffled = noise.overheads(graph, [simulations[place] for place in places])
    assert np.array_equal(shuffled, overheads[places])
    for simulation, row in zip(simulations, overheads, strict=True):
        assert np.array_equal(noise.overheads(graph, [simulation])[0], row)


@pytest.mark.parametrize("entries", [1, 7, 100])
def test_the_size_of_a_portion_changes_no_bit(monkeypatch, entries):
    simulations = [simulate(STAR, ONE_DEAR), simulate(STAR, MANY_CHEAP)]
    whole = CostNoise(0.5).overheads(STAR, simulations)
    monkeypatch.setattr(module, "ENTRIES", entries)
    assert np.array_equal(CostNoise(0.5).overheads(STAR, simulations), whole)


@FEW
@given(graphs_with_orders())
def test_no_overhead_is_negative_and_one_pass_has_none(case):
    graph, orders_ = case
    once = simulate(graph, [v for v in range(graph.n_nodes) if graph.needed[v]])
    overheads = CostNoise(1, 40).overheads(graph, [once, *(simulate(graph, order) for order in orders_)])
    assert not overheads[0].any()
    assert (overheads >= 0).all()


def test_the_mean_cost_is_that_of_the_graph():
    large = ComputationGraph.from_edges([(v, 2000) for v in range(2000)], compute=[1] * 2001)
    share = CostNoise(0.5, 1000).overheads(large, [simulate(large, [0, *range(2001)])])[0] * 2001
    assert share.mean() == pytest.approx(1, abs=0.05)
    assert share.std() == pytest.approx(0.5, abs=0.05)


def test_costs_beyond_the_range_of_exact_floats_are_rounded_not_refused():
    graph = ComputationGraph.from_edges([(0, 1)], compute=[2**51, 2**51])
    overheads = CostNoise(0.2, 10).overheads(graph, [simulate(graph, [0, 1]), simulate(graph, [0, 0, 1])])
    assert not overheads[0].any()
    assert ((overheads[1] > 0.2) & (overheads[1] < 0.8)).all()


def test_without_costs_there_is_no_overhead():
    graph = ComputationGraph.from_edges([(0, 1)], compute=[0, 0])
    assert not CostNoise(0.2, 10).overheads(graph, [simulate(graph, [0, 0, 1])]).any()


def test_a_simulation_of_another_graph_is_refused():
    with pytest.raises(GraphError, match="the simulation is of another graph"):
        CostNoise(0.2).overheads(STAR, [simulate(CHAIN, range(CHAIN.n_nodes))])


@pytest.mark.parametrize("deviation", [0, -0.1, 1.1, 20, float("nan"), float("inf"), True, "20%", None, 1j])
def test_a_noise_that_is_none_is_refused(deviation):
    with pytest.raises(ValueError, match=r"the cost noise is .*; give 0\.2 for"):
        CostNoise(deviation)


@pytest.mark.parametrize("count", [9, -1, 100_001, 2.5, True, "8"])
def test_a_number_of_samples_that_is_none_is_refused(count):
    with pytest.raises(ValueError, match=r"samples is .*; give a whole number, 10 to 100,000"):
        CostNoise(0.2, count)


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="seed is -1; give a whole number, 0 or more"):
        CostNoise(0.2, seed=-1)
    with pytest.raises(ValueError, match="seed is -1"):
        solve(CHAIN, "70%", cost_noise=0.2, seed=-1)


def test_numbers_of_numpy_are_taken():
    assert CostNoise(np.float32(0.5), np.int64(80), np.int32(3)) == CostNoise(0.5, 80, 3)


# ---------------------------------------------------------------- the robust choice


def test_many_cheap_nodes_are_more_robust_than_a_dear_one():
    candidates = candidates_of(STAR, ONE_DEAR, MANY_CHEAP)
    nominal = min(candidates, key=Problem.of(STAR, Budget("100%")).rank)
    assert nominal is candidates[0]
    robust, record = robust_of(candidates, CostNoise(0.2))
    assert robust.schedule is candidates[1].schedule
    assert (record["noise"], record["samples"], record["candidates"]) == (0.2, 4096, 2)
    assert record["nominal_overhead"] == 100 / STAR.needed_compute
    assert record["quantile"] < record["nominal_quantile"]


def test_with_hardly_any_noise_the_dear_node_is_cheaper():
    candidates = candidates_of(STAR, MANY_CHEAP, ONE_DEAR)
    assert robust_of(candidates, CostNoise(1e-3))[0].schedule is candidates[1].schedule


def test_of_candidates_that_run_everything_equally_often_the_lower_peak_is_taken():
    graph = ComputationGraph.from_edges([(0, 1), (2, 3), (1, 4), (3, 4)], memory=[8, 1, 8, 1, 1])
    candidates = candidates_of(graph, [0, 2, 1, 3, 4], [0, 1, 2, 3, 4])
    assert candidates[0].figures[0] > candidates[1].figures[0]
    for each in itertools.permutations(candidates):
        assert robust_of(each, CostNoise(0.9), graph=graph)[0].schedule is candidates[1].schedule


def test_what_does_not_fit_is_not_chosen():
    graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)], memory=[4, 1, 4, 1])
    candidates = candidates_of(graph, [0, 1, 2, 3], [0, 1, 0, 2, 3])
    low = min(candidate.figures[0] for candidate in candidates)
    assert robust_of(candidates, CostNoise(0.5), low, graph)[0].figures[0] <= low


def test_for_the_lowest_peak_the_peak_comes_first():
    graph = ComputationGraph.from_edges([(0, 1), (2, 3), (1, 4), (3, 4)], memory=[8, 1, 8, 1, 1])
    candidates = candidates_of(graph, [0, 2, 1, 3, 4], [0, 1, 0, 1, 2, 3, 4])
    assert robust_of(candidates, CostNoise(0.5), "least", graph)[0].schedule is candidates[1].schedule


def test_what_is_not_better_in_each_half_and_in_all_is_not_chosen():
    """The quantiles of the first are 5 and 2 in the halves, 3 in all."""
    candidates = candidates_of(ComputationGraph.from_edges([(0, 1)]), [0, 1], [0, 0, 1])
    noise = SimpleNamespace(deviation=0.2, samples=20, seed=0)
    rows = [[0] * 8 + [5, 5] + [0] * 8 + [2, 3], [0] * 8 + [4, 4] + [0] * 8 + [1, 3]]
    for last, ninth, chosen in ((4, 1, 0), (3.5, 1, 0), (2.5, 1, 1), (2.5, 2, 0)):
        rows[1][8:10], rows[1][18] = (last, last), ninth
        noise.overheads = lambda graph, simulations: np.array(rows, float)
        found, _ = robust_of(candidates, noise, graph=candidates[0].simulated.graph)
        assert found.schedule is candidates[chosen].schedule


@FEW
@given(graphs_with_orders(count=6), st.sampled_from([0.1, 0.6]), st.randoms())
def test_the_choice_is_that_of_a_direct_loop_in_whatever_order_candidates_come(case, deviation, random):
    graph, orders_ = case
    candidates = candidates_of(graph, *orders_)
    problem = Problem.of(graph, Budget(max(each.figures[0] for each in candidates)))
    first, record = choose_robust(problem, candidates, CostNoise(deviation, 50))
    costs = sampled_costs(graph, deviation, 50, 0)

    def quantiles(order):
        row = slow_overheads(graph, order, costs)
        return [slow_quantile(samples) for samples in (row[:25], row[25:], row)]

    chosen, nominal = (
        quantiles(first.schedule.order.tolist()),
        quantiles(min(candidates, key=problem.rank).schedule.order.tolist()),
    )
    low = min(quantiles(order)[0] for order in orders_)
    better = [mine < other - 1e-9 for mine, other in zip(chosen, nominal, strict=True)]
    assert all(better) or not any(better)
    assert chosen == pytest.approx([low, *chosen[1:]] if any(better) else nominal, rel=1e-9, abs=1e-10)
    assert (record["quantile"], record["nominal_quantile"]) == pytest.approx((chosen[2], nominal[2]), 1e-9, 1e-10)
    random.shuffle(candidates)
    again, same = choose_robust(problem, candidates, CostNoise(deviation, 50))
    assert (again.figures, same) == (first.figures, record)


def test_what_is_the_best_by_chance_is_rarely_chosen():
    """Fifty plans, each of which runs another node of cost 100 again, but one a node of cost 95: none is better."""
    graph = ComputationGraph.from_edges([(v, 50) for v in range(50)], compute=[95, *[100] * 49, 1000])
    candidates = candidates_of(graph, *([v, *range(51)] for v in range(50)))
    simulations = [each.simulated for each in candidates]
    noises = [CostNoise(0.5, 256, seed) for seed in range(30)]
    by_chance = sum(quantile(noise.overheads(graph, simulations)).argmin() > 0 for noise in noises)
    chosen = sum(robust_of(candidates, noise, graph=graph)[0].schedule.order[0] > 0 for noise in noises)
    assert chosen < by_chance / 2


# ---------------------------------------------------------------- solve


@settings(max_examples=20, deadline=None)
@given(training_graphs(max_nodes=14))
def test_with_no_noise_to_speak_of_the_overhead_is_the_nominal_one(graph):
    nominal = solve(graph, "100%", solver="greedy_remat")
    budget = max(nominal.peak_memory * 3 // 4, solve(graph, "least", solver="greedy_remat").peak_memory)
    plans = [solve(graph, budget, solver="greedy_remat", cost_noise=noise) for noise in (None, 1e-9)]
    assert plans[0].overhead == plans[1].overhead
    assert plans[1].peak_memory <= budget


def test_a_plan_may_be_robust_though_another_dominates_it():
    dear, cheap = candidates_of(STAR, ONE_DEAR, MANY_CHEAP)
    assert dear.figures[0] == cheap.figures[0]
    assert dear.figures[1] < cheap.figures[1]


@pytest.mark.parametrize("n_fitting", [0, 1, 3])
def test_a_portfolio_keeps_the_best_that_fit(n_fitting):
    def repeating(graph, task, clock):
        for count in (3, 1, 2, 4, 5, 9, 6, 7, 8):
            yield Schedule([0] * count + list(range(1, 53)))

    problem = Problem.of(STAR, Budget("100%"))
    portfolio = Portfolio(problem, Clock(), polish=False, n_fitting=n_fitting)
    portfolio.run([Solver(repeating, paper="", needs=any_graph, optimal_in=None)])
    assert len(portfolio.fitting) <= 2 * n_fitting
    lowest = sorted(int(each.simulated.runs[0]) for each in portfolio.fitting)
    assert lowest[:n_fitting] == [1, 2, 3][:n_fitting]


@pytest.mark.parametrize(("n_fitting", "names"), [(0, ["exact"]), (5, ["exact", "later"])])
def test_a_proof_at_the_costs_of_the_graph_ends_no_search_for_a_robust_plan(n_fitting, names):
    def exact(graph, task, clock):
        simulation = simulate(graph, ONE_DEAR)
        yield Candidate(simulation.schedule, bound=simulation.compute, scope="any order")

    def later(graph, task, clock):
        yield Schedule(MANY_CHEAP)

    facts = {"paper": "", "needs": any_graph, "optimal_in": None}
    problem = Problem.of(STAR, Budget("100%"))
    portfolio = Portfolio(problem, Clock(), polish=False, bound=0, n_fitting=n_fitting)
    portfolio.run([Solver(exact, **facts), Solver(later, **facts)])
    assert list(portfolio.results) == names


def test_solve_gives_the_robust_plan_of_one_solver(toy):
    assert solve(STAR, "100%", solver=toy, raw=True).schedule.order.tolist() == ONE_DEAR
    plan = solve(STAR, "100%", solver=toy, raw=True, cost_noise=0.2)
    assert plan.schedule.order.tolist() == MANY_CHEAP
    text = " ".join(str(plan).split())
    assert "cost noise 20 %: " in text
    assert " in 90 % of 4,096 samples; of the plan of least compute " in text
    assert "without noise 8.3 %" in text


def test_where_one_pass_fits_nothing_is_recomputed(toy):
    plan = solve(STAR, "100%", solver=toy, cost_noise=0.2)
    assert (plan.method, plan.overhead, plan.report.robust["quantile"]) == ("no_remat", 0, 0.0)
    assert "it is also the plan of least compute" in " ".join(str(plan).split())


@pytest.mark.parametrize("budget", ["70%", "least", Budget(overhead="20%"), Budget("80%", "30%"), None])
def test_the_robust_plan_meets_the_budget_and_is_deterministic(budget):
    nominal = solve(CHAIN, budget, effort="fast")
    plan, again = (solve(CHAIN, budget, cost_noise=0.4, seed=3, effort="fast") for _ in range(2))
    assert plan.schedule.order.tolist() == again.schedule.order.tolist()
    assert plan.report.robust == again.report.robust
    assert plan.limit is None or plan.peak_memory <= plan.limit
    assert verify(CHAIN, json.loads(plan.text())).overhead == plan.overhead
    record = plan.report.robust
    assert (record["seed"], record["quantile"]) == (3, quantile(CostNoise(0.4, seed=3).overheads(*pair(plan)))[0])
    if plan.limit is None or plan.budget.least:
        assert plan.peak_memory == nominal.peak_memory
    assert record["quantile"] <= quantile(CostNoise(0.4, seed=3).overheads(*pair(nominal)))[0]


def pair(plan):
    return plan.graph, [plan.simulation]


def test_the_robust_plan_keeps_to_the_constraints():
    free = solve(CHAIN, "60%", cost_noise=0.4)
    assert free.simulation.runs.max() > 1
    plan = solve(CHAIN, "70%", cost_noise=0.4, constraints={"max_runs": 2, "fixed_order": True})
    assert plan.simulation.runs.max() <= 2
    assert plan.peak_memory <= plan.limit


def test_all_solvers_are_tried_though_a_plan_meets_the_bound():
    without, plan = solve(CHAIN, "70%"), solve(CHAIN, "70%", cost_noise=0.2)
    assert without.gap == 0
    assert without.report.tried < plan.report.tried


def test_but_not_where_one_pass_fits():
    assert solve(CHAIN, "100%", cost_noise=0.2).report.tried == 1


@pytest.mark.parametrize("name", [each.name for each in list_allocators() if each.name != "peak"])
def test_other_allocators_are_refused(name):
    with pytest.raises(ValueError, match=f"cost_noise goes with allocator='peak'; leave out allocator='{name}'"):
        solve(CHAIN, "70%", allocator=name, cost_noise=0.2)


@pytest.mark.parametrize("noise", [0, 3])
def test_solve_refuses_a_noise_that_is_none(noise):
    with pytest.raises(ValueError, match="the cost noise is "):
        solve(CHAIN, "70%", cost_noise=noise)


def test_without_noise_nothing_is_recorded():
    plan = solve(CHAIN, "70%")
    assert plan.report.robust is None
    assert "cost noise" not in str(plan)


def test_a_plan_is_loaded_with_what_it_was_chosen_for(tmp_path):
    plan = solve(CHAIN, "70%", cost_noise=0.2)
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json", CHAIN).report.robust == plan.report.robust


@pytest.mark.parametrize(
    "robust", [5, "x", [], {}, {"noise": "x"}, {"noise": None}, {"samples": 10**400}, {"quantile": float("nan")}]
)
def test_a_file_that_was_chosen_for_something_else_is_refused(robust):
    record = solve(CHAIN, "70%", cost_noise=0.2).record()
    if isinstance(robust, dict):
        robust = {**record["details"]["robust"], **robust} if robust else robust
    with pytest.raises(PlanError, match='"robust" in the details of the plan is'):
        verify(CHAIN, {**record, "details": {**record["details"], "robust": robust}})


def test_large_graphs_have_fewer_samples():
    assert CostNoise.of(CHAIN, 0.2).samples == 4096
    large = differentiate(chain(10_000))
    assert CostNoise.of(large, 0.2).samples == (1 << 23) // large.n_nodes


def test_samples_that_need_too_much_memory_leave_the_plan_of_least_compute(monkeypatch):
    def exhausting(problem, candidates, noise):
        raise MemoryError

    monkeypatch.setattr("remat_algos.plan.criterion.choose_robust", exhausting)
    plan, usual = solve(CHAIN, "70%", cost_noise=0.2), solve(CHAIN, "70%")
    assert plan.overhead == usual.overhead
    assert plan.report.robust is None
    assert (plan.report.stop, plan.report.out_of_memory) == (Stop.OUT_OF_MEMORY, ("the samples of costs",))
    assert "stopped      out of memory in the samples of costs; this is the best plan found" in str(plan)


def test_quantiles_are_printed_of_the_plan_that_has_them(monkeypatch):
    """Also where it has more compute than the user's own start."""

    def dearest(problem, candidates, noise):
        fitting = [each for each in candidates if problem.fits(each)]
        return max(fitting, key=lambda each: each.figures[1]), {"noise": 0.2}

    monkeypatch.setattr("remat_algos.plan.criterion.choose_robust", dearest)
    start = solve(CHAIN, "50%").schedule
    plan = solve(CHAIN, "50%", cost_noise=0.2, start=start)
    assert plan.report.robust == {"noise": 0.2}
    assert plan.overhead > solve(CHAIN, "50%").overhead
