"""Operators of your own: a framework's tape, run by our plan in the framework's own arithmetic.

You learn to say what the nodes of your graph do (`framework/bridge.py` is yours to copy), and see
that within half the bytes, and in one arena, loss and gradients are the same bit for bit. The
picture shows the bytes at each step.

Usage: python examples/9_own_operators.py [FOLDER for the picture]
"""

import sys
from pathlib import Path

from framework.bridge import TapeOperators, graph_of
from framework.tape import perceptron

import remat_algos as ra

FOLDER = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1] / "docs" / "figures"
tape, inputs = perceptron(layers=12)
graph, operators = graph_of(tape, inputs), TapeOperators(tape, inputs)
eager = []  # as the framework does it: everything is kept
for op in tape:
    eager.append(op.function(*(eager[v] for v in op.reads), *(inputs[name] for name in op.inputs)))


def check(outputs):
    """Loss and gradients are those of the framework, bit for bit."""
    assert all(array.tobytes() == eager[value].tobytes() for value, array in outputs.items())


for budget in ("100%", "50%"):
    plan = ra.solve(graph, budget)
    run = ra.execute(graph, plan, operators, outputs=True)
    check(run.outputs)
    assert run.peak_raw == plan.peak_memory
    over = ra.allocate.find_overwrites(plan.simulation, {"Tanh": 0, "grad(Tanh)": 0})
    arena = ra.allocate.pack(ra.allocate.Buffers.of(plan.simulation, over), alignment=512)
    packed = ra.execute(graph, plan, operators, arena, outputs=True)
    check(packed.outputs)
    again = (run.runs - 1).sum()
    print(f"{budget}: {run.peak_raw:,} bytes, {again} extra runs, arena {arena.size:,}")

found = ra.validate(graph, plan, operators=operators, arena=True, repeats=0)
assert found.holds  # bytes at each step, and every value
ra.plot.save(ra.plot.validation(found), FOLDER / "own_operators.svg")
