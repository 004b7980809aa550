"""Pictures of a sweep: curves and titles tell what was counted by hand, texts keep to their width."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from remat_algos import plot
from remat_algos.sweeps.results import RECORD_KEYS, SweepResults
from tests.test_plot import legend, overlapping, rendered

PICTURES = {name: getattr(plot, name) for name in ("profiles", "overheads", "solve_times")}


def row(solver, compute=None, **others):
    """A job of a pass of 100, with a plan if there is a compute."""
    planned = {"outcome": "infeasible"}
    if compute is not None:
        planned = {"outcome": "planned", "compute": compute, "one_pass": 100, "overhead": compute - 100, "nodes": 10}
        planned |= {"reserved_memory": 7}
    known = {"graph_id": "a", "budget": "50%", "solver": solver, "seed": 0, "effort": "fast", "cpu_seconds": 0.5}
    return dict.fromkeys(RECORD_KEYS) | known | planned | others


def results(*rows, **others):
    return SweepResults(Path(), tuple(rows), **others)


FOUND = results(
    *(row("slow", 110), row("quick", 100), row("slow", 100, budget="70%"), row("quick", 101, budget="70%")),
    *(row("slow", 150, graph_id="b", nodes=1000, cpu_seconds=9.0), row("quick", graph_id="b", cpu_seconds=0.25)),
    *(
        row("slow", 180, budget=7),
        row("quick", 180, budget="least+1%"),
        row("slow", budget="1%"),
        row("quick", budget="1%"),
    ),
)
MANY = results(
    *(
        row(f"solver_of_a_long_name_{k}", 100 + (k * g) % 37, graph_id=str(g), budget=f"{share}%", cpu_seconds=0.01 * k)
        for k in range(22)
        for g in range(5)
        for share in (30, 50, 90)
    )
)
EDGES = {
    "nothing": results(),
    "nothing yet": results(left=3),
    "one": results(row("echo", 120)),
    "no plan": results(row("echo"), row("chen_sqrt")),
    "failed": results(row("echo", outcome="failed", cpu_seconds=None)),
    "one node": results(row("echo", 100, nodes=1)),
    "no nodes": results(row("echo", 0, one_pass=0, overhead=0, nodes=0, cpu_seconds=0.0)),
    "no compute": results(
        row("echo", 0, one_pass=0, overhead=0, bound=0, gap=0.0), row("search", 0, one_pass=0, overhead=0)
    ),
    "some are free": results(row("echo", 0, one_pass=0, overhead=0), row("search", 5, one_pass=0, overhead=5)),
    "no share": results(row("echo", 120, budget=None), row("echo", 120, device="4GiB")),
    "far apart": results(row("echo", 10**15, one_pass=1), row("search", 1, one_pass=1, overhead=0)),
    "names": results(row("$x_1$ and \\alpha" * 9, 110), row("日本語", 120), row("a" * 200, 130)),
    "22 solvers": MANY,
}


def curve(ax, name):
    return next(line for line in ax.lines if line.get_label() == name).get_xydata().tolist()


# ---------------------------------------------------------------- profiles


def test_a_profile_counts_the_problems_within_a_distance():
    found = results(*FOUND.records[:6])  # ratios 1.1, 1 and 1 of slow; 1, 1.01 and infinite of quick
    ax = plot.profiles(found)
    assert np.allclose(curve(ax, "slow"), [[0, 200 / 3], [10, 100], [13, 100]])
    assert np.allclose(curve(ax, "quick"), [[0, 100 / 3], [1, 200 / 3], [13, 200 / 3]])
    assert ax.get_title().splitlines()[0] == "slow is best or within 1 % on 66.7 % of 3 problems"
    assert legend(ax) == ["within 1 % of the best:", "slow: 66.7 %", "quick: 66.7 %"]
    lines = plot.text("profiles", found).splitlines()
    assert lines[-2].split() == ["slow", "3", *("66.7", "%") * 2, *("100.0", "%") * 3]
    assert lines[-1].split() == ["quick", "3", "33.3", "%", *("66.7", "%") * 4]


def test_a_solver_with_few_results_does_not_come_first():
    found = results(*(row("much", 100, graph_id=str(g)) for g in range(3)), row("little", 100))
    title = plot.profiles(found).get_title().splitlines()
    assert title[0] == "much is best or within 1 % on 100.0 % of 3 problems"
    assert title[2] == "solvers have results for 1 to 3 problems"


def test_a_free_plan_is_no_better_than_the_best():
    assert curve(plot.profiles(EDGES["no compute"]), "echo")[0] == [0, 100]


def test_where_the_lowest_peak_is_requested_the_peak_counts():
    for others in ({"budget": "least"}, {"budget": None}, {"budget": None, "overhead_budget": "10%"}):
        found = results(row("high", 100, reserved_memory=12, **others), row("low", 150, reserved_memory=8, **others))
        assert found.ratios() == {"high": [1.5], "low": [1.0]}
    found = results(row("slow", 100, budget="50%", time=30), row("quick", 150, budget="50%", time=20))
    assert found.ratios() == {"slow": [1.5], "quick": [1.0]}
    found = results(row("slow", 150, budget=None, device="4GiB"), row("quick", 100, budget=None, device="4GiB"))
    assert found.ratios() == {"slow": [1.5], "quick": [1.0]}


# ---------------------------------------------------------------- overheads


def test_overheads_are_medians_over_plans_by_share():
    ax = plot.overheads(FOUND)
    assert curve(ax, "slow") == [[50, 30], [70, 0]]
    assert curve(ax, "quick") == [[50, 0], [70, 1]]
    assert ax.get_title().splitlines() == [
        "budget 50 %: slow plans 2 of 2 jobs, median overhead 30.0 %",
        "8 jobs; overheads are medians over plans",
        "left out: 2 jobs whose budget is not a share of the peak",
    ]
    assert legend(ax) == ["jobs with a plan:", "slow: 3 of 4", "quick: 2 of 4", "hollow: some jobs have no plan"]
    hollow = [line.get_xydata().tolist() for line in ax.lines if to_hex(line.get_markerfacecolor()) == "#ffffff"]
    assert hollow == [[], [[50, 0]]]
    rows = [line.split() for line in plot.text("overheads", FOUND, width=60).splitlines()[-6:-2]]
    assert [" ".join(row) for row in rows] == [
        *("1 % slow 0 of 1", "1 % quick 0 of 1", "50 % slow 2 of 2 30.0 %", "50 % quick 1 of 2 0 %")
    ]


def test_a_share_may_be_spelled_in_several_ways():
    ax = plot.overheads(results(row("echo", 110, budget="50%"), row("echo", 130, budget=" 50.0 %")))
    assert curve(ax, "echo") == [[50, 20]]


@pytest.mark.parametrize("name", ["no share", "no plan", "nothing"])
def test_overheads_of_no_plan_say_so(name):
    for said in (plot.overheads(EDGES[name]).get_title(), plot.text("overheads", EDGES[name], width=90)):
        assert f"no plan in {2 * (name == 'no plan')} jobs whose budget is a share of the peak" in said


# ---------------------------------------------------------------- times


def test_times_stand_above_the_nodes_of_their_graph_without_a_plan_too():
    ax = plot.solve_times(FOUND)
    assert curve(ax, "slow") == [[10, 0.5], [10, 0.5], [1000, 9], [10, 0.5]]
    assert {line.get_markevery() for line in ax.lines} == {None}
    points = [line.get_xydata().tolist() for line in ax.lines if to_hex(line.get_markerfacecolor()) == "#ffffff"]
    assert points == [[[10, 0.5]], [[1000, 0.25], [10, 0.5]]]
    assert ax.get_title().splitlines() == [
        "slowest: slow, 9 s on 1,000 nodes",
        "10 jobs on 2 graphs; median time 500 ms",
    ]
    assert legend(ax) == ["median time:", "slow: 500 ms", "quick: 500 ms", "hollow: no plan"]
    assert plot.text("solve_times", FOUND).splitlines()[-2].split() == ["slow", "5", "500", "ms", "9", "s", "1,000"]


def test_jobs_without_a_time_or_a_size_are_counted():
    found = results(row("echo", 110), row("echo", graph_id="b"), row("echo", cpu_seconds=None, outcome="failed"))
    left_out = "left out: 2 jobs without a known time and graph size"
    assert plot.solve_times(found).get_title().splitlines()[-1] == left_out
    assert left_out in plot.text("solve_times", found, width=80).splitlines()


# ---------------------------------------------------------------- all of them


@pytest.mark.parametrize("picture", PICTURES)
@pytest.mark.parametrize("name", EDGES)
def test_edge_cases_are_drawn_and_their_texts_keep_to_the_width(name, picture):
    assert overlapping(rendered(PICTURES[picture](EDGES[name]))) == []
    for width in (1, 40, 72, 120):
        assert max(map(len, plot.text(picture, EDGES[name], width=width).splitlines())) <= max(width, 40)


@pytest.mark.parametrize("draw", PICTURES.values())
def test_many_solvers_all_differ_and_are_all_named(draw):
    ax = draw(MANY)
    lines = [line for line in ax.lines if line.get_label() in {row["solver"] for row in MANY}]
    assert len({(to_hex(line.get_color()), line.get_marker()) for line in lines}) == 22
    assert sum("solver_of_" in text for text in legend(ax)) == 22


@pytest.mark.parametrize("draw", PICTURES.values())
def test_what_is_left_is_said_and_given_axes_are_drawn_on(draw):
    ax = Figure().add_subplot()
    assert draw(results(*FOUND.records, left=4), ax=ax) is ax
    assert ax.get_title().splitlines()[-1] == "4 jobs of the sweep left: incomplete"


@pytest.mark.parametrize("picture", PICTURES)
@pytest.mark.parametrize("wrong", [3, [], "folder", SweepResults])
def test_what_is_no_result_of_a_sweep_is_refused(picture, wrong):
    for draw in (PICTURES[picture], partial(plot.text, picture)):
        with pytest.raises(TypeError, match=r"^results is .*; give "):
            draw(wrong)
