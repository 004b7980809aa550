"""Forged plans: every entry of a record in several ways; each is refused, or printed as what the file claims."""

import copy
import functools
import json
import math
import re
import warnings
from dataclasses import replace

import pytest

import remat_algos as ra
from remat_algos.formats.orders import read_order
from remat_algos.ir.parts import Labels
from remat_algos.plan.plan import Plan, cells
from remat_algos.plan.record import KINDS, LINK_KINDS
from remat_algos.plan.verify import verify
from remat_algos.plot.pictures.frontier import _bounds
from remat_algos.questions.compare import Entry
from remat_algos.schedule.emission import baseline
from remat_algos.solvers.registry import Candidate
from tests.conftest import shorter
from tests.raising import raises

pytestmark = pytest.mark.usefixtures("short_searches")

EDGES = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("a", "e")]
UNITS = Labels(names=tuple("abcde"), compute_unit="us")  # a link needs them
GRAPH = ra.ComputationGraph.from_edges([tuple(map("abcde".index, edge)) for edge in EDGES], labels=UNITS)
TRAINING = ra.differentiate(GRAPH)
OPTIMUM = 15  # compute, of the budget of 6 bytes
MARK = 987_654  # no figure of any of the plans
PLANS = {
    "auto": {"budget": 6},
    "least": {"budget": "least"},
    "closure": {"budget": 7, "solver": "chen_greedy"},
    "milp": {"budget": 7, "solver": "milp", "raw": True},
    "formulas": {"budget": 7, "solver": "approximate_dp", "raw": True},
    "search": {"budget": 6, "solver": "search", "raw": True},
    "arena": {"budget": 7, "allocator": "arena", "effort": "fast"},
    "pool": {"budget": "100%", "allocator": "cupy_pool", "effort": "fast"},
    "runs": {"budget": 7, "constraints": {"max_runs": 2, "regions": {"half": ("a", 6)}}, "effort": "fast"},
    "link": {"budget": 6, "link": ra.cost.Link(out=1e9, into=1e9, host=100), "effort": "fast"},
}
MIGHT_HOLD = {  # that stands in the record only if it was given
    "differentiate": ("encode",),
    "budget": ("overhead", "device", "host"),
    "constraints": ("fixed_order",),
}
RESERVED = ("reserved_memory", "used_memory", "least_reserved_memory", "ties", "fragmentation", "allocator")
PARTS = [
    *(("auto", name) for name in (*KINDS, "format", "version", "frees", "bound_source", "peak_bound", "details")),
    *((name, "details") for name in PLANS if name not in ("auto", "arena", "pool")),
    *(("runs", name) for name in ("constraints", "budget", "differentiate")),
    *(("link", name) for name in LINK_KINDS),
    *((name, each) for name in ("arena", "pool") for each in RESERVED),
    *(("arena", each) for each in ("packed_memory", "packed_bound", "alignment", "offsets")),
    *((name, each) for name in ("least", "closure") for each in ("bound", "bound_source", "bound_scope", "budget")),
]
LONG, LONGEST_MESSAGE = "x{" * 3000, 1000
FORGERIES = [
    *(None, True, -1, 0, 1, OPTIMUM, OPTIMUM + 1, MARK, 10**30, 10**400, 0.5, -0.5, math.nan, math.inf, 1e300),
    *("", " ", "x", [], ["x"], [MARK], {}, {"x": MARK}, {"x": -1}, {"bound": 15, "scope": "chain"}),
    *(LONG, [LONG], {LONG: 1}),
]
NAMES = [
    *("oracle of delphi", "Closure", "one pass", "closure", "moments", "live_set_search", "milp", "chain_dp"),
    *("greedy_remat", "any order", "chain", "canonical", "fixed order", "50%", "least", "auto"),
]
WORDS_OF_CLAIMS = ("not checked", "claimed")
GIVEN = ("constraints", "copies")  # lines of what the plan keeps to


@functools.cache
def plan(name):
    options = dict(PLANS[name])
    with shorter():  # rows of tables are made of records when they are collected
        return ra.solve(TRAINING, options.pop("budget"), **options)


def record(name, **changes):
    return json.loads(plan(name).text("frees")) | changes


def entries(value, path):
    """Paths of an entry, and of all inside it."""
    yield path
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from entries(inner, (*path, name))


def places(value, part):
    """Paths of an entry, of all inside it, and of what it might hold."""
    return [*entries(value, (part,)), *((part, name) for name in MIGHT_HOLD.get(part, ()) if isinstance(value, dict))]


