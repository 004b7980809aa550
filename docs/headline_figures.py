"""The figures that README.md and docs/index.md lead with, measured when this script runs.

Usage: python docs/headline_figures.py [FOLDER for the picture]

It draws docs/figures/before_and_after.svg and writes the part `headlines` of both pages; a test compares them. Takes
about ten seconds.
"""

import re
import sys
from functools import partial
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import remat_algos as ra
from docs.page_parts import fill
from remat_algos.plot.colours import BLUE, GREY, ORANGE, VERMILION
from remat_algos.wording import format_bytes

DOCS = Path(__file__).resolve().parent
PAGES = {DOCS.parent / "README.md": "docs/", DOCS / "index.md": ""}  # and how each refers to pages in docs
GPU, BUDGET = 12 << 30, "11GiB"  # the rest is left to the CUDA context and the allocator
SIZES = [2, 1, 1, 16, 1, 16, 1, 16, 2, 16, 1, 16]
METHODS = ("no_remat", "chen_sqrt", "exact_dp", "greedy_remat")


LINES = """\
One training step of GPT-2 small (batch 8 of 1,024 tokens, float32, Adam), simulated: **{before}** without
recomputation; a plan for **{budget}**, which leaves 1 GiB of the GPU to its driver and the allocator, peaks at
{after} and does **{more}** more floating-point operations. Both peaks include {resident} of parameters and optimizer
states.

- **You train with PyTorch or transformers**:
  [`plan_checkpoints(model, inputs, "50%").apply(model)`]({docs}torch_training.md) sets PyTorch's own checkpoints block
  by block, so that activations and gradients fit in half of their peak, with the same gradients bit for bit. A budget
  of 60 % in `examples/torch_training/checkpoints_loop.py` brings the measured peak from {loop_before} MB to
  {loop_after} MB. `plan_checkpoints` works with FSDP2, DDP, Lightning, accelerate, and the trainers of
  transformers and TRL.
- **You compile your model**: [`torch.compile(model, backend="remat", options={{"budget": "50%"}})`]({docs}torch.md)
  decides for each value whether to keep or recompute it. On four transformer blocks the measured peak of tensor
  storages goes from {torch_before} to {torch_after}, for {torch_more} more compute. `examples/torch_gpt.py`
- **You have a graph**, such as an edge list: the animated U-Net needs {unet_after} of live memory within 50 %, not
  {unet_before}, for {unet_more} more compute. `remat solve examples/graphs/unet.nodes.csv --budget 50%`
- **You write a framework**: when a plan for GPT-2 small (1 x 256 tokens) is executed on NumPy, the bytes in memory are
  as predicted at each of its {steps} steps, and all recomputed values are bit-identical to the originals.
  `remat run 'model:gpt2_small?batch=1&sequence=256' --budget 50%`
- **You come from [JAX]({docs}jax.md) or [ONNX]({docs}onnx.md)**: a function or a model file becomes a graph.
- **You teach** or study the methods: a chain of {layers} layers of unequal size peaks at {no_remat} bytes. The lowest
  peaks are {chen_sqrt} bytes by equal segments, {exact_dp} by dynamic programming over lower sets (`exact_dp`), and
  {greedy_remat} by a greedy search, which no schedule goes below. `python docs/headline_figures.py` computes
  the numbers of this list.
"""


def gib(amount):
    return f"{amount / 2**30:.3g} GiB"


def percent(plan):
    return f"{100 * plan.overhead / plan.graph.needed_compute:.1f} %"


def peak(plan):
    return plan.peak_memory + plan.graph.resident_memory


def network():
    """(without recomputation, within the budget): plans for a training step of GPT-2 small."""
    graph = ra.zoo.build("gpt2_small", batch=8, optimizer="adam").graph
    return ra.solve(graph, solver="no_remat"), ra.solve(graph, ra.Budget(device=BUDGET))


def steps_as_predicted():
    """Steps of a plan that is executed; an error if a byte or a value differs from the prediction."""
    graph = ra.differentiate(ra.zoo.build("gpt2_small", batch=1, sequence=256).graph)
    plan = ra.solve(graph, "50%")
    found = ra.validate(graph, plan, repeats=0)
    if not found.holds:
        raise SystemExit(str(found))
    return len(plan.schedule)


