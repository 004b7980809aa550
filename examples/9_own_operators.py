"""Operators of your own: a framework's tape, run by a plan with the framework's own functions.

You learn to connect the nodes of a graph to functions (copy `framework/bridge.py`), and see that
in half of the memory, also in one arena, loss and gradients are the same bit for bit. The picture
shows the bytes at each step.

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
eager = []  # the framework keeps everything
for op in tape:
    eager.append(op.function(*(eager[v] for v in op.reads), *(inputs[name] for name in op.inputs)))


def check(outputs):
    """Compare loss and gradients with those of the framework, bit for bit."""
    assert all(array.tobytes() == eager[value].tobytes() for value, array in outputs.items())


for budget in ("100%", "50%"):
    plan = ra.solve(graph, budget)
    run = ra.execute(graph, plan, operators, outputs=True)
    check(run.outputs)
    assert run.peak_raw == plan.peak_memory
    overwrites = ra.allocate.find_overwrites(plan.simulation, {"Tanh": 0, "grad(Tanh)": 0})
    arena = ra.allocate.pack(ra.allocate.Buffers.of(plan.simulation, overwrites), alignment=512)
    packed = ra.execute(graph, plan, operators, arena, outputs=True)
    check(packed.outputs)
    recomputed = (run.runs - 1).sum()
    print(f"{budget}: {run.peak_raw:,} bytes, {recomputed} extra runs, arena {arena.size:,}")

validation = ra.validate(graph, plan, operators=operators, arena=True, repeats=0)
assert validation.holds  # bytes at each step, and every value
ra.plot.save(ra.plot.validation(validation), FOLDER / "own_operators.svg")
