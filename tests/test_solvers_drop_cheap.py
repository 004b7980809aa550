"""Cheap results dropped: by operation, by cost per byte, and as MXNet's mirror option has it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.cli.shared_options import option
from remat_algos.errors import ArgumentError, BudgetError, GraphError
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import KEEP, RECOMPUTE, Labels
from remat_algos.schedule.emission import baseline_peak, clamp_counts
from remat_algos.search.solve import solve
from remat_algos.solvers.candidate_rows import cost_per_byte
from remat_algos.solvers.methods.drop_cheap import MXNET_KEEPS
from remat_algos.solvers.registry import list_candidates, pareto
from remat_algos.zoo.registry import build
from tests.oracles import emitter
from tests.oracles.plain import plain
from tests.oracles.simulation import slow_simulation
from tests.raising import raises
from tests.strategies import rows, training_graphs

BLOCK = {
    "data": ("Copy", 8, 0),
    "conv": ("Convolution", 8, 800),
    "norm": ("BatchNorm", 8, 16),
    "relu": ("ReLU", 8, 8),
    "pool": ("MaxPooling", 2, 8),
    "drop": ("Dropout", 2, 2),
    "join": ("Concat", 2, 2),
    "fc": ("Linear", 1, 40),
    "loss": ("SoftmaxCrossEntropy", 1, 4),
}
HEAVY = {"conv", "fc"}


def line(operations, **arrays):
    """A chain of operations: name to (operation, bytes, cost)."""
    names, n = tuple(operations), len(operations)
    ops, memory, compute = zip(*operations.values(), strict=True)
    return ComputationGraph.from_arrays(
        **rows("read", [[v - 1] * (v > 0) for v in range(n)]),
        memory=memory,
        compute=compute,
        labels=Labels(names=names, ops=ops),
        **arrays,
    )


def block(**arrays):
    """Convolution, batch norm, activation, pooling, and what MXNet treats in a way of its own, with its gradients."""
    return differentiate(line(BLOCK, **arrays))


def raw(graph, budget=None, **options):
    plan = solve(graph, budget, solver="drop_cheap", raw=True, **options)
    assert slow_simulation(graph, plan.schedule.order).peak == plan.peak_memory
    return plan


def order_of(graph, dropped):
    """What must come out where those nodes are dropped: algorithm 2 by the oracle."""
    count = np.array([int(graph.labels[v] in dropped) for v in range(graph.n_nodes)])
    return emitter.mirror(graph, clamp_counts(graph, count).tolist())


# ---------------------------------------------------------------- by operation


@pytest.mark.parametrize(
    "drop", ["BatchNorm,ReLU", " ReLU , BatchNorm ", ["BatchNorm", "ReLU"], ("ReLU,BatchNormalization",)]
)
def test_drop_bn_relu_drops_batch_norm_and_relu_and_nothing_else(drop):
    graph = block()
    plan = raw(graph, drop=drop)
    assert plan.schedule.order.tolist() == order_of(graph, {"norm", "relu"})
    assert set(plan.details["drop"].split(",")) == {"BatchNorm", "ReLU"}


def test_the_command_line_gives_the_same_names():
    assert option("drop=BatchNorm,ReLU") == ("drop", ["BatchNorm", "ReLU"])
    assert option("keep=mxnet") == ("keep", "mxnet")


def test_an_operation_of_ones_own_can_be_dropped():
    operations = {"conv": ("Convolution", 4, 90), "warp": ("Warp", 4, 9), "fc": ("Linear", 1, 9)}
    graph = differentiate(line(operations))
    assert raw(graph, drop="Warp").schedule.order.tolist() == order_of(graph, {"warp"})


def test_a_known_operation_that_the_graph_has_not_is_no_error():
    graph = differentiate(line({"conv": ("Convolution", 4, 90), "relu": ("ReLU", 4, 9), "fc": ("Linear", 1, 9)}))
    assert raw(graph, drop="BatchNorm,ReLU").schedule.order.tolist() == order_of(graph, {"relu"})


def test_what_is_heavy_is_dropped_if_it_is_named():
    graph = block()
    assert raw(graph, drop="Convolution").schedule.order.tolist() == order_of(graph, {"conv"})


def test_marks_and_once_have_the_last_word():
    mark = [0] * len(BLOCK)
    mark[list(BLOCK).index("norm")], mark[list(BLOCK).index("conv")] = KEEP, RECOMPUTE
    once = [name == "relu" for name in BLOCK]
    graph = block(mark=mark, once=once)
    for options in {"drop": "BatchNorm,ReLU,MaxPooling"}, {"threshold": 10**9}, {"keep": "mxnet"}, {}:
        runs = dict(zip(BLOCK, raw(graph, **options).simulation.runs.tolist(), strict=False))
        assert (runs["norm"], runs["relu"], runs["conv"]) == (1, 1, 2)


# ---------------------------------------------------------------- by cost


def test_everything_under_the_threshold_that_is_not_heavy_is_dropped():
    graph = block()
    ratio = {name: cost / size for name, (_, size, cost) in BLOCK.items()}
    for threshold in (0, 1, 1.5, 2, 2.1, 4, 4.1, 10**9):
        dropped = {name for name in BLOCK if name not in HEAVY and ratio[name] < threshold}
        assert raw(graph, threshold=threshold).schedule.order.tolist() == order_of(graph, dropped), threshold


def test_a_threshold_is_in_the_units_that_were_read():
    graph = block()
    scaled = replace(graph, compute=graph.compute * 10, labels=replace(graph.labels, compute_scale=10), derivation=None)
    for threshold in (1, 1.5, 2):
        wanted = raw(graph, threshold=threshold).schedule.order.tolist()
        assert raw(scaled, threshold=threshold).schedule.order.tolist() == wanted


def test_without_names_of_operations_cost_alone_decides():
    chain = ComputationGraph.from_edges(
        [(i, i + 1) for i in range(5)], memory=[4, 4, 4, 4, 4, 4], compute=[9, 1, 8, 2, 8, 1]
    )
    graph = differentiate(chain)
    assert raw(graph, threshold=1).schedule.order.tolist() == order_of(graph, {"1", "3", "5"})
    assert raw(graph, threshold=0.5).schedule.order.tolist() == order_of(graph, {"1", "5"})


def test_what_has_no_bytes_is_kept():
    graph = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2)], memory=[2, 0, 2], compute=[1, 0, 1]))
    assert math.isinf(cost_per_byte(graph)[1])
    assert raw(graph, threshold=10**9).simulation.runs[1] == 1


@given(training_graphs(max_nodes=14), st.sampled_from([0, 0.4, 1, 2.5, 10**6]))
def test_a_threshold_gives_the_order_of_algorithm_2(graph, threshold):
    g = plain(graph)
    size = [sum(g.memory[x] for x in own) for own in g.values]
    light = [graph.labels.op(v) != "Conv" for v in g.nodes]
    count = [
        int(v in g.forward() and v in g.needed() and light[v] and size[v] > 0 and g.compute[v] < threshold * size[v])
        for v in g.nodes
    ]
    wanted = emitter.mirror(graph, [0 if g.once[v] else count[v] for v in g.nodes])
    assert raw(graph, threshold=threshold).schedule.order.tolist() == wanted


def thresholds(graph):
    """Every plan that a threshold can give: (peak, compute)."""
    ratios = {*cost_per_byte(graph).tolist(), 10**9} - {math.inf}
    plans = [raw(graph, threshold=threshold) for threshold in ratios]
    return {(plan.peak_memory, plan.simulation.compute) for plan in plans}


@given(training_graphs(max_nodes=14))
def test_all_thresholds_that_differ_are_tried(graph):
    points = thresholds(graph)
    peak, compute = min(points)
    lowest = raw(graph)
    assert (lowest.peak_memory, lowest.simulation.compute) == (peak, compute)
    for limit in {peak for peak, _ in points}:
        assert raw(graph, limit).simulation.compute == min(c for p, c in points if p <= limit)
    best = {(p, c) for p, c in points if not any(q <= p and d <= c and (q, d) != (p, c) for q, d in points)}
    found = list_candidates(graph, "drop_cheap")
    assert {candidate.figures for candidate in pareto(found, lambda candidate: candidate.figures)} == best


def test_under_a_loose_limit_nothing_is_dropped():
    graph = block()
    assert raw(graph, "100%").overhead == 0
    with pytest.raises(BudgetError, match="by drop_cheap"):
        raw(graph, 1)


# ---------------------------------------------------------------- as MXNet does, echo2020's "Mirror"


def test_mxnet_keeps_its_list_and_drops_the_rest():
    graph = block()
    plan = raw(graph, keep="mxnet")
    kept = {name for name, (op, _, _) in BLOCK.items() if op in MXNET_KEEPS}
    assert kept == {"conv", "fc", "join", "loss", "drop"}
    assert plan.schedule.order.tolist() == order_of(graph, set(BLOCK) - kept)


def test_mxnet_runs_products_of_matrices_again_that_are_no_fully_connected_layers():
    graph = differentiate(line({"fc": ("FullyConnected", 4, 90), "dot": ("batch_dot", 4, 90), "tanh": ("Tanh", 4, 9)}))
    assert raw(graph, keep="mxnet").schedule.order.tolist() == order_of(graph, {"dot", "tanh"})
    assert raw(graph, threshold=10**9).schedule.order.tolist() == order_of(graph, {"tanh"})


def large(name, **options):
    """A network's peak without rematerialization, and its plan; the oracle would take long."""
    graph = differentiate(build(name).graph)
    return baseline_peak(graph), solve(graph, solver="drop_cheap", raw=True, **options)


