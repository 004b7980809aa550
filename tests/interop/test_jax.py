"""Functions of JAX: their graphs, and plans that are run."""

import contextlib
import io
import re
from functools import partial

import numpy as np
import pytest

from remat_algos.errors import GraphError
from remat_algos.formats.graph_files import read_graph
from remat_algos.interop import jax as adapter
from remat_algos.plan.solve import solve

jax = pytest.importorskip("jax", reason="jax is not installed")
jnp = pytest.importorskip("jax.numpy")
ad_checkpoint = pytest.importorskip("jax.ad_checkpoint")
apply, capture, names, run = (getattr(adapter, name) for name in ("apply", "capture", "names", "run"))

BUDGETS = ("100%", "60%", "least")


def arrays(*shapes):
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.standard_normal(shape) / 4, jnp.float32) for shape in shapes]


def mlp(params, x):
    *hidden, last = params
    for w, b in hidden:
        x = jnp.tanh(x @ w + b)
    return jnp.mean((x @ last[0] + last[1]) ** 2)


def mlp_arguments(layers=6):
    flat = arrays(*[(16, 16), (16,)] * layers, (32, 16))
    return list(zip(flat[:-1:2], flat[1::2], strict=True)), flat[-1]


def attention(params, x):
    q, k, v = (jnp.einsum("btc,chd->bhtd", x, w) for w in params["qkv"])
    weights = jax.nn.softmax(q @ k.swapaxes(-1, -2) / 3.0)
    mixed = jnp.einsum("bhtd,hdc->btc", weights @ v, params["out"])
    x = x + mixed
    return (x + jax.nn.gelu(x @ params["up"]) @ params["down"]).sum()


def attention_arguments():
    *qkv, out, up, down, x = arrays(*[(8, 2, 4)] * 3, (2, 4, 8), (8, 32), (32, 8), (2, 16, 8))
    return {"qkv": qkv, "out": out, "up": up, "down": down}, x


def own_gradients(w, x):
    for _ in range(3):
        x = clipped(jax.nn.softplus(x @ w)) + jax.nn.relu(x)
    return jax.nn.logsumexp(x)


@jax.custom_vjp
def clipped(x):
    return jnp.sin(x)


def clipped_forward(x):
    return jnp.sin(x), jnp.cos(x)


def clipped_backward(cosine, gradient):
    return (jnp.clip(gradient * cosine, -0.5, 0.5),)


clipped.defvjp(clipped_forward, clipped_backward)


def loops(w, x):
    states, _ = jax.lax.scan(lambda state, row: (jnp.tanh(state @ w + row), None), x, jnp.stack([x, x]))
    rounds = jax.lax.while_loop(lambda n: n < 3, lambda n: n + 1, 0)
    return jax.lax.cond(rounds > 2, jnp.sin, jnp.cos, jnp.tanh(states @ w)).sum()


def dropout(key, w, x):
    for part in jax.random.split(key, 3):
        x = jnp.tanh(x @ w) * jax.random.bernoulli(part, 0.5, x.shape)
    return x.sum()


