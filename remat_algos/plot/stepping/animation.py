"""A schedule that moves: nodes light up as they run, values appear and go, a bar shows the bytes."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
from collections.abc import Iterator
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
from remat_algos.plot.stepping.frames import EMPTY, Frames
from remat_algos.plot.subject import Subject, peak_of, simulated, size_of
from remat_algos.schedule.baseline import baseline_peak
from remat_algos.text.units import format_bytes
from remat_algos.text.wording import counted, quoted, shortened, shortened_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = (".svg", ".gif", ".mp4")
MAX_STEPS = 10_000
MAX_FRAMES, FRAMES_A_SECOND = 400, 25  # of GIF and mp4: longer schedules have one for every few steps
END_FRAMES = 12  # frames that the end is held for
LONGEST, SHORTEST = 30.0, 4.0  # seconds of a whole animation, by default
MAX_SECONDS = 600  # as long as a frame of a GIF may last
WIDTH, GRAPH, CURVE, GAP = 640, 300, 110, 14  # pixels
BASE, HEIGHT = GRAPH + CURVE + GAP, GRAPH + CURVE + 3 * GAP  # the lower edge of the curve, and of all
STATES = ("kept", "again", "grad", "loaded")
LEGEND = (("kept", "kept"), ("again", "recomputed"), ("grad", "gradient"), ("loaded", "loaded"))
INKS = {
    "light": {"paper": "#fff", "ink": "#1b1b1b", "edge": "#b5b5b5", "now": "#d55e00", "span": "#bbd8ee"}
    | {"kept": "#0072b2", "again": "#e69f00", "grad": "#2f9c7f", "loaded": "#b0608f"},
    "dark": {"paper": "#16181c", "ink": "#ececec", "edge": "#5a5e66", "now": "#ff8a4a", "span": "#274a63"}
    | {"kept": "#56b4e9", "again": "#f0b93a", "grad": "#6cc5ae", "loaded": "#d68bb8"},
}


@dataclass(frozen=True, slots=True, eq=False)
class Animation:
    """A schedule that moves, as SVG, GIF or mp4.

    Parameters
    ----------
    frames : Frames
    seconds : float
        Of one round.
    heading : str
        What it shows.
    """

    frames: Frames
    seconds: float
    heading: str

    def svg(self) -> str:
        """SVG that moves by itself, follows light and dark, and stands still at the peak where motion is unwelcome."""
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
        elif not len(self.frames.simulation.schedule):
            raise PlanError("a schedule without a step has no frames; write .svg")
        else:
            images = _images(self)
            data = _gif(images, self) if kind == ".gif" else _mp4(images, self)
        write_whole(Path(path), data)


def animation_format(path: str | os.PathLike[str]) -> str:
    """The format that a path names: one of `KINDS`; for mp4, ffmpeg is there."""
    kind = Path(path).suffix.lower()
    if kind not in KINDS:
        raise ValueError(f"{shortened_path(path)}: the ending is no format of animations; use {', '.join(KINDS)}")
    if kind == ".mp4" and shutil.which("ffmpeg") is None:
        raise BackendError("mp4 needs the program ffmpeg, which is not installed; install it, or write .svg or .gif")
    return kind


@checked_arguments
def animation(subject: Subject, *, seconds: float | None = None) -> Animation:
    """A plan that moves: nodes light up as they run, values appear and go, and a curve and a bar show the bytes.

    Parameters
    ----------
    subject : Plan, Simulation or ComputationGraph
        A graph is run without rematerialization.
    seconds : float, optional
        Of one round; by default a third of a second for each step, within 4 and 30 seconds.

    Returns
    -------
    Animation
        Notebooks show it; `save` writes .svg, .gif or .mp4.

    Raises
    ------
    PlanError
        If there are more than 10,000 steps.
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
    steps = len(simulation.schedule)
    if steps > MAX_STEPS:
        raise PlanError(
            f"an animation has {MAX_STEPS:,} steps at most, and this schedule {counted(steps, 'step')}; "
            "make a coarser graph, such as one of layers"
        )
    if seconds is not None and not 0 < seconds <= MAX_SECONDS:
        raise ValueError(f"seconds is {shortened(seconds)}; give a number above 0, {MAX_SECONDS} at most")
    lasting = min(LONGEST, max(SHORTEST, steps / 3)) if seconds is None else float(seconds)
    heading = f"{size_of(simulation)}; {peak_of(simulation, baseline_peak(simulation.graph), limit)}"
    return Animation(Frames(simulation, limit), lasting, heading)


