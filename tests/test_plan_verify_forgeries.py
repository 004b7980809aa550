"""For each check of `remat_algos.plan.check_claims`: a true record, and a forged one that only this check refuses."""

import copy
import json
import time
from dataclasses import replace

import pytest

import remat_algos as ra
from remat_algos.bounds.moments import moment_bound
from remat_algos.cost.links import Link
from remat_algos.errors import ClaimError, PlanError
from remat_algos.plan import check_claims as room
from remat_algos.plan.check_claims import checked
from remat_algos.plan.plan import plan_of
from remat_algos.plan.record import shaped
from remat_algos.plan.verify import verify
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.registry import Candidate
from tests import test_plan_copies
from tests.raising import raises
from tests.test_plan_verify import GRAPH, TRAINING, record

pytestmark = pytest.mark.usefixtures("short_searches")

MISSING = object()


def bounded(name, compute, source, scope="any order", **details):
    """A record with another lower bound, and the gap that goes with it."""
    made = record(name)
    cost = made.get("time", made["compute"])
    gap = (cost - compute) / compute if scope == "any order" else None
    return made | {"bound": compute, "bound_source": source, "bound_scope": scope, "gap": gap, "details": details}


def with_copies(**changes):
    """The record of a plan that stores two values, which take 2,000 bytes on the host."""
    return copy.deepcopy(test_plan_copies.RECORD) | changes


def changed(made, path, value):
    """A copy of a record with another value at a path of keys."""
    made = copy.deepcopy(made)
    *places, last = path.split(".")
    inner = made
    for place in places:
        inner = inner[place]
    if value is MISSING:
        del inner[last]
    else:
        inner[last] = value
    return made


def proven_by_program(name, nodes, limit, times=None):
    """A record whose bound is that of the integer program of some moments."""
    compute = moment_bound(TRAINING, limit, [TRAINING.node_names().index(v) for v in nodes], times=times).amount
    source = "moments" if times is None else "integer program with a link"
    return bounded(name, compute, source, bound={"nodes": nodes})


LINK = record("link")["link"]
TIMES = Link.of(LINK).times(TRAINING)
CUT = record("search")["details"]["bound"]
PRICES = record("link")["details"]["bound"]["prices"]
NODE = ["grad(a)@e"]
# Names of records that are true.
TRUE = {
    "auto": record("auto"),
    "without frees": changed(record("auto"), "frees", MISSING),
    "without a source": changed(record("arena"), "bound_source", MISSING),
    "no bound": record("auto") | {"bound": None, "bound_scope": None, "bound_source": None, "gap": None},
    "one pass": record("formulas"),
    "least": record("least"),
    "closure": bounded("search", 14, "closure", bound=CUT),
    "moments": proven_by_program("search", NODE, 6),
    "two moments": proven_by_program("search", ["grad(d)", "grad(c)"], 6),
    "prices": record("link"),
    "rates": proven_by_program("link", NODE, 6, TIMES),
    "link at one pass": bounded("link", 13, "one pass"),
    "solver": bounded("auto", 15, "live_set_search"),
    "solver at one pass": bounded("auto", 13, "live_set_search"),
    "milp": record("milp"),
    "arena": record("arena"),
    "arena without addresses": changed(record("arena"), "offsets", MISSING),
    "arena with a low bound": record("arena") | {"packed_bound": 5},
    "arena without addresses, with a low bound": changed(record("arena"), "offsets", MISSING) | {"packed_bound": 5},
    "narrower": changed(record("milp"), "details.narrower_bound.bound", 0),
    "narrower at one pass": changed(record("milp"), "details.narrower_bound.bound", 13),
    "pool": record("pool"),
    "runs": record("runs"),
    "link": record("link"),
    "regions": changed(record("runs"), "constraints.max_runs", None),
}
NOT = "the plan claims"


def test_the_records_are_true():
    for name, made in TRUE.items():
        verify(GRAPH, made)
        found = checked(TRAINING, shaped(made))
        assert found.simulation.compute == made["compute"], name
        if found.bound is not None:
            source = made.get("bound_source") or "one pass"
            if source not in ("live_set_search", "one pass"):
                assert found.bound.source == source
            assert (found.bound.amount, found.bound.scope) == (made["bound"], made["bound_scope"])
        assert found.reservation.bound == made.get("packed_bound")
    verify(test_plan_copies.GRAPH, with_copies())


