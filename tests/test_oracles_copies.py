"""The oracle for plans with copies: against the hand, and against its own laws on random schedules.

The chain is A -> B -> C -> D with gradients gD .. gA; A is read by B and by gA, B by C and gB, C by D and gC. Values
A to gA are 0 to 7; A has 4 bytes, B, C and D 2, gradients 1; each run takes 10.
"""

from random import Random

import pytest

from remat_algos.ir.graph import ComputationGraph
from tests.oracles.copies import actions, clock, instances, linger, play, random_copies
from tests.oracles.plain import plain
from tests.oracles.simulation import Unsound, slow_simulation
from tests.small_graphs import small_graphs
from tests.strategies import rows


def graph_of(reads, **arrays):
    return ComputationGraph.from_arrays(**rows("read", reads), compute=[10] * len(reads), **arrays)


CHAIN = graph_of([[], [0], [1], [2], [3], [4, 2], [5, 1], [6, 0]], memory=[4, 2, 2, 2, 1, 1, 1, 1])
ORDER = range(8)


def timeline(order, loads, out, into, held=(), graph=CHAIN):
    return clock(graph, actions(graph, order, loads, held), [out] * graph.n_values, [into] * graph.n_values)


def test_a_value_leaves_and_returns():
    todo = actions(CHAIN, ORDER, [(6, 0)])
    short = " ".join(f"{kind[0]}{at}" for kind, at in todo)
    assert short == "c0 s0 c1 f0 c2 c3 c4 f3 c5 f2 f4 l0 c6 f1 f5 c7 f0 f6"
    assert play(CHAIN, todo) == ([4, 6, 4, 6, 7, 6, 8, 6], [0, 4, 4, 4, 4, 4, 4, 4])


def test_a_free_waits_for_the_store():
    """Store 10 to 25, B 10 to 20; C begins at 25; load 65 to 73, gB 65 to 75, gA 75 to 85."""
    line = timeline(ORDER, [(6, 0)], out=15, into=8)
    assert line.waits == [0, 0, 5, 0, 0, 0, 0, 0]
    assert (line.time, line.busy) == (85, {"compute": 80, "out": 15, "in": 8})
    assert (line.begin[1], line.end[1]) == (10, 25)


def test_a_value_lingers_where_it_fits():
    """C has 4 bytes live, A 4: A lingers within 8 and is released before D, at 30; within 7 C waits to 25."""
    times = [15] * 8, [8] * 8
    assert linger(CHAIN, ORDER, [(6, 0)], 8, *times) == ([(6, 0)], [(0, 0, 3)], [])
    assert linger(CHAIN, ORDER, [(6, 0)], 7, *times) == ([(6, 0)], [], [])
    assert timeline(ORDER, [(6, 0)], out=15, into=8, held=[(0, 0, 3)]).time == 80
    assert play(CHAIN, actions(CHAIN, ORDER, [(6, 0)], [(0, 0, 3)]))[0] == [4, 6, 8, 6, 7, 6, 8, 6]


def test_a_load_of_what_lingers_is_dropped():
    """A is freed after B, at 20, and its store ends at 32: it lingers in C, and if 10 bytes fit in D."""
    times = [22] * 8, [8] * 8
    assert linger(CHAIN, ORDER, [(2, 0)], 8, *times) == ([], [], [])
    assert linger(CHAIN, ORDER, [(2, 0), (6, 0)], 8, *times) == ([(6, 0)], [(0, 0, 3)], [])
    assert linger(CHAIN, ORDER, [(2, 0), (6, 0)], 10, *times) == ([(6, 0)], [(0, 0, 4)], [])
    assert linger(CHAIN, ORDER, [(6, 0)], 99, [90] * 8, [8] * 8) == ([], [], [])


def test_a_load_waits_for_the_store():
    """A is held to the end, its store ends at 79; C and what follows do not wait, gA begins at 87."""
    line = timeline(ORDER, [(6, 0)], out=69, into=8, held=[(0, 0, 8)])
    assert line.waits == [0, 0, 0, 0, 0, 0, 0, 17]
    assert line.time == 97
    assert play(CHAIN, actions(CHAIN, ORDER, [(6, 0)], [(0, 0, 8)]))[0] == [4, 6, 8, 10, 11, 10, 12, 10]


def test_a_load_that_nothing_reads_waits_for_its_arrival():
    """Load 30 to 60 beside D, which ends at 40; gD begins at 60, gB at 80 with the load, which ends at 110."""
    loads = [(3, 0), (6, 0)]
    line = timeline(ORDER, loads, out=5, into=30)
    assert line.waits == [0, 0, 0, 0, 20, 0, 0, 20]
    assert line.time == 120
    assert play(CHAIN, actions(CHAIN, ORDER, loads)) == ([4, 6, 4, 10, 7, 6, 8, 6], [0, 4, 4, 4, 4, 4, 4, 4])