# ---------------------------------------------------------------- SVG


def _places(frames: Frames) -> tuple[Any, Any, float]:
    """float64[n, 2] of the nodes and float64[k, 2, 2] of the edges in pixels, layers from left to right; a radius."""
    placed = frames.placed
    pieces = np.concatenate([placed.inside.reshape(-1, 2, 2), placed.across.reshape(-1, 2, 2)])[..., ::-1]
    points = placed.points[:, ::-1]
    every = np.concatenate([points, pieces.reshape(-1, 2), np.zeros((1, 2))])
    low, high = every.min(axis=0), np.maximum(every.max(axis=0), every.min(axis=0) + 1)
    room = np.array([WIDTH - 70, GRAPH - 2 * GAP])
    scale = np.minimum(room / (high - low), 46)
    corner = np.array([GAP, GAP + (room[1] - scale[1] * (high - low)[1]) / 2])
    apart = scale * np.array([1.0, placed.apart if np.isfinite(placed.apart) else 1.0])
    return corner + scale * (points - low), corner + scale * (pieces - low), float(np.clip(0.36 * apart.min(), 1.5, 9))


def _svg(moving: Animation) -> str:
    """The whole text; all names begin with that of its root, so that several can stand on one page."""
    frames = moving.frames
    simulation, m = frames.simulation, len(frames.simulation.schedule)
    whole = max(1, m + END_FRAMES)
    points, pieces, radius = _places(frames)
    runs: list[list[int]] = [[] for _ in range(simulation.graph.n_nodes)]
    for step, v in enumerate(simulation.schedule.order.tolist()):
        runs[v].append(step)
    heights = [frames.trace[step] / frames.top for step in range(m)]
    moves = [_keyframes(changes, ran, whole) for changes, ran in zip(frames.changes, runs, strict=True)]
    rises = [(step, each) for step, each in enumerate(heights) if not step or each != heights[step - 1]]
    bar = "".join(f"{100 * step / whole:.2f}%{{transform:scaleY({each:.3f})}}" for step, each in rises)
    root = "r" + hashlib.sha256("".join([*moves, bar, moving.heading, str(moving.seconds)]).encode()).hexdigest()[:6]
    rules = [f"@keyframes {root}n{v}{{{each}}}" for v, each in enumerate(moves)] + [f"@keyframes {root}bar{{{bar}}}"]
    still, circles = frames.states(max(simulation.peak_step, 0)), []
    for v, (x, y) in enumerate(points.tolist()):
        fill = f' class="{STATES[still[v]]}"' if still[v] != EMPTY else ""
        circles.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"{fill} style="animation-name:{root}n{v}"/>')
    edges = "".join(f"M{a:.0f} {b:.0f}L{c:.0f} {d:.0f}" for (a, b), (c, d) in pieces.tolist())
    wide = WIDTH - 70
    across = [GAP + wide * (step + 1) / m for step in range(m)]
    curve = "".join(f"V{BASE - CURVE * each:.1f}H{x:.1f}" for x, each in zip(across, heights, strict=True))
    peak = heights[simulation.peak_step] if m else 0
    limit = frames.limit
    line = (
        ""
        if limit is None
        else f'<path d="M{GAP} {BASE - CURVE * limit / frames.top:.1f}H{WIDTH - GAP}" class="limit"/>'
    )
    said = f"peak {format_bytes(simulation.peak_memory)}" + ("" if limit is None else f"; budget {format_bytes(limit)}")
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" id="{root}" {size} role="img">
<title>{escape(moving.heading)}</title>
<style>{_style(root, whole, m, moving.seconds)}{"".join(rules)}</style>
<rect width="{WIDTH}" height="{HEIGHT}" class="paper"/>
<path d="{edges}" class="edges"/>
<g class="nodes">{"".join(circles)}</g>
<clipPath id="{root}c"><rect x="{GAP}" y="0" width="{wide}" height="{HEIGHT}" class="grow"/></clipPath>
<path d="M{GAP} {BASE}{curve}V{BASE}Z" class="curve" clip-path="url(#{root}c)"/>
<rect x="{WIDTH - 40}" y="{BASE - CURVE}" width="18" height="{CURVE}" class="bar" style="transform:scaleY({peak:.3f})"/>
{line}{_legend(simulation.schedule.loads.size > 0)}
<text x="{GAP}" y="{HEIGHT - 8}">{escape(said)}</text>
</svg>
"""


def _legend(loads: bool) -> str:
    found, at = "", WIDTH - GAP
    for name, word in reversed([entry for entry in LEGEND if loads or entry[0] != "loaded"]):
        at -= 8 * len(word) + 24
        dot = f'<circle cx="{at}" cy="{HEIGHT - 12}" r="5" class="{name}"/>'
        found += f'{dot}<text x="{at + 9}" y="{HEIGHT - 8}">{word}</text>'
    return found


def _keyframes(changes: list[tuple[int, int]], ran: list[int], whole: int) -> str:
    """The keyframes of a node: its state, and a ring in each step in which it runs."""
    running, ending = set(ran), {step + 1 for step in ran}
    state, found = EMPTY, []
    at = dict(changes)
    for step in sorted({*at, *running, *ending}):
        state = at.get(step, state)
        fill = "paper" if state == EMPTY else STATES[state]
        ring = "stroke:var(--now);stroke-width:4" if step in running else "stroke:var(--edge);stroke-width:1"
        found.append(f"{100 * step / whole:.2f}%{{fill:var(--{fill});{ring}}}")
    return "".join(found)


def _style(root: str, whole: int, steps: int, seconds: float) -> str:
    def colours(scheme: str) -> str:
        return f"#{root}{{" + "".join(f"--{name}:{colour};" for name, colour in INKS[scheme].items()) + "}"

    rules = {
        "text": "font:13px system-ui,sans-serif;fill:var(--ink)",
        ".paper": "fill:var(--paper)",
        ".edges": "fill:none;stroke:var(--edge);stroke-width:.7",
        ".nodes circle": "fill:var(--paper);stroke:var(--edge)",
        **{f"circle.{name}": f"fill:var(--{name})" for name in STATES},
        ".curve": "fill:var(--span);stroke:var(--kept)",
        ".bar": "fill:var(--kept);transform-origin:0 100%;transform-box:fill-box",
        ".limit": "stroke:var(--now);stroke-dasharray:6 3",
        ".grow": "transform-origin:0 0;transform-box:fill-box",
    }
    moving = {
        ".nodes circle": f"animation:{seconds:g}s step-end infinite",
        ".bar": f"animation:{root}bar {seconds:g}s step-end infinite",
        ".grow": f"animation:{root}grow {seconds:g}s linear infinite",
    }
    still, motion = ("".join(f"#{root} {name}{{{rule}}}" for name, rule in some.items()) for some in (rules, moving))
    return (
        f"{colours('light')}@media(prefers-color-scheme:dark){{{colours('dark')}}}{still}"
        f"@media not (prefers-reduced-motion:reduce){{{motion}}}"
        f"@keyframes {root}grow{{0%{{transform:scaleX(0)}}{100 * steps / whole:.2f}%,100%{{transform:scaleX(1)}}}}"
    )


# ---------------------------------------------------------------- frames as images


def _drawn_steps(moving: Animation) -> list[int]:
    """The steps that have a frame: all, or evenly spaced ones with that of the peak and the last."""
    simulation = moving.frames.simulation
    m = len(simulation.schedule)
    most = max(2, min(MAX_FRAMES, int(FRAMES_A_SECOND * moving.seconds)))
    return sorted({*range(0, m, -(-m // most)), simulation.peak_step, m - 1}) if m else []


def _images(moving: Animation) -> Iterator[Any]:
    """RGB images of the steps that have a frame; the artists of one figure are changed and drawn again."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    frames, inks = moving.frames, INKS["light"]
    simulation, m = frames.simulation, len(frames.simulation.schedule)
    points, pieces, radius = _places(frames)
    figure: Figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100)
    canvas = FigureCanvasAgg(figure)
    ax = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(HEIGHT, 0))
    ax.axis("off")
    ax.add_collection(LineCollection(list(pieces), colors=inks["edge"], linewidths=0.6))
    dots = ax.scatter(points[:, 0], points[:, 1], s=(1.44 * radius) ** 2, zorder=2)
    base, wide = BASE, WIDTH - 70
    heights = CURVE * frames.trace / frames.top
    steps = np.repeat(np.arange(m + 1), 2)[1:-1] * wide / max(m, 1) + GAP
    (line,) = ax.plot([], [], color=inks["kept"], linewidth=1)
    (bar,) = ax.bar([WIDTH - 31], [0], width=18, bottom=base, color=inks["kept"])
    if frames.limit is not None:
        ax.axhline(base - CURVE * frames.limit / frames.top, color=inks["now"], linestyle="--", linewidth=1)
    words = ax.text(GAP, HEIGHT - 8, "", fontsize=9, color=inks["ink"])
    palette = np.array([*(inks[name] for name in STATES), inks["paper"]])
    for step in _drawn_steps(moving):
        v = int(simulation.schedule.order[step])
        edge = np.full(len(points), inks["edge"])
        edge[v] = inks["now"]
        widths = np.full(len(points), 0.7)
        widths[v] = 2.5
        dots.set(facecolor=palette[frames.states(step)], edgecolor=edge, linewidth=widths)
        drawn = np.repeat(base - heights[: step + 1], 2)
        line.set_data(steps[: drawn.size], drawn)
        bar.set_height(-heights[step])
        name = label(str(simulation.graph.labels[v]))
        words.set_text(f"step {step} of {m - 1}: {format_bytes(int(frames.trace[step]))}, {name}")
        canvas.draw()
        yield np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _gif(images: Iterator[Any], moving: Animation) -> bytes:
    """A GIF of one palette, which does not flicker. It counts time in hundredths of a second."""
    from PIL import Image

    palette = Image.new("P", (1, 1))
    palette.putpalette(_palette())
    frames = [Image.fromarray(each).quantize(palette=palette, dither=Image.Dither.NONE) for each in images]
    ends = np.rint(100 * moving.seconds * np.arange(1, len(frames) + 1) / (len(frames) + END_FRAMES))
    ends[-1] = round(100 * moving.seconds)
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
    whole = "".join(2 * digit for digit in short) if len(short) == 3 else short
    return np.array([int(whole[i : i + 2], 16) for i in (0, 2, 4)], np.float64)


def _mp4(images: Iterator[Any], moving: Animation) -> bytes:
    """An mp4 by ffmpeg; its last frame is repeated as that of the others lasts longer."""
    import tempfile

    drawn = [each.tobytes() for each in images]
    drawn += [drawn[-1]] * END_FRAMES
    rate = len(drawn) / moving.seconds
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "animation.mp4"
        command = ["ffmpeg", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{WIDTH}x{HEIGHT}"]
        command += ["-r", f"{rate:g}", "-i", "-", "-vf", "crop=trunc(iw/2)*2:trunc(ih/2)*2", "-pix_fmt", "yuv420p"]
        done = subprocess.run([*command, str(file)], input=b"".join(drawn), capture_output=True)
        if done.returncode:
            reason = done.stderr.decode("utf-8", "replace").strip()
            raise BackendError(f"ffmpeg writes no mp4: {quoted(reason, 200)}; write .svg or .gif")
        return file.read_bytes()
