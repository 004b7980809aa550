"""The page of kusumoto2019: its networks, plans by the formulas, vanilla runs, and batch sizes."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.reproductions.kusumoto2019 import study as kusumoto2019
from docs.reproductions.kusumoto2019.batches import (
    MEMORY,
    BatchCurves,
    Sizes,
    batch_curves,
    largest_batch,
    plot_batches,
)
from docs.reproductions.kusumoto2019.canonical_plans import (
    CanonicalPlan,
    PaperNetwork,
    Planner,
    as_frameworks_save,
    by_liveness,
    chens,
    peak_of_a_tape,
)
from docs.reproductions.kusumoto2019.networks import (
    CHEN,
    LIVENESS,
    METHODS,
    PLANNED,
    REPORTED,
    TIME,
    VANILLA,
    Measured,
)
from docs.reproductions.tests.quick_pages import quick_tables
from remat_algos.ir.differentiate import differentiate
from remat_algos.schedule.emission import baseline, canonical_schedule
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.search.solve import solve
from remat_algos.structure.lower_sets import single_boundary_chain
from remat_algos.zoo.registry import build
from tests.strategies import training_graphs

TINY = PaperNetwork("tiny", "unet", 1, {"image": 188, "depth": 2, "width": 8})


# ---------------------------------------------------------------- networks


@pytest.mark.parametrize("row", REPORTED.values(), ids=lambda row: row.network.label)
def test_percents_of_the_paper_follow_from_its_gigabytes(row):
    """Both are rounded: GB to tenths, of 1.6 at the least, percents to whole ones."""
    for method in METHODS:
        assert row.reductions[method] == pytest.approx(1 - row.totals[method] / row.totals[VANILLA], abs=0.013)


@pytest.mark.parametrize("row", REPORTED.values(), ids=lambda row: row.network.label)
def test_networks_have_the_nodes_that_the_paper_counts(row):
    assert row.network.forward().n_nodes == row.n_nodes


def test_a_row_of_table_1_by_hand():
    row = REPORTED["GoogLeNet"]
    assert (row.network.model, row.network.batch, row.n_nodes) == ("googlenet", 256, 134)
    assert row.totals["ExactDP + TC"] == 5_900_000_000
    assert row.reductions["ExactDP + TC"] == 0.31
    assert row.totals[VANILLA] == 8_500_000_000


# ---------------------------------------------------------------- vanilla


def taped(graph):
    """Bytes at most: what gradients read is never let go, anything else after its last read."""
    order = baseline(graph).schedule.order.tolist()
    reads = {v: graph.read_indices[graph.read_indptr[v] : graph.read_indptr[v + 1]].tolist() for v in order}
    held, most = set(), 0
    for step, v in enumerate(order):
        made = range(graph.value_indptr[v], graph.value_indptr[v + 1])
        held |= set(made)
        most = max(most, sum(int(graph.memory[x]) for x in held) + int(graph.workspace[v]))
        later = {x for w in order[step + 1 :] for x in reads[w]}
        tape = {x for w in order if not graph.forward[w] for x in reads[w] if graph.forward[graph.producer[x]]}
        held = {x for x in held if graph.output[x] or x in later or x in tape}
    return most


@given(graph=training_graphs(max_nodes=9))
def test_a_tape_lets_nothing_go_that_a_gradient_reads(graph):
    assert peak_of_a_tape(graph) == taped(graph) >= baseline(graph).peak_memory


def test_gradients_of_crops_and_joints_read_nothing_in_frameworks():
    graph = TINY.forward()
    less = as_frameworks_save(graph)
    before, after = (np.diff(each.backward.saved_indptr) for each in (graph, less))
    changed = np.flatnonzero(before != after)
    assert {graph.labels.ops[v] for v in changed} == {"Slice", "Concat", "Dropout"}
    assert not after[changed].any()
    assert peak_of_a_tape(differentiate(less)) < peak_of_a_tape(differentiate(graph))


# ---------------------------------------------------------------- plans


@pytest.fixture(scope="module")
def unet():
    """Table 1's batch is the one of the published graph, whose least budgets and overheads are known to the byte."""
    return Planner(REPORTED["U-Net"].network.training())


@pytest.mark.parametrize(
    ("family", "sets", "budget", "time", "memory", "cache"),
    [("exact", 331, 5_545_689_088, 150, 201, 183), ("pruned", 61, 5_784_403_968, 120, 225, 207)],
)
def test_plans_are_optimal_by_the_formulas(unet, family, sets, budget, time, memory, cache):
    assert (unet.n_lower_sets(family), unet.least_budget(family)) == (sets, budget)
    found = {strategy: unet.plan(family, strategy) for strategy in ("time", "memory", "cache")}
    overheads = [plan.formula_overhead for plan in found.values()]
    assert overheads == [time, memory, cache]
    assert all(plan.chain.peak(unet.graph) <= budget for plan in found.values())


