"""The pages on which algorithms step: `docs/steps/*.js` and an example each, written into the built documentation.

Usage: python docs/steps/pages.py FOLDER

Sphinx writes them beside the other pages, as steps/NAME.html. Each is one file without requests: the style of the
report page, the scripts, and the examples as JSON.
"""

import json
import sys
from html import escape
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
REPORT_STYLE = FOLDER.parents[1] / "remat_algos" / "plot" / "pictures" / "report.css"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
HINT = (
    "Edges u>v, or rows such as a>b>c; u=4/2 is a node of 4 bytes and cost 2, without it 1 byte and cost 1. Up to "
    "{nodes} nodes."
)
PAGES = {
    "lower_sets": {
        "title": "The table of lower sets",
        "lead": (
            "Kusumoto's exact program fills a table: the minimum bytes that a chain of lower sets keeps, for each last "
            "set L and each overhead t."
        ),
        "nodes": 8,
        "options": [{"name": "budget", "label": "budget B in bytes"}],
        "examples": [
            {
                "name": "two branches between a fork and a join",
                "graph": "a>b>c>f a>d>e>f\na=1 b=1 c=1 d=1 e=1 f=2",
                "options": {"budget": 8},
            },
            {
                "name": "a fork and a join, with a node behind",
                "graph": "a>b>d>e a>c>d\na=3/5 b=1/1 c=2/2 d=2/3 e=1/1",
                "options": {"budget": 12},
            },
        ],
    },
    "elimination": {
        "title": "An elimination order and its bags",
        "lead": (
            "Vertices are eliminated one by one, always the one with the minimum fill or degree. Each leaves a bag, "
            "and the bags form a tree decomposition, on which twremat recurs."
        ),
        "nodes": 10,
        "options": [{"name": "rule", "label": "rule", "choices": ["fill", "degree"]}],
        "examples": [
            {
                "name": "four layers and their gradients, in capitals",
                "graph": "a>b>c>d>D>C>B>A\na>B b>C c>D",
                "options": {"rule": "fill"},
            },
            {"name": "a cycle of six", "graph": "a>b>c>d>e>f a>f", "options": {"rule": "fill"}},
            {
                "name": "two branches that are joined twice",
                "graph": "a>b>c>d>e a>f>g>e b>g f>c",
                "options": {"rule": "degree"},
            },
        ],
    },
    "recursion": {
        "title": "The stack of the recursion",
        "lead": (
            "Chen's recursion cuts a chain, and treats each part like the whole chain: each call on the stack keeps "
            "its remaining cuts live."
        ),
        "nodes": 20,
        "options": [
            {"name": "k", "label": "cuts k in a part"},
            {"name": "depth", "label": "levels d"},
            {"name": "last", "label": "keep the last part", "choices": ["yes", "no"]},
        ],
        "examples": [
            {
                "name": "fifteen equal layers, cut in the middle",
                "graph": "0>1>2>3>4>5>6>7>8>9>10>11>12>13>14",
                "options": {"k": 1, "depth": 4, "last": "yes"},
            },
            {
                "name": "eight equal layers, two cuts in a part",
                "graph": "a>b>c>d>e>f>g>h",
                "options": {"k": 2, "depth": 2, "last": "yes"},
            },
            {
                "name": "eight layers of unequal size",
                "graph": "a>b>c>d>e>f>g>h\na=4 b=1 c=1 d=2 e=8 f=1 g=1 h=8",
                "options": {"k": 1, "depth": 3, "last": "no"},
            },
        ],
    },
    "closure_cut": {
        "title": "The price sweep of the closure bound",
        "lead": (
            "At the first run of a node v, a byte that is live by choice has a price. As the price rises, the minimum "
            "cut keeps fewer bytes and recomputes more. The greatest minimum bounds the overhead; the closure bound is "
            "the greatest of all v."
        ),
        "nodes": 10,
        "options": [{"name": "node", "label": "node v, or best"}, {"name": "limit", "label": "limit B in bytes"}],
        "examples": [
            {
                "name": "two layers with their gradients",
                "graph": "conv1>gelu1>conv2>gelu2>loss>d_gelu2>d_conv2>d_gelu1>d_conv1\n"
                "conv2>d_gelu2 gelu1>d_conv2 conv1>d_gelu1\n"
                "conv1=8/10 gelu1=8/2 conv2=4/10 gelu2=4/2 loss=1/2 d_gelu2=2/4 d_conv2=2/20 d_gelu1=2/4 d_conv1=2/20",
                "options": {"node": "loss", "limit": 16},
            },
            {
                "name": "five equal layers with their gradients",
                "graph": "a>b>c>d>e>E>D>C>B>A\ne>D d>D d>C c>C c>B b>B b>A a>A",
                "options": {"node": "E", "limit": 4},
            },
        ],
    },
    "live_sets": {
        "title": "Best-first search over live sets",
        "lead": (
            "A schedule is a path through sets of live values. Uniform-cost search takes the cheapest set first, so "
            "the first set with all outputs is the optimum over all orders and any number of runs."
        ),
        "nodes": 8,
        "options": [{"name": "limit", "label": "limit in bytes"}],
        "examples": [
            {
                "name": "three layers with their gradients",
                "graph": "a>b>c>C>B>A\nc>B b>B b>A a>A",
                "options": {"limit": 4},
            },
            {
                "name": "three runs of one node",
                "graph": "0>1>3>4 0>2 1>5\n0=1 1=2 2=1 3=2 4=1 5=1",
                "options": {"limit": 4},
            },
        ],
    },
}


def page(name):
    """Return the text of a page; nothing in the examples can end its script."""
    about = PAGES[name]
    style = REPORT_STYLE.read_text("utf-8") + (FOLDER / "steps.css").read_text("utf-8")
    files = ("graph.js", f"{name}.js", "pictures.js", f"{name}_view.js", "player.js")
    data = {"lead": about["lead"], "hint": HINT.format(nodes=about["nodes"])}
    data |= {key: about[key] for key in ("nodes", "options", "examples")}
    inline = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    scripts = "".join(f"<script>\n{(FOLDER / file).read_text('utf-8')}</script>\n" for file in files)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<link rel="icon" href="data:,">
<title>{escape(about["title"])}</title>
<style>
{style}</style>
</head>
<body>
<script type="application/json" id="data">{inline}</script>
{scripts}</body>
</html>
"""


def write(folder):
    """Write all pages into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PAGES:
        (folder / f"{name}.html").write_text(page(name), encoding="utf-8")


def setup(app):
    """Write the pages after a build of HTML, as a Sphinx extension."""

    def written(app, error):
        if error is None and app.builder.format == "html":
            write(Path(app.outdir) / "steps")

    app.connect("build-finished", written)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    write(Path(sys.argv[1]))
