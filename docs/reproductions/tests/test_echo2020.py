"""The page of echo2020: what is counted, the three strategies, the effect of each part, the maximum depth."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from docs.reproductions.echo2020 import study as echo2020
from docs.reproductions.echo2020.ablations import Ablations
from docs.reproductions.echo2020.depths import footprint, largest_fitting
from docs.reproductions.echo2020.footprints import largest
from docs.reproductions.echo2020.layer_breakdowns import LayerBreakdowns
from docs.reproductions.echo2020.networks import (
    ACTIVATIONS,
    DEEP_SPEECH,
    DEVICE,
    FLOAT,
    NMT,
    NMT_DEEP,
    RESNET,
    TRANSFORMER,
    WORKLOADS,
    inputs_kept,
    saving_inputs,
    sockeye_transformer,
    weights,
    without_inputs,
)
from docs.reproductions.echo2020.occupancy import throughputs
from docs.reproductions.echo2020.runs import BASELINE, ECHO, MIRROR, STRATEGIES, NetworkRuns, SimulatedRun, run
from docs.reproductions.tests.quick_pages import PAGES, committed, quick_page, quick_tables
from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.in_place import find_overwrites
from remat_algos.allocate.sharing import share_storage
from remat_algos.cost.devices import get_device
from remat_algos.cost.links import units_per_second
from remat_algos.ir.parts import KEEP
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.methods.drop_cheap import MXNET_KEEPS
from remat_algos.zoo.registry import build


@pytest.fixture(scope="module")
def small():
    """Each network with the three strategies, in small."""
    return {each.label: NetworkRuns.of(each.smaller(), 4) for each in WORKLOADS}


# ---------------------------------------------------------------- what is counted


def test_weights_are_bound_from_the_start():
    """Adam: a parameter, its gradient and two states; gradients of parameters have no bytes of their own."""
    small = NMT.smaller()
    network = build("nmt", batch=4, **small.options)
    graph = small.training(small.forward(4))
    assert weights(graph) == 4 * FLOAT * network.n_parameters
    inputs = graph.resident_memory - weights(graph)
    assert inputs == network.graph.resident_memory - network.parameter_memory
    names = graph.node_names()
    of_parameters = [v for v, name in enumerate(names) if re.fullmatch(r"grad\(\S+\.(weight|bias)\)(@\S+)?", name)]
    assert of_parameters
    assert not graph.memory[graph.value_indptr[of_parameters]].any()


def test_masks_are_as_large_as_what_they_mask():
    graph = TRANSFORMER.smaller().forward(4)
    for v, op in enumerate(graph.labels.ops):
        if op == "DropoutMask":
            (mask,) = graph.values(v)
            reader = int(graph.readers[1][graph.readers[0][mask]])
            assert graph.memory[mask] == graph.memory[graph.values(reader)[0]]


def test_activations_save_both_and_nothing_else_changes():
    plain = RESNET.smaller().forward(4, inputs=False)
    both = saving_inputs(plain)
    for v, op in enumerate(plain.labels.ops):
        more = {*plain.reads(v)} if op in ACTIVATIONS else set()
        assert {*both.backward.saved(v)} == {*plain.backward.saved(v)} | more


def test_marks_are_on_what_heavy_gradients_read():
    graph = RESNET.smaller().forward(4)
    marked = np.flatnonzero(inputs_kept(graph, {"Convolution"}).mark == KEEP)
    read = {
        int(graph.producer[x]) for v, op in enumerate(graph.labels.ops) if op == "Convolution" for x in graph.reads(v)
    }
    assert {*marked.tolist()} == read
    freed = without_inputs(graph, {"Convolution"})
    for v, op in enumerate(graph.labels.ops):
        assert freed.backward.saved(v) == ([] if op == "Convolution" else graph.backward.saved(v))


def test_the_recipe_of_sockeye_has_the_parameters_of_the_zoo():
    """Two norms more, at the end of each side, and a norm of its own in front of each sublayer as behind it."""
    ours = sockeye_transformer(batch=1, sequence=4, width=16, heads=2, words=50, depth=2)
    zoo = build("transformer_base", batch=1, sequence=4, width=16, heads=2, words=50, depth=2)
    assert ours.n_parameters == zoo.n_parameters + 2 * 2 * 16
    dropouts = [sum(layer.op == "Dropout" for layer in network.layers) for network in (ours, zoo)]
    assert dropouts == [dropouts[1] + 2 * 2 + 3 * 2, dropouts[1]]  # feed-forward parts and attentions


# ---------------------------------------------------------------- strategies


@pytest.mark.parametrize("label", [each.label for each in WORKLOADS])
def test_a_second_simulation_gives_the_same_figures(small, label):
    case = small[label]
    for name in STRATEGIES:
        run_ = case.runs[name]
        again = simulate(run_.graph, run_.simulation.schedule)
        assert run_.live == again.peak_memory + run_.graph.resident_memory
        buffers = Buffers.of(again, find_overwrites(again))
        assert run_.footprint == share_storage(buffers).size + run_.graph.resident_memory
        assert run_.footprint >= buffers.max_live + run_.graph.resident_memory
        assert run_.overhead >= 0
    assert case.baseline.overhead == case.baseline.extra_runs == 0
    assert np.array_equal(case.baseline.order, baseline(case.baseline.graph).schedule.order)


@pytest.mark.parametrize("label", [each.label for each in WORKLOADS])
def test_echo_has_the_minimum_stash_and_recomputes_no_heavy_node(small, label):
    case = small[label]
    assert case.echo.stash <= min(case.baseline.stash, case.mirror.stash)
    again = np.flatnonzero(case.echo.simulation.runs > 1)
    assert not {"Convolution", "Linear", "MatMul"} & {case.echo.graph.labels.op(v) for v in again.tolist()}


def test_mirror_keeps_what_heavy_gradients_read_and_is_timed_as_mxnet_makes_mirrors(small):
    case = small["NMT"]
    marked = inputs_kept(case.workload.forward(4), MXNET_KEEPS).mark == KEEP
    assert (case.mirror.simulation.runs[np.flatnonzero(marked)] == 1).all()
    assert case.mirror.overhead > SimulatedRun(case.mirror.simulation).overhead
    tanh = [v for v, name in enumerate(case.mirror.graph.node_names()) if name == "attention.step0.tanh"]
    assert case.mirror.timed.runs[tanh].tolist() == [2]  # its own gradient reads the mirror


def test_overheads_are_the_same_in_any_unit(small):
    case = small["ResNet-152"]
    twice = case.echo.graph.with_costs(compute=2 * case.echo.graph.compute)
    assert case.echo.overhead_in(twice) == case.echo.overhead
    assert case.throughput(BASELINE) > case.throughput(ECHO)


def test_the_paper_s_networks_come_near_its_ratios():
    """ResNet-152 at the paper's batch: 2.13 times, 1.57 times less than Mirror."""
    case = NetworkRuns.of(RESNET, 32)
    assert 1.9 < case.ratio() < 2.7
    assert 1.4 < case.ratio(MIRROR) < 1.9
    assert 0.05 < case.echo.overhead < case.mirror.overhead < 0.15