def both_ways(name, entry, *, by=1):
    """An entry one more, and one less, than it is."""
    value = TRUE[name][entry]
    return [(name, {entry: value + each}, f"{NOT} {entry}") for each in (by, -by)]


FORGED = [
    # figures that are simulated
    *(row for entry in ("peak_memory", "compute", "overhead", "gap") for row in both_ways("auto", entry)),
    *(row for entry in ("time", "overhead_in_time") for row in both_ways("link", entry)),
    ("auto", {"resident_memory": 1}, f"{NOT} resident_memory"),
    ("auto", {"compute_scale": 2}, f"{NOT} compute_scale"),
    ("auto", {"compute_unit": "ns"}, f"{NOT} compute_unit"),
    ("link", {"host_peak": 1}, f"{NOT} host_peak"),
    ("auto", {"frees": record("auto")["frees"][:-1]}, f"{NOT} frees"),
    ("no bound", {"gap": 0.0}, f"{NOT} gap"),
    # the graph
    ("auto", {"graph_hash": "0" * 64}, "the plan was made for another graph"),
    ("auto", {"differentiate": {"factor": 3}}, "the plan was made for the graph differentiated with"),
    ("auto", {"differentiate": None}, "the plan was made for the graph differentiated with"),
    # the schedule
    ("auto", {"schedule": [*record("auto")["schedule"][:-1], 10]}, "is not a list of names or ids"),
    ("auto", {"schedule": [2**31, *range(1, 11)]}, "is not a list of names or ids"),
    ("auto", {"schedule": [True, *range(1, 11)]}, "is not a list of names or ids"),
    ("auto", {"schedule": record("auto")["schedule"][:-1]}, "schedule cannot be run"),
    # budget, limit, constraints
    ("auto", {"budget": {"memory": 6, "host": 9}}, '"budget" of the plan has the unknown entries host'),
    ("auto", {"budget": {"memory": 0.5}}, '"budget" of the plan is invalid'),
    ("auto", {"budget": {"memory": "6 apples"}}, '"budget" of the plan is invalid'),
    ("auto", {"limit": 7}, "limit 7, but its budget gives 6"),
    ("auto", {"limit": None}, "limit null, but its budget gives 6"),
    ("auto", {"budget": {"memory": 5}, "limit": 5}, "to stay within a limit of 5, but its peak is 6"),
    ("auto", {"budget": {"memory": 6, "overhead": 1}}, "to stay within overhead 1, but it has 2"),
    ("runs", {"constraints.max_runs": {"e": 0}}, "constraints"),
    ("runs", {"constraints.regions.half.limit": 0}, "to satisfy its constraints, but "),
    # the lower bound on the peak
    *[("auto", {"peak_bound": each}, f"peak_bound {each}, but the graph gives 6") for each in (5, 7)],
    ("link", {"peak_bound": 6}, "peak_bound 6, but the graph gives 5"),
    ("auto", {"details.peak_bound": 7}, "no peak below 7, but its own is 6"),
    # the lower bound on compute and time: its scope and source
    ("auto", {"bound_scope": None}, "a bound of 15 in scope None"),
    ("no bound", {"bound_scope": "any order"}, "a bound of None in scope"),
    ("auto", {"bound_scope": "best"}, "a bound of 15 in scope"),
    ("no bound", {"bound_source": "believer"}, "a bound on compute by 'believer', which proves no bounds"),
    ("no bound", {"bound_source": "milp"}, "by 'milp', which proves no bounds in scope 'any order'"),
    ("no bound", {"details.bound": CUT}, 'does not match "bound_source"'),
    (
        "solver",
        {"bound_scope": "chain", "bound_source": "milp", "gap": None},
        "by 'milp', which proves no bounds in scope 'chain'",
    ),
    ("solver", {"bound_source": "oracle"}, "a bound on compute by 'oracle', which proves no bounds"),
    ("milp", {"bound": 14}, "lower bound on compute 14, but one pass computes 13"),
    ("link", {"bound_source": "closure"}, "a bound on time by 'closure', which proves no bounds"),
    ("link", {"bound_source": "live_set_search"}, "a bound on time by 'live_set_search', which proves no bounds"),
    ("auto", {"bound_source": "minimum cuts with a link"}, "a bound on compute by 'minimum cuts with a link', which"),
    # its figure
    *(("link", {"bound": each}, f"bound on time {each}, but ") for each in (12, 16)),
    *(("auto", {"bound": each}, f"bound on compute {each}, but ") for each in (12, 16)),
    ("one pass", {"bound": 14}, "bound on compute 14, but one pass computes 13"),
    ("without a source", {"bound": 12}, "bound on compute, which names no source, 12, but one pass"),
    ("link at one pass", {"bound": 14}, "bound on time 14, but one pass takes 13"),
    # its proof
    ("one pass", {"details.bound": CUT}, 'does not match "bound_source"'),
    ("link at one pass", {"details.bound": CUT}, 'does not match "bound_source"'),
    ("solver", {"details.bound": CUT}, 'does not match "bound_source"'),
    ("solver at one pass", {"details.bound": CUT}, 'does not match "bound_source"'),
    ("closure", {"bound": 15}, "bound of 15 on compute, but .* proves only 14"),
    (
        "closure",
        {"details.bound": MISSING},
        '"bound" in the details of the plan is None; expected "nodes"',
    ),
    ("closure", {"details.bound.nodes": ["a"]}, "bound of 14 on compute, but a proves only 13"),
    ("closure", {"details.bound.nodes": [*NODE, "a"]}, 'does not match "bound_source"'),
    ("closure", {"details.bound.price": MISSING}, 'does not match "bound_source"'),
    ("closure", {"details.bound.prices": PRICES}, 'does not match "bound_source"'),
    ("moments", {"bound": 15}, "bound of 15 on compute, but .* proves only 14"),
    ("moments", {"details.bound.price": "1/2^0"}, 'does not match "bound_source"'),
    ("moments", {"details.bound.prices": PRICES}, 'does not match "bound_source"'),
    ("moments", {"details.bound.nodes": ["b", "a"]}, "a bound that its nodes cannot prove: node 1 is not an ancestor"),
    ("two moments", {"bound": 15}, "but grad.d., grad.c. proves only 14"),
    ("prices", {"bound": 15}, "bound of 15 on time, but .* proves only 13"),
    (
        "prices",
        {"details.bound": MISSING},
        '"bound" in the details of the plan is None; expected "nodes"',
    ),
    ("prices", {"details.bound.nodes": ["a"]}, "on time, but a proves only 13"),
    ("prices", {"details.bound.nodes": [*NODE, "a"]}, 'does not match "bound_source"'),
    ("prices", {"details.bound.prices": MISSING}, 'does not match "bound_source"'),
    ("prices", {"details.bound.price": "1/2^0"}, 'does not match "bound_source"'),
    ("prices", {"details.bound.prices.byte": 0.0}, "on time, but .* proves only 13"),
    ("prices", {"details.bound.prices.byte": -1.0}, '"prices" of the plan\'s bound are'),
    ("prices", {"details.bound.prices.byte": 1e31}, '"prices" of the plan\'s bound are'),
    ("prices", {"details.bound.prices.byte": "1"}, '"prices" of the plan\'s bound are'),
    ("prices", {"details.bound.prices.byte": True}, '"prices" of the plan\'s bound are'),
    ("prices", {"details.bound.prices.into": MISSING}, '"prices" of the plan\'s bound are'),
    ("prices", {"details.bound.prices.also": 1}, '"prices" of the plan\'s bound are'),
    ("prices", {"details.bound.prices.into": 1.5}, "prices of the link are negative, or sum"),
    ("prices", {"details.bound.prices.out": [[0, 0.6], [0, 0.6]]}, "prices of the link are negative, or sum"),
    ("prices", {"details.bound.prices.out": [[-1, 0.1]]}, '"prices" of the plan\'s bound are'),
    ("prices", {"details.bound.prices.out": [[0, -0.1]]}, '"prices" of the plan\'s bound are'),
    ("prices", {"details.bound.prices.out": [[0.5, 0.1]]}, '"prices" of the plan\'s bound are'),
    ("prices", {"details.bound.prices.out": [[0, 0.1, 0]]}, '"prices" of the plan\'s bound are'),
    ("prices", {"details.bound.prices.out": [7]}, '"prices" of the plan\'s bound are'),
    ("prices", {"details.bound.prices.out": {}}, '"prices" of the plan\'s bound are'),
    ("prices", {"details.bound.prices.out": [[0, 0.0]] * 1001}, '"prices" of the plan\'s bound are'),
    ("prices", {"details.bound.prices": [1]}, '"prices" of the plan\'s bound are'),
    ("rates", {"bound": 15}, "bound of 15 on time, but .* proves only 14"),
    ("rates", {"details.bound.prices": PRICES}, 'does not match "bound_source"'),
    ("rates", {"details.bound.price": "1/2^0"}, 'does not match "bound_source"'),
    ("rates", {"bound_scope": "chain", "gap": None, "bound": 15}, "proves only 14"),
    # the bound of a narrower scope
    ("milp", {"details.narrower_bound": [14, "chain"]}, "expected bound and scope"),
    ("milp", {"details.narrower_bound.bound": 14.0}, "expected bound and scope"),
    ("milp", {"details.narrower_bound.bound": -1}, "expected bound and scope"),
    ("milp", {"details.narrower_bound.scope": "any order"}, "expected bound and scope"),
    ("milp", {"details.narrower_bound.scope": "best"}, "expected bound and scope"),
    ("milp", {"details.narrower_bound.scope": 7}, "expected bound and scope"),
    ("milp", {"details.narrower_bound.scope": ["chain"]}, "expected bound and scope"),
    ("milp", {"details.narrower_bound.bound": True}, "expected bound and scope"),
    (
        "milp",
        {"details.narrower_bound.bound": record("milp")["compute"] + 1},
        "the lower bound in its scope 1., but it computes 1.",
    ),
    ("milp", {"details.narrower_bound.scope": "chain"}, "by 'milp', which proves no bounds in scope 'chain'"),
    # the allocator
    ("pool", {"allocator": "mine"}, '"allocator" of the plan is invalid'),
    ("pool", {"reserved_memory": 4608, "limit": 4608, "budget": {"memory": 4608}}, f"{NOT} reserved_memory 4608"),
    ("pool", {"reserved_memory": 4608}, "to stay within a limit of 4096, but cupy_pool reserves 4608"),
    ("pool", {"ties": 1}, f"{NOT} ties 1"),
    ("arena", {"packed_memory": 8, "reserved_memory": 8}, "to stay within a limit of 7, but it packs into 8"),
    ("arena", {"packed_memory": 6, "packed_bound": 6, "reserved_memory": 6}, "packed_memory 6, but no arena"),
    ("arena", {"reserved_memory": 9}, f"{NOT} reserved_memory"),
    ("arena", {"packed_bound": 8}, "packed_bound 8, but it packs into 7"),
    ("arena", {"offsets": record("arena")["offsets"][:-1]}, "claims impossible addresses in packed_memory 7"),
    ("arena", {"offsets": [0] * len(record("arena")["offsets"])}, "claims impossible addresses in packed_memory 7"),
    ("arena", {"offsets": [*record("arena")["offsets"][:-1], 7]}, "claims impossible addresses in packed_memory 7"),
    ("arena", {"offsets": [*record("arena")["offsets"][:-1], -1]}, "expected a list of whole numbers"),
    ("arena", {"offsets": [*record("arena")["offsets"][:-1], 2**53 + 1]}, "expected a list of whole numbers"),
    ("arena", {"offsets": [*record("arena")["offsets"][:-1], True]}, "expected a list of whole numbers"),
    ("arena", {"offsets": 7}, "expected a list of whole numbers"),
    ("arena without addresses", {"packed_bound": 8}, "packed_bound 8, but it packs into 7"),
    (
        "arena without addresses",
        {"packed_memory": 9, "reserved_memory": 9, "packed_bound": 8, "limit": 9, "budget": {"memory": 9}},
        "packed_bound 8, but its schedule packs into 7",
    ),
    (
        "arena without addresses",
        {"alignment": 4, "packed_memory": 27, "reserved_memory": 27, "limit": 99, "budget": {"memory": 99}},
        "packed_memory 27, but no arena for its schedule is below 28",
    ),
]


