"""Pages of papers: how they are written, how cases are measured, and what chen2016's says."""

import csv
import re
import resource
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remat_algos.errors import GraphError
from remat_algos.ir.differentiate import differentiate
from remat_algos.models.random import chain
from remat_algos.models.registry import build
from remat_algos.plan.baseline import baseline
from remat_algos.plan.solve import solve
from remat_algos.plot.save import save_picture
from remat_algos.reproduce import chen2016
from remat_algos.reproduce.case import NO_REMAT, PARAMETER, Case
from remat_algos.reproduce.growth import exponent, plot_growth
from remat_algos.reproduce.page import WIDTH, Figure, Page, Table
from remat_algos.reproduce.registry import get_page, list_papers, summary
from remat_algos.schedule.simulation import simulate
from tests.strategies import training_graphs

ROOT = Path(__file__).resolve().parents[1]
SIZES = Table(
    "sizes",
    "Sizes of things",
    {"thing": str, "n": str, "share": "{:.0%}".format},
    [("a|b", 8, 0.25), ("c, d", 9, None)],
    "Counted by hand.",
)
GROWTH = Figure("growth", "Growth", lambda: plot_growth([1, 2, 4], {"linear": [3, 6, 12]}, "n"), "It grows.")
PAGE = Page("toy2000", "a toy", ["A paragraph.", "## Tables", SIZES, "## Figures", GROWTH])


# ---------------------------------------------------------------- pages


def test_text_shows_cells_and_csv_holds_them():
    assert list(SIZES.cells()) == [("a|b", "8", "25%"), ("c, d", "9", "")]
    assert list(csv.reader(SIZES.csv().splitlines())) == [
        ["thing", "n", "share"],
        ["a|b", "8", "0.25"],
        ["c, d", "9", ""],
    ]


def test_a_page_is_markdown_with_links_to_its_files():
    assert PAGE.markdown() == (
        "# toy2000: a toy\n\nA paragraph.\n\n## Tables\n\n**Sizes of things** ([CSV](toy2000_sizes.csv))\n\n"
        "| thing | n | share |\n| --- | ---: | ---: |\n| a\\|b | 8 | 25% |\n| c, d | 9 |  |\n\nCounted by hand.\n\n"
        "## Figures\n\n![Growth](toy2000_growth.svg)\n\nIt grows.\n"
    )
    assert list(PAGE.files()) == ["toy2000.md", "toy2000_sizes.csv", "toy2000_growth.svg"]


def test_a_row_has_a_cell_for_each_column():
    with pytest.raises(ValueError, match="shorter"):
        list(Table("t", "T", {"a": str, "b": str}, [(1,)]).cells())


def test_paragraphs_are_broken_where_they_are_long():
    lines = Page("toy2000", "a toy", ["word " * 100]).markdown().splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert " ".join(lines[2:]).split() == ["word"] * 100


def test_writing_twice_gives_the_same_bytes(tmp_path):
    first = {path: path.read_bytes() for path in PAGE.write(tmp_path / "new")}
    assert [path.name for path in first] == list(PAGE.files())
    assert {path: path.read_bytes() for path in PAGE.write(tmp_path / "new")} == first
    assert sorted((tmp_path / "new").iterdir()) == sorted(first)


