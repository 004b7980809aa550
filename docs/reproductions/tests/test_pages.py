"""Pages of papers: how they are written, how cases are measured."""

import csv
import importlib
import re
import resource
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text

from docs.reproductions.__main__ import _print, main
from docs.reproductions.case import NO_REMAT, Case
from docs.reproductions.chen2016 import networks as chen2016_networks
from docs.reproductions.chen2016 import study as chen2016
from docs.reproductions.chen2016 import time as chen2016_time
from docs.reproductions.echo2020 import networks as echo2020_networks
from docs.reproductions.echo2020 import occupancy as echo2020_occupancy
from docs.reproductions.growth import exponent, plot_growth, powers
from docs.reproductions.kumar2019 import networks as kumar2019_networks
from docs.reproductions.kumar2019 import study as kumar2019
from docs.reproductions.kumar2019 import widths as kumar2019_widths
from docs.reproductions.kusumoto2019 import batches as kusumoto2019_batches
from docs.reproductions.kusumoto2019 import networks as kusumoto2019_networks
from docs.reproductions.page import WIDTH, Figure, Page, Table
from docs.reproductions.registry import get_page, list_papers, summary
from docs.reproductions.tests.quick_pages import PAGES, committed, quick_page
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.context import Stop
from remat_algos.errors import GraphError
from remat_algos.ir.differentiate import differentiate
from remat_algos.plan.record import SearchReport
from remat_algos.schedule.emission import baseline, baseline_peak
from remat_algos.schedule.simulation import simulate
from remat_algos.search.solve import solve
from remat_algos.zoo.random import chain
from tests.strategies import training_graphs

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


def test_a_table_that_is_not_shown_is_a_link_to_its_file_and_printed_by_the_command(capsys):
    page = Page("toy2000", "a toy", [replace(SIZES, shown=False)])
    link = "Table: [Sizes of things](toy2000_sizes.csv). Counted by hand."
    assert page.markdown() == f"# toy2000: a toy\n\n{link}\n"
    assert page.files()["toy2000_sizes.csv"].decode() == SIZES.csv()
    _print(page)
    assert "a|b    8    25%" in capsys.readouterr().out


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


def test_papers_are_the_folders_called_like_one():
    assert list_papers() == sorted(path.parent.name for path in PAGES.glob("*[0-9]/study.py"))
    assert all(summary(paper).endswith(".") for paper in list_papers())


def test_papers_are_in_the_bibliography_and_in_the_table_of_contents():
    keys = re.findall(r"^@\w+\{(\w+),", (PAGES.parent / "references.bib").read_text("utf-8"), re.MULTILINE)
    folder = PAGES.parent / "papers"
    index = (folder / "index.md").read_text("utf-8")
    assert set(list_papers()) <= set(keys)
    for paper in list_papers():
        assert f"```{{include}} ../reproductions/{paper}.md\n" in (folder / f"{paper}.md").read_text("utf-8")
    assert set(list_papers()) <= set(re.search(r"```\{toctree\}\n(.*?)```", index, re.DOTALL)[1].split())


@pytest.mark.parametrize(("paper", "offer"), [("chen2015", "did you mean chen2016"), ("xyz", "there are chen2016")])
def test_an_unknown_paper_is_answered_with_the_nearest(paper, offer):
    with pytest.raises(GraphError, match=offer):
        get_page(paper)


# ---------------------------------------------------------------- whole pages


def chen2016_numbers():
    """Seconds of a batch without rematerialization."""
    graph = chen2016_networks.lstm(8, **chen2016_time.ROOFLINE)
    case = Case("LSTM", 8, graph, {NO_REMAT: baseline(graph)})
    (row,) = [row for row in committed("chen2016", "figure7") if row["network"] == "LSTM of 8 steps"]
    return {row["sharing"]: chen2016_time.Timed(case, graph, graph).seconds(NO_REMAT)}


def echo2020_numbers():
    """Samples per second, by the roofline without and with occupancy."""
    (row, *_) = committed("echo2020", "growth")
    kinds = [row[kind] for kind in ("roofline", "tiles of 64", "tiles of 128")]
    return dict(zip(kinds, echo2020_occupancy.rates(echo2020_occupancy.RESNET_50, 4), strict=True))


def kumar2019_numbers():
    """The lower bound of the peak, where gradients of parameters stay to the end."""
    (row,) = [row for row in committed("kumar2019", "goals") if row["remark"] == "they stay to the end"]
    graph = kumar2019_networks.training_graph(row["model"].strip("`"), unit=False)
    base = baseline_peak(graph)
    return {row["no_remat"]: base, row["lower bound"]: round(least_peak_bound(graph)[0] / base, 4)}


