"""The page of kumar2019: widths, its three algorithms to the letter, memory against depth and length, our goals."""

from dataclasses import replace

import numpy as np
import pytest

from docs.reproductions.case import NO_REMAT
from docs.reproductions.growth import exponent
from docs.reproductions.kumar2019 import algorithms as kumar2019_algorithms
from docs.reproductions.kumar2019 import goals as kumar2019_goals
from docs.reproductions.kumar2019 import study as kumar2019
from docs.reproductions.kumar2019.algorithms import (
    GREEDY,
    TWREMAT,
    AlgorithmOne,
    length,
    measured,
    share,
    solved,
)
from docs.reproductions.kumar2019.networks import training_graph
from docs.reproductions.kumar2019.plots import plot_lengths, plot_trade
from docs.reproductions.kumar2019.trade import SHARES, recursion_limits, shortest, undominated
from docs.reproductions.kumar2019.widths import TABLE_1, Width, Widths
from docs.reproductions.tests.quick_pages import column, committed, quick_tables
from remat_algos.context import Stop
from remat_algos.errors import BudgetError, GraphError
from remat_algos.plan.record import SearchReport
from remat_algos.schedule.emission import baseline
from remat_algos.search.solve import solve
from remat_algos.zoo.random import chain

FFN = "model:feed_forward?depth=12&batch=1024&optimizer=sgd"


# ---------------------------------------------------------------- the three algorithms


@pytest.fixture(scope="module")
def paper():
    return AlgorithmOne(training_graph(FFN))


def test_every_operation_costs_one_so_that_length_counts_runs(paper):
    assert set(paper.graph.compute.tolist()) == {1}
    simulation = paper.simulation()
    assert length(simulation) == round(len(simulation.schedule) / paper.graph.n_nodes, 3) > 1
    assert length(baseline(paper.graph)) == share(baseline(paper.graph)) == 1


def test_with_more_bags_than_there_are_algorithm_one_is_one_pass(paper):
    for k in (paper.decomposition.n_bags + 1, paper.graph.n_nodes):
        assert np.array_equal(paper.simulation(k).schedule.order, baseline(paper.graph).schedule.order)


def test_recursion_lowers_the_peak_and_runs_again(paper):
    least, most = paper.simulation(1), paper.simulation(paper.graph.n_nodes)
    assert least.peak_memory < most.peak_memory
    assert least.compute > most.compute


def test_a_schedule_without_end_is_given_up(paper, monkeypatch):
    monkeypatch.setattr(kumar2019_algorithms, "LONGEST", 1)
    with pytest.raises(GraphError, match="take a larger k"):
        paper.simulation()


def test_an_interrupted_solver_stops_the_page(paper, monkeypatch):
    def interrupted(graph, *given, **more):
        return replace(solve(graph, *given, **more), report=SearchReport(stop=Stop.INTERRUPTED))

    monkeypatch.setattr(kumar2019_algorithms, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt, match="nothing was written"):
        solved(paper.graph, "least", "FFN", solver="no_remat")


def test_progress_says_what_it_is_about():
    told = []
    graph = training_graph("model:feed_forward?depth=4")
    solved(graph, "least", "FFN-4", lambda *said: told.append(said[2]), solver="chen_sqrt")
    assert told
    assert all(what.startswith("FFN-4: ") for what in told)


# ---------------------------------------------------------------- widths


def test_a_chain_has_width_one_and_its_gradients_make_a_ladder():
    """A gradient reads the next gradient and a value of the chain: squares side by side, of width 2."""
    assert Width.of(chain(6)) == Width(6, 5, 1, 1)
    widths = Widths.of("feed_forward?depth=6")
    assert (widths.forward.width, widths.values.width, widths.ratio, widths.proven) == (1, 2, 2.0, 2.0)


def test_widths_that_are_not_proved_show_their_bound():
    assert [str(Width(9, 20, 5, low)) for low in (5, 4)] == ["5", "4-5"]


def test_a_row_of_table_1_by_hand():
    assert TABLE_1["ResNet200"][0] == (17_705, 27_312, 11)


# ---------------------------------------------------------------- memory against length


