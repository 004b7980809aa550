"""Animated schedules: nodes light up as they run, values appear and disappear, a curve and a bar show the bytes."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from remat_algos.arguments import checked_arguments
from remat_algos.errors import ArgumentError, PlanError, about
from remat_algos.files import write_whole
from remat_algos.ir.arrays import Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plot import tuning
from remat_algos.plot.axes import byte_ticks
from remat_algos.plot.colours import INKS
from remat_algos.plot.lanes import Lanes, Subject
from remat_algos.plot.layered_layout import layout
from remat_algos.schedule.views import checked_steps
from remat_algos.wording import format_bytes, shortened

# Sizes in pixels. Below the curve are four lines: step labels, the current step, and two lines of legend.
WIDTH, GRAPH_HEIGHT, CURVE, GAP, LINE = 640, 300, 110, 14, 20
BASE = GRAPH_HEIGHT + CURVE + GAP
HEIGHT = BASE + 4 * LINE + GAP // 2
# Left end and width of the curve; the byte labels are to its left, the bar is to its right.
LEFT, ACROSS = GAP + 48, WIDTH - 132
# State of a node without a live value; the other states are indices of `STATES`.
EMPTY = -1
STATES = ("kept", "again", "grad", "loaded")
LEGEND = {"kept": "first run", "again": "recomputed", "grad": "gradient", "loaded": "loaded", "paper": "not live"}
Changes = list[list[tuple[int, int]]]


@dataclass(frozen=True, slots=True, eq=False)
class Animation:
    """An animated schedule: the steps shown, the duration of a loop in `seconds`, and the ends of both axes.

    The byte axis ends at `top`, the step axis at `length`. A place is the index of a step among those shown.
    """

    lanes: Lanes
    steps: range
    seconds: float
    top: int
    length: int

    @property
    def order(self) -> list[int]:
        """The node that runs at each place."""
        return self.lanes.order[self.steps.start : self.steps.stop]

    @property
    def trace(self) -> Int64:
        """int64[m]: live bytes at each place."""
        return self.lanes.trace[self.steps.start : self.steps.stop]

    @property
    def peak(self) -> int:
        """The first place with the maximum of live bytes, or 0 without steps."""
        return int(self.trace.argmax()) if self.trace.size else 0

    def svg(self) -> str:
        """Return an SVG with CSS animations; it follows dark mode, and is static under prefers-reduced-motion."""
        return _svg(self)

    _repr_svg_ = svg

    @checked_arguments
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the SVG atomically; raise ValueError unless the path ends in .svg."""
        check_ending(path)
        write_whole(Path(path), self.svg().encode())


def check_ending(path: str | os.PathLike[str]) -> None:
    if Path(path).suffix.lower() != ".svg":
        raise ArgumentError("{path!p}: an animation is an SVG; give a path that ends in .svg", path=path)


@checked_arguments
def animation(
    subject: Subject,
    *,
    seconds: float | None = None,
    steps: range | None = None,
    compared: Sequence[Subject] = (),
) -> Animation:
    """Animate a plan: nodes light up as they run, values appear and disappear, and a curve and a bar show the bytes.

    Parameters
    ----------
    subject : Plan, Simulation or ComputationGraph
        A graph is run without rematerialization.
    seconds : float, optional
        Duration of a loop; by default a third of a second per step plus 1.5 seconds, at least 4 and at most 30.
    steps : range, optional
        The steps to show, such as `range(0, 100)`; by default all.
    compared : sequence of Plan, Simulation or ComputationGraph, optional
        Plans to compare with; the byte and step axes are long enough for all of them. To give several animations the
        same scale and speed, compare each with all others.

    Returns
    -------
    Animation
        Notebooks display it; `save` writes it to a file. Names of nodes are shown if there are at most 12 nodes, or
        if there are at most 25 and all names fit.

    Raises
    ------
    PlanError
        If there are more than 10,000 steps or nodes.
    ScheduleError
        If `steps` contains a number that is not a step of the schedule.
    ValueError
        If `seconds` is 0 or less, or more than 600.

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> chain = ComputationGraph.from_edges([(0, 1), (1, 2)])
    >>> animation(chain, seconds=2).svg().count("animation-name")
    3
    """
    lanes = Lanes.of(subject)
    if (nodes := lanes.graph.n_nodes) > tuning.MAX_DRAWN_NODES:
        raise PlanError(
            "an animation can show at most {max_nodes:,} nodes, but the graph has {nodes:node}; make a coarser graph, "
            "such as one of layers",
            max_nodes=tuning.MAX_DRAWN_NODES,
            nodes=nodes,
        )
    steps = checked_steps(steps, lanes.trace.size)
    if len(steps) > tuning.MAX_DRAWN_STEPS:
        raise PlanError(
            "an animation can show at most {max_steps:,} steps, but there are {n_steps:,}; choose some, with "
            "steps=range(0, {max_steps}) or --steps 0:{max_steps}, or make a coarser graph, such as one of layers",
            max_steps=tuning.MAX_DRAWN_STEPS,
            n_steps=len(steps),
        )
    if seconds is not None and not 0 < seconds <= tuning.MAX_SECONDS:
        wrong = "seconds is {seconds}; give a number above 0 and at most {longest}"
        raise about("seconds", ArgumentError(wrong, seconds=seconds, longest=tuning.MAX_SECONDS))
    every = [lanes, *map(Lanes.of, compared)]
    top = max(1, *(max(each.simulation.peak_memory, each.limit or 0) for each in every))
    length = max(len(steps), *(each.trace.size for each in every[1:]), 1)
    lasts = min(tuning.LONGEST_CLIP, max(tuning.SHORTEST_CLIP, length / 3 + tuning.HOLD))
    return Animation(lanes, steps, lasts if seconds is None else float(seconds), top, length)


