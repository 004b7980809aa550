"""What holds of every model of the zoo."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

import remat_algos as ra
from docs.published import PUBLISHED
from docs.zoo import SMALL
from remat_algos.errors import BudgetError
from remat_algos.ir.kinds import operation_kind
from remat_algos.search.auto import default_solvers
from remat_algos.zoo.registry import build, get_family, list_families, list_models
from tests.oracles.simulation import peak_memory

pytestmark = pytest.mark.usefixtures("short_searches")

FAMILIES = [family.name for family in list_families()]
LARGE = 1500  # operations; of larger models only the published numbers are looked at


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def small(family):
    return build(family, **SMALL[family])


@pytest.fixture(scope="module")
def training(small):
    return ra.differentiate(small.graph)


# numbers


@cache
def counted(name):
    """Parameters and multiply-adds of a model for one example."""
    network = build(name, batch=1)
    return network.n_parameters, network.macs


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_numbers_are_ours_or_the_difference_is_explained(name):
    given = PUBLISHED[name]
    assert bool(given.note) or given.agrees(*counted(name))
    assert given.parameters or given.macs or given.note


def test_every_published_model_is_in_the_zoo():
    assert set(PUBLISHED) <= set(list_models())


def test_explained_differences_are_small():
    """Notes may not hide a blunder: whatever is published, ours is within 7 % of it."""
    for name, given in PUBLISHED.items():
        for printed, ours in zip((given.parameters, given.macs), counted(name), strict=True):
            if printed:
                digits, _, unit = printed.replace(",", "").partition(" ")
                assert abs(ours / (float(digits) * 10.0 ** {"": 0, "M": 6, "G": 9, "B": 9}[unit]) - 1) < 0.07, name


# every family


def test_small_instances_are_named_for_every_family():
    assert set(SMALL) == set(FAMILIES)


def test_layers_are_nodes(family):
    """Names, bytes and kinds of the graph are those of the layers, and every kind is a known one."""
    options = {name: value for name, value in SMALL[family].items() if name != "granularity"}
    network = build(family, **options)
    graph = network.graph
    assert graph.node_names() == [layer.name for layer in network.layers]
    assert [graph.labels.op(v) for v in range(graph.n_nodes)] == [layer.op for layer in network.layers]
    assert graph.n_values == sum(len(layer.shapes) for layer in network.layers)
    assert [layer.op for layer in network.layers if operation_kind(layer.op) is None] == []
    assert all(layer.flops >= 2 * layer.macs >= 0 and layer.bytes_moved >= 0 for layer in network.layers)


def test_loss_is_the_only_output_of_some_bytes(small):
    graph = small.graph
    sized = np.flatnonzero(graph.output & (graph.memory > 0))
    assert sized.size == 1
    assert int(graph.memory[sized[0]]) == 4


def test_peak_without_rematerialization_is_that_of_the_slow_simulation(training):
    simulation = ra.simulate(training, np.arange(training.n_nodes))
    assert simulation.peak_memory == peak_memory(training, range(training.n_nodes))


def test_every_fast_solver_plans_it(family, training):
    """A plan within the budget, or an error that says what was reached; the zoo is no exception for any of them."""
    share = ("80%", "least")[FAMILIES.index(family) % 2]
    for solver in default_solvers():
        if solver.needs(training) is not None:
            continue
        whole = ra.simulate(training, np.arange(training.n_nodes)).peak_memory
        limit = whole * 80 // 100 if share == "80%" else whole
        plan, error = attempt(training, share, solver.name)
        if plan is None:
            assert error.reached > limit
        else:
            assert ra.verify(training, plan).peak_memory == plan.peak_memory <= limit


def attempt(graph, budget, solver):
    try:
        return ra.solve(graph, budget, solver=solver, effort="fast"), None
    except BudgetError as error:
        return None, error


@pytest.mark.parametrize(
    "options",
    [
        {"granularity": "layer"},
        {"granularity": "primitive"},
        {"counting": "paper", "granularity": "operation", "dropout": "single"},
        {"dtype": "bfloat16"},
        {"parameter_gradients": True},
        {"optimizer": "adamw"},
        {"granularity": "primitive", "optimizer": "momentum"},
        {"cost": "roofline", "device": "V100 16GB"},
        {"cost": "paper"},
    ],
    ids=str,
)
def test_every_setting_serves_every_family(family, options):
    network = build(family, **{**SMALL[family], **options})
    graph = network.graph if network.graph.is_training else ra.differentiate(network.graph)
    plain = build(family, **SMALL[family])
    assert (network.parameter_shapes, network.macs) == (plain.parameter_shapes, plain.macs)
    assert plain.parameter_memory == network.parameter_memory * (2 if options.get("dtype") == "bfloat16" else 1)
    if "parameter_gradients" in options:
        assert {f"grad({name})" for name in network.parameter_shapes} <= set(graph.node_names())
    if "counting" in options:
        several = np.diff(graph.value_indptr) > 1
        assert {graph.labels.ops[v] for v in np.flatnonzero(several & graph.forward)} <= {"Slice"}
        assert not network.graph.workspace.any()
    assert ra.simulate(graph, np.arange(graph.n_nodes)).peak_memory > 0


def test_half_the_bytes_in_half_precision():
    """Values of single numbers apart: of 2 bytes for 4 in ResNet-50 are all but indices, statistics and the loss."""
    single, half = (build("resnet50", counting="paper", dtype=dtype).graph for dtype in ("float32", "float16"))
    assert (2 * half.memory[:-1] == single.memory[:-1]).all()
    assert half.memory[-1] == single.memory[-1] == 4


def test_twice_the_batch_is_twice_the_bytes_of_each_value_but_statistics():
    one, two = (build("gpt2_small", depth=1, batch=batch).graph for batch in (1, 2))
    larger = two.memory / one.memory
    assert set(larger.tolist()) <= {1.0, 2.0}
    assert one.memory[larger == 1].max() <= 1024 * 768 * 4  # what does not grow: the loss and the position embedding


@pytest.mark.parametrize(("optimizer", "each"), [("sgd", 2), ("momentum", 4), ("adam", 14), ("adamw", 16)])
@pytest.mark.parametrize("granularity", ["operation", "primitive"])
def test_an_update_takes_so_many_operations_per_parameter(optimizer, each, granularity):
    """sgd: scale, subtract; momentum: two more; adam: two moments, their corrections, a root, a ratio; fused or not."""
    network = build("feed_forward", depth=2, optimizer=optimizer, granularity=granularity)
    graph = network.graph
    first = next(v for v, name in enumerate(graph.node_names()) if name.startswith(("update(", "step(", "m", "v")))
    assert int(graph.compute[first:].sum()) == each * network.n_parameters


@pytest.mark.parametrize("name", list_models())
def test_what_an_option_grows_through_rises_and_can_be_built(name):
    family = get_family(name)
    for option in family.grows:
        assert option in family.options
        values = family.values(option, name, {})
        assert all(a < b for a, b in pairwise(values))
        assert family.values("batch", name, {}) is None
        for value in values[:2]:
            assert build(name, **{"batch": 1, option: value}).n_parameters > 0