def test_mirror_takes_more_than_no_rematerialization_on_deepspeech2():
    """echo2020, figure 22 (1a)."""
    base, mirror = large("model:deepspeech2", keep="mxnet")
    assert mirror.peak_memory > base
    assert large("model:deepspeech2")[1].peak_memory < base


def test_mirror_saves_a_quarter_on_resnet_152_and_nothing_if_batch_norm_is_kept():
    """echo2020, figure 22 (3a): 2.13 / 1.57 of what is taken without rematerialization."""
    base, mirror = large("model:resnet152", keep="mxnet")
    assert 1.3 < base / mirror.peak_memory < 1.5
    assert mirror.overhead < 0.01 * mirror.graph.needed_compute
    assert large("model:resnet152", drop="ReLU,Add,MaxPooling,AveragePooling,Reshape")[1].peak_memory > base


# ---------------------------------------------------------------- what cannot be


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({"keep": "light"}, {"keep": "light"}),
        ({"drop": "ReLU", "threshold": 1}, {"one": "drop", "other": "threshold"}),
        ({"drop": "ReLU", "keep": "mxnet"}, {"one": "drop", "other": "keep=mxnet"}),
        ({"threshold": 1, "keep": "mxnet"}, {"one": "threshold", "other": "keep=mxnet"}),
        ({"drop": "relu"}, {"name": "relu"}),
        ({"drop": []}, {"drop": []}),
        ({"drop": " , "}, {"drop": " , "}),
        *(({"threshold": t}, {"threshold": t}) for t in (-1, math.inf, math.nan, "much", True)),
    ],
    ids=str,
)
def test_options_that_cannot_be_are_refused(options, fields):
    with raises(ArgumentError, **fields):
        raw(block(), **options)


@pytest.mark.parametrize("options", [{"drop": "ReLU"}, {"keep": "mxnet"}])
def test_operations_without_names_are_refused(options):
    graph = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2)]))
    ((option, wish),) = options.items()
    with raises(ArgumentError, option=option, wish=wish):
        raw(graph, **options)


def test_it_wants_gradients():
    with pytest.raises(GraphError, match="call differentiate"):
        raw(line(BLOCK))
