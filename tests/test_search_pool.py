"""What an allocator reserves: the budget holds for it, plans carry it, `verify` models it again."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.allocate import allocators
from remat_algos.allocate.allocators import (
    ALLOCATORS,
    Allocator,
    Reservation,
    allocator,
    get_allocator,
    list_allocators,
)
from remat_algos.allocate.pools import cuda_caching, cupy_pool
from remat_algos.context import Clock, Stop
from remat_algos.errors import AllocationError, ArgumentError, BudgetError, ClaimError, PlanError
from remat_algos.ir.budget import Budget
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan
from remat_algos.plan.verify import verify
from remat_algos.questions.compare import Comparison, compare
from remat_algos.schedule.emission import baseline, baseline_peak
from remat_algos.schedule.one_pass import lowest_pass
from remat_algos.search.pool import Pool
from remat_algos.search.solve import solve
from remat_algos.search.solver_run import SolverRun
from remat_algos.wording import format_bytes
from remat_algos.zoo.random import layered_dag, u_shape
from remat_algos.zoo.registry import build
from tests.raising import raises
from tests.strategies import training_graphs

pytestmark = pytest.mark.usefixtures("short_searches")

UNET = differentiate(build("unet", batch=1).graph)
GRAPH = differentiate(u_shape(20, memory=2**24))
KEYS = {"allocator", "used_memory", "least_reserved_memory", "reserved_memory", "ties", "fragmentation"}
MODELS = {"cupy_pool": cupy_pool, "cuda_caching": cuda_caching}


@pytest.fixture
def wasteful(monkeypatch):
    """Pools that reserve more than the simulated peak by as many bytes as the test says."""

    def waste(excess):
        def reserved(peak):
            return peak + excess(peak)

        replace_pools(monkeypatch, reserved)

    return waste


def replace_pools(monkeypatch, reserved, base=False):
    """Both pools reserve what a function of the peak says; with `base`, shares are of the peak."""
    for name in MODELS:

        def of(simulation, clock, name=name):
            peak = simulation.peak_memory
            return Reservation(name, reserved(peak), peak, peak)

        allocator = replace(get_allocator(name), function=named(of, name), own_base=not base)
        monkeypatch.setitem(ALLOCATORS, name, allocator)


def named(function, name):
    function.__name__ = name
    return function


def share_base(graph, allocator):
    return get_allocator(allocator).base(graph)


# ---------------------------------------------------------------- the budget


@given(training_graphs(max_nodes=12), st.integers(40, 300), st.sampled_from(sorted(MODELS)))
def test_the_budget_holds_for_what_is_reserved(graph, share, allocator):
    graph = graph.with_costs(memory=graph.memory * 600)
    limit = share * share_base(graph, allocator) // 100
    try:
        plan = solve(graph, f"{share}%", solver="chen_greedy", allocator=allocator)
    except BudgetError:
        assert share < 100
        plan = solve(graph, "least", solver="chen_greedy", allocator=allocator)
        assert plan.reservation.memory > limit  # so nothing was given up that this solver can do
    else:
        assert plan.reservation.memory <= plan.limit == limit
    use = MODELS[allocator](plan.simulation)
    assert (plan.reservation.least, plan.reservation.memory) == use.interval
    assert (plan.reservation.used, plan.reservation.ties) == (use.peak_used, use.ties.size)
    assert plan.peak_memory <= plan.reservation.used <= plan.reservation.memory
    verify(graph, plan)


def test_a_budget_holds_for_the_most_over_all_ways_to_break_ties():
    """Of a chain of six; CuPy holds 2048 bytes or 3584, as it splits a free chunk of the one size or of the other."""
    sizes = [512, 1536, 512, 1024, 512, 1536]
    graph = ComputationGraph.from_edges([(v, v + 1) for v in range(5)], memory=sizes)
    assert cupy_pool(baseline(graph)).interval == (2048, 3584)
    plan = solve(graph, 3584, solver="no_remat", allocator="cupy_pool")
    assert (plan.reservation.least, plan.reservation.memory, plan.reservation.ties) == (2048, 3584, 1)
    for limit in (3583, 2048):
        with raises(BudgetError, reserved=3584):
            solve(graph, limit, solver="no_remat", allocator="cupy_pool")
    for claim in (2048, 3583):
        with raises(ClaimError, name="reserved_memory", claimed=claim):
            verify(graph, {**plan.record(), "reserved_memory": claim})
    with raises(ClaimError, name="least_reserved_memory"):
        verify(graph, {**plan.record(), "least_reserved_memory": 3584})


@pytest.mark.parametrize("solver", ["auto", "greedy_remat"])
def test_where_more_is_reserved_a_lower_plan_is_found(wasteful, solver):
    alone = solve(GRAPH, "70%", solver=solver, effort="fast")
    wasteful(lambda peak: peak // 10)
    plan = solve(GRAPH, alone.limit, solver=solver, effort="fast", allocator="cupy_pool")
    assert plan.reservation.memory <= plan.limit == alone.limit
    assert plan.peak_memory <= alone.peak_memory
    assert plan.simulation.compute >= alone.simulation.compute
    # A bound for a lower limit is none of the plan.
    assert plan.bound.amount <= plan.simulation.compute
    assert solver == "auto" or plan.bound.source in ("closure", "moments")


def test_a_first_plan_that_is_lower_than_need_be_is_not_the_last(wasteful, monkeypatch):
    # far more is added at the first peak than below it, so the guess by this share goes too low
    alone = solve(GRAPH, "70%", solver="greedy_remat")
    wasteful(lambda found: 2 * found if found > 0.9 * alone.peak_memory else 0)
    plan = solve(GRAPH, alone.limit, solver="greedy_remat", allocator="cupy_pool")
    assert plan.reservation.memory <= plan.limit
    monkeypatch.setattr("remat_algos.search.tuning.MAX_FITTING", 0)
    monkeypatch.setattr("remat_algos.search.tuning.MAX_SEARCHES", 2)
    first = solve(GRAPH, alone.limit, solver="greedy_remat", allocator="cupy_pool")
    assert plan.simulation.compute < first.simulation.compute


def test_another_schedule_of_the_same_search_may_be_held(monkeypatch):
    asked = []

    def reserved(peak):
        asked.append(peak)
        return 10**12 if len(asked) == 1 else peak

    replace_pools(monkeypatch, reserved, base=True)
    monkeypatch.setattr("remat_algos.search.tuning.MAX_SEARCHES", 1)
    alone = solve(GRAPH, "70%", effort="fast")
    plan = solve(GRAPH, "70%", effort="fast", allocator="cupy_pool")
    assert plan.reservation.memory == plan.peak_memory == asked[1] <= plan.limit
    assert alone.peak_memory == asked[0]
    assert alone.overhead <= plan.overhead


def unwrapped(plan):
    """The lines of a plan, each in one piece and with one space between words."""
    return re.sub(r" +", " ", re.sub(r"\n {13}", " ", str(plan)))


def test_where_all_reserve_too_much_the_error_says_what_the_least_is(wasteful):
    wasteful(lambda peak: 10**9)
    with raises(BudgetError, allocator="cuda_caching", solver="chen_greedy") as error:
        solve(GRAPH, baseline_peak(GRAPH) * 7 // 10, solver="chen_greedy", effort="fast", allocator="cuda_caching")
    plan = error.value.plan
    assert plan.reservation.memory > baseline_peak(GRAPH) * 7 // 10 >= plan.peak_memory == error.value.reached
    assert error.value.fields["reserved"] == plan.reservation.memory
    with raises(BudgetError, limit=1):
        solve(GRAPH, 1, effort="fast", allocator="cupy_pool")


# ---------------------------------------------------------------- shares


@given(training_graphs(max_nodes=12), st.sampled_from(sorted(MODELS)))
def test_all_of_it_is_enough_for_the_run_without_rematerialization(graph, allocator):
    plan = solve(graph, "100%", allocator=allocator)
    assert plan.overhead == 0
    assert plan.limit == MODELS[allocator](baseline(graph)).peak_reserved
    verify(graph, plan)


@pytest.mark.parametrize("allocator", sorted(MODELS))
def test_a_share_is_of_what_the_same_allocator_reserves_without_rematerialization(allocator, tmp_path):
    base = MODELS[allocator](baseline(UNET)).peak_reserved
    plan = solve(UNET, "80%", solver="greedy_remat", allocator=allocator)
    assert (share_base(UNET, allocator), plan.limit) == (base, base * 80 // 100)
    share = f"{100 * plan.reservation.memory / base:.1f} % of what {allocator} reserves without rematerialization"
    assert share in unwrapped(plan)
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json", UNET).limit == plan.limit
    with raises(ClaimError, found=plan.limit):
        verify(UNET, {**plan.record(), "limit": baseline_peak(UNET) * 80 // 100})


def test_a_share_for_an_arena_is_of_the_peak():
    assert share_base(GRAPH, "arena") == share_base(GRAPH, "peak") == baseline_peak(GRAPH)


# ---------------------------------------------------------------- the least


def least_first(found):
    return found.reservation.memory, found.overhead


@pytest.mark.parametrize(("allocator", "solver"), [("cupy_pool", "greedy_remat"), ("cuda_caching", "chen_greedy")])
def test_no_budget_of_bytes_does_better_than_the_least(allocator, solver):
    least = solve(UNET, "least", solver=solver, allocator=allocator, effort="fast")
    simulation = solve(UNET, "least", solver=solver, effort="fast").simulation
    assert least_first(least) <= (MODELS[allocator](simulation).peak_reserved, simulation.overhead)
    for more in (1, 1.1):  # each of them is met
        limit = int(more * least.reservation.memory)
        bounded = solve(UNET, limit, solver=solver, allocator=allocator, effort="fast")
        assert least_first(least) <= least_first(bounded)
        assert bounded.reservation.memory <= bounded.limit
    assert least.limit is None
    verify(UNET, least)


def test_the_least_reserved_comes_first_then_the_least_overhead(wasteful):
    lowest = solve(GRAPH, "least", solver="greedy_remat")
    wasteful(lambda peak: 10**9 - peak)  # all the same: then nothing need run again
    assert solve(GRAPH, "least", solver="greedy_remat", allocator="cupy_pool").overhead == 0
    wasteful(lambda peak: 10**9 if peak == lowest.peak_memory else 0)
    above = solve(GRAPH, solver="greedy_remat", allocator="cupy_pool")
    assert lowest.peak_memory < above.peak_memory == above.reservation.memory
    wasteful(lambda peak: 0)
    assert solve(GRAPH, "least", solver="greedy_remat", allocator="cupy_pool").peak_memory == lowest.peak_memory


@pytest.mark.parametrize(
    "budget",
    [Budget(overhead="20%"), Budget("least", overhead="20%"), Budget("least", device="1000000kB")],
    ids=str,
)
def test_the_least_keeps_to_the_rest_of_the_budget(budget):
    found = solve(UNET, budget, solver="greedy_remat", allocator="cupy_pool")
    verify(UNET, found)
    assert found.reservation.memory < share_base(UNET, "cupy_pool")
    if budget.overhead:
        assert found.overhead <= UNET.needed_compute // 5


def test_the_least_for_a_device_that_is_too_small_says_what_is_reserved(wasteful):
    wasteful(lambda peak: 10**9)
    with raises(BudgetError, allocator="cupy_pool", limit=10**9):
        solve(GRAPH, Budget("least", device=10**9), solver="chen_greedy", allocator="cupy_pool")


@pytest.mark.parametrize("after", [1, 2, 30])
def test_an_interrupt_after_something_was_reserved_gives_the_best_so_far(monkeypatch, after):
    search, searches = SolverRun.begin, []

    def interrupted(self, *asked):
        searches.append(self)
        search(self, *asked)
        self.note(Stop.INTERRUPTED if len(searches) == after else Stop.DONE)

    monkeypatch.setattr(SolverRun, "begin", interrupted)
    plan = solve(UNET, "least", solver="greedy_remat", allocator="cupy_pool")
    assert plan.interrupted == (after <= len(searches))
    assert plan.reservation.memory <= cupy_pool(solve(UNET, "least", solver="greedy_remat").simulation).peak_reserved


def test_without_memory_for_another_search_the_plan_that_fits_is_kept(monkeypatch):
    def exhausted(*_):
        raise MemoryError

    monkeypatch.setattr(Pool, "_until_reserved", exhausted)
    plan = solve(GRAPH, "least", solver="chen_greedy", allocator="cupy_pool")
    assert plan.reservation.memory >= plan.peak_memory
    assert (plan.report.stop, plan.report.out_of_memory) == (Stop.OUT_OF_MEMORY, ("cupy_pool",))
    monkeypatch.setattr(Pool, "_search", exhausted)
    with pytest.raises(MemoryError):
        solve(GRAPH, "least", solver="chen_greedy", allocator="cupy_pool")


def test_no_second_search_when_the_time_is_over(monkeypatch):
    monkeypatch.setattr(Clock, "late", property(lambda clock: clock.deadline is not None))
    monkeypatch.setattr(Pool, "_until_reserved", None)
    plan = solve(GRAPH, "least", solver="chen_greedy", time_limit=1, allocator="cupy_pool")
    assert plan.reservation.memory >= plan.peak_memory


def test_no_order_is_asked_twice(monkeypatch):
    orders, reserve = [], get_allocator("cupy_pool").function

    def counted(simulation, clock):
        orders.append(simulation.schedule.order.tobytes())
        return reserve(simulation, clock)

    allocator = replace(get_allocator("cupy_pool"), function=named(counted, "cupy_pool"), own_base=False)
    monkeypatch.setitem(ALLOCATORS, "cupy_pool", allocator)
    solve(UNET, "60%", solver="greedy_remat", allocator="cupy_pool")
    assert len(orders) > 2
    assert len(set(orders)) == len(orders)


# ---------------------------------------------------------------- what is asked for


def test_the_peak_is_an_allocator_too():
    plan = solve(GRAPH, "90%", solver="chen_greedy")
    assert plan.reservation == get_allocator("peak").reserve(plan.simulation)
    assert plan.reservation.memory == plan.peak_memory
    assert (plan.reservation.record(), plan.reservation.rows()) == ({}, [])


def test_what_is_none_is_refused_before_the_search():
    with pytest.raises(AllocationError, match="known: arena, cuda_caching, cupy_pool, peak"):
        solve(GRAPH, 1, allocator="jemalloc")
    with pytest.raises(TypeError, match="allocator is None; give a string, such as 'peak'"):
        solve(GRAPH, 1, allocator=None)
    with raises(ArgumentError, alignment=64):
        solve(GRAPH, 1, allocator="cupy_pool", alignment=64)


def test_an_interrupt_while_searching_again_is_not_a_budget_that_cannot_be_met(monkeypatch):
    def interrupted(peak):
        raise KeyboardInterrupt

    replace_pools(monkeypatch, interrupted, base=True)
    with pytest.raises(KeyboardInterrupt):
        solve(GRAPH, "70%", solver="chen_greedy", allocator="cupy_pool")


@pytest.mark.parametrize("limit", ["70%", "100%"])
def test_an_interrupt_in_the_allocator_keeps_what_the_search_found(monkeypatch, limit):
    """It is asked once more: for the best candidate, and where that does not fit for the run that needs no search."""
    asked = []

    def reserved(peak):
        asked.append(peak)
        if len(asked) == 1:
            raise KeyboardInterrupt
        return peak

    replace_pools(monkeypatch, reserved, base=True)
    plan = solve(GRAPH, limit, solver="chen_greedy", allocator="cupy_pool")
    assert plan.interrupted
    assert asked == [plan.peak_memory] * 2
    assert plan.peak_memory <= plan.limit


def test_an_interrupt_in_the_allocator_leaves_one_pass_where_the_best_found_does_not_fit(monkeypatch):
    """The start is another order of one pass, of a lower peak: it ranks first."""
    graph, asked = layered_dag(18, seed=0), []
    own = lowest_pass(graph)

    def reserve(simulation, clock):
        asked.append(simulation)
        if len(asked) == 1:
            raise KeyboardInterrupt
        memory = 2**60 if simulation.schedule.order.tolist() == own.order.tolist() else simulation.peak_memory
        return Reservation("cupy_pool", memory, simulation.peak_memory, memory)

    allocator = replace(get_allocator("cupy_pool"), function=named(reserve, "cupy_pool"), own_base=False)
    monkeypatch.setitem(ALLOCATORS, "cupy_pool", allocator)
    plan = solve(graph, "100%", solver="search", start=own, allocator="cupy_pool")
    assert asked[0].peak_memory < baseline_peak(graph)
    assert (plan.method, plan.overhead, plan.interrupted) == ("no_remat", 0, True)


def test_an_interrupt_after_a_plan_was_found_leaves_that_plan(monkeypatch):
    lowest, asked = solve(GRAPH, "least", effort="fast").peak_memory, []

    def reserved(peak):
        if peak <= lowest:
            raise KeyboardInterrupt
        asked.append(peak)
        return 10**12 if len(asked) == 1 else peak

    replace_pools(monkeypatch, reserved, base=True)
    monkeypatch.setattr("remat_algos.search.tuning.MAX_SEARCHES", 1)
    plan = solve(GRAPH, "70%", allocator="cupy_pool", effort="fast")
    assert plan.interrupted
    assert plan.peak_memory in asked
    assert plan.peak_memory <= plan.limit


# ---------------------------------------------------------------- an allocator from outside


def test_an_allocator_from_outside_is_one_function(monkeypatch, tmp_path):
    monkeypatch.setattr(allocators, "ALLOCATORS", dict(ALLOCATORS))

    @allocator()
    def by_pages(simulation, clock, *, page=4096):
        """Whole pages for every value."""
        memory = -(-simulation.peak_memory // page) * page
        return Reservation("by_pages", memory, simulation.peak_memory, memory)

    assert "by_pages" in [allocator.name for allocator in list_allocators()]
    plan = solve(GRAPH, "70%", allocator="by_pages")
    assert plan.peak_memory <= plan.reservation.memory <= plan.limit
    assert plan.reservation.memory % 4096 == 0
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json", GRAPH).reservation == plan.reservation
    assert "of what by_pages reserves without rematerialization" in unwrapped(plan)
    assert compare(GRAPH, "70%", solvers=["chen_greedy"], allocator="by_pages").columns[2] == "reserved"


@pytest.mark.parametrize("allocator", list_allocators(), ids=lambda allocator: allocator.name)
def test_every_allocator_has_a_summary(allocator):
    assert re.fullmatch(r"\S.*\.", allocator.summary)
    assert allocator.name in repr(allocator)


@given(training_graphs(max_nodes=12))
def test_every_allocator_reserves_at_least_the_peak(graph):
    for each in list_allocators():
        found = each.reserve(baseline(graph))
        assert found.allocator == each.name
        assert baseline_peak(graph) <= found.used <= found.memory
        assert found.least <= found.memory


# ---------------------------------------------------------------- files, and what is claimed in them


@pytest.fixture(scope="module")
def plan():
    return solve(GRAPH, "100%", solver="chen_greedy", allocator="cupy_pool")


def changed(plan, **entries):
    return {**plan.record(), **entries}


def test_a_plan_says_what_is_reserved_and_load_reads_it_back(plan, tmp_path):
    base, limit = share_base(GRAPH, "cupy_pool"), f", limit {format_bytes(plan.limit)}"
    assert f"\nreserved {plan.reservation.text(base, limit)}\n" in unwrapped(plan)
    assert str(plan).count("limit") == 1
    assert plan.record().keys() >= KEYS
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json", GRAPH).reservation == plan.reservation
    alone = solve(GRAPH, "100%", solver="chen_greedy")
    assert not KEYS & alone.record().keys()


@pytest.mark.parametrize("name", sorted(KEYS - {"allocator"}))
def test_false_claims_are_denied(plan, name):
    with raises(ClaimError, name=name):
        verify(GRAPH, changed(plan, **{name: plan.record()[name] + 1 - 2 * (name == "reserved_memory")}))


@pytest.mark.parametrize(
    ("entry", "given"),
    [
        ("allocator", "none"),
        ("allocator", "jemalloc"),
        ("allocator", 3),
        *((name, bad) for name in ("ties", "used_memory") for bad in (-1, "1", None, True)),
    ],
)
def test_entries_of_another_kind_make_no_plan(plan, entry, given):
    with pytest.raises(PlanError, match=f'"{entry}" of the plan is'):
        verify(GRAPH, changed(plan, **{entry: given}))


def test_words():
    known, open_ended = Reservation("cupy_pool", 1024, 512, 1024), Reservation("cupy_pool", 2048, 512, 1024, 3)
    assert known.text(2048, ", limit 1.5 kB") == (
        "1 KiB (1,024 bytes), 50.0 % of what cupy_pool reserves without rematerialization, limit 1.5 kB; "
        "512 B allocated, fragmentation 50.0 %"
    )
    assert dict(open_ended.rows()) == {
        "used peak": "512 B allocated by cupy_pool",
        "reserved peak": "1 KiB (1,024 bytes) to 2 KiB (2,048 bytes), over the ways to break 3 ties",
        "fragmentation": "up to 75.0 %",
    }
    assert Reservation("arena", 0, 0, 0).fragmentation == 0


# ---------------------------------------------------------------- compare


def test_compare_has_a_column_for_what_is_reserved():
    found = compare(GRAPH, "90%", solvers=["no_remat", "chen_greedy"], allocator="cupy_pool")
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows()]
    plan = found.entries[0].plan
    assert (found.columns[2], found.noun) == ("reserved", "reserved")
    base = cupy_pool(baseline(GRAPH)).peak_reserved
    assert rows[0]["reserved"] == format_bytes(plan.reservation.memory)
    assert rows[0]["of base"] == f"{100 * plan.reservation.memory / base:.1f} %"
    assert (rows[1]["reserved"], rows[1]["of base"]) == ("", "")
    record = found.record()
    assert record["reserved_without_rematerialization"] == base
    assert record["solvers"][0].keys() >= KEYS


def test_compare_tells_what_fits_but_not_as_it_is_reserved(wasteful):
    wasteful(lambda peak: 2**40)
    found = compare(GRAPH, "90%", solvers=["chen_greedy"], allocator="cuda_caching")
    assert found.notes() == ["chen_greedy: does not fit as reserved"]


def test_compare_without_an_allocator_has_no_such_column():
    found = compare(GRAPH, "90%", solvers=["chen_greedy"])
    assert {*found.columns} == {*Comparison.COLUMNS} - {"bound"}


def test_an_allocator_is_given_the_options_that_it_has(monkeypatch):
    def of_pages(simulation, clock, *, alignment=1):
        return cupy_pool_allocator.reserve(simulation)

    cupy_pool_allocator = get_allocator("cupy_pool")
    monkeypatch.setitem(ALLOCATORS, "of_pages", Allocator(of_pages))
    assert solve(GRAPH, "least", effort="fast", allocator="of_pages", alignment=64).reservation.memory > 0


@pytest.mark.parametrize("budget", ["70%", "least"])
def test_a_report_is_of_the_run_that_its_order_was_reserved_for(monkeypatch, budget):
    """Later runs, for other peaks, may find the order again."""
    reports, note = {}, Pool._note_report

    def noting(self, run, candidate):
        key = candidate.schedule.order.tobytes()
        if not any(key == each.tobytes() for each in reserved):
            reports[key] = run.report(candidate)
        note(self, run, candidate)

    reserved, reserve = [], Pool._reserve

    def reserving(self, candidate):
        reserved.append(candidate.schedule.order)
        return reserve(self, candidate)

    monkeypatch.setattr(Pool, "_note_report", noting)
    monkeypatch.setattr(Pool, "_reserve", reserving)
    plan = solve(GRAPH, budget, effort="fast", allocator="cupy_pool")
    assert plan.report.simulated == reports[plan.schedule.order.tobytes()].simulated
