"""Solvers and budgets: an LSTM planned by every solver, then for every budget.

You learn to compare the solvers at one budget, and to take the best plan for a budget from the
frontier of peak and overhead. The picture shows the frontier of each solver.

Usage: python examples/3_compare_and_frontier.py [FOLDER for the picture]
"""

import sys
from pathlib import Path

import remat_algos as ra

HERE = Path(__file__).parent
FOLDER = Path(sys.argv[1]) if sys.argv[1:] else HERE.parent / "docs" / "figures"
MIB = 2**20

training = ra.differentiate(ra.read_graph(HERE / "graphs" / "lstm.nodes.csv"))
one_pass = training.needed_compute

for entry in ra.compare(training, "70%").entries:
    if entry.reached is not None:
        print(f"{entry.solver:>16}: {entry.reached / MIB:.2f} MiB, above the budget")
    elif entry.plan is None:
        print(f"{entry.solver:>16}: {entry.reason}")
    else:
        peak, overhead = entry.plan.peak_memory / MIB, entry.plan.overhead / one_pass
        print(f"{entry.solver:>16}: {peak:.2f} MiB, {overhead:.1%} overhead")

frontier = ra.frontier(training)
least, bound = frontier.plans[0].peak_memory / MIB, frontier.bound_memory / MIB
print(f"{len(frontier.plans)} Pareto-optimal plans, from {least:.2f} MiB up")
print(f"lower bound {bound:.2f} MiB")
for budget in ("95%", "85%", "75%", "65%"):
    plan = frontier.best(budget)
    print(f"{budget}: {plan.overhead / one_pass:.1%} overhead, by {plan.method}")

ra.plot.save(ra.plot.frontier(frontier), FOLDER / "compare_and_frontier.svg")
