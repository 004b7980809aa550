"""Graphs of functions that JAX has lowered."""

import re

import numpy as np
import pytest

import remat_algos as ra
from tests.command_line import runner

jax = pytest.importorskip("jax")
jnp = jax.numpy

from jax import export, lax  # noqa: E402

from remat_algos.interop.stablehlo import capture  # noqa: E402


def shaped(*shape, dtype="float32"):
    return jax.ShapeDtypeStruct(shape, dtype)


def lowered(function, *arguments):
    return jax.jit(function).lower(*arguments)


def mlp(w1, w2, x):
    return jnp.mean((jnp.maximum(x @ w1, 0) @ w2) ** 2)


MLP = shaped(16, 32), shaped(32, 4), shaped(8, 16)


def memory(graph):
    return dict(zip(graph.value_names(), graph.memory.tolist(), strict=True))


def reads(graph, name):
    return [graph.value_name(x) for x in graph.reads(graph.node_id(name))]


def once(graph):
    return [graph.labels[v] for v in np.flatnonzero(graph.once)]


def residents(graph):
    return dict(zip(graph.resident.names, graph.resident.memory.tolist(), strict=True))


def test_an_mlp_has_the_bytes_and_flops_of_its_layers():
    graph = capture(lowered(mlp, *MLP), cost="flops")
    assert memory(graph)["dot_general.0"] == memory(graph)["maximum.0"] == 8 * 32 * 4
    assert memory(graph)["dot_general.1"] == 8 * 4 * 4
    assert {name: size for name, size in residents(graph).items() if name.startswith("arg")} == {
        "arg0": 16 * 32 * 4,
        "arg1": 32 * 4 * 4,
        "arg2": 8 * 16 * 4,
    }
    flops = dict(zip(graph.labels.names, graph.compute.tolist(), strict=True))
    assert {name: work for name, work in flops.items() if work} == {
        "dot_general.0": 2 * 8 * 32 * 16,
        "dot_general.1": 2 * 8 * 4 * 32,
    }
    assert [graph.value_name(x) for x in np.flatnonzero(graph.output)] == [graph.value_name(graph.n_values - 1)]


def test_a_training_step_is_planned_below_its_own_order():
    step = lowered(jax.value_and_grad(mlp, (0, 1)), *MLP)
    graph = capture(step)
    assert int(graph.output.sum()) == 3
    assert capture(step.compiler_ir("stablehlo")).hash == graph.hash
    assert ra.solve(graph, "least").peak_memory <= ra.simulate(graph, range(graph.n_nodes)).peak_memory


def test_costs_are_nanoseconds_of_a_roofline():
    graph = capture(lowered(jnp.sin, shaped(1000, 1000)))
    assert (graph.compute.tolist(), graph.labels.compute_unit) == ([4000 + round(8e6 / 1.5e3)], "ns")


