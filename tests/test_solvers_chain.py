"""Chains of stages: recognition, memory, the table, and the solvers over them."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from remat_algos.kernels.chain_table import EVERY, SWEEP, fill_rows, in_slots, operations, row_offset, rows_of_table

from remat_algos.context import Clock
from remat_algos.errors import GraphError
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Backward
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.simulation import simulate
from remat_algos.search.auto import default_solvers
from remat_algos.search.solve import solve
from remat_algos.solvers import chain_stages
from remat_algos.solvers.chain_stages import chain_of_stages, stages_of
from remat_algos.solvers.methods.chain_dp import ChainTable, chain_dp
from remat_algos.solvers.methods.revolve import first_checkpoint, forward_runs, unit_chain
from remat_algos.solvers.registry import Task, get_solver, list_candidates, pareto
from remat_algos.zoo.registry import build
from tests.benchmarks.layered_graphs import layered_graph
from tests.books import book
from tests.oracles import live_sets
from tests.oracles.chains import every_figure, every_schedule, is_exact, recurrence
from tests.raising import raises
from tests.small_graphs import training_chain
from tests.strategies import graphs, numbers, rows, stage_chains

chains = stage_chains().filter(lambda graph: get_solver("chain_dp").needs(graph) is None)


def frontier(graph, **options):
    """Pareto points of what chain_dp yields."""
    return pareto([found.figures for found in list_candidates(graph, "chain_dp", **options)], lambda figures: figures)


# ---------------------------------------------------------------- recognition


def test_a_forward_graph_is_told_to_differentiate():
    assert "differentiate" in chain_of_stages(ComputationGraph.from_edges([(0, 1), (1, 2)]))


def test_a_graph_with_a_long_skip_is_no_chain():
    graph = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3), (1, 3), (3, 4)]))
    assert chain_of_stages(graph) is None
    assert stages_of(graph).stage.tolist() == [0, 1, 2, 2, 3]
    skipping = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3), (0, 3)]))
    with raises(GraphError, name="chain_dp", reason=chain_stages.NO_CHAIN):
        solve(skipping, solver="chain_dp")


@pytest.mark.parametrize(("name", "least"), [("gpt2_small", 25), ("vit_b_16", 25), ("resnet50", 30), ("llama_7b", 60)])
def test_networks_of_the_zoo_are_chains_of_blocks(name, least):
    assert len(stages_of(differentiate(build(name).graph))) >= least


@given(graph=chains)
def test_stages_are_cut_where_one_value_passes(graph):
    stages = stages_of(graph)
    stage = dict(zip(stages.nodes.tolist(), stages.stage.tolist(), strict=True))
    place = dict(zip(stages.state.tolist(), stages.state_stage.tolist(), strict=True))
    assert stages.is_narrow
    for v in stage:
        for x in graph.reads(v):
            made = stage[int(graph.producer[x])]
            assert made == stage[v] or (made == stage[v] - 1 and place[x] == made)
    backward = dict(zip(stages.backward_nodes.tolist(), stages.backward_stage.tolist(), strict=True))
    assert list(backward.values()) == sorted(backward.values(), reverse=True)
    for v, k in backward.items():
        for x in graph.reads(v):
            producer = int(graph.producer[x])
            assert producer not in stage or stage[producer] == k or place.get(x) == k - 1


@given(graph=chains)
def test_keeping_all_is_the_run_without_rematerialization(graph):
    stages = stages_of(graph)
    last = len(stages) - 1
    forward = [*((chain_stages.EVERY, a) for a in range(last)), (chain_stages.LEAF, last)]
    backward = [(chain_stages.BACKWARD, a) for a in range(last, -1, -1)]
    order = stages.schedule([*forward, *backward]).order.tolist()
    assert order == baseline(graph).schedule.order.tolist()
    assert stages.upper.highest + stages.upper.pinned >= baseline(graph).peak_memory
    if is_exact(graph):
        assert stages.upper.highest == baseline(graph).peak_memory


@example(graph=ComputationGraph.from_edges([(1, 10)], n_nodes=11), count=2)  # the last stage is more than half
@given(graph=graphs(max_nodes=12, min_nodes=1, seeded=True), count=st.integers(2, 4))
def test_joined_stages_are_stages(graph, count):
    training = differentiate(graph)
    stages = stages_of(training)
    if stages is not None:
        joined = stages.joined(count)
        assert 2 <= len(joined) <= max(2, count)
        assert set(joined.state.tolist()) <= set(stages.state.tolist())
        for written in every_schedule(len(joined)):
            simulate(training, joined.schedule(written))


# ---------------------------------------------------------------- recurrences of higher order


def recurrence_of_order(k, n, memory=8, compute=10):
    """Steps that read the k steps before them, with gradients."""
    edges = [(f"u{t - j}", f"u{t}") for t in range(1, n) for j in range(1, k + 1) if t >= j]
    return differentiate(ComputationGraph.from_edges(edges, memory=memory, compute=compute))


def leapfrog(n):
    """Positions and velocities in turn; a force reads the position, so a step has three nodes."""
    edges = []
    for t in range(n):
        edges += [(f"x{t}", f"f{t}"), (f"f{t}", f"v{t + 1}"), (f"x{t}", f"x{t + 1}"), (f"v{t + 1}", f"x{t + 1}")]
        edges += [(f"v{t}", f"v{t + 1}")] if t else []
    return differentiate(ComputationGraph.from_edges(edges, memory=8, compute=10))


@pytest.mark.parametrize(
    ("graph", "state"),
    [(recurrence_of_order(2, 20), 2), (recurrence_of_order(6, 20), 6), (leapfrog(10), 2), (training_chain(20), 1)],
    ids=["order 2", "order 6", "leapfrog", "chain"],
)
def test_a_recurrence_is_a_chain_of_states(graph, state):
    stages = stages_of(graph)
    assert np.bincount(stages.state_stage).max() == state
    assert len(stages) >= graph.forward.sum() / 3
    assert chain_of_stages(graph) is None


@pytest.mark.parametrize("order", [2, 3])
@given(data=st.data())
def test_the_frontier_of_a_recurrence_is_that_of_all_schedules_of_the_class(data, order):
    n = data.draw(st.integers(4, 6))
    graph = recurrence_of_order(order, n, *(data.draw(st.just(8) | numbers(n, 9, 1)) for _ in range(2)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("remat_algos.solvers.tuning.MIN_STEPS", 3)
        patch.setattr("remat_algos.solvers.tuning.MORE_STAGES", 1)
        every = every_figure(graph)
        found = list_candidates(graph, "chain_dp")
    assert all(each.figures[0] <= each.details["promise"] for each in found)
    assert all(each.bound is None for each in found)
    lowest = pareto([figures[:2] for figures in every], lambda figures: figures)
    assert pareto([each.figures for each in found], lambda figures: figures) == lowest


@pytest.mark.parametrize(("order", "n"), [(2, 30), (2, 120), (3, 60)])
def test_a_recurrence_costs_no_more_than_revolve_with_as_many_states(order, n):
    """With s states beside the one that is being reversed, binomial checkpointing runs `forward_runs(n, s)` steps."""
    graph, costs = recurrence_of_order(order, n), []
    lowest = list_candidates(graph, "chain_dp", 1)[-1].figures[0]
    for limit in range(lowest, lowest + 4 * 8 * order, 8 * order):
        best = min(each.figures[1] for each in list_candidates(graph, "chain_dp", limit) if each.figures[0] <= limit)
        states = (limit - lowest) // (8 * order) + 1
        assert best - graph.needed_compute <= 10 * forward_runs(n, states)
        costs.append(best)
    assert costs == sorted(costs, reverse=True)


# ---------------------------------------------------------------- the class


@given(graph=chains)
def test_the_frontier_is_that_of_all_schedules_of_the_class(graph):
    every = every_figure(graph)
    lowest = pareto([figures[:2] for figures in every], lambda figures: figures)
    found = list_candidates(graph, "chain_dp")
    assert all(each.figures[0] <= each.details["promise"] for each in found)
    if is_exact(graph):
        assert pareto([each.figures for each in found], lambda figures: figures) == lowest
        assert all(each.figures[0] == each.details["promise"] for each in found)


@given(data=st.data(), graph=chains)
def test_a_bound_holds_for_all_schedules_of_the_class(data, graph):
    every = every_figure(graph)
    limit = data.draw(st.sampled_from(sorted({peak for peak, _, _ in every}))) + data.draw(st.integers(-1, 1))
    within = [compute for peak, compute, _ in every if peak <= limit]
    slots = data.draw(st.none() | st.integers(1, 12))
    for found in list_candidates(graph, "chain_dp", limit, slots=slots):
        if found.bound is not None:
            assert found.scope == "chain"
            assert found.bound <= min(within)
            assert slots is not None or not is_exact(graph) or found.bound == min(within)


@given(
    sizes=st.lists(st.integers(1, 4), min_size=3, max_size=3),
    costs=st.lists(st.integers(1, 4), min_size=3, max_size=3),
)
def test_small_chains_lose_nothing_to_any_order(sizes, costs):
    """Chains of three nodes whose gradients read inputs and values: nothing is better in any order."""
    graph = training_chain(3, memory=sizes, compute=costs)
    for peak, compute in frontier(graph):
        assert live_sets.least_compute(graph, peak)[0] == compute
    assert frontier(graph)[0][0] == live_sets.least_peak(graph)[0]


@given(graph=chains)
def test_frontiers_fall(graph):
    points = frontier(graph)
    assert [peak for peak, _ in points] == sorted({peak for peak, _ in points})
    assert [compute for _, compute in points] == sorted({compute for _, compute in points}, reverse=True)


def test_stages_without_cost_are_stages():
    graph = training_chain(6, compute=[0, 3, 0, 0, 2, 0], memory=[1, 2, 3, 1, 2, 1])
    every = pareto([figures[:2] for figures in every_figure(graph)], lambda figures: figures)
    assert frontier(graph) == every


def test_costs_and_sizes_may_be_large():
    huge = 2**44
    small = training_chain(5, memory=[1, 3, 2, 4, 1], compute=[2, 1, 3, 1, 2])
    large = training_chain(5, memory=[huge * x for x in (1, 3, 2, 4, 1)], compute=[huge * c for c in (2, 1, 3, 1, 2)])
    assert frontier(large) == [(huge * peak, huge * compute) for peak, compute in frontier(small)]


# ---------------------------------------------------------------- discretisation


@pytest.mark.parametrize("slots", [20, 100, 700])
def test_few_slots_stay_on_the_safe_side(slots):
    sizes = np.random.default_rng(slots).integers(1000, 9999, 24)
    graph = training_chain(24, memory=sizes, compute=sizes[::-1])
    limit = int(0.6 * baseline(graph).peak_memory)
    found = list_candidates(graph, "chain_dp", limit, slots=slots)
    assert all(each.figures[0] <= each.details["promise"] for each in found)
    best = min(each.figures[1] for each in found if each.figures[0] <= limit)
    bound = max(each.bound for each in found if each.bound is not None)
    exact = min(each.figures[1] for each in list_candidates(graph, "chain_dp", limit) if each.figures[0] <= limit)
    assert bound <= exact
    assert bound <= best
    if slots == 700:
        assert best <= 1.05 * bound


def test_a_table_that_is_too_large_is_refused():
    candidates = chain_dp(training_chain(300, memory=range(100_000, 100_300)), Task(), Clock(), slots=30_000)
    next(candidates)
    with raises(GraphError, stages=240):
        next(candidates)


# ---------------------------------------------------------------- the kernel


def random_memory(rng, n, most=6):
    memory = rng.integers(0, most, (12, n))
    memory[1] = rng.integers(-2, most, n)
    memory[0, -1] = memory[8, -1] = 0
    return memory


@pytest.mark.parametrize("seed", range(24))
def test_the_table_is_the_recurrence(seed):
    rng = np.random.default_rng(seed)
    n, width, unit, up = int(rng.integers(1, 13)), int(rng.integers(1, 24)), int(rng.integers(1, 4)), bool(seed % 2)
    costs = rng.integers(0, 5, (3, n)).astype(float)
    memory = random_memory(rng, n)
    table = np.empty(rows_of_table(n) * width, np.float32)
    middle = int(rng.integers(0, n + 1))
    fill_rows(table, width, costs, memory, unit, up, middle, n)
    fill_rows(table, width, costs, memory, unit, up, 0, middle)
    root = table[(n - 1) * width : n * width]
    assert root.tolist() == [recurrence(costs, memory, m, width - 1, unit, up) for m in range(width)]
    for m in np.flatnonzero(np.isfinite(root))[:2].tolist():
        codes = operations(table, width, costs, memory, unit, up, m, 10**6)
        price = {SWEEP: costs[0], EVERY: costs[1], 2: costs[2], 3: np.zeros(n)}
        assert sum(price[code % 4][code // 4] for code in codes) == root[m]
        assert operations(table, width, costs, memory, unit, up, m, 1) is None or len(codes) == 1


def test_rows_of_many_stages_do_not_overflow():
    n, width = 2071, 1001
    assert row_offset(n, n - 1, n - 1, width) == (rows_of_table(n) - 1) * width > 2**31


def test_a_chain_of_many_stages_has_a_table():
    n, width = 2_100, 4
    costs, memory = np.ones((3, n)), np.zeros((12, n), np.int64)
    memory[[0, 1]] = 1
    table = np.empty(rows_of_table(n) * width, np.float32)
    fill_rows(table, width, costs, memory, 1, True, n - 8, n)  # the last rows, at the end of the table
    begin = row_offset(n, n - 8, n - 1, width)
    last = np.empty(rows_of_table(8) * width, np.float32)
    fill_rows(last, width, costs[:, :8], memory[:, :8], 1, True, 0, 8)
    assert table[begin : begin + width].tolist() == last[7 * width : 8 * width].tolist()


def test_lengths_are_checked():
    costs, memory = np.ones((3, 2)), np.zeros((12, 2), np.int64)
    table = np.empty(3 * 5, np.float32)
    with pytest.raises(ValueError, match="must be"):
        fill_rows(table, 5, costs, memory[:9], 1, True, 0, 2)
    with pytest.raises(ValueError, match="15 entries"):
        fill_rows(table[:-1], 5, costs, memory, 1, True, 0, 2)
    with pytest.raises(ValueError, match="stages 0 to 3 of 2"):
        fill_rows(table, 5, costs, memory, 1, True, 0, 3)
    table[:] = math.inf
    with pytest.raises(ValueError, match="no solution in 4 slots"):
        operations(table, 5, costs, memory, 1, True, 4, 100)


def test_slots_are_rounded_up_or_down():
    assert [in_slots(size, 4, up) for size in (-5, 0, 7) for up in (True, False)] == [-1, -2, 0, 0, 2, 1]


# ---------------------------------------------------------------- revolve


@pytest.mark.parametrize("n", [1, 2, 3, 7, 20, 45])
def test_the_closed_form_is_the_recurrence(n):
    for s in range(1, 12):
        assert forward_runs(n, s) == book("revolve").recurrence(n, s)
        if n > 1 and s > 1:
            m = first_checkpoint(n, s)
            assert m + forward_runs(n - m, s - 1) + forward_runs(m, s) == forward_runs(n, s)


def test_the_closed_form_is_what_another_program_computes():
    other = pytest.importorskip("checkpoint_schedules")
    for n in range(1, 201):
        for s in range(1, 21):
            assert forward_runs(n, s) + n == other.optimal_steps_binomial(n, s)


def inputs_only(n):
    """A chain whose gradients read what their node reads, not its value."""
    reads = rows("saved", [[v - 1] if v else [] for v in range(n)])
    backward = Backward(**reads, grad_memory=[1] * n, grad_compute=[-1] * n, grad_workspace=[0] * n)
    return differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(n - 1)], backward=backward))


@pytest.mark.parametrize(("make", "beside"), [(training_chain, 3), (inputs_only, 2)])
@pytest.mark.parametrize("n", [3, 4, 7, 12, 40])
def test_unit_chains_are_solved_by_the_closed_form(n, make, beside):
    graph = make(n)
    points = pareto([found.figures for found in list_candidates(graph, "revolve")], lambda figures: figures)
    assert points == frontier(graph)
    assert points[0][0] == beside + 1
    for budget in range(beside + 1, n + 3):
        best = min(compute for peak, compute in points if peak <= budget)
        expected = 3 * n - 2 + forward_runs(n, min(budget - beside, n - 1)) - (n - 1)
        assert best == expected
        claims = {found.bound for found in list_candidates(graph, "revolve", budget)} - {None}
        assert claims == {expected}


@pytest.mark.parametrize("make", [training_chain, inputs_only])
def test_nothing_beats_revolve_on_short_unit_chains(make):
    for n in (3, 4, 5):
        graph = make(n)
        points = pareto([found.figures for found in list_candidates(graph, "revolve")], lambda figures: figures)
        assert points[0][0] == live_sets.least_peak(graph)[0]
        assert [(peak, live_sets.least_compute(graph, peak)[0]) for peak, _ in points] == points


def test_sizes_and_costs_scale():
    small, large = (
        [found.figures for found in list_candidates(graph, "revolve")]
        for graph in (training_chain(9), training_chain(9, memory=1000, compute=7))
    )
    assert large == [(1000 * peak, 7 * compute) for peak, compute in small]


@pytest.mark.parametrize(
    "graph",
    [
        training_chain(5, memory=[1, 1, 2, 1, 1]),
        training_chain(5, compute=[1, 1, 2, 1, 1]),
        training_chain(5, workspace=[0, 0, 3, 0, 0]),
        training_chain(5, once=[False, True, False, False, False]),
        differentiate(ComputationGraph.from_edges([(0, 1), (1, 2), (0, 2), (2, 3)])),
    ],
)
def test_other_chains_are_none_of_revolve(graph):
    assert unit_chain(graph) == "the forward part is not a chain of nodes of equal size and cost; use chain_dp"


def test_long_chains_take_no_time():
    graph = training_chain(3_000)
    best = list_candidates(graph, "revolve", 40, checkpoints=37)[-1]
    assert best.figures == (40, best.bound)
    assert best.bound == 3 * 3_000 - 2 + forward_runs(3_000, 37) - 2_999


# ---------------------------------------------------------------- in the portfolio


def test_narrow_solvers_run_by_themselves_only_where_they_can_serve():
    used = {solver.name for solver in default_solvers(training_chain(120))}
    assert "chain_dp" in used
    assert "chain_dp" not in {solver.name for solver in default_solvers(training_chain(20))}
    other = differentiate(layered_graph(120, 0.5, 0))
    assert "chain_dp" not in {solver.name for solver in default_solvers(other)}
    assert "chain_dp" not in {solver.name for solver in default_solvers()}


def test_gpt2_at_a_quarter_of_its_peak():
    graph = differentiate(build("gpt2_small").graph)
    plan = solve(graph, "25%", solver="chain_dp", raw=True)
    assert plan.overhead <= 0.2160 * graph.needed_compute
    assert plan.details["stages"] == len(stages_of(graph))


def test_a_table_knows_what_it_has():
    graph = training_chain(8)
    stages = stages_of(graph)
    table = ChainTable.of(stages, stages.upper, 20, None, Clock())
    assert (table.unit, table.width) == (1, 21)
    assert table.bound(20) == graph.needed_compute
    assert table.bound(2) is None
    assert table.points().tolist() == sorted(table.points().tolist())


@pytest.mark.slow
@pytest.mark.parametrize("limit", [64, 72, 96])
def test_auto_plans_a_recurrence_no_worse_than_its_chain_of_states(limit):
    graph = recurrence_of_order(2, 40)
    alone = solve(graph, limit, solver="chain_dp")
    for seed in range(2):
        assert solve(graph, limit, seed=seed).overhead <= alone.overhead