def test_recursion_limits_double_up_to_one_pass():
    assert recursion_limits(9, 12) == [1, 2, 4, 8, 12]
    assert recursion_limits(9, 9)[-1] == 10  # more bags than there are


def test_undominated_schedules_rise_in_peak_and_fall_in_compute(paper):
    every = [paper.simulation(k) for k in (1, 4, 16, paper.graph.n_nodes)]
    kept = undominated(every)
    assert [s.peak_memory for s in kept] == sorted({s.peak_memory for s in kept})
    assert [s.compute for s in kept] == sorted({s.compute for s in kept}, reverse=True)
    for each in every:
        assert any(s.peak_memory <= each.peak_memory and s.compute <= each.compute for s in kept)


def test_the_shortest_within_a_limit(paper):
    least, most = paper.simulation(1), paper.simulation(paper.graph.n_nodes)
    assert shortest([least, most], most.peak_memory) == 1
    assert shortest([least, most], most.peak_memory - 1) == length(least)
    assert shortest([least, most], least.peak_memory - 1) is None


# ---------------------------------------------------------------- figures


def test_lengths_have_a_panel_for_each_family():
    curves = {"A": [(50, 1.0), (100, 2.0)], "B": [(50, 3.0), (100, 4.0)]}
    axes = plot_lengths({"one": curves, "two": curves}).figure.axes
    assert [ax.get_title() for ax in axes] == ["one", "two"]
    for ax in axes:
        assert [list(zip(*line.get_data(), strict=True)) for line in ax.get_lines()] == list(curves.values())
    assert [text.get_text() for text in axes[1].get_legend().get_texts()] == ["A", "B"]


def test_memory_stands_against_length_on_a_logarithmic_axis():
    curves = {"A": [(1.0, 4_000_000_000), (2.0, 1_000_000_000)], "B": [(1.5, 500_000_000)]}
    ax = plot_trade(curves)
    assert [list(zip(*line.get_data(), strict=True)) for line in ax.get_lines()] == list(curves.values())
    assert (ax.get_xscale(), ax.get_ylabel()) == ("log", "peak memory (GiB)")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["A", "B"]


# ---------------------------------------------------------------- the page


@pytest.fixture(scope="module")
def quick():
    """The tables of the page of small networks, by name."""
    return quick_tables("kumar2019")


def test_one_claim_is_of_the_same_schedule():
    assert "the same schedule" in [row["ours"] for row in committed("kumar2019", "claims")]


def test_about_2_times_names_the_variants_that_it_does_not_hold_for():
    (claim,) = [row["ours"] for row in committed("kumar2019", "claims") if row["paper"] == "about 2 times"]
    plain, *others = committed("kumar2019", "variants")
    assert plain["remark"] == "as above"
    for row in others:
        assert f"{1 / float(row[GREEDY]):.2f} with {row['remark']}" in claim
    near = [abs(1 / float(row[GREEDY]) - 2) < 0.1 for row in (plain, *others)]
    assert near == [True, False, False, False]  # as the text below the figure says


def test_the_plain_variant_is_the_network_of_the_table_above(quick):
    """On the quick page and on the committed one: its remark is "as above"."""
    assert column(quick["variants"], "remark") == ["as above"]
    for head in ("nodes", NO_REMAT):
        assert column(quick["variants"], head) == column(quick["figure2_resnet"], head)[-1:]
    plain, *_ = committed("kumar2019", "variants")
    (above,) = [row for row in committed("kumar2019", "figure2_resnet") if row["depth"] == "101"]
    assert (plain["nodes"], plain["no_remat"]) == (above["nodes"], above["no_remat"])


def test_both_tables_of_transformers_are_with_adam_and_the_second_with_sgd_too():
    assert TABLE_1["Transformer Base"][2] == kumar2019.OPTIMIZERS[0] == "adam"
    rows = [(row["network"], row["by"]) for row in committed("kumar2019", "table2")]
    assert rows == [(label, by) for label in kumar2019.TABLE_2 for by in ("paper", "ours, adam", "ours, sgd")]