def test_nothing_is_written_if_a_figure_cannot_be_drawn(tmp_path):
    broken = Figure("broken", "Broken", lambda: 1 // 0, "")
    with pytest.raises(ZeroDivisionError):
        Page("toy2000", "a toy", [SIZES, broken]).write(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_if_one_of_the_files_finds_no_room(tmp_path):
    (tmp_path / "toy2000.md").write_text("as it was")
    large = Table("large", "Large", {"n": str}, [(10**9,)] * 10_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # the page has room, with one table less
    try:
        with pytest.raises(OSError, match="large"):
            Page("toy2000", "a toy", [SIZES, large]).write(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("toy2000.md", "as it was")]


def test_a_record_holds_the_tables_as_numbers():
    (table,) = PAGE.record()["tables"]
    assert (table["columns"], table["rows"][1]) == (["thing", "n", "share"], ["c, d", 9, None])


# ---------------------------------------------------------------- papers


def test_papers_are_the_files_called_like_one():
    folder = ROOT / "remat_algos" / "reproduce"
    assert list_papers() == sorted(path.stem for path in folder.glob("*[0-9].py"))
    assert all(summary(paper).endswith(".") for paper in list_papers())


def test_papers_are_in_the_bibliography_and_in_the_table_of_contents():
    keys = re.findall(r"^@\w+\{(\w+),", (ROOT / "docs" / "references.bib").read_text("utf-8"), re.MULTILINE)
    index = (ROOT / "docs" / "reproductions" / "index.md").read_text("utf-8")
    assert set(list_papers()) <= set(keys)
    assert set(list_papers()) <= set(re.search(r"```\{toctree\}\n(.*?)```", index, re.DOTALL)[1].split())


@pytest.mark.parametrize(("paper", "offer"), [("chen2015", "did you mean chen2016"), ("xyz", "there are chen2016")])
def test_an_unknown_paper_is_answered_with_the_nearest(paper, offer):
    with pytest.raises(GraphError, match=offer):
        get_page(paper)


# ---------------------------------------------------------------- measuring


@given(
    sizes=st.lists(st.integers(1, 50), min_size=2, max_size=6, unique=True),
    factor=st.integers(1, 9),
    power=st.integers(0, 3),
)
def test_exponents_of_power_laws(sizes, factor, power):
    assert exponent(sizes, [factor * n**power for n in sizes]) == power


def test_a_figure_has_a_line_for_each_strategy_and_a_mark_for_each_point():
    curves = {"linear": [5, 6, 12], "flat": [9, 4, 4]}
    ax = plot_growth([1, 2, 4], curves, "depth", since=2, said={"paper": (4, 9)})
    assert [list(line.get_ydata()) for line in ax.get_lines()] == [*curves.values(), [9]]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["linear: n^1.00", "flat: n^0.00", "paper"]
    assert (ax.get_xscale(), ax.get_yscale(), ax.get_xlabel()) == ("log", "log", "depth")


@settings(max_examples=30)
@given(graph=training_graphs())
def test_a_case_is_what_the_judge_says(graph):
    case = Case.of("any", 1, graph, ["chen_sqrt"])
    for strategy, simulation in case.simulations.items():
        again = simulate(graph, simulation.schedule)
        assert case.peak(strategy) == again.peak_memory <= case.peak(NO_REMAT)
        assert case.forward_peak(strategy) <= case.peak(strategy)
        assert case.overhead(strategy) == pytest.approx(again.overhead / max(1, graph.needed_compute), abs=1e-4)
    assert case.overhead(NO_REMAT) == 0


def test_a_chain_by_hand():
    """Of 16 nodes and as many gradients, in four segments: 2 sqrt(16) + 1 = 9 bytes in place of 16 + 2."""
    graph = differentiate(chain(16))
    case = Case.of("chain", 16, graph, ["chen_sqrt"])
    assert (case.unshared, case.peak(NO_REMAT), case.forward_peak(NO_REMAT), case.peak("chen_sqrt")) == (32, 18, 16, 9)
    assert case.overhead("chen_sqrt", graph.with_costs(compute=[1] * 16 + [0] * 16)) == 9 / 16


def test_progress_says_which_case_it_is_about():
    told = []
    Case.of("chain", 4, differentiate(chain(4)), ["no_remat", "chen_sqrt"], progress=lambda *said: told.append(said[2]))
    assert told
    assert all(what.startswith(("chain, no_remat: ", "chain, chen_sqrt: ")) for what in told)


# ---------------------------------------------------------------- chen2016


@pytest.fixture(scope="module")
def quick():
    """The page of few networks, and its tables by name."""
    page = chen2016.page(True, None)
    return page, {table.name: table for table in page.tables}


def column(table, name):
    return [row[list(table.columns).index(name)] for row in table.rows]


def test_without_rematerialization_memory_grows_linearly_and_with_chens_plans_less(quick):
    _, tables = quick
    table = tables["figure5"]
    depths = column(table, "depth")
    powers = {name: exponent(depths, column(table, name)) for name in list(table.columns)[2:]}
    assert min(powers["all values"], powers["no_remat"]) > 0.75  # linear, but with what the first layers take
    assert all(powers[solver] < 0.5 for solver in chen2016.SOLVERS)


def test_without_rematerialization_each_ten_blocks_take_the_same():
    """From 20 blocks to 30 to 40 the second stage grows by four each time, the third by six."""
    peaks = [baseline(chen2016._resnet(depth)).peak_memory for depth in (62, 92, 122)]
    assert peaks[2] - peaks[1] == pytest.approx(peaks[1] - peaks[0], rel=1e-6)


@pytest.mark.parametrize("name", ["figure5", "figure6", "figure6_weights"])
def test_no_plan_takes_more_than_no_rematerialization(quick, name):
    _, tables = quick
    table = tables[name]
    for row in table.rows:
        peaks = dict(zip(table.columns, row, strict=True))
        assert max(peaks[solver] for solver in chen2016.SOLVERS) <= peaks["no_remat"] <= peaks["all values"]


@pytest.fixture(scope="module")
def resnet50():
    return chen2016._resnet_case(50, None, ["chen_sqrt"])


def test_peaks_and_overheads_are_judged_again(resnet50):
    """The ResNet of 50 layers, built and solved once more."""
    case = resnet50
    graph = differentiate(build("resnet50", batch=32, preactivation=True, workspace=0).graph)
    assert graph.hash == case.graph.hash
    plan = solve(graph, "least", solver="chen_sqrt")
    assert simulate(graph, plan.schedule).peak_memory == case.peak("chen_sqrt")
    assert case.overhead("chen_sqrt") == pytest.approx(plan.overhead / graph.needed_compute, abs=1e-4)


def test_dropping_keeps_all_but_batch_norms_and_relus(resnet50):
    """They run twice where a gradient needs them; every other operation runs once, so that peaks lie in between."""
    case = resnet50
    ops, runs = np.array(case.graph.labels.ops), case.simulations[chen2016.DROP].runs
    assert set(ops[runs > 1]) == {"BatchNorm", "ReLU"}
    assert runs.max() == 2
    assert case.peak("chen_sqrt") < case.peak(chen2016.DROP) < case.peak(NO_REMAT)


def test_gradients_of_weights_without_bytes_leave_feature_maps_and_their_gradients():
    without, weighted = chen2016._lstm(2, False), chen2016._lstm(2)
    of_weights = without.memory != weighted.memory
    assert not without.memory[of_weights].any()
    assert not without.forward[without.producer[of_weights]].any()
    assert weighted.memory[weighted.output].sum() == weighted.resident.memory[weighted.resident.role == PARAMETER].sum()


@pytest.mark.parametrize("blocks", [(3, 4, 6, 3), (3, 8, 36, 3), (3, 24, 36, 3)])
@pytest.mark.parametrize("depth", [50, 302, 1001])
def test_scaled_stages_have_the_depth_and_the_proportions(blocks, depth):
    stages = chen2016.scaled(blocks, depth)
    assert 3 * sum(stages) + 2 == depth
    assert all(abs(a * sum(blocks) - b * sum(stages)) <= 2 * sum(blocks) for a, b in zip(stages, blocks, strict=True))


def test_plans_have_the_same_nodes_whatever_their_cost(quick):
    """Overheads are shares above 0, and not more than a second forward pass where nothing runs a third time."""
    _, tables = quick
    for name in ("figure7_resnet", "figure7_lstm"):
        rows = [dict(zip(tables[name].columns, row, strict=True)) for row in tables[name].rows]
        assert {row["strategy"] for row in rows} >= set(chen2016.SOLVERS)
        for row in rows:
            assert all(row[cost] > 0 for cost in chen2016.COSTS)
            assert row["strategy"] == "chen_recursive" or row["FLOPs"] < 0.34


def test_every_number_of_the_paper_says_where_it_stands(quick):
    _, tables = quick
    claims = tables["claims"]
    assert all(re.match("abstract|section|Figure", where) for where in column(claims, "where"))
    assert all(column(claims, "paper"))
    assert all(column(claims, "ours"))


def test_the_page_names_its_files(quick):
    page, _ = quick
    linked = re.findall(r"\]\((\S+?)\)", page.markdown())
    assert linked == [page.file_of(part) for part in page.parts if not isinstance(part, str)]


def test_a_figure_is_the_same_whatever_was_drawn_before(quick, tmp_path):
    page, _ = quick
    figures = [part for part in page.parts if isinstance(part, Figure)]
    first = figures[0].svg()
    save_picture(figures[1].draw(), tmp_path / "other.png")
    GROWTH.svg()
    assert figures[0].svg() == first


def test_an_interrupted_solver_stops_the_page(monkeypatch):
    def interrupted(graph, *given, **more):
        return replace(solve(graph, *given, **more), details={"interrupted": True})

    monkeypatch.setattr("remat_algos.reproduce.case.solve", interrupted)
    with pytest.raises(KeyboardInterrupt, match="nothing was written"):
        Case.of("chain", 4, differentiate(chain(4)), ["chen_sqrt"])


def test_the_same_depth_is_divided_in_four_ways():
    """Which the quick page leaves out."""
    table = chen2016._stages_table(62, None)
    blocks = [[int(stage) for stage in dashed.split("-")] for dashed in column(table, "stages")]
    assert all(sum(stages) == 20 for stages in blocks)  # 3 convolutions each, the first one and the linear layer
    assert len({tuple(stages) for stages in blocks}) == len(table.rows) == 4
    for stages, peak in zip(blocks, column(table, NO_REMAT), strict=True):
        assert peak == baseline(chen2016._resnet(62, stages)).peak_memory
