"""A schedule of the user's own: the plan is never worse than it where it fits, and the search begins there."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos.context import Clock
from remat_algos.errors import ArgumentError
from remat_algos.schedule.annealing import SearchKernel
from remat_algos.search.auto import default_solvers
from remat_algos.search.request import Request
from remat_algos.solvers import tuning
from remat_algos.solvers.methods.search import search
from remat_algos.solvers.registry import START, Candidate, Task, list_candidates
from remat_algos.zoo.random import chain, layered_dag
from tests.command_line import CHAIN, CHAIN_EDGES
from tests.raising import raises
from tests.strategies import training_graphs

pytestmark = pytest.mark.usefixtures("short_searches")

GRAPH = ra.differentiate(chain(16))
OPTIMUM = ra.solve(GRAPH, "50%", solver="live_set_search")


@given(graph=training_graphs(max_nodes=12), data=st.data())
def test_a_plan_is_never_worse_than_a_start_that_fits(graph, data):
    start = ra.solve(graph, "least", solver=data.draw(st.sampled_from(["twremat", "greedy_remat"])), effort="fast")
    limit = start.peak_memory + data.draw(st.integers(0, 3))
    solver = data.draw(st.sampled_from(["auto", "search", "live_set_search"]))
    plan = ra.solve(graph, limit, solver=solver, start=start.schedule, effort="fast", time_limit=0.2)
    assert plan.peak_memory <= limit
    assert plan.simulation.compute <= start.simulation.compute


@pytest.mark.parametrize("allocator", ["arena", "cupy_pool"])
def test_a_plan_is_never_worse_than_a_start_whose_reservation_fits(allocator):
    """A cheaper candidate packs worse than the start, and a search for lower peaks finds dearer ones."""
    graph = layered_dag(18, seed=960568)
    start = ra.solve(graph, "least", solver="search", effort="fast", allocator=allocator)
    limit = start.reservation.memory
    plan = ra.solve(graph, limit, solver="search", effort="fast", allocator=allocator, start=start.schedule)
    assert plan.reservation.memory <= limit
    assert plan.overhead <= start.overhead


@pytest.mark.parametrize("solver", ["auto", "search"])
def test_a_start_that_nothing_is_better_than_is_the_plan(solver):
    own = OPTIMUM.schedule.order.tolist()
    plan = ra.solve(GRAPH, OPTIMUM.limit, solver=solver, start=own, effort="fast")
    assert plan.schedule.order.tolist() == own
    if solver == "auto":
        assert plan.report.overheads[START] == OPTIMUM.overhead
        assert plan.report.tried <= len(default_solvers(GRAPH, "fast"))
    else:
        assert str(plan).startswith("plan: start (no schedule of search is better)")


def test_the_search_begins_at_the_start_whatever_else_is_known(monkeypatch):
    """Other candidates are better, and more than the search takes."""
    begun, begin = [], SearchKernel.start

    def start(kernel, schedule, *limits, **options):
        begun.append(schedule)
        return begin(kernel, schedule, *limits, **options)

    monkeypatch.setattr(SearchKernel, "start", start)
    others = [
        replace(each, solver=f"other {place}")
        for place, each in enumerate(list_candidates(GRAPH, "liveness_dp") + list_candidates(GRAPH, "chen_greedy"))
    ]
    own = ra.simulate(GRAPH, [v for v in range(GRAPH.n_nodes) for _ in range(2 if v in (0, 3) else 1)])
    assert len(others) > tuning.N_SEEDS
    known = [*others, Candidate(own.schedule, simulation=own, solver=START)]
    list(search(GRAPH, Task(OPTIMUM.limit, candidates=known), Clock(), max_moves=20_000))
    assert any(schedule is own.schedule for schedule in begun)


def test_a_start_above_the_limit_is_one_to_begin_at():
    start = ra.simulate(GRAPH, range(GRAPH.n_nodes))
    plan = ra.solve(GRAPH, OPTIMUM.limit, solver="search", start=start.schedule, max_moves=20_000)
    assert plan.peak_memory <= OPTIMUM.limit < start.peak_memory
    assert plan.method == "search"


@pytest.mark.parametrize("solver", ["auto", "search"])
def test_a_start_against_a_law_is_refused_in_the_words_of_the_simulator(solver):
    own = [0, 2, 1]
    with pytest.raises(ra.ScheduleError) as simulated:
        ra.simulate(GRAPH, own)
    with raises(ra.ScheduleError, step=1, node=2) as error:
        ra.solve(GRAPH, "50%", solver=solver, start=own)
    assert str(error.value) == f"start: {simulated.value}"


def test_a_start_that_is_no_schedule_is_refused_with_the_remedy():
    for other in (OPTIMUM, OPTIMUM.simulation):
        with pytest.raises(TypeError, match=r"^start is a \w+"):
            ra.solve(GRAPH, "50%", start=other)
    with pytest.raises(TypeError, match="start is 'abc'"):
        ra.solve(GRAPH, "50%", start="abc")


def test_a_wrong_option_is_refused_though_the_start_ends_the_search():
    with pytest.raises(TypeError, match="bogus"):
        ra.solve(GRAPH, "100%", solver="search", start=range(GRAPH.n_nodes), bogus=1)


def test_a_start_against_a_constraint_is_no_plan():
    plan = ra.solve(GRAPH, 13, start=OPTIMUM.schedule, constraints={"max_runs": {GRAPH.labels[0]: 1}}, effort="fast")
    assert OPTIMUM.simulation.runs[0] == 2 > plan.simulation.runs[0]


def test_a_solver_that_begins_at_nothing_takes_no_start():
    with raises(ArgumentError, unable="twremat", able=["live_set_search", "search"]):
        ra.solve(GRAPH, "50%", solver="twremat", start=OPTIMUM.schedule)


# ---------------------------------------------------------------- command line


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A chain with names."""
    (tmp_path / "chain.nodes.csv").write_text(CHAIN)
    (tmp_path / "chain.edges.csv").write_text(CHAIN_EDGES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_order_of_any_format_may_be_the_start(remat, folder):
    call = ("solve", "chain.nodes.csv", "--budget", "60%")
    for form in ("plan", "names", "actions"):
        written = remat(*call, "-o", "start.txt", "--format", form, "--json").record
        record = remat(*call, "--start", "start.txt", "--effort", "fast", "--solver", "search", "--json").record
        assert (record["method"], record["schedule"]) == ("start", written["schedule"])


def test_a_start_that_is_refused_names_its_file(remat, folder):
    (folder / "start.txt").write_text("a\nc\n")
    said = remat("solve", "chain.nodes.csv", "--budget", "60%", "--start", "start.txt")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert said.err.startswith("remat: start.txt: step 1 runs c, which reads b before it has been computed")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--solver", "twremat"], "twremat accepts no start"),
        (["-o", "start.txt"], "start.txt would overwrite an input file; name another file"),
    ],
)
def test_what_does_not_go_with_a_start_is_refused(remat, folder, words, message):
    (folder / "start.txt").write_text("a b c d e loss")
    said = remat("solve", "chain.nodes.csv", "--inference", "--budget", "60%", "--start", "start.txt", *words)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert message in said.err


def test_a_second_start_leaves_the_first_one_among_the_candidates():
    """As for "least+1%", whose second half begins at the lowest peak too."""
    request = Request.of(GRAPH, "50%", start=range(GRAPH.n_nodes)).started(OPTIMUM.schedule)
    (solver,) = request.starting
    found = [each.schedule.order.tolist() for each in solver.candidates(GRAPH, request.task, Clock(), {})]
    assert found == [list(range(GRAPH.n_nodes)), OPTIMUM.schedule.order.tolist()]