def test_stores_and_loads_queue():
    """A makes x and y; B reads y, C x, D both: y is freed first and stored first, 10 to 17, x 17 to 24.

    The loads of D go in the order of their rows, 30 to 36 and 36 to 42.
    """
    graph = graph_of([[], [1], [0], [0, 1]], value_indptr=[0, 2, 3, 4, 5])
    todo = actions(graph, range(4), [(3, 0), (3, 1)])
    assert todo[:4] == [("compute", 0), ("store", 1), ("store", 0), ("compute", 1)]
    line = timeline(range(4), [(3, 0), (3, 1)], out=7, into=6, graph=graph)
    copies = [(*action, *times) for action, *times in zip(todo, line.begin, line.end, strict=True) if len(action) == 2]
    assert [c for c in copies if c[0] == "store"] == [("store", 1, 10, 17), ("store", 0, 17, 24)]
    assert [c for c in copies if c[0] == "load"] == [("load", 0, 30, 36), ("load", 1, 36, 42)]
    assert (line.waits, line.time) == ([0, 0, 0, 12], 52)


def test_a_late_store_lets_an_urgent_one_pass():
    """A and B leave; D needs the room of B, F that of A. A is stored 10 to 30, B 30 to 40, and D waits for 10.

    With A behind B, B is stored 20 to 30, A 30 to 50, and nothing waits.
    """
    graph = graph_of([[], [], [1], [2], [0, 3], [0, 1, 4]], memory=[4, 2, 2, 1, 1, 1])
    loads, out = [(5, 1), (5, 0)], [20, 10, 0, 0, 0, 0]
    early, late = (actions(graph, range(6), loads, placed=placed) for placed in ([], [(2, 0)]))
    assert early[:3] == [("compute", 0), ("store", 0), ("compute", 1)]
    assert late[:4] == [("compute", 0), ("compute", 1), ("store", 1), ("store", 0)]
    times = [clock(graph, todo, out, [0] * 6) for todo in (early, late)]
    assert [[*line.waits, line.time] for line in times] == [[0, 0, 0, 10, 0, 0, 70], [0, 0, 0, 0, 0, 0, 60]]
    assert play(graph, early)[0] == play(graph, late)[0]


def test_copies_that_end_last_are_in_the_time():
    """Three runs end at 30; A is held to the end, its store ends at 35 and the load that nothing reads at 43."""
    graph = graph_of([[], [0], []])
    line = timeline(range(3), [(2, 0)], out=25, into=8, graph=graph, held=[(0, 0, 3)])
    assert (line.waits, line.time) == ([0, 0, 0], 43)


@pytest.mark.parametrize(
    ("law", "todo"),
    [
        ("loaded before made", [("load", 0), ("compute", 0)]),
        ("loaded before stored", [("compute", 0), ("load", 0)]),
        ("stored after free", [("compute", 0), ("free", 0), ("store", 0)]),
        ("stored twice", [("compute", 0), ("store", 0), ("store", 0)]),
        ("output", [*(("compute", v) for v in ORDER), ("store", 7)]),
        ("unmade", [("compute", 1)]),
        ("unmade", [("compute", 0), ("free", 0), ("compute", 1)]),
        ("free of nothing", [("compute", 0), ("free", 0), ("free", 0)]),
        ("free of nothing", [("free", 0)]),
    ],
)
def test_a_broken_law_is_named(law, todo):
    with pytest.raises(Unsound) as caught:
        play(CHAIN, todo)
    assert caught.value.law == law


# ---------------------------------------------------------------- random schedules

CASES = [pytest.param(graph, *random_copies(Random(name), graph), id=name) for name, graph in small_graphs(60, 8, 16)]


@pytest.mark.parametrize(("graph", "order", "loads", "held", "placed"), CASES)
def test_the_list_has_the_bytes_of_the_laws(graph, order, loads, held, placed):
    g, lives = plain(graph), instances(graph, order, loads, held, placed)
    device, host = play(graph, actions(graph, order, loads, held, placed))
    assert device == [
        sum(g.memory[life.value] for life in lives if life.made <= step < life.end) + g.workspace[node]
        for step, node in enumerate(order)
    ]
    expected = [0] * len(order)
    for x, life in {life.value: life for life in lives if life.loaded}.items():  # the last load of each value
        stored = {x: step for step, x in placed}.get(x, order.index(g.producer[x]) + 1)
        for step in range(stored, min(life.read, default=life.made) + 1):
            expected[step] += g.memory[x]
    assert host == expected
    assert play(graph, actions(graph, order, []))[0] == slow_simulation(graph, order).trace


@pytest.mark.parametrize(("graph", "order", "loads", "held", "placed"), CASES)
def test_lingering_stays_within_the_limit_and_is_never_later(graph, order, loads, held, placed):
    random = Random(len(loads))
    times = [[random.randint(0, 6) for _ in range(graph.n_values)] for _ in ("out", "in")]
    plan = actions(graph, order, loads, placed=placed)
    limit = max(play(graph, plan)[0]) + random.randint(0, 5)
    lingering = actions(graph, order, *linger(graph, order, loads, limit, *times, placed))
    assert max(play(graph, lingering)[0]) <= limit
    assert clock(graph, lingering, *times).time <= clock(graph, plan, *times).time
