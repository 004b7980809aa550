"""Plans that move: the state of every node at every step, SVG, GIF, mp4, and the command."""

import itertools
import os
import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import remat_algos as ra
from remat_algos.errors import BackendError, PlanError
from remat_algos.plot.colours import INKS
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
    frames = Frames(simulation, None, range(len(simulation.schedule)))
    for step in range(len(simulation.schedule)):
        assert frames.states(step).tolist() == states_of(simulation, step).tolist()
    assert all(changes[0][0] == 0 for changes in frames.changes)
    assert all(a[1] != b[1] for changes in frames.changes for a, b in itertools.pairwise(changes))


def keyframes_of(text):
    """{name: [(percent, rules)]} of all animations of a page."""
    found = re.findall(r"@keyframes r\w{5}(\w+)\{((?:[^{}]+\{[^{}]*\})*)\}", text)
    return {name: re.findall(r"([^{}]+)\{([^{}]*)\}", rules) for name, rules in found}


def test_svg_is_sound_and_alone_on_its_page(plan):
    text = animation(plan, seconds=6).svg()
    root = ET.fromstring(text)
    assert root.get("role") == "img"
    circles = root.findall(".//{*}g[@class='d']//{*}circle")
    assert sorted(circle.find("{*}title").text for circle in circles) == sorted(
        plan.graph.labels[v] for v in range(plan.graph.n_nodes)
    )
    assert "@media(prefers-reduced-motion:no-preference)" in text
    assert "prefers-color-scheme:dark" in text
    assert f"budget {plan.limit} B" in text
    # It wins over every animation's shorthand, which sets it running, whatever its selector.
    assert re.findall(r"#\w+:hover \*\{[^{}]*\}", text) == [
        f"#{root.get('id')}:hover *{{animation-play-state:paused!important}}"
    ]
    assert text.count("!important") == 1
    name = root.get("id")
    assert all(found.startswith(name) for found in re.findall(r"@keyframes (\w+)", text))
    assert len(keyframes_of(text)) == plan.graph.n_nodes + 3
    others = animation(plan.graph), animation(plan, seconds=7), animation(plan, seconds=6, steps=range(9))
    assert len({name, *(ET.fromstring(other.svg()).get("id") for other in others)}) == 4
    assert animation(plan, seconds=6).svg() == text


def test_without_style_sheets_it_has_plain_colours_and_shows_the_peak(plan):
    root = ET.fromstring(animation(plan).svg())
    assert not [each for each in root.iter() if "var(" in " ".join(each.attrib.values())]
    (ringed,) = root.findall(".//{*}circle[@class='r']")
    assert ringed.find("{*}title").text == plan.schedule.names(plan.graph)[plan.simulation.peak_step]
    states = states_of(plan.simulation, plan.simulation.peak_step)
    for state, name in enumerate(module.STATES[:3]):
        circles = root.findall(f".//{{*}}g[@class='{name[0]}']/{{*}}circle")
        assert len(circles) == (states == state).sum()


def test_every_run_lights_up_for_its_step(plan):
    animated = animation(plan, seconds=6)
    names, m = keyframes_of(animated.svg()), len(plan.schedule)
    time = (6 - module.HOLD) / m
    order = plan.schedule.order.tolist()
    for v in range(plan.graph.n_nodes):
        ringed = plan.schedule.order[plan.simulation.peak_step] == v
        for step in range(m):
            for percent, rules in names[f"n{v}"]:
                if float(percent[:-1]) <= 100 * step * time / 6 + 0.01 and "stroke" in rules:
                    ringed = "stroke:var(--n)" in rules
            assert ringed == (order[step] == v), (v, step)


def test_small_plans_take_their_time_and_hold_their_end():
    graph = ra.ComputationGraph.from_edges([(i, i + 1) for i in range(17)])
    animated = animation(graph)
    assert animated.seconds == pytest.approx(18 / 3 + 1.5)
    assert float(keyframes_of(animated.svg())["s"][-1][0].split("%")[0]) == pytest.approx(100 * 17 / 3 / 7.5, abs=0.01)
    assert animation(ra.ComputationGraph.from_edges([(0, 1)])).seconds == 4