@pytest.mark.parametrize(("strategy", "options"), PLANNED.items())
def test_plans_are_those_of_the_solvers(unet, strategy, options):
    family, centre = options
    solver = {"solver": "exact_dp"} if family == "exact" else {"solver": "approximate_dp", "family": "pruned"}
    budget = unet.least_budget(family)
    asked = {"formula_budget": budget, "strategy": centre, "keep_last": False, "lazy": False}
    plan = solve(unet.graph, raw=True, **solver, **asked)
    ours = unet.plan(family, centre)
    assert plan.details["formula_overhead"] == ours.formula_overhead
    assert ours.overhead == ours.simulation.compute - unet.graph.needed_compute


@given(graph=training_graphs(max_nodes=9))
def test_liveness_never_takes_more(graph):
    """But for gradients that nobody reads, which the simulator keeps to the end and the paper hands over."""
    plan = CanonicalPlan(graph, single_boundary_chain(graph))
    assert plan.peak <= plan.peak_without_liveness(graph) + graph.memory[graph.output].sum()


def test_chens_plan_is_that_of_the_solver(unet):
    plan = solve(unet.graph, solver="chen_sqrt", candidates="boundary1", keep_last=False, raw=True)
    chain = chens(unet.graph).chain
    assert plan.schedule.order.tolist() == canonical_schedule(unet.graph, chain, keep_last=False).order.tolist()


def test_plans_by_liveness_rise_in_memory_and_fall_in_compute():
    graph = TINY.training()
    runs = [simulate(graph, schedule) for schedule in by_liveness(graph)]
    peaks, computes = [each.peak_memory for each in runs], [each.compute for each in runs]
    assert len(runs) > 2
    assert peaks == sorted(peaks)
    assert computes == sorted(computes, reverse=True)


def test_totals_hold_what_is_beside_the_peak():
    """Vanilla and `liveness_dp` of U-Net, put together by hand."""
    case = Measured.of_table_1("U-Net")
    graph, resident = case.graph, case.graph.resident_memory
    light = differentiate(as_frameworks_save(case.network.forward()), parameter_gradients=True)
    assert case.totals[VANILLA] == resident + peak_of_a_tape(light)
    assert case.totals[LIVENESS] == resident + min(simulate(graph, each).peak_memory for each in case.lowered)
    assert case.freed == resident + baseline(graph).peak_memory
    assert case.reduction(case.totals[VANILLA]) == 0 < case.reduction(case.totals[LIVENESS])


def test_progress_says_which_network_it_is_about():
    told = []
    case = Measured.of_table_1("VGG19", lambda *said: told.append(said[2]))
    case.planner.least_budget("pruned")
    assert told
    assert all(what.startswith("VGG19: ") for what in told)


# ---------------------------------------------------------------- batch sizes