def forged(name, path, value):
    """The record with another value at a path; without the entry where the value is `forged` itself."""
    result = copy.deepcopy(record(name))
    *places, last = path
    inner = functools.reduce(dict.__getitem__, places, result)
    if value is forged:
        inner.pop(last, None)
    else:
        inner[last] = value
    return result


def loaded(made, folder):
    """The plan that a file holds; None if it is refused, in one sentence."""
    (folder / "plan.json").write_text(json.dumps(made))
    try:
        return Plan.load(folder / "plan.json", GRAPH)
    except ra.errors.PlanError as error:
        check_sentence(error)
        return None


def check_sentence(error):
    if "\n" in str(error) or len(str(error)) > LONGEST_MESSAGE:
        raise AssertionError(f"no sentence: {error}") from error


def check_text(plan, value):
    """Nothing that the file alone says stands in the text but as its claim."""
    text = str(plan)
    lines = re.sub(r"\n {13}", " ", text).split("\n")  # lines that were wrapped
    for line in lines:
        if not any(word in line for word in WORDS_OF_CLAIMS):
            assert "solvers tried" not in line
            assert "optimal" not in line or (plan.bound and plan.bound.proven), line
            assert "nan" not in line
            if value == MARK and not line.startswith(GIVEN):
                assert not re.search("987[,.]?654|964[.,]5", line), line  # 964.5 KiB
    if plan.bound and plan.bound.proven:
        assert plan.bound.amount <= optimum(plan.peak_memory if plan.limit is None or plan.budget.least else plan.limit)
    assert plan.loaded


@functools.cache
def optimum(limit):
    """The least compute of any schedule within the limit."""
    found = ra.solve(TRAINING, limit, solver="live_set_search")
    assert found.gap == 0
    return found.simulation.compute


def test_every_entry_of_a_plan_is_forged():
    for name in ("auto", "arena", "pool"):
        assert set(record(name)) == {part for known, part in PARTS if known in ("auto", name)}
    details = {name for each in PLANS for name in record(each)["details"]}
    assert {"bound", "narrower_bound", "overheads", "solvers_tried", "simulated", "complete"} <= details


@pytest.mark.parametrize(("name", "part"), PARTS)
def test_a_forged_entry_is_refused_or_printed_as_a_claim(tmp_path, name, part):
    for path in places(record(name)[part], part):
        for value in [*FORGERIES, *(NAMES if part != "details" else []), forged]:
            found = loaded(forged(name, path, value), tmp_path)
            if found is not None:
                check_text(found, value)


def read_as_order(made, folder):
    """The same file as commands read it that need its order alone; None if it is refused, in one sentence."""
    (folder / "plan.json").write_text(json.dumps(made))
    try:
        return read_order(folder / "plan.json", GRAPH)
    except (ra.errors.PlanError, ra.ScheduleError) as error:
        check_sentence(error)
        return None


@pytest.mark.parametrize(("name", "part"), [("runs", "differentiate"), ("link", "link"), ("link", "loads")])
def test_an_entry_is_refused_alike_where_the_order_alone_is_read(tmp_path, name, part):
    assert read_as_order(record(name), tmp_path) is not None
    for path in places(record(name)[part], part):
        for value in FORGERIES:
            if read_as_order(forged(name, path, value), tmp_path) is None:
                assert loaded(forged(name, path, value), tmp_path) is None


# ---------------------------------------------------------------- bounds


def believer(graph, task, clock):
    """A solver that is said to prove bounds, and proves none here."""
    yield Candidate(baseline(graph).schedule)


def claiming(source, **changes):
    """The record of a plan of compute 15 within 7 bytes, where 14 can be reached, that claims to be optimal."""
    made = record("formulas")
    made |= {"bound": made["compute"], "bound_scope": "any order", "gap": 0.0, "bound_source": source, "details": {}}
    return made | changes


@pytest.fixture
def claimed(monkeypatch, plant, tmp_path):
    """A plan whose bound is the word of a solver, and its file."""
    plant(believer, optimal_in="any order")
    (tmp_path / "graph.txt").write_text("".join(f"{u} {v}\n" for u, v in EDGES))
    (tmp_path / "plan.json").write_text(json.dumps(claiming("believer")))
    monkeypatch.chdir(tmp_path)
    return Plan.load(tmp_path / "plan.json", GRAPH)


@pytest.mark.parametrize(
    "source",
    ["oracle of delphi", "", "Closure", "two paths", "start", "auto", None, "greedy_remat", "milp", "chain_dp"],
)
def test_a_bound_by_what_proves_none_is_refused(source):
    with pytest.raises(ra.errors.ClaimError, match=r"proves no bounds|names no source"):
        verify(GRAPH, claiming(source))


