"""Lower bounds on compute in plans, comparisons and frontiers, and on the command line."""

import functools
import json
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

import remat_algos.search.pool as bounding
import remat_algos.search.without_copies as keeping
from remat_algos.bounds.bound import LowerBound, Prices
from remat_algos.bounds.rising import bound_curve, rising
from remat_algos.context import Clock, Interrupted, Stop
from remat_algos.errors import BudgetError, ClaimError, PlanError
from remat_algos.formats.graphs.json_text import to_json
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan, cells
from remat_algos.plan.verify import verify
from remat_algos.questions.compare import compare
from remat_algos.questions.frontier import frontier
from remat_algos.schedule.emission import baseline_peak
from remat_algos.search.solve import solve
from remat_algos.zoo.random import chain
from remat_algos.zoo.registry import build
from tests.raising import raises

pytestmark = pytest.mark.usefixtures("short_searches")

GRAPH = differentiate(build("resnet18").graph)


@functools.cache
def plan_at_half():
    return solve(GRAPH, "50%", effort="fast")


def record_at_half():
    """The record of that plan, for a test to change."""
    return json.loads(json.dumps(plan_at_half().record()))


def bounds(graph, limit, **options):
    return list(rising(graph, limit, **options))


# ---------------------------------------------------------------- the search


@pytest.mark.parametrize("effort", ["fast", "default"])
def test_bounds_rise_from_one_pass(effort):
    limit = baseline_peak(GRAPH) * 6 // 10
    found = [bound.amount for bound in bounds(GRAPH, limit, effort=effort)]
    assert found[0] == GRAPH.needed_compute
    assert found == sorted(set(found))
    assert found[-1] > found[0]


def test_more_effort_never_lowers_a_bound():
    for share in (30, 50, 80):
        limit = baseline_peak(GRAPH) * share // 100
        assert bounds(GRAPH, limit)[-1].amount >= bounds(GRAPH, limit, effort="fast")[-1].amount


def test_without_a_limit_one_pass_is_the_bound():
    (bound,) = bounds(GRAPH, None)
    assert (bound.amount, bound.source, bound.nodes) == (GRAPH.needed_compute, "one pass", ())