@pytest.mark.parametrize(("name", "changes", "sentence"), FORGED)
def test_a_forged_record_is_refused(name, changes, sentence):
    made, changes = TRUE[name], dict(changes)
    if type(changes.get("bound")) is int and "gap" not in changes:
        changes["gap"] = (made.get("time", made["compute"]) - changes["bound"]) / changes["bound"]
    for path, value in changes.items():
        made = changed(made, path, value)
    with pytest.raises(PlanError, match=sentence) as error:
        checked(TRAINING, shaped(json.loads(json.dumps(made))))
    assert "\n" not in str(error.value)


# ---------------------------------------------------------------- what needs a plan of its own


def test_an_overhead_over_a_link_is_one_of_time():
    budget = test_plan_copies.RECORD["budget"]
    verify(test_plan_copies.GRAPH, with_copies(budget=budget | {"overhead": 2100}))
    with raises(ClaimError, name="to stay within overhead in time", claimed=2099, found=2100):
        verify(test_plan_copies.GRAPH, with_copies(budget=budget | {"overhead": 2099}))


def test_the_host_may_be_full_but_no_fuller():
    full = with_copies(link=test_plan_copies.RECORD["link"] | {"host": 2000})
    verify(test_plan_copies.GRAPH, full)
    full["link"] = full["link"] | {"host": 1999}
    with raises(ClaimError, name="to stay within host memory of", claimed=1999, found=2000):
        verify(test_plan_copies.GRAPH, full)


