"""Plan which values a JAX scan saves: a transformer that scans over its layers.

Usage: python examples/jax_scan.py    (needs JAX: python -m pip install -e '.[jax]')
"""

import jax
import jax.numpy as jnp

from remat_algos.interop.jax import capture, plan_scans

LAYERS, WIDTH, HEADS, EACH, TOKENS = 12, 64, 4, 16, 128
SHAPES = {"qkv": (3, WIDTH, HEADS, EACH), "out": (HEADS, EACH, WIDTH)}
SHAPES |= {"up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}


def block(x, layer):
    q, k, v = jnp.einsum("td,cdhe->chte", jax.nn.standardize(x), layer["qkv"])
    weights = jax.nn.softmax(q @ k.swapaxes(-1, -2) / EACH**0.5)
    x = x + jnp.einsum("hte,hed->td", weights @ v, layer["out"])
    return x + jax.nn.gelu(jax.nn.standardize(x) @ layer["up"]) @ layer["down"], None


def loss(layers, x):
    return jnp.mean(jax.lax.scan(block, x, layers)[0] ** 2)


def compiled(f):
    """Return the gradient, and the bytes that XLA reserves in addition to arguments and results."""
    step = jax.jit(jax.value_and_grad(f)).lower(layers, x).compile()
    return jax.tree.leaves(step(layers, x)), step.memory_analysis().temp_size_in_bytes


key = jax.random.key(0)
layers = {name: jax.random.normal(key, (LAYERS, *shape)) / 8 for name, shape in SHAPES.items()}
x = jax.random.normal(key, (TOKENS, WIDTH))
one_pass = capture(jax.value_and_grad(loss), layers, x).graph.needed_compute
expected, reserved = compiled(loss)
print(f"without a plan: by XLA {reserved:,} bytes")
for budget in ("50%", "25%"):
    planned, captured, plan = plan_scans(loss, budget, layers, x, effort="fast")
    result, reserved = compiled(planned)
    difference = max(abs(a - b).max() / abs(b).max() for a, b in zip(result, expected, strict=True))
    more = 100 * (plan.simulation.compute / one_pass - 1)
    print(f"{budget}: peak {plan.peak_memory:,} bytes, {more:.1f} % more compute; ", end="")
    print(f"by XLA {reserved:,} bytes, gradients within {difference:.0e}")