def test_a_bound_for_a_larger_limit_is_a_start():
    high, low = (baseline_peak(GRAPH) * share // 100 for share in (70, 50))
    start = bounds(GRAPH, high, effort="fast")[-1]
    found = bounds(GRAPH, low, effort="fast", start=start)
    assert found[0] is start
    known = bounds(GRAPH, low, closure=found[-1])
    assert known[-1].amount == bounds(GRAPH, low)[-1].amount
    with pytest.raises(ValueError, match="node 5000 is not needed"):
        bounds(GRAPH, low, start=LowerBound(0, (5000,), Prices(1)))
    assert found[-1].amount == bounds(GRAPH, low, effort="fast")[-1].amount


def test_a_curve_never_falls_as_the_limit_falls():
    base = baseline_peak(GRAPH)
    curve = bound_curve(GRAPH, [base * i // 20 for i in range(1, 21)], Clock(), effort="fast")
    computes = [bound.amount for bound in curve.bounds if not bound.infeasible]
    assert computes == sorted(computes, reverse=True)
    assert curve.at(base * 2).amount == GRAPH.needed_compute
    assert curve.bounds[0].infeasible


def test_a_curve_that_is_cut_short_holds_what_was_proven():
    clock = Clock(0)
    curve = bound_curve(GRAPH, [baseline_peak(GRAPH) // 2], clock, effort="fast")
    assert not curve.stop.complete
    assert curve.bounds[0].amount == GRAPH.needed_compute


# ---------------------------------------------------------------- plans


def test_every_plan_has_a_bound_of_any_order_and_verify_proves_it():
    for budget in ("80%", "50%", "least"):
        plan = solve(GRAPH, budget, solver="chen_greedy")
        assert plan.bound.scope == "any order"
        assert GRAPH.needed_compute <= plan.bound.amount <= plan.simulation.compute
        assert plan.bound.source in ("one pass", "closure", "moments")
        verify(GRAPH, plan)


@pytest.mark.parametrize("effort", ["fast", "default"])
def test_a_raised_bound_is_refused_with_the_step_that_disproves_it(tmp_path, effort):
    plan = solve(GRAPH, "50%", effort=effort)
    assert plan.bound.source == {"fast": "closure", "default": "moments"}[effort]
    record = plan.record()
    record["bound"] = plan.simulation.compute
    record["gap"] = 0.0
    with raises(ClaimError, claimed=record["bound"], by=record["details"]["bound"]["nodes"]):
        verify(GRAPH, record)
    plan.save(tmp_path / "plan.json")
    loaded = Plan.load(tmp_path / "plan.json", GRAPH)
    assert (loaded.bound.amount, loaded.bound.source, loaded.record()["details"]["bound"]) == (
        plan.bound.amount,
        plan.bound.source,
        record["details"]["bound"],
    )


@pytest.mark.parametrize(
    "claim",
    [
        None,
        {},
        {"nodes": []},
        {"nodes": ["no such node"], "price": "1/2^3"},
        {"nodes": [True], "price": "1/2^3"},
        {"nodes": "conv1", "price": "1/2^3"},
        {"price": "1/2^3"},
        *({"nodes": None, "price": price} for price in ("", "1", "1/2^", "-1/2^3", "1/2^99999", 3, "9" * 60 + "/2^0")),
    ],
)
def test_a_bound_that_names_no_node_or_no_price_is_no_plan(claim):
    record = record_at_half()
    nodes = record["details"]["bound"]["nodes"]
    if isinstance(claim, dict) and claim.get("nodes", 0) is None:
        claim = claim | {"nodes": nodes}
    record["details"]["bound"] = claim
    with pytest.raises(PlanError):
        verify(GRAPH, record)


def test_what_is_proven_to_fit_nowhere_is_said_with_the_proof():
    """When node 4 runs first, both values of 10 bytes are still to be read, and neither can be computed again."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (1, 6)]
    once = [v in (0, 3) for v in range(7)]
    graph = ComputationGraph.from_edges(edges, memory=[10, 10, 1, 10, 10, 1, 1], once=once)
    (bound,) = [bound for bound in bounds(graph, 25) if bound.infeasible]
    assert (bound.nodes, bound.forced, bound.source) == ((4,), 30, "closure")
    with raises(BudgetError, limit=25, lower_bound=30, forcing=["4"]):
        solve(graph, 25)


def test_the_lowest_peak_has_the_bound_of_its_own_peak():
    plan = solve(differentiate(chain(12)), "least")
    assert plan.bound.amount > plan.graph.needed_compute
    verify(plan.graph, plan)


def test_auto_stops_at_a_plan_that_meets_the_bound():
    plan = solve(GRAPH, "100%")
    assert (plan.gap, plan.report.tried, cells(plan, ("bound", "gap"))) == (0.0, 1, ("0.0 %", "optimal"))
    assert "optimal: no schedule" in " ".join(str(plan).split())


@pytest.fixture
def bounds_asked(monkeypatch):
    """The efforts of all lower bounds that were searched; after "interrupt" the next is stopped at its first bound."""
    real, asked = bounding.rising, []

    def rising(*arguments, **options):
        asked.append(options["effort"])
        for bound in real(*arguments, **options):
            yield bound
            if asked[:1] == ["interrupt"]:
                asked.clear()
                raise KeyboardInterrupt

    monkeypatch.setattr(bounding, "rising", rising)
    return asked


READERS = (
    lambda plan: plan.bound,
    Plan.record,
    str,
    pickle.dumps,
    lambda plan: replace(plan, seconds=1.0).bound,
    functools.partial(cells, columns=("bound",)),
)


@pytest.mark.parametrize("reader", READERS)
def test_the_bound_of_a_solver_named_alone_is_computed_when_it_is_read(bounds_asked, reader):
    plan = solve(GRAPH, "50%", solver="chen_greedy", effort="fast")
    assert (repr(plan), plan.overhead > 0, bounds_asked) == (repr(plan), True, [])
    reader(plan)
    asked = len(bounds_asked)
    assert (asked > 0, pickle.loads(pickle.dumps(plan)).gap) == (True, plan.gap)
    assert len(bounds_asked) == asked
    assert plan.bound.amount == plan_at_half().bound.amount


def test_a_bound_that_is_read_after_an_interrupt_takes_little_work(bounds_asked, monkeypatch):
    def interrupted(*arguments):
        raise Interrupted("interrupted")

    monkeypatch.setattr(keeping, "without_copies", interrupted)
    monkeypatch.setattr("remat_algos.search.solve.without_copies", lambda request, clock: keeping.least(request, clock))
    plan = solve(GRAPH, "least", solver="liveness_dp", effort="best")
    assert (plan.interrupted, plan.overhead > 0, bounds_asked) == (True, True, [])
    assert plan.bound.amount <= plan.simulation.compute
    assert set(bounds_asked) == {"fast"}


def test_a_bound_in_place_of_one_that_was_not_computed_stays(bounds_asked):
    given = LowerBound(GRAPH.needed_compute)
    plan = replace(solve(GRAPH, "50%", solver="chen_greedy", effort="fast"), bound_or_search=given)
    assert (plan.bound, bounds_asked) == (given, [])


def test_threads_that_read_a_bound_compute_it_once(bounds_asked):
    plan = solve(GRAPH, "50%", solver="chen_greedy", effort="fast")
    again = replace(plan, seconds=1.0).bound
    asked, plan = len(bounds_asked), solve(GRAPH, "50%", solver="chen_greedy", effort="fast")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: plan.bound, range(8)))
    assert (len({*map(id, found)}), len(bounds_asked)) == (1, 2 * asked)
    assert found[0].amount == again.amount


@pytest.mark.parametrize(("options", "first"), [({"solver": "auto"}, 1), ({"solver": "search"}, 1), ({"raw": True}, 0)])
def test_a_search_that_may_end_at_a_bound_computes_it_first(bounds_asked, options, first):
    plan = solve(GRAPH, "50%", effort="fast", **options)
    assert (len(bounds_asked) > 0) == first
    assert plan.bound.amount == plan_at_half().bound.amount


def test_a_bound_is_computed_in_what_is_left_of_the_time_limit(bounds_asked):
    late = solve(GRAPH, "100%", solver="no_remat", time_limit=0)
    assert (late.bound.amount, late.gap) == (GRAPH.needed_compute, 0)


def test_an_interrupt_of_a_bound_leaves_the_bound_so_far(bounds_asked):
    plan = solve(GRAPH, "50%", solver="chen_greedy", effort="fast")
    bounds_asked.append("interrupt")
    with pytest.raises(KeyboardInterrupt, match="interrupted while the lower bound was computed"):
        str(plan)
    assert plan.bound.amount >= GRAPH.needed_compute


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("bounds", "; did you mean bound?"),
        ("peak_memry", "; did you mean peak_memory?"),
        ("compute", "; use plan.simulation.compute"),
        ("cost", "; use plan.simulation.compute, or plan.overhead for the recomputation"),
        ("peak", "; use plan.peak_memory"),
        ("memory", "; use plan.peak_memory"),
        ("order", "; use plan.schedule.order"),
        ("runs", "; use plan.simulation.runs"),
        ("optimal", "; use plan.gap, which is 0.0 for a plan that is proven optimal"),
        ("zzz", ""),
    ],
)
def test_a_name_that_a_plan_does_not_have_is_told_the_near_one(name, remedy):
    plan = plan_at_half()
    with pytest.raises(AttributeError) as error:
        getattr(plan, name)
    assert str(error.value) == f"a plan has no attribute {name!r}{remedy}"
    if "; use plan." in remedy:
        found = plan
        for each in re.match(r"; use plan\.([\w.]+)", remedy)[1].split("."):
            found = getattr(found, each)


def test_no_needed_node_one_node_and_no_cost():
    one = ComputationGraph.from_arrays(read_indptr=[0, 0], read_indices=[], memory=[4], compute=[3])
    assert solve(one, 4).gap == 0.0
    free = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(6)], compute=0))
    plan = solve(free, "least")
    assert (plan.bound.amount, plan.simulation.compute) == (0, 0)


# ---------------------------------------------------------------- comparisons and frontiers


def test_all_solvers_share_one_bound():
    found = compare(GRAPH, "50%", solvers=["chen_greedy", "chen_sqrt", "twremat"])
    plans = [entry.plan for entry in found.entries if entry.plan is not None]
    assert len({(plan.bound.amount, plan.bound.source) for plan in plans}) == 1
    assert plans[0].bound.amount > GRAPH.needed_compute
    assert (found.bound, "bound" in found.columns) == (plans[0].bound, False)
    assert any(plans[0].bound.source in line for line in found.heading())
    place = found.columns.index("gap")
    for row, plan in zip(found.rows(), plans, strict=False):
        assert (row[place],) == cells(plan, ["gap"])


def test_a_frontier_has_bounds_that_fall_as_the_peak_rises():
    found = frontier(GRAPH, solvers=["chen_greedy", "liveness_dp"])
    bounds = [plan.bound.amount for plan in found.plans]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] > GRAPH.needed_compute
    for curve in found.curves.values():
        for plan in curve:
            assert plan.bound.amount <= plan.simulation.compute
    for plan in found.plans[:: max(1, len(found.plans) // 4)]:
        verify(GRAPH, plan)
    assert {"bound", "gap"} <= set(found.COLUMNS)
    assert all("gap" in point for point in found.record()["points"])


def test_bounds_of_a_comparison_under_an_allocator_are_computed_within_it(bounds_asked):
    found = compare(GRAPH, "70%", solvers=["chen_greedy", "chen_sqrt"], allocator="arena", effort="fast")
    plans = [entry.plan for entry in found.entries]
    assert (len(bounds_asked) > 0, [callable(plan.bound_or_search) for plan in plans]) == (True, [False, False])
    bounds_asked[:] = ["interrupt"]
    found = compare(GRAPH, "70%", solvers=["chen_greedy", "chen_sqrt"], allocator="arena", effort="fast")
    first, second = found.entries
    assert (first.plan.interrupted, callable(first.plan.bound_or_search), second.plan) == (True, False, None)
    assert (second.reason, found.stop) == ("not tried: interrupted", Stop.INTERRUPTED)


def test_a_moment_bound_that_takes_too_long_is_refused_by_verify_and_a_claim_of_a_loaded_plan(monkeypatch, tmp_path):
    from remat_algos.plan import check_claims as room

    plan = solve(GRAPH, "50%")
    assert plan.bound.source == "moments"
    plan.save(tmp_path / "plan.json")
    verify(GRAPH, plan)
    assert Plan.load(tmp_path / "plan.json", GRAPH).bound.proven
    monkeypatch.setattr(room, "prove", lambda graph, *_, **__: LowerBound(graph.needed_compute, stopped=True))
    with raises(ClaimError, proven=GRAPH.needed_compute):
        verify(GRAPH, plan)
    assert not Plan.load(tmp_path / "plan.json", GRAPH).bound.proven


# ---------------------------------------------------------------- remat bound


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chain.edges.csv").write_text("src,dst\n" + "".join(f"v{i},v{i + 1}\n" for i in range(8)))
    (tmp_path / "chain.nodes.csv").write_text("name,memory,compute\n" + "".join(f"v{i},1,1\n" for i in range(9)))


def test_remat_bound_says_what_proves_it(small, remat):
    said = remat("bound", "chain.nodes.csv", "--budget", "7", "--effort", "fast")
    assert said.code == 0
    assert "29, 16.0 % more than one pass (closure)" in said.out
    for label in ("limit", "proved at", "must be live", "kept", "recomputed", "bound"):
        assert f"\n{label} " in said.out
    record = remat("bound", "chain.nodes.csv", "--budget", "7", "--effort", "fast", "--json").record
    (entry,) = record["bounds"]
    assert (entry["bound"], entry["overhead"], entry["limit"], entry["source"]) == (29, 4, 7, "closure")
    graph = differentiate(ComputationGraph.from_edges([(f"v{i}", f"v{i + 1}") for i in range(8)]))
    claim = LowerBound.claimed(graph, 29, {"nodes": entry["nodes"], "price": entry["price"]})
    assert graph.labels[claim.nodes[0]] == entry["nodes"][0]
    assert len(entry["closure"]["recomputed"]) == 7  # of cuts that prove the same, the one of fewest bytes


def test_remat_bound_of_several_budgets_is_a_table(small, remat):
    said = remat("bound", "chain.nodes.csv", "--budget", "3,5,7,100%", "--plot", "-")
    assert said.code == 0
    rows = [line.split() for line in said.lines if line.strip()[:3] in ("3 B", "5 B", "7 B", "11 ")]
    assert "no schedule fits" in said.out
    assert len(rows) >= 4
    assert "lower bounds for 18 nodes" in said.out


def test_remat_bound_where_nothing_fits(small, remat):
    said = remat("bound", "chain.nodes.csv", "--budget", "3")
    assert said.code == 3
    assert "lower bound  no schedule fits: 4 B are live at the first run of" in said.out


def test_remat_bound_where_two_paths_prove_that_nothing_fits(remat, tmp_path):
    """Nodes 1 and 3 have 9 bytes live each; whichever runs last has 2 bytes of the other beside it.

    0 (4) -> 1 (3, workspace 2) -> 2 (2) -> 5 (1)        0 -> 3 (3, workspace 2) -> 4 (2) -> 5
    """
    edges = [(0, 1), (1, 2), (2, 5), (0, 3), (3, 4), (4, 5)]
    graph = ComputationGraph.from_edges(edges, memory=[4, 3, 2, 3, 2, 1], workspace=[0, 2, 0, 2, 0, 0])
    assert solve(graph, 11).peak_memory == 11
    with raises(BudgetError, reached=11, lower_bound=11, one="1", other="3") as error:
        solve(graph, 10)
    assert error.value.nodes == (1, 3)
    (tmp_path / "paths.json").write_text(to_json(graph))
    said = remat("bound", str(tmp_path / "paths.json"), "--budget", "10", "--inference")
    assert said.code == 3
    assert "lower bound  no schedule fits: 11 B are live at a run of 1 or 3" in said.out
    several = remat("bound", str(tmp_path / "paths.json"), "--budget", "10,12", "--inference")
    assert any(re.search(r"no schedule fits .* 1 or 3$", line) for line in several.lines)
    record = remat("bound", str(tmp_path / "paths.json"), "--budget", "10", "--inference", "--json").record
    assert (record["bounds"][0]["source"], record["bounds"][0]["nodes"]) == ("two paths", [1, 3])
    shown = remat("show", str(tmp_path / "paths.json"), "--inference")
    assert any(re.fullmatch(r"lower bound\s+11 B: 1 or 3", line) for line in shown.lines)


def test_remat_bound_draws_a_picture(small, remat, tmp_path):
    said = remat("bound", "chain.nodes.csv", "--budget", "5,7,9", "--plot", "bounds.png")
    assert said.code == 0
    assert (tmp_path / "bounds.png").stat().st_size > 5_000


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--budget", "least"), "'least' needs a search"),
        (("--budget", "7 apples"), "7 apples"),
        (("--budget", ","), "--budget"),
        ((), "--budget"),
    ],
)
def test_remat_bound_refuses_in_one_sentence(small, remat, words, sentence):
    said = remat("bound", "chain.nodes.csv", *words)
    assert said.code == 2
    assert sentence in said.err
    assert "Traceback" not in said.err