def node_changes(lanes: Lanes, steps: range) -> Changes:
    """Return for each node the (place, state) of its changes; a state is `EMPTY` or an index into `STATES`."""
    spans: list[list[tuple[int, int, int]]] = [[] for _ in range(lanes.graph.n_nodes)]
    for v, begin, end, kind in zip(*(column.tolist() for column in lanes.lives[1:]), strict=True):
        if end > steps.start and begin < steps.stop:
            spans[v].append((begin, end, kind))
    return [_changes(each, steps) for each in spans]


def _changes(spans: list[tuple[int, int, int]], steps: range) -> list[tuple[int, int]]:
    """Return the (place, state) changes of a node, given by the latest of its live instances (begin, end, state)."""
    inside = {step for begin, end, _ in spans for step in (begin, end) if steps.start < step < steps.stop}
    states: list[tuple[int, int]] = []
    # Max-heap by begin, then by state; expired instances are popped lazily.
    live: list[tuple[int, int, int]] = []
    coming = sorted(spans, reverse=True)
    for step in sorted({steps.start, *inside}):
        while coming and coming[-1][0] <= step:
            begin, end, state = coming.pop()
            heappush(live, (-begin, -state, end))
        while live and live[0][2] <= step:
            heappop(live)
        state = -live[0][1] if live else EMPTY
        if not states or state != states[-1][1]:
            states.append((step - steps.start, state))
    return states


def states_at(changes: Changes, place: int) -> NDArray[np.int64]:
    """int64[n]: the state of every node at a place."""
    return np.array([[state for at, state in each if at <= place][-1] for each in changes], np.int64)


class _PixelPlaces:
    """Pixel positions of nodes and edges, and names that fit. The line y = `border` is above the backward part."""

    def __init__(self, graph: ComputationGraph) -> None:
        placed, labels = layout(graph), graph.labels
        pieces = np.concatenate([placed.inside.reshape(-1, 2, 2), placed.across.reshape(-1, 2, 2)])[..., ::-1]
        points = placed.points[:, ::-1]
        every = np.concatenate([points, pieces.reshape(-1, 2), np.zeros((1, 2))])
        low, high = every.min(axis=0), np.maximum(every.max(axis=0), every.min(axis=0) + 1)
        # A layer is at most 90 pixels wide.
        scale = np.minimum(np.array([WIDTH - 70 - 4 * GAP, GRAPH_HEIGHT - 4 * GAP]) / (high - low), 90)
        shift = np.array([GAP + (WIDTH - 70) / 2, GRAPH_HEIGHT / 2]) - scale * (low + high) / 2
        apart = scale * np.array([1.0, placed.apart if np.isfinite(placed.apart) else 1.0])
        self.points, self.pieces = shift + scale * points, shift + scale * pieces
        self.radius = float(np.clip(0.36 * apart.min(), 1.5, 12))
        letters = int(scale[0] / 6.4)
        named = len(points) <= tuning.MAX_NAMES and letters >= 3 and apart[1] >= 2 * self.radius + LINE // 2
        if not named and len(points) <= tuning.ALWAYS_NAMED:
            named, letters = True, max(3, letters)
            self.radius = float(np.clip((apart[1] - 14) / 2, 1.5, self.radius))
        self.names = [shortened(labels[v], letters) for v in range(len(points))] if named else []
        y, forward = self.points[:, 1], graph.forward
        self.border = None if forward.all() else float(y[forward].max(initial=0) + y[~forward].min()) / 2


