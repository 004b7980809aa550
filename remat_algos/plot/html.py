"""Plans, simulations, frontiers and graphs as notebooks show them: a picture as inline SVG, mostly below text.

A notebook that is not trusted drops scripts and styles, so pictures have none. A plan shows each step in a tooltip of
the browser; `ra.plot.animation(plan)` moves, and `ra.plot.report(plan)` is a page to step through.
"""

from __future__ import annotations

import hashlib
import re
from html import escape
from typing import TYPE_CHECKING, Any

from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan
from remat_algos.plot.picture_file import picture_bytes
from remat_algos.plot.pictures.frontier_svg import frontier_svg
from remat_algos.plot.pictures.graph import graph as draw_graph
from remat_algos.plot.pictures.memory_svg import memory_svg
from remat_algos.questions.frontier import Frontier
from remat_algos.schedule.simulation import Simulation
from remat_algos.text.wording import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_DRAWN, MAX_EDGES = 400, 1_000  # of a drawn graph; larger drawings show nothing, and take megabytes
LONGEST_LINE = 200  # characters; a name may have any number

_STYLE = re.compile(r"<style[^>]*>.*?</style>", re.DOTALL)
_UNSEEN = re.compile(r"<!--.*?-->|<metadata>.*?</metadata>", re.DOTALL)
_PATHS = re.compile(r' d="[^"]*"')
_FINE = re.compile(r"[0-9]+\.[0-9]{3,}")  # points of 1/72 inch: hundredths are more than a screen shows
_IDS = re.compile(r'(\bid="|url\(#|href="#)')


def html(subject: Any) -> str | None:
    """HTML of an object; None if notebooks should show only its repr.

    Examples
    --------
    >>> text = html(ComputationGraph.from_edges([("A", "B")]))
    >>> text[:44], text.count("<svg"), html(7)
    ('<div><pre>&lt;ComputationGraph: 2 nodes, 1 r', 1, None)
    """
    if isinstance(subject, Plan):
        return plan_html(subject)
    if isinstance(subject, Simulation):
        return _shown(repr(subject), memory_svg(subject))
    if isinstance(subject, Frontier):
        return f"<div>{frontier_svg(subject)}</div>"  # its caption says what the repr would
    if isinstance(subject, ComputationGraph):
        return graph_html(subject)
    return None


def plan_html(plan: Plan) -> str:
    """HTML of a plan: its text, and the memory of its steps."""
    return _shown(str(plan), memory_svg(plan.simulation, plan.limit))


def graph_html(graph: ComputationGraph) -> str:
    """HTML of a graph: its repr, and its drawing unless it is too large."""
    if 0 < graph.n_nodes <= MAX_DRAWN and graph.read_indices.size <= MAX_EDGES:
        return _shown(repr(graph), _svg(draw_graph(graph)))
    return _shown(repr(graph))


def _shown(text: str, picture: str = "") -> str:
    """A text above a picture; the text is escaped, whatever names it contains."""
    lines = "\n".join(shortened(line, LONGEST_LINE) for line in text.splitlines())
    return f"<div><pre>{escape(lines)}</pre>{picture}</div>"


def _svg(picture: Axes) -> str:
    """A figure as SVG that can share a page with others: unique ids, no global style."""
    text = picture_bytes(picture, "svg").decode()
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    text = _UNSEEN.sub("", _STYLE.sub("", text[text.index("<svg") :]))
    text = _PATHS.sub(lambda path: _FINE.sub(lambda number: f"{float(number[0]):.2f}", path[0]), text)
    text = _IDS.sub(rf"\g<1>r{name}-", text)
    style = "max-width: 100%; height: auto; stroke-linejoin: round; stroke-linecap: butt"
    return text.replace("<svg ", f'<svg style="{style}" role="img" ', 1).strip()
