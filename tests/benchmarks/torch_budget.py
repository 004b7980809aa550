"""Plans of `effort="fast"` against torch's own planner, `activation_memory_budget`, on the same joint graphs.

`python -m tests.benchmarks.torch_budget` writes docs/results/torch_budget.json, its figure, and the graphs in
tests/golden/torch; with names of models it only prints. torch plans by dynamic programming with our costs as its
estimator; its forward and backward module become a schedule of our graph, and one simulator measures both. torch's
planner assumes fusion, where pointwise operators cost nothing; nothing is fused here.
"""

import contextlib
import json
import statistics
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch._functorch import config
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.custom_graph_pass import CustomRuntimeEstimator

import remat_algos as ra
from remat_algos.interop.torch.capture_model import read_joint_graph, tidy
from remat_algos.interop.torch.costs import price
from remat_algos.interop.torch.lowering import split
from remat_algos.interop.torch.private_names import export_joint
from remat_algos.interop.torch.private_names import n_forward as n_forward_of
from tests.benchmarks.occasion import RESULTS, Occasion
from tests.interop.torch_models import MODELS, make

BUDGETS = (1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0)
DOCS = Path(__file__).resolve().parents[2] / "docs"
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "torch"
REPEATS = 3


class Costs(CustomRuntimeEstimator):
    """Our costs of nodes by name, views being free."""

    def __init__(self, costs):
        self.costs = costs

    def __call__(self, node):
        return self.costs.get(node.name, 0)

    def uuid(self):
        return None


def timed(call):
    """What a call returns, and the median of its CPU seconds over three runs."""
    seconds = []
    for _ in range(REPEATS):
        start = time.process_time()
        result = call()
        seconds.append(time.process_time() - start)
    return result, statistics.median(seconds)


def torch_partition(joint, n_forward, share, costs):
    """torch's forward and backward module for a share of the saved bytes."""
    with config.patch(
        activation_memory_budget=share,
        activation_memory_budget_solver="dp",
        activation_memory_budget_runtime_estimator=Costs(costs),
    ):
        return min_cut_rematerialization_partition(joint, None, num_fwd_outputs=n_forward)


def places(model):
    """Node of our graph by the name that torch's graph has for its operator."""
    return {operator.name: v for v, operator in enumerate(model.operators) if operator is not None}


def schedule_of(model, modules):
    """The runs of two modules as a schedule of our graph; what must run once is kept where torch would run it again."""
    graph, place = model.graph, places(model)
    state = {op.meta["draw"].name: v for v, op in enumerate(model.operators) if op is not None and "draw" in op.meta}
    order, seen = [], set()

    def run(v):
        if v not in seen or not graph.once[v]:
            seen.add(v)
            order.append(v)

    for part, module in enumerate(modules):
        for node in module.graph.nodes:
            if node.name in state:
                run(state[node.name])
            if node.op == "call_function" and node.name in place:
                run(place[node.name])
        if not part:
            run(model.boundary)
    return order


def checkpointed(model):
    """What torch.utils.checkpoint around each block of the GPT runs: of a block only its input is saved."""
    graph = model.graph
    adds = [v for v, op in enumerate(model.operators) if op is not None and op.target is torch.ops.aten.add.Tensor]
    ends = [v for v in adds if graph.forward[v] and graph.node_memory[v] == graph.node_memory[adds[0]]][::2]
    kept = [v in ends or not ends[0] < v < ends[-1] for v in range(graph.n_nodes)]
    return ra.schedule.checkpoint_schedule(graph, kept)


def pareto(points):
    """Those that no other one beats in both, peaks falling."""
    return sorted(
        {p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)}, reverse=True
    )


