"""Formula (2) term by term, and what the canonical strategy holds when values are dropped only where it says so."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.errors import ScheduleError
from remat_algos.formats.graph_files import read_graph
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import RECOMPUTE, Backward
from remat_algos.schedule.emission import canonical_schedule, canonical_trace
from remat_algos.schedule.simulation import simulate
from remat_algos.structure.lower_sets import LowerSets, single_boundary_chain
from tests.oracles.emitter import boundary, canonical, co_inputs
from tests.oracles.plain import plain
from tests.oracles.simulation import serving_run, slow_simulation
from tests.strategies import captured_graphs, graphs, lower_set_chains, numbers, rows, structures, training_graphs

FLAGS = st.fixed_dictionaries({"keep_last": st.booleans(), "lazy": st.booleans()})


@st.composite
def chained(draw, source):
    graph = draw(source)
    return graph, draw(lower_set_chains(graph))


@st.composite
def reading_inputs_only(draw, max_nodes=9):
    """Training graphs of one value per node, whose gradients read what their node read."""
    ends, reads = draw(structures(draw(st.integers(1, max_nodes)), 1, 3 * max_nodes))
    return inputs_only(reads, draw(numbers(len(ends) - 1, 9)))


def inputs_only(reads, memory):
    """The training graph of nodes that read the values `reads`, and whose gradients read no other."""
    return saving(reads, reads, memory)


def saving(reads, saved, memory, grad_memory=None):
    """The training graph of nodes whose gradients read the values `saved`, as large as the values unless said."""
    n, sizes = len(reads), memory if grad_memory is None else grad_memory
    rule = Backward(**rows("saved", saved), grad_memory=sizes, grad_compute=[-1] * n, grad_workspace=[0] * n)
    return differentiate(ComputationGraph.from_arrays(**rows("read", reads), memory=memory, backward=rule))


# ---------------------------------------------------------------- the strategy, in sets


def without_liveness(graph, chain, keep_last, lazy):
    """Bytes during each step; copies (step, value) are held until the strategy drops them."""
    g = plain(graph)
    phases = steps_by_phase(g, chain, keep_last, lazy)
    order = [v for _, _, nodes in phases for v in nodes]
    assert order == canonical(graph, chain, keep_last, lazy)
    last_read = {}
    for step, v in enumerate(order):
        for x in g.reads[v]:
            last_read[serving_run(g, order, step, x), x] = step
    held, trace = set(), []
    for way, i, nodes in phases:
        for v in nodes:
            step = len(trace)
            held |= {(step, x) for x in g.values[v]}
            trace.append(sum(g.memory[x] for _, x in held) + g.workspace[v])
            read = {copy for copy in held if last_read.get(copy, copy[0]) <= step}
            held -= {copy for copy in read if dropped_at_once(g, chain, order, way, i, copy)}
        read = {copy for copy in held if last_read.get(copy, copy[0]) < len(trace)}
        held -= {copy for copy in read if not stays(g, chain, order, way, i, copy, keep_last)}
    return trace


def steps_by_phase(g, chain, keep_last, lazy):
    """("forward" or "backward", block, nodes that run), in order."""
    needed, never_again = g.needed(), kept(g, chain, keep_last)
    blocks = [after - before for before, after in itertools.pairwise([set(), *chain])]
    phases = [("forward", i, [v for v in sorted(block) if v in needed]) for i, block in enumerate(blocks)]
    gradients, left = set(), set()

    def run(v, nodes):
        for x in g.reads[v]:
            u = g.producer[x]
            if x not in g.outputs and u not in never_again | gradients | left:
                run(u, nodes)
        nodes.append(v)
        (gradients if g.is_backward(v) else left).add(v)

    for i in reversed(range(len(blocks))):
        nodes = []
        for v in [] if lazy else sorted(blocks[i]):
            if v in needed and v not in never_again | left:
                run(v, nodes)
        for v in g.backward():
            if v in needed and g.owner(v) in blocks[i] and v not in gradients:
                run(v, nodes)
        phases.append(("backward", i, nodes))
        beside = co_inputs(g, lower_set(chain, i - 1))
        left &= beside
        if not lazy:  # to the letter: what is kept is dropped with its block
            never_again -= {v for v in never_again if not g.once[v] and v not in lower_set(chain, i - 1) | beside}
    return phases


def kept(g, chain, keep_last):
    found = {v for v in g.forward() if g.once[v] or all(x in g.outputs for x in g.values[v])}
    found |= {v for lower_set in chain for v in boundary(g, lower_set)}
    if keep_last and chain:
        found |= chain[-1] - lower_set(chain, len(chain) - 2)
    return found


def lower_set(chain, i):
    return chain[i] if i >= 0 else set()


def dropped_at_once(g, chain, order, way, i, copy):
    """Once read: running sums, and what runs again neither for its block nor as a co-input."""
    step, _ = copy
    v = order[step]
    if g.is_backward(v):
        return "@" in g.node_names[v]
    block = lower_set(chain, i) - lower_set(chain, i - 1)
    return way == "backward" and v in order[:step] and v not in block | co_inputs(g, lower_set(chain, i))


def stays(g, chain, order, way, i, copy, keep_last):
    """Whether a copy is held beyond a block that is through."""
    step, x = copy
    v, before = order[step], lower_set(chain, i - 1)
    if g.is_backward(v):
        successors = {w for w in g.forward() if set(g.predecessors(w)) & before}
        read = any(x in g.reads[w] for w in g.nodes)
        return read and g.owner(v) in successors - before
    if x in g.outputs and v not in order[:step]:
        return True
    return v in kept(g, chain, keep_last) if way == "forward" else v in before | co_inputs(g, before)


def test_what_is_kept_and_dropped_to_the_letter_runs_again_for_a_gradient_of_an_earlier_block():
    ends, saved = [0, 1, 2, 3, 4], [[], [1], [2], [3]]
    rule = Backward(**rows("saved", saved), grad_memory=[1] * 4, grad_compute=[-1] * 4, grad_workspace=[0] * 4)
    reads = rows("read", [[], [], [0], []])
    graph = ComputationGraph.from_arrays(
        **reads, value_indptr=ends, memory=[1] * 4, output=[False, True, True, True], backward=rule
    )
    graph, chain, flags = differentiate(graph), [{0, 1, 3}, {0, 1, 2, 3}], {"keep_last": True, "lazy": False}
    trace = canonical_trace(graph, LowerSets.of(graph, chain), **flags)
    assert canonical(graph, chain, **flags).count(2) == 2
    assert trace.tolist() == without_liveness(graph, chain, **flags)


@given(chained(training_graphs(max_nodes=18) | graphs(max_nodes=8)), FLAGS)
def test_without_liveness_the_strategy_is_taken_at_its_word(decision, flags):
    graph, chain = decision
    trace = canonical_trace(graph, LowerSets.of(graph, chain), **flags)
    assert trace.tolist() == without_liveness(graph, chain, **flags)


# ---------------------------------------------------------------- laws


@given(chained(training_graphs() | captured_graphs()), FLAGS)
def test_with_liveness_the_trace_is_the_simulated_one(decision, flags):
    graph, chain = decision
    order = canonical(graph, chain, **flags)
    assert (
        canonical_trace(graph, LowerSets.of(graph, chain), liveness=True, **flags).tolist()
        == slow_simulation(graph, order).trace
    )


@given(chained(training_graphs()), FLAGS)
def test_liveness_never_holds_more_but_for_gradients_that_were_handed_over(decision, flags):
    graph, chain = decision
    sets = LowerSets.of(graph, chain)
    trace, simulation = canonical_trace(graph, sets, **flags), simulate(graph, canonical_schedule(graph, sets, **flags))
    unread = ~graph.forward[graph.producer] & (np.diff(graph.readers[0]) == 0)
    handed_over = np.bincount(graph.producer[unread], graph.memory[unread], graph.n_nodes)[simulation.schedule.order]
    assert (simulation.memory_trace <= trace + np.cumsum(handed_over)).all()


def sums_added_to(graph, order):
    """Bytes of the running sum that each step replaces; `differentiate` names it after what came last."""
    g = plain(graph)
    return [sum(g.memory[x] for x in g.reads[v] if "@" in g.node_names[g.producer[x]]) for v in order]


def peaks(graph, sets):
    """Of what formula (2) counts: without liveness, and if sums were made in place besides."""
    order = canonical_schedule(graph, sets, keep_last=False, lazy=False).order.tolist()
    trace = canonical_trace(graph, sets)
    return max(trace), max(trace - sums_added_to(graph, order))


@given(chained(reading_inputs_only()))
def test_formula_2_is_the_peak_without_liveness_but_for_one_running_sum(decision):
    """Where gradients read inputs only, so that nothing runs again beside its block."""
    graph, chain = decision
    sets = LowerSets.of(graph, chain)
    peak, in_place = peaks(graph, sets)
    assert in_place == sets.peak(graph) <= peak <= in_place + max(sums_added_to(graph, range(graph.n_nodes)))


@given(chained(training_graphs() | captured_graphs() | graphs(max_nodes=10)))
def test_formula_2_is_the_greatest_sum_of_its_terms(decision):
    graph, chain = decision
    sets, g = LowerSets.of(graph, chain), plain(graph)
    bytes_of = [sum(g.memory[x] for x in own) for own in g.values]
    terms, before, caches = [], set(), set()
    for lower in chain:
        after = {v for v in g.forward() if set(g.predecessors(v)) & lower} - lower
        parts = [caches, lower - before, after, co_inputs(g, lower)]
        terms.append([(1 + (j == 1)) * sum(bytes_of[v] for v in part) for j, part in enumerate(parts)])
        before, caches = lower, caches | boundary(g, lower)
    assert sets.terms(graph).tolist() == terms
    assert sets.peak(graph) == max(map(sum, terms), default=0)
    assert sets.sets(graph) == [sorted(lower) for lower in chain]


# ---------------------------------------------------------------- by hand


def test_a_sum_is_held_twice_while_it_is_added_to():
    """0 is read by 1 and 2, both by the loss 3; 0 has 1 byte, 1 and 2 have 10 and 100, 3 has 1000, all is one block.

    Forward 1, 11, 111, 1111; dropped, then the same again. Gradients: of 3 (2111), of 1 (2121), of 2 (2221), of 0
    through 2 (2222), of 0 through 1, beside the old sum (2223). Formula (2) says 2 * 1111 = 2222.
    """
    graph = inputs_only([[], [0], [0], [1, 2]], [1, 10, 100, 1000])
    sets = LowerSets.of(graph, [range(4)])
    forward = [1, 11, 111, 1111]
    assert canonical_trace(graph, sets).tolist() == [*forward, *forward, 2111, 2121, 2221, 2222, 2223]
    kept = canonical_trace(graph, sets, keep_last=True).tolist()
    assert kept == [*forward, 2111, 2121, 2221, 2222, 2223]
    assert (sets.peak(graph), peaks(graph, sets)) == (2222, (2223, 2222))


def test_a_transient_is_dropped_after_its_read():
    """0 -> 1 -> 2 -> 3, gradients read outputs too; 1, 10, 100, 1000 bytes; blocks {0}, {1, 2}, {3}; 0 and 2 are kept.

    Forward 1; 11, 111; 1 is dropped, 1101. Then 3 is, and runs again, 1101, with its seed 2101. 3 is dropped, 1101,
    and 1 runs again, 1111. The gradient of 2 reads 3, which runs again, 2111, and is there, 2211, but no longer with
    the gradient of 1: 1221. Left are 0 and the gradient of 1; that of 0 reads 1, which runs again: 21, 22.
    """
    chain = [[], [0], [1], [2]]
    graph = saving(chain, [[0], [0, 1], [1, 2], [2, 3]], [1, 10, 100, 1000])
    sets = LowerSets.of(graph, [[0], [0, 1, 2], range(4)])
    order = canonical_schedule(graph, sets, keep_last=False, lazy=False).order.tolist()
    assert order == [0, 1, 2, 3, 3, 4, 1, 3, 5, 6, 1, 7]
    assert canonical_trace(graph, sets).tolist() == [1, 11, 111, 1101, 1101, 2101, 1111, 2111, 2211, 1221, 21, 22]


def test_co_inputs_are_held_to_the_letter():
    """0 -> 1 -> 3 -> 4 and 2 -> 3; 1, 10, 100, 1000, 10000 bytes; blocks {0, 1}, {2, 3}, {4}; 1 and 3 are kept.

    2 has no gradient. Forward 1, 11; 110, 1110; 11010. 4 again, 11010, and its seed, 21010; it is dropped.
    As printed 2 runs again, 11110, for its block; with the gradient of 3, 12110. As a co-input of {0, 1} it stays,
    though no gradient reads it: 1 + 2 + the gradient of 3 + 0 again, 1111; gradients of 1, 1121, and 0, 1122.
    Lazily, where a gradient reads it: the gradient of 3, 12010; 2 again, 1110, for the gradient of 1, 1120; it stays
    until the block is through: 0 again, 1121, and its gradient, 1122.
    """
    reads, memory = [[], [0], [], [1, 2], [3]], [1, 10, 100, 1000, 10000]
    for lazy, saved, backward in (
        (False, [1], [11110, 12110, 1111, 1121, 1122]),
        (True, [1, 2], [12010, 1110, 1120, 1121, 1122]),
    ):
        graph = saving(reads, [[], [0], [], saved, [3]], memory, [1, 10, -1, 1000, 10000])
        sets = LowerSets.of(graph, [[0, 1], [0, 1, 2, 3], range(5)])
        trace = canonical_trace(graph, sets, lazy=lazy).tolist()
        assert trace == [1, 11, 110, 1110, 11010, 11010, 21010, *backward]


def test_the_trace_of_an_empty_graph_is_empty():
    graph = ComputationGraph.from_edges([])
    sets = LowerSets.of(graph, [])
    assert canonical_trace(graph, sets).tolist() == []
    assert (sets.terms(graph).shape, sets.sets(graph)) == ((0, 4), [])


def test_a_pinned_value_cannot_be_recomputed():
    graph = ComputationGraph.from_arrays(
        **rows("read", [[], [0]]), output=[True, True], forward_of=[-1, 0], mark=[RECOMPUTE, 0]
    )
    with pytest.raises(ScheduleError, match="marked to be recomputed"):
        canonical_trace(graph, LowerSets.of(graph, [[0]]))


# ---------------------------------------------------------------- published graphs


@pytest.mark.parametrize("name", ["vgg19", "unet", "resnet50", "googlenet"])
@pytest.mark.filterwarnings("ignore::remat_algos.errors.GraphWarning")
def test_formula_2_of_published_graphs_is_the_peak_without_liveness(shared_graphs, name):
    """Where gradients read inputs only and sums are in place: to the byte, on a chain of every kind."""
    forward = read_graph(shared_graphs / f"{name}.nodes.csv")
    reads = [forward.reads(v) for v in range(forward.n_nodes)]
    graph = inputs_only(reads, forward.memory.tolist())
    every = np.arange(forward.n_nodes)
    chains = [single_boundary_chain(graph), LowerSets.of(graph, [every])]
    chains += [
        LowerSets.of(graph, [every[:end] for end in [*range(step, every.size, step), every.size]]) for step in (1, 7)
    ]
    for sets in chains:
        assert peaks(graph, sets)[1] == sets.peak(graph)
