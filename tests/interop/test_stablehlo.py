"""Graphs of functions that JAX has lowered."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

import remat_algos as ra
from remat_algos.interop.stablehlo import capture
from tests.command_line import runner
from tests.raising import raises


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


def test_costs_are_times_on_an_a100():
    graph = capture(lowered(jnp.sin, shaped(1000, 1000)))
    assert (graph.compute.tolist(), graph.labels.compute_unit) == ([5000 + round(8e6 / 2039)], "ns")


def test_with_occupancy_products_compute_whole_waves():
    """8 x 16 results of 108 x 64 x 64 in a wave; a loop stays at the roofline."""

    def both(x, y):
        return lax.fori_loop(0, 3, lambda _, z: jnp.sin(z @ z), x @ y)

    module = lowered(both, shaped(8, 8), shaped(8, 8))
    roofline, occupied = (capture(module, cost=cost) for cost in ("roofline", "occupancy"))
    place = occupied.labels.ops.index("dot_general")
    assert occupied.compute[place] == round(5000 + 2 * 8**3 * (108 * 64 * 64 / 64) / 19_500)
    assert (occupied.compute != roofline.compute).sum() == 1


@pytest.mark.parametrize("stride", [1, 2])
def test_a_convolution_and_its_gradient_cost_alike(stride):
    def convolution(x, kernel):
        return lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", feature_group_count=2).sum()

    arguments = shaped(2, 4, 8, 8), shaped(6, 2, 3, 3)
    flops = 2 * (2 * 6 * (8 // stride) ** 2) * 2 * 3 * 3
    assert capture(lowered(convolution, *arguments), cost="flops").compute.max() == flops
    gradient = capture(lowered(jax.grad(convolution), *arguments), cost="flops")
    assert [work for work in gradient.compute.tolist() if work] == [flops]


PRODUCT = 2 * 4 * 4 * 4


def repeated(x):
    return lax.scan(lambda c, row: (jnp.tanh(c @ c + row), c), x, jnp.zeros((7, 4)))


@pytest.mark.parametrize(
    ("function", "products"),
    [
        (repeated, 7),
        (lambda x: jax.jit(repeated)(jax.jit(repeated)(x)[0]), 14),
        (lambda x: jax.grad(lambda x: repeated(x)[0].sum())(x), 7 * 3),
        (lambda x: lax.fori_loop(2, 9, lambda i, c: c @ c, x), 7),
        (lambda x: lax.fori_loop(9, 2, lambda i, c: c @ c, x), 0),
        (lambda x: lax.fori_loop(0, 3, lambda i, c: lax.fori_loop(0, 5, lambda i, c: c @ c, c), x), 15),
        (lambda x: lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 3, c[1] @ c[1]), (0, x)), 4),
        (lambda x: lax.while_loop(lambda c: c.sum() < 10, lambda c: c @ c, x), 1),
        (lambda x: lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] * 2, c[1] @ c[1]), (1, x)), 1),
        (lambda x: lax.cond(x.sum() > 0, lambda: x @ x @ x, lambda: x), 2),
        (lambda x: lax.cond(x.sum() > 0, lambda: repeated(x)[0], lambda: x @ x), 7),
        (lambda x: lax.map(lambda row: row @ x, x), 1),
        (lambda x: lax.composite(lambda x: x @ x, "mine.square")(x), 1),
    ],
)
def test_loops_and_branches_have_the_flops_of_their_runs(function, products):
    graph = capture(lowered(function, shaped(4, 4)), cost="flops")
    assert graph.compute.sum() == products * PRODUCT


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


# ---------------------------------------------------------------- exported modules and open dimensions


def exported(function, *arguments, **options):
    return export.export(jax.jit(function), **options)(*arguments)


def symbolic(shape, dtype="float32", **scope):
    return shaped(*export.symbolic_shape(shape, **scope), dtype=dtype)


def sizes(graph):
    """Bytes and costs of nodes, and the bytes of residents that are no constants."""
    given = {name: size for name, size in residents(graph).items() if name.startswith("arg")}
    return graph.labels.ops, graph.memory.tolist(), graph.compute.tolist(), given


def attention(x, w):
    return jax.nn.softmax(x @ w @ x.swapaxes(-1, -2)) @ x


def test_an_exported_module_is_read_as_the_lowered_one(tmp_path):
    module = exported(mlp, *MLP)
    text = module.mlir_module()
    (tmp_path / "mlp.mlir").write_text(text)
    wanted = sizes(capture(lowered(mlp, *MLP)))
    for given in (module, text, text.encode(), tmp_path / "mlp.mlir", str(tmp_path / "mlp.mlir")):
        assert sizes(capture(given)) == wanted


@pytest.mark.parametrize(
    ("function", "shapes", "dims"),
    [
        (attention, ("b, n, 4", "4, 4"), {"b": 3, "n": 5}),
        (attention, ("b, 2*n, 4", "4, 4"), {"b": 3, "n": 5}),
        (attention, ("2*b + 1, n, d", "d, d"), {"b": 2, "n": 3, "d": 7}),
        (
            lambda x, y: (jnp.sin(x), jnp.cos(y)),
            ("b, n", "max(b, n), floordiv(b, 2), mod(n, 3), b^2*2"),
            {"b": 6, "n": 4},
        ),
        (lambda x: jnp.concatenate([x, x]).reshape(-1).sum(), ("2*b, 4",), {"b": 3}),
    ],
)
def test_symbols_with_lengths_are_the_module_of_those_shapes(function, shapes, dims):
    scope = export.SymbolicScope()
    module = exported(function, *(symbolic(shape, scope=scope) for shape in shapes))
    fixed = [
        [each if isinstance(each, int) else evaluated(str(each), dims) for each in aval.shape]
        for aval in module.in_avals
    ]
    assert sizes(capture(module, dims)) == sizes(capture(lowered(function, *(shaped(*shape) for shape in fixed))))


@pytest.mark.parametrize(
    "function",
    [
        jax.value_and_grad(lambda x: attention(x, x.T @ x).sum()),
        lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sin(c), x @ x.T @ x),
        lambda x: lax.scan(lambda c, row: (c + row, c), jnp.zeros_like(x[0]), x @ x.T @ x),
    ],
)
def test_a_symbolic_step_has_the_flops_and_outputs_of_its_shape(function):
    """Other operations may differ: JAX lowers some in another way where a length is a symbol."""
    symbols = capture(exported(function, symbolic("n, d")), {"n": 6, "d": 2}, cost="flops")
    fixed = capture(lowered(function, shaped(6, 2)), cost="flops")
    assert [work for work in symbols.compute.tolist() if work] == [work for work in fixed.compute.tolist() if work]
    assert symbols.memory[symbols.output].tolist() == fixed.memory[fixed.output].tolist()


def evaluated(length, dims):
    functions = {"max": max, "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b}
    return eval(length.replace("^", "**"), functions, dims)


def test_arguments_in_dictionaries_and_by_name_have_their_own_symbols():
    def function(parameters, x):
        return jnp.sin(parameters["a ).shape = (q"][0]).sum() + x.sum()

    scope = export.SymbolicScope()
    first, second = symbolic("b, 4", scope=scope), symbolic("c, 3*c", scope=scope)
    module = export.export(jax.jit(function))({"a ).shape = (q": [first], "fixed": shaped(2)}, x=second)
    graph = capture(module, {"b": 8, "c": 3})
    assert residents(graph) == {"arg0": 128, "arg1": 8, "arg2": 108} | {
        name: size for name, size in residents(graph).items() if name.startswith("constant")
    }


def test_an_exported_function_that_another_calls_has_the_sizes_of_the_call():
    module = exported(attention, symbolic("n, 4"), shaped(4, 4))
    called = capture(lowered(lambda x, w: jnp.sin(module.call(x, w)), shaped(6, 4), shaped(4, 4)), cost="flops")
    assert "convert" not in called.labels.ops
    assert called.compute.sum() == capture(module, {"n": 6}, cost="flops").compute.sum() > 0


def test_a_module_for_several_platforms_is_read():
    def function(x):
        return lax.platform_dependent(x, cpu=jnp.sin, cuda=jnp.cos)

    module = exported(function, symbolic("n"), platforms=["cpu", "cuda"])
    assert residents(capture(module, {"n": 6}))["arg1"] == 24


OPEN = """module { func.func @main(%a: tensor<?x3xf32>, %b: tensor<?x3xf32>) -> tensor<?x3xf32> {
    %0 = call @twice(%a) : (tensor<?x3xf32>) -> tensor<?x3xf32>
    %1 = stablehlo.add %0, %b : tensor<?x3xf32>
    return %1 : tensor<?x3xf32> }
  func.func private @twice(%a: tensor<?x3xf32>) -> tensor<?x3xf32> {
    %0 = stablehlo.sine %a : tensor<?x3xf32>
    return %0 : tensor<?x3xf32> } }"""


def test_a_dimension_without_symbol_is_called_by_its_place():
    graph = capture(OPEN, {"arg0[0]": 5, "arg1[0]": 5})
    assert memory(graph) == {"sine.0": 60, "add.0": 60}


def test_the_module_is_left_as_it_was():
    from jaxlib.mlir import ir

    module = lowered(exported(jnp.sin, symbolic("n")).call, shaped(6)).compiler_ir("stablehlo")
    before = str(module)
    assert isinstance(module, ir.Module)
    capture(module)
    assert str(module) == before


TWO = exported(
    lambda x, y: x @ y,
    *(symbolic(shape, scope=scope) for scope in [export.SymbolicScope()] for shape in ("b, 2*n", "2*n, 3")),
)
BOUNDED = exported(jnp.sin, symbolic("b, 4", constraints=["b >= 4", "mod(b, 2) == 0"]))


@pytest.mark.parametrize(
    ("module", "dims", "fields"),
    [
        (TWO, None, {"unsized": 2, "first": "arg0", "shape": "b x 2*n", "dims": 'dims={"b": 1, "n": 1}'}),
        (TWO, None, {"path": " or MODEL.mlir?b=1&n=1"}),
        (TWO, {"b": 2}, {"unsized": 2, "first": "arg0", "dims": 'dims={"n": 1}'}),
        (TWO, {"n": 2}, {"unsized": 1, "first": "arg0", "dims": 'dims={"b": 1}'}),
        (TWO, {"b": 2, "n": 2, "m": 1}, {"unknown": "m", "known": ["b", "n"]}),
        (TWO, {"2*n": 2}, {"unknown": "2*n"}),
        (TWO, {"b": 2, "n": 2, "arg0[0]": 2}, {"unknown": "arg0[0]"}),
        (TWO, {"b": 2.0, "n": 2}, {"name": "b", "length": 2.0}),
        (TWO, {"b": 2, "n": 2**62}, {"expression": "2*n"}),
        (BOUNDED, {"b": 5}, {}),
        (BOUNDED, {"batch": 6}, {"unknown": "batch", "known": ["b"]}),
        (OPEN, {}, {"shape": "arg0[0] x 3", "dims": 'dims={"arg0[0]": 1, "arg1[0]": 1}'}),
        (OPEN, {"arg0[0]": 4, "arg1[0]": 5}, {}),
        (lowered(jnp.sin, symbolic("n")), {"arg1[0]": 4}, {}),
        (lowered(jnp.sin, shaped(3)), {"n": 4}, {"unknown": "n", "near": "; remove it"}),
        (exported(jnp.sin, symbolic("n")).mlir_module_serialized, {}, {"source": "the module"}),
    ],
)
def test_what_has_no_size_is_told_in_one_sentence(module, dims, fields, capfd):
    with raises(ra.GraphError, **fields) as caught:
        capture(module, dims)
    assert str(caught.value).isprintable()
    assert "jax.dev" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("module", "dims", "fault"),
    [
        (TWO, {"b": 0, "n": 2}, "Input shapes do not match"),
        (BOUNDED, {"b": 2}, "Expected 'b - 4' to be greater or equal to 0, but found -2"),
    ],
)
def test_what_jax_says_of_lengths_is_told(module, dims, fault):
    with pytest.raises(ra.GraphError, match="shapes cannot be inferred") as caught:
        capture(module, dims)
    assert fault in caught.value.fields["fault"]


def test_lengths_that_data_decides_are_refused():
    text = """module { func.func @main(%n: tensor<1xi32>) -> tensor<?xf32> {
        %0 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
        return %0 : tensor<?xf32> } }"""
    with pytest.raises(ra.GraphError, match="the module's shapes cannot be inferred"):
        capture(text)


def test_the_command_line_takes_lengths_behind_the_path(tmp_path, capsys):
    file = tmp_path / "attention.mlir"
    file.write_text(exported(attention, symbolic("n, 4"), shaped(4, 4)).mlir_module())
    graph = capture(file, {"n": 6})
    assert ra.read_graph(f"{file}?n=6").memory.tolist() == graph.memory.tolist()
    run = runner(capsys)
    assert run("show", f"{file}?n=6", "--inference", "--json").record["nodes"] == graph.n_nodes
    for behind, sentence in (("", "MODEL.mlir?n=1"), ("?m=6", "needs one (known: n)"), ("?n=0", "for these dims?")):
        said = run("show", f"{file}{behind}")
        assert said.code == 2
        assert sentence in " ".join(said.err.split())


# ---------------------------------------------------------------- bad input


def test_a_module_without_main_is_refused():
    from jaxlib.mlir import ir

    with ir.Context():
        module = ir.Module.parse("module {}")
    with pytest.raises(ra.GraphError, match=re.escape("no function main; lower a function: jax.jit(g).lower(*args)")):
        capture(module)


def test_what_is_not_lowered_is_refused():
    with pytest.raises(TypeError, match=re.escape("lowered has type function; give jax.jit(g).lower(*args)")):
        capture(mlp)


def test_an_unknown_cost_is_refused():
    with pytest.raises(ra.GraphError, match="unknown cost 'flop'; did you mean flops"):
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
    "no module": ("module {", "is not a StableHLO module"),
    "another dialect": ("module { tosa.add }", "is not a StableHLO module"),
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
        "which is not a tensor",
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
    monkeypatch.setattr("remat_algos.interop.stablehlo._product_flops", broken)
    with pytest.raises(ra.GraphError, match="the module is not one that JAX emits"):
        capture(lowered(jnp.sin, shaped(3)))
