"""The backward part: node by node what the oracle derives."""

import json
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.errors import GraphError
from remat_algos.formats.graph_files import read_graph
from remat_algos.formats.graphs.npz_bytes import from_npz, to_npz
from remat_algos.ir.differentiate import differentiate, everything_saved
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import OF_ALL, Backward, Derivation, GradientNames, Labels, Resident
from remat_algos.schedule.simulation import simulate
from remat_algos.search.solve import solve
from tests.oracles.gradients import PARAMETER, active_values, derive, forward_outputs, seeded
from tests.oracles.plain import plain
from tests.raising import raises, refused
from tests.strategies import differentiation, graphs, rows

forward_graphs = graphs(min_nodes=1, seeded=True)


@st.composite
def tasks(draw):
    """A graph, and options to differentiate it with."""
    graph = draw(forward_graphs)
    return graph, draw(differentiation(graph))


def graph_of(reads, **arrays):
    """A graph from what each node reads, as lists of values."""
    return ComputationGraph.from_arrays(**rows("read", reads), **arrays)


def names(*letters):
    return Labels(names=tuple(letters))


def saving(*saved, **arrays):
    """Rules of nodes of one value each, whose gradients read these values."""
    n = len(saved)
    given = {"grad_memory": [1] * n, "grad_compute": [-1] * n, "grad_workspace": [0] * n}
    return Backward(**rows("saved", saved), **given | arrays)


def made(graph):
    """(name, names of values read) of each backward node."""
    g = plain(graph)
    return [(g.node_names[v], [g.value_names[x] for x in g.reads[v]]) for v in g.backward()]


def explicit(graph):
    """The graph with its rules for gradients spelled out; what a gradient saves it reads in the order of the ids."""
    g = plain(graph)
    saved = rows("saved", [sorted(row) for row in g.saved])
    rule = Backward(**saved, grad_memory=g.grad_memory, grad_compute=g.grad_compute, grad_workspace=g.grad_workspace)
    return replace(graph, backward=rule)


# ---------------------------------------------------------------- against the oracle


@given(tasks())
def test_every_gradient_is_the_oracles(task):
    graph, options = task
    g, wanted = plain(differentiate(graph, **options)), derive(explicit(graph), **options)
    assert [g.node_names[v] for v in g.backward()] == [gradient.name for gradient in wanted]
    for v, gradient in zip(g.backward(), wanted, strict=True):
        assert [g.value_names[x] for x in g.reads[v]] == gradient.reads
        assert [g.memory[x] for x in g.values[v]] == [gradient.memory]
        assert (g.compute[v], g.workspace[v], g.once[v]) == (gradient.compute, gradient.workspace, False)
        assert g.forward_of[v] == gradient.forward_of
        assert g.resident_reads[v] == gradient.residents
        assert (g.values[v][0] in g.outputs) == gradient.output


@given(tasks())
def test_the_forward_part_stays_as_it_is(task):
    graph, options = task
    before, after = plain(graph), plain(differentiate(graph, **options))
    n, n_values = len(before.reads), len(before.memory)
    assert after.forward() == list(before.nodes)
    assert after.reads[:n] == before.reads
    assert after.values[:n] == before.values
    assert after.memory[:n_values] == before.memory
    assert (after.compute[:n], after.workspace[:n], after.once[:n]) == (before.compute, before.workspace, before.once)
    assert (after.node_names[:n], after.value_names[:n_values]) == (before.node_names, before.value_names)
    assert after.resident_reads[:n] == before.resident_reads
    assert (after.resident_memory, after.resident_names) == (before.resident_memory, before.resident_names)
    kept = {name: options[name] for name in ("loss", "keep_outputs")}
    assert {x for x in after.outputs if x < n_values} == forward_outputs(graph, **kept)


@given(tasks())
def test_the_cost_of_a_gradient_is_split_without_loss(task):
    graph, options = task
    g, training = plain(graph), differentiate(graph, **options)
    wanted = 0
    for w in g.nodes:
        targets = gradients_by(g, w, options)
        if targets:
            given = g.grad_compute[w]
            wanted += given if given >= 0 else round(options["factor"] * g.compute[w])
    assert int(training.compute[~training.forward].sum()) == wanted


def gradients_by(g, w, options):
    """What the gradient of w computes."""
    seeds = seeded(g, options["loss"])
    if not set(g.values[w]) & active_values(g, seeds):
        return []
    parameters = [p for p in g.resident_reads[w] if g.resident_role[p] == PARAMETER]
    return [x for x in g.reads[w] if g.grad_memory[x] != -1] + parameters * options["parameter_gradients"]


