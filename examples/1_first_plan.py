"""A first plan: a U-Net in 70 % of the memory that it needs without rematerialization.

You learn to read a graph, to add its gradients, to plan within a budget and to read the result. The
picture shows the bytes live at each step, and the values at the peak.

Usage: python examples/1_first_plan.py [FOLDER for the picture]
"""

import sys
from pathlib import Path

import remat_algos as ra

HERE = Path(__file__).parent
FOLDER = Path(sys.argv[1]) if sys.argv[1:] else HERE.parent / "docs" / "figures"

forward = ra.read_graph(HERE / "graphs" / "unet.nodes.csv")
training = ra.differentiate(forward)
print(f"{forward.n_nodes} operations; with their gradients {training.n_nodes}")

plan = ra.solve(training, "70%")
print(plan)

runs = plan.simulation.runs
recomputed = [training.labels[v] for v in range(training.n_nodes) if runs[v] > 1]
print(f"recomputed: {', '.join(recomputed[:5])} and {len(recomputed) - 5} more")
print("the order begins with", ", ".join(plan.schedule.names(training)[:3]))

ra.plot.save(ra.plot.memory(plan), FOLDER / "first_plan.svg")
