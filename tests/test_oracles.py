"""The oracles against figures from papers, and against each other."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remat_algos.ir.parts import Backward, Labels, Resident
from tests.books import book
from tests.oracles.emitter import canonical, checkpoint, mirror
from tests.oracles.gradients import derive, forward_outputs
from tests.oracles.plain import plain
from tests.oracles.search import least_compute, least_peak
from tests.oracles.simulation import Unsound, peak_memory, slow_simulation
from tests.small_graphs import graph_of
from tests.strategies import differentiation, graphs, lower_set_chains, rows

# ---------------------------------------------------------------- graphs by hand


def chain(n, output=True, **arrays):
    """f1 -> .. -> fn, then its gradients g_n .. g_1; `output`: a gradient reads what the forward node made too."""
    reads = [[]] + [[i - 1] for i in range(1, n)] + [[n - 1]]
    for v in range(n - 1, 0, -1):  # g_v: after g_(v+1), from what f_(v+1) read and made
        reads.append([2 * n - 1 - v, v - 1] + [v] * output)
    owners = [-1] * n + list(reversed(range(n)))
    return graph_of(reads, forward_of=owners, **arrays)


def segment_ends(n):
    root = math.isqrt(n)
    return set(range(root - 1, n, root))


def last_segment(n):
    return set(range(n - math.isqrt(n), n))


def training(graph, **options):
    """A graph with the gradients of the oracle."""
    g, gradients = plain(graph), derive(graph, **options)
    options = {name: options[name] for name in ("loss", "keep_outputs") if name in options}
    kept = forward_outputs(graph, **options)
    ids = {name: x for x, name in enumerate(g.value_names)}
    ids |= {gradient.name: len(g.memory) + i for i, gradient in enumerate(gradients)}
    new = len(gradients)
    return graph_of(
        g.reads + [[ids[name] for name in gradient.reads] for gradient in gradients],
        value_indptr=rows("value", g.values + [[0]] * new)["value_indptr"],
        memory=g.memory + [gradient.memory for gradient in gradients],
        compute=g.compute + [gradient.compute for gradient in gradients],
        workspace=g.workspace + [gradient.workspace for gradient in gradients],
        once=g.once + [False] * new,
        output=[x in kept for x in range(len(g.memory))] + [gradient.output for gradient in gradients],
        forward_of=[-1] * len(g.reads) + [gradient.forward_of for gradient in gradients],
    )


@st.composite
def training_by_oracle(draw, max_nodes=6):
    graph = draw(graphs(max_nodes=max_nodes, min_nodes=1, seeded=True))
    return training(graph, **draw(differentiation(graph)))


# ---------------------------------------------------------------- the slow simulation

KUMAR = [[], [0], [0], [1, 2], [0, 3]]  # kumar2019, figure 1


@pytest.mark.parametrize(("order", "peak"), [("ABCDE", 4), ("ABCDAE", 3)])
def test_figure_of_kumar_2019(order, peak):
    assert peak_memory(graph_of(KUMAR), ["ABCDE".index(name) for name in order]) == peak


def test_an_instance_lives_to_its_last_read_before_its_node_runs_again():
    slow = slow_simulation(graph_of(KUMAR), [0, 1, 2, 3, 0, 4])
    assert slow.lifetimes == [(0, 0, 3), (1, 1, 4), (2, 2, 4), (3, 3, 6), (4, 0, 6), (5, 4, 6)]
    assert (slow.trace, slow.peak_step, slow.compute, slow.overhead) == ([1, 2, 3, 3, 2, 3], 2, 6, 1)


def test_an_output_is_pinned_from_its_first_run_and_its_second_copy_serves_nobody():
    graph = graph_of([[], [0]], memory=[4, 1], output=[True, True])
    assert slow_simulation(graph, [0, 0, 1]).lifetimes == [(0, 0, 3), (1, 0, 2), (2, 1, 3)]
    assert slow_simulation(graph, [0, 0, 1]).trace == [4, 8, 5]


def test_a_run_makes_all_values_and_holds_its_workspace():
    graph = graph_of([[], [0]], value_indptr=[0, 3, 4], memory=[1, 10, 100, 1000], workspace=[7, 0])
    assert slow_simulation(graph, [0, 1]).trace == [118, 1001]


def test_an_empty_schedule_holds_nothing():
    slow = slow_simulation(graph_of([]), [])
    assert (slow.trace, slow.peak, slow.compute, slow.overhead, slow.lifetimes) == ([], 0, 0, 0, [])


@pytest.mark.parametrize(
    ("order", "arrays", "broken"),
    [
        ([0, 2], {}, ("unmade", 1, 2)),
        ([0, 3], {}, ("unknown", 1, 3)),
        ([-1], {}, ("unknown", 0, -1)),
        ([0, 1], {}, ("output", 2, 2)),
        ([], {}, ("output", 0, 2)),
        ([0, 1, 0, 2], {"once": [True, False, False]}, ("once", 2, 0)),
        ([0, 1, 0, 2], {"mark": [1, 0, 0]}, ("keep", 2, 0)),
        ([0, 1, 2], {"mark": [0, 2, 0], "forward_of": [-1, -1, 0]}, ("recompute", 2, 2)),
    ],
)
def test_broken_laws_are_named(order, arrays, broken):
    with pytest.raises(Unsound) as error:
        slow_simulation(graph_of([[], [0], [1]], **arrays), order)
    assert (error.value.law, error.value.step, error.value.node) == broken


@pytest.mark.parametrize("arrays", [{"mark": [0, 2, 0]}, {"mark": [2, 0, 0], "forward_of": [-1, -1, 0]}])
def test_a_recompute_mark_binds_what_the_backward_part_reads_only(arrays):
    assert slow_simulation(graph_of([[], [0], [1]], **arrays), [0, 1, 2]).compute == 3


def test_a_recompute_mark_is_met_by_a_second_run():
    graph = graph_of([[], [0], [1]], mark=[0, 2, 0], forward_of=[-1, -1, 0])
    assert slow_simulation(graph, [0, 1, 0, 1, 2]).overhead == 2


# ---------------------------------------------------------------- lower sets


@pytest.mark.parametrize("n", [4, 9, 16])
def test_on_a_chain_lower_sets_are_segments(n):
    root = math.isqrt(n)
    prefixes = [set(range(end)) for end in range(root, n + 1, root)]
    graph = chain(n, output=False)  # with outputs a gradient reads one value of the segment behind
    assert canonical(graph, prefixes) == checkpoint(graph, segment_ends(n) | last_segment(n))
    assert canonical(graph, prefixes, keep_last=False) == checkpoint(graph, segment_ends(n) - {n - 1})


def skip(**arrays):
    """0 -> 1 -> 2 -> 3, and 3 reads 0 too; a gradient reads all that its node read and made."""
    return training(graph_of([[], [0], [1], [0, 2]], **arrays))


def test_a_block_runs_what_its_gradients_miss():
    # gradients: 4 of 3; 5 of 0 and 6 of 2, by 3; 7 of 1, by 2; 8 of 0, by 1
    lower_sets = [{0, 1}, {0, 1, 2, 3}]
    assert canonical(skip(), lower_sets) == [0, 1, 2, 3, 4, 6, 5, 7, 8]
    assert canonical(skip(), lower_sets, keep_last=False) == [0, 1, 2, 3, 2, 3, 4, 6, 3, 5, 7, 8]


def test_a_block_of_everything_keeps_or_forgets_everything():
    assert canonical(skip(), [{0, 1, 2, 3}]) == list(range(9))
    forgets = [0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert canonical(skip(), [{0, 1, 2, 3}], keep_last=False) == forgets
    assert canonical(skip(), [{0, 1, 2, 3}], keep_last=False, lazy=False) == forgets


def test_co_inputs_outlive_their_block():
    # gradients: 4 of 3; 5 of 1 and 6 of 2, by 3; 7 of 0, by 1. What 5 reads: 2 is a co-input, 3 must run again
    graph = training(graph_of([[], [0], [], [1, 2]]))
    order = canonical(graph, [{0, 1}, {0, 1, 2, 3}], keep_last=False)
    assert order == [0, 1, 2, 3, 2, 3, 4, 6, 3, 5, 0, 7]


def test_only_the_lazy_emitter_leaves_out_what_no_gradient_reads():
    nothing_saved = Backward([0] * 5, [], grad_memory=[1] * 4, grad_compute=[-1] * 4, grad_workspace=[0] * 4)
    graph = training(graph_of([[], [0], [1], [2]], backward=nothing_saved))
    lower_sets = [{0, 1}, {0, 1, 2, 3}]
    assert canonical(graph, lower_sets, keep_last=False) == [0, 1, 2, 3, 2, 3, 4, 5, 6, 7]
    assert canonical(graph, lower_sets, keep_last=False, lazy=False) == [0, 1, 2, 3, 2, 3, 4, 5, 0, 6, 7]


def test_a_once_node_is_never_run_again():
    graph = training(graph_of([[], [0], [1]], once=[False, True, False]))
    for order in checkpoint(graph, set()), canonical(graph, [{0, 1, 2}], keep_last=False):
        assert order.count(1) == 1
    with pytest.raises(ValueError, match="mirrored"):
        mirror(graph, [1] * 6)


def test_a_pinned_value_asks_for_no_run():
    graph = training(graph_of([[], [0], [1]], output=[False, True, True]), keep_outputs=True)
    assert checkpoint(graph, set()) == [0, 1, 2, 3, 4, 5, 0, 6]


def test_lower_sets_must_hold_what_is_needed():
    with pytest.raises(ValueError, match="lacks"):
        canonical(skip(), [{0, 1}])


@given(st.data())
def test_every_schedule_of_the_emitter_is_sound(data):
    graph = data.draw(training_by_oracle())
    g = plain(graph)
    kept = data.draw(st.sets(st.sampled_from(g.forward())))
    m = [0 if g.once[v] else data.draw(st.integers(0, 3)) for v in g.nodes]
    chain = data.draw(lower_set_chains(graph))
    schedules = [checkpoint(graph, kept), mirror(graph, m)]
    schedules += [canonical(graph, chain, *flags) for flags in itertools.product((False, True), repeat=2)]
    for order in schedules:
        assert slow_simulation(graph, order).overhead >= 0
        assert all(order.count(v) == (v in g.needed()) for v in g.backward())


@given(st.data())
def test_keeping_everything_is_the_run_in_id_order(data):
    graph = data.draw(training_by_oracle())
    g = plain(graph)
    order = [v for v in g.nodes if v in g.needed()]
    assert checkpoint(graph, set(g.forward())) == order
    assert canonical(graph, [set(g.forward())]) == order
    assert canonical(graph, [set(g.forward())], lazy=False) == order


# ---------------------------------------------------------------- gradients


def test_gradients_of_a_chain():
    made = plain(training(graph_of([[], [0], [1]])))
    wanted = plain(chain(3))
    assert made.reads[3] == wanted.reads[3]
    assert [set(row) for row in made.reads[4:]] == [set(row) for row in wanted.reads[4:]]
    assert (made.forward_of, made.outputs) == (wanted.forward_of, wanted.outputs)


def test_gradients_add_up_over_readers():
    graph = graph_of([[], [0], [0, 1]], compute=[1, 2, 3], labels=Labels(names=("a", "b", "c")))
    made = [(g.name, g.reads, g.compute, g.forward_of, g.output) for g in derive(graph)]
    assert made == [
        ("grad(c)", ["c"], 0, 2, False),
        ("grad(a)@c", ["grad(c)", "a", "b", "c"], 3, 0, False),
        ("grad(b)", ["grad(c)", "a", "b", "c"], 3, 1, False),
        ("grad(a)", ["grad(b)", "a", "b", "grad(a)@c"], 4, 0, True),
    ]


def test_the_sum_of_a_loss_that_is_read_starts_with_its_seed():
    graph = graph_of([[], [0]], labels=Labels(names=("a", "b")))
    made = [(g.name, g.reads, g.output) for g in derive(graph, loss=["a", "b"])]
    assert made == [
        ("grad(b)", ["b"], False),
        ("grad(a)@loss", ["a"], False),
        ("grad(a)", ["grad(b)", "a", "b", "grad(a)@loss"], True),
    ]


def test_gradients_of_a_tied_parameter_add_up_and_belong_to_its_readers():
    resident = Resident(memory=[5, 7], role=[0, 1], read_indptr=[0, 2, 3], read_indices=[0, 1, 1], names=("x", "p"))
    graph = graph_of([[], [0]], compute=[2, 3], resident=resident)
    made = [(g.name, g.memory, g.compute, g.forward_of, g.residents) for g in derive(graph, parameter_gradients=True)]
    assert made == [
        ("grad(1)", 1, 0, 1, []),
        ("grad(0)", 1, 3, 0, [1]),
        ("grad(p)@1", 7, 3, 1, [1]),
        ("grad(p)", 7, 4, 0, [0, 1]),
    ]


def test_no_gradient_is_made_of_what_leads_to_no_loss_or_has_none():
    rule = Backward(
        [0, 0, 0, 0, 0], [], grad_memory=[1, -1, 1, 9], grad_compute=[-1, -1, -1, 5], grad_workspace=[0, 0, 0, 8]
    )
    graph = graph_of([[], [], [0], [0, 1]], backward=rule, labels=Labels(names=("a", "b", "c", "d")))
    made = [(g.name, g.reads, g.memory, g.compute, g.workspace) for g in derive(graph, loss=["d"])]
    assert made == [("grad(d)", ["d"], 9, 0, 0), ("grad(a)", ["grad(d)"], 1, 5, 8)]
    assert forward_outputs(graph, loss=["d"]) == {2}
    assert forward_outputs(graph, loss=["d"], keep_outputs=True) == {2, 3}


def test_nothing_seeded_is_an_error():
    with pytest.raises(ValueError, match="seeded"):
        derive(graph_of([[]]), loss=[])


# ---------------------------------------------------------------- the true optimum


def test_the_figure_of_kumar_2019_is_optimal():
    graph = graph_of(KUMAR)
    assert least_peak(graph)[0] == 3
    assert least_compute(graph, 3) == (6, [0, 1, 2, 3, 0, 4])
    assert least_compute(graph, 4)[0] == 5
    assert least_compute(graph, 2) is None


@pytest.mark.parametrize(("output", "spare"), [(True, 3), (False, 2)])
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_optimum_of_a_unit_chain_is_revolve(n, output, spare):
    graph = chain(n, output=output, compute=[1] * n + [0] + [2] * (n - 1))
    assert least_peak(graph)[0] == spare + 1
    for limit in range(spare + 1, n + 3):
        assert least_compute(graph, limit)[0] == 3 * n - 2 + book("revolve").recurrence(n, limit - spare) - (n - 1)


def schedules(graph, most):
    """Every sound schedule of at most so many steps."""
    g = plain(graph)

    def extend(order):
        if g.outputs <= {x for v in order for x in g.values[v]}:
            yield order
        if len(order) < most:
            for v in g.nodes:
                if set(g.predecessors(v)) <= set(order) and not (g.once[v] and v in order):
                    yield from extend([*order, v])

    return extend([])


@settings(max_examples=40, deadline=None)
@given(graphs(max_nodes=4, min_nodes=1))
def test_no_short_schedule_beats_the_search(graph):
    simulations = [slow_simulation(graph, order) for order in schedules(graph, len(plain(graph).nodes) + 2)]
    peak, order = least_peak(graph)
    assert peak_memory(graph, order) == peak == min([each.peak for each in simulations if each.peak <= peak])
    for limit in {each.peak for each in simulations}:
        compute, order = least_compute(graph, limit)
        assert slow_simulation(graph, order).compute == compute
        assert peak_memory(graph, order) <= limit
        assert compute <= min(each.compute for each in simulations if each.peak <= limit)
    assert least_compute(graph, peak - 1) is None