@given(
    fixed=st.integers(0, 2 * MEMORY),
    each=st.integers(MEMORY // 500, 2 * MEMORY),
    guess=st.integers(1, 900),
    most=st.integers(1, 900),
)
def test_the_largest_batch_is_the_last_that_fits(fixed, each, guess, most):
    found = largest_batch(lambda batch: fixed + batch * each, guess, most)
    assert found == max(0, min(most, (MEMORY - fixed) // each))


@pytest.fixture(scope="module")
def claimed():
    """The two networks that section 5.2 names; Chen's plan stands in for `liveness_dp`, which takes longer."""

    def curves(label):
        network = REPORTED[label].network
        planner = Planner(network.training())
        return batch_curves(network, planner, [chens(planner.graph).simulation.schedule])

    return {label: curves(label) for label in ("PSPNet", "ResNet152")}


def test_what_section_5_2_says(claimed):
    """PSPNet from a batch of 2 to 8; at double the batch time-centric plans are 1.16 times faster than Chen's."""
    largest = claimed["PSPNet"].largest
    assert (largest[VANILLA], largest[TIME]) == (2, 8)
    deep = claimed["ResNet152"]
    assert deep.slowdown(CHEN) / deep.slowdown(TIME) == pytest.approx(1.16, abs=0.03)


def test_strategies_end_where_the_memory_does():
    network = REPORTED["U-Net"].network
    planner, sizes = Planner(network.training()), Sizes(network)
    lowered = by_liveness(planner.graph)
    found = batch_curves(network, planner, lowered)
    for total, end in [
        (sizes.vanilla_total, found.largest[VANILLA]),
        (lambda batch: sizes.total(chens(planner.graph).simulation.schedule, batch), found.largest[CHEN]),
        (lambda batch: sizes.total(lowered[0], batch), found.largest[LIVENESS]),
    ]:
        assert total(end) <= MEMORY < total(end + 1)
    for name, points in found.seconds.items():
        assert all(time >= found.one_pass[batch] for batch, time in points.items())
        assert max(points) == found.largest[name]
    starts = {min(points) > found.largest[VANILLA] for name, points in found.seconds.items() if name != VANILLA}
    assert starts == {True}


def test_one_pass_is_the_schedule_of_all_nodes():
    sizes = Sizes(TINY)
    graph = sizes.graph(3)
    every = Schedule(np.arange(graph.n_nodes))
    assert sizes.seconds(every, 3) == sizes.one_pass(3) > sizes.one_pass(1)
    assert sizes.total(every, 3) == simulate(graph, every).peak_memory + graph.resident_memory


def test_a_figure_has_a_panel_for_each_network_and_one_for_the_legend():
    seconds = {VANILLA: {1: 1.0, 2: 2.0}, TIME: {3: 3.5}, CHEN: {3: 4.0, 4: 5.0}}
    curves = BatchCurves({VANILLA: 2, TIME: 3, CHEN: 4}, {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}, seconds)
    axes = plot_batches({"A": curves, "B": curves}).figure.axes
    assert [ax.get_title() for ax in axes] == ["A", "B", ""]
    *lines, beyond = axes[1].get_lines()
    assert [dict(zip(*line.get_data(), strict=True)) for line in lines] == list(seconds.values())
    assert list(beyond.get_xdata()) == [2, 3, 4]
    assert [text.get_text() for text in axes[2].get_legend().get_texts()][:3] == list(seconds)
    assert curves.doubled == 4
    assert (curves.slowdown(CHEN), curves.slowdown(TIME)) == (1.25, None)


# ---------------------------------------------------------------- the page


@pytest.fixture(scope="module")
def of_table_1():
    """The two smallest networks of the paper."""
    return [Measured.of_table_1(label) for label in ("U-Net", "VGG19")]


@pytest.fixture(scope="module")
def quick():
    """The tables of the page of two networks, by name."""
    return quick_tables("kusumoto2019")


def test_the_papers_rows_stand_above_ours(of_table_1):
    for table in kusumoto2019._peaks(of_table_1):
        assert [row[:3] for row in table.rows[:2]] == [("U-Net", 8, "paper"), ("U-Net", 8, "ours")]
        assert all((row[-1] is None) == (row[2] == "paper") for row in table.rows)


def test_bytes_have_the_unit_of_the_paper(of_table_1):
    peaks, _ = kusumoto2019._peaks(of_table_1)
    tables = [kusumoto2019._vanilla(of_table_1), kusumoto2019._memory_centric(of_table_1)]
    assert next(peaks.cells())[3:9] == ("5.0", "6.7", "4.7", "5.3", "7.4", "9.1")
    for table in tables:
        cells = [cell for row in table.cells() for cell in row if re.search(r"B$", cell)]
        assert len(cells) >= 12
        assert all(cell.endswith(" GB") for cell in cells)
    assert all("GB of 10^9 bytes" in table.title for table in [peaks, *tables])


def test_exact_budgets_are_at_most_the_pruned_ones_and_so_is_the_overhead_at_equal_budgets(quick):
    sizes = {network: sizes for network, *sizes in quick["lattices"].rows}
    rows = quick["formulas"].rows
    for (network, _, pruned_budget, *_, pruned, _), exact_row, equal_row in zip(
        rows[::3], rows[1::3], rows[2::3], strict=True
    ):
        whole, pruned_sets, sets = sizes[network]
        assert pruned_sets <= sets
        assert exact_row[2] <= pruned_budget == equal_row[2]
        assert equal_row[6] <= min(pruned, exact_row[6]) <= whole


def test_what_is_executed_stands_beside_every_figure_of_a_formula(quick):
    """Without liveness formula (2) may be exceeded by transients alone, and T is never below the overhead."""
    for *_, budget, bare, peak, share, cost, executed in quick["formulas"].rows:
        assert peak <= bare
        assert share == round(peak / budget, 4)
        assert executed >= cost
    for *_, most, executed_most, least, executed_least in quick["memory_centric"].rows:
        assert executed_most >= most
        assert executed_least >= least


def test_the_sizes_of_the_difference_are_those_of_the_rows():
    rows = [("A", "all", 100, 110, 90, 0.9, 40, 50), ("A", "pruned", 100, 95, 101, 1.01, 40, 40)]
    assert kusumoto2019._excess(rows) == (
        "the overhead is above T in 1 of 2 rows, by up to 25.0 %; the peak is above the budget in 1 of 2 rows, by up "
        "to 1.0 %, and without liveness in 1 of 2, by up to 10.0 %"
    )


def test_densenet_joined_step_by_step_has_the_same_bytes_and_fewer_edges():
    """Each join reads two values, not all of its block; so after each the lower set has one node on its boundary."""
    anew, stepwise = (
        build("densenet121", dropout="single", counting="paper", cost="paper", stepwise=choice).graph
        for choice in (False, True)
    )
    assert anew.memory.tolist() == stepwise.memory.tolist()
    assert anew.compute.tolist() == stepwise.compute.tolist()
    joins = [v for v in range(stepwise.n_nodes) if stepwise.labels.ops[v] == "Concat"]
    assert joins
    assert all(np.diff(stepwise.read_indptr)[joins] == 2)
    assert stepwise.read_indices.size < anew.read_indices.size
