"""Animations of schedules: nodes light up as they run, values appear and disappear, a bar shows the bytes."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from remat_algos.arguments import checked_arguments
from remat_algos.errors import BackendError, PlanError
from remat_algos.files import write_whole
from remat_algos.plot.axes import label
from remat_algos.plot.colours import INKS
from remat_algos.plot.stepping.frames import EMPTY, Frames
from remat_algos.plot.subject import Subject, headline, simulated
from remat_algos.schedule.step_rows import checked_steps
from remat_algos.text.units import format_bytes
from remat_algos.text.wording import counted, quoted, shortened, shortened_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = (".svg", ".gif", ".mp4")
MAX_STEPS = MAX_NODES = 10_000
MAX_FRAMES, FRAMES_A_SECOND = 400, 25  # of GIF and mp4: longer schedules have one for every few steps
SHORTEST, LONGEST, HOLD = 4.0, 30.0, 1.5  # seconds of a loop by default, and for which its end is held
MAX_SECONDS = 600  # as long as a frame of a GIF may last
NAMED, CAPTIONED = 25, 400  # nodes that have names, and steps that have captions in SVG
WIDTH, GRAPH, CURVE, GAP, LINE = 640, 300, 110, 14, 20  # pixels
LAYER, LETTER = 90, 5.8  # pixels: the widest layer, and a letter of a name
BASE = GRAPH + CURVE + GAP  # the lower edge of the curve; below it a line for the step, and one for the legend
HEIGHT = BASE + 2 * LINE + GAP // 2
ACROSS = WIDTH - 70  # the width of graph and curve, beside the bar
STATES = ("kept", "again", "grad", "loaded")
LEGEND = (
    ("kept", "first run"),
    ("again", "recomputed"),
    ("grad", "gradient"),
    ("loaded", "loaded"),
    ("now", "runs now"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Animation:
    """An animated schedule, as SVG, GIF or mp4.

    Parameters
    ----------
    frames : Frames
    seconds : float
        Duration of a loop.
    heading : str
        Its title: graph, peak and budget.
    """

    frames: Frames
    seconds: float
    heading: str

    def svg(self) -> str:
        """SVG that moves by itself, follows light and dark, and shows the peak step under prefers-reduced-motion."""
        return _svg(self)

    _repr_svg_ = svg

    @checked_arguments
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file, whole or not at all.

        Parameters
        ----------
        path : path
            The ending selects the format: svg, gif or mp4.

        Raises
        ------
        ValueError
            If the ending is another.
        PlanError
            For gif and mp4, without a step.
        BackendError
            For mp4, without the program ffmpeg.
        """
        kind = animation_format(path)
        if kind == ".svg":
            data = self.svg().encode()
        elif not self.frames.steps:
            raise PlanError("a schedule without a step has no frames; write .svg")
        else:
            images = _images(self)
            data = _gif(images, self) if kind == ".gif" else _mp4(images, self)
        write_whole(Path(path), data)


def animation_format(path: str | os.PathLike[str]) -> str:
    """The format that a path names: one of `KINDS`; for mp4, ffmpeg is there."""
    kind = Path(path).suffix.lower()
    if kind not in KINDS:
        raise ValueError(f"{shortened_path(path)}: not an animation format; use one of {', '.join(KINDS)}")
    if kind == ".mp4" and shutil.which("ffmpeg") is None:
        raise BackendError("mp4 needs the program ffmpeg, which is not installed; install it, or write .svg or .gif")
    return kind