def test_costs_of_a_table_without_a_unit_contradict_no_unit():
    made = record("auto")
    bare = replace(GRAPH, labels=replace(GRAPH.labels, compute_unit=""))
    made["graph_hash"] = bare.source_hash
    verify(bare, made)


def test_a_graph_without_gradients_is_checked_as_it_is():
    made = ra.solve(GRAPH, "100%", solver="no_remat").record()
    assert made["differentiate"] is None
    assert verify(GRAPH, made).compute == GRAPH.needed_compute
    with raises(PlanError, options=None):
        verify(TRAINING, made | {"graph_hash": TRAINING.source_hash})


def test_a_bound_holds_within_the_limit_and_for_the_least_peak_within_the_plans_own():
    """Within 7 bytes 13 is the least compute, within 6 it is 15."""
    loose = bounded("auto", 15, "live_set_search") | {"budget": {"memory": 7}, "limit": 7}
    with raises(ClaimError, claimed=15, source="live_set_search reaches", found=13):
        verify(GRAPH, loose)
    unlimited = loose | {"budget": None, "limit": None}
    assert checked(GRAPH, shaped(unlimited), strict=True).bound.proven
    closure = bounded("search", 14, "closure", bound=CUT) | {"budget": {"memory": 7}, "limit": 7}
    with raises(ClaimError, claimed=14, proven=13):
        verify(GRAPH, closure)