def kusumoto2019_numbers():
    """Seconds of a pass."""
    (row, *_) = committed("kusumoto2019", "figure4")
    sizes = kusumoto2019_batches.Sizes(kusumoto2019_networks.REPORTED[row["network"]].network)
    return {row["one pass"]: sizes.one_pass(int(row["batch"]))}


@pytest.mark.parametrize("measure", [chen2016_numbers, echo2020_numbers, kumar2019_numbers, kusumoto2019_numbers])
def test_numbers_that_take_no_second_are_those_of_the_page(measure):
    """The command writes all of them: see the slow tests in tests/test_docs_pages.py."""
    for cell, number in measure().items():
        assert float(cell) == number


# ---------------------------------------------------------------- quick pages

WORKLOADS = (*echo2020_networks.WORKLOADS, echo2020_networks.NMT_DEEP)
LABELS = {  # of the papers' networks, on their pages and in the papers
    "chen2016": [
        *(f"ResNet-{depth}" for depth in (*chen2016.DEPTHS, 1000)),
        *(f"LSTM of {steps} steps" for steps in chen2016.STEPS),
    ],
    "echo2020": [*(each.label for each in WORKLOADS), "ResNet"],
    "kumar2019": [
        *kumar2019_widths.TABLE_1,
        *kumar2019.TABLE_2,
        *(f"ResNet-{depth}" for depth in kumar2019.RESNET_DEPTHS),
        *(f"FFN-{depth}" for depth in kumar2019.FFN_DEPTHS),
    ],
    "kusumoto2019": list(kusumoto2019_networks.REPORTED),
}


def test_every_paper_has_labels_to_look_for():
    assert sorted(LABELS) == list_papers()


@pytest.mark.parametrize("paper", LABELS)
def test_a_quick_page_says_so_on_line_3(paper):
    line = quick_page(paper).markdown().splitlines()[2]
    assert line.startswith("Quick page: the networks here are small ones, not those of the paper")


@pytest.mark.parametrize("paper", LABELS)
def test_a_page_names_its_files_and_every_number_of_the_paper_its_place(paper):
    page = quick_page(paper)
    files = [page.file_of(part) for part in page.parts if not isinstance(part, str)]
    assert re.findall(rf"\]\(({paper}_\S+?)\)", page.markdown()) == files
    assert not [part for part in page.parts if isinstance(part, str) and re.search(r"[{}]", part)]
    assert all(len(row) == len(table.columns) for table in page.tables for row in table.rows)
    for row in committed(paper, "claims"):
        assert re.match("abstract|sections? |Figure|Table", row["where"])
        assert row["paper"]
        assert row["ours"]


@pytest.mark.parametrize("paper", LABELS)
def test_a_quick_page_names_the_networks_that_are_run(paper):
    named, *others = quick_page(paper).tables
    labels = [label for label, _ in named.rows]
    assert named.name == "networks"
    assert labels
    assert all(re.fullmatch(r"`(model:)?\w+[?(].*`|`model:\w+`", run) for _, run in named.rows)
    for table in others:
        for head in {"network", "graph"} & set(table.columns):
            at = list(table.columns).index(head)
            assert all(any(row[at].startswith(label) for label in labels) for row in table.rows), table.name
        if "model" in table.columns:
            at = list(table.columns).index("model")
            assert {row[at] for row in table.rows} <= {run for _, run in named.rows}, table.name


@pytest.mark.parametrize("paper", LABELS)
def test_a_quick_page_has_no_network_of_the_paper(paper):
    page = quick_page(paper)
    texts = [page.markdown(), str(page.record())]
    texts += [str(text) for part in page.parts if isinstance(part, Figure) for text in texts_of(part)]
    for label in LABELS[paper]:
        assert not any(re.search(rf"(?<!\w){re.escape(label)}(?!\w)", text) for text in texts), label


@pytest.mark.parametrize("paper", LABELS)
def test_a_quick_page_has_no_number_of_the_paper_and_does_not_speak_of_any(paper):
    """No column or row of the paper's, no mark in a figure, and no paragraph but the note on line 3."""
    page = quick_page(paper)
    note, *texts = [part for part in page.parts if isinstance(part, str)]
    assert note.startswith("Quick page")
    assert all(text.startswith("#") for text in texts)
    for table in page.tables:
        assert table.name != "claims"
        assert not [head for head in table.columns if re.search(r"\bpaper\b|^where$", head)]
        assert "by" not in table.columns or "paper" not in [row[list(table.columns).index("by")] for row in table.rows]
    for part in page.parts:
        if isinstance(part, Table | Figure):
            words = f"{part.title} {part.note if isinstance(part, Table) else part.caption}"
            assert not re.search(r"\bpaper|Figures? \d|Tables? [\dIV]", words), words
        if isinstance(part, Figure):
            assert not any("paper" in text for text in texts_of(part))