def test_some_steps_are_a_part_of_all(plan):
    animated = animation(plan, steps=range(4, 12))
    whole = Frames(plan.simulation, None, range(len(plan.schedule)))
    for place in range(8):
        assert animated.frames.states(place).tolist() == whole.states(place + 4).tolist()
    assert animated.frames.trace.tolist() == plan.simulation.memory_trace[4:12].tolist()
    captions = ET.fromstring(animated.svg()).findall(".//{*}tspan")
    names = plan.schedule.names(plan.graph)
    assert [each.text for each in captions] == [f"{step} {names[step]}" for step in range(4, 12)]


def test_names_stand_below_few_nodes_and_are_escaped():
    root = ET.fromstring(animation(ra.ComputationGraph.from_edges([("<b>&", "z"), ("z", "y")])).svg())
    assert {"<b>&", "z", "y"} <= {text.text for text in root.findall("{*}text")}
    many = ET.fromstring(animation(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(30)])).svg())
    assert "17" not in {text.text for text in many.findall("{*}text")}


def test_loads_have_a_colour_and_a_legend():
    graph = ra.ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)], memory=10)
    simulation = ra.simulate(graph, ra.Schedule(range(5), loads=[(4, 0)]))
    animated = animation(simulation)
    assert animated.frames.states(4).tolist() == [3, EMPTY, EMPTY, 0, 0]
    text = animated.svg()
    assert ">loaded</text>" in text
    assert "fill:var(--l)" in text
    assert ">loaded</text>" not in animation(graph).svg()


def test_the_report_has_the_same_colours():
    style = (Path(ra.__file__).parent / "plot/stepping/report.css").read_text("utf-8")
    light, dark = (dict(re.findall(r"--(\w+): (#\w+)", part)) for part in style.split("@media", 2)[:2])
    assert {name: light[name] for name in INKS["light"]} == INKS["light"]
    assert {name: dark[name] for name in INKS["dark"]} == INKS["dark"]


def test_of_a_network_the_svg_has_60_kilobytes_at_most():
    graph = ra.differentiate(ra.zoo.build("unet").graph)
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
    animated = animation(simulation, seconds=3.14)
    steps = module._drawn_places(animated)
    assert len(steps) <= 22
    assert {0, simulation.peak_step, graph.n_nodes - 1} <= set(steps)
    animated.save(tmp_path / "long.gif")
    with Image.open(tmp_path / "long.gif") as image:
        assert image.n_frames == len(steps)
        lasting = 0
        for i in range(image.n_frames):
            image.seek(i)
            lasting += image.info["duration"]
    assert lasting == 3140


@pytest.mark.parametrize("name", ["$x_$", "a$b$", "名", "<b>&", "x" * 300])
def test_any_name_is_drawn(name, tmp_path):
    animated = animation(ra.ComputationGraph.from_edges([(name, "z")]))
    animated.save(tmp_path / "named.gif")
    ET.fromstring(animated.svg())


@pytest.mark.parametrize("n_nodes", [0, 1])
def test_the_smallest_graphs(n_nodes, tmp_path):
    graph = ra.ComputationGraph.from_arrays(
        read_indptr=np.zeros(n_nodes + 1, np.int64),
        read_indices=[],
        memory=np.ones(n_nodes, np.int64),
        compute=np.ones(n_nodes, np.int64),
    )
    animated = animation(graph)
    ET.fromstring(animated.svg())
    if n_nodes:
        animated.save(tmp_path / "one.gif")
        return
    with pytest.raises(PlanError, match="without a step has no frames"):
        animated.save(tmp_path / "none.gif")


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_an_mp4_is_written(plan, tmp_path):
    animation(plan).save(tmp_path / "plan.mp4")
    assert (tmp_path / "plan.mp4").read_bytes()[4:8] == b"ftyp"


