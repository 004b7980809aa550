"""Train a small residual network with plans that rematerialize, on NumPy.

You learn to run real layers by a schedule, and see that losses and parameters are the same bit for
bit under every plan, and that the measured bytes are the predicted ones.

Usage: python examples/8_train_a_network.py [FOLDER for the picture]
"""

import sys
from pathlib import Path

from layers.training import train
from matplotlib.figure import Figure

import remat_algos as ra

FOLDER = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1] / "docs" / "figures"
STEPS = 6

network = ra.zoo.build("resnet20", batch=8, image=16, width=4)
training = ra.differentiate(network.graph, parameter_gradients=True)
plans = {budget: ra.solve(training, budget, effort="fast") for budget in ("100%", "70%", "least")}
plain = train(network, steps=STEPS)

axes = Figure(figsize=(10, 4)).subplots()
for (budget, plan), colour in zip(plans.items(), ("#8C8C8C", "#0072B2", "#E69F00"), strict=True):
    run = train(network, plan, steps=STEPS)
    execution = run.execution
    assert run.same_as(plain)  # losses and parameters, every bit
    assert execution.peak_raw == plan.peak_memory  # as predicted
    recomputed = int((execution.runs - 1).clip(0).sum())
    losses = " ".join(f"{loss:.3f}" for loss in run.losses)
    print(f"{budget}: {execution.peak_raw:,} bytes, {recomputed} recomputed, loss {losses}")
    used, name = execution.used_raw / 2**20, f"a budget of {budget}"
    axes.stairs(used, baseline=None, color=colour, linewidth=1.8, label=name)
lowest = plans["least"].peak_memory / plans["100%"].peak_memory
axes.set_title(f"The same losses and parameters in {100 * lowest:.0f} % of the memory", loc="left")
axes.set(xlabel="step", ylabel="live memory (MiB)", ylim=(0, None))
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)
ra.plot.save(axes, FOLDER / "training.svg")