def test_single_runs_again_save_nothing_on_feed_forward_networks_and_trees_grow_least(quick):
    """Section 4.1: linear, linear, sublinear."""
    table = quick["figure2_ffn"]
    assert column(table, GREEDY) == column(table, NO_REMAT)
    depths = column(table, "depth")
    powers = {name: exponent(depths, column(table, name)) for name in (NO_REMAT, TWREMAT, "twremat")}
    assert powers[NO_REMAT] > 0.8 > 0.5 > max(powers[TWREMAT], powers["twremat"])


def test_figure_3_is_of_the_schedules_of_figure_2(quick):
    rows = quick["figure3"].rows
    table = quick["figure2_ffn"]
    for (_, depth, *lengths), peaks in zip(rows[-len(table.rows) :], table.rows, strict=True):
        graph = training_graph(kumar2019.FFN.format(depth))
        plan = AlgorithmOne(graph).simulation()
        names = [name for name in list(table.columns)[3:] if name != NO_REMAT]
        assert peaks[list(table.columns).index(TWREMAT)] == plan.peak_memory
        assert lengths[names.index(TWREMAT)] == length(plan)


@pytest.mark.parametrize(("label", "times"), [("Transformer Base", 3.48), ("Transformer Big", 4.59)])
def test_how_much_less_the_paper_says_follows_from_its_table(label, times):
    (plain, _), _, (tree, _) = kumar2019.TABLE_2[label][2]
    assert kumar2019.TABLE_2[label][-1] == f"{times} times"
    assert plain / tree == pytest.approx(times, abs=0.01)


def test_the_papers_row_stands_above_ours_and_no_peak_is_below_the_bound():
    graphs = {
        name: training_graph(f"{kumar2019.TRANSFORMER.format('base', 2, name)}&depth=1") for name in ("adam", "sgd")
    }
    cases = {("Transformer Base", name): measured(name, 0, graph) for name, graph in graphs.items()}
    table = kumar2019._table_2(cases)
    assert column(table, "by") == ["paper", "ours, adam", "ours, sgd"]
    theirs, *both = table.rows
    assert theirs[2:8] == (3.97, 1.21, 2.92, 1.27, 1.14, 10.61)
    for ours in both:
        assert min(ours[2:-1:2]) >= ours[-1]
        assert ours[3] == 1
    adam, sgd = (row[list(table.columns).index(f"{TWREMAT}, length")] for row in both)
    assert adam < sgd


def test_within_a_larger_share_no_schedule_is_longer(quick):
    table = quick["figure4"]
    assert column(table, "peak of NoRemat") == list(SHARES)
    for name in list(table.columns)[1:]:
        lengths = [cell for cell in column(table, name) if cell is not None]
        assert lengths == sorted(lengths, reverse=True)
        assert None not in column(table, name)[len(SHARES) - len(lengths) :]


def test_passes_never_lengthen(quick):
    table = quick["figure4_limits"]
    for before, after in zip(column(table, "length"), column(table, "length after passes"), strict=True):
        assert after <= before
    assert (table.rows[-1][2], column(table, "length")[-1]) == (1, 1)


def test_each_part_of_twremat_lowers_the_peak(quick):
    for _, *cells in quick["steps"].rows:
        assert cells[::2] == sorted(cells[::2], reverse=True)


def test_goals_are_what_solve_finds(quick):
    ((model, _, nodes, base, aim, at, reached, peak, lowest, lowest_length, bound),) = quick["goals"].rows
    graph = training_graph(model.strip("`"), unit=False)
    plan = solve(graph, "least", solver="twremat")
    assert (nodes, base, aim) == (graph.n_nodes, baseline(graph).peak_memory, "6 % at 1.7")
    assert peak == plan.peak_memory
    assert (lowest, lowest_length) == (share(plan.simulation), length(plan.simulation))
    assert lowest >= bound
    with pytest.raises(BudgetError):
        solve(graph, "6%", solver="twremat")
    assert (at, reached) == (None, "no")


def test_a_goal_within_reach(monkeypatch):
    monkeypatch.setitem(kumar2019_goals.BUDGETS, "feed_forward", ("60%", 1.7))
    *_, at, reached, _, lowest, _, _ = kumar2019_goals._goal("feed_forward", "depth=12", None)
    assert 1 <= at <= 1.7
    assert (reached, lowest < 0.6) == ("yes", True)