@checked_arguments
def animation(subject: Subject, *, seconds: float | None = None, steps: range | None = None) -> Animation:
    """Animate a plan: nodes light up as they run, values appear and disappear, and a curve and a bar show the bytes.

    Parameters
    ----------
    subject : Plan, Simulation or ComputationGraph
        A graph is run without rematerialization.
    seconds : float, optional
        Duration of a loop; by default a third of a second for each step and 1.5 for the end, within 4 and 30.
    steps : range, optional
        The steps to show, such as `range(0, 100)`; by default all.

    Returns
    -------
    Animation
        Notebooks show it; `save` writes .svg, .gif or .mp4. At most 25 nodes have names.

    Raises
    ------
    PlanError
        If there are more than 10,000 steps or nodes.
    ScheduleError
        If `steps` are not steps of the schedule.
    ValueError
        If `seconds` is not above 0, or above 600.

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> chain = ComputationGraph.from_edges([(0, 1), (1, 2)])
    >>> animation(chain, seconds=2).svg().count("animation-name")
    3
    """
    simulation, limit = simulated(subject)
    if (nodes := simulation.graph.n_nodes) > MAX_NODES:
        raise PlanError(
            f"an animation has {MAX_NODES:,} nodes at most, and the graph {counted(nodes, 'node')}; "
            "make a coarser graph, such as one of layers"
        )
    steps = checked_steps(steps, len(simulation.schedule))
    if len(steps) > MAX_STEPS:
        raise PlanError(
            f"an animation has {MAX_STEPS:,} steps at most, and these are {len(steps):,}; choose some, "
            f"steps=range(0, {MAX_STEPS}) or --steps 0:{MAX_STEPS}, or make a coarser graph, such as one of layers"
        )
    if seconds is not None and not 0 < seconds <= MAX_SECONDS:
        raise ValueError(f"seconds is {shortened(seconds)}; give a number above 0, {MAX_SECONDS} at most")
    lasts = min(LONGEST, max(SHORTEST, len(steps) / 3 + HOLD)) if seconds is None else float(seconds)
    heading = "; ".join(headline(simulation, limit))
    return Animation(Frames(simulation, limit, steps), lasts, heading)


@dataclass(frozen=True, slots=True, eq=False)
class _PixelPlaces:
    """Pixels: float64[n, 2] of nodes, float64[k, 2, 2] of edges, radius of nodes; their names if there is room."""

    points: NDArray[np.float64]
    pieces: NDArray[np.float64]
    radius: float
    names: tuple[str, ...]


def _drawing(frames: Frames) -> _PixelPlaces:
    """Layers from left to right, in the middle of their room."""
    placed = frames.placed
    pieces = np.concatenate([placed.inside.reshape(-1, 2, 2), placed.across.reshape(-1, 2, 2)])[..., ::-1]
    points = placed.points[:, ::-1]
    every = np.concatenate([points, pieces.reshape(-1, 2), np.zeros((1, 2))])
    low, high = every.min(axis=0), np.maximum(every.max(axis=0), every.min(axis=0) + 1)
    room = np.array([ACROSS - 4 * GAP, GRAPH - 4 * GAP])
    scale = np.minimum(room / (high - low), LAYER)
    middle = np.array([GAP + ACROSS / 2, GRAPH / 2])
    apart = scale * np.array([1.0, placed.apart if np.isfinite(placed.apart) else 1.0])
    radius = float(np.clip(0.36 * apart.min(), 1.5, 12))
    labels, names = frames.simulation.graph.labels, tuple[str, ...]()
    letters = int(scale[0] / LETTER)
    if len(points) <= NAMED and letters >= 3 and apart[1] >= 2 * radius + LINE // 2:
        names = tuple(shortened(labels[v], letters) for v in range(len(points)))
    shift = middle - scale * (low + high) / 2
    return _PixelPlaces(shift + scale * points, shift + scale * pieces, radius, names)


def _legend(frames: Frames) -> list[tuple[int, str, str]]:
    """(x, name of a colour, word) of the kinds of nodes."""
    at, found = GAP + 6, []
    for name, word in LEGEND:
        if name != "loaded" or frames.simulation.schedule.loads.size:
            found.append((at, name, word))
            at += 7 * len(word) + 34
    return found


def _hold(animated: Animation) -> float:
    """Seconds for which the end is held."""
    return min(HOLD, animated.seconds / 4)


