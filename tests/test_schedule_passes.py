"""Passes: what they drop, hold and move, and that no schedule gets worse by them."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from remat_algos.kernels.passes import run_prices

from remat_algos.errors import ArgumentError, ScheduleError
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import KEEP, RECOMPUTE
from remat_algos.schedule.emission import clamp_counts, mirror_schedule
from remat_algos.schedule.polishing import KEYS, drop_dead_runs, polish, replay, reuse_values, sink_runs
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from tests.oracles import passes as oracle
from tests.oracles.plain import plain
from tests.oracles.simulation import serving_run, slow_simulation
from tests.raising import raises
from tests.strategies import graphs, orders, rows, training_graphs

PLAYED = settings(max_examples=20)


@st.composite
def scheduled(draw):
    """A graph, with marks or without, a schedule that honours them, and a limit about its peak."""
    graph = draw(graphs(max_nodes=7, min_nodes=1) | training_graphs(max_nodes=11))
    if graph.is_training and draw(st.booleans()):
        mark = draw(st.lists(st.sampled_from([0, 0, KEEP, RECOMPUTE]), min_size=graph.n_nodes, max_size=graph.n_nodes))
        wished = replace(graph, mark=np.where(graph.forward & ~graph.once, mark, 0), derivation=None)
        count = draw(st.lists(st.integers(0, 2), min_size=graph.n_nodes, max_size=graph.n_nodes))
        schedule = mirror_schedule(wished, clamp_counts(wished, np.array(count)))
        try:
            simulate(wished, schedule)
            graph = wished
        except ScheduleError:  # a pinned output that is to be recomputed
            pass
    else:
        schedule = Schedule(draw(orders(graph)))
    return graph, schedule, draw(st.integers(0, 2 * slow_simulation(graph, schedule.order).peak))


def named(edges, **arrays):
    return ComputationGraph.from_edges([tuple(edge) for edge in edges.split()], **arrays)


def after(change, graph, names):
    """The names that a pass leaves of a schedule."""
    return "".join(change(graph, Schedule.from_names(graph, names)).names(graph))


# ---------------------------------------------------------------- against what is obvious


@PLAYED
@given(scheduled())
def test_dead_runs_are_the_ones_that_serve_nobody(case):
    graph, schedule, _ = case
    found = drop_dead_runs(graph, schedule)
    assert found.order.tolist() == oracle.drop_dead_runs(graph, schedule.order.tolist())
    assert slow_simulation(graph, found.order).peak <= slow_simulation(graph, schedule.order).peak
    assert drop_dead_runs(graph, found).order.tolist() == found.order.tolist()


@PLAYED
@given(scheduled())
def test_a_replay_decides_step_for_step_as_the_oracle(case):
    graph, schedule, limit = case
    order = schedule.order.tolist()
    prices = {"density": [int(graph.compute[v]) for v in order], "chain": oracle.prices(graph, order)}
    assert run_prices(graph.arrays, schedule.order).tolist() == prices["chain"]
    for key in KEYS:
        assert replay(graph, schedule.order, limit, key).tolist() == oracle.replay(graph, order, limit, prices[key])


def test_a_replay_chooses_among_hundreds_as_the_oracle():
    """150 nodes that wait to be read again, more than one block of the kernel, and room for about half of them."""
    rng = np.random.default_rng(0)
    reads = [[], *([0] for _ in range(150)), *([1 + i] for i in range(150) for _ in range(2))]
    memory = np.concatenate([[1], rng.integers(1, 9, 150), np.zeros(300, int)])
    graph = ComputationGraph.from_arrays(**rows("read", reads), memory=memory, compute=rng.integers(0, 9, 451))
    order = [0, *(v for k in range(2) for i in rng.permutation(150).tolist() for v in (1 + i, 151 + 2 * i + k))]
    limit = int(memory.sum()) // 2
    found = replay(graph, np.array(order, np.int32), limit, "density").tolist()
    assert found == oracle.replay(graph, order, limit, [int(graph.compute[v]) for v in order])
    assert 451 < len(found) < len(order)


# ---------------------------------------------------------------- laws


@PLAYED
@given(scheduled())
def test_what_stays_never_costs_more_nor_breaks_the_limit(case):
    graph, schedule, limit = case
    before = slow_simulation(graph, schedule.order)
    for key in KEYS:
        for rounds in (1, 6):
            found = slow_simulation(graph, reuse_values(graph, schedule, limit, key=key, rounds=rounds).order)
            assert found.peak <= max(limit, before.peak)
            assert found.compute <= before.compute


@PLAYED
@given(scheduled())
def test_sunk_runs_read_what_they_read_before_and_never_raise_the_peak(case):
    graph, schedule, _ = case
    sunk = sink_runs(graph, schedule)
    assert sources(graph, sunk.order.tolist()) == sources(graph, schedule.order.tolist())
    assert slow_simulation(graph, sunk.order).peak <= slow_simulation(graph, schedule.order).peak


def sources(graph, order):
    """For each run, named by node and number: the numbers of the runs that made what it reads."""
    g = plain(graph)
    return {
        (node, order[:step].count(node)): [
            order[: serving_run(g, order, step, x)].count(g.producer[x]) for x in g.reads[node]
        ]
        for step, node in enumerate(order)
    }


@PLAYED
@given(scheduled(), st.booleans())
def test_polished_schedules_are_never_worse(case, limited):
    graph, schedule, limit = case
    before = simulate(graph, schedule)
    limit = limit if limited else None
    found = polish(graph, before, limit)
    room = before.peak_memory if limit is None else limit
    told = slow_simulation(graph, found.schedule.order)
    assert (told.peak, told.compute) == (found.peak_memory, found.compute)
    assert told.compute <= before.compute
    assert told.peak <= max(room, before.peak_memory)
    if told.compute == before.compute:
        assert found is before or told.peak < before.peak_memory
    assert polish(graph, found, limit).compute <= found.compute


# ---------------------------------------------------------------- by hand


@pytest.mark.parametrize(
    ("costs", "left"),
    [
        ((1, 1), "PXQYBQZ"),  # 2 bytes for price 1: P for 1 more step, Q for 2; Q is more
        ((10, 1), "PXQYBQZ"),  # 2 / 10 * 1 against 2 / 1 * 2: Q goes
        ((1, 10), "PXQYBPZ"),  # 2 / 1 * 1 against 2 / 10 * 2: P goes
    ],
)
def test_where_there_is_no_room_the_greatest_burden_goes(costs, left):
    """P and Q, of 2 bytes, are read by X and Y, and again by Z; B in between needs 2 of the 4 bytes for itself."""
    graph = named(
        "PX QY YB PZ QZ",
        memory=[2, 0, 2, 0, 0, 0],
        compute=[costs[0], 0, costs[1], 0, 0, 0],
        workspace=[0] * 4 + [2, 0],
    )
    assert graph.node_names() == list("PXQYBZ")
    assert after(lambda graph, schedule: reuse_values(graph, schedule, 4), graph, "PXQYBPQZ") == left


@pytest.mark.parametrize(("key", "left"), [("density", "RPXQYBRPQZ"), ("chain", "RPXQYBQZ")])
def test_a_chain_is_worth_more_than_its_last_node(key, left):
    """P costs 1, but R, which costs 8 and has 4 bytes, runs for it; Q costs 10; there is room for 6 bytes.

    When Q runs (step 3), with R and P there: P by its own price 2 / 1 * 4 is more than R's 4 / 8 * 3, and goes; at
    B, which takes 4, R and Q cannot stay either. By the price of its chain P has 2 / 9 * 4, so that R goes; at B it
    is 2 / 9 * 2 against Q's 2 / 10 * 3, and Q goes. P need not run again, nor then R.
    """
    graph = named(
        "RP PX QY YB PZ QZ",
        memory=[4, 2, 0, 2, 0, 0, 0],
        compute=[8, 1, 0, 10, 0, 0, 0],
        workspace=[0, 0, 0, 0, 0, 4, 0],
    )
    assert graph.node_names() == list("RPXQYBZ")
    assert after(lambda graph, schedule: reuse_values(graph, schedule, 6, key=key), graph, "RPXQYBRPQZ") == left


@pytest.mark.parametrize(
    ("memory", "left"),
    [
        ([1, 4, 2, 1, 1], "ABDCE"),  # C makes 2 and reads 1: it waits for E, and D lets the 4 of B go
        ([3, 4, 2, 1, 1], "ACBDE"),  # C makes 2 and reads 3, which it alone would hold; but B can wait for D
        ([2, 4, 2, 1, 1], "ABDCE"),  # C makes 2 and reads 2: it waits
    ],
)
def test_sinking_by_hand(memory, left):
    graph = named("AB AC AD BD CE DE", memory=memory)
    assert after(sink_runs, graph, "ABCDE") == left


@pytest.mark.parametrize(("workspace", "left"), [(0, [1, 0, 2]), (4, [0, 1, 2])])
def test_a_run_that_would_hold_too_much_does_not_move(workspace, left):
    """0, of 3 bytes, can wait for 2; but beside 1, of 6 bytes, a workspace of 4 would make 13, and the peak is 9."""
    graph = ComputationGraph.from_edges([(0, 2), (1, 2)], memory=[3, 6, 0], workspace=[workspace, 0, 0])
    assert sink_runs(graph, Schedule([0, 1, 2])).order.tolist() == left


def test_polish_holds_what_fits():
    """grad(2) and grad(1) read 1 and 0, which run again; 10 bytes are enough to hold all."""
    chain = differentiate(ComputationGraph.from_edges(list(pairwise(range(4)))))
    first, last = ["0", "1", "2", "3", "grad(3)"], ["grad(2)", "grad(1)", "grad(0)"]
    again = simulate(chain, Schedule.from_names(chain, [*first, "0", "1", *last]))
    held = polish(chain, again, 10)
    assert held.schedule.names(chain) == first + last
    assert polish(chain, held, 10) is held


@pytest.mark.parametrize("limit", [None, 0])
def test_polish_lowers_the_peak_where_there_is_nothing_to_hold(limit):
    """When D runs, A, B, C and itself take 1 + 4 + 2 + 1 bytes; without C, which can wait, 6, the most of all steps."""
    graph = named("AB AC AD BD CE DE", memory=[1, 4, 2, 1, 1])
    simulation = simulate(graph, Schedule.from_names(graph, "ABCDE"))
    assert (simulation.peak_memory, polish(graph, simulation, limit).peak_memory) == (8, 6)


# ---------------------------------------------------------------- what is refused


def test_unsound_schedules_and_unknown_options_are_refused():
    graph = named("AB BC")
    for change in (drop_dead_runs, sink_runs, lambda g, s: reuse_values(g, s, 9)):
        with raises(ScheduleError, name="C", value_name="B", step=1):
            after(change, graph, "AC")
    sound = Schedule([0, 1, 2])
    with raises(ArgumentError, key="cost", keys="'density' or 'chain'"):
        reuse_values(graph, sound, 9, key="cost")
    with raises(ArgumentError, rounds=0):
        reuse_values(graph, sound, 9, rounds=0)


def test_nothing_to_run_is_left_as_it_is():
    graph = ComputationGraph.from_edges([], n_nodes=0)
    empty = Schedule([])
    assert [len(change(graph, empty)) for change in (drop_dead_runs, sink_runs)] == [0, 0]
    assert len(reuse_values(graph, empty, 0)) == 0
    simulation = simulate(graph, empty)
    assert polish(graph, simulation, None) is simulation
