"""Plan a transformer of JAX that scans over its layers: what each iteration saves for its gradient.

You learn to give `plan_scans` a budget, to read what the plan predicts, and to compare that with the stacks
that JAX saves and with what XLA reserves.

Usage: python examples/jax_scan.py    (needs JAX: python -m pip install 'remat_algos[jax]')
"""

import jax
import jax.numpy as jnp

from remat_algos.interop.jax import capture, plan_scans

LAYERS, WIDTH, HEADS, TOKENS = 12, 64, 4, 128


def normalize(x):
    centered = x - x.mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt((centered**2).mean(-1, keepdims=True) + 1e-5)


def block(x, layer):
    q, k, v = jnp.einsum("td,cdhe->chte", normalize(x), layer["qkv"])
    weights = jax.nn.softmax(q @ k.swapaxes(-1, -2) / (WIDTH // HEADS) ** 0.5)
    x = x + jnp.einsum("hte,hed->td", weights @ v, layer["out"])
    return x + jax.nn.gelu(normalize(x) @ layer["up"]) @ layer["down"], None


def loss(layers, x):
    return jnp.mean(jax.lax.scan(block, x, layers)[0] ** 2)


def compiled(f):
    return jax.jit(jax.value_and_grad(f)).lower(layers, x).compile()


def temporary_bytes(step):
    """What XLA reserves beside arguments and results."""
    return step.memory_analysis().temp_size_in_bytes


shapes = {"qkv": (3, WIDTH, HEADS, WIDTH // HEADS), "out": (HEADS, WIDTH // HEADS, WIDTH)}
shapes |= {"up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
*keys, key = jax.random.split(jax.random.key(0), len(shapes) + 1)
layers = {name: jax.random.normal(k, (LAYERS, *shapes[name])) / 8 for name, k in zip(shapes, keys, strict=True)}
x = jax.random.normal(key, (TOKENS, WIDTH))
plain = compiled(loss)
expected = plain(layers, x)
one_pass = capture(jax.value_and_grad(loss), layers, x).graph.needed_compute
print(f"by XLA without a plan: {temporary_bytes(plain):,} bytes beside arguments and results")
for budget in ("50%", "25%"):
    planned, captured, plan = plan_scans(loss, budget, layers, x, effort="fast")
    step = compiled(planned)
    pairs = zip(jax.tree.leaves(step(layers, x)), jax.tree.leaves(expected), strict=True)
    apart = max(float(jnp.abs(a - b).max() / jnp.abs(b).max()) for a, b in pairs)
    print(f"{budget}: peak {plan.peak_memory:,} bytes, ", end="")
    print(f"{100 * (plan.simulation.compute / one_pass - 1):.1f} % more compute; ", end="")
    print(f"by XLA {temporary_bytes(step):,} bytes, gradients within {apart:.0e}")