@pytest.mark.parametrize("stride", [1, 2])
def test_a_convolution_and_its_gradient_cost_alike(stride):
    def convolution(x, kernel):
        return lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", feature_group_count=2).sum()

    arguments = shaped(2, 4, 8, 8), shaped(6, 2, 3, 3)
    flops = 2 * (2 * 6 * (8 // stride) ** 2) * 2 * 3 * 3
    assert capture(lowered(convolution, *arguments), cost="flops").compute.max() == flops
    gradient = capture(lowered(jax.grad(convolution), *arguments), cost="flops")
    assert [work for work in gradient.compute.tolist() if work] == [flops]


def test_private_functions_are_written_out_for_each_call():
    @jax.jit
    def inner(x):
        return jnp.sin(x) * 2

    graph = capture(lowered(lambda x: inner(inner(x)), shaped(3)))
    assert graph.labels.names == (
        "sine.0",
        "broadcast_in_dim.0",
        "multiply.0",
        "sine.1",
        "broadcast_in_dim.1",
        "multiply.1",
    )
    assert reads(graph, "sine.1") == ["multiply.0"]


def test_a_loop_is_one_node_that_makes_all_it_carries():
    graph = capture(lowered(lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sin(c), jnp.cos(x)), shaped(5)))
    assert graph.labels.names == ("cosine.0", "while.0")
    assert memory(graph) == {"cosine.0": 20, "while.0": 4, "while.0:1": 20}
    assert [graph.value_name(x) for x in np.flatnonzero(graph.output)] == ["while.0:1"]


def test_branches_are_one_node_that_reads_what_both_read():
    def function(t, x):
        y, z = jnp.sin(x), jnp.cos(x)
        return lax.cond(t > 0, lambda: y, lambda: z)

    graph = capture(lowered(function, shaped(), shaped(3)))
    assert set(reads(graph, "case.0")) == {"convert.0", "sine.0", "cosine.0"}


def test_a_reshape_is_a_view():
    graph = capture(lowered(lambda x: jnp.sin(jnp.cos(x).reshape(6)), shaped(2, 3)))
    assert graph.labels.views == {"reshape.0": "cosine.0"}
    assert reads(graph, "sine.0") == ["cosine.0"]


def test_a_result_that_is_a_view_keeps_its_base():
    graph = capture(lowered(lambda x: jnp.cos(x).reshape(6), shaped(2, 3)))
    assert (graph.labels.names, graph.output.tolist()) == (("cosine.0",), [True])


@pytest.mark.parametrize(
    ("dtype", "size"), [("bool", 3), ("int4", 2), ("bfloat16", 6), ("complex64", 24), ("float8_e4m3fn", 3)]
)
def test_elements_have_the_bytes_of_their_type(dtype, size):
    graph = capture(lowered(lambda x: (x, jnp.zeros(2)), shaped(3, dtype=dtype)))
    assert residents(graph)["arg0"] == size


def test_random_bits_of_a_key_may_be_drawn_again():
    graph = capture(lowered(lambda: jax.random.normal(jax.random.key(0), (3,))))
    assert once(graph) == []


def test_what_has_an_effect_runs_once():
    def outside(x):
        return jax.experimental.io_callback(np.sin, shaped(3), x, ordered=True)

    assert once(capture(lowered(outside, shaped(3)))) == ["custom_call.0"]


# ---------------------------------------------------------------- bad input


def test_a_shape_that_is_not_fixed_is_refused():
    exported = export.export(jax.jit(jnp.sin))(shaped(*export.symbolic_shape("n,4")))
    from jax._src.interpreters import mlir

    with mlir.make_ir_context() as context:
        module = mlir.ir.Module.parse(exported.mlir_module(), context)
    fault = "the module has a tensor<?x4xf32>, whose lengths are not fixed; lower it for one shape"
    with pytest.raises(ra.GraphError, match=re.escape(fault)):
        capture(module)


def test_a_module_without_main_is_refused():
    from jaxlib.mlir import ir

    with ir.Context():
        module = ir.Module.parse("module {}")
    with pytest.raises(ra.GraphError, match=re.escape("no function main; lower a function: jax.jit(g).lower(*args)")):
        capture(module)


def test_what_is_not_lowered_is_refused():
    with pytest.raises(TypeError, match=re.escape("lowered is a function; give jax.jit(g).lower(*args)")):
        capture(mlp)


def test_an_unknown_cost_is_refused():
    with pytest.raises(ra.GraphError, match="no cost is called 'flop'; did you mean flops"):
        capture(lowered(jnp.sin, shaped(3)), cost="flop")


# ---------------------------------------------------------------- files


@pytest.fixture
def file(tmp_path):
    (tmp_path / "mlp.mlir").write_text(lowered(mlp, *MLP).as_text())
    return tmp_path / "mlp.mlir"


def test_the_text_of_a_module_is_read_wherever_a_path_is_taken(file, tmp_path, capsys):
    graph = capture(lowered(mlp, *MLP))
    (tmp_path / "text").write_bytes(file.read_bytes())
    for found in (capture(file), capture(str(file)), capture(file.read_bytes()), ra.read_graph(tmp_path / "text")):
        assert (found.n_nodes, found.memory.tolist()) == (graph.n_nodes, graph.memory.tolist())
    assert ra.solve(file, "least").peak_memory <= ra.solve(file, "100%").peak_memory
    assert runner(capsys)("show", file, "--inference", "--json").record["nodes"] == graph.n_nodes


MODULE = "module {{ func.func @main({0}) -> {1} {{ {2} }} }}"
X = "%a: tensor<2xf32>"
DAMAGED = {
    "nothing": ("", "no function main"),
    "no module": ("module {", "is no StableHLO module"),
    "another dialect": ("module { tosa.add }", "is no StableHLO module"),
    "no text": (b"module {\xff}", "is not UTF-8 text"),
    "bytecode": (b"ML\xefR\rMLIR23.0.0git\0", "MLIR bytecode; give the text"),
    "no body": ("module { func.func private @main(tensor<2xf32>) -> tensor<2xf32> }", "main has no body"),
    "a call of itself": (
        MODULE.format(
            X, "tensor<2xf32>", "%0 = call @main(%a) : (tensor<2xf32>) -> tensor<2xf32> return %0 : tensor<2xf32>"
        ),
        "main calls itself; write it as a loop",
    ),
    "branches": (
        MODULE.format(f"{X}, %c: i1", "tensor<2xf32>", "cf.cond_br %c, ^b, ^b ^b: return %a : tensor<2xf32>"),
        "main has branches between blocks",
    ),
    "no numbers": (
        MODULE.format("%a: tensor<2xindex>", "tensor<2xindex>", "return %a : tensor<2xindex>"),
        "have no size",
    ),
    "no rank": (MODULE.format("%a: tensor<*xf32>", "tensor<*xf32>", "return %a : tensor<*xf32>"), "are not fixed"),
    "no tensor": (
        MODULE.format("%a: memref<2xf32>", "memref<2xf32>", "return %a : memref<2xf32>"),
        "which is no tensor",
    ),
    "too long": (
        MODULE.format(
            "%a: tensor<4611686018427387904xf32>",
            "tensor<4611686018427387904xf32>",
            "%0 = stablehlo.sine %a : tensor<4611686018427387904xf32> return %0 : tensor<4611686018427387904xf32>",
        ),
        "more than 64 bits",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_module_is_one_sentence(name, capfd):
    text, sentence = DAMAGED[name]
    with pytest.raises(ra.GraphError, match=re.escape(sentence)) as caught:
        capture(text if isinstance(text, bytes) else text.encode())
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_an_error_that_is_not_foreseen_is_told(monkeypatch):
    def broken(*_):
        raise KeyError("x")

    with pytest.raises(KeyError):
        capture(lowered(jnp.sin, shaped(3)), cost=broken)
    monkeypatch.setattr("remat_algos.interop.stablehlo._flops", broken)
    with pytest.raises(ra.GraphError, match="the module is none that JAX makes"):
        capture(lowered(jnp.sin, shaped(3)))