def claiming_solver(plant, bound, scope, optimal_in="any order"):
    """Register a solver that claims a bound for schedules of a scope."""

    def oracle(graph, task, clock):
        yield Schedule(range(graph.n_nodes))
        yield Candidate(task.candidates[0].schedule, bound=bound, scope=scope, simulation=task.candidates[0].simulation)

    plant(oracle, optimal_in=optimal_in)


@pytest.mark.parametrize(
    ("bound", "scope", "claim", "proven"),
    [
        (15, "any order", "any order", True),
        (16, "any order", "any order", True),
        (14, "any order", "any order", False),
        (None, None, "any order", False),
        (15, "canonical", "any order", False),
        (15, "canonical", "canonical", True),
        (15, "any order", "canonical", True),
        (15, "chain", "canonical", False),
        (14, "canonical", "canonical", False),
    ],
)
def test_a_second_proof_by_a_solver_has_the_scope_and_the_figure(plant, bound, scope, claim, proven):
    claiming_solver(plant, bound, scope, optimal_in=claim)
    made = shaped(bounded("auto", 15, "oracle", claim))
    assert checked(GRAPH, made).bound.proven is proven
    if proven:
        assert checked(GRAPH, made, strict=True).bound.proven
        return
    with raises(ClaimError, claimed=15, by=["oracle"], within=" within 30 s"):
        checked(GRAPH, made, strict=True)


@pytest.mark.parametrize(("bound", "proven"), [(15, True), (14, False)])
def test_a_narrower_bound_is_proven_by_verify_and_claimed_by_a_loaded_plan(plant, bound, proven):
    claiming_solver(plant, bound, "canonical", optimal_in="canonical")
    made = record("search", method="oracle")
    made["details"]["narrower_bound"] = {"bound": 15, "scope": "canonical"}
    assert not plan_of(made, GRAPH).narrower.proven
    if proven:
        assert plan_of(made, GRAPH, strict=True).narrower.proven
    else:
        with raises(ClaimError, claimed=15, what="compute of schedules of the scope 'canonical'", by=["oracle"]):
            verify(GRAPH, made)


def test_a_bound_of_one_pass_needs_no_prover(plant):
    claiming_solver(plant, None, None, optimal_in="canonical")
    made = record("search", method="oracle")
    made["details"]["narrower_bound"] = {"bound": 13, "scope": "canonical"}
    verify(GRAPH, made)
    claiming_solver(plant, None, None)
    verify(GRAPH, bounded("auto", 13, "oracle"))


