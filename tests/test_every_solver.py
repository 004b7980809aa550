"""The contract of a solver, played with every solver that the registry finds."""

import importlib
import inspect
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remat_algos.allocate.allocators import allocator
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.context import WHOLE, Clock
from remat_algos.errors import ArgumentError, ArgumentTypeError, BudgetError, GraphError, ScheduleError
from remat_algos.ir.budget import Budget
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Backward
from remat_algos.plan.verify import verify
from remat_algos.questions.compare import compare
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.schedule import Schedule
from remat_algos.search.auto import SPECIAL, TABLE, default_solvers
from remat_algos.search.infeasible import budget_error
from remat_algos.search.limits import Limits
from remat_algos.search.solve import solve
from remat_algos.solvers import registry
from remat_algos.solvers.methods.no_remat import no_remat
from remat_algos.solvers.registry import (
    SCOPES,
    Candidate,
    Solver,
    Task,
    any_graph,
    get_solver,
    list_candidates,
    list_solvers,
)
from tests.oracles import chains as chains_oracle
from tests.oracles import live_sets, staged
from tests.oracles.closure import forced_bytes, moment, result_bytes, two_path_bound
from tests.oracles.plain import plain
from tests.oracles.search import least_compute, least_peak
from tests.oracles.simulation import slow_simulation
from tests.raising import raises
from tests.small_graphs import graph_of, training_chain
from tests.strategies import captured_graphs, graphs, stage_chains, training_graphs, unit_chains

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.usefixtures("short_searches")

SOLVERS = list_solvers()
PLAYED = settings(max_examples=5)  # for each of many solvers
each_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
served = training_graphs(max_nodes=16) | captured_graphs(max_nodes=16)
tiny = training_graphs(max_nodes=7) | captured_graphs(max_nodes=7)
chains = stage_chains() | unit_chains()
any_kind = graphs(max_nodes=9) | served


@st.composite
def marked_graphs(draw):
    """Training graphs with wishes for some forward nodes."""
    graph = draw(training_graphs(max_nodes=14))
    mark = [draw(st.sampled_from([0, 0, 1, 2])) if forward else 0 for forward in graph.forward]
    mark = np.where(graph.once & (np.array(mark) == 2), 1, mark)
    return replace(graph, mark=mark, derivation=None)


def diamond():
    """0 -> 1 -> 3, 0 -> 2 -> 3, with its gradients."""
    return differentiate(graph_of([[], [0], [0], [1, 2]]))


def loose_bound():
    """A graph whose lowest peak, 16, lies above its lower bound, 15."""
    return differentiate(graph_of([[], [0], [1], [0, 2], [1, 3]], memory=[2, 1, 1, 3, 4]))


def by_hand():
    """Graphs that people forget."""
    nothing_saved = Backward([0, 0, 0, 0], [], [1, 1, 1], [-1, -1, -1], [0, 0, 0])
    several = graph_of([[], [0, 1], [1, 3]], value_indptr=[0, 2, 4, 5], memory=[3, 1, 4, 1, 5], compute=[2, 7, 1])
    return {
        "no node": graph_of([]),
        "one node": graph_of([[]]),
        "two nodes": graph_of([[], [0]]),
        "two nodes apart": graph_of([[], []]),
        "one node and its gradient": differentiate(graph_of([[]])),
        "two nodes and their gradients": differentiate(graph_of([[], [0]])),
        "two components": differentiate(graph_of([[], [0], [1], [], [3], [4]])),
        "several values": differentiate(several),
        "once": training_chain(6, once=[False, True, False, True, False, False]),
        "all once": training_chain(6, once=True),
        "zero memory": training_chain(6, memory=0),
        "zero compute": training_chain(6, compute=0),
        "workspace": training_chain(6, workspace=[0, 9, 0, 0, 5, 0]),
        "nothing saved": differentiate(graph_of([[], [0], [1]], backward=nothing_saved)),
        "a node that nobody needs": differentiate(graph_of([[], [0], [0]], output=[False, True, False])),
        "outputs that stay": differentiate(
            graph_of([[], [0], [1]], output=[True, True, True]), keep_outputs=True, loss=["2"]
        ),
        "gradients of no one node": replace(
            training_chain(5), forward_of=[*[-1] * 5, 4, -2, 2, -2, -2], derivation=None
        ),
        "gradients of no node at all": replace(diamond(), forward_of=[*[-1] * 4, *[-2] * 5], derivation=None),
        "wishes": replace(training_chain(5), mark=[1, 2, 0, 2, 1, 0, 0, 0, 0, 0], derivation=None),
    }


BY_HAND = by_hand()
each_graph = pytest.mark.parametrize("graph", BY_HAND.values(), ids=BY_HAND)


def base_peak(graph):
    """Peak of the run without rematerialization, by the oracle."""
    g = plain(replace(graph, mark=None))
    return slow_simulation(g, sorted(g.needed())).peak