@pytest.mark.parametrize("paper", LABELS)
def test_a_quick_page_is_the_same_if_costs_are_kept_finer(paper, monkeypatch):
    """Costs are whole multiples of a part of their unit: times were once a thousand times too long."""
    module = importlib.import_module("remat_algos.ir.differentiate")  # the name in the package is the function
    places = module._places
    monkeypatch.setattr(module, "_places", lambda *given: places(*given) + 2)
    finer = get_page(paper)(True, None)
    assert finer.record() == quick_page(paper).record()
    assert finer.markdown() == quick_page(paper).markdown()


@pytest.mark.parametrize("paper", LABELS)
def test_bytes_of_a_quick_page_are_in_binary_units(paper):
    page = quick_page(paper)
    texts = [
        page.markdown(),
        *(str(text) for part in page.parts if isinstance(part, Figure) for text in texts_of(part)),
    ]
    assert not [text for text in texts if re.search(r"\b[kMGT]B\b", text)]


@pytest.mark.parametrize("paper", LABELS)
def test_a_quick_page_does_not_call_its_rows_ours_and_has_no_negative_zero(paper):
    page = quick_page(paper)
    assert not [row for table in page.tables for row in table.cells() if any(cell.startswith("ours") for cell in row)]
    assert not re.search(r"-0(\.0*)?(?![\d.]*\d)", page.markdown())


@pytest.mark.parametrize("paper", LABELS)
def test_quick_output_fits_80_columns(paper, capsys, monkeypatch):
    page = quick_page(paper)
    monkeypatch.setattr(f"docs.reproductions.{paper}.study.page", lambda quick, progress: page)
    assert main([paper, "--quick"]) == 0
    text = capsys.readouterr().out
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert all(run.replace(" ", "") in "".join(text.split()) for _, run in page.tables[0].rows)


def texts_of(figure):
    """What is written in a picture."""
    drawn = figure.draw().get_figure()
    return [text.get_text() for text in drawn.findobj(Text)]


# ---------------------------------------------------------------- measuring


@given(
    sizes=st.lists(st.integers(1, 50), min_size=2, max_size=6, unique=True),
    factor=st.integers(1, 9),
    power=st.integers(0, 3),
)
def test_exponents_of_power_laws(sizes, factor, power):
    assert exponent(sizes, [factor * n**power for n in sizes]) == power


def test_an_exponent_near_zero_has_no_sign():
    curve = [1_000_000, 999_600]
    assert exponent([1, 2], curve) < 0
    assert powers([1, 2], {"flat": curve}, "depth").endswith(": flat 0.00.")
    (text,) = plot_growth([1, 2], {"flat": curve}, "depth").get_legend().get_texts()
    assert text.get_text() == "flat: n^0.00"


def test_a_figure_has_a_line_for_each_strategy_and_a_mark_for_each_point():
    curves = {"linear": [5, 6, 12], "flat": [9, 4, 4]}
    ax = plot_growth([1, 2, 4], curves, "depth", since=2, quoted={"paper": (4, 9)})
    assert [list(line.get_ydata()) for line in ax.get_lines()] == [*curves.values(), [9]]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["linear: n^1.00", "flat: n^0.00", "paper"]
    assert (ax.get_xscale(), ax.get_yscale(), ax.get_xlabel()) == ("log", "log", "depth")


@given(graph=training_graphs())
def test_a_case_is_what_simulation_finds(graph):
    case = Case.of("any", 1, graph, ["chen_sqrt"])
    for strategy, simulation in case.simulations.items():
        again = simulate(graph, simulation.schedule)
        assert case.peak(strategy) == again.peak_memory
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


def test_a_strategy_is_a_solver_with_options_and_its_plan_as_it_is():
    graph = differentiate(chain(16))
    case = Case.of("chain", 16, graph, {"two segments": ("chen_sqrt", {"segments": 2, "keep_last": False})})
    plan = solve(graph, "least", solver="chen_sqrt", raw=True, segments=2, keep_last=False)
    assert list(case.simulations) == [NO_REMAT, "two segments"]
    assert case.peak("two segments") == plan.peak_memory > Case.of("chain", 16, graph, ["chen_sqrt"]).peak("chen_sqrt")


def test_an_interrupted_solver_stops_the_page(monkeypatch):
    def interrupted(graph, *given, **more):
        return replace(solve(graph, *given, **more), report=SearchReport(stop=Stop.INTERRUPTED))

    monkeypatch.setattr("docs.reproductions.case.solve", interrupted)
    with pytest.raises(KeyboardInterrupt, match="nothing was written"):
        Case.of("chain", 4, differentiate(chain(4)), ["chen_sqrt"])
