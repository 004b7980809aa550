"""The files of tests/golden: their peaks, worked out by hand in its README, and that no format changes them."""

import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest

from remat_algos.errors import GraphWarning, ScheduleError
from remat_algos.formats.graph_files import read_graph, write_graph
from remat_algos.ir.differentiate import differentiate
from remat_algos.schedule.simulation import simulate
from remat_algos.schedule.views import live_at

FOLDER = Path(__file__).parent / "golden"


@dataclass(frozen=True)
class Golden:
    """A schedule of a file's graph, and its peak; the order of the ids unless another is given."""

    file: str
    peak: int
    at: str
    order: str = ""
    resident: int = 0
    gradients: dict | None = None  # options of differentiate; None: as the file is

    def __str__(self):
        return " ".join([self.file, *(["gradients"] if self.gradients is not None else []), self.order]).strip()


GOLDEN = [
    Golden("views.nodes.csv", 18, "d"),
    Golden("views.nodes.csv", 16, "c", "a b d a c"),
    Golden("values.nodes.csv", 18, "e"),
    Golden("values.nodes.csv", 25, "d", "a d e a d f"),
    Golden("marks.nodes.csv", 24, "grad(b)", "a b c loss grad(loss) grad(c) b grad(b) grad(a)", gradients={}),
    Golden("residents.nodes.csv", 6, "b", resident=157),
    Golden("residents.nodes.csv", 104, "grad(w)", resident=157, gradients={"parameter_gradients": True}),
    Golden("once.nodes.csv", 16, "b"),
    Golden("once.nodes.csv", 13, "c", "a r b a c"),
    Golden("workspace.nodes.csv", 18, "b"),
    Golden("workspace.nodes.csv", 32, "grad(a)", gradients={}),
    Golden("decimals.nodes.csv", 1504, "c"),
    Golden("path.gr", 3, "3"),
    Golden("edges.txt", 4, "D"),
    Golden("edges.txt", 3, "C", "A B C D A E"),
    Golden("whole.json", 12, "grad a"),
    Golden("block.dot", 15, "relu", resident=1024),
    Golden("short_cut.graphml", 14, "c"),
    Golden("cg_chain.txt", 80, "ReLU_2", resident=136),
    Golden("cg_chain.txt", 120, "grad(Convolution2DFunction_4)", resident=136, gradients={}),
]
NO_SCHEDULES = {"differentiated.json", "offsets.json", "optima.json", "plans", "random_dags.json", "torch"}
"""A file that a page shows, figures that a search found, and joint graphs of PyTorch, of tests/test_golden_torch.py."""
FILES = list(dict.fromkeys(golden.file for golden in GOLDEN))


def read(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)  # decimals.nodes.csv has parts of bytes
        return read_graph(path)


def simulation_of(golden, path=None):
    """The simulation of a golden schedule."""
    graph = read(path or FOLDER / golden.file)
    if golden.gradients is not None:
        graph = differentiate(graph, **golden.gradients)
    names = golden.order.split() or graph.node_names()
    return simulate(graph, [graph.node_id(name) for name in names])


def pairs(lives):
    return {name: int(size) for name, size in (held.rsplit(" ", 1) for held in lives.split(", "))}


def by_hand():
    """The tables of the README, in order: of each its file, and (node, {what lives: bytes}, sum) of each step."""
    tables = []
    for section in re.split(r"^## ", (FOLDER / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        for table in section.split("| step | runs | lives | bytes |\n")[1:]:
            rows = re.findall(r"^\| (\d+) \| (.+) \| (.+) \| \**(\d+)\** \|$", table, re.MULTILINE)
            steps = [(node, pairs(lives), int(total)) for _, node, lives, total in rows]
            assert [int(step) for step, *_ in rows] == list(range(len(rows)))
            tables.append((section.split("\n")[0], steps))
    return tables


@pytest.mark.parametrize("golden", GOLDEN, ids=str)
def test_the_simulator_finds_the_golden_peak(golden):
    simulation = simulation_of(golden)
    assert simulation.peak_memory == golden.peak
    assert simulation.graph.labels[int(simulation.schedule.order[simulation.peak_step])] == golden.at
    assert simulation.graph.resident_memory == golden.resident


def test_every_golden_schedule_is_worked_out_by_hand():
    assert [file for file, _ in by_hand()] == [golden.file for golden in GOLDEN]
    files = {path.name for path in FOLDER.iterdir() if not path.name.endswith((".edges.csv", ".values.csv", ".md"))}
    assert files - NO_SCHEDULES == set(FILES)


@pytest.mark.parametrize(("golden", "table"), [*zip(GOLDEN, by_hand(), strict=True)], ids=map(str, GOLDEN))
def test_what_the_hand_counts_is_what_lives(golden, table):
    simulation, (_, steps) = simulation_of(golden), table
    graph = simulation.graph
    assert [node for node, _, _ in steps] == [graph.labels[int(v)] for v in simulation.schedule.order]
    for step, (_, lives, total) in enumerate(steps):
        held = {graph.value_name(x): int(graph.memory[x]) for x, _ in live_at(simulation, step)}
        scratch = int(graph.workspace[simulation.schedule.order[step]])
        assert lives == held | ({"workspace": scratch} if scratch else {})
        assert sum(lives.values()) == total == simulation.memory_trace[step]


@pytest.mark.parametrize("ending", ["json", "npz", "nodes.csv", "graphml", "dot", "gv"])
@pytest.mark.parametrize("file", FILES)
def test_no_format_changes_a_golden_graph(tmp_path, file, ending):
    graph, path = read(FOLDER / file), tmp_path / f"again.{ending}"
    write_graph(graph, path)
    assert read(path).hash == graph.hash
    for golden in GOLDEN:
        if golden.file == file:
            assert simulation_of(golden, path).memory_trace.tolist() == simulation_of(golden).memory_trace.tolist()


def test_a_once_node_that_runs_again_is_refused():
    with pytest.raises(ScheduleError, match="step 3 recomputes r"):
        simulation_of(Golden("once.nodes.csv", 0, "", "a r b r c"))


def test_a_recompute_mark_refuses_the_run_without_rematerialization():
    with pytest.raises(ScheduleError, match=r"grad\(b\), which reads the first run of b, but b is marked to be"):
        simulation_of(Golden("marks.nodes.csv", 0, "", gradients={}))


def test_decimal_costs_are_shown_as_they_were_written():
    graph = read(FOLDER / "decimals.nodes.csv")
    assert (graph.compute.tolist(), graph.labels.compute(graph.needed_compute)) == ([50, 125, 300], "4.75")
