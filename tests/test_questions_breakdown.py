"""Where memory and compute go: every byte and every unit of compute is told once."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.errors import GraphError
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import ROLES, Labels
from remat_algos.questions.breakdown import (
    OPTIMIZER,
    PARTS,
    STRUCTURES,
    breakdown,
    derivative_of,
    layer_type,
    layer_types,
    optimizer_nodes,
    parameter_gradients,
)
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.simulation import simulate
from remat_algos.search.solve import solve
from remat_algos.zoo.optimizers import with_optimizer
from remat_algos.zoo.registry import build
from tests.raising import raises
from tests.strategies import captured_graphs, graphs, orders, training_graphs

pytestmark = pytest.mark.usefixtures("short_searches")


@given(graph=graphs() | captured_graphs(), by=st.sampled_from(["layer", "operation"]), data=st.data())
def test_every_byte_and_every_cost_is_told_once(graph, by, data):
    simulation = simulate(graph, data.draw(orders(graph)))
    found = breakdown(simulation, by=by)
    assert found.memory.sum() == found.footprint == simulation.peak_memory + graph.resident_memory
    assert found.compute.sum() == simulation.compute
    assert (
        found.compute[:, PARTS.index("again")].sum()
        == graph.compute[simulation.schedule.order[~simulation.schedule.first_run]].sum()
    )
    assert (found.memory >= 0).all()
    assert sum(found.layers.values()) == sum(found.structures.values()) == found.footprint
    assert json.loads(json.dumps(found.record())) == found.record()


@given(graph=training_graphs() | captured_graphs(), data=st.data())
def test_structures_are_the_simulated_roles_at_the_peak(graph, data):
    simulation = simulate(graph, data.draw(orders(graph)))
    found, held = breakdown(simulation).structures, simulation.breakdown()
    resident = graph.resident
    inputs = int(resident.memory[resident.role == ROLES.index("input")].sum()) if resident is not None else 0
    weights = graph.resident_memory - inputs
    assert found["workspace"] == held["workspace"]
    assert found["inputs"] == inputs
    assert found["feature maps"] + found["other values"] == held["kept"] + held["recomputed"]
    assert found["gradients"] + found["weights"] - weights == held["gradients"]


@given(graph=graphs(min_nodes=1, seeded=True), parameters=st.booleans())
def test_derivatives_are_of_the_node_that_differentiate_says(graph, parameters):
    """The reader stands in the op of each gradient, if every node has an op of its own."""
    ops = tuple(f"op{v}" for v in range(graph.n_nodes))
    labels = Labels(names=tuple(f"v{v}" for v in range(graph.n_nodes)), ops=ops)
    named = ComputationGraph.from_arrays(
        **{
            name: getattr(graph, name)
            for name in ("read_indptr", "read_indices", "value_indptr", "memory", "output", "backward", "resident")
        },
        labels=labels,
    )
    whole = differentiate(named, parameter_gradients=parameters)
    said = [int(re.sub(r"\D", "", op)) if op.startswith("grad(") else -1 for op in whole.labels.ops[graph.n_nodes :]]
    found = derivative_of(whole)[graph.n_nodes :].tolist()
    assert [w for w, of in zip(found, said, strict=True) if of >= 0] == [of for of in said if of >= 0]


def test_a_chain_by_hand():
    labels = Labels(names=("conv", "relu", "fc"), ops=("Convolution", "ReLU", "Linear"))
    chain = ComputationGraph.from_edges([(0, 1), (1, 2)], [8, 4, 2], [9, 1, 5], workspace=[0, 0, 1], labels=labels)
    found = breakdown(differentiate(chain))
    # at the peak grad(conv) runs: it reads conv, relu and grad(relu)
    assert found.structures == {**dict.fromkeys(STRUCTURES, 0), "feature maps": 12, "gradients": 12}
    assert found.layers == {"convolution": 16, "activation": 8, "fully connected": 0}
    assert found.layer_compute == {"convolution": 9, "activation": 3, "fully connected": 15}


def test_weights_are_parameters_their_gradients_and_the_state_of_the_optimizer():
    graph = build("resnet18", batch=1, image=32, optimizer="adam").graph
    parameters = int(graph.resident.memory[graph.resident.role == ROLES.index("parameter")].sum())
    structures = breakdown(simulate(graph, baseline(graph).schedule)).structures
    assert 3 * parameters <= structures["weights"] <= 4.1 * parameters  # running statistics are states as well
    assert optimizer_nodes(graph).sum() == len([name for name in graph.node_names() if name.startswith("update(")])
    assert parameter_gradients(graph).sum() >= optimizer_nodes(graph).sum()


def test_the_steps_of_an_optimizer_hold_weights_and_count_as_optimizer():
    chain = build("feed_forward", batch=1).graph
    graph = with_optimizer(differentiate(chain, parameter_gradients=True), "momentum", primitive=True)
    types = layer_types(graph)
    assert {types[v] for v in np.flatnonzero(optimizer_nodes(graph))} == {OPTIMIZER}
    assert breakdown(graph).layer_compute[OPTIMIZER] > 0


def test_a_plan_holds_less_and_computes_more_than_its_graph():
    graph = differentiate(build("vgg11", batch=1, image=64).graph)
    plan = solve(graph, "least", solver="chen_sqrt")
    before, after = breakdown(graph), breakdown(plan)
    assert after.footprint < before.footprint
    assert after.compute[:, PARTS.index("again")].any()
    assert after.record()["footprint"] == plan.simulation.peak_memory + graph.resident_memory


def test_attention_dominates_nmt_as_in_figure_4():
    """echo2020, figure 4: attention, then the RNN and the output layer, hold the most; weights hold little."""
    found = breakdown(differentiate(build("nmt").graph))
    assert found.types[0] == "attention"
    assert {"RNN", "output"} == set(found.types[1:3])
    assert found.structures["feature maps"] > 0.8 * found.footprint > 20 * found.structures["weights"]


@pytest.mark.parametrize(
    ("name", "op", "found"),
    [
        ("encoder.forward.layer0.step0.cell.in", "Sigmoid", "RNN"),
        ("attention.step9.hidden", "Linear", "attention"),
        ("source.embedding", "Embedding", "embedding"),
        ("source.split", "Slice", "other"),
        ("decoder.layer1.source.q_proj", "Linear", "attention"),
        ("decoder.layer1.mlp.fc1", "Linear", "feed forward"),
        ("head.scores", "Linear", "output"),
        ("loss", "CTCLoss", "output"),
        ("layer1.0.norm1", "BatchNorm2d", "batch norm"),
        ("7", "", "other"),
    ],
)
def test_types_of_layers(name, op, found):
    assert layer_type(name, op) == found


def test_the_table_holds_what_is_held():
    found = breakdown(differentiate(build("vgg11", batch=1, image=64).graph))
    columns, rows = found.columns, list(found.rows())
    assert columns[0] == "layer"
    assert rows[-2][0] == "all"
    assert rows[-1][0] == "share"
    assert all(len(row) == len(columns) for row in rows)


def test_nothing_has_nothing_to_break_down():
    empty = breakdown(ComputationGraph.from_edges([]))
    assert (empty.types, empty.footprint, empty.peak_step) == ((), 0, -1)
    assert str(empty)


def test_layers_are_told_apart_by_what_there_is():
    with raises(GraphError, by="colour"):
        breakdown(ComputationGraph.from_edges([(0, 1)]), by="colour")


def test_other_things_have_no_breakdown():
    with pytest.raises(TypeError, match="subject"):
        breakdown([1])
