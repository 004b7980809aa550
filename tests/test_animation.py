"""Plans that move: the state of every node at every step, SVG, GIF, mp4, and the command."""

import itertools
import re
import shutil
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image

import remat_algos as ra
from remat_algos.errors import BackendError, PlanError
from remat_algos.plot.stepping import animation as module
from remat_algos.plot.stepping.animation import animation
from remat_algos.plot.stepping.frames import EMPTY, Frames
from tests.small_graphs import small_graphs


@pytest.fixture(scope="module")
def plan():
    return ra.solve(ra.differentiate(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(9)])), "60%")


def states_of(simulation, step):
    """By the definition: of each node the role of the latest made of its live instances."""
    lives, found = simulation.lifetimes, np.full(simulation.graph.n_nodes, EMPTY)
    live = (lives.made_at <= step) & (step < lives.end)
    for i in sorted(np.flatnonzero(live), key=lambda i: (lives.made_at[i], min(simulation.instance_role[i], 3))):
        found[simulation.graph.producer[lives.value[i]]] = min(simulation.instance_role[i], 3)
    return found


@pytest.mark.parametrize(("name", "graph"), list(small_graphs(12, 8, 16)))
def test_every_state_is_that_of_the_live_values(name, graph):
    simulation = ra.solve(graph, "least", effort="fast").simulation
    frames = Frames(simulation)
    for step in range(len(simulation.schedule)):
        assert frames.states(step).tolist() == states_of(simulation, step).tolist()
    assert all(changes[0][0] == 0 for changes in frames.changes)
    assert all(a[1] != b[1] for changes in frames.changes for a, b in itertools.pairwise(changes))


def test_svg_is_sound_small_and_alone_on_its_page(plan):
    text = animation(plan, seconds=6).svg()
    root = ET.fromstring(text)
    assert root.get("role") == "img"
    assert len(root.findall(".//{*}g[@class='nodes']/{*}circle")) == plan.graph.n_nodes
    assert "prefers-reduced-motion" in text
    assert "prefers-color-scheme:dark" in text
    assert f"budget {plan.limit} B" in text
    name = root.get("id")
    assert all(found.startswith(name) for found in re.findall(r"@keyframes (\w+)", text))
    assert text.count("@keyframes") == plan.graph.n_nodes + 2
    other = ET.fromstring(animation(plan.graph).svg())
    assert other.get("id") != name
    assert animation(plan, seconds=6).svg() == text


def test_every_run_lights_up(plan):
    text = animation(plan).svg()
    frames = len(plan.schedule) + module.END_FRAMES
    for step, v in enumerate(plan.schedule.order.tolist()):
        keyframes = re.search(rf"@keyframes \w{{7}}n{v}\{{(.*?\}})\}}", text)[1]
        assert re.search(rf"{100 * step / frames:.2f}%\{{fill:var\(--\w+\);stroke:var\(--now\)", keyframes)


def test_of_a_network_the_svg_has_60_kilobytes_at_most():
    graph = ra.differentiate(ra.models.build("unet").graph)
    assert len(animation(ra.solve(graph, "50%", effort="fast")).svg().encode()) <= 60_000


def test_a_gif_has_a_frame_for_each_step(plan, tmp_path):
    file = tmp_path / "plan.gif"
    animation(plan).save(file)
    with Image.open(file) as image:
        assert image.n_frames == len(plan.schedule)
        assert image.info["loop"] == 0
        frames = []
        for i in range(image.n_frames):
            image.seek(i)
            frames.append(np.asarray(image.convert("RGB")))
    assert all((a != b).any() for a, b in itertools.pairwise(frames))
    assert (frames[0][5, 5] == 255).all()


def test_a_gif_of_a_long_schedule_has_fewer_frames_and_takes_its_time(tmp_path, monkeypatch):
    graph = ra.differentiate(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(60)]))
    simulation = ra.simulate(graph, range(graph.n_nodes))
    monkeypatch.setattr(module, "MAX_FRAMES", 20)
    moving = animation(simulation, seconds=3.14)
    steps = module._drawn_steps(moving)
    assert len(steps) <= 22
    assert {0, simulation.peak_step, graph.n_nodes - 1} <= set(steps)
    moving.save(tmp_path / "long.gif")
    with Image.open(tmp_path / "long.gif") as image:
        assert image.n_frames == len(steps)
        lasting = 0
        for i in range(image.n_frames):
            image.seek(i)
            lasting += image.info["duration"]
    assert lasting == 3140


@pytest.mark.parametrize("name", ["$x_$", "a$b$", "名", "<b>&", "x" * 300])
def test_any_name_is_drawn(name, tmp_path):
    moving = animation(ra.ComputationGraph.from_edges([(name, "z")]))
    moving.save(tmp_path / "named.gif")
    ET.fromstring(moving.svg())


@pytest.mark.parametrize("n_nodes", [0, 1])
def test_the_smallest_graphs(n_nodes, tmp_path):
    graph = ra.ComputationGraph.from_arrays(
        read_indptr=np.zeros(n_nodes + 1, np.int64),
        read_indices=[],
        memory=np.ones(n_nodes, np.int64),
        compute=np.ones(n_nodes, np.int64),
    )
    moving = animation(graph)
    ET.fromstring(moving.svg())
    if n_nodes:
        moving.save(tmp_path / "one.gif")
        return
    with pytest.raises(PlanError, match="without a step has no frames"):
        moving.save(tmp_path / "none.gif")


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_an_mp4_is_written(plan, tmp_path):
    animation(plan).save(tmp_path / "plan.mp4")
    assert (tmp_path / "plan.mp4").read_bytes()[4:8] == b"ftyp"


def test_what_cannot_be_drawn_is_refused(plan, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="the ending is no format of animations"):
        animation(plan).save(tmp_path / "plan.png")
    with pytest.raises(ValueError, match="seconds is 0; give a number above 0"):
        animation(plan, seconds=0)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(BackendError, match="mp4 needs the program ffmpeg"):
        animation(plan).save(tmp_path / "plan.mp4")
    monkeypatch.setattr(module, "MAX_STEPS", 5)
    with pytest.raises(PlanError, match="5 steps at most, and this schedule"):
        animation(plan)
    assert list(tmp_path.iterdir()) == []


def test_the_command_draws_a_plan_or_a_graph(remat, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.csv").write_text("src,dst\na,b\nb,c\nc,d\n")
    remat("solve", "net.csv", "--budget", "least", "-o", "plan.json")
    assert "a round" in remat("animate", "net.csv", "plan.json").out
    record = remat("animate", "net.csv", "-o", "all.svg", "--seconds", "5", "--json").record
    assert record == {"written": "all.svg", "bytes": (tmp_path / "all.svg").stat().st_size, "seconds": 5.0}
    assert (tmp_path / "plan.svg").read_text() != (tmp_path / "all.svg").read_text()
    for words, said in (
        (("-o", "x.png"), "-o x.png: the ending is no format of animations; use .svg, .gif, .mp4"),
        (("--seconds", "0"), "--seconds 0.0: give a number above 0, 600 at most"),
    ):
        failed = remat("animate", "net.csv", *words)
        assert failed.code != 0
        assert said in " ".join(failed.err.split())