CASES = {
    "mlp": (jax.value_and_grad(mlp), mlp_arguments()),
    "attention": (jax.value_and_grad(attention), attention_arguments()),
    "own gradients": (jax.value_and_grad(own_gradients), arrays((16, 16), (32, 16))),
    "dropout": (jax.value_and_grad(dropout, argnums=1), (jax.random.key(0), *arrays((16, 16), (32, 16)))),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    f, args = CASES[request.param]
    return f, args, capture(f, *args)


def same(found, expected):
    """Whether both have the same structure and the same bits."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return all(a.dtype == b.dtype and np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


# plans that are run


@pytest.mark.parametrize("budget", BUDGETS)
def test_results_are_equal_bit_for_bit_and_live_bytes_are_the_predicted_ones(case, budget):
    f, args, captured = case
    with jax.disable_jit():
        expected = f(*args)
    plan, live = solve(captured.graph, budget, effort="fast"), []
    assert same(run(captured, plan, *args, live=live), expected)
    assert live == plan.simulation.memory_trace.tolist()


def test_no_array_outlives_what_the_plan_frees():
    """All arrays of JAX are counted, not those alone of which `run` knows."""

    class Count(list):
        def append(self, n_bytes):
            super().append((n_bytes, sum(array.nbytes for array in jax.live_arrays())))

    f, args = CASES["mlp"]
    captured = capture(f, *args)
    plan = solve(captured.graph, "least", solver="chen_greedy")
    run(captured, plan, *args)  # compiles, which may leave constants
    before, counts = sum(array.nbytes for array in jax.live_arrays()), Count()
    run(captured, plan, *args, live=counts)
    assert plan.extra_runs
    assert [everything - before for _, everything in counts] == [live for live, _ in counts]


@pytest.mark.parametrize("budget", ["100%", "least"])
def test_loops_and_branches_are_one_node_each(budget):
    args = arrays((8, 8), (4, 8))
    captured = capture(jax.value_and_grad(loops), *args)
    assert {"scan", "while", "cond"} <= set(captured.graph.labels.ops)
    closed = jax.make_jaxpr(jax.value_and_grad(loops))(*args)
    loss, gradient = jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *args)
    plan, live = solve(captured.graph, budget, effort="fast"), []
    assert same(run(captured, plan, *args, live=live), (loss, gradient))
    assert live == plan.simulation.memory_trace.tolist()


def test_a_function_may_return_what_it_was_given():
    x, constant = arrays((4,), (2,))
    captured = capture(lambda x: {"same": x, "new": (x + 1, 2.0), "constant": constant}, x)
    found = run(captured, solve(captured.graph), x)
    assert same(found, {"same": x, "new": (x + 1, jnp.asarray(2.0)), "constant": constant})


def test_effects_happen_once_and_in_their_order(capsys):
    def noisy(x):
        y = jnp.sin(x)
        jax.debug.print("first {}", y, ordered=True)
        z = jnp.tanh(jnp.cos(y))
        jax.debug.print("second {}", z, ordered=True)
        return (y * z).sum()

    x = jnp.zeros(())
    captured = capture(jax.value_and_grad(noisy), x)
    run(captured, solve(captured.graph, "least"), x)
    jax.effects_barrier()
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["first", "second"]
    assert captured.graph.once.sum() == 2
    assert captured.graph.memory[captured.graph.output].tolist().count(0) == 2


# graphs


def test_sizes_are_those_of_a_graph_made_by_hand():
    def loss(w, x):
        return jnp.tanh(x @ w).sum()

    graph = capture(jax.grad(loss), *arrays((8, 2), (4, 8))).graph
    sizes = {name: int(graph.memory[v]) for v, name in enumerate(graph.node_names())}
    hidden = 4 * 2 * 4
    assert sizes == {
        "dot_general.0": hidden,
        "tanh.0": hidden,
        "sub.0": hidden,
        "broadcast_in_dim.0": hidden,
        "mul.0": hidden,
        "mul.1": hidden,
        "add_any.0": hidden,
        "dot_general.1": 2 * 8 * 4,
        "transpose.0": 8 * 2 * 4,
    }
    assert graph.resident_names == ("args[0]", "args[1]")
    assert graph.resident.memory.tolist() == [8 * 2 * 4, 4 * 8 * 4]
    assert [graph.labels[v] for v in np.flatnonzero(graph.forward)] == ["dot_general.0", "tanh.0", "sub.0"]
    assert [graph.value_name(x) for x in np.flatnonzero(graph.output)] == ["transpose.0"]


def test_flops_are_those_of_products_and_convolutions():
    def products(a, b, image, kernel):
        moved = jax.lax.conv_general_dilated(image, kernel, (1, 1), "SAME", feature_group_count=2)
        looped, _ = jax.lax.scan(lambda x, _: (x @ b, None), a, None, length=5)
        return a @ b, moved, looped, jnp.sin(a)

    args = arrays((4, 8), (8, 8), (2, 6, 10, 10), (4, 3, 3, 3))
    graph = capture(products, *args, cost="flops").graph
    flops = dict(zip(graph.labels.ops, graph.compute.tolist(), strict=True))
    product = 2 * 4 * 8 * 8
    convolution = 2 * (2 * 4 * 10 * 10) * 3 * 3 * 3
    assert flops == {"dot_general": product, "conv_general_dilated": convolution, "scan": 5 * product, "sin": 0}
    assert graph.labels.compute_unit == "FLOPs"


def test_a_cost_may_be_a_function_of_flops_and_bytes():
    graph = capture(lambda a, b: a @ b, *arrays((4, 8), (8, 2)), cost=lambda flops, moved: flops + moved).graph
    assert graph.compute.tolist() == [2 * 4 * 8 * 2 + 4 * (4 * 8 + 8 * 2 + 4 * 2)]
    assert graph.labels.compute_unit == "ns"


def test_equal_equations_are_one_and_dead_ones_are_left_out():
    def f(x):
        unused = jnp.cos(x)  # noqa: F841
        return jnp.sin(x) + jnp.sin(x) * jax.jit(jnp.sin)(x)

    assert capture(f, jnp.ones(3)).graph.labels.ops == ("sin", "mul", "add")


def test_numbers_that_only_compare_equal_are_not_one():
    def f(x):
        return jnp.array([jnp.arctan2(x, 0.0), jnp.arctan2(x, -0.0)])

    captured = capture(f, -jnp.ones(()))
    plan = solve(captured.graph)
    assert same(run(captured, plan, -jnp.zeros(())), jax.jit(f)(-jnp.zeros(())))
    assert captured.graph.labels.ops.count("atan2") == 2


def test_what_a_user_checkpoints_is_planned_like_all_else():
    args = arrays((16, 16), (32, 16))

    def f(w, x):
        return jnp.tanh(jnp.tanh(x @ w) @ w).sum()

    plain, rematerialized = (capture(jax.grad(g), *args).graph for g in (f, jax.checkpoint(f)))
    assert sorted(plain.labels.ops) == sorted(rematerialized.labels.ops)


def test_the_graph_can_be_saved_and_read(tmp_path):
    captured = capture(*flat_case("mlp"))
    captured.save(tmp_path / "mlp.json")
    assert read_graph(tmp_path / "mlp.json").hash == captured.graph.hash


def test_the_report_counts_equations_and_bytes():
    captured = capture(*flat_case("mlp"))
    assert f"{captured.graph.n_nodes} (" not in captured.report()
    assert "forward" in captured.report()
    assert "without rematerialization" in captured.report()
    assert repr(captured).startswith("<CapturedFunction: ")


def flat_case(name):
    f, args = CASES[name]
    return f, *args


def test_a_gradient_belongs_to_the_node_that_read_its_input():
    def loss(w, x):
        return jnp.sin(x @ w).sum()

    graph = capture(jax.grad(loss), *arrays((8, 2), (4, 8))).graph
    owners = {graph.labels[v]: graph.labels[int(graph.forward_of[v])] for v in np.flatnonzero(~graph.forward)}
    assert owners["mul.0"] == "cos.0"
    assert owners["transpose.0"] in ("dot_general.0", "cos.0")


# policies


def computed(f, *args):
    """The results of a function, equation by equation."""
    captured = capture(f, *args)
    return run(captured, solve(captured.graph, "100%", solver="no_remat"), *args)


def residual_names(f, *args):
    """Names of the residuals that JAX lists; arguments are not counted, others are a fault."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        ad_checkpoint.print_saved_residuals(f, *args)
    lines = [line for line in printed.getvalue().splitlines() if "from the argument" not in line]
    found = [re.search(r"named '([^']+)'", line) for line in lines]
    assert None not in found, lines
    return {match[1] for match in found}


APPLIED = {
    "mlp": (mlp, jax.value_and_grad, mlp_arguments()),
    "attention": (attention, jax.value_and_grad, attention_arguments()),
    "own gradients": (own_gradients, partial(jax.value_and_grad, argnums=(0, 1)), arrays((16, 16), (32, 16))),
    "loops": (loops, jax.value_and_grad, arrays((8, 8), (4, 8))),
}


@pytest.mark.parametrize(
    ("name", "budget"), [(name, budget) for name in APPLIED for budget in BUDGETS if (name, budget) != ("loops", "60%")]
)
@pytest.mark.parametrize("remat3", [False, True])
def test_a_policy_changes_no_gradient_and_saves_no_more_than_the_plan(name, budget, remat3, monkeypatch):
    if remat3 and "jax_remat3" not in jax.config.values:
        pytest.skip("this JAX has no flag jax_remat3")
    f, transform, args = APPLIED[name]
    captured = capture(transform(f), *args)
    plan = solve(captured.graph, budget, effort="fast")
    with contextlib.ExitStack() as stack:
        if remat3:
            stack.callback(jax.config.update, "jax_remat3", jax.config.values["jax_remat3"])
            jax.config.update("jax_remat3", True)
        applied = apply(f, plan, *args, transform=transform)
        assert same(computed(transform(applied), *args), computed(transform(f), *args))
        found, expected = (jax.jit(transform(g))(*args) for g in (applied, f))
        saved = residual_names(applied, *args)
    assert len(saved) <= len(plan.saved)
    if name == "own gradients":  # XLA fuses the two in different ways, and rounds otherwise
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    else:
        assert same(found, expected)


def test_a_policy_names_values_that_the_plan_keeps():
    def f(w, x):
        x = ad_checkpoint.checkpoint_name(jnp.tanh(x @ w), "first")
        x = ad_checkpoint.checkpoint_name(jnp.tanh(x @ w), "second")
        return ad_checkpoint.checkpoint_name(x, "again").sum()

    args = arrays((16, 16), (32, 16))
    captured = capture(jax.grad(f), *args)
    plan = solve(captured.graph, "100%")
    kept = {captured.graph.value_name(value) for value, _ in plan.saved}
    assert set(names(captured, plan)) == {
        name for value, name in (("tanh.0", "first"), ("tanh.1", "second"), ("tanh.1", "again")) if value in kept
    }
    assert "first" in names(captured, plan)
    policy = jax.checkpoint_policies.save_only_these_names(*names(captured, plan))
    assert residual_names(jax.checkpoint(f, policy=policy), *args) <= set(names(captured, plan))


# bad input


def test_other_arguments_than_captured_are_refused():
    w, x = arrays((8, 2), (4, 8))
    captured = capture(lambda w, x: {"y": x @ w}, w, x)
    plan = solve(captured.graph)
    with pytest.raises(TypeError, match=r"args\[1\] is float32\[5, 8\], captured as float32\[4, 8\]; capture again"):
        run(captured, plan, w, jnp.ones((5, 8)))
    with pytest.raises(TypeError, match=r"args\[0\] is int32\[8, 2\], captured as float32\[8, 2\]"):
        run(captured, plan, jnp.ones((8, 2), jnp.int32), x)
    with pytest.raises(TypeError, match=r"the arguments are nested as .*, captured as .*; capture again"):
        run(captured, plan, w)


def test_a_plan_for_another_graph_is_refused():
    w, x = arrays((8, 2), (4, 8))
    captured, other = (capture(f, w, x) for f in (lambda w, x: x @ w, lambda w, x: jnp.sin(x @ w)))
    for use in (partial(run, captured), partial(names, captured)):
        with pytest.raises(GraphError, match="the plan is for another graph: it has 2 nodes, this one 1; solve"):
            use(solve(other.graph), *((w, x) if use.func is run else ()))
    with pytest.raises(GraphError, match="the plan is for another graph"):
        apply(lambda w, x: (x @ w).sum(), solve(other.graph), w, x)


def test_what_is_no_plan_or_no_function_is_refused():
    w, x = arrays((8, 2), (4, 8))
    captured = capture(lambda w, x: x @ w, w, x)
    with pytest.raises(TypeError, match=r"plan is a Schedule; give a Plan"):
        run(captured, solve(captured.graph).schedule, w, x)
    with pytest.raises(TypeError, match="f is 3; give a function"):
        capture(3, x)
    with pytest.raises(GraphError, match="the function computes nothing"):
        capture(lambda x: x, x)
    with pytest.raises(GraphError, match="cost"):
        capture(jnp.sin, x, cost="dollars")
