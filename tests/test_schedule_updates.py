"""Parameters change only after the last run that reads them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.errors import ScheduleError
from remat_algos.schedule.schedule import Schedule, emit
from remat_algos.schedule.simulation import simulate
from remat_algos.search.auto import default_solvers
from remat_algos.search.solve import solve
from remat_algos.zoo.registry import build

GRAPHS = {
    "sgd": build("feed_forward", depth=2, optimizer="sgd").graph,
    "adam, operation by operation": build("feed_forward", depth=1, optimizer="adam", granularity="primitive").graph,
    "tied weights": build(
        "gpt2_small", depth=1, batch=1, sequence=4, words=16, width=12, heads=2, optimizer="sgd"
    ).graph,
}
each_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)


def names_read(graph, node):
    return {graph.resident.names[r] for r in graph.resident.reads(node) if graph.resident.role[r] != 0}


def stale_reads(graph, order):
    """(step, node) of each run that reads what an update before it has changed: step by step, with sets."""
    changed, found = set(), []
    for step, v in enumerate(order):
        if graph.updates[v]:
            changed |= names_read(graph, v)
        elif names_read(graph, v) & changed:
            found.append((step, v))
    return found


@each_graph
def test_updates_are_the_nodes_of_the_optimizer_that_nobody_reads(graph):
    assert [graph.labels[v] for v in np.flatnonzero(graph.updates)] == [
        name for name in graph.node_names() if name.startswith("update(")
    ]


def test_a_gradient_without_bytes_is_no_update():
    graph = build("feed_forward", depth=1, parameter_gradients=True).graph
    assert graph.is_training
    assert not graph.updates.any()


@each_graph
@given(data=st.data())
def test_updates_that_wait_are_sound_and_nothing_else_moves(graph, data):
    again = data.draw(st.lists(st.sampled_from(np.flatnonzero(~graph.once).tolist()), max_size=6))
    first = np.flatnonzero(graph.needed).tolist()
    gradients_first = sorted(first, key=lambda v: (graph.updates[v], v))
    early = data.draw(st.integers(0, int(graph.updates.sum())))
    order = gradients_first[: len(first) - early] + again + gradients_first[len(first) - early :] + again
    waited = emit(graph, order).order.tolist()
    assert [v for v in waited if not graph.updates[v]] == [v for v in order if not graph.updates[v]]
    assert not stale_reads(graph, waited)
    assert simulate(graph, waited).compute == graph.compute[order].sum()
    if not stale_reads(graph, order):
        assert waited == order
    else:
        with pytest.raises(ScheduleError, match="run the update later"):
            simulate(graph, order)


def test_the_error_names_the_run_and_the_update():
    graph = GRAPHS["sgd"]
    order = [*range(graph.n_nodes), 0]
    with pytest.raises(ScheduleError) as error:
        simulate(graph, order)
    step, node = stale_reads(graph, order)[0]
    assert (error.value.step, error.value.node) == (step, node)
    assert str(error.value).startswith(f"step {step} runs layer0.linear, which reads what update(layer0.linear.")


@pytest.mark.parametrize("solver", [solver.name for solver in default_solvers()])
def test_no_solver_reads_a_parameter_that_has_changed(solver):
    graph = GRAPHS["tied weights"]
    assert not stale_reads(graph, solve(graph, "least", solver=solver).schedule.order.tolist())


@each_graph
def test_no_plan_of_auto_reads_a_parameter_that_has_changed(graph):
    assert not stale_reads(graph, solve(graph, "100%").schedule.order.tolist())


def test_a_plan_that_only_moves_updates_forward_is_lower():
    graph = GRAPHS["sgd"]
    least = solve(graph, "least", solver="twremat")
    base = simulate(graph, Schedule(np.flatnonzero(graph.needed).astype(np.int32)))
    assert least.peak_memory < base.peak_memory