# ---------------------------------------------------------------- SVG


def _svg(animated: Animation) -> str:
    """The whole text; all names begin with that of its root, so that several can stand on one page.

    Colours are plain attributes, for programs without style sheets; keyframes and dark pages use variables.
    """
    frames, inks = animated.frames, INKS["light"]
    m, drawing, graph = len(frames.steps), _drawing(frames), frames.simulation.graph
    share = 1 - _hold(animated) / animated.seconds
    places = [f"{100 * share * place / max(m, 1):.{2 if m < 4000 else 4}f}%" for place in range(m + 1)]
    runs: list[list[int]] = [[] for _ in range(graph.n_nodes)]
    for place, v in enumerate(frames.order):
        runs[v].append(place)
    ringed = frames.order[frames.peak] if m else -1
    moves = [
        _keyframes(changes, ran, places, v == ringed)
        for v, (changes, ran) in enumerate(zip(frames.changes, runs, strict=True))
    ]
    heights = (CURVE * frames.trace / frames.top).tolist()
    top = max([*heights, 0]) or 1.0
    rises = [(place, each) for place, each in enumerate(heights) if not place or each != heights[place - 1]]
    bar = "".join(f"{places[place]}{{transform:scaleY({each / top:.3f})}}" for place, each in rises)
    points = [f"{x:.1f} {y:.1f}" for x, y in drawing.points.tolist()]
    root = "r" + hashlib.sha256(repr((moves, bar, points, animated.heading, animated.seconds)).encode()).hexdigest()[:5]
    rules = [f"@keyframes {root}n{v}{{{each}}}" for v, each in enumerate(moves)] + [f"@keyframes {root}b{{{bar}}}"]
    edges = "".join(f"M{a:.0f} {b:.0f}L{c:.0f} {d:.0f}" for (a, b), (c, d) in drawing.pieces.tolist())
    curve = "".join(f"V{BASE - each:.1f}H{GAP + ACROSS * (place + 1) / m:.1f}" for place, each in enumerate(heights))
    peak = f"peak {format_bytes(int(frames.trace.max(initial=0)))}"
    extras = [_dots(frames, drawing, root, ringed), _words_of(frames, drawing, root)]
    if m:
        x = GAP + ACROSS * (frames.peak + 0.5) / m
        extras.append(f'<circle cx="{x:.1f}" cy="{BASE - top:.1f}" r="3.5" class="n" fill="{inks["now"]}"/>')
    if frames.limit is not None:
        y = BASE - CURVE * frames.limit / frames.top
        extras.append(
            f'<path d="M{GAP} {y:.1f}H{WIDTH - GAP}" class="t" stroke="{inks["now"]}" stroke-dasharray="6 3"/>'
        )
        peak += f"; budget {format_bytes(frames.limit)}"
    for at, name, word in _legend(frames):
        extras.append(f'<circle cx="{at}" cy="{HEIGHT - 12}" r="5" class="{name[0]}" fill="{inks[name]}"/>')
        extras.append(_text(at + 9, HEIGHT - 8, word))
    extras.append(_text(WIDTH - GAP, BASE + LINE - 3, peak, "end"))
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    body = "\n".join(extras)
    area = f'class="c" fill="{inks["span"]}" stroke="{inks["kept"]}" clip-path="url(#{root}c)"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" id="{root}" {size} role="img" font-family="system-ui,sans-serif">
