"""HTML of plans, simulations, frontiers and graphs for notebooks: usually text above a picture in inline SVG.

Notebooks that are not trusted drop scripts and styles, so the HTML contains neither.
"""

from __future__ import annotations

import hashlib
import re
from html import escape
from typing import TYPE_CHECKING, Any

from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan
from remat_algos.plot import tuning
from remat_algos.plot.picture_file import picture_bytes
from remat_algos.plot.pictures.frontier import frontier as draw_frontier
from remat_algos.plot.pictures.graph import graph as draw_graph
from remat_algos.plot.pictures.memory import memory as draw_memory
from remat_algos.questions.frontier import Frontier
from remat_algos.result import Result
from remat_algos.schedule.simulation import Simulation
from remat_algos.wording import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_UNUSED = re.compile(r"<style[^>]*>.*?</style>|<!--.*?-->|<metadata>.*?</metadata>", re.DOTALL)
_PATHS = re.compile(r' d="[^"]*"')
_FINE = re.compile(r"[0-9]+\.[0-9]{3,}")
_IDS = re.compile(r'(\bid="|url\(#|href="#)')


def html(subject: Any) -> str | None:
    """Return the HTML of an object, or None if a notebook should show its repr."""
    if isinstance(subject, Frontier):
        # The title of the picture already contains the text of the repr.
        return f"<div>{_svg(draw_frontier(subject), repr(subject))}</div>"
    if isinstance(subject, Plan | Simulation):
        text = str(subject) if isinstance(subject, Plan) else repr(subject)
        return _shown(text, _svg(draw_memory(subject), text))
    if isinstance(subject, ComputationGraph):
        small = 0 < subject.n_nodes <= tuning.MAX_DRAWN and subject.read_indices.size <= tuning.MAX_EDGES
        return _shown(repr(subject), _svg(draw_graph(subject), repr(subject)) if small else "")
    return _shown(str(subject), "") if isinstance(subject, Result) else None


def _shown(text: str, picture: str) -> str:
    lines = "\n".join(shortened(line, 200) for line in text.splitlines())
    return f"<div><pre>{escape(lines)}</pre>{picture}</div>"


def _svg(picture: Axes, label: str) -> str:
    """Return inline SVG whose ids are unique on the page, without global styles, with coordinates to 0.01 points."""
    label = escape(shortened(label.partition("\n")[0], 200))
    text = picture_bytes(picture, "svg").decode()
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    text = _UNUSED.sub("", text[text.index("<svg") :])
    text = _PATHS.sub(lambda path: _FINE.sub(lambda number: f"{float(number[0]):.2f}", path[0]), text)
    text = _IDS.sub(rf"\g<1>r{name}-", text)
    style = "max-width: 100%; height: auto; stroke-linejoin: round; stroke-linecap: butt"
    return text.replace("<svg ", f'<svg style="{style}" role="img" aria-label="{label}" ', 1).strip()