def test_solvers_prove_within_their_time(monkeypatch, plant):
    """A proof that never ends is stopped: its bound stays open."""

    def endless(graph, task, clock):
        while True:
            time.sleep(0.01)
            clock.check()
        yield Schedule([])

    plant(endless, optimal_in="any order")
    monkeypatch.setattr("remat_algos.plan.tuning.PROVING_AGAIN", 0.05)
    monkeypatch.setattr("remat_algos.plan.tuning.PROVING", 0.1)
    made = shaped(bounded("auto", 15, "endless"))
    assert not checked(GRAPH, made).bound.proven
    with raises(ClaimError, by=["endless"], within=" within 0.1 s"):
        verify(GRAPH, made)


def test_a_bound_of_an_arena_is_capped_at_what_is_proven(monkeypatch):
    """Nine bytes of arena for seven live ones: a bound between them needs a proof by search."""
    made = record("arena", limit=9, budget={"memory": 9})
    made |= {"packed_memory": 9, "reserved_memory": 9, "packed_bound": 8}
    for name in ("fragmentation", "least_reserved_memory", "used_memory"):
        del made[name]
    with raises(ClaimError, claimed=8, found=7):
        checked(GRAPH, shaped(made))
    reserve = room.Allocator.reserve
    for proven in (None, 7, 8):

        def searched(self, simulation, clock=None, bound=proven, **options):
            return replace(reserve(self, simulation, clock, **options), memory=8, bound=bound)

        monkeypatch.setattr(room.Allocator, "reserve", searched)
        assert checked(GRAPH, shaped(made)).reservation.bound == (8 if proven == 8 else 7)
        if proven == 8:
            verify(GRAPH, made)
        else:
            with raises(ClaimError, name="packed_bound", claimed=8, found=7):
                verify(GRAPH, made)


def test_verify_prints_the_problem_of_the_plan(remat, tmp_path, monkeypatch):
    """Another factor or loss is another problem; its optimum proves nothing about the one that was meant."""
    monkeypatch.chdir(tmp_path)
    ra.write_graph(GRAPH, "graph.json")
    options = {"budget": "80%", "effort": "fast", "link": Link(1e9, 1e9, 0, host=100, name="slow")}
    graph = ra.differentiate(GRAPH, factor=0.5, loss="d", parameter_gradients=True, keep_outputs=True)
    ra.solve(graph, options.pop("budget"), **options).save("plan.json")
    said = remat("verify", "graph.json", "plan.json")
    assert said.code == 0
    for part in (
        "problem gradients of d; factor 0.5; parameter gradients; outputs kept; budget memory 80%;",
        "copies over slow (1 GB/s each way, planned at 90 %), at most 100 B on the host",
    ):
        assert part in said.flat
    found = remat("verify", "graph.json", "plan.json", "--json").record["problem"]
    assert found["differentiate"]["factor"] == 0.5
    assert found["differentiate"]["loss"] == ["d"]
    assert (found["link"]["host"], found["budget"]["memory"]) == (100, "80%")
    (tmp_path / "arena.json").write_text(json.dumps(record("arena")))
    said = remat("verify", "graph.json", "arena.json")
    assert "gradients of every output; factor 2; no parameter gradients; budget memory 7; allocator arena" in said.flat


def test_the_prices_of_a_bound_come_back_from_json_to_the_last_digit():
    plan = ra.solve(test_plan_copies.GRAPH, "45%", link=test_plan_copies.LINK, effort="fast")
    again = plan_of(json.loads(plan.text()), test_plan_copies.GRAPH)
    assert again.bound.proven
    assert again.bound.prices.record() == plan.bound.prices.record()
    assert again.bound.amount > test_plan_copies.GRAPH.needed_compute
    bare = replace(again.bound, prices=None)
    assert "prices" not in bare.record(test_plan_copies.GRAPH)


def test_the_schedule_may_be_given_by_ids():
    made = record("auto")
    names = TRAINING.node_names()
    made["schedule"] = [names.index(name) for name in made["schedule"]]
    found = checked(GRAPH, shaped(made)).simulation
    assert found.peak_memory == simulate(TRAINING, made["schedule"]).peak_memory
    made["schedule"] = [-each if each == 10 else each for each in made["schedule"]]
    with pytest.raises(PlanError):
        checked(GRAPH, shaped(made))