@given(tasks())
def test_gradients_are_needed_and_lead_to_outputs(task):
    graph, options = task
    training = differentiate(graph, **options)
    g = plain(training)
    assert all(training.needed[v] for v in g.backward())
    assert training.is_training
    assert simulate(training, g.nodes).overhead == sum(g.compute[v] for v in g.nodes if v not in g.needed())


@given(tasks())
def test_labels_marks_and_the_source_are_kept(task):
    graph, options = task
    wishes = [0 if once else v % 3 for v, once in enumerate(graph.once.tolist())]
    views = {"a view": graph.value_name(0)}
    labels = replace(graph.labels, views=views, compute_unit="ns", compute_scale=10)
    marked = replace(graph, mark=wishes if any(wishes) else None, labels=labels)
    training = differentiate(marked, **options)
    assert training.mark is None or training.mark.tolist() == wishes + [0] * (training.n_nodes - graph.n_nodes)
    assert (training.mark is None) == (not any(wishes))
    assert (training.labels.compute_unit, training.labels.compute_scale % 10) == ("ns", 0)
    assert dict(training.labels.views) == views
    assert training.backward is None
    assert training.derivation.source_hash == marked.hash
    assert training.derivation.options == options


@given(forward_graphs)
def test_without_rules_gradients_read_all_and_are_as_large_as_the_values(graph):
    silent = replace(graph, backward=None)
    rules = everything_saved(silent)
    g = plain(silent)
    assert [rules.saved(v) for v in g.nodes] == [sorted(saved) for saved in g.saved]
    assert (rules.grad_memory.tolist(), rules.grad_compute.tolist()) == (g.grad_memory, g.grad_compute)
    assert differentiate(replace(silent, backward=rules)).hash == differentiate(silent).hash


@given(tasks())
def test_operations_of_gradients_are_named_after_those_of_their_readers(task):
    graph, options = task
    graph = replace(graph, labels=replace(graph.labels, ops=tuple(f"op{v}" for v in range(graph.n_nodes))))
    training = differentiate(graph, **options)
    reader = {f"grad(op{v})" for v in range(graph.n_nodes)}
    for v in range(graph.n_nodes, training.n_nodes):
        assert training.labels.op(v) in reader | {""}
        if training.labels[v].endswith("@loss"):
            assert training.labels.op(v) == ""


# ---------------------------------------------------------------- the chain of the notes


def chain(n):
    """f1 -> .. -> fn; gradients read all."""
    saved = [[v - 1] * (v > 0) + [v] for v in range(n)]
    return graph_of([[v - 1] * (v > 0) for v in range(n)], backward=saving(*saved))


@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_a_chain_has_one_gradient_for_each_node(n):
    g = plain(differentiate(chain(n)))
    gradient = {v: 2 * n - 1 - v for v in range(n)}  # g_v, from the last to the first
    assert g.backward() == sorted(gradient.values())
    assert g.reads[gradient[n - 1]] == [n - 1]
    for v in range(n - 1):
        assert g.reads[gradient[v]] == [gradient[v + 1], v, v + 1]
    assert g.outputs == {gradient[0]}
    assert [g.forward_of[v] for v in g.backward()] == list(reversed(range(n)))


# ---------------------------------------------------------------- cases


@pytest.mark.parametrize(
    ("factor", "cost"), [(0, 0), (1, 5), (2, 10), (0.5, 2), (0.7, 4), (1.5, 8), (np.float64(2), 10)]
)
def test_a_gradient_costs_factor_times_its_node(factor, cost):
    assert differentiate(graph_of([[], [0]], compute=[1, 5]), factor=factor).compute.tolist() == [1, 5, 0, cost]


@pytest.mark.parametrize(
    ("factor", "scale", "cost"),
    [
        *((0, 1, 0), (1, 1, 5), (2, 1, 10), (0.5, 10, 25), (0.7, 10, 35), (1e-9, 10**9, 5), (1.2345, 10**4, 61_725)),
        *((1 / 3, 10**6, 1_666_667), (2 / 3, 10**6, 3_333_333), (1.23456789, 10**8, 617_283_945)),
    ],
)
def test_costs_with_a_unit_are_scaled_until_that_of_a_gradient_is_whole_or_has_its_digits(factor, scale, cost):
    training = differentiate(graph_of([[], [0]], compute=[1, 5], labels=Labels(compute_unit="ms")), factor=factor)
    assert (training.compute.tolist(), training.labels.compute_scale) == ([scale, 5 * scale, 0, cost], scale)


