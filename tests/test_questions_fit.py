"""How deep, how large: what fits is simulated, what is next does not fit, nothing is solved twice."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.context import Stop
from remat_algos.errors import ArgumentError, BudgetError, GraphError
from remat_algos.ir.budget import Budget
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.parts import Resident
from remat_algos.plan.record import SearchReport
from remat_algos.questions import compare as room
from remat_algos.questions import tuning
from remat_algos.questions.fit import fit
from remat_algos.schedule.simulation import simulate
from remat_algos.search.auto import default_solvers
from remat_algos.search.solve import answered, solve
from remat_algos.zoo.random import chain
from tests.raising import raises

pytestmark = pytest.mark.usefixtures("short_searches")

NAMES = [solver.name for solver in default_solvers()]


def training(depth):
    """A chain; without rematerialization it holds all depth values and two gradients at once, depth + 2 bytes."""
    return differentiate(chain(depth))


def fits(graph, budget, solver):
    try:
        solve(graph, budget, solver=solver)
    except BudgetError:
        return False
    return True


@pytest.fixture
def asked(monkeypatch):
    """The (solver, number of nodes) that were solved, in their order."""
    calls = []

    def spy(request, clock):
        calls.append((request.name, request.graph.n_nodes))
        return answered(request, clock)

    monkeypatch.setattr(room, "answered", spy)
    return calls


# What fits


@pytest.mark.parametrize("memory", [4, 5, 9, 33])
def test_a_chain_without_rematerialization_is_as_deep_as_its_bytes_less_two(memory):
    (found,) = fit(training, memory, solvers=["no_remat"])
    assert (found.value, found.too_much) == (memory - 2, memory - 1)
    assert found.plan.peak_memory == memory
    assert not found.at_least
    assert f"no schedule within {memory} B was found" in found.reason


def test_residents_count_for_a_device_and_not_for_a_peak():
    """A weight of 3 bytes: of 9 bytes of a device 6 are left, for a chain of 4."""

    def build(depth):
        weight = Resident([3], [1], np.minimum(np.arange(depth + 1), 1), [0], ("w",))
        return differentiate(replace(chain(depth), resident=weight))

    (peak,) = fit(build, 9, solvers=["no_remat"])
    (device,) = fit(build, Budget(device=9), solvers=["no_remat"])
    assert (peak.value, device.value) == (7, 4)
    assert device.plan.peak_memory + device.plan.graph.resident_memory == 9


@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=24),
    memory=st.integers(0, 60),
    overhead=st.sampled_from([None, "0%", "20%", "50%"]),
    solver=st.sampled_from([*NAMES, "auto"]),
    step=st.integers(1, 3),
)
def test_what_is_found_fits_and_the_next_does_not(sizes, memory, overhead, solver, step):
    values = range(1, len(sizes) + 1, step)
    budget = Budget(memory=memory, overhead=overhead)
    graphs = {value: differentiate(chain(value, sizes[:value])) for value in values}
    (found,) = fit(graphs.__getitem__, budget, values=values, solvers=[solver])
    place = -1 if found.value is None else values.index(found.value)
    if found.plan is not None:
        simulation = simulate(graphs[found.value], found.plan.schedule)
        assert found.plan.graph is graphs[found.value]
        assert simulation.peak_memory <= memory
        assert overhead is None or 100 * simulation.overhead <= int(overhead[:-1]) * graphs[found.value].needed_compute
    if place + 1 < len(values):
        assert found.too_much == values[place + 1]
        assert found.reason
        assert not fits(graphs[found.too_much], budget, solver)
    else:
        assert (found.too_much, found.at_least) == (None, True)


@pytest.mark.parametrize(("memory", "overhead"), [(3, None), (5, "40%"), (8, "10%")])
def test_every_solver_fits_what_no_rematerialization_does_and_auto_what_any_does(memory, overhead):
    found = {
        entry.solver: entry.value or 0 for entry in fit(training, Budget(memory=memory, overhead=overhead), most=12)
    }
    assert list(found) == [*NAMES, "auto"]
    assert found["no_remat"] == min(memory - 2 if memory > 3 else 1, 12)
    assert all(found["no_remat"] <= value <= found["auto"] for value in found.values())


# What is done for it


def test_no_value_is_solved_twice_by_a_solver_and_graphs_are_shared(asked):
    built = []

    def build(depth):
        built.append(depth)
        return training(depth)

    fit(build, 9, solvers=["no_remat", "chen_sqrt", "chen_greedy"])
    assert len(set(asked)) == len(asked)
    assert len(set(built)) == len(built) <= tuning.CACHED_GRAPHS


def test_the_number_of_plans_grows_with_the_logarithm_of_the_answer(asked):
    """Doubled up to 248 < 255, then halved: 8 + 7."""
    (found,) = fit(training, 250, solvers=["no_remat"])
    assert found.value == 248
    assert len(asked) <= 16
    assert sorted(found.tried) == sorted((n // 2 for _, n in asked))


def test_nothing_is_solved_where_no_schedule_can_fit(asked):
    """From depth 5 on one value takes 100 bytes, and a step holds at least those."""
    found = fit(lambda depth: differentiate(chain(depth, [1, 1, 1, 1, 100, 1, 1, 1][:depth])), 50, values=range(1, 9))
    assert max(n for _, n in asked) <= 8
    (none,) = (entry for entry in found if entry.solver == "no_remat")
    assert (none.value, none.too_much) == (4, 5)
    assert "no schedule goes below" in none.reason


def test_the_largest_that_is_allowed_is_tried_and_no_larger(asked):
    (found,) = fit(training, 1000, most=11, solvers=["chen_sqrt"])
    assert (found.value, found.at_least, found.too_much) == (11, True, None)
    assert max(n for _, n in asked) == 22


def test_only_values_between_the_bounds_are_tried():
    found = fit(training, 9, values=(2, 3, 5, 7, 11, 13), least=3, most=11, solvers=["no_remat"])[0]
    assert (found.value, found.too_much) == (7, 11)
    assert set(found.tried) <= {3, 5, 7, 11}


def test_progress_says_who_is_at_which_value():
    said = []
    fit(training, 9, solvers=["chen_sqrt"], progress=lambda done, total, what: said.append(what))
    assert said
    assert all(what.startswith("chen_sqrt at ") for what in said)


# What does not fit


def test_a_least_value_that_does_not_fit_has_a_reason():
    (found,) = fit(lambda depth: differentiate(chain(depth, 10)), 5, solvers=["no_remat"])
    assert (found.value, found.plan, found.too_much, found.at_least) == (None, None, 1, False)
    assert "no schedule goes below 20 B" in found.reason


def test_a_solver_that_cannot_serve_says_why():
    found = {entry.solver: entry for entry in fit(chain, 9, solvers=["chen_sqrt", "no_remat"], most=20)}
    assert found["no_remat"].value == 20  # forward a chain holds two bytes, however long
    assert found["chen_sqrt"].value is None
    assert "call differentiate(graph) first" in found["chen_sqrt"].reason


@pytest.mark.parametrize("most", [0, -3])
def test_no_value_to_try_is_an_error(most):
    with raises(ArgumentError, least=1, most=most):
        fit(training, 9, most=most)


def test_what_cannot_be_built_is_said_as_it_is():
    def build(depth):
        raise GraphError(f"depth {depth} is odd")

    with pytest.raises(GraphError, match="depth 1 is odd"):
        fit(build, 9)


def test_what_cannot_be_built_is_too_much():
    def build(depth):
        if depth > 5:
            raise GraphError(f"depth {depth} is more than 5")
        return training(depth)

    for found in fit(build, 9):
        assert (found.value, found.too_much, found.reason) == (5, 6, "depth 6 is more than 5")


# Interrupted


def test_what_there_is_no_memory_for_is_too_much(monkeypatch):
    def build_some(depth):
        if depth > 20:
            raise MemoryError
        return training(depth)

    (found,) = fit(build_some, 64, solvers=["no_remat"])
    assert (found.value, found.too_much, found.reason) == (20, 21, "not enough memory to build the graph")

    def answer_some(request, clock):
        if request.graph.n_nodes > 20:
            raise MemoryError
        return answered(request, clock)

    monkeypatch.setattr(room, "answered", answer_some)
    (found,) = fit(training, 64, solvers=["no_remat"])
    assert (found.value, found.too_much, found.reason) == (10, 11, "it ran out of memory")


def test_an_interrupt_leaves_what_was_found(monkeypatch):
    calls = []

    def interrupted(request, clock):
        calls.append(request.name)
        if calls.count("chen_sqrt") == 3:
            raise KeyboardInterrupt
        return answered(request, clock)

    monkeypatch.setattr(room, "answered", interrupted)
    found = fit(training, 9, solvers=["auto", "no_remat", "chen_sqrt"])
    assert [entry.solver for entry in found] == ["auto", "no_remat", "chen_sqrt"]
    assert [entry.stop.complete for entry in found] == [False, True, False]
    assert (found[0].value, found[0].tried) == (None, {})
    assert found[1].value == 7
    assert 7 <= found[2].value < 19
    assert found[2].at_least
    assert found[2].plan.peak_memory <= 9


def test_a_plan_that_was_cut_short_counts_and_ends_the_search(monkeypatch):
    def cut_short(request, clock):
        plan = answered(request, clock)
        return replace(plan, report=SearchReport(stop=Stop.INTERRUPTED)) if request.graph.n_nodes == 6 else plan

    monkeypatch.setattr(room, "answered", cut_short)
    (found,) = fit(training, 9, solvers=["no_remat"], values=[1, 3, 5, 7, 9])
    assert (found.value, found.stop.complete, found.at_least) == (3, False, True)


# As JSON has it


def test_the_record_is_what_was_found():
    found, nothing = fit(training, Budget(device=9, overhead="40%"), solvers=["chen_sqrt", "no_remat"], most=30)
    record = json.loads(json.dumps(found.record()))
    assert (record["solver"], record["value"], record["too_much"]) == ("chen_sqrt", found.value, found.too_much)
    assert record["peak_memory"] == found.plan.peak_memory
    assert record["graph_hash"] == found.plan.graph.source_hash
    assert (record["compute_unit"], record["compute_scale"]) == ("", 1)
    assert record["overhead_share"] == found.plan.overhead / found.plan.graph.needed_compute <= 0.4
    assert {int(value) for value, reason in record["tried"].items() if not reason} <= set(range(1, found.value + 1))
    assert "peak_memory" in nothing.record()


def test_values_may_stand_in_any_order_and_none_is_left_out_in_silence():
    built = []

    def build(n):
        built.append(n)
        return differentiate(chain(n))

    (found,) = fit(build, 30, values=[5000, 8, 3, 20, 5], solvers=["no_remat"])
    assert (found.value, found.too_much) == (20, 5000)
    assert 5000 in built
    (found,) = fit(build, 30, values=[8, 3, 20, 5], most=10, solvers=["no_remat"])
    assert (found.value, found.at_least) == (8, True)
