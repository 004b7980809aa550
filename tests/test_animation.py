"""Plans that move: the state of every node at every step, the SVG, and the command."""

import itertools
import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

import remat_algos as ra
from remat_algos.errors import ArgumentError, PlanError
from remat_algos.plot import tuning
from remat_algos.plot.colours import INKS
from remat_algos.plot.lanes import Lanes
from remat_algos.plot.pictures import animation as module
from remat_algos.plot.pictures.animation import EMPTY, animation, node_changes, states_at
from tests.raising import raises
from tests.small_graphs import small_graphs

pytestmark = pytest.mark.usefixtures("short_searches")


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
    found = node_changes(Lanes(simulation), range(len(simulation.schedule)))
    for step in range(len(simulation.schedule)):
        assert states_at(found, step).tolist() == states_of(simulation, step).tolist()
    assert all(changes[0][0] == 0 for changes in found)
    assert all(a[1] != b[1] for changes in found for a, b in itertools.pairwise(changes))


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([(10, 14, 2), (10, 16, 1)], [(0, EMPTY), (6, 2), (10, 1), (12, EMPTY)]),  # of equal begins the higher role
        ([(10, 16, 1), (10, 14, 2)], [(0, EMPTY), (6, 2), (10, 1), (12, EMPTY)]),
        ([(2, 16, 0), (6, 8, 1)], [(0, 0), (2, 1), (4, 0), (12, EMPTY)]),  # of others the latest, while it is live
        ([(0, 4, 3), (20, 10**12, 1)], [(0, EMPTY), (16, 1)]),  # work for each instance, not for each step
    ],
)
def test_the_latest_live_instance_shows(spans, expected):
    assert module._changes(spans, range(4, 10**12)) == expected


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
    name = root.get("id")
    assert all(found.startswith(name) for found in re.findall(r"@keyframes (\w+)", text))
    assert len(keyframes_of(text)) == plan.graph.n_nodes + 4
    others = animation(plan.graph), animation(plan, seconds=7), animation(plan, seconds=6, steps=range(9))
    assert len({name, *(ET.fromstring(other.svg()).get("id") for other in others)}) == 4
    assert animation(plan, seconds=6).svg() == text


def test_the_pause_under_the_pointer_wins_over_every_rule_that_moves(plan):
    """By the cascade: importance decides before the specificity of selectors, and before styles of elements."""
    text = animation(plan).svg()
    name = ET.fromstring(text).get("id")
    (style,) = re.findall(r"<style>(.*?)</style>", text)
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", re.sub(r"@keyframes \w+\{(?:[^{}]+\{[^{}]*\})*\}", "", style))
    moving = [selector for selector, rule in rules if re.search(r"(?<![\w-])animation(-name)?:", rule)]
    assert len(moving) == 5
    pauses = [(selector, rule) for selector, rule in rules if "animation-play-state" in rule]
    assert pauses == [(f"#{name}:hover *", "animation-play-state:paused!important")]
    assert text.count("!important") == 1
    # No rule reaches outside the picture.
    selectors = [part for selector, _ in rules for part in selector.rpartition("{")[2].split(",")]
    assert {re.match(r"#\w+", part)[0] for part in selectors} == {f"#{name}"}


def heights_of(text):
    """The bytes of the labels of the axis, and the pixels from the lowest one."""
    labels = re.findall(r'<text x="\d+" y="(\d+)" font-size="11"[^>]*>([^<]+B)</text>', text)
    base = int(labels[0][0])
    return {word: base - int(y) for y, word in labels}


def test_compared_plans_share_scale_and_clock(plan):
    other = ra.solve(plan.graph, "least", solver="live_set_search")
    base = ra.solve(plan.graph, solver="no_remat")
    plans = [base, plan, other]
    animated = [animation(each, compared=plans) for each in plans]
    assert {(each.top, each.length, each.seconds) for each in animated} == {
        (base.peak_memory, len(other.schedule), animated[0].seconds)
    }
    texts = [each.svg() for each in animated]
    assert all(heights_of(text) == heights_of(texts[0]) for text in texts)
    assert len(heights_of(texts[0])) >= 3
    captions = [dict(keyframes_of(text))["s"][-1][0] for text in texts]
    ends = [
        float(caption.split("%")[0]) / (len(each.schedule) - 1) for caption, each in zip(captions, plans, strict=True)
    ]
    assert ends == pytest.approx([ends[0]] * 3, abs=0.001)
    alone = animation(plan)
    assert (alone.top, alone.length) == (max(plan.peak_memory, plan.limit), len(plan.schedule))
    # Pixels of the peak are the same share of the scale.
    for each, text in zip(plans, texts, strict=True):
        (bar,) = re.findall(r'<rect x="600" y="[\d.]+" width="18" height="([\d.]+)"', text)
        assert float(bar) == pytest.approx(module.CURVE * each.peak_memory / base.peak_memory, abs=0.06)