# ---------------------------------------------------------------- parts


def test_shares_of_the_reduction(small):
    ablations = Ablations(small["Transformer"])
    assert (ablations.share(ablations.runs.baseline), ablations.share(ablations.runs.echo)) == (0, 1)
    assert ablations.without_bits().stash > ablations.runs.echo.stash
    assert ablations.without_dead_nodes().stash > ablations.runs.echo.stash


def test_only_named_layers_are_recomputed(small):
    chosen = Ablations(small["NMT"]).chosen()
    for name, part in (("RNN alone", ".cell."), ("attention alone", "attention.")):
        names = chosen[name].graph.node_names()
        again = np.flatnonzero(chosen[name].simulation.runs > 1).tolist()
        assert again
        assert all(part in names[v] for v in again)
        assert chosen[name].stash >= chosen["Echo"].stash


def test_layers_and_structures_sum_to_the_peak(small):
    layers = LayerBreakdowns(small["ResNet-152"])
    for name, each in small["ResNet-152"].runs.items():
        assert sum(layers.of[name].layers.values()) == each.live == sum(layers.of[name].structures.values())
    assert layers.reduction(BASELINE, layers.of[BASELINE].types) == round(
        1 - small["ResNet-152"].echo.live / small["ResNet-152"].baseline.live, 4
    )
    assert 0 < layers.time("Convolution") < 1


def test_one_layer_more_than_the_maximum_does_not_fit():
    small = replace(TRANSFORMER.smaller(), options={**TRANSFORMER.smaller().options, "words": 50})
    for strategy in STRATEGIES:
        room = footprint(small, strategy, 4, depth=4)
        assert largest_fitting(range(1, 7), lambda depth, s=strategy: footprint(small, s, 4, depth=depth), room) == 4
        assert footprint(small, strategy, 4, depth=5) > room


def test_the_largest_batch_is_none_where_nothing_fits(small):
    case = small["DeepSpeech2"]
    assert largest([case], case.workload, ECHO, case.echo.footprint) == 4
    assert largest([case], case.workload, ECHO, case.echo.footprint - 1) is None


# ---------------------------------------------------------------- the page


