"""Plans for an arena: the budget holds for it, plans carry its addresses, `verify` compares them with the lifetimes."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.allocate import offsets
from remat_algos.allocate.allocation import Allocation, Buffers, is_alignment
from remat_algos.allocate.allocators import get_allocator
from remat_algos.allocate.offsets import pack
from remat_algos.errors import AllocationError, BudgetError, ClaimError, PlanError
from remat_algos.ir.budget import Budget
from remat_algos.ir.differentiate import differentiate
from remat_algos.plan.plan import Plan
from remat_algos.plan.verify import verify
from remat_algos.questions.compare import Comparison, compare
from remat_algos.schedule.emission import baseline, baseline_peak
from remat_algos.schedule.simulation import simulate
from remat_algos.search.solve import solve
from remat_algos.wording import format_bytes
from remat_algos.zoo.random import chain, u_shape
from tests.raising import raises
from tests.strategies import graphs, orders, training_graphs

pytestmark = pytest.mark.usefixtures("short_searches")

GRAPH = differentiate(u_shape(20, memory=10_000))
DERIVED = {"used_memory", "least_reserved_memory", "reserved_memory", "ties", "fragmentation", "offsets"}
KEYS = {"allocator", "packed_memory", "packed_bound", "alignment"}


@pytest.fixture
def wasteful(monkeypatch):
    """`pack`, but arenas are larger by as many bytes as the test says of their max live."""

    def waste(excess):
        def packed(buffers, **given):
            found = pack(buffers, **given)
            return Allocation(
                buffers, found.storage, found.offset, found.size + excess(found.size), "by waste", found.bound
            )

        monkeypatch.setattr(offsets, "pack", packed)

    return waste


# ---------------------------------------------------------------- packing a schedule


@given(st.data())
def test_a_packed_peak_is_that_of_an_arena_and_no_smaller_than_the_simulated_one(data):
    graph = data.draw(graphs())
    simulation = simulate(graph, data.draw(orders(graph)))
    alignment = data.draw(st.sampled_from([1, 2, 8]))
    packed = get_allocator("arena").reserve(simulation, alignment=alignment)
    assert packed.memory == pack(Buffers.of(simulation), alignment=alignment).size
    assert simulation.peak_memory <= packed.bound <= packed.memory
    assert packed.proven == (packed.memory == packed.bound)
    assert packed.alignment == alignment


def test_a_power_of_two_is_an_alignment():
    assert [n for n in range(-4, 70) if is_alignment(n)] == [1, 2, 4, 8, 16, 32, 64]
    assert is_alignment(2.0)
    assert not any(is_alignment(given) for given in (True, 2.5, "2", None, 2**53, 2**70))


# ---------------------------------------------------------------- solve


@given(training_graphs(max_nodes=14), st.integers(40, 110), st.sampled_from([1, 4]))
def test_the_budget_holds_for_the_arena(graph, share, alignment):
    limit = share * baseline_peak(graph) // 100
    try:
        plan = solve(graph, f"{share}%", solver="chen_greedy", allocator="arena", alignment=alignment)
    except BudgetError:
        plan = solve(graph, "least", solver="chen_greedy", allocator="arena", alignment=alignment)
        assert plan.reservation.memory > limit  # so nothing was given up that this solver can do
        assert pack(Buffers.of(baseline(graph)), alignment=alignment).size > limit
    else:
        assert plan.reservation.memory <= plan.limit == limit
    assert plan.reservation.memory == pack(Buffers.of(plan.simulation), alignment=alignment).size
    assert plan.peak_memory <= plan.reservation.memory
    verify(graph, plan)


@pytest.mark.parametrize("solver", ["auto", "chen_greedy", "greedy_remat"])
def test_where_the_plan_does_not_pack_a_lower_one_is_found(wasteful, solver):
    alone = solve(GRAPH, "70%", solver=solver, effort="fast")
    wasteful(lambda size: size // 10)
    plan = solve(GRAPH, "70%", solver=solver, effort="fast", allocator="arena")
    assert plan.reservation.memory <= plan.limit == alone.limit
    assert plan.peak_memory <= alone.peak_memory
    assert plan.simulation.compute >= alone.simulation.compute
    assert plan.bound.amount <= plan.simulation.compute


def test_where_none_packs_the_error_says_what_the_least_arena_is(wasteful):
    wasteful(lambda size: 1_000_000)
    with raises(BudgetError, solver="chen_greedy") as error:
        solve(GRAPH, "70%", solver="chen_greedy", allocator="arena")
    assert error.value.lower_bound <= error.value.reached <= 0.7 * baseline_peak(GRAPH)
    assert error.value.fields["reserved"] == error.value.plan.reservation.memory >= 10**6
    with raises(BudgetError, alignment=4096):
        solve(GRAPH, "70%", solver="chen_greedy", allocator="arena", alignment=4096)


def test_where_nothing_fits_even_without_packing_the_error_is_the_usual_one():
    with raises(BudgetError, limit=1):
        solve(GRAPH, 1, effort="fast", allocator="arena")


@pytest.mark.parametrize("budget", [None, "least", Budget(overhead="20%")], ids=str)
def test_without_a_bound_the_packed_peak_is_only_measured(budget):
    alone, plan = (solve(GRAPH, budget, effort="fast", allocator=name) for name in ("peak", "arena"))
    assert plan.schedule.order.tolist() == alone.schedule.order.tolist()
    assert plan.reservation.memory >= plan.peak_memory
    assert alone.reservation.allocation is None


def test_the_device_budget_holds_for_the_arena_and_the_residents(wasteful):
    wasteful(lambda size: size // 10)
    device = solve(GRAPH, "70%", solver="chen_greedy").limit + GRAPH.resident_memory
    plan = solve(GRAPH, Budget(device=device), solver="chen_greedy", allocator="arena")
    assert plan.reservation.memory + GRAPH.resident_memory <= device


def test_an_alignment_that_is_none_is_refused_before_the_search():
    for alignment in (0, 3, -8):
        with pytest.raises(AllocationError, match=f"alignment is {alignment}"):
            solve(GRAPH, 1, allocator="arena", alignment=alignment)
    with pytest.raises(ValueError, match="alignment"):
        solve(GRAPH, 1, allocator="arena", alignment=2.5)


def test_a_plan_says_how_it_packs():
    plan = solve(differentiate(chain(9)), 44, solver="no_remat", allocator="arena", alignment=4)
    said = "\npacked       44 B, 4.000 of the peak (the minimum), addresses divisible by 4\n"
    assert said in str(plan)
    assert plan.record().keys() >= KEYS
    alone = solve(plan.graph, 44, solver="no_remat")
    assert not KEYS & alone.record().keys()
    assert "packed" not in str(alone)


# ---------------------------------------------------------------- files, and what is claimed in them


@pytest.fixture(scope="module")
def plan():
    return solve(GRAPH, "70%", solver="chen_greedy", allocator="arena", alignment=64)


def changed(plan, **entries):
    return {**plan.record(), **entries}


@pytest.mark.parametrize("form", ["plan", "frees"])
def test_load_reads_back_the_packed_peak(plan, tmp_path, form):
    plan.save(tmp_path / "plan.json", form)
    loaded = Plan.load(tmp_path / "plan.json", GRAPH)
    assert loaded.reservation == plan.reservation
    assert loaded.reservation.allocation.offset.tolist() == plan.reservation.allocation.offset.tolist()
    assert json.loads((tmp_path / "plan.json").read_text()).keys() >= {*KEYS, "offsets"}


def test_a_plan_without_one_is_as_before(tmp_path):
    plan = solve(GRAPH, "70%", solver="chen_greedy")
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json", GRAPH).reservation.record() == {}
    assert verify(GRAPH, changed(plan, packed_memory=None)).peak_memory == plan.peak_memory


def without_addresses(plan, **entries):
    """As another program may write it: the arena and its bound, no addresses."""
    kept = {name: value for name, value in plan.record().items() if name not in DERIVED}
    return {**kept, **entries}


def test_the_addresses_are_compared_and_nothing_is_packed_again(plan, monkeypatch):
    monkeypatch.setattr("remat_algos.allocate.offsets.pack", None)
    verify(GRAPH, plan)
    found, offsets = plan.reservation.allocation, plan.record()["offsets"]
    assert offsets == found.offset.tolist()
    for i in np.flatnonzero(found.buffers.size)[::20].tolist():
        for wrong in (offsets[i] + 1, plan.reservation.memory):
            false = [*offsets[:i], wrong, *offsets[i + 1 :]]
            with raises(ClaimError, memory=plan.reservation.memory):
                verify(GRAPH, changed(plan, offsets=false))


def test_a_file_without_addresses_is_packed_again(plan, tmp_path):
    verify(GRAPH, without_addresses(plan, packed_memory=plan.limit))  # a larger arena than needed is true too
    (tmp_path / "plan.json").write_text(json.dumps(without_addresses(plan)))
    loaded = Plan.load(tmp_path / "plan.json", GRAPH).reservation
    assert loaded == plan.reservation
    loaded.allocation.verify()


def test_an_arena_without_an_allocator_is_refused(plan):
    with pytest.raises(PlanError, match='"packed_memory" of the plan requires "allocator": "arena"'):
        verify(GRAPH, changed(plan, allocator=None))


def test_an_arena_that_is_not_found_again_is_refused(plan, wasteful):
    wasteful(lambda size: 1)
    with raises(ClaimError, claimed=plan.reservation.memory, found=plan.reservation.memory + 1):
        verify(GRAPH, without_addresses(plan))


@pytest.mark.parametrize(
    ("entry", "given"),
    [
        *(("packed_memory", given) for given in ("1", -1, 1.5, True, [], None)),
        *(("packed_bound", given) for given in (None, -1, "x")),
        *(("alignment", given) for given in (0, 3, None, "64", True)),
    ],
)
def test_entries_of_another_kind_make_no_plan(plan, entry, given):
    with warnings.catch_warnings(), pytest.raises(PlanError, match=f'"{entry}" of the plan is'):
        verify(GRAPH, changed(plan, **{entry: given}))


# ---------------------------------------------------------------- compare


def test_compare_has_a_column_for_the_packed_peak(wasteful):
    wasteful(lambda size: 7)
    found = compare(GRAPH, "70%", solvers=["no_remat", "chen_greedy"], allocator="arena", alignment=2)
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows()]
    assert found.columns[:3] == ("solver", "peak", "packed")
    assert {*found.columns} == {*Comparison.COLUMNS, "packed"} - {"bound"}
    plan = found.entries[0].plan
    assert rows[0]["packed"] == format_bytes(plan.reservation.memory)
    assert rows[0]["peak"] == format_bytes(plan.peak_memory)
    assert (rows[1]["packed"], found.notes()) == ("", ["no_remat: does not fit"])
    assert found.record()["solvers"][0].keys() >= KEYS