def test_a_solver_that_cannot_serve_the_graph_proved_nothing():
    graph = ra.differentiate(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(80)]))
    made = ra.solve(graph, "50%", solver="chen_sqrt", effort="fast").record()
    made |= {"bound": made["compute"], "gap": 0.0, "bound_source": "live_set_search", "details": {}}
    with pytest.raises(ra.errors.ClaimError, match="live_set_search, which does not support this graph"):
        verify(graph, made)


def test_a_solver_proves_its_bound_again(tmp_path):
    assert plan("auto").bound.source == "live_set_search"
    verify(GRAPH, plan("auto"))
    found = loaded(record("auto"), tmp_path)
    assert found.bound.proven
    assert "live_set_search (15 us, 15.4 % more than one pass); optimal: no" in str(found)


def test_a_cheaper_schedule_disproves_a_bound():
    made = claiming("live_set_search")
    assert made["compute"] > optimum(made["limit"])
    with raises(ra.errors.ClaimError, claimed=made["compute"], source="live_set_search reaches", found=13):
        verify(GRAPH, made)


def test_what_is_not_proven_here_is_called_a_claim(claimed):
    text = " ".join(str(claimed).split())
    assert "lower bound 15 us, 15.4 % more than one pass: claimed by believer, not proven here" in text
    assert "optimal" not in text + repr(claimed) + claimed._repr_html_()
    assert cells(claimed, ("bound", "gap")) == ("15.4 % claimed", "not proven")
    assert not claimed.bound.proven
    with raises(ra.errors.ClaimError, claimed=15, by=["believer"], within=" within 30 s"):
        verify(GRAPH, claimed)


def test_verify_says_what_is_correct_and_refuses_what_is_not_proven(claimed, remat):
    said = remat("verify", "graph.txt", "plan.json")
    assert (said.code, said.out) == (1, "")
    assert "but believer proves only" in said.err
    assert remat("verify", "graph.txt", "plan.json", "--json").record["valid"] is False
    plan("auto").save("proven.json")
    said = remat("verify", "graph.txt", "proven.json")
    assert "all figures are correct, and the lower bound was proven again" in said.flat
    assert "lower bound live_set_search (15" in said.flat
    assert "not checked also in the file: solver, method, options, seconds, details." in said.flat
    assert remat("verify", "graph.txt", "proven.json", "--json").record["bound_proven"] is True


class Axes:
    """Takes a line and draws nothing."""

    def plot(self, *_, **__):
        return (None,)


def test_tables_records_and_pictures_do_not_call_a_claim_optimal(claimed):
    graph = claimed.graph
    base = {"bound_memory": 1, "bound_compute": graph.needed_compute, "base": 8}
    proven = ra.Frontier(graph, {"chen_greedy": (plan("auto"),)}, **base)
    doubted = ra.Frontier(graph, {"chen_greedy": (claimed,)}, **base)
    for found, shown, optimal in ((proven, ("15.4 %", "optimal"), 1), (doubted, ("15.4 % claimed", "not proven"), 0)):
        (row,) = found.rows()
        assert row[4:6] == shown
        assert found.record()["points"][0]["bound_proven"] is bool(optimal)
        texts = [text for _, text in _bounds(Axes(), found, slice(None))]
        assert f"{optimal} of 1 plan proven optimal" in texts
    assert Entry("believer", claimed).record()["bound_proven"] is False
    assert Entry("auto", plan("auto")).record()["bound_proven"] is True


# ---------------------------------------------------------------- what nobody can check


def test_what_the_search_did_is_printed_as_a_claim_of_the_file(tmp_path):
    fresh, found = str(plan("auto")), str(loaded(record("auto"), tmp_path))
    assert fresh.startswith("best plan: live_set_search (")
    assert "\nsearch " in fresh
    assert found.startswith("plan: live_set_search\n")
    for line in ("tried: ", "search: ", "others: "):
        assert f"\nnot checked  {line}" in found
    assert not plan("auto").loaded


def test_a_narrower_bound_of_a_file_is_a_claim(tmp_path):
    assert "of schedules of the same order: " in " ".join(str(plan("milp")).split())
    text = " ".join(str(loaded(record("milp"), tmp_path)).split())
    assert re.search(r"of schedules of the same order: \d+ us; claimed by milp, not proven here", text)


def test_what_json_cannot_hold_is_not_written():
    odd = replace(plan("auto"), details={"share": math.inf, "shares": [math.nan, 0.5]})
    assert {"share": None, "shares": [None, 0.5]}.items() <= odd.record()["details"].items()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        verify(GRAPH, odd)
