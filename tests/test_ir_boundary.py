"""The node between the forward part and the backward part."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos.errors import BudgetError, GraphError, ScheduleError
from remat_algos.ir.boundary import add_boundary
from remat_algos.ir.graph import ComputationGraph
from remat_algos.solvers.registry import list_candidates, list_solvers
from tests.oracles.plain import plain
from tests.oracles.simulation import slow_simulation
from tests.raising import raises
from tests.strategies import captured_graphs, rows, subsets, training_graphs

pytestmark = pytest.mark.usefixtures("short_searches")


@st.composite
def cut_graphs(draw):
    """A graph, the backward nodes that read a gradient from outside, and the graph with a boundary."""
    graph = draw(training_graphs(max_nodes=14) | captured_graphs(max_nodes=14))
    readers = draw(subsets(np.flatnonzero(~graph.forward).tolist(), least=1))
    return graph, readers, add_boundary(graph, readers)


def two_outputs(**arrays):
    """0 -> 1 and 0 -> 2 are forward, 1 and 2 outputs; 3 and 4 read tangents."""
    tangents = ra.ir.Resident(
        memory=[8, 4, 4],
        role=[0, 0, 0],
        **rows("read", [[0], [], [], [1], [2], []]),
        names=["x", "tangent1", "tangent2"],
    )
    return ComputationGraph.from_arrays(
        **rows("read", [[], [0], [0], [0], [0], [3, 4]]),
        output=[False, True, True, False, False, True],
        forward_of=[-1, -1, -1, 0, 0, -2],
        resident=tangents,
        **arrays,
    )


@given(cut_graphs())
def test_the_boundary_reads_the_forward_outputs_and_is_read_by_the_readers(case):
    graph, readers, cut = case
    before, after = plain(graph), plain(cut)
    n_forward = len(before.forward())
    assert after.forward() == list(range(n_forward))
    new = {v: i + (i >= n_forward) for i, v in enumerate([*before.forward(), *before.backward()])}
    values = {x: after.values[new[v]][k] for v in before.nodes for k, x in enumerate(before.values[v])}
    (made,) = after.values[n_forward]
    assert after.reads[n_forward] == sorted(
        values[x] for x in before.outputs if not before.is_backward(before.producer[x])
    )
    assert (after.memory[made], after.compute[n_forward], after.workspace[n_forward]) == (0, 0, 0)
    assert (after.once[n_forward], after.forward_of[n_forward]) == (True, -2)
    assert made not in after.outputs
    for v in before.nodes:
        assert after.reads[new[v]] == [values[x] for x in before.reads[v]] + [made] * (v in readers)
        assert after.resident_reads[new[v]] == before.resident_reads[v]
        assert [after.memory[values[x]] for x in before.values[v]] == [before.memory[x] for x in before.values[v]]
        assert (after.compute[new[v]], after.once[new[v]]) == (before.compute[v], before.once[v])
        assert after.node_names[new[v]] == before.node_names[v]
    assert {values[x] for x in before.outputs} == after.outputs
    owners = [before.forward_of[v] for v in before.backward()]
    assert after.forward_of[n_forward + 1 :] == [new.get(owner, owner) for owner in owners]


def test_readers_are_by_default_those_of_inputs_that_only_the_backward_part_reads():
    cut = add_boundary(two_outputs())
    assert [cut.reads(v) for v in range(3, 7)] == [[1, 2], [0, 3], [0, 3], [4, 5]]


def test_a_name_that_is_used_is_not_used_twice():
    cut = add_boundary(add_boundary(two_outputs()))
    assert [cut.labels[v] for v in (3, 4)] == ["boundary1", "boundary"]


def test_what_has_no_boundary_is_refused():
    graph = two_outputs()
    with pytest.raises(GraphError, match="no backward part"):
        add_boundary(replace(graph, forward_of=None))
    with pytest.raises(GraphError, match="give readers"):
        add_boundary(replace(graph, resident=None))
    with raises(GraphError, name="a"):
        add_boundary(graph, ["a"])
    for reader in (0, 6, -1):
        with raises(GraphError, reader=reader):
            add_boundary(graph, [reader])
    with pytest.raises(GraphError, match="readers is empty"):
        add_boundary(graph, [])


@pytest.mark.parametrize("solver", list_solvers(), ids=lambda solver: solver.name)
@settings(max_examples=8)
@given(case=cut_graphs(), share=st.integers(30, 100))
def test_no_solver_computes_a_forward_output_after_a_reader_of_a_gradient_from_outside(solver, case, share):
    _, _, cut = case
    if solver.needs(cut) is not None:
        return
    g = plain(cut)
    (boundary,) = (v for v in g.nodes if g.node_names[v] == "boundary")
    outputs = {g.producer[x] for x in g.outputs if not g.is_backward(g.producer[x])}
    limit = slow_simulation(cut, sorted(g.needed())).peak * share // 100
    try:
        orders = [each.schedule.order.tolist() for each in list_candidates(cut, solver.name, limit)]
    except (BudgetError, ScheduleError):
        return
    for order in orders:
        first = [order.index(v) for v in g.nodes if g.values[boundary][0] in g.reads[v] and v in order]
        assert all(order.index(v) < min(first, default=len(order)) for v in outputs if v in order)