def test_every_mark_has_an_entry_of_the_legend(plan):
    root = ET.fromstring(animation(plan).svg())
    words = {text.text for text in root.findall("{*}text")}
    assert {"first run", "recomputed", "gradient", "not live", "runs now", "live now", "backward begins"} <= words
    assert {f"peak {plan.peak_memory} B", f"budget {plan.limit} B", "forward", "backward", "step"} <= words
    forward = ra.ComputationGraph.from_edges([(0, 1), (1, 2)])
    words = {text.text for text in ET.fromstring(animation(forward).svg()).findall("{*}text")}
    assert not {"backward begins", "forward", "backward"} & words


def test_the_border_lies_between_forward_and_backward(plan):
    root = ET.fromstring(animation(plan).svg())
    (border,) = [path.get("d") for path in root.findall("{*}path") if path.get("class") == "o"]
    height, turn = float(re.match(r"M\d+ ([\d.]+)H", border)[1]), float(re.search(r"H\d+M([\d.]+) ", border)[1])
    for circle in root.findall(".//{*}g[@class='d']//{*}circle"):
        assert (float(circle.get("cy")) < height) is ("grad" not in circle.find("{*}title").text)
    first = next(step for step, v in enumerate(plan.schedule.order.tolist()) if not plan.graph.forward[v])
    assert turn == pytest.approx(module.LEFT + module.ACROSS * first / len(plan.schedule), abs=0.06)


@pytest.mark.parametrize(
    "edges",
    [
        [(i, i + 1) for i in range(11)],
        [("s", f"branch {i}") for i in range(11)],
        [(f"a{i}", f"b{j}") for i in range(6) for j in range(6)],
    ],
)
def test_up_to_twelve_nodes_have_names(edges):
    graph = ra.ComputationGraph.from_edges(edges)
    assert graph.n_nodes == 12
    root = ET.fromstring(animation(graph).svg())
    drawn = [text for text in root.findall("{*}text") if float(text.get("y")) <= module.GRAPH_HEIGHT]
    names = [text.text for text in drawn if text.get("font-size") == "11"]
    assert names == [graph.labels[v] for v in range(12)]


def test_without_style_sheets_it_has_plain_colours_and_shows_the_peak(plan):
    root = ET.fromstring(animation(plan).svg())
    assert not [each for each in root.iter() if "var(" in " ".join(each.attrib.values())]
    (ring,) = root.findall("{*}circle[@class='r']")
    at = dict(zip(("cx", "cy"), re.findall(r"[\d.]+", ring.get("transform")), strict=True))
    (below,) = [circle for circle in root.iterfind(".//{*}circle") if at.items() <= circle.attrib.items()]
    assert below.find("{*}title").text == plan.schedule.names(plan.graph)[plan.simulation.peak_step]
    states = states_of(plan.simulation, plan.simulation.peak_step)
    for state, name in enumerate(module.STATES[:3]):
        circles = root.findall(f".//{{*}}g[@class='{name[0]}']/{{*}}circle")
        assert len(circles) == (states == state).sum()


def test_the_ring_is_at_the_node_of_each_step(plan):
    animated = animation(plan, seconds=6)
    text, m = animated.svg(), len(plan.schedule)
    circles = ET.fromstring(text).findall(".//{*}g[@class='d']//{*}circle")
    places = {circle.find("{*}title").text: f"{circle.get('cx')}px,{circle.get('cy')}px" for circle in circles}
    frames = keyframes_of(text)["r"]
    assert [rules for _, rules in frames] == [
        f"transform:translate({places[name]})" for name in plan.schedule.names(plan.graph)
    ]
    begins = [100 * step * (6 - tuning.HOLD) / m / 6 for step in range(m)]
    assert [float(percent[:-1]) for percent, _ in frames] == pytest.approx(begins, abs=0.01)


def test_small_plans_take_their_time_and_hold_their_end():
    graph = ra.ComputationGraph.from_edges([(i, i + 1) for i in range(17)])
    animated = animation(graph)
    assert animated.seconds == pytest.approx(18 / 3 + 1.5)
    assert float(keyframes_of(animated.svg())["s"][-1][0].split("%")[0]) == pytest.approx(100 * 17 / 3 / 7.5, abs=0.01)
    assert animation(ra.ComputationGraph.from_edges([(0, 1)])).seconds == 4


