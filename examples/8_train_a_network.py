"""Train a network by a plan that rematerializes: a small residual network, computed on NumPy.

You learn to run real layers by a schedule, to see that losses and parameters are the same bit for
bit whatever is recomputed, and that the measured bytes are the predicted ones.

Usage: python examples/8_train_a_network.py [FOLDER for the picture]
"""

import sys
from pathlib import Path

from matplotlib.figure import Figure

import remat_algos as ra
from remat_algos.executor.training import train

FOLDER = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1] / "docs" / "figures"
STEPS = 6

network = ra.models.build("resnet20", batch=8, image=16, width=4)
training = ra.differentiate(network.graph, parameter_gradients=True)
plans = {budget: ra.solve(training, budget) for budget in ("100%", "70%", "least")}
plain = train(network, steps=STEPS)

axes = Figure(figsize=(6, 3)).subplots()
for budget, plan in plans.items():
    run = train(network, plan, steps=STEPS)
    held = run.execution
    assert run.same_as(plain)  # every bit of every loss and parameter
    assert held.peak_raw == plan.peak_memory  # as predicted
    again = int((held.runs - 1).clip(0).sum())
    losses = " ".join(f"{loss:.3f}" for loss in run.losses)
    print(f"{budget}: {held.peak_raw:,} bytes, {again} recomputed, loss {losses}")
    axes.plot(held.used_raw / 2**20, label=f"a budget of {budget}", drawstyle="steps-mid")
axes.set_xlabel("step")
axes.set_ylabel("live memory (MiB)")
axes.legend()
ra.plot.save(axes, FOLDER / "training.svg")