def chain():
    """A chain with gradients, on which equal segments are far from the minimum."""
    edges = [(i, i + 1) for i in range(len(SIZES) - 1)]
    return ra.differentiate(ra.ComputationGraph.from_edges(edges, memory=SIZES))


def torch_figures():
    """Return figures of the last recorded runs of `examples/torch_gpt.py` and `checkpoints_loop.py`."""
    printed = (DOCS / "results" / "torch_gpt.txt").read_text("utf-8")
    before, after = (int(found) for found in re.findall(r"measured Peaks\(storages=(\d+)", printed))
    (more,) = re.findall(r"^overhead +(\S+ %)", printed, re.MULTILINE)
    runtimes = (DOCS / "results" / "torch_runtimes.txt").read_text("utf-8")
    (loop,) = re.findall(r"^\| loop \|.*$", runtimes, re.MULTILINE)
    loop_before, _, loop_after = (cell.strip() for cell in loop.split("|")[4:7])
    return {
        "torch_before": format_bytes(before),
        "torch_after": format_bytes(after),
        "torch_more": more,
        "loop_before": loop_before,
        "loop_after": loop_after,
    }


def block(before, after):
    """The lines of both pages, but for the folder of other pages."""
    unet = ra.read_graph(DOCS.parent / "examples" / "graphs" / "unet.nodes.csv")
    training = ra.differentiate(unet)
    half = ra.solve(training, "50%")
    return partial(
        LINES.format,
        **torch_figures(),
        before=gib(peak(before)),
        budget=BUDGET.replace("GiB", " GiB"),
        after=gib(peak(after)),
        resident=gib(after.graph.resident_memory),
        more=percent(after),
        unet_before=gib(ra.solve(training, solver="no_remat").peak_memory),
        unet_after=gib(half.peak_memory),
        unet_more=percent(half),
        steps=f"{steps_as_predicted():,}",
        layers=len(SIZES),
        **{name: ra.solve(chain(), "least", solver=name).peak_memory for name in METHODS},
    )


def draw(before, after):
    """Bytes over the compute done: what is always there, the two traces, and the memory of the GPU."""
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=(8.6, 3.9))
    resident, gpu = before.graph.resident_memory / 2**30, GPU / 2**30
    for plan, colour in ((before, GREY), (after, BLUE)):
        cost = plan.graph.compute[plan.schedule.order] * (100 / plan.graph.needed_compute)
        done = np.concatenate([[0], cost.cumsum()])
        memory = plan.simulation.memory_trace / 2**30 + resident
        if plan is before:
            ax.stairs(memory, done, baseline=resident, fill=True, color="#DCDCDC")
            ax.stairs(np.maximum(memory, gpu), done, baseline=gpu, fill=True, color="#F5C6A5")
        else:
            ax.stairs(memory, done, baseline=resident, fill=True, color=colour)
        ax.stairs(memory, done, baseline=None, color=colour, linewidth=1.2)
    ax.axhspan(0, resident, color=ORANGE, linewidth=0)
    ax.axhline(gpu, color=VERMILION, linewidth=1.8)
    bold = {"fontsize": 10, "weight": "bold"}
    ax.text(53, 17.3, f"without recomputation: {gib(peak(before))}", color="#555555", **bold)
    ax.text(21, 4.7, f"plan: {gib(peak(after))}, {percent(after)} more compute", color="white", **bold)
    ax.text(101.5, gpu + 0.3, f"a GPU of {gib(GPU)}", color=VERMILION, ha="right", **bold)
    ax.text(
        1, resident / 2, f"parameters and optimizer state: {gib(before.graph.resident_memory)}", fontsize=9, va="center"
    )
    ax.set(xlim=(0, 102), ylim=(0, 1.05 * peak(before) / 2**30), yticks=range(0, 21, 4), ylabel="memory (GiB)")
    ax.set_xlabel("compute done, % of one training step without recomputation")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def main(folder):
    plans = network()
    ra.plot.save(draw(*plans), folder / "before_and_after.svg")
    lines = block(*plans)
    for path, docs in PAGES.items():
        fill(path, "headlines", lines(docs=docs))
    print(lines(docs=""))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else DOCS / "figures")
