"""What the page of chen2016 says, by simulation, by allocations and by hand."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docs.reproductions.case import NO_REMAT, PARAMETER, Case
from docs.reproductions.chen2016 import study as chen2016
from docs.reproductions.chen2016.networks import (
    DROP,
    RECURSIVE,
    RESNET_SOLVERS,
    SUBLINEAR,
    blocks,
    lstm,
    resnet,
    resnet_case,
    scaled,
)
from docs.reproductions.chen2016.plans import IN_PLACE, NO_OPTIMIZATION, SHARING, Allocated, static_buffers
from docs.reproductions.chen2016.study import SHARES, deepest, overheads
from docs.reproductions.chen2016.time import ROOFLINE, Line, Timed, plot_time
from docs.reproductions.growth import exponent
from docs.reproductions.page import Figure
from docs.reproductions.tests.quick_pages import PAGES, column, committed, quick_page, quick_tables, rows_of
from remat_algos import plot
from remat_algos.allocate.sharing import share_storage
from remat_algos.cost.links import units_per_second
from remat_algos.ir.differentiate import differentiate
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.simulation import simulate
from remat_algos.search.solve import solve
from remat_algos.text.amounts import parse_bytes
from remat_algos.zoo.registry import build
from tests.strategies import training_graphs


@pytest.fixture(scope="module")
def quick():
    """The page of few networks, and its tables by name."""
    return quick_page("chen2016"), quick_tables("chen2016")


@pytest.fixture(scope="module")
def resnet50():
    return resnet_case(50, None)


def numbers(name):
    """A committed table, its numbers as such."""
    rows = committed("chen2016", name)
    return [{key: float(cell) if re.fullmatch(r"[\d.]+", cell) else cell for key, cell in row.items()} for row in rows]


# ---------------------------------------------------------------- the page


def test_numbers_beside_the_papers_are_in_its_unit(resnet50):
    plans = Allocated.of(resnet50)
    table = chen2016._counting_table(plans, plans)
    (sharing,) = [cells for cells in table.cells() if cells[0] == SHARING]
    assert sharing == (SHARING, "2.64 GB", "2.64 GB", "48 GB")
    claimed = [row["ours"] for row in committed("chen2016", "claims") if "GB" in row["paper"]]
    assert len(claimed) == 2
    assert all(re.fullmatch(r"[\d.]+ GB; counted as by kusumoto2019 [\d.]+ GB", ours) for ours in claimed)


def test_a_figure_is_the_same_whatever_was_drawn_before(quick, tmp_path):
    page, _ = quick
    figures = [part for part in page.parts if isinstance(part, Figure)]
    first = figures[0].svg()
    plot.save(figures[-1].draw(), tmp_path / "other.png")
    assert figures[0].svg() == first


def test_files_in_the_docs_are_those_of_the_page(quick):
    page, _ = quick
    names = {page.file_of(part) for part in page.parts if not isinstance(part, str)} - {"chen2016_networks.csv"}
    whole = {"chen2016.md", "chen2016_claims.csv", "chen2016_order.csv", "chen2016_stages.csv"}
    assert {path.name for path in PAGES.glob("chen2016*.*")} == names | whole


def test_what_the_texts_say_without_numbers_holds_in_the_committed_tables():
    stages = [row["sublinear plan with parameters and their gradients"] for row in numbers("stages")]
    assert [total < 7e9 for total in stages] == [True] * 3 + [False]
    counting = {row["plan"]: row for row in numbers("counting")}
    assert counting[SHARING]["kusumoto2019"] == pytest.approx(48e9, rel=0.05)
    for count in ("frameworks", "kusumoto2019"):
        assert counting[SUBLINEAR][count] < 0.6 * 7e9
        in_place, once = (counting[name][count] / counting[NO_OPTIMIZATION][count] for name in (IN_PLACE, SHARING))
        assert once < 0.6 * in_place < 0.36
    for row in numbers("allocations"):
        assert row["packed"] <= 1.02 * row["in place"]
        assert row["shared"] <= (1.01 if row["plan"] == SHARING else 1.6) * row["in place"]
        assert "LSTM" in row["network"] or row["plan"] != SUBLINEAR or row["shared"] > 1.4 * row["packed"]
    plans = {(row["network"], row["plan"]): row for row in numbers("allocations")}
    for network, less in (("ResNet-1001", True), ("LSTM of 64 steps", False)):
        theirs, ours = plans[network, "search of appendix A"], plans[network, SUBLINEAR]
        assert (theirs["shared"] < ours["shared"]) is less
        assert theirs["peak"] > ours["peak"]
    costs = {(row["network"], row["peak of at most"]): row for row in numbers("costs")}
    assert costs["ResNet-1001", 0.25]["more time, costs weighed"] < 0.6 * costs["ResNet-1001", 0.25]["more time"]
    assert costs["LSTM of 64 steps", 0.25]["more time, costs weighed"] == costs["LSTM of 64 steps", 0.25]["more time"]


def test_products_of_an_lstm_take_more_than_all_that_its_gradients_read():
    graph = lstm(8, weights=False)
    products = np.array(graph.labels.ops) == "Linear"
    assert graph.node_memory[products].sum() > baseline(graph).peak_memory


# ---------------------------------------------------------------- networks


@pytest.mark.parametrize("like", [(3, 4, 6, 3), (3, 8, 36, 3), (3, 24, 36, 3)])
@pytest.mark.parametrize("depth", [50, 302, 1001])
def test_scaled_stages_have_the_depth_and_the_proportions(like, depth):
    stages = scaled(like, depth)
    assert 3 * sum(stages) + 2 == depth
    assert all(abs(a * sum(like) - b * sum(stages)) <= 2 * sum(like) for a, b in zip(stages, like, strict=True))


def test_without_rematerialization_each_ten_blocks_take_the_same():
    """From 20 blocks to 30 to 40 the second stage grows by four each time, the third by six."""
    peaks = [baseline(resnet(depth)).peak_memory for depth in (62, 92, 122)]
    assert peaks[2] - peaks[1] == pytest.approx(peaks[1] - peaks[0], rel=1e-6)


def test_gradients_of_weights_without_bytes_leave_feature_maps_and_their_gradients():
    without, weighted = lstm(2, weights=False), lstm(2)
    of_weights = without.memory != weighted.memory
    assert not without.memory[of_weights].any()
    assert not without.forward[without.producer[of_weights]].any()
    assert weighted.memory[weighted.output].sum() == weighted.resident.memory[weighted.resident.role == PARAMETER].sum()


# ---------------------------------------------------------------- plans


@settings(max_examples=15)
@given(graph=training_graphs())
def test_allocations_are_ordered(graph):
    """Nothing shared takes all values together; in place is not more, nor is sharing; none has less than is needed."""
    plans = Allocated.of(Case.of("any", 1, graph, ["chen_sqrt"]))
    assert plans.memory[NO_OPTIMIZATION] == plans.case.unshared + int(graph.workspace[graph.needed].sum())
    assert plans.memory[SHARING] <= plans.memory[IN_PLACE] <= plans.memory[NO_OPTIMIZATION]
    for name, strategy in ((SHARING, NO_REMAT), ("chen_sqrt", "chen_sqrt")):
        least = static_buffers(plans.case.simulations[strategy]).max_live
        assert least <= min(plans.memory[name], plans.case.peak(strategy))


def test_sums_of_the_gradients_of_weights_take_one_cell_each():
    """In place every step adds to the same bytes: what weights add is that of the parameters, whatever the steps."""
    for steps in (2, 3):
        with_weights, without = (Case.of("", steps, lstm(steps, weights=given), []) for given in (True, False))
        added = Allocated.of(with_weights).memory[IN_PLACE] - Allocated.of(without).memory[IN_PLACE]
        assert added == with_weights.parameter_memory


def test_peaks_and_overheads_are_simulated_again(resnet50):
    """The ResNet of 50 layers, built and solved once more."""
    case = resnet50
    graph = differentiate(build("resnet50", batch=32, preactivation=True, workspace=0).graph)
    assert graph.hash == case.graph.hash
    for strategy, (solver, options) in RESNET_SOLVERS.items():
        plan = solve(graph, "least", solver=solver, raw=True, **options)
        assert simulate(graph, plan.schedule).peak_memory == case.peak(strategy)
        assert case.overhead(strategy) == pytest.approx(plan.overhead / graph.needed_compute, abs=1e-4)


def test_dropping_keeps_all_but_batch_norms_and_relus(resnet50):
    """They run twice where a gradient needs them; every other operation runs once, so that peaks lie in between."""
    case = resnet50
    ops, runs = np.array(case.graph.labels.ops), case.simulations[DROP].runs
    assert set(ops[runs > 1]) == {"BatchNorm", "ReLU"}
    assert runs.max() == 2
    assert case.peak(SUBLINEAR) < case.peak(DROP) < case.peak(NO_REMAT)


@pytest.mark.parametrize("name", ["figure5", "figure6", "figure6_weights"])
def test_every_plan_of_the_paper_takes_less_than_the_one_before(quick, name):
    _, tables = quick
    for row in rows_of(tables[name]):
        drop = [row[DROP]] if DROP in row else []
        memory = [row[NO_OPTIMIZATION], row[IN_PLACE], row[SHARING], *drop, row[SUBLINEAR], row[RECURSIVE]]
        assert memory == sorted(memory, reverse=True)


def test_without_rematerialization_memory_grows_linearly_and_with_chens_plans_less(quick):
    _, tables = quick
    table = tables["figure5"]
    depths = column(table, "depth")
    powers = {name: exponent(depths, column(table, name)) for name in list(table.columns)[1:]}
    assert min(powers[name] for name in (NO_OPTIMIZATION, IN_PLACE, SHARING)) > 0.75  # and what the first layers take
    assert max(powers[name] for name in (SUBLINEAR, RECURSIVE)) < 0.5


def test_addresses_lie_between_what_is_needed_and_side_by_side(quick):
    _, tables = quick
    for row in rows_of(tables["allocations"]):
        assert row["in place"] <= min(row["peak"], row["packed"])
        assert row["packed"] <= row["shared"]


def test_the_search_of_appendix_a_is_ranked_by_the_allocation(quick):
    """Of all its plans the one that takes least when shared: never the peak decides."""
    _, tables = quick
    for row in rows_of(tables["allocations"]):
        if row["plan"] != "search of appendix A":
            continue
        graph = resnet(122) if "ResNet" in row["network"] else lstm(6, weights=False)
        plan = solve(graph, solver="chen_greedy", raw=True, grid="paper", rank_by="allocation", keep_last=False)
        assert row["shared"] == plan.details["allocation"] == share_storage(static_buffers(plan.simulation)).size
        assert row["peak"] == plan.peak_memory


def test_the_same_depth_is_divided_in_four_ways():
    """Which the quick page leaves out."""
    table = chen2016._stages_table(62, None)
    stages = [[int(stage) for stage in dashed.split("-")] for dashed in column(table, "stages")]
    assert stages[0] == list(blocks(62))
    assert all(sum(stage) == 20 for stage in stages)  # 3 convolutions each, the first one and the linear layer
    assert len({tuple(stage) for stage in stages}) == len(table.rows) == 4
    for stage, row in zip(stages, rows_of(table), strict=True):
        assert row[SHARING] >= static_buffers(baseline(resnet(62, stages=stage))).max_live
        assert row["sublinear plan with parameters and their gradients"] == row[SUBLINEAR] + 2 * row["parameters"]


@pytest.mark.parametrize("counting", ["framework", "paper"])
def test_the_deepest_resnet_fits_and_the_next_one_does_not(counting):
    memory = parse_bytes("3GB")
    depth = deepest(counting, memory)
    cases = [resnet_case(found, None, {}, counting=counting) for found in (depth, depth + 3)]
    totals = [Allocated.of(case).memory[SHARING] + 2 * case.parameter_memory for case in cases]
    assert totals[0] <= memory < totals[1]


# ---------------------------------------------------------------- time


@given(
    sizes=st.lists(st.integers(1, 50), min_size=2, max_size=6, unique=True),
    slope=st.integers(1, 9),
    start=st.integers(0, 9),
)
def test_a_straight_line_is_one(sizes, slope, start):
    line = Line.of(sizes, [start + slope * n for n in sizes])
    assert (line.slope, line.deviation) == (slope, 0)
    assert line.exponent <= 1
    assert start or line.exponent == 1


def test_a_square_is_no_straight_line():
    assert Line.of([1, 2, 3], [1.0, 4.0, 9.0]) == Line(exponent=2.0, slope=4.0, deviation=0.3333)


def test_time_is_that_of_the_schedule_under_the_roofline(resnet50):
    timed = Timed.of(resnet50, resnet)
    graph = resnet(50, **ROOFLINE)
    again = simulate(graph, resnet50.simulations[SUBLINEAR].schedule)
    assert timed.seconds(SUBLINEAR) == pytest.approx(again.compute / units_per_second(graph), abs=1e-6)
    assert timed.seconds(SUBLINEAR) / timed.seconds(NO_REMAT) == pytest.approx(1 + timed.more(SUBLINEAR), abs=1e-4)
    assert timed.more("another") is None


def test_a_panel_has_a_line_for_each_strategy_of_its_family(resnet50):
    timed = Timed.of(resnet50, resnet)
    first = plot_time({"ResNets, depth": [timed], "Others, steps": [timed]})
    assert [line.get_label() for line in first.get_lines()] == [SHARING, SUBLINEAR, DROP]
    assert [list(line.get_ydata()) for line in first.get_lines()][1] == [timed.seconds(SUBLINEAR)]
    assert [(ax.get_title(), ax.get_xlabel()) for ax in first.figure.axes] == [
        ("ResNets", "depth"),
        ("Others", "steps"),
    ]


def test_the_sublinear_plan_runs_the_forward_part_at_most_once_more(quick):
    """Which is a third of a pass; by no measure is it free."""
    _, tables = quick
    for row in rows_of(tables["figure7"]):
        assert all(row[name] > 0 for name in ("more time", "more FLOPs", "10 and 1"))
        assert row["more FLOPs"] < 0.34
        assert ("ResNet" in row["network"]) == (row["drop bn-relu, more time"] is not None)


# ---------------------------------------------------------------- costs weighed


def test_weighing_costs_never_costs_more(quick):
    """All plans of algorithm 3 are among those that are tried."""
    _, tables = quick
    for row in rows_of(tables["costs"]):
        for what in ("more FLOPs", "more time"):
            plain, weighed = row[what], row[f"{what}, costs weighed"]
            assert plain is None or weighed <= plain


def test_overheads_are_those_that_solve_finds():
    graph = resnet(14)
    found = overheads(graph, (0.01, 0.6, 1), False)
    plan = solve(graph, "60%", solver="chen_greedy", raw=True)
    assert found == [None, round(plan.overhead / graph.needed_compute, 4), 0]
    assert len(SHARES) == len(set(SHARES))