def test_some_steps_are_a_part_of_all(plan):
    animated = animation(plan, steps=range(4, 12))
    part, whole = (node_changes(Lanes(plan.simulation), steps) for steps in (range(4, 12), range(len(plan.schedule))))
    for place in range(8):
        assert states_at(part, place).tolist() == states_at(whole, place + 4).tolist()
    assert animated.trace.tolist() == plan.simulation.memory_trace[4:12].tolist()
    captions = ET.fromstring(animated.svg()).findall(".//{*}tspan")
    names = plan.schedule.names(plan.graph)
    assert [each.text for each in captions] == [f"{step}: {names[step]}" for step in range(4, 12)]


def test_names_stand_below_few_nodes_and_are_escaped():
    root = ET.fromstring(animation(ra.ComputationGraph.from_edges([("<b>&", "z"), ("z", "y")])).svg())
    assert {"<b>&", "z", "y"} <= {text.text for text in root.findall("{*}text")}
    many = ET.fromstring(animation(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(30)])).svg())
    assert "17" not in {text.text for text in many.findall("{*}text")}


def test_loads_have_a_colour_and_a_legend():
    graph = ra.ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)], memory=10)
    simulation = ra.simulate(graph, ra.Schedule(range(5), loads=[(4, 0)]))
    animated = animation(simulation)
    assert states_at(node_changes(Lanes(simulation), animated.steps), 4).tolist() == [3, EMPTY, EMPTY, 0, 0]
    text = animated.svg()
    assert ">loaded</text>" in text
    assert "fill:var(--l)" in text
    assert ">loaded</text>" not in animation(graph).svg()


def test_the_report_has_the_same_colours():
    style = (Path(ra.__file__).parent / "plot/pictures/report.css").read_text("utf-8")
    light, dark = (dict(re.findall(r"--(\w+): (#\w+)", part)) for part in style.split("@media", 2)[:2])
    assert {name: light[name] for name in INKS["light"]} == INKS["light"]
    assert {name: dark[name] for name in INKS["dark"]} == INKS["dark"]


def test_of_a_network_the_svg_has_60_kilobytes_at_most():
    graph = ra.differentiate(ra.zoo.build("unet").graph)
    assert len(animation(ra.solve(graph, "50%", effort="fast")).svg().encode()) <= 60_000


@pytest.mark.parametrize("name", ["$x_$", "a$b$", "名", "<b>&", "x" * 300])
def test_any_name_is_drawn(name, tmp_path):
    animation(ra.ComputationGraph.from_edges([(name, "z")])).save(tmp_path / "named.svg")
    ET.parse(tmp_path / "named.svg")


@pytest.mark.parametrize("n_nodes", [0, 1])
def test_the_smallest_graphs(n_nodes):
    graph = ra.ComputationGraph.from_arrays(
        read_indptr=np.zeros(n_nodes + 1, np.int64),
        read_indices=[],
        memory=np.ones(n_nodes, np.int64),
        compute=np.ones(n_nodes, np.int64),
    )
    ET.fromstring(animation(graph).svg())


def test_what_cannot_be_drawn_is_refused(plan, tmp_path, monkeypatch):
    with raises(ArgumentError, path=tmp_path / "plan.png"):
        animation(plan).save(tmp_path / "plan.png")
    for seconds in (0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=f"seconds is {seconds}; give a number above 0"):
            animation(plan, seconds=seconds)
    with pytest.raises(ra.ScheduleError, match="give a first step from 0 and a later end"):
        animation(plan, steps=range(3, 3))
    monkeypatch.setattr("remat_algos.plot.tuning.MAX_DRAWN_STEPS", 5)
    with raises(PlanError, max_steps=5, n_steps=25):
        animation(plan)
    assert animation(plan, steps=range(5)).svg()
    monkeypatch.setattr("remat_algos.plot.tuning.MAX_DRAWN_NODES", 5)
    with raises(PlanError, max_nodes=5, nodes=20):
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
    net("solve", "net.csv", "--solver", "no_remat", "-o", "once.json")
    for plan in ("plan", "once"):
        net("animate", "net.csv", f"{plan}.json", "-o", f"{plan}.svg", "--compare", "plan.json", "once.json")
    scales = [heights_of((tmp_path / f"{plan}.svg").read_text()) for plan in ("plan", "once")]
    assert scales[0] == scales[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("net.csv", "-o", "x.gif"), "-o: x.gif: an animation is an SVG; give a path that ends in .svg"),
        (("net.csv", "--seconds", "0"), "--seconds is 0.0; give a number above 0 and at most 600"),
        (("net.csv", "--seconds", "inf"), "--seconds is inf; give a number above 0 and at most 600"),
        (("net.csv", "--steps", "0:99"), "--steps is 0:99, but the schedule has 8 steps"),
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