def stub_of_ffmpeg(folder, monkeypatch, ending):
    """A program `ffmpeg` that notes its arguments and the bytes of its input."""
    program = folder / "bin" / "ffmpeg"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nwc -c > {folder}/bytes\necho "$@" > {folder}/words\n{ending}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def test_ffmpeg_gets_all_frames_and_the_held_end(plan, tmp_path, monkeypatch):
    stub_of_ffmpeg(tmp_path, monkeypatch, 'for file; do :; done; printf video > "$file"')
    animated = animation(plan, seconds=6)
    animated.save(tmp_path / "plan.mp4")
    assert (tmp_path / "plan.mp4").read_text() == "video"
    rate = len(plan.schedule) / 4.5
    frames = len(plan.schedule) + round(1.5 * rate)
    assert int((tmp_path / "bytes").read_text()) == frames * module.WIDTH * module.HEIGHT * 3
    assert f"-r {rate:g} -i -" in (tmp_path / "words").read_text()


def test_a_failing_ffmpeg_leaves_the_old_file(plan, tmp_path, monkeypatch):
    stub_of_ffmpeg(tmp_path, monkeypatch, "echo no encoder >&2; exit 1")
    (tmp_path / "plan.mp4").write_text("old")
    with pytest.raises(BackendError, match=r"ffmpeg failed: 'no encoder'; write \.svg or \.gif"):
        animation(plan).save(tmp_path / "plan.mp4")
    assert (tmp_path / "plan.mp4").read_text() == "old"


def test_what_cannot_be_drawn_is_refused(plan, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"plan\.png: not an animation format; use one of \.svg"):
        animation(plan).save(tmp_path / "plan.png")
    for seconds in (0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=f"seconds is {seconds}; give a number above 0"):
            animation(plan, seconds=seconds)
    with pytest.raises(ra.ScheduleError, match="give a first step and a later end"):
        animation(plan, steps=range(3, 3))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(BackendError, match="mp4 needs the program ffmpeg"):
        animation(plan).save(tmp_path / "plan.mp4")
    monkeypatch.setattr(module, "MAX_STEPS", 5)
    with pytest.raises(PlanError, match=r"5 steps at most, and these are 25; choose some, steps=range\(0, 5\)"):
        animation(plan)
    assert animation(plan, steps=range(5)).svg()
    monkeypatch.setattr(module, "MAX_NODES", 5)
    with pytest.raises(PlanError, match="5 nodes at most, and the graph 20 nodes; make a coarser graph"):
        animation(plan)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def net(remat, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.csv").write_text("src,dst\na,b\nb,c\nc,d\n")
    remat("solve", "net.csv", "--budget", "least", "-o", "plan.json")
    return remat


def test_the_command_draws_a_plan_or_a_graph(net, tmp_path):
    assert "4.5 s per loop" in net("animate", "net.csv", "plan.json", "--seconds", "4.5").out
    record = net("animate", "net.csv", "-o", "all.svg", "--seconds", "5", "--json").record
    assert record == {"written": "all.svg", "bytes": (tmp_path / "all.svg").stat().st_size, "seconds": 5.0}
    assert (tmp_path / "animation.svg").read_text() != (tmp_path / "all.svg").read_text()
    net("animate", "net.csv", "-o", "part.svg", "--steps", "2:5")
    assert (tmp_path / "part.svg").read_text().count("<tspan") == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("net.csv", "-o", "x.png"), "-o x.png: not an animation format; use one of .svg, .gif, .mp4"),
        (("net.csv", "--seconds", "0"), "--seconds 0.0: give a finite number above 0, 600 at most"),
        (("net.csv", "--seconds", "inf"), "--seconds inf: give a finite number above 0, 600 at most"),
        (
            ("net.csv", "--steps", "0:99"),
            "--steps 0:99: the schedule has 8 steps, from 0; give a first step and a later",
        ),
        (("other.csv", "plan.json", "-o", "old.svg"), "another graph"),
        (("net.csv", "-o", "no/plan.svg"), "there is no folder"),
    ],
)
def test_the_command_refuses_in_one_sentence(net, tmp_path, words, message):
    (tmp_path / "other.csv").write_text("src,dst\nx,y\n")
    (tmp_path / "old.svg").write_text("old")
    failed = net("animate", *words)
    assert failed.code != 0
    assert message in " ".join(failed.err.split())
    assert (tmp_path / "old.svg").read_text() == "old"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_refused(net, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o555)
    assert "cannot be written to" in " ".join(net("animate", "net.csv", "-o", "locked/x.svg").err.split())