def test_half_of_a_large_cost_has_seven_digits_and_no_decimal():
    graph = graph_of([[], [0]], compute=[1, 12_345_678_901_235], labels=Labels(compute_unit="ns"))
    training = differentiate(graph, factor=0.5)
    assert (int(training.compute[-1]), training.labels.compute_scale) == (6_172_839_000_000, 1)


@given(st.integers(1, 2**20), st.integers(1, 7), st.sampled_from([2, 0.3, 1.7, 2 / 3]))
def test_the_parts_of_a_cost_are_the_same_in_every_unit(cost, count, factor):
    found = []
    for finer in (1, 1000, 10**6):
        graph = graph_of([[]] * count + [range(count)], compute=[0] * count + [finer * cost])
        training = differentiate(replace(graph, labels=Labels(compute_unit="s")), factor=factor)
        found.append(training.compute[-count:] / (finer * training.labels.compute_scale))
    assert np.allclose(found, factor * cost / count, rtol=1e-6 * count, atol=0)
    assert np.allclose(found[1:], found[0], rtol=1e-12, atol=0)


def test_a_node_of_several_values_passes_on_the_gradients_of_those_that_have_one():
    rule = Backward([0, 0, 1, 1, 1], [1], [8, 4, -1, 5, 1], [-1] * 4, [0] * 4)
    graph = graph_of(
        [[], [0], [1, 2], [3]],
        value_indptr=[0, 1, 3, 4, 5],
        labels=Labels(names=tuple("abcd"), value_names={2: "mask"}),
        backward=rule,
    )
    training = differentiate(graph)
    assert made(training) == [
        ("grad(d)", ["d"]),
        ("grad(c)", ["grad(d)"]),
        ("grad(b)", ["grad(c)"]),
        ("grad(a)", ["grad(b)", "b"]),
    ]
    assert training.memory[5:].tolist() == [1, 5, 4, 8]


PARAMETERS = Resident([5, 7, 9], [0, 1, 2], [0, 2, 4, 4], [0, 1, 1, 2], ("x", "w", "state"))


def test_a_tied_parameter_has_one_gradient_the_sum_over_its_readers():
    graph = graph_of([[], [0], [1]], labels=names(*"abc"), compute=10, resident=PARAMETERS, backward=saving([], [], []))
    training = differentiate(graph, parameter_gradients=True)
    g = plain(training)
    assert made(training) == [
        ("grad(c)", ["c"]),
        ("grad(b)", ["grad(c)"]),
        ("grad(a)", ["grad(b)"]),
        ("grad(w)@b", ["grad(b)"]),
        ("grad(w)", ["grad(a)", "grad(w)@b"]),
    ]
    assert [g.compute[v] for v in g.backward()] == [0, 20, 10, 10, 20]
    assert [g.memory[v] for v in g.backward()] == [1, 1, 1, 7, 7]
    assert [g.forward_of[v] for v in g.backward()] == [2, 1, 0, 1, 0]
    assert [g.resident_reads[v] for v in g.backward()] == [[], [], [1, 2], [1, 2], [0, 1]]
    assert g.outputs == {g.node_names.index("grad(w)")}


def outputs(graph):
    return [graph.value_name(x) for x in np.flatnonzero(graph.output)]


def test_outputs_that_are_no_loss_stay():
    graph = graph_of([[], [0], [0]], labels=names(*"abc"))
    assert outputs(differentiate(graph, loss="c")) == ["b", "grad(a)"]
    no_gradient = replace(graph, backward=saving([], [], [], grad_memory=[1, -1, 1]))
    assert outputs(differentiate(no_gradient)) == ["b", "grad(a)"]


def test_a_loss_is_named_by_one_text_or_several():
    graph = graph_of([[], [0], [0]], labels=names(*"abc"))
    assert differentiate(graph, loss="c").hash == differentiate(graph, loss=["c"]).hash
    assert differentiate(graph, loss=["c", "b"]).hash == differentiate(graph).hash
    assert differentiate(graph, loss=("b", "c")).derivation.options["loss"] == ["b", "c"]
    assert made(differentiate(graph, loss="c"))[0] == ("grad(c)", ["c"])


