"""Pages that step through six plans, written next to the built documentation, and the table that links to them.

Sphinx calls `setup`. Usage alone: python docs/plans.py FOLDER
"""

import sys
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import remat_algos as ra
from docs import page_parts
from remat_algos.plan.plan import Plan
from remat_algos.text.amounts import percent
from remat_algos.wording import counted, format_bytes

FOLDER = "plans"
UNET = Path(__file__).resolve().parents[1] / "examples" / "graphs" / "unet.nodes.csv"


class Stepped(NamedTuple):
    """A plan with a page, the plan next to it, and what a reader should look at."""

    name: str
    title: str
    plan: Plan
    other: Plan
    look: str


def chain_of_nine():
    """The chain of tutorial 1: nine layers of one byte and one unit of cost, with their gradients."""
    return ra.differentiate(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))


def residual_blocks():
    """The two residual blocks of tutorial 2."""
    edges = ["ab", "bc", "ad", "cd", "de", "ef", "dg", "fg"]
    memory = {"a": 2, "b": 6, "c": 2, "d": 2, "e": 6, "f": 2, "g": 1}
    compute = {"a": 3, "b": 4, "c": 4, "d": 1, "e": 4, "f": 4, "g": 1}
    return ra.differentiate(ra.ComputationGraph.from_edges([tuple(edge) for edge in edges], memory, compute))


def ladder(length):
    """The ladder of tutorial 3: each gradient, in capitals, reads the one before it and a layer."""
    names = [chr(ord("a") + i) for i in range(length)]
    names += [name.upper() for name in reversed(names)]
    last = 2 * length - 1
    edges = [(i, i + 1) for i in range(last)] + [(i, last - i) for i in range(length - 1)]
    return ra.ComputationGraph.from_edges([(names[i], names[j]) for i, j in edges])


def stepped():
    """All plans with a page."""
    nine = chain_of_nine()
    once = ra.solve(nine, solver="no_remat")
    segments = ra.solve(nine, "least", solver="chen_sqrt", segments=3)
    recursion = ra.solve(nine, "least", solver="chen_recursive")
    optimum = ra.solve(nine, "least", solver="live_set_search")
    yield Stepped(
        *("chain_segments", "A chain of nine, by segments", segments, once),
        "Layers 2 and 5 end segments and stay live; 0, 1, 3 and 4 are recomputed just before their gradients.",
    )
    yield Stepped(
        *("chain_recursion", "A chain of nine, by recursion", recursion, segments),
        "One value less at the peak than by segments. Layer 0 runs three times.",
    )
    yield Stepped(
        *("chain_optimum", "A chain of nine, at the minimum peak", optimum, recursion),
        "No schedule has a lower peak. Layer 0 runs eight times, layer 6 twice.",
    )
    residual = residual_blocks()
    yield Stepped(
        *("residual_blocks", "Two residual blocks, by lower sets", ra.solve(residual, "least", solver="exact_dp")),
        ra.solve(residual, solver="no_remat"),
        "The cut is after d: of the first block only d stays live, and a, b and c are recomputed.",
    )
    rungs = ladder(8)
    options = {"recursion_limit": 1, "orders": 1, "batching": False, "raw": True}
    yield Stepped(
        *("ladder_twremat", "A ladder of eight, by twremat", ra.solve(rungs, solver="twremat", **options)),
        ra.solve(rungs, solver="no_remat"),
        "The recursion as in the paper: it forgets a, b and c, and recomputes them for the last three gradients.",
    )
    unet = ra.differentiate(ra.read_graph(UNET))
    yield Stepped(
        *("unet", "A U-Net in half of its memory", ra.solve(unet, "50%", effort="fast")),
        ra.solve(unet, solver="no_remat"),
        "enc0.relu2, the outermost skip connection, is live through the forward pass, then freed, and recomputed late.",
    )


def table():
    """The table of docs/plans.md."""
    heads = ("plan, next to another", "peak", "extra runs", "look at")
    rows = []
    for each in stepped():
        plan, other = each.plan, each.other
        runs, more = len(plan.schedule) - plan.graph.n_nodes, percent(plan.overhead, plan.graph.needed_compute)
        name = "one pass" if other.method == "no_remat" else other.method
        rows.append(
            (
                f'<a href="{FOLDER}/{each.name}.html">{each.title}</a>, next to {name}',
                f"{format_bytes(plan.peak_memory)} instead of {format_bytes(other.peak_memory)}",
                f"{runs}, {more} more compute",
                each.look,
            )
        )
    return page_parts.table(heads, rows)


def write(folder):
    """Write all pages into a folder; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for each in stepped():
        path = folder / f"{each.name}.html"
        path.write_text(ra.plot.report(each.plan, each.other, title=each.title), encoding="utf-8")
        paths.append(path)
    return paths


def setup(app):
    def written(app, error):
        if error is None and app.builder.format == "html":
            write(Path(app.outdir) / FOLDER)

    app.connect("build-finished", written)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    print(f"{counted(len(write(Path(sys.argv[1]))), 'page')} written")
