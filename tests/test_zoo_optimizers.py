"""Updates behind the gradients: each parameter once, nothing before them changed."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.errors import GraphError
from remat_algos.formats.graphs.json_text import from_json, to_json
from remat_algos.ir.differentiate import PARAMETER, differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import ROLES, Labels, Resident
from remat_algos.schedule.emission import baseline_peak
from remat_algos.solvers.registry import list_candidates
from remat_algos.zoo.optimizers import OPTIMIZERS, with_optimizer
from tests.oracles.plain import plain
from tests.raising import raises
from tests.strategies import graphs, rows


def two_layers():
    """image -> first (w1, 8 bytes) -> second (w2, 4 bytes) -> loss."""
    graph = ComputationGraph.from_arrays(
        **rows("read", [[], [0], [1]]),
        memory=[2, 3, 1],
        labels=Labels(names=("first", "second", "loss"), ops=("Linear", "Linear", "MeanSquare")),
        resident=Resident(
            [5, 8, 4], [0, PARAMETER, PARAMETER], **rows("read", [[0, 1], [2], []]), names=["image", "w1", "w2"]
        ),
    )
    return differentiate(graph, parameter_gradients=True)


def added(graph, n_before=8):
    """Name of each node behind the gradients: operation, what it reads, residents it touches, what it makes."""
    g = plain(graph)
    return {
        g.node_names[v]: (
            graph.labels.op(v),
            [g.value_names[x] for x in g.reads[v]],
            [g.resident_names[r] for r in g.resident_reads[v]],
            [(g.value_names[x], g.memory[x], x in g.outputs) for x in g.values[v]],
        )
        for v in range(n_before, len(g.nodes))
    }


def test_gradients_are_used_up_in_the_order_in_which_they_are_finished():
    training = two_layers()
    assert training.node_names()[3:] == ["grad(loss)", "grad(second)", "grad(first)", "grad(w2)", "grad(w1)"]
    assert added(with_optimizer(training, "sgd")) == {
        "update(w2)": ("SGD", ["grad(w2)"], ["w2"], [("update(w2)", 0, True)]),
        "update(w1)": ("SGD", ["grad(w1)"], ["w1"], [("update(w1)", 0, True)]),
    }


def test_momentum_is_a_state_of_each_parameter():
    graph = with_optimizer(two_layers(), "momentum")
    assert added(graph)["update(w1)"] == (
        "Momentum",
        ["grad(w1)"],
        ["w1", "momentum(w1)"],
        [("update(w1)", 0, True)],
    )
    assert graph.resident_names == ("image", "w1", "w2", "momentum(w2)", "momentum(w1)")
    assert graph.resident.memory.tolist() == [5, 8, 4, 4, 8]
    assert [ROLES[role] for role in graph.resident.role] == ["input", "parameter", "parameter", "state", "state"]


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_adam_has_two_states_of_each_parameter(optimizer):
    graph = with_optimizer(two_layers(), optimizer)
    assert added(graph)["update(w2)"][:3] == (OPTIMIZERS[optimizer].op, ["grad(w2)"], ["w2", "m(w2)", "v(w2)"])
    assert graph.resident_memory == 5 + 3 * (8 + 4)


def test_updates_are_effects_of_nodes_that_run_once():
    graph = with_optimizer(two_layers(), "sgd")
    assert graph.once.tolist() == [False] * 8 + [True] * 2
    outputs = {graph.value_name(x) for x in np.flatnonzero(graph.output)}
    assert outputs == {"update(w2)", "update(w1)"}
    assert graph.forward_of.tolist()[8:] == [1, 0]  # w2 is read by `second`, w1 by `first`
    assert graph.derivation is None


def test_sgd_one_operation_at_a_time():
    assert list(added(with_optimizer(two_layers(), "sgd", primitive=True)).items())[:2] == [
        ("step(w2)", ("Scale", ["grad(w2)"], [], [("step(w2)", 4, False)])),
        ("update(w2)", ("Subtract", ["step(w2)"], ["w2"], [("update(w2)", 0, True)])),
    ]


def test_momentum_one_operation_at_a_time():
    graph = with_optimizer(two_layers(), "momentum", primitive=True)
    new = [("momentum(w2)@new", 4, False), ("momentum(w2)@new:1", 0, True)]
    assert list(added(graph).items())[:4] == [
        ("momentum(w2)@decayed", ("Scale", [], ["momentum(w2)"], [("momentum(w2)@decayed", 4, False)])),
        ("momentum(w2)@new", ("Add", ["momentum(w2)@decayed", "grad(w2)"], ["momentum(w2)"], new)),
        ("step(w2)", ("Scale", ["momentum(w2)@new"], [], [("step(w2)", 4, False)])),
        ("update(w2)", ("Subtract", ["step(w2)"], ["w2"], [("update(w2)", 0, True)])),
    ]
    assert graph.once.tolist()[8:12] == [True, True, False, True]


def test_adam_one_operation_at_a_time():
    nodes = added(with_optimizer(two_layers(), "adam", primitive=True))
    reads = {name: reads for name, (_, reads, _, _) in nodes.items() if "w2" in name}
    assert reads == {
        "m(w2)@decayed": [],
        "m(w2)@gradient": ["grad(w2)"],
        "m(w2)@new": ["m(w2)@decayed", "m(w2)@gradient"],
        "v(w2)@decayed": [],
        "v(w2)@square": ["grad(w2)"],
        "v(w2)@gradient": ["v(w2)@square"],
        "v(w2)@new": ["v(w2)@decayed", "v(w2)@gradient"],
        "m(w2)@corrected": ["m(w2)@new"],
        "v(w2)@corrected": ["v(w2)@new"],
        "v(w2)@root": ["v(w2)@corrected"],
        "v(w2)@shifted": ["v(w2)@root"],
        "step(w2)@ratio": ["m(w2)@corrected", "v(w2)@shifted"],
        "step(w2)": ["step(w2)@ratio"],
        "update(w2)": ["step(w2)"],
    }


def test_decoupled_decay_shrinks_the_parameter_apart_from_the_moments():
    nodes = added(with_optimizer(two_layers(), "adamw", primitive=True))
    assert nodes["step(w2)@decay"][:3] == ("Scale", [], ["w2"])
    assert nodes["step(w2)@sum"][1] == ["step(w2)@ratio", "step(w2)@decay"]
    assert nodes["step(w2)"][1] == ["step(w2)@sum"]


@pytest.mark.parametrize(
    ("optimizer", "primitive", "moved"),
    [
        ("sgd", False, [("SGD", 12)]),  # of the 4 bytes of w2: reads w2 and its gradient, writes w2
        ("momentum", False, [("Momentum", 20)]),  # reads three, writes two
        ("adam", False, [("Adam", 28)]),  # reads four, writes three
        ("sgd", True, [("Scale", 8), ("Subtract", 12)]),
        ("momentum", True, [("Scale", 8), ("Add", 12), ("Scale", 8), ("Subtract", 12)]),
    ],
)
def test_an_update_costs_what_its_operations_move(optimizer, primitive, moved):
    asked = []

    def cost(op, size, n_bytes):
        asked.append((op, n_bytes))
        return n_bytes

    graph = with_optimizer(two_layers(), optimizer, primitive=primitive, cost=cost)
    assert asked[: len(moved)] == moved
    assert graph.compute[8:].tolist() == [n_bytes for _, n_bytes in asked]
    assert with_optimizer(two_layers(), optimizer, primitive=primitive).compute[8:].tolist() == [1] * len(asked)


# ---------------------------------------------------------------- laws


@st.composite
def training_graphs(draw):
    """With gradients of parameters, `w` among them, which the loss reads."""
    graph = draw(graphs(max_nodes=8, min_nodes=1, seeded=True))
    g = plain(graph)
    reads = [[*row, len(g.resident_names)] if v == len(g.nodes) - 1 else row for v, row in enumerate(g.resident_reads)]
    resident = Resident(
        [*g.resident_memory, draw(st.integers(0, 9))],
        [*g.resident_role, PARAMETER],
        **rows("read", reads),
        names=[*g.resident_names, "w"],
    )
    return differentiate(replace(graph, resident=resident), parameter_gradients=True)


optimizers = st.sampled_from(sorted(OPTIMIZERS))


@given(training_graphs(), optimizers, st.booleans())
def test_what_was_there_stays_as_it_is(training, optimizer, primitive):
    before, after = plain(training), plain(with_optimizer(training, optimizer, primitive=primitive))
    n, n_values = len(before.nodes), len(before.memory)
    assert (after.reads[:n], after.values[:n], after.memory[:n_values]) == (before.reads, before.values, before.memory)
    assert (after.compute[:n], after.workspace[:n], after.once[:n]) == (before.compute, before.workspace, before.once)
    assert (after.node_names[:n], after.value_names[:n_values]) == (before.node_names, before.value_names)
    assert (after.forward_of[:n], after.resident_reads[:n]) == (before.forward_of, before.resident_reads)
    used_up = {x for v in range(n, len(after.nodes)) for x in after.reads[v]}
    assert {x for x in after.outputs if x < n_values} == before.outputs - used_up


@given(training_graphs(), optimizers, st.booleans())
def test_every_parameter_that_has_a_gradient_is_updated_once(training, optimizer, primitive):
    graph = with_optimizer(training, optimizer, primitive=primitive)
    g, n = plain(graph), training.n_nodes
    with_gradient = [name for name in training.resident_names if f"grad({name})" in training.node_names()]
    updates = [name for name in g.node_names[n:] if name.startswith("update(")]
    assert sorted(updates) == sorted(f"update({name})" for name in with_gradient)
    assert all(g.forward_of[v] >= 0 for v in range(n, len(g.nodes)))
    of_parameters = sum(g.resident_memory[g.resident_names.index(name)] for name in with_gradient)
    assert graph.resident_memory == training.resident_memory + len(OPTIMIZERS[optimizer].states) * of_parameters


@given(training_graphs(), optimizers)
def test_fused_updates_hold_nothing_more_and_others_no_less(training, optimizer):
    before = baseline_peak(training)
    fused, primitive = (with_optimizer(training, optimizer, primitive=flag) for flag in (False, True))
    assert baseline_peak(fused) == before
    assert baseline_peak(primitive) >= before


@given(training_graphs(), optimizers, st.booleans())
def test_solvers_serve_graphs_with_updates(training, optimizer, primitive):
    graph = with_optimizer(training, optimizer, primitive=primitive)
    for found in list_candidates(graph, "chen_sqrt", segments="sqrt"):
        assert found.simulation.runs[training.n_nodes :].tolist() == [1] * (graph.n_nodes - training.n_nodes)


@pytest.mark.parametrize("primitive", [False, True])
def test_rematerialization_lowers_the_peak_before_the_updates(primitive):
    """A chain of 16 layers of 10 bytes with a weight of 1 byte each: no_remat holds all layers, chen_sqrt four."""
    n = 16
    weights = Resident([1] * n, [PARAMETER] * n, np.arange(n + 1), np.arange(n), [f"w{v}" for v in range(n)])
    chain = ComputationGraph.from_edges([(v, v + 1) for v in range(n - 1)], memory=[10] * n, resident=weights)
    graph = with_optimizer(differentiate(chain, parameter_gradients=True), "adam", primitive=primitive)
    segments = list_candidates(graph, "chen_sqrt", segments="sqrt")[0].simulation
    assert baseline_peak(graph) > 10 * n > segments.peak_memory
    assert segments.overhead > 0


@given(training_graphs(), optimizers, st.booleans())
def test_a_file_gives_back_the_graph(training, optimizer, primitive):
    graph = with_optimizer(training, optimizer, primitive=primitive)
    assert from_json(to_json(graph)).hash == graph.hash


# ---------------------------------------------------------------- bad input


def test_a_graph_without_gradients_of_parameters_is_refused():
    with pytest.raises(GraphError, match="parameter_gradients=True"):
        with_optimizer(differentiate(ComputationGraph.from_edges([(0, 1)])), "sgd")
    with pytest.raises(GraphError, match="parameter_gradients=True"):
        with_optimizer(ComputationGraph.from_edges([(0, 1)]), "sgd")


def test_a_graph_without_parameters_is_refused():
    training = differentiate(ComputationGraph.from_edges([(0, 1)]), parameter_gradients=True)
    with pytest.raises(GraphError, match="no node reads a parameter"):
        with_optimizer(training, "sgd")


def test_parameters_that_lead_to_no_loss_are_not_enough():
    weight = Resident([8], [PARAMETER], **rows("read", [[], [], [0]]), names=["w"])
    graph = ComputationGraph.from_edges([(0, 1), (0, 2)], resident=weight)
    with pytest.raises(GraphError, match="no loss depends on a parameter"):
        with_optimizer(differentiate(graph, parameter_gradients=True, loss="1"), "sgd")


@pytest.mark.parametrize(
    ("optimizer", "offer"), [("adamm", "did you mean adam or adamw?"), ("lion", "use sgd, momentum, adam, adamw")]
)
def test_the_nearest_optimizer_is_offered(optimizer, offer):
    with raises(GraphError, optimizer=optimizer, offer=offer):
        with_optimizer(two_layers(), optimizer)