def test_a_loss_may_be_any_value_a_view_or_a_node_of_several():
    graph = graph_of(
        [[], [0], [1]], value_indptr=[0, 1, 3, 4], labels=Labels(names=tuple("abc"), views={"flat": "b:1"})
    )
    assert differentiate(graph, loss="flat").hash == differentiate(graph, loss="b:1").hash
    assert made(differentiate(graph, loss="b:1"))[0] == ("grad(b:1)", ["b:1"])
    assert made(differentiate(graph, loss="b"))[0] == ("grad(b)", ["b"])


def test_a_loss_that_is_read_starts_its_sum_right_before_its_last_reader():
    graph = graph_of([[], [0], [0], [2], [1, 3]], labels=names(*"abcde"), backward=saving([], [], [], [], []))
    assert made(differentiate(graph, loss=["a", "e"])) == [
        ("grad(e)", ["e"]),
        ("grad(b)", ["grad(e)"]),
        ("grad(d)", ["grad(e)"]),
        ("grad(c)", ["grad(d)"]),
        ("grad(a)@loss", ["a"]),
        ("grad(a)@c", ["grad(c)", "grad(a)@loss"]),
        ("grad(a)", ["grad(b)", "grad(a)@c"]),
    ]


def test_a_loss_whose_readers_lead_to_none_begins_in_the_turn_of_its_own_node():
    graph = graph_of([[], [0], [1], [0]], labels=names(*"abcd"), backward=saving([], [], [], []))
    assert made(differentiate(graph, loss=["b", "d"])) == [
        ("grad(d)", ["d"]),
        ("grad(a)@d", ["grad(d)"]),
        ("grad(b)", ["b"]),
        ("grad(a)", ["grad(b)", "grad(a)@d"]),
    ]


# ---------------------------------------------------------------- names made on demand


@given(tasks())
def test_names_on_demand_are_those_that_are_spelled_out(task):
    graph, options = task
    training = differentiate(graph, **options)
    labels = training.labels
    spelled = replace(training, labels=replace(labels, names=tuple(labels.names)))
    assert len(labels.names) == training.n_nodes
    assert [labels[v] for v in range(training.n_nodes)] == training.node_names() == list(spelled.labels.names)
    assert [training.value_name(x) for x in range(training.n_values)] == training.value_names()
    assert training.hash == spelled.hash
    assert from_npz(to_npz(training)).hash == training.hash


CLEAR, DOUBTFUL = ("a", "b)", "@c", "loss"), ("grad(a", "a)@b", "grad(a)")


@pytest.mark.parametrize("name", [*CLEAR, *DOUBTFUL])
@pytest.mark.parametrize("place", ["node", "value", "view", "resident"])
def test_a_name_is_doubtful_if_it_looks_like_that_of_a_gradient(place, name):
    graph = graph_of(
        [[], [0]],
        labels=Labels(
            names=(name, "n") if place == "node" else None,
            value_names={0: name} if place == "value" else {},
            views={name: "0"} if place == "view" else {},
        ),
        resident=Resident([1], [0], [0, 1, 1], [0], (name,)) if place == "resident" else None,
    )
    assert GradientNames(graph.labels, graph.value_indptr, graph.resident_names, [0], [OF_ALL]).distinct == (
        name in CLEAR
    )


