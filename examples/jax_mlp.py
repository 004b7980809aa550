"""Plan a training step of JAX: a network of eight layers within 60 % of its memory, and less.

You learn to capture the graph of a JAX function, to run a plan equation by equation with the
same gradients bit for bit, and to hand the plan to `jax.jit` as a policy of `jax.checkpoint`.

Usage: python examples/jax_mlp.py    (needs JAX: python -m pip install -e '.[jax]')
"""

import jax
import jax.numpy as jnp

import remat_algos as ra
from remat_algos.interop.jax import apply, capture, run

LAYERS, WIDTH, BATCH = 8, 256, 1024


def loss(weights, x):
    for w in weights:
        x = jnp.tanh(x @ w)
    return jnp.mean(x**2)


def temporary_bytes(f):
    """Return the bytes that XLA reserves in addition to arguments and results."""
    return jax.jit(f).lower(weights, x).compile().memory_analysis().temp_size_in_bytes


*keys, key = jax.random.split(jax.random.key(0), LAYERS + 1)
weights = [jax.random.normal(k, (WIDTH, WIDTH)) / 16 for k in keys]
x = jax.random.normal(key, (BATCH, WIDTH))
step = jax.value_and_grad(loss)
captured = capture(step, weights, x)
print(captured)
expected = step(weights, x)
print(f"compiled by XLA: {temporary_bytes(step):,} bytes beside arguments and results")
for budget in ("100%", "60%", "least"):
    plan, live = ra.solve(captured.graph, budget, effort="fast"), []
    result = run(captured, plan, weights, x, live=live)
    assert jax.tree.all(jax.tree.map(jnp.array_equal, result, expected))  # every bit
    assert max(live) == plan.peak_memory  # as predicted
    share = 100 * plan.overhead / captured.graph.needed_compute
    print(f"{budget}: {max(live):,} bytes live, {share:.1f} % more compute; ", end="")
    remat = jax.value_and_grad(apply(loss, plan, weights, x))
    print(f"by jax.checkpoint {temporary_bytes(remat):,} bytes, {len(plan.saved)} values saved")