def function_peak(solver, graph, limit, **options):
    """The lowest peak of what a solver yields by itself, which may be thousands of schedules."""
    lowest = min(list_candidates(graph, solver.name, limit, **options), key=lambda found: found.figures)
    assert lowest.figures[0] == slow_simulation(graph, lowest.schedule.order).peak
    return lowest.figures[0]


def served_by(solver):
    """Graphs that a solver serves: training graphs, or those of its special form."""
    return chains.filter(lambda graph: solver.needs(graph) is None) if solver.name in SPECIAL else served


def limits(graph):
    return st.integers(0, base_peak(graph) + 1)


def raw_plan(solver, graph, limit=None):
    """What a solver gives under a limit, or why it gives nothing."""
    try:
        return solve(graph, limit, solver=solver.name, raw=True)
    except (BudgetError, ScheduleError) as error:
        return error


def check_plan(graph, plan):
    """Sound, and all figures are the oracle's."""
    slow = slow_simulation(graph, plan.schedule.order)
    figures = plan.peak_memory, plan.simulation.compute, plan.overhead, plan.simulation.memory_trace.tolist()
    assert figures == (slow.peak, slow.compute, slow.overhead, slow.trace)
    assert plan.limit is None or plan.peak_memory <= plan.limit


# ---------------------------------------------------------------- what the registry knows