@pytest.mark.parametrize(
    "labels",
    [{"views": {"grad(0)": "0"}}, {"value_names": {0: "grad(1)"}}, {"value_names": {2: "0"}}],
    ids=["view", "value of a node", "value of a gradient"],
)
def test_names_that_are_changed_afterwards_are_checked(labels):
    training = differentiate(graph_of([[], [0]]))
    with pytest.raises(GraphError):
        replace(training, labels=replace(training.labels, **labels))


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("graph", "options", "fault"),
    [
        (differentiate(graph_of([[], [0]])), {}, "the graph already has a backward part; differentiate"),
        (graph_of([[], [0]]), {"factor": -1}, {"factor": -1}),
        (graph_of([[], [0]]), {"factor": float("nan")}, "factor is nan; give a number of 0 or more"),
        (graph_of([[], [0]]), {"factor": float("inf")}, "factor is inf; give a number of 0 or more"),
        (graph_of([[], [0]], compute=2**50), {"factor": 64}, {"factor": 64}),
        (graph_of([]), {}, "no output has a gradient, so there is nothing to differentiate; name a loss"),
        (
            graph_of([[], [0]], backward=saving([], [], grad_memory=[1, -1])),
            {},
            "no output has a gradient, so there is nothing to differentiate; name a loss",
        ),
        (graph_of([[], [0]], backward=saving([], [], grad_memory=[1, -1])), {"loss": "1"}, {"name": "1"}),
        (graph_of([[], [0]]), {"loss": []}, "no loss is named, so there is nothing to differentiate; name a loss"),
        (graph_of([[], [0]]), {"loss": "z"}, {"name": "z"}),
        (graph_of([[], [0]], labels=names("a", "loss")), {"loss": "los"}, {"name": "los"}),
        (graph_of([[], [0]], labels=names("a", "grad(a)")), {}, {"name": "grad(a)", "reader": "grad(a)", "value": "a"}),
        (
            graph_of([[], [0]], labels=names("a", "grad(a)@loss")),
            {"loss": ["a", "grad(a)@loss"]},
            {"name": "grad(a)@loss", "reader": "loss", "value": "a"},
        ),
        (
            graph_of([[], [0], [0]], labels=names("a", "b", "loss")),
            {"loss": ["a", "b", "loss"]},
            {"name": "grad(a)@loss", "reader": "loss", "value": "a"},
        ),
        (graph_of([[], [0]], labels=Labels(value_names={0: "grad(1)"})), {}, {"name": "grad(1)"}),
        (graph_of([[], [0]], resident=Resident([1], [0], [0, 1, 1], [0], ("grad(0)",))), {}, {"name": "grad(0)"}),
        (graph_of([[], [0]], labels=Labels(views={"grad(0)": "0"})), {}, {"name": "grad(0)"}),
        (graph_of([[], [0]], backward=saving([], [], grad_memory=[-1, -1])), {}, "no output has a gradient"),
    ],
)
def test_what_cannot_be_differentiated_is_named(graph, options, fault):
    with refused(GraphError, fault):
        differentiate(graph, **options)


@pytest.mark.parametrize("factor", [1e300, 10**400, 2**53])
def test_an_absurd_factor_is_refused_unless_there_is_nothing_to_multiply(factor):
    with pytest.raises(GraphError, match="makes total compute 2"):
        differentiate(graph_of([[], [0]]), factor=factor)
    assert differentiate(graph_of([[], [0]], compute=0), factor=factor).compute.tolist() == [0] * 4


def test_costs_are_exact_up_to_the_largest_sum():
    most = 2**53 - 2
    assert differentiate(graph_of([[], [0]], compute=[0, 1]), factor=most).compute.tolist() == [0, 1, 0, most]
    with raises(GraphError, what="compute"):
        differentiate(graph_of([[], [0]], compute=[0, 1]), factor=most + 1)
    with raises(GraphError, factor=9007199254740992):
        differentiate(graph_of([[], [0]], compute=[0, 1]), factor=most + 2)


def test_numbers_of_numpy_are_remembered_as_those_of_python():
    graph = graph_of([[], [0]], memory=64, labels=Labels(ops=("Linear", "ReLU")))
    given = {"factor": np.float32(1.5), "encode": np.int64(16), "keep_outputs": np.True_, "loss": np.array(["1"])}
    training = differentiate(graph, **given)
    record = json.loads(json.dumps(simulated := solve(training, solver="no_remat").record()))
    assert record == simulated
    assert training.derivation.options == {
        "factor": 1.5,
        "parameter_gradients": False,
        "loss": ["1"],
        "keep_outputs": True,
        "encode": 16,
    }
    assert type(differentiate(graph, factor=np.int64(3)).derivation.options["factor"]) is int
    assert differentiate(graph, encode=np.True_).hash == differentiate(graph, encode=True).hash


# ---------------------------------------------------------------- the lower-set authors' graphs


@pytest.mark.parametrize(
    ("name", "peak"), [("vgg19", 2132279296), ("unet", 7803387904), ("resnet50", 3468165120), ("googlenet", 871841804)]
)
@pytest.mark.filterwarnings("ignore::remat_algos.errors.GraphWarning")
def test_published_graphs_have_their_published_peaks(shared_graphs, name, peak):
    """kusumoto2019's graphs, run without rematerialization in the order of the ids."""
    training = differentiate(read_graph(shared_graphs / f"{name}.nodes.csv"))
    assert simulate(training, np.arange(training.n_nodes)).peak_memory == peak


def test_decimals_among_the_options_of_a_derivation_are_floats_however_deep_they_lie():
    record = {"source_hash": "x", "options": {"factor": Decimal("1.5"), "other": [1, {"a": Decimal("0.5")}]}}
    assert (
        json.dumps(Derivation.of(record, "a file").record()["options"]) == '{"factor": 1.5, "other": [1, {"a": 0.5}]}'
    )