<title>{escape(animated.heading)}</title>
<style>{_style(root, animated, places)}{"".join(rules)}</style>
<rect width="{WIDTH}" height="{HEIGHT}" class="p" fill="{inks["paper"]}"/>
<path d="{edges}" class="e" fill="none" stroke="{inks["edge"]}" stroke-width=".7"/>
<clipPath id="{root}c"><rect x="{GAP}" y="0" width="{ACROSS}" height="{HEIGHT}" class="w"/></clipPath>
<path d="M{GAP} {BASE}{curve}V{BASE}Z" {area}/>
<rect x="{WIDTH - 40}" y="{BASE - top:.1f}" width="18" height="{top:.1f}" class="k b" fill="{inks["kept"]}"/>
{body}
</svg>
"""


def _text(x: float, y: float, word: str, anchor: str = "", size: int = 13) -> str:
    at = f' text-anchor="{anchor}"' if anchor else ""
    ink = INKS["light"]["ink"]
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" class="i" fill="{ink}"{at}>{escape(word)}</text>'


def _dots(frames: Frames, drawing: _PixelPlaces, root: str, ringed: int) -> str:
    """The nodes, by their states at the peak."""
    inks, states, labels = INKS["light"], frames.states(frames.peak), frames.simulation.graph.labels
    groups = []
    for state, name in ((EMPTY, "paper"), *enumerate(STATES)):
        dots = []
        for v in np.flatnonzero(states == state).tolist():
            x, y = drawing.points[v]
            ring = f' class="r" stroke="{inks["now"]}" stroke-width="4"' if v == ringed else ""
            at = f'cx="{x:.1f}" cy="{y:.1f}" r="{drawing.radius:.1f}"'
            title = f"<title>{escape(shortened(labels[v]))}</title>"
            dots.append(f'<circle {at}{ring} style="animation-name:{root}n{v}">{title}</circle>')
        if dots:
            groups.append(f'<g class="{name[0]}" fill="{inks[name]}">{"".join(dots)}</g>')
    return f'<g class="d" stroke="{inks["edge"]}">{"".join(groups)}</g>'


def _words_of(frames: Frames, drawing: _PixelPlaces, root: str) -> str:
    """Names of nodes, and a strip of captions of the steps, of which a window shows one line."""
    labels, ink, y = frames.simulation.graph.labels, INKS["light"]["ink"], BASE + LINE - 3
    named = zip(drawing.names, drawing.points.tolist(), strict=False)
    below = drawing.radius + 12
    found = "".join(_text(x, at + below, name, "middle", 10) for name, (x, at) in named)
    if not 0 < len(frames.steps) <= CAPTIONED:
        return found
    lines = "".join(
        f'<tspan x="{GAP}" dy="{LINE}">{step} {escape(shortened(labels[v], 24))}</tspan>'
        for step, v in zip(frames.steps, frames.order, strict=True)
    )
    window = f'<clipPath id="{root}v"><rect x="0" y="{BASE + 1}" width="{WIDTH // 2}" height="{LINE}"/></clipPath>'
    strip = f'<text x="{GAP}" y="{y - LINE}" font-size="13" class="i" fill="{ink}">{lines}</text>'
    moved = f'<g class="s" transform="translate(0 -{LINE * frames.peak})">{strip}</g>'
    shown = f'<g clip-path="url(#{root}v)" transform="translate(32)">{moved}</g>'
    return f"{found}\n{window}{_text(GAP, y, 'step')}{shown}"


def _keyframes(changes: list[tuple[int, int]], ran: list[int], places: list[str], ringed: bool) -> str:
    """The keyframes of a node, of properties that change: its state, and a ring in each step in which it runs."""
    fills, begins = dict(changes), set(ran)
    ends = {place + 1 for place in ran} - begins
    begins -= {place + 1 for place in ran}  # the ring goes on
    if ringed and 0 not in begins:
        ends.add(0)
    found = []
    for place in sorted({*fills, *begins, *ends}):
        rules = []
        if place in fills:
            state = fills[place]
            rules.append(f"fill:var(--{'p' if state == EMPTY else STATES[state][0]})")
        if place in begins:
            rules.append("stroke:var(--n);stroke-width:4")
        elif place in ends:
            rules.append("stroke:var(--e);stroke-width:1")
        found.append(f"{places[place]}{{{';'.join(rules)}}}")
    return "".join(found)


def _style(root: str, animated: Animation, places: list[str]) -> str:
    def colours(scheme: str) -> str:
        return f"#{root}{{" + "".join(f"--{name[0]}:{colour};" for name, colour in INKS[scheme].items()) + "}"

    def styled(rules: dict[str, str]) -> str:
        return "".join(f"#{root} {name}{{{rule}}}" for name, rule in rules.items())

    fills = {f".{name}": f"fill:var(--{name})" for name in "pikagln"}
    strokes = {".e,.d": "stroke:var(--e)", ".r,.t": "stroke:var(--n)", ".c": "fill:var(--s);stroke:var(--k)"}
    dark = styled({**fills, ".e": "fill:none", **strokes})
    loop = f"{animated.seconds:g}s"
    moves = {
        ".d circle": f"animation:{loop} step-end infinite",
        ".b": f"animation:{root}b {loop} step-end infinite;transform-origin:0 100%;transform-box:fill-box",
        ".w": f"animation:{root}w {loop} linear infinite;transform-origin:0 0;transform-box:fill-box",
    }
    frames = [f"@keyframes {root}w{{0%{{transform:scaleX(0)}}{places[-1]},100%{{transform:scaleX(1)}}}}"]
    m = len(animated.frames.steps)
    if 1 < m <= CAPTIONED:
        moves[".s"] = f"animation:{root}s {loop} steps({m - 1}) infinite"
        last = f"{places[m - 1]},100%{{transform:translateY(-{LINE * (m - 1)}px)}}"
        frames.append(f"@keyframes {root}s{{0%{{transform:translateY(0)}}{last}}}")
    # The shorthand of each animation sets it running, and its selector may be more specific than that of the pause.
    motion = styled(moves) + f"#{root}:hover *{{animation-play-state:paused!important}}"
    return (
        f"{colours('light')}@media(prefers-color-scheme:dark){{{colours('dark')}{dark}}}"
        f"@media(prefers-reduced-motion:no-preference){{{motion}}}{''.join(frames)}"
    )


# ---------------------------------------------------------------- frames as images


def _drawn_places(animated: Animation) -> list[int]:
    """The places that have a frame: all, or evenly spaced ones with that of the peak and the last."""
    m = len(animated.frames.steps)
    most = max(2, min(MAX_FRAMES, int(FRAMES_A_SECOND * (animated.seconds - _hold(animated)))))
    return sorted({*range(0, m, -(-m // most)), animated.frames.peak, m - 1}) if m else []


def _images(animated: Animation) -> Iterator[Any]:
    """RGB images of the places that have a frame; the artists of one figure are changed and drawn again."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    frames, inks = animated.frames, INKS["light"]
    simulation, m, drawing = frames.simulation, len(frames.steps), _drawing(frames)
    figure: Figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100, facecolor=inks["paper"])
    canvas = FigureCanvasAgg(figure)
    ax = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(HEIGHT, 0))
    ax.axis("off")
    ax.add_collection(LineCollection(list(drawing.pieces), colors=inks["edge"], linewidths=0.6))
    dots = ax.scatter(drawing.points[:, 0], drawing.points[:, 1], s=(1.44 * drawing.radius) ** 2, zorder=2)
    for name, (x, y) in zip(drawing.names, drawing.points.tolist(), strict=False):
        ax.text(x, y + drawing.radius + 12, label(name), fontsize=7, ha="center", color=inks["ink"])
    for at, name, word in _legend(frames):
        ax.scatter([at], [HEIGHT - 12], s=50, color=inks[name])
        ax.text(at + 9, HEIGHT - 8, word, fontsize=9, color=inks["ink"])
    heights = CURVE * frames.trace / frames.top
    steps = np.repeat(np.arange(m + 1), 2)[1:-1] * ACROSS / max(m, 1) + GAP
    (line,) = ax.plot([], [], color=inks["kept"], linewidth=1)
    (bar,) = ax.bar([WIDTH - 31], [0], width=18, bottom=BASE, color=inks["kept"])
    ax.plot(
        [GAP + ACROSS * (frames.peak + 0.5) / m], [BASE - heights[frames.peak]], "o", color=inks["now"], markersize=5
    )
    if frames.limit is not None:
        ax.axhline(BASE - CURVE * frames.limit / frames.top, color=inks["now"], linestyle="--", linewidth=1)
    caption = ax.text(GAP, BASE + LINE - 3, "", fontsize=9, color=inks["ink"])
    palette = np.array([*(inks[name] for name in STATES), inks["paper"]])
    for place in _drawn_places(animated):
        v = frames.order[place]
        edge = np.full(len(drawing.points), inks["edge"])
        edge[v] = inks["now"]
        widths = np.full(len(drawing.points), 0.7)
        widths[v] = 2.5
        dots.set(facecolor=palette[frames.states(place)], edgecolor=edge, linewidth=widths)
        drawn = np.repeat(BASE - heights[: place + 1], 2)
        line.set_data(steps[: drawn.size], drawn)
        bar.set_height(-heights[place])
        name, last = label(str(simulation.graph.labels[v])), len(simulation.schedule) - 1
        caption.set_text(f"step {frames.steps[place]} of {last}: {format_bytes(int(frames.trace[place]))}, {name}")
        canvas.draw()
        yield np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _gif(images: Iterator[Any], animated: Animation) -> bytes:
    """A GIF of one palette, which does not flicker. It counts time in hundredths of a second."""
    from PIL import Image

    palette = Image.new("P", (1, 1))
    palette.putpalette(_palette())
    frames = [Image.fromarray(each).quantize(palette=palette, dither=Image.Dither.NONE) for each in images]
    ends = np.rint(100 * (animated.seconds - _hold(animated)) * np.arange(1, len(frames) + 1) / len(frames))
    ends[-1] = round(100 * animated.seconds)
    data, durations = io.BytesIO(), (10 * np.diff(ends, prepend=0)).astype(int).tolist()
    frames[0].save(data, "GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0)
    return data.getvalue()


def _palette() -> list[int]:
    """Each ink, and what lies between it and the paper at soft edges."""
    paper, *inks = (_rgb(INKS["light"][name]) for name in ("paper", "ink", "edge", "now", *STATES))
    parts = (1.0, 0.75, 0.5, 0.25)
    shades = [np.rint(paper + part * (ink - paper)) for ink in inks for part in parts]
    return [int(each) for colour in (paper, *shades) for each in colour]


def _rgb(colour: str) -> NDArray[np.float64]:
    short = colour.removeprefix("#")
    return np.array([int(short[i : i + 2], 16) for i in (0, 2, 4)], np.float64)


def _mp4(images: Iterator[Any], animated: Animation) -> bytes:
    """An mp4 by ffmpeg; its last frame is repeated for as long as the end is held."""
    import tempfile

    count = len(_drawn_places(animated))
    rate = count / (animated.seconds - _hold(animated))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "animation.mp4"
        command = ["ffmpeg", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{WIDTH}x{HEIGHT}"]
        command += ["-r", f"{rate:g}", "-i", "-", "-vf", "crop=trunc(iw/2)*2:trunc(ih/2)*2", "-pix_fmt", "yuv420p"]
        with (
            tempfile.TemporaryFile() as errors,
            subprocess.Popen([*command, str(file)], stdin=subprocess.PIPE, stdout=errors, stderr=errors) as program,
        ):
            assert program.stdin is not None
            with suppress(BrokenPipeError), program.stdin as frames:  # it ended early, and says why
                last = b""
                for each in images:
                    last = each.tobytes()
                    frames.write(last)
                for _ in range(round(rate * _hold(animated))):
                    frames.write(last)
            if program.wait():
                errors.seek(0)
                reason = errors.read().decode("utf-8", "replace").strip()
                raise BackendError(f"ffmpeg failed: {quoted(reason, 200)}; write .svg or .gif")
        return file.read_bytes()
