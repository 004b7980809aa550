"""Greedy rematerialization: the walk against a slow one, examples by hand, laws."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from remat_algos.kernels.greedy import greedy_order

from remat_algos.context import Clock, OutOfTime
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import KEEP
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.search.solve import solve
from remat_algos.solvers import tuning
from remat_algos.solvers.methods import greedy_remat
from remat_algos.solvers.registry import Task, list_candidates, pareto, rank
from remat_algos.zoo.registry import build
from tests.ladders import ladder as two_rungs
from tests.oracles import greedy as oracle
from tests.oracles.revolve import least_ladder_compute
from tests.oracles.simulation import slow_simulation
from tests.strategies import graphs, orders, rows, training_graphs

UNBOUNDED = 2**30


def walk(graph, limit, max_block=1, order=None, max_runs=UNBOUNDED, min_work=UNBOUNDED, moves=True, rule=None):
    """The order that one walk gives, and the level of blocks that it came to."""
    order = np.flatnonzero(graph.needed) if order is None else order
    found, reached, _ = greedy_order(
        graph.arrays,
        np.asarray(order, np.int32),
        (~graph.once).view(np.uint8),
        limit=limit,
        max_block=max_block,
        max_runs=max_runs,
        factor=1,
        min_work=min_work,
        moves=moves,
        rule=greedy_remat.RULES.rule(("largest", "xla")[moves] if rule is None else rule),
    )
    return found.tolist(), reached


def named(graph, order):
    return " ".join(graph.labels[v] for v in order)


def edges(text, **arrays):
    """From "A-B A-C"."""
    return ComputationGraph.from_edges([tuple(edge.split("-")) for edge in text.split()], **arrays)


def ladder(length):
    """f0 -> f1 -> ..., then b.. b1 b0, each of which reads the one before it and its own f; all of size and cost 1."""
    forward = [(f"f{i}", f"f{i + 1}") for i in range(length - 1)] + [(f"f{length - 1}", "loss")]
    names = ["loss", *(f"b{i}" for i in reversed(range(length)))]
    backward = [edge for i, b in enumerate(names[1:]) for edge in ((names[i], b), (f"f{length - 1 - i}", b))]
    return ComputationGraph.from_edges(forward + backward)


def frontier(graph, **options):
    """Candidates that no other dominates, the lowest peak first."""
    return pareto(list_candidates(graph, "greedy_remat", **options), lambda found: found.figures)


def points(graph, **options):
    """Compute by peak."""
    return dict(found.figures for found in frontier(graph, **options))


def best(graph, limit):
    return min(list_candidates(graph, "greedy_remat", limit), key=lambda found: rank(found.figures, limit))


# ---------------------------------------------------------------- the walk


@given(data=st.data(), graph=graphs(max_nodes=8) | training_graphs(max_nodes=10))
def test_a_walk_is_that_of_the_oracle(data, graph):
    order = data.draw(st.just(np.flatnonzero(graph.needed).tolist()) | orders(graph))
    limit = data.draw(st.integers(0, slow_simulation(graph, order).peak))
    max_block = data.draw(st.sampled_from([1, 1, 2, 3, 8]))
    assert walk(graph, limit, max_block, order)[0] == oracle.greedy(graph, order, limit, max_block)


def any_block(nbytes, cost, since_read, until_read, readers, limit):
    """A rule that every argument sways, with few equal values."""
    return (cost + 1.25 * readers) / (nbytes * since_read + 0.5 * min(until_read, 99.0)) + 0.001 * limit


COMPILED = greedy_remat.RULES.rule(any_block)
RULES = {
    "any_block": any_block,
    "largest": lambda nbytes, **_: -nbytes,
    "dtr": lambda nbytes, cost, since_read, **_: cost / (nbytes * since_read),
    "furthest": lambda until_read, **_: -until_read,
}


@pytest.mark.parametrize("name", RULES)
@given(data=st.data(), graph=graphs(max_nodes=8) | training_graphs(max_nodes=10))
def test_a_walk_by_any_rule_is_that_of_the_oracle(name, data, graph):
    order = data.draw(st.just(np.flatnonzero(graph.needed).tolist()) | orders(graph))
    limit = data.draw(st.integers(0, slow_simulation(graph, order).peak))
    max_block = data.draw(st.sampled_from([1, 1, 2, 3, 8]))
    rule = COMPILED if name == "any_block" else name
    assert walk(graph, limit, max_block, order, rule=rule)[0] == oracle.greedy(
        graph, order, limit, max_block, RULES[name]
    )


def test_without_moves_the_greatest_saving_is_exact_and_what_was_run_stays():
    graph = edges("A-D B-F C-F D-E E-F", memory=[1, 4, 3, 1, 4, 1])  # of A, D, B, C, E, F
    # with a limit of 8, B (3 bytes) and C (4 bytes) wait for F: 8 // 3 == 8 // 4, so XLA takes B, the text C
    assert named(graph, walk(graph, 8, 1, max_runs=20, moves=False)[0]) == "A D B C D E C F"
    assert sorted(walk(graph, 8, 1)[0]) == list(range(6))  # nothing has read either: both are moved


def test_without_moves_only_the_number_of_runs_ends_mutual_postponement():
    graph = edges("A-D B-D C-D")  # within no byte at all A, B and C displace each other
    for most in (40, 80):
        assert len(walk(graph, 0, 1, max_runs=most, moves=False)[0]) == most


def test_the_choice_of_rules_is_recorded():
    graph = edges("A-B A-C B-D C-D A-E D-E")
    plan = solve(graph, 3, solver="greedy_remat", max_block=1, moves=False, raw=True)
    assert (plan.peak_memory, plan.details["moves"], plan.details["max_block"]) == (3, False, 1)
    assert "moves" not in solve(graph, 3, solver="greedy_remat", raw=True).details


def test_figure_1_of_the_paper():
    graph = edges("A-B A-C B-D C-D A-E D-E")
    # D holds A, B, C, D: A, which D does not read, is the only run to put off
    assert named(graph, walk(graph, 4)[0]) == "A B C D E"
    assert named(graph, walk(graph, 3)[0]) == "A B C D A E"
    assert simulate(graph, walk(graph, 3)[0]).peak_memory == 3


def test_what_saves_most_is_put_off_first():
    graph = edges("B-F C-F A-D D-E E-F", memory=[1, 1, 3, 1, 1, 1])  # of B, F, C, A, D, E
    # D holds B 1, C 3, A 1, D 1, and reads A: of B and C, which wait for F, C saves 3
    assert named(graph, walk(graph, 5)[0]) == "B A D E C F"


def test_a_dead_input_has_to_be_paid_for():
    graph = edges("A-B B-C C-D D-E B-E", memory=[1, 1, 1, 1, 1])
    # while D runs, B waits for E, and A, from which B could be made again, is dead: a run of B alone saves 1 - 1
    assert named(graph, walk(graph, 2)[0]) == "A B C D E"
    # a block A B has nothing to pay
    assert named(graph, walk(graph, 2, 2)[0]) == "A B C D A B E"


def test_blocks_double_to_the_most_that_is_allowed():
    graph = edges("A-B B-C C-D D-E E-F C-F")
    # while E runs, C waits for F; C needs B, and B C need A, which are dead, and save 1 - 1; A B C save 1
    for max_block, found in (1, "A B C D E F"), (2, "A B C D E F"), (3, "A B C D E A B C F"):
        assert named(graph, walk(graph, 2, max_block)[0]) == found
    assert walk(graph, 2, 64)[0] == walk(graph, 2, 3)[0]


def test_what_nobody_has_read_yet_is_moved():
    graph = edges("A-E B-C C-D D-E")
    assert named(graph, walk(graph, 2, 2)[0]) == "B C D A E"  # nothing runs twice
    assert named(graph, walk(graph, 2, 1)[0]) == "B C D A E"


def test_a_run_is_moved_only_twice_and_the_walk_ends():
    # A and B are for D; each would be put off behind the other for ever, since no limit below 2 can be met
    graph = edges("A-D B-D C-D")
    order, _ = walk(graph, 0, 8)
    assert sorted(order) == [0, 1, 2, 3]


def test_an_effect_is_no_reason_not_to_run_again():
    # b makes a value and an effect, an output of no bytes, which is that of its first run
    graph = ComputationGraph.from_arrays(
        **rows("read", [[], [0], [1], [3], [1, 4]]),
        value_indptr=[0, 1, 3, 4, 5, 6],
        memory=[1, 5, 0, 1, 1, 1],
        output=[False, False, True, False, False, True],
    )
    # node 3 runs while value 1 (5 bytes) waits for node 4; running node 1 again brings value 0 back for 1 byte
    order, _ = walk(graph, 3)
    assert order == [0, 1, 2, 3, 1, 4]
    assert slow_simulation(graph, order).trace == [1, 6, 7, 3, 7, 7]


def test_of_several_values_only_those_that_wait_are_saved():
    # node 1 makes values 1 (4 bytes, for node 2) and 2 (2 bytes, for node 4)
    graph = ComputationGraph.from_arrays(
        **rows("read", [[], [0], [1], [3], [2, 4]]), value_indptr=[0, 1, 3, 4, 5, 6], memory=[1, 4, 2, 1, 1, 1]
    )
    # node 3 holds 2 + 1 + 1; another run of node 1 saves 2 and brings back value 0 for 1
    order, _ = walk(graph, 3)
    assert order == [0, 1, 2, 3, 1, 4]
    assert slow_simulation(graph, order).trace == [1, 7, 6, 3, 8, 4]


def test_walks_that_cost_too_much_are_cut_short():
    graph = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(30)]))
    full, _ = walk(graph, 1, 64)
    few, level = walk(graph, 1, 64, max_runs=graph.n_nodes + 10)
    assert graph.n_nodes < len(few) < len(full)
    assert level == 8  # seven levels of blocks up to 64; one more stands for none found, two more for cut short
    single, _ = walk(graph, 1, 1)
    assert len(single) <= len(walk(graph, 1, 64, min_work=0)[0]) <= len(full)


# ---------------------------------------------------------------- the solver


def test_a_ladder_is_cheap_at_every_peak():
    # a search over live sets has 66, 35, 29, 27, 26 as the least compute of any schedule at 3 to 7 bytes
    found = points(ladder(10))
    assert all(found[peak] <= cost for peak, cost in {3: 66, 4: 36, 5: 30, 6: 28, 7: 26, 12: 21}.items())


def test_single_runs_gain_next_to_nothing_on_a_feed_forward_network_and_blocks_much():
    graph = differentiate(build("feed_forward", depth=24).graph)
    base = baseline(graph).peak_memory
    single, blocks = frontier(graph, max_block=1), frontier(graph, max_block=64)
    assert single[0].figures[0] > 0.9 * base
    assert blocks[0].figures[0] < 0.3 * base


@given(graph=training_graphs(max_nodes=12))
@settings(max_examples=10)
def test_all_sizes_of_blocks_are_at_least_as_good_as_one(graph):
    every, single = points(graph), points(graph, max_block=1)
    for peak, compute in single.items():
        assert min(cost for other, cost in every.items() if other <= peak) <= compute


def test_a_keep_mark_and_once_are_honoured():
    graph = edges("A-B A-C B-D C-D A-E D-E")
    assert best(graph, 3).figures == (3, 6)
    for firm in replace(graph, mark=[1, 0, 0, 0, 0]), replace(graph, once=[True, False, False, False, False]):
        assert len(best(firm, 3).schedule) == 5


def test_parameters_change_after_the_last_run_that_reads_them():
    graph = build("feed_forward", depth=4, optimizer="sgd").graph
    found = frontier(graph)  # the simulator refuses a run that reads a parameter after its update
    assert len(found[0].schedule) > graph.n_nodes


def test_the_size_of_blocks_is_told():
    graph = ladder(6)
    plan = solve(graph, "least", solver="greedy_remat", max_block=2, raw=True)
    assert plan.details["max_block"] == 2


# ---------------------------------------------------------------- walks with marks, details, the optimum


def feed_forward():
    """Products a c e g, activations b d f h, and gradients of these that read only the activation.

    a -> b -> c -> d -> e -> f -> g -> h
         |         |         |         |
         B <------ D <------ F <------ H
    """
    return edges("a-b b-c c-d d-e e-f f-g g-h h-H H-F F-D D-B f-F d-D b-B")


@pytest.mark.parametrize(
    ("limit", "max_block", "found", "peak"),
    [
        # h: b d f g h are held. Each of b d f alone saves 1 and brings back a c e for 1
        (4, 1, "a b c d e f g h H F D B", 5),
        # a b save b, and run before B
        (4, 2, "a b c d e f g h H F D a b B", 4),
        # f: b d e f, so a b go; h: d f g h, so e f go, as a dead b stands before c d; D: b waits, as no two help
        (3, 2, "a b c d e f g h H e f F D a b B", 4),
        # e f again: d e f and H; c d would bring b back, which is dead; a b c d save d
        (3, 4, "a b c d e f g h H e f F a b c d D a b B", 3),
    ],
)
def test_single_runs_gain_nothing_on_products_and_activations(limit, max_block, found, peak):
    graph = feed_forward()
    order, _ = walk(graph, limit, max_block)
    assert (named(graph, order), slow_simulation(graph, order).peak) == (found, peak)


@given(data=st.data(), graph=graphs(max_nodes=10) | training_graphs(max_nodes=12))
def test_walks_keep_to_marks_run_outputs_and_end(data, graph):
    """From any sound order; what must run once or is kept runs no more often than it did."""
    mark = [data.draw(st.sampled_from([0, 0, KEEP])) if forward else 0 for forward in graph.forward]
    graph = replace(graph, mark=mark, derivation=None)
    start = Schedule(np.flatnonzero(graph.needed).astype(np.int32))
    peak = slow_simulation(graph, start.order).peak
    limit, max_block = data.draw(st.integers(0, peak + 1)), data.draw(st.sampled_from([1, 3, 64]))
    found = greedy_remat.walk(graph, start, limit, max_block)[0].order
    slow_simulation(graph, found)
    assert set(found) == set(start.order)
    assert all(np.count_nonzero(found == v) == 1 for v in start.order if graph.once[v] or mark[v] == KEEP)
    assert len(found) <= tuning.MAX_WALK_RUNS * (graph.n_nodes + 8) + max_block
    if limit >= peak:
        assert found.tolist() == start.order.tolist()


def test_the_details_name_the_walk():
    """The walk that they name, from the order that they name, gives the schedule."""
    graph, starts = two_rungs(10), set()
    one_pass = Schedule(np.arange(graph.n_nodes, dtype=np.int32))
    for found in frontier(graph):
        starts.add(found.details.get("start"))
        if "walk_limit" in found.details and "start" not in found.details:
            again = greedy_remat.walk(graph, one_pass, found.details["walk_limit"], found.details["max_block"])[0]
            assert again.order.tolist() == found.schedule.order.tolist()
    assert None in starts
    assert any(str(start).startswith("best, turn ") for start in starts)
    assert best(graph, 12).details["one_pass"]
    # 0 costs 100, 1 costs 1, one has to go while 3 runs, and the first does; in the lowest pass 1 comes first
    pairs = [(0, 2), (1, 2), (2, 3), (3, 4), (4, 5), (1, 5), (5, 6), (0, 6)]
    uneven = ComputationGraph.from_edges(pairs, [5, 5, 1, 6, 1, 1, 1], [100, 1, 1, 1, 1, 1, 1])
    assert walk(uneven, 12)[0] == [0, 1, 2, 3, 4, 5, 0, 6]
    assert best(uneven, 12).details["start"] == "lowest pass"


def test_a_ladder_of_22_nodes_is_never_below_the_optimum():
    found = points(two_rungs(10))
    optimum = {peak: least_ladder_compute(10, peak) for peak in found}
    assert min(found) == 3  # b(i) holds b(i+1) and f(i)
    assert found[12] == optimum[12] == 22  # 11 nodes of the chain and b10 are held without rematerialization
    assert all(optimum[peak] <= found[peak] <= 1.06 * optimum[peak] for peak in found)


def test_schedules_come_with_their_simulations_and_no_two_are_equal():
    graph = two_rungs(10)
    found = list(greedy_remat.greedy_remat(graph, Task(), Clock()))
    assert len({each.schedule.order.tobytes() for each in found}) == len(found)
    assert all(each.figures == (simulate(graph, each.schedule).peak_memory, each.figures[1]) for each in found)


def test_a_walk_that_may_not_end_in_time_is_not_begun(monkeypatch):
    monkeypatch.setattr("remat_algos.solvers.tuning.SCANNED_A_SECOND", 1)
    found = greedy_remat.greedy_remat(two_rungs(10), Task(), Clock(100))
    assert next(found).details == {"one_pass": True}
    with pytest.raises(OutOfTime):
        next(found)