def row(name):
    """The captured model; points of torch, and ours at the same peaks."""
    net, inputs = make(name)
    with contextlib.ExitStack() as stack:
        exported = export_joint(stack, net, tuple(inputs), {})
        joint = exported.graph_module
        n_forward = n_forward_of(joint.graph.output_node().meta["desc"])
        counted = partial(price, cost="roofline", workspace=False)
        model, capturing = timed(lambda: read_joint_graph(tidy(joint, True), n_forward, counted))
        graph = model.graph
        base = ra.simulate(graph, range(graph.n_nodes)).peak_memory
        costs = {name: int(graph.compute[v]) for name, v in places(model).items()}
        plain = tidy(joint, False)
        points, torch_seconds = [], []
        for share in BUDGETS:
            modules, seconds = timed(lambda share=share: torch_partition(plain, n_forward, share, costs))
            simulation = ra.simulate(graph, schedule_of(model, modules))
            torch_seconds.append(seconds)
            points.append((simulation.peak_memory, simulation.compute))
        ours, our_seconds = [], []
        best = pareto(points)
        for peak, _ in best:
            plan, seconds = timed(lambda peak=peak: ra.solve(graph, peak, effort="fast"))
            our_seconds.append(seconds)
            ours.append((plan.peak_memory, plan.simulation.compute, plan.method))
        _, lowering = timed(lambda: split(model, plan.simulation))
        least = ra.solve(graph, "least", effort="fast").peak_memory
        blocks = checkpointing(model) if name == "gpt" else None
    one_pass = graph.needed_compute
    ratios = [(c - one_pass) / (t - one_pass) for (_, t), (_, c, _) in zip(best, ours, strict=True) if t > one_pass]
    return model, {
        "nodes": graph.n_nodes,
        "base": base,
        "one_pass": one_pass,
        "torch": points,
        "torch_best": best,
        "ours": ours,
        "least": least,
        "blocks": blocks,
        "never_above": all(c <= t for (_, t), (_, c, _) in zip(best, ours, strict=True)),
        "mean_ratio": statistics.geometric_mean([max(r, 1e-3) for r in ratios]) if ratios else None,
        "seconds": {"torch": torch_seconds, "ours": our_seconds, "capture": capturing, "lowering": lowering},
    }


def checkpointing(model):
    """Peak and compute of checkpointed blocks, our compute at that peak, and our peak at that compute."""
    graph = model.graph
    theirs = ra.simulate(graph, checkpointed(model))
    ours = ra.solve(graph, theirs.peak_memory, effort="fast").simulation.compute
    peak = ra.solve(graph, ra.Budget(overhead=theirs.overhead), effort="fast").peak_memory
    return {"peak": theirs.peak_memory, "compute": theirs.compute, "our_compute": ours, "our_peak": peak}


def draw(rows):
    """Overhead over the share of the peak, a panel for each model."""
    height = -(-len(rows) // 3)
    figure, grid = plt.subplots(height, 3, figsize=(9.6, 2.8 * height), squeeze=False, layout="constrained")
    for axes in grid.flat[len(rows) :]:
        axes.remove()
    for axes, (name, found) in zip(grid.flat, rows.items(), strict=False):
        base, one_pass = found["base"], found["one_pass"]
        for label, points, style in (("torch", found["torch_best"], "o-"), ("remat_algos", found["ours"], "s-")):
            shares = [100 * p[0] / base for p in points]
            axes.plot(shares, [100 * (p[1] / one_pass - 1) for p in points], style, label=label, markersize=4)
        axes.set(title=name, xlabel="peak, % of one pass", ylabel="more compute, %")
    grid[0][0].legend()
    ra.plot.save(figure, DOCS / "figures" / "torch_budget.svg")


def main(names):
    """Measure, print and write."""
    measured_on, rows = Occasion.now().record("python -m tests.benchmarks.torch_budget"), {}
    for name in names or MODELS:
        warnings.simplefilter("ignore")
        model, rows[name] = row(name)
        if not names:
            GOLDEN.mkdir(exist_ok=True)
            model.save(GOLDEN / f"{name}.npz")
        found = rows[name]
        one_pass, base = found["one_pass"], found["base"]
        for (peak, theirs), (_, ours, method) in zip(found["torch_best"], found["ours"], strict=True):
            print(f"{name} {peak / base:.3f}: torch {theirs / one_pass:.3f}, ours {ours / one_pass:.3f} by {method}")
        if found["blocks"]:
            peak, compute, our_compute, our_peak = found["blocks"].values()
            print(f"{name}, blocks checkpointed: {peak / base:.3f} at {compute / one_pass:.3f};", end=" ")
            print(f"ours {our_compute / one_pass:.3f} at that peak, {our_peak / base:.3f} at that compute")
        seconds = found["seconds"]
        spans = [f"{min(seconds[who]):.2f} to {max(seconds[who]):.2f}" for who in ("torch", "ours")]
        print(
            f"{name}: {found['nodes']} nodes, never above {found['never_above']}, mean ratio {found['mean_ratio']:.2f},"
        )
        print(f"  least {found['least'] / base:.3f}; CPU s of torch {spans[0]}, ours {spans[1]},", end=" ")
        print(f"capture {seconds['capture']:.2f}, lowering {seconds['lowering']:.2f}", flush=True)
    if not names:
        (RESULTS / "torch_budget.json").write_text(json.dumps({"measured_on": measured_on} | rows, indent=1) + "\n")
        draw(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
