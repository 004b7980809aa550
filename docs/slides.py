"""An outline of two lectures in Markdown, with their pictures: python -m docs.slides OUT.

Writes OUT/lecture_1.md and OUT/lecture_2.md: slides with a title, three lines, and a picture or a formula. Pictures are
those of the tutorials, drawn when their cells are run, and are written next to the outlines as SVG.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib
import matplotlib.pyplot as plt

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from docs.notebooks import run_cell

TUTORIALS = Path(__file__).resolve().parent / "tutorials"
PART = re.compile(r"^```\{code-cell\}\n(?::tags: [^\n]*\n)?(.*?)^```$|^## ([^\n]*)$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Slide:
    """A title, three lines, and `shown`: a formula in dollars, or "page/heading/n", the n-th picture of a section."""

    title: str
    lines: tuple[str, str, str]
    shown: str

    @property
    def is_formula(self) -> bool:
        return self.shown.startswith("$")

    def file(self) -> str:
        """Name of the picture."""
        page, heading, n = self.shown.split("/")
        return f"{page}_{re.sub(r'[^a-z]+', '_', heading.lower()).strip('_')}_{n}.svg"

    def markdown(self) -> str:
        """The slide below its title."""
        shown = f"$${self.shown.strip('$')}$$" if self.is_formula else f"![{self.title}]({self.file()})"
        return "\n".join([f"## {self.title}", "", *(f"- {line}" for line in self.lines), "", shown, ""])


LECTURES: dict[str, tuple[Slide, ...]] = {
    "Chains and cuts": (
        Slide(
            "One layer",
            (
                "The forward pass computes z = Wx and y = tanh z",
                "Inference frees x and z at once",
                "Training reads x and y again",
            ),
            r"$\bar z = (1 - y^2)\,\bar y, \quad \bar W = \bar z\, x^{\mathsf T}, \quad \bar x = W^{\mathsf T} \bar z$",
        ),
        Slide(
            "L layers: all values wait",
            (
                "Gradients run in the opposite order",
                "All L values are live when the gradients begin",
                "The peak is L + 2",
            ),
            "0_why/L layers/1",
        ),
        Slide(
            "The first checkpoint",
            (
                "Keep one value, drop the three before it",
                "Recompute them when their gradients are due",
                "Three values less for three more runs",
            ),
            "0_why/The first checkpoint/1",
        ),
        Slide(
            "Four names of one idea",
            (
                "Gradient checkpointing, activation checkpointing",
                "Rematerialization, recomputation",
                "Compute is exchanged for memory",
            ),
            r"$\text{memory} \downarrow \quad \Longleftrightarrow \quad \text{compute} \uparrow$",
        ),
        Slide(
            "A chain and its gradients",
            (
                "An arrow from u to v: v reads the value of u",
                "A gradient reads its layer's input and output",
                "On paper: which values are live at each step?",
            ),
            "1_chains/A chain and its gradients/1",
        ),
        Slide(
            "Rule 1: one pass",
            (
                "A value is live from its run to its last read",
                "The peak is the largest sum over the steps",
                "Vote: what is the peak of 25 layers? (exercise 1)",
            ),
            r"$\text{peak} = n + 2$",
        ),
        Slide(
            "Segments",
            (
                "Keep the last value of each segment",
                "Recompute a segment when its gradients are due",
                "The whole last segment stays",
            ),
            "1_chains/Run some layers twice/1",
        ),
        Slide(
            "Where the peak is",
            (
                "At the first gradient of a segment",
                "Kept values, the segment, two gradients",
                "Vote: twelve layers in segments of 4 (exercise 2)",
            ),
            "1_chains/Run some layers twice/2",
        ),
        Slide(
            "The square root",
            ("Many segments: much is kept", "Few segments: each is long", "The sum is smallest where both are equal"),
            "1_chains/The square root/1",
        ),
        Slide(
            "Square root, in a formula",
            ("k equal segments of n layers", "Minimum at k = √n", "No layer runs more than twice"),
            r"$(k - 1) + \frac{n}{k} + 2 \;\ge\; 2\sqrt{n} + 1$",
        ),
        Slide(
            "Better than equal",
            (
                "Only the last segment reaches the peak",
                "Let each segment be one shorter",
                "Vote: 21 layers in segments of 6 to 1 (exercise 4)",
            ),
            r"$n = \frac{m(m + 1)}{2} \;\Rightarrow\; \text{peak} = m + 2 \approx \sqrt{2n}$",
        ),
        Slide(
            "A segment is a chain",
            ("Cut it again, on d levels", "Each level keeps one value", "Each level runs half of the layers once more"),
            "1_chains/A segment is a chain/1",
        ),
        Slide(
            "The price of the logarithm",
            (
                "2^d - 1 layers, cut in the middle on d levels",
                "Memory grows by one value per level",
                "Each level costs half a pass",
            ),
            r"$\text{peak} = d + 2, \qquad \text{runs of layers} = d \cdot 2^{d - 1}$",
        ),
        Slide(
            "Two residual blocks",
            (
                "Branches: where can this graph be cut?",
                "b and e are large, additions are cheap",
                "A cut keeps every value with a reader behind it",
            ),
            "2_lower_sets/Two residual blocks/1",
        ),
        Slide(
            "Lower sets and boundaries",
            (
                "A lower set contains the reads of its members",
                "Its boundary: members with a reader outside",
                "Branches multiply the number of lower sets",
            ),
            "2_lower_sets/Lower sets and boundaries/1",
        ),
        Slide(
            "A plan from lower sets",
            (
                "Keep the boundary of each set",
                "Recompute the rest of a block for its gradients",
                "Nodes on no boundary run twice",
            ),
            "2_lower_sets/A plan from lower sets/2",
        ),
        Slide(
            "Formulas (1) and (2)",
            (
                "Formula (1): the compute of the nodes that are not kept",
                "Formula (2): four terms for each block",
                "An upper estimate: the simulator frees earlier",
            ),
            r"$M(U_{i-1}) + 2\,M(V_i) + M(\delta^+(L_i) \setminus L_i) + M(\delta^-(\delta^+(L_i)) \setminus L_i)$",
        ),
        Slide(
            "All plans, and the best",
            (
                "64 plans of seven nodes",
                "The Pareto frontier has few of them",
                "A program over lower sets need not try all",
            ),
            "2_lower_sets/All plans, and the best/1",
        ),
    ),
    "Any graph, and how good a plan is": (
        Slide(
            "Two nodes that separate",
            (
                "Layers in small letters, gradients in capitals",
                "Without c and C two pieces remain",
                "One piece is computed while c and C are live",
            ),
            "3_separators/Two nodes that separate/1",
        ),
        Slide(
            "Tree decompositions",
            (
                "Bags of nodes on a tree; each edge is in a bag",
                "The bags of a node are connected",
                "Removing nodes one by one gives the bags",
            ),
            r"$\text{width} = \max_{X} |X| - 1, \qquad \text{treewidth} = \text{minimum over all decompositions}$",
        ),
        Slide(
            "Halves of halves",
            (
                "A bag in the middle halves the tree of bags",
                "Repeat in each piece",
                "Vote: how many levels have 20 bags? (exercise 4)",
            ),
            "3_separators/Halves of halves/1",
        ),
        Slide(
            "The guarantee",
            (
                "One call is active on each level",
                "Its separator and the reads of one node are live",
                "The peak grows with the logarithm of the size",
            ),
            "3_separators/The guarantee/1",
        ),
        Slide(
            "The order of eight layers",
            ("Each row is a step", "Few values are live at a time", "Pieces are recomputed many times"),
            "3_separators/The guarantee/2",
        ),
        Slide(
            "Theorem 5",
            ("k: width; D: number of levels", "Memory is near the logarithm of n", "Compute grows with each level"),
            r"$M(\sigma) \le D\,\bigl((k + 1)\,M_{\max} + M_{\text{in}}\bigr) + \text{request}$",
        ),
        Slide(
            "What a printed algorithm can get wrong",
            (
                "Seven nodes, five bags",
                "The printed recursion runs q before v0",
                "A simulator finds it (exercises 6 and 7)",
            ),
            "3_separators/Where it fails/1",
        ),
        Slide(
            "The order alone",
            ("Seven nodes run once each", "The peak is 23 bytes or 11, by the order", "An output should run late"),
            r"$\text{branch with the largest } p_i - r_i \text{ first}$",
        ),
        Slide(
            "Recompute what is cheap and large?",
            (
                "Node 2 has the lowest price per byte",
                "The peak step reads it, so it is live anyway",
                "Only bytes at the peak count (exercise 2)",
            ),
            '4_search/"Recompute what is cheap and large"/1',
        ),
        Slide(
            "Are two runs enough?",
            (
                "At most one run: peak 6; at most two: 5",
                "Three runs of node 0: peak 4",
                "Vote, then simulate (exercise 3)",
            ),
            '4_search/"Two runs are enough"/1',
        ),
        Slide(
            "With more memory it gets cheaper?",
            (
                "A greedy plan may cost more with more memory",
                "Its first choice differs",
                "The plan for less memory fits as well: keep it",
            ),
            r"$B \le B' \;\Rightarrow\; \text{optimum}(B') \le \text{optimum}(B)$",
        ),
        Slide(
            "A lower bound on the peak",
            (
                "A step needs its reads and its values",
                "No schedule is below the largest step",
                "A plan that meets a bound is optimal",
            ),
            r"$\text{peak} \;\ge\; \max_v \bigl(M(\text{reads of } v) + M(v)\bigr)$",
        ),
        Slide(
            "A lower bound on the compute",
            (
                "Consider the first run of the loss",
                "Values that are read later are live or recomputed",
                "Keep those that are dear, up to the limit",
            ),
            "4_search/How good can any plan be?/1",
        ),
        Slide(
            "The gap",
            (
                "Distance of a plan from the lower bound",
                "A better plan could save at most that much",
                "A large gap may come from a weak bound",
            ),
            r"$\text{gap} = \frac{\text{compute} - \text{bound}}{\text{bound}}$",
        ),
        Slide(
            "Search",
            (
                "Ten nodes, kept or recomputed: 1,024 plans",
                "Single flips end too early",
                "Exchanges of two reach the optimum more often",
            ),
            "4_search/Search/1",
        ),
        Slide(
            "A U-Net",
            ("The peak is where the backward part begins", "Feature maps are most of it", "They grow with the batch"),
            "5_network/Where the memory goes/1",
        ),
        Slide(
            "A plan for 60 % of the memory",
            (
                "Cheap, large operations are recomputed",
                "Two convolutions are most of the overhead",
                "The plan is verified and executed",
            ),
            "5_network/A budget, a plan/1",
        ),
    ),
}


def pictures(page: str) -> Iterator[tuple[str, bytes]]:
    """The heading and the SVG of each picture that the cells of a tutorial draw."""
    heading, namespace = "", {"__name__": "slides"}
    for cell, title in PART.findall((TUTORIALS / f"{page}.md").read_text("utf-8")):
        heading = title or heading
        for output in run_cell(cell, namespace) if cell else []:
            data = output.get("data", {})
            if "image/svg+xml" in data:
                yield heading, "".join(data["image/svg+xml"]).encode()
        for number in plt.get_fignums():
            file = io.BytesIO()
            with matplotlib.rc_context({"svg.hashsalt": "remat_algos"}):
                plt.figure(number).savefig(file, format="svg", metadata={"Date": None})
            yield heading, file.getvalue()
        plt.close("all")


def outline(number: int, title: str, slides: Sequence[Slide]) -> str:
    """A lecture in Markdown, with a rule between slides."""
    return f"# Lecture {number}: {title}\n\n" + "\n---\n\n".join(slide.markdown() for slide in slides)


def write(folder: Path) -> list[Path]:
    """Write the outlines and their pictures; returns the paths."""
    wanted = {slide.file(): slide.shown for slides in LECTURES.values() for slide in slides if not slide.is_formula}
    drawn: dict[str, bytes] = {}
    for page in sorted({shown.split("/")[0] for shown in wanted.values()}):
        counts: dict[str, int] = {}
        with TemporaryDirectory() as place, chdir(place):
            for heading, picture in pictures(page):
                counts[heading] = counts.get(heading, 0) + 1
                drawn[f"{page}/{heading}/{counts[heading]}"] = picture
    contents = {name: drawn[shown] for name, shown in wanted.items()}
    for number, (title, slides) in enumerate(LECTURES.items(), 1):
        contents[f"lecture_{number}.md"] = outline(number, title, slides).encode()
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in contents]


if __name__ == "__main__":
    matplotlib.use("agg")
    parser = argparse.ArgumentParser(
        prog="python -m docs.slides", description="Outlines of two lectures, with pictures."
    )
    parser.add_argument("folder", type=Path, metavar="OUT", help="folder for the outlines and pictures")
    written = write(parser.parse_args().folder)
    print(f"{len(LECTURES)} outlines and {len(written) - len(LECTURES)} pictures in {written[0].parent}")
