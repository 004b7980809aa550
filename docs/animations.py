"""Animations of README.md, docs/index.md and docs/animations.md, and the numbers below them.

Usage: python docs/animations.py [FOLDER for the pictures]

It draws docs/figures/animated_*.svg and writes the parts `animation`, `chain` and `unet` of the pages; a test compares
them. Run it again after a change of `ra.plot.animation`.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import remat_algos as ra
from docs.page_parts import fill, solver_page
from remat_algos.wording import format_bytes

DOCS = Path(__file__).resolve().parent
# First pages, and the prefix of their links into docs.
FIRST = {DOCS.parent / "README.md": "docs/", DOCS / "index.md": ""}
PAGE = DOCS / "animations.md"
LAYERS, BUDGET = 9, "55%"
# Word for a method, its solver, and a sentence.
METHODS = {
    "vanilla": ("no_remat", "Every value is kept until its last read"),
    "segments": (
        "chen_sqrt",
        "Only the boundaries of segments are kept; the rest of each is recomputed for its gradients",
    ),
    "recursion": ("chen_recursive", "Segments are cut into segments again"),
    "search": ("auto", "The best plan of all solvers"),
}
LEAD = """\
![A training step of a U-Net, moving: nodes run, values come and go]({docs}figures/animated_unet_search.svg)

A U-Net of {operations} operations, with a budget of {budget} of its peak: **{after}** instead of {before}, for
**{more}** more compute. [More animations]({docs}animations.md); `remat animate GRAPH PLAN -o plan.svg` draws yours.
"""
ROW = """\
![{word} on {what}](figures/animated_{name}_{word}.svg)

**{word}** ({link}). {does}: peak {peak}, {steps} steps, {more} more compute than one pass.
"""


def graphs():
    """Name, graph and caption of each."""
    chain = ra.ComputationGraph.from_edges([(i, i + 1) for i in range(LAYERS - 1)])
    unet = ra.read_graph(DOCS.parent / "examples" / "graphs" / "unet.nodes.csv")
    yield "chain", ra.differentiate(chain), f"a chain of {LAYERS} layers"
    yield "unet", ra.differentiate(unet), "a U-Net"


def solved(name, graph, solver):
    """The plan that is shown: a chain at the lowest peak of the method, a U-Net within a budget."""
    if solver == "no_remat":
        return ra.solve(graph, solver=solver)
    return ra.solve(graph, "least" if name == "chain" else BUDGET, solver=solver, effort="fast")


def plans():
    """The plan of each method for each graph, by both names."""
    return {
        (name, word): solved(name, graph, solver)
        for name, graph, _ in graphs()
        for word, (solver, _) in METHODS.items()
    }


def more(plan):
    """Compute beyond one pass."""
    return f"{100 * plan.overhead / plan.graph.needed_compute:.1f} %"


def lead(found, docs):
    """The lines of the first pages."""
    before, after = found["unet", "vanilla"], found["unet", "search"]
    return LEAD.format(
        docs=docs,
        budget=BUDGET.replace("%", " %"),
        operations=int(after.graph.forward.sum()),
        before=format_bytes(before.peak_memory),
        after=format_bytes(after.peak_memory),
        more=more(after),
    )


def rows(found, name, what):
    """The pictures of a graph, with the numbers of each plan."""
    return "\n".join(
        ROW.format(
            word=word,
            what=what,
            name=name,
            does=does,
            link="found by " + _page(plan.method) if solver == "auto" else _page(solver),
            peak=format_bytes(plan.peak_memory),
            steps=len(plan.schedule),
            more=more(plan),
        )
        for word, (solver, does) in METHODS.items()
        for plan in [found[name, word]]
    )


def _page(solver):
    return f"[{solver}](solvers/{solver_page(solver)}#{solver})"


def blocks(found):
    """(page, mark, lines) of each part to write."""
    for page, docs in FIRST.items():
        yield page, "animation", lead(found, docs)
    for name, _, what in graphs():
        yield PAGE, name, rows(found, name, what)


def main(folder):
    found = plans()
    for (name, word), plan in found.items():
        compared = [found[name, other] for other in METHODS]
        ra.plot.animation(plan, compared=compared).save(folder / f"animated_{name}_{word}.svg")
    for page, mark, lines in blocks(found):
        fill(page, mark, lines)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "figures")