@pytest.fixture(scope="module")
def quick():
    return quick_page("echo2020"), quick_tables("echo2020")


def of_page(table):
    return committed("echo2020", table)


@pytest.mark.parametrize(
    ("quantity", "where", "paper"),
    [
        ("DeepSpeech2, batch 8, 16, 24: Baseline / Echo", "section I,", "1.56 times"),
        ("DeepSpeech2, batch 8: Baseline / Echo", "section VI-C1", "no significant reduction"),
        ("the four networks: Baseline / Echo, arithmetic mean", "abstract, section VIII", "1.89 times"),
        ("NMT twice as deep, batch 16: Baseline", "section VI-B2", "more than 8 GB"),
        ("NMT twice as deep, batch 128: Echo", "section VI-B2", "9.6 GB"),
        ("NMT twice as deep, batch 16: throughput of Echo behind Baseline", "section VI-B2", "14 %"),
        ("NMT, batch 128: samples per second of Baseline, Mirror", "Table I", "1192, 983"),
    ],
)
def test_the_printed_numbers_stand_at_their_place(quantity, where, paper):
    (row,) = [row for row in of_page("claims") if row["quantity"] == quantity]
    assert row["where"].startswith(where)
    assert row["paper"] == paper
    assert re.search(r"\d", row["ours"])


def at_batches(workload, *batches):
    """The small network under the label of the paper's."""
    small = replace(workload.smaller(), label=workload.label)
    return [NetworkRuns.of(small, batch) for batch in batches]


def test_what_depends_on_the_batch_is_of_the_batches_that_it_names(monkeypatch):
    speech, deep = at_batches(DEEP_SPEECH, 8, 16, 24, 32), at_batches(NMT_DEEP, 16, 128)
    nmt = at_batches(NMT, 128, 256)
    main = [nmt[0], speech[0]]
    cases = [*nmt, *speech, *deep]
    claims = {row[0]: row[3] for row in [*echo2020._speech_claims(main, cases), *echo2020._deep_claims(cases)]}
    ratios = ", ".join(f"{case.baseline.footprint / case.echo.footprint:.2f}" for case in speech[:3])
    assert claims["DeepSpeech2, batch 8, 16, 24: Baseline / Echo"] == f"{ratios} times"
    assert claims["NMT twice as deep, batch 16: Baseline"] == f"{deep[0].baseline.footprint / 1e9:.3g} GB"
    behind = 1 - deep[0].baseline.seconds / deep[0].echo.seconds
    cell = claims["NMT twice as deep, batch 16: throughput of Echo behind Baseline"]
    assert float(cell.removesuffix(" %")) == pytest.approx(100 * behind, abs=0.1)
    rates = {row[0]: row[3] for row in echo2020._throughput_claims([*nmt, *speech, *deep])}
    samples = ", ".join(f"{128 / nmt[0].runs[name].seconds:.0f}" for name in (BASELINE, MIRROR))
    assert rates["NMT, batch 128: samples per second of Baseline, Mirror"] == samples


def test_overhead_beside_the_papers_is_throughput_lost(small):
    for run_ in small["NMT"].runs.values():
        assert run_.throughput_lost == pytest.approx(1 - 1 / (1 + run_.overhead), abs=2e-4)
    (row,) = [row for row in of_page("claims") if row["quantity"] == "NMT, batch 128: overhead of Mirror, Echo"]
    (nmt,) = [row for row in of_page("footprints") if (row["network"], row["batch"]) == ("NMT", "128")]
    lost = [100 * (1 - 1 / (1 + float(nmt[f"{name}, overhead"]))) for name in ("Mirror", "Echo")]
    assert row["ours"] == ", ".join(f"{share:.1f} %" for share in lost)


def test_the_largest_batches_are_those_of_the_table_of_footprints():
    """Of NMT and DeepSpeech2: Mirror fits at 256, all three at 32."""
    rows = [row for row in of_page("claims") if re.match("(NMT|DeepSpeech2), largest batch", row["quantity"])]
    assert len(rows) == 2
    for row in rows:
        sizes = [each for each in of_page("footprints") if each["network"] == row["quantity"].split(",")[0]]
        found = [max(int(each["batch"]) for each in sizes if int(each[name]) <= 11 << 30) for name in STRATEGIES]
        assert row["ours"] == ", ".join(map(str, found))


def test_footprints_beside_the_papers_are_in_its_unit():
    ours = {row["quantity"]: row["ours"] for row in of_page("claims") if "GB" in row["paper"]}
    assert len(ours) == 3
    for cell in ours.values():
        assert re.fullmatch(r"[\d.]+(, [\d.]+)* GB", cell)