def _svg(animated: Animation) -> str:
    """Return the SVG text. All ids begin with the id of the root, so that one page can show several animations.

    Colours are attributes, for programs that ignore style sheets; keyframes and dark mode use CSS variables.
    """
    lanes, order, peak = animated.lanes, animated.order, animated.peak
    inks, m = INKS["light"], len(animated.steps)
    drawing, changes = _PixelPlaces(lanes.graph), node_changes(lanes, animated.steps)
    share = 1 - min(tuning.HOLD, animated.seconds / 4) / animated.seconds
    digits = 2 if animated.length < 4000 else 4
    places = [f"{100 * share * place / animated.length:.{digits}f}%" for place in range(animated.length + 1)]
    # `EMPTY` is -1, so the last rule is that of nodes without a live value.
    inks_of = [*(f"fill:var(--{name[0]})" for name in STATES), "fill:var(--p)"]
    moves = ["".join(f"{places[at]}{{{inks_of[state]}}}" for at, state in each) for each in changes]
    heights = (CURVE * animated.trace / animated.top).tolist()
    top = max([*heights, 0]) or 1.0
    rises = [(place, each) for place, each in enumerate(heights) if not place or each != heights[place - 1]]
    bar = "".join(f"{places[place]}{{transform:scaleY({each / top:.3f})}}" for place, each in rises)
    points = [f"{x:.1f}px,{y:.1f}px" for x, y in drawing.points.tolist()]
    ring = "".join(f"{places[at]}{{transform:translate({points[v]})}}" for at, v in enumerate(order))
    heading = "; ".join(lanes.title)
    looks = moves, bar, ring, points, heading, animated.seconds, animated.top, animated.length
    root = "r" + hashlib.sha256(repr(looks).encode()).hexdigest()[:5]
    rules = [f"@keyframes {root}n{v}{{{each}}}" for v, each in enumerate(moves)]
    rules += [f"@keyframes {root}b{{{bar}}}", f"@keyframes {root}r{{{ring}}}"]
    edges = "".join(f"M{a:.0f} {b:.0f}L{c:.0f} {d:.0f}" for (a, b), (c, d) in drawing.pieces.tolist())
    # Join a line to the previous one if it starts where that one ends.
    edges = re.sub(r"L(-?\d+ -?\d+)M\1(?=L)", r"L\1", edges)
    curve = "".join(f"H{_step_at(animated, place):.1f}V{BASE - each:.1f}" for place, each in rises)
    body = "\n".join(
        [
            _dots(lanes.graph, drawing, states_at(changes, peak), root, order[peak] if m else -1),
            _words_of(animated, drawing, root),
            *_marks(animated, drawing.border),
        ]
    )
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    area = f'class="c" fill="{inks["span"]}" stroke="{inks["kept"]}" clip-path="url(#{root}c)"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" id="{root}" {size} role="img" font-family="system-ui,sans-serif">
<title>{escape(heading)}</title>
<style>{_style(root, animated, places)}{"".join(rules)}</style>
<rect width="{WIDTH}" height="{HEIGHT}" class="p" fill="{inks["paper"]}"/>
<path d="{edges}" class="e" fill="none" stroke="{inks["edge"]}" stroke-width=".7"/>
{"".join(_axes(animated))}
<clipPath id="{root}c"><rect x="{LEFT}" y="0" width="{ACROSS}" height="{HEIGHT}" class="w"/></clipPath>
<path d="M{LEFT} {BASE}{curve}H{_step_at(animated, m):.1f}V{BASE}Z" {area}/>
<rect x="{WIDTH - 40}" y="{BASE - top:.1f}" width="18" height="{top:.1f}" class="k b" fill="{inks["kept"]}"/>
{body}
</svg>
"""


def _step_at(animated: Animation, place: float) -> float:
    return LEFT + ACROSS * place / animated.length


def _axes(animated: Animation) -> Iterator[str]:
    lines = ""
    for tick in byte_ticks(animated.top, 4):
        y = BASE - CURVE * tick / animated.top
        lines += f"M{LEFT} {y:.1f}H{WIDTH - 22}"
        yield _text(LEFT - 5, y + 4, format_bytes(tick), "end", 11)
    yield f'<path d="{lines}" class="e" fill="none" stroke="{INKS["light"]["edge"]}" stroke-width=".5"/>'
    sizes = (digit * 10**power for power in range(9) for digit in (1, 2, 5))
    apart = next(size for size in sizes if animated.length <= 12 * size)
    for place in range(0, animated.length, apart):
        x = _step_at(animated, place + 0.5)
        if x < LEFT + ACROSS - 42:
            yield _text(x, BASE + GAP, str(animated.steps.start + place), "middle", 11)
    yield _text(LEFT + ACROSS, BASE + GAP, "step", "end", 11)


def _marks(animated: Animation, border: float | None) -> Iterator[str]:
    lanes, inks, row = animated.lanes, INKS["light"], BASE + 3 * LINE
    now, ink = inks["now"], inks["ink"]
    entries = [(f'<rect y="-5" width="10" height="10" class="k" fill="{inks["kept"]}"/>', "live now")]
    if animated.trace.size:
        x, y = _step_at(animated, animated.peak + 0.5), BASE - CURVE * animated.trace.max() / animated.top
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" class="n" fill="{now}"/>'
        dot = f'<circle cx="5" cy="0" r="3.5" class="n" fill="{now}"/>'
        entries.append((dot, f"peak {format_bytes(int(animated.trace.max()))}"))
    if lanes.limit is not None:
        y = BASE - CURVE * lanes.limit / animated.top
        dashed = f'class="t" stroke="{now}" stroke-dasharray="6 3"'
        yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - GAP}" {dashed}/>'
        entries.append((f'<path d="M-2 0H14" {dashed}/>', f"budget {format_bytes(lanes.limit)}"))
    if border is not None:
        dotted = f'class="o" stroke="{ink}" stroke-dasharray="2 3"'
        begins = next((place for place, v in enumerate(animated.order) if not lanes.graph.forward[v]), None)
        turn = "" if begins is None else f"M{_step_at(animated, begins):.1f} {BASE}V{BASE - CURVE - 6}"
        yield f'<path d="M{GAP} {border:.1f}H{WIDTH - GAP}{turn}" fill="none" {dotted}/>'
        yield _text(WIDTH - GAP, border - 6, "forward", "end", 12) + _text(
            WIDTH - GAP, border + 15, "backward", "end", 12
        )
        entries.append((f'<path d="M-2 0H14" {dotted}/>', "backward begins"))
    yield from _legend(entries, row)
    shape = '<circle cx="5" cy="0" r="5" class="{} {}" fill="{}" stroke="{}" stroke-width="{}"/>'
    nodes = [(shape.format(name[0], "d", inks[name], inks["edge"], 1), word) for name, word in LEGEND.items()]
    if not lanes.simulation.schedule.loads.size:
        del nodes[list(LEGEND).index("loaded")]
    nodes.append((shape.format("p", "r", inks["paper"], now, 3), "runs now"))
    yield from _legend(nodes, row + LINE)


def _legend(entries: Iterable[tuple[str, str]], y: int) -> Iterator[str]:
    x = GAP
    for mark, word in entries:
        yield f'<g transform="translate({x} {y - 4})">{mark}</g>' + _text(x + 18, y, word)
        x += 7 * len(word) + 42


def _text(x: float, y: float, word: str, anchor: str = "", size: int = 13) -> str:
    at = f' text-anchor="{anchor}"' if anchor else ""
    ink = INKS["light"]["ink"]
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" class="i" fill="{ink}"{at}>{escape(word)}</text>'


def _dots(graph: ComputationGraph, drawing: _PixelPlaces, states: NDArray[np.int64], root: str, ringed: int) -> str:
    inks, labels = INKS["light"], graph.labels
    groups = []
    for state, name in ((EMPTY, "paper"), *enumerate(STATES)):
        dots = []
        for v in np.flatnonzero(states == state).tolist():
            x, y = drawing.points[v]
            at = f'cx="{x:.1f}" cy="{y:.1f}" r="{drawing.radius:.1f}"'
            title = f"<title>{escape(shortened(labels[v]))}</title>"
            dots.append(f'<circle {at} style="animation-name:{root}n{v}">{title}</circle>')
        if dots:
            groups.append(f'<g class="{name[0]}" fill="{inks[name]}">{"".join(dots)}</g>')
    ring = ""
    if ringed >= 0:
        look = f'class="r" fill="none" pointer-events="none" stroke="{inks["now"]}" stroke-width="4"'
        x, y = drawing.points[ringed]
        ring = f'<circle r="{drawing.radius:.1f}" {look} transform="translate({x:.1f} {y:.1f})"/>'
    return f'<g class="d" stroke="{inks["edge"]}">{"".join(groups)}</g>{ring}'


def _words_of(animated: Animation, drawing: _PixelPlaces, root: str) -> str:
    labels, ink, y = animated.lanes.graph.labels, INKS["light"]["ink"], BASE + 2 * LINE - 4
    named = zip(drawing.names, drawing.points.tolist(), strict=False)
    below = drawing.radius + 12
    names = "".join(_text(x, at + below, name, "middle", 11) for name, (x, at) in named)
    if not 0 < len(animated.steps) <= tuning.MAX_CAPTIONS:
        return names
    lines = "".join(
        f'<tspan x="{GAP}" dy="{LINE}">{step}: {escape(shortened(labels[v], 24))}</tspan>'
        for step, v in zip(animated.steps, animated.order, strict=True)
    )
    window = f'<clipPath id="{root}v"><rect x="0" y="{BASE + LINE}" width="{WIDTH}" height="{LINE}"/></clipPath>'
    strip = f'<text x="{GAP}" y="{y - LINE}" font-size="13" class="i" fill="{ink}">{lines}</text>'
    moved = f'<g class="s" transform="translate(0 -{LINE * animated.peak})">{strip}</g>'
    shown = f'<g clip-path="url(#{root}v)" transform="translate(32)">{moved}</g>'
    return f"{names}\n{window}{_text(GAP, y, 'step')}{shown}"


def _style(root: str, animated: Animation, places: list[str]) -> str:
    def colours(scheme: str) -> str:
        return f"#{root}{{" + "".join(f"--{name[0]}:{colour};" for name, colour in INKS[scheme].items()) + "}"

    def styled(rules: dict[str, str]) -> str:
        return "".join(f"#{root} {name}{{{rule}}}" for name, rule in rules.items())

    fills = {f".{name}": f"fill:var(--{name})" for name in "pikagln"}
    strokes = {f".{name}": f"stroke:var(--{ink})" for name, ink in ("ee", "de", "rn", "tn", "oi", "ck")}
    dark = styled(fills) + styled(strokes) + styled({".c": "fill:var(--s)"})
    loop = f"{animated.seconds:g}s"
    moves = {
        ".d circle": f"animation:{loop} step-end infinite",
        ">.r": f"animation:{root}r {loop} step-end infinite",
        ".b": f"animation:{root}b {loop} step-end infinite;transform-origin:0 100%;transform-box:fill-box",
        ".w": f"animation:{root}w {loop} linear infinite;transform-origin:0 0;transform-box:fill-box",
    }
    frames = [f"@keyframes {root}w{{0%{{transform:scaleX(0)}}{places[-1]},100%{{transform:scaleX(1)}}}}"]
    m = len(animated.steps)
    if 1 < m <= tuning.MAX_CAPTIONS:
        moves[".s"] = f"animation:{root}s {loop} steps({m - 1}) infinite"
        last = f"{places[m - 1]},100%{{transform:translateY(-{LINE * (m - 1)}px)}}"
        frames.append(f"@keyframes {root}s{{0%{{transform:translateY(0)}}{last}}}")
    # !important, because the `animation` shorthand resets the play state in rules that may be more specific.
    motion = styled(moves) + f"#{root}:hover *{{animation-play-state:paused!important}}"
    return (
        f"{colours('light')}@media(prefers-color-scheme:dark){{{colours('dark')}{dark}}}"
        f"@media(prefers-reduced-motion:no-preference){{{motion}}}{''.join(frames)}"
    )