def test_the_registry_finds_every_solver_in_the_folder_and_nothing_else():
    decorated = {
        file
        for file in (ROOT / "remat_algos" / "solvers").rglob("*.py")
        if re.search(r"^@solver\(", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    methods = ROOT / "remat_algos" / "solvers" / "methods"
    assert {solver.name for solver in list_solvers()} == {file.stem for file in decorated}
    assert decorated == set(methods.glob("*.py")) - {methods / "__init__.py"}  # what listing imports: no helper


def test_solvers_are_listed_by_name_and_each_once():
    names = [solver.name for solver in list_solvers()]
    assert names == sorted(set(names))
    assert "auto" not in names


@pytest.mark.parametrize("word", ["auto", "start"])
def test_words_of_solve_are_no_names_of_solvers(word):
    def function(graph, task, clock):
        yield Schedule([])

    function.__name__ = word
    with raises(ArgumentError, function=word):
        registry.solver()(function)
    assert word not in [solver.name for solver in list_solvers()]
    assert list_solvers() == list_solvers()


@each_solver
def test_file_function_and_registered_name_are_one_and_a_paper_is_referred_to(solver):
    module = importlib.import_module(f"remat_algos.solvers.methods.{solver.name}")
    assert getattr(module, solver.name) is solver.function
    assert get_solver(solver.name) is solver
    assert solver.optimal_in in (None, *SCOPES)
    assert re.fullmatch(r"\S.*\.", solver.summary)
    documentation = inspect.getdoc(solver.function)
    assert re.fullmatch(r"([a-z]+[0-9]{4}[a-z]?)?", solver.paper)
    if solver.paper:
        _, heading, references = documentation.partition("References\n----------\n")
        assert heading
        assert solver.paper in references
        bibliography = ROOT / "docs" / "references.bib"
        if bibliography.exists():
            assert re.search(rf"\{{{solver.paper},", bibliography.read_text(encoding="utf-8"))


@each_solver
def test_options_are_keyword_only_and_documented(solver):
    parameters = inspect.signature(solver.function).parameters.values()
    own = list(parameters)
    assert [p.name for p in own[:3]] == ["graph", "task", "clock"]
    assert {p.name: p.default for p in own[3:]} == solver.options
    assert all(p.kind is p.KEYWORD_ONLY for p in own[3:])
    documented = set(re.findall(r"^(\w+(?:, \w+)*) : ", inspect.getdoc(solver.function), re.MULTILINE))
    assert set(solver.options) <= {name for line in documented for name in line.split(", ")}


def test_a_class_that_is_none_is_refused():
    with raises(ArgumentError, optimal_in="best", scopes=SCOPES):
        registry.solver(optimal_in="best")(no_remat)


def test_an_unknown_solver_is_told_the_known_ones():
    with raises(ArgumentError, name="nobody", known=["auto", *(solver.name for solver in SOLVERS)]):
        solve(training_chain(3), solver="nobody")
    with raises(ArgumentError, name="chen_sqt", near="; did you mean chen_sqrt?"):
        solve(training_chain(3), solver="chen_sqt")


def test_a_function_that_is_no_registered_solver_is_told_how_to_become_one():
    with pytest.raises(ValueError, match=r"^len is not registered; register the function with @solver\(\) above it$"):
        solve(training_chain(3), solver=len)

    def no_remat(graph, task, clock):
        yield Schedule([])

    with pytest.raises(ValueError, match=r"^no_remat is the name of another solver; register the function with @solve"):
        solve(training_chain(3), solver=no_remat)
    with pytest.raises(TypeError, match=r"^@solver above no_remat has no parentheses; write @solver\(\)$"):
        registry.solver(no_remat)
    with pytest.raises(TypeError, match=r"^@allocator above no_remat has no parentheses; write @allocator\(\)$"):
        allocator(no_remat)


@each_solver
def test_a_solver_may_be_given_as_the_function_that_it_is(solver):
    asked = solve(training_chain(6), solver=solver.function)
    assert asked.solver == solver.name
    assert asked.schedule.order.tolist() == solve(training_chain(6), solver=solver.name).schedule.order.tolist()


def test_the_table_of_auto_has_every_solver_that_auto_runs_in_the_order_of_their_runs():
    assert [*TABLE] == [each.name for each in registry.in_order(filter(lambda each: each.portfolio, SOLVERS))]
    assert all(row.why and row.smallest >= 0 for row in TABLE.values())


# ---------------------------------------------------------------- every plan


@each_solver
@given(graph=any_kind)
@PLAYED
def test_a_schedule_is_sound_and_its_peak_is_the_oracles(solver, graph):
    reason = solver.needs(graph)
    if reason is None:
        check_plan(graph, solve(graph, solver=solver.name, raw=True))
    else:
        with raises(GraphError, name=solver.name, reason=reason):
            solve(graph, solver=solver.name, raw=True)


@each_solver
@each_graph
def test_graphs_that_people_forget_are_solved(solver, graph):
    if solver.needs(graph) is not None:
        with raises(GraphError, reason=solver.needs(graph)):
            solve(graph, "100%", solver=solver.name)
        return
    if isinstance(raw_plan(solver, graph), ScheduleError):
        assert graph.mark is not None
        return
    for budget in None, "100%", "least", Budget(overhead="100%"):
        check_plan(graph, solve(graph, budget, solver=solver.name, effort="fast"))


@each_graph
def test_auto_solves_graphs_that_people_forget(graph):
    for budget in None, "100%", "least", Budget(overhead="100%"):
        check_plan(graph, solve(graph, budget, effort="fast"))


@each_solver
@given(data=st.data())
@PLAYED
def test_a_plan_is_within_its_limit_or_the_error_says_what_was_reached(solver, data):
    graph = data.draw(served_by(solver))
    limit = data.draw(limits(graph))
    plan = raw_plan(solver, graph, limit)
    if isinstance(plan, BudgetError):
        held, together = forced_bytes(graph), max(two_path_bound(graph), result_bytes(graph))
        lowest = solve(graph, "least", solver=solver.name, raw=True)
        assert limit < plan.reached == lowest.peak_memory <= function_peak(solver, graph, 0)
        assert max(together, *held.values()) <= plan.lower_bound <= plan.reached
        most = {v for v in held if held[v] == plan.lower_bound}
        if plan.lower_bound > max(together, *held.values()):  # what may run before or after proves more at one node
            assert len(plan.nodes) == 1
            assert moment(plain(graph), *plan.nodes, plan.lower_bound - 1) is None
        else:
            assert set(plan.nodes) == most or (not most and len(plan.nodes) in (0, 2))
        assert f"by {solver.name}" in str(plan)
    else:
        assert plan.limit == limit
        check_plan(graph, plan)


@each_solver
@given(data=st.data())
@PLAYED
def test_the_same_question_has_the_same_answer(solver, data):
    graph = data.draw(served_by(solver))
    limit = data.draw(st.none() | limits(graph))
    first, second = raw_plan(solver, graph, limit), raw_plan(solver, graph, limit)
    if isinstance(first, BudgetError):
        assert (str(first), first.reached, first.nodes) == (str(second), second.reached, second.nodes)
    else:
        assert first.record() | {"seconds": 0} == second.record() | {"seconds": 0}


@each_solver
@given(data=st.data())
@PLAYED
def test_once_is_once(solver, data):
    graph = data.draw(served_by(solver))
    once = data.draw(st.lists(st.booleans(), min_size=graph.n_nodes, max_size=graph.n_nodes))
    graph = replace(graph, once=graph.once | once, derivation=None)
    if solver.needs(graph) is not None:
        return
    for budget in None, "least":
        plan = solve(graph, budget, solver=solver.name, raw=True)
        assert (plan.simulation.runs[graph.once] <= 1).all()


@each_solver
@given(graph=marked_graphs())
@PLAYED
def test_wishes_are_honoured_or_the_error_names_the_node(solver, graph):
    if solver.needs(graph) is not None:
        return
    plan = raw_plan(solver, graph)
    if isinstance(plan, ScheduleError):
        assert graph.mark[plan.node] != 0
        assert graph.labels[plan.node] in str(plan)
    else:
        check_plan(graph, plan)  # the oracle's laws include the marks
        assert (plan.simulation.runs[graph.mark == 1] <= 1).all()


@each_solver
@given(data=st.data())
@PLAYED
def test_a_keep_mark_can_always_be_honoured(solver, data):
    graph = data.draw(served_by(solver))
    kept = replace(graph, mark=graph.forward.astype(int), derivation=None)
    if solver.needs(kept) is not None:
        return
    assert solve(kept, solver=solver.name, raw=True).overhead == 0


@each_solver
@given(data=st.data())
@PLAYED
def test_a_plan_is_never_worse_than_no_rematerialization(solver, data):
    graph = data.draw(served_by(solver))
    base = baseline(graph)
    budget = data.draw(st.none() | st.integers(base.peak_memory, base.peak_memory + 3) | st.just("least"))
    plan = solve(graph, budget, solver=solver.name)
    if isinstance(budget, int):
        assert (plan.overhead, plan.peak_memory) <= (0, base.peak_memory)
    else:
        assert (plan.peak_memory, plan.overhead) <= (base.peak_memory, 0)
    if plan.method == "no_remat" and not plan.details.get("polished"):
        assert plan.schedule.order.tolist() == base.schedule.order.tolist()


@each_solver
@given(data=st.data())
@PLAYED
def test_a_larger_limit_never_costs_more(solver, data):
    graph = data.draw(served_by(solver))
    small, large = sorted(data.draw(st.lists(limits(graph), min_size=2, max_size=2)))
    first, second = raw_plan(solver, graph, small), raw_plan(solver, graph, large)
    if isinstance(second, BudgetError):
        assert isinstance(first, BudgetError)
    elif not isinstance(first, BudgetError):
        assert second.simulation.compute <= first.simulation.compute


@each_solver
@given(data=st.data())
@PLAYED
def test_the_least_budget_is_what_an_impossible_limit_reaches(solver, data):
    graph = data.draw(served_by(solver))
    least = solve(graph, "least", solver=solver.name, raw=True)
    assert least.peak_memory == function_peak(solver, graph, 0)
    assert least.peak_memory <= solve(graph, solver=solver.name, raw=True).peak_memory
    assert raw_plan(solver, graph, least.peak_memory).simulation.compute == least.simulation.compute


@each_solver
@given(data=st.data())
@PLAYED
def test_overhead_budgets_are_kept(solver, data):
    graph = data.draw(served_by(solver))
    most = data.draw(st.integers(0, graph.needed_compute))
    plan = solve(graph, Budget(overhead=most), solver=solver.name)
    check_plan(graph, plan)
    assert plan.overhead <= most * graph.labels.compute_scale
    assert plan.peak_memory <= base_peak(graph)


@each_solver
@given(data=st.data())
@PLAYED
def test_a_bound_is_never_above_what_was_found(solver, data):
    graph = data.draw(served_by(solver))
    limit = base_peak(graph)
    for found in list_candidates(graph, solver.name, limit):
        assert (found.bound is None) == (found.scope is None)
        assert found.scope in (None, *SCOPES)
        assert found.bound is None or found.figures[0] > limit or found.bound <= found.figures[1]


@each_solver
@given(data=st.data())
@PLAYED
def test_a_plan_stands_up_as_json(solver, data):
    graph = data.draw(served_by(solver))
    plan = solve(graph, "100%", solver=solver.name)
    record = json.loads(json.dumps(plan.record(frees=True), allow_nan=False))
    assert record == plan.record(frees=True)
    assert verify(graph, record).peak_memory == plan.peak_memory


@each_solver
@given(data=st.data())
@PLAYED
def test_options_have_the_defaults_that_are_shown(solver, data):
    graph = data.draw(served_by(solver))
    asked = solve(graph, solver=solver.name, raw=True, **solver.options)
    plain_one = solve(graph, solver=solver.name, raw=True)
    assert asked.schedule.order.tolist() == plain_one.schedule.order.tolist()
    assert asked.details == plain_one.details


@each_solver
@given(data=st.data())
@PLAYED
def test_a_plan_that_had_no_time_is_sound(solver, data):
    graph = data.draw(served_by(solver))
    for budget in None, "100%", "least", Budget(overhead="50%"):
        check_plan(graph, solve(graph, budget, solver=solver.name, time_limit=1e-9))


@each_solver
def test_progress_is_told(solver):
    told = []
    graph = training_chain(12)
    for budget in "100%", "least":
        told.clear()
        solve(graph, budget, solver=solver.name, progress=lambda *news: told.append(news))
        assert all(0 <= done <= total == WHOLE and isinstance(what, str) for done, total, what in told)
        assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
        assert told[-1][0] == WHOLE
        assert any(what.startswith(f"{solver.name}: ") for _, _, what in told)


@each_solver
def test_a_wrong_option_is_a_type_error(solver):
    with raises(ArgumentTypeError, name=solver.name, option="nonsense"):
        solve(training_chain(4), solver=solver.name, nonsense=1)


def test_auto_takes_no_options():
    with pytest.raises(
        TypeError, match="options segments belong to one solver; name that solver, since auto has no options"
    ):
        solve(training_chain(4), segments=2)


COUNTS = [
    *[("chen_sqrt", "segments", given) for given in (0, -3)],
    *[("chen_recursive", option, given) for option in ("splits", "depth") for given in (0, -1)],
    *[("chain_dp", option, 0) for option in ("slots", "stages")],
    ("revolve", "checkpoints", 0),
]
REFUSED = [
    *[(solver, {option: given}, {"name": option, "given": given}) for solver, option, given in COUNTS],
    *[
        ("chen_sqrt", {"candidates": "boundary1", "unit": given}, {"name": "unit", "given": given})
        for given in (0, -100)
    ],
    ("chen_sqrt", {"segments": 4_935_080_969}, {"name": "segments", "max_count": 2**31}),
    ("chen_sqrt", {"segments": 10**19}, {"solver": "chen_sqrt", "option": "segments", "value": 10**19}),
    ("exact_dp", {"formula_budget": "much"}, {"budget": "much"}),
    ("exact_dp", {"formula_budget": "50%"}, {"budget": "50%"}),
]
NAMED = {
    "candidates": {"known": ("articulation", "all", "boundary1 (of chen_sqrt)")},
    "strategy": {"strategies": ("time", "memory", "cache")},
}
REFUSED += [  # the field is the option
    (solver, {option: given}, {option: given} | NAMED.get(option, {}))
    for solver, option, refused in [
        *[(solver, "candidates", ["some"]) for solver in ("chen_sqrt", "chen_greedy", "chen_recursive")],
        ("chen_sqrt", "keep_last", ["no"]),
        ("chen_greedy", "grid", ["fine"]),
        ("chen_greedy", "rank_by", ["size"]),
        ("chen_greedy", "weigh_cost", ["much"]),
        ("exact_dp", "strategy", ["best"]),
        ("exact_dp", "keep_last", [None, "no"]),
        ("exact_dp", "lazy", ["no"]),
        ("approximate_dp", "family", ["exact"]),
        ("liveness_dp", "lazy", ["no"]),
        ("greedy_remat", "moves", ["no"]),
        ("greedy_remat", "max_block", [0]),
        ("live_set_search", "max_states", [0, -3, 1.5, "many"]),
        ("milp", "mip_gap", [-0.1, 1, True, "1 %"]),
        ("search", "max_moves", [0, -3, 1.5, "many", True]),
        ("twremat", "recursion_limit", [0]),
        ("twremat", "batching", ["x"]),
        ("twremat", "orders", [0]),
        ("twremat", "length_limit", [0.5, float("nan")]),
        ("pathremat", "recursion_limit", [-1]),
        ("pathremat", "length_limit", [0]),
    ]
    for given in refused
]


@pytest.mark.parametrize("budget", [None, "least"])
@pytest.mark.parametrize(("solver", "options", "fields"), REFUSED, ids=str)
def test_options_out_of_range_are_refused(solver, options, fields, budget):
    with raises(ArgumentError, **fields):
        solve(training_chain(4), budget, solver=solver, **options)


@each_solver
def test_a_graph_without_a_backward_part_is_no_infeasible_budget(solver):
    graph = graph_of([[], [0], [1]])
    reason = solver.needs(graph)
    if reason is None:
        return
    assert "call differentiate(graph) first" in reason
    assert solver.needs(differentiate(graph)) is None
    for budget in (None, 0, "1%", "least", Budget(overhead=0)):
        with raises(GraphError, name=solver.name, reason=reason):
            solve(graph, budget, solver=solver.name)


def test_auto_names_solvers_that_cannot_serve_unless_none_could_fit():
    graph = graph_of([[], [0], [1]])
    assert solve(graph, "100%").method == "no_remat"
    reasons = dict.fromkeys(["chen_sqrt", "echo"], "the graph has no backward part")
    for limit, named in (2, True), (1, False):
        error = budget_error(Limits.of(graph, Budget(memory=limit)), [], reasons)
        assert ("the graph has no backward part (no plan from chen_sqrt, echo)" in str(error)) == named
        assert bool(error.reasons) == named
    with pytest.raises(BudgetError) as raised:
        solve(graph, 1)
    assert not raised.value.reasons


@given(graph=served)
@settings(max_examples=10)
def test_auto_is_the_best_of_all_who_can_serve(graph):
    for budget in None, "least", base_peak(graph):
        asked = [solver.name for solver in default_solvers(graph)]
        plans, above = [], []
        for name in asked:
            try:
                plans.append(solve(graph, budget, solver=name, raw=True, polish=True))
            except BudgetError as error:  # raw, a plan may even hold more than one pass does
                above.append((name, error.reached))
        assert all(name != "no_remat" and reached > base_peak(graph) for name, reached in above)
        best = solve(graph, budget)
        check_plan(graph, best)
        if isinstance(budget, int):
            assert best.simulation.compute == min(plan.simulation.compute for plan in plans)
        else:
            assert best.peak_memory == min(plan.peak_memory for plan in plans)


@given(graph=served)
@settings(max_examples=10)
def test_where_nothing_fits_auto_tells_the_lowest_that_anybody_reached(graph):
    unpolished = min(function_peak(solver, graph, 0) for solver in default_solvers(graph))
    lowest = solve(graph, "least").peak_memory
    assert lowest <= unpolished
    assert solve(graph, lowest).peak_memory == lowest
    if lowest:
        with pytest.raises(BudgetError) as error:
            solve(graph, lowest - 1)
        assert error.value.reached == lowest


# ---------------------------------------------------------------- whole frontiers


@each_solver
@given(data=st.data())
@PLAYED
def test_a_whole_frontier_holds_the_answer_to_every_limit(solver, data):
    graph = data.draw(served_by(solver))
    points = [found.figures for found in list_candidates(graph, solver.name)]
    limit = data.draw(limits(graph))
    plan = raw_plan(solver, graph, limit)
    within = [compute for peak, compute in points if peak <= limit]
    if isinstance(plan, BudgetError):
        assert not within
        assert plan.reached == min(points)[0]
    else:
        assert plan.simulation.compute == min(within)


@each_solver
def test_what_is_no_stream_is_refused(solver):
    planted = replace(solver, function=lambda graph, task, clock: Schedule([0]))
    with raises(ArgumentTypeError, kind="Schedule"):
        planted.candidates(training_chain(3), Task(), Clock(), {})


# ---------------------------------------------------------------- claims of optimality

# What nobody in the class can beat: (graph, limit) -> (compute, schedule), or None if nothing fits. A solver that
# claims another class brings the search for it.
OPTIMUM = {"any order": least_compute, "chain": chains_oracle.least_compute, "fixed order": staged.least_compute}


def every_order(graph, task, clock):
    """Solver of these tests, from outside as a user's: search all sets of live values; optimal, and slow."""
    lowest, order = live_sets.least_peak(graph)
    yield Schedule(order)
    if task.limit is not None and task.limit >= lowest:
        yield Schedule(live_sets.least_compute(graph, task.limit)[1])


def test_the_solvers_that_claim_an_optimum():
    """`exact_dp` and `exhaustive_lower_sets` are exact by formulas (1) and (2), which are not what is simulated.

    The contract below is played with `every_order` and with whoever claims an optimum.
    """
    assert {solver.name: solver.optimal_in for solver in SOLVERS if solver.optimal_in} == {
        "chain_dp": "chain",
        "live_set_search": "any order",
        "milp": "fixed order",
        "revolve": "chain",
    }


@pytest.mark.parametrize("name", ["exact_dp", "exhaustive_lower_sets"])
def test_the_best_by_the_formulas_is_not_the_best_that_is_simulated(name):
    """A chain of four recomputes its first node twice to stay within 4 bytes, which no chain of lower sets does."""
    compute, order = least_compute(training_chain(4), 4)
    assert (compute, order.count(0), slow_simulation(training_chain(4), order).peak) == (13, 3, 4)
    assert isinstance(raw_plan(get_solver(name), training_chain(4), 4), BudgetError)
    false = replace(get_solver(name), optimal_in="any order")
    with pytest.raises(AssertionError, match="fits"):
        check_claim(false, training_chain(4), 4)


def check_claim(solver, graph, limit):
    """Within the class that its `optimal_in` names no schedule beats the solver's."""
    assert solver.optimal_in in OPTIMUM, f"no oracle for the class {solver.optimal_in!r}; add it to OPTIMUM"
    optimum = OPTIMUM[solver.optimal_in](graph, limit)
    plan = raw_plan(solver, graph, limit)
    if optimum is None:
        assert isinstance(plan, BudgetError)
    else:
        assert not isinstance(plan, BudgetError), f"{optimum} fits"
        assert plan.simulation.compute == optimum[0], f"{optimum} is cheaper"


CLAIMANTS = [Solver(every_order, "", any_graph, "any order", portfolio=False), *filter(lambda s: s.optimal_in, SOLVERS)]


@pytest.mark.parametrize("solver", CLAIMANTS, ids=lambda solver: solver.name)
@given(data=st.data())
@settings(max_examples=15)
def test_nothing_in_its_class_beats_a_solver_that_claims_an_optimum(solver, data):
    graph = data.draw(chains.filter(chains_oracle.is_exact) if solver.optimal_in == "chain" else tiny)
    if solver.needs(graph) is None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(registry.SOLVERS.entries, solver.name, solver)
            check_claim(solver, graph, data.draw(limits(graph)))


def optimum(graph, task, clock):
    """By the oracle, with a bound for the limit; the lowest schedule if nothing fits."""
    lowest, _ = least_peak(graph)
    compute, order = least_compute(graph, lowest if task.limit is None else max(lowest, task.limit))
    known = task.limit is not None and task.limit >= lowest
    yield Candidate(Schedule(order), bound=compute if known else None, scope="any order" if known else None)


def optimum_or_proof(graph, task, clock):
    """The same, but it says that nothing fits."""
    lowest, _ = least_peak(graph)
    if task.limit is not None and task.limit < lowest:
        raise BudgetError(f"the least peak is {lowest}", lowest, *least_peak_bound(graph))
    yield from optimum(graph, task, clock)


def test_a_false_claim_of_an_optimum_is_found(plant):
    false = plant(everything_twice, optimal_in="any order", portfolio=True)
    with pytest.raises(AssertionError, match="is cheaper"):
        check_claim(false, training_chain(3), 100)


def test_a_claim_of_an_optimum_that_gives_up_too_early_is_found(plant):
    def no_remat_is_all_there_is(graph, task, clock):
        yield baseline(graph).schedule

    graph = training_chain(4)
    lowest, _ = least_peak(graph)
    assert lowest < base_peak(graph)
    false = plant(no_remat_is_all_there_is, optimal_in="any order", portfolio=True)
    with pytest.raises(AssertionError, match="fits"):
        check_claim(false, graph, lowest)


def test_a_claim_in_a_class_without_an_oracle_is_found(plant):
    unknown = plant(everything_twice, optimal_in="canonical", portfolio=True)
    with pytest.raises(AssertionError, match="add it to OPTIMUM"):
        check_claim(unknown, training_chain(3), 100)


# ---------------------------------------------------------------- bounds


@given(data=st.data(), graph=tiny)
def test_a_bound_for_any_order_is_below_the_least_compute(data, graph):
    budget = data.draw(st.none() | st.just("least") | limits(graph))
    try:
        plan = solve(graph, budget)
    except BudgetError as raised:
        error = raised
    else:
        error = None
    if error is not None:  # what it offers can be had, and has a bound too
        assert budget < error.reached
        assert error.lower_bound <= least_peak(graph)[0] <= error.reached
        plan = solve(graph, error.reached)
    if plan.bound.scope == "any order":
        limit = plan.limit if plan.limit is not None else plan.peak_memory
        assert plan.bound.amount <= least_compute(graph, limit)[0]
        assert plan.gap is None or plan.gap >= 0


@given(graph=tiny | graphs(max_nodes=6))
def test_the_bound_of_the_peak_is_below_the_least_peak(graph):
    held, by_paths, together = forced_bytes(graph), two_path_bound(graph), result_bytes(graph)
    bound, nodes = least_peak_bound(graph)
    assert bound == max([by_paths, together, *held.values()]) <= least_peak(graph)[0]
    assert bound >= graph.memory[graph.output].sum()
    if bound > max([by_paths, *held.values()]):
        assert nodes == []
    else:
        assert (
            len(nodes) == 2 if bound > max(held.values(), default=0) else nodes == [v for v in held if held[v] == bound]
        )


def test_a_node_that_never_runs_forces_no_bound():
    graph = graph_of([[], [0], [0]], memory=0, output=[False, True, False])
    assert least_peak_bound(graph) == (0, [0, 1])


@pytest.mark.parametrize("budget", [None, "least", Budget(overhead="100%")], ids=str)
def test_a_bound_for_a_limit_that_was_only_tried_is_none_for_the_plan(plant, budget):
    plant(optimum, portfolio=True)
    graph = loose_bound()
    plan = solve(graph, budget, solver="optimum", raw=True)
    assert plan.limit is None
    assert plan.overhead > 0  # so, without a limit, one pass is cheaper
    assert plan.bound.source != "optimum"
    assert plan.bound.amount <= least_compute(graph, plan.peak_memory)[0]


@pytest.mark.parametrize("budget", [None, "least"], ids=str)
def test_a_bound_for_a_limit_that_the_plan_exceeds_is_none_for_the_plan(plant, budget):
    def too_high(graph, task, clock):
        """The lowest schedule, with a bound for the limit, which is lower than its peak."""
        compute, order = least_compute(graph, least_peak(graph)[0])
        assert task.limit < least_peak(graph)[0]
        yield Candidate(Schedule(order), bound=compute, scope="any order")

    plant(too_high, portfolio=True)
    graph = loose_bound()
    plan = solve(graph, budget, solver="too_high", raw=True)
    assert plan.peak_memory == least_peak(graph)[0]
    assert plan.bound.source != "too_high"


# ---------------------------------------------------------------- the guard, with solvers that should not be


def everything_twice(graph, task, clock):
    order = np.flatnonzero(graph.needed & ~graph.once)
    yield Schedule(np.concatenate([np.flatnonzero(graph.needed), order]))


def nothing_at_all(graph, task, clock):
    yield Schedule([])


def impossible(graph, task, clock):
    raise BudgetError("it was proved that nothing fits", 10**6, 10**6, [0])
    yield


def test_a_bad_solver_loses_to_no_rematerialization(plant):
    plant(everything_twice, portfolio=True)
    graph = training_chain(5)
    for budget in None, 100, "least", Budget(overhead="100%"), Budget(memory=100, overhead="100%"):
        plan = solve(graph, budget, solver="everything_twice")
        assert (plan.solver, plan.method, plan.overhead) == ("everything_twice", "no_remat", 0)
        raw = solve(graph, budget, solver="everything_twice", raw=True)
        assert (raw.solver, raw.method, len(raw.schedule)) == ("everything_twice", "everything_twice", 20)
        assert raw.overhead == graph.needed_compute


def test_a_bad_solver_is_no_way_around_the_budget(plant):
    plant(everything_twice, portfolio=True)
    graph = training_chain(5)
    for budget in base_peak(graph) - 1, Budget(memory="100%", overhead=0):
        with pytest.raises(BudgetError):
            solve(graph, budget, solver="everything_twice", raw=True)
    with pytest.raises(BudgetError) as error:
        solve(graph, base_peak(graph) - 1, solver="everything_twice")
    assert error.value.reached == base_peak(graph)


def test_an_unsound_solver_is_told_the_law(plant):
    plant(nothing_at_all, portfolio=True)
    for raw in False, True:
        with pytest.raises(ScheduleError, match="is never computed"):
            solve(training_chain(5), "100%", solver="nothing_at_all", raw=raw)


@pytest.mark.parametrize("function", [everything_twice, nothing_at_all, impossible])
@pytest.mark.parametrize("budget", [None, "80%", "least", Budget(overhead="50%")], ids=str)
def test_auto_survives_a_solver_that_should_not_be(plant, function, budget):
    graph = training_chain(8)
    wanted = solve(graph, budget, effort="fast")
    asked = []
    plant(lambda *arguments: asked.append(1) or function(*arguments), price=0.0, portfolio=True)
    plan = solve(graph, budget, effort="fast")
    assert asked
    assert (plan.method, plan.peak_memory, plan.overhead) == (wanted.method, wanted.peak_memory, wanted.overhead)


def test_auto_says_why_a_solver_gave_up(plant):
    plant(impossible, portfolio=True)
    with pytest.raises(BudgetError, match=r"it was proved that nothing fits.* \(no plan from impossible\)"):
        solve(training_chain(5), 0)


def test_a_proof_that_nothing_fits_reaches_the_user(plant):
    plant(impossible, portfolio=True)
    with pytest.raises(BudgetError, match="it was proved") as error:
        solve(training_chain(5), 0, solver="impossible")
    assert error.value.reached == 10**6


@pytest.mark.parametrize("budget", ["least", Budget(overhead="100%"), Budget(memory="90%", overhead="100%")], ids=str)
def test_a_proof_for_one_limit_does_not_end_a_search_over_limits(plant, budget):
    plant(optimum_or_proof, portfolio=True)
    graph = loose_bound()
    assert least_peak_bound(graph)[0] < least_peak(graph)[0] < base_peak(graph)
    plan = solve(graph, budget, solver="optimum_or_proof", raw=True)
    check_plan(graph, plan)
    if budget == "least":
        assert plan.peak_memory == least_peak(graph)[0]


def test_wishes_that_nobody_can_honour_are_no_infeasible_budget():
    graph = differentiate(graph_of([[], [0], [1]], output=[False, True, True]), keep_outputs=True)
    pinned = replace(graph, mark=[0, 2, 0, *[0] * (graph.n_nodes - 3)], derivation=None)
    with pytest.raises(ScheduleError, match="marked to be recomputed"):
        solve(pinned, solver="chen_sqrt")
    with pytest.raises(ScheduleError, match="marked to be recomputed"):
        solve(pinned)


def test_a_recompute_mark_switches_the_guard_off():
    graph = replace(training_chain(5), mark=[0, 2, 0, 0, 0, *[0] * 5], derivation=None)
    plan = solve(graph, "100%")
    assert plan.method != "no_remat"
    assert plan.simulation.runs[1] > 1
    with pytest.raises(ScheduleError, match="marked to be recomputed"):
        solve(graph, solver="no_remat")


# ---------------------------------------------------------------- what solvers are given


def test_a_solver_is_given_its_task_its_options_and_a_clock(plant):
    given_to = []

    def curious(graph, task, clock, *, mode="a"):
        given_to.append((task.limit, mode, task.seed, clock.left, task.candidates))
        clock.stage(2, "plans")
        clock.progress(1)
        yield baseline(graph).schedule

    solver = plant(curious)
    assert solver.options == {"mode": "a"}
    told = []
    plan = solve(
        training_chain(4), 20, solver="curious", seed=7, time_limit=60, progress=lambda *a: told.append(a), mode="b"
    )
    limit, mode, seed, seconds, candidates = given_to[0]
    assert (limit, mode, seed, candidates) == (20, "b", 7, ())
    assert any(what.startswith("curious: 50 % of its plans · best ") for _, _, what in told)
    assert 0 < seconds <= 60
    assert plan.options == {"mode": "b"}
    solve(training_chain(4))
    assert len(given_to) == 1  # no part of the portfolio


def test_who_improves_comes_last_and_is_given_what_others_found(plant):
    seen = []

    def a_better_one(graph, task, clock):
        seen.extend(task.candidates)
        yield min(task.candidates, key=lambda found: found.figures).schedule

    graph = training_chain(8)
    earlier = {solver.name for solver in default_solvers(graph) if not solver.improves}
    plant(a_better_one, improves=True, portfolio=True)
    compare(graph, 8)  # which does not stop at a plan that meets the bound
    assert earlier <= {found.solver for found in seen}
    assert all(found.simulation.graph is graph for found in seen)


@pytest.mark.parametrize("solver", ["live_set_search", "milp"])
def test_candidates_of_a_graph_that_a_solver_does_not_serve_are_refused(solver):
    graph = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(300)]))
    with raises(GraphError, solver=solver):
        list_candidates(graph, solver)