def test_the_page_states_what_is_out_of_scope():
    text = " ".join((PAGES / "echo2020.md").read_text("utf-8").split())
    assert "energy, BLEU and several GPUs are out of scope" in text
    assert "**Not computed**" in text


def test_figures_draw_the_numbers_of_the_tables(quick):
    page, tables = quick
    figure = next(part for part in page.parts if getattr(part, "name", "") == "figure15")
    ax = figure.draw()
    heights = [bar.get_height() for bars in ax.containers for bar in bars]
    row = dict(zip(tables["footprints"].columns, tables["footprints"].rows[0], strict=True))
    assert heights == [row[name] for name in STRATEGIES]


def test_the_same_page_twice(quick):
    page, _ = quick
    assert echo2020.page(True, None).markdown() == page.markdown()


def test_progress_names_the_network_and_the_batch():
    stages = []
    NetworkRuns.of(NMT.smaller(), 2, lambda *report: stages.append(report[2]))
    assert stages == ["nmt of 6 words, batch 2"]


def test_a_strategy_is_the_same_alone_and_among_all(small):
    workload = RESNET.smaller()
    forward = workload.forward(4)
    for name in STRATEGIES:
        assert run(workload, forward, name).footprint == small["ResNet-152"].runs[name].footprint


def test_variants_have_other_footprints():
    """Norms behind convolutions are another network."""
    workload = replace(RESNET.smaller(), make=partial(build, "resnet", preactivation=False))
    workload = replace(workload, options={k: v for k, v in workload.options.items() if k != "preactivation"})
    one, other = (run(each, each.forward(2), BASELINE).footprint for each in (workload, RESNET.smaller()))
    assert one != other


# ---------------------------------------------------------------- occupancy


def test_schedules_are_priced_with_whole_waves():
    """Samples per second are those of the schedules of the roofline, at the costs with occupancy."""
    case = NetworkRuns.of(RESNET.smaller(), 4)
    table = throughputs([case])
    found = dict(zip(table.columns, table.rows[0], strict=True))
    for name in ("Baseline", "Echo"):
        run = case.runs[name]
        forward = case.workload.forward(4, cost="occupancy", device=replace(get_device(DEVICE), tile=128))
        graph = case.workload.training(forward, encoded=name == "Echo")
        seconds = graph.compute[run.order].sum() / units_per_second(graph)
        assert found[f"{name}, tiles of 128"] == round(4 / seconds, 2)
        assert found[name] == case.throughput(name)


def test_resnet_saturates_from_32_and_nmt_does_not():
    """Figure 3: as the paper describes it, with tiles of 128."""
    kinds = ("roofline", "tiles of 64", "tiles of 128")
    gains = {(r["network"], int(r["batch"])): [float(r[f"growth, {k}"] or 0) for k in kinds] for r in of_page("growth")}
    assert all(row == sorted(row) for row in gains.values())
    resnet, nmt = ([row for (name, _), row in gains.items() if name == network] for network in ("ResNet-50", "NMT"))
    assert all(row[0] < 1.11 for row in resnet[1:])
    assert [resnet[1][2] > 1.45, resnet[2][2] > 1.25, resnet[-1][2] < 1.06] == [True] * 3  # 4 to 8, to 16, 32 to 64
    assert all(row[2] > 1.89 for row in nmt[1:-1])
    assert nmt[-1][2] == pytest.approx(1.8, abs=0.02)


@pytest.mark.parametrize(
    ("network", "larger", "smaller", "paper"), [("NMT", 256, 128, 1.27), ("DeepSpeech2", 32, 8, 3.6)]
)
def test_the_ratios_of_the_paper_lie_between_the_two_sizes_of_tiles(network, larger, smaller, paper):
    rows = {(row["network"], int(row["batch"])): row for row in of_page("occupancy")}
    small, large = (
        float(rows[network, larger][f"Echo, {tiles}"]) / float(rows[network, smaller][f"Baseline, {tiles}"])
        for tiles in ("tiles of 64", "tiles of 128")
    )
    assert small < paper < large


def test_samples_per_second_rise_with_the_batch_and_fall_with_the_tiles():
    """But for Transformer, whose last waves are emptier at 96 than at 64."""
    rows = of_page("occupancy")
    for name in ("Baseline", "Echo"):
        heads = [name, f"{name}, tiles of 64", f"{name}, tiles of 128"]
        for network in {row["network"] for row in rows} - {"Transformer"}:
            rates = [[float(row[head]) for head in heads] for row in rows if row["network"] == network]
            assert len(rates) >= 3
            assert all(row == sorted(row, reverse=True) for row in rates)
            assert all(list(column) == sorted(column) for column in zip(*rates, strict=True))
