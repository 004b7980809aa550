"""Plans that run for real: bytes, values and runs are what was predicted, and where they are not it shows."""

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from docs.zoo import SMALL
from remat_algos import plot
from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.offsets import pack
from remat_algos.allocate.sharing import separate_storage
from remat_algos.errors import (
    AllocationError,
    BackendError,
    BudgetError,
    GraphError,
)
from remat_algos.executor import array_backend
from remat_algos.executor import validate as validate_module
from remat_algos.executor.array_backend import Backend
from remat_algos.executor.mixing_costs import MixingCosts, mixing_costs
from remat_algos.executor.operators import SyntheticOperators
from remat_algos.executor.run import execute, shrink
from remat_algos.executor.validate import MonitoredOperators, validate
from remat_algos.formats.graph_files import read_graph
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.emission import baseline, baseline_peak
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.search.auto import SPECIAL
from remat_algos.search.solve import solve
from remat_algos.solvers.registry import list_solvers
from remat_algos.zoo.registry import build
from tests.public import refusal
from tests.raising import raises
from tests.tampered import tampered
from tests.test_executor_run import Careless, Drifting, Keeping

pytestmark = pytest.mark.usefixtures("short_searches")
EXAMPLES = Path(__file__).parent.parent / "examples" / "graphs"
ZOO = ("feed_forward", "googlenet", "gpt2", "llama", "mobilenet_v2", "resnet_cifar", "transformer", "vgg", "vit")
GRAPHS = ("lstm", "transformer", "unet", *(f"model:{name}" for name in ZOO))  # three examples, nine of the zoo
# the others are of the same kinds: convolutions and residual blocks, attention, recurrence
SLOW = ("googlenet", "llama", "mobilenet_v2", "transformer", "vgg", "vit")
SLOW_GRAPHS = ("transformer", "unet", *(f"model:{name}" for name in SLOW))
BUDGETS = ("80%", "50%", "least")
SECONDS = 0.2  # that a solver may take for a plan: only `exact_dp` takes it all, and falls back on a smaller family
PEAK = 30_000  # bytes, without rematerialization: small, and few sizes are multiples of 512 or of 4


def graph_of(name):
    """A training graph whose sizes have been divided by a whole number, so that the run without rematerialization
    holds about `PEAK` bytes."""
    if name.startswith("model:"):
        family = name.removeprefix("model:")
        graph = build(family, **SMALL[family]).graph
    else:
        graph = read_graph(EXAMPLES / f"{name}.nodes.csv")
    whole = differentiate(graph)
    return shrink(whole, max(1, baseline_peak(whole) // PEAK))


def plans_of(graph):
    """One plan for each schedule that some solver gives for some budget, and who gave one."""
    found, gave = {}, set()
    for solver in list_solvers():
        for budget in BUDGETS:
            try:
                plan = solve(graph, budget, solver=solver.name, raw=True, time_limit=SECONDS)
            except BudgetError:
                continue
            except GraphError:  # no graph for this solver
                break
            found[plan.schedule.order.tobytes()] = plan
            gave.add(solver.name)
    return list(found.values()), gave


@pytest.fixture(scope="module")
def chain():
    """Eight nodes and their gradients, of 1,000 bytes each."""
    edges = [(f"v{i}", f"v{i + 1}") for i in range(7)]
    return differentiate(ComputationGraph.from_edges(edges, memory=1000))


@pytest.fixture(scope="module")
def plan(chain):
    return solve(chain, 7000)


# ---------------------------------------------------------------- what holds


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW_GRAPHS else ()) for name in GRAPHS]
)
def test_every_plan_of_every_solver_takes_what_was_predicted(name):
    graph = graph_of(name)
    plans, gave = plans_of(graph)
    reference = validate(graph, baseline(graph).schedule, repeats=0).execution
    assert len(plans) > 5
    small = {"exhaustive_lower_sets", "live_set_search", "milp"}  # these graphs are too large for them
    assert gave >= {solver.name for solver in list_solvers() if solver.name not in SPECIAL} - small
    assert sum((plan.simulation.runs > 1).any() for plan in plans) > 3
    for plan in plans:
        found = validate(graph, plan.schedule, repeats=0)
        assert (found.measured_peak, found.mismatches, found.holds) == (found.predicted_peak, 0, True)
        assert not found.residual.any()
        assert found.execution.used_raw.tolist() == plan.simulation.memory_trace.tolist()
        assert found.runs.tolist() == plan.simulation.runs.tolist()
        assert found.execution.differs_from(reference) == []


def test_the_same_holds_in_an_arena(chain, plan):
    found = validate(chain, plan, arena=True, repeats=1)
    assert found.holds
    assert found.pool_inside
    assert found.pool_predicted == (found.pool_total, found.pool_total)
    assert plan.peak_memory <= found.pool_total < 2 * plan.peak_memory
    assert any("an arena with fixed addresses" in said for _, said in found.rows())


def test_results_of_one_node_on_top_of_each_other_are_found(monkeypatch):
    """Both are lost while they are made, and nothing reads them: only a run without an arena knows better."""
    two = {"value_indptr": [0, 2], "memory": [8, 8], "output": [True, True]}
    graph = ComputationGraph.from_arrays(read_indptr=[0, 0], read_indices=[], **two)

    def both_at_0(buffers, **_):
        return replace(pack(buffers), offset=[0, 0])

    monkeypatch.setattr(validate_module, "pack", both_at_0)
    found = validate(graph, [0], arena=True, repeats=0)
    assert (found.execution.mismatches, found.stale, found.holds) == ([], None, False)
    assert "than without an arena" in dict(found.rows())["values"]


def test_nothing_at_all_holds_too():
    found = validate(ComputationGraph.from_edges([]), Schedule([]), repeats=1)
    assert (found.holds, found.predicted_peak, found.measured_peak, found.time_measured) == (True, 0, 0, 0.0)
    assert plot.text("validation", found)
    assert plot.validation(found).get_ylabel()


# ---------------------------------------------------------------- what does not


def test_a_value_that_is_not_what_it_was_is_named(chain):
    order = Schedule.from_names(chain, ["v0", "v1", "v2", *(f"v{i}" for i in range(2, 8))]).order.tolist()
    order += list(range(8, chain.n_nodes))
    found = validate(chain, Schedule(order), operators=Drifting(chain, 2), repeats=0)
    assert (found.mismatches, found.holds, found.first_difference) == ("v2", False, None)
    assert dict(found.rows())["values"] == "node v2 computed another value at step 3 than at first"
    assert found.record()["mismatches"] == "v2"


def test_an_operator_that_writes_over_what_it_reads_is_always_found(chain, plan):
    for node in range(chain.n_nodes):
        for place, value in enumerate(chain.reads(node)):
            for arena in (False, True):
                found = validate(chain, plan, operators=Careless(chain, node, place), arena=arena, repeats=0)
                assert (found.holds, found.mismatches) == (False, chain.labels[node])
                said = f"runs {chain.labels[node]}, which reads {chain.value_name(value)}, which it has overwritten"
                assert said in dict(found.rows())["values"]
                assert found.first_difference is None


def overlapping(buffers):
    """Pairs of buffers that are needed at the same step."""
    live = np.maximum.outer(buffers.begin, buffers.begin) < np.minimum.outer(buffers.end, buffers.end)
    return [(i, j) for i, j in combinations(range(len(buffers)), 2) if live[i, j] and min(buffers.size[[i, j]]) > 0]


@pytest.fixture(scope="module")
def several():
    """Nodes with workspaces and several values, some of them read by nobody, and one run twice."""
    graph = ComputationGraph.from_arrays(
        value_indptr=[0, 2, 3, 5, 6, 7],
        read_indptr=[0, 0, 1, 3, 5, 7],
        read_indices=[0, 0, 2, 3, 1, 5, 0],
        memory=[600, 600, 600, 100, 600, 600, 8],
        workspace=[64, 0, 600, 700, 0],
    )
    return simulate(graph, [0, 1, 2, 0, 3, 4])


@pytest.mark.parametrize("shift", [0, 40])
def test_two_live_buffers_on_top_of_each_other_never_hold(several, chain, plan, shift, monkeypatch):
    for simulation in (several, plan.simulation):
        buffers = Buffers.of(simulation)
        for i, j in overlapping(buffers):
            good = separate_storage(buffers)
            offset, by = good.offset.copy(), min(shift, int(buffers.size[[i, j]].min()) - 4)
            offset[i] = offset[j] + by
            bad = replace(good, offset=offset, size=good.size + 1024)
            with pytest.raises(AllocationError):
                bad.verify()
            monkeypatch.setattr(validate_module, "pack", lambda *given, bad=bad, **more: bad)
            found = validate(simulation.graph, simulation.schedule, arena=True, repeats=0)
            assert not found.holds, (i, j)
            assert found.mismatches != 0
            assert "all equal" not in dict(found.rows())["values"]
            assert dict(found.rows())["verdict"] == "failed: memory, values or runs differ from the prediction"


class Learning(SyntheticOperators):
    """Keeps its residents from run to run, so that what it learns stays."""

    kept = None

    def residents(self, backend):
        self.kept = super().residents(backend) if self.kept is None else self.kept
        return self.kept


def test_operators_that_learn_are_compared_from_the_same_start():
    graph = shrink(build("feed_forward", depth=2, optimizer="adam").graph, 10_000)
    order = baseline(graph).schedule
    operators = Learning(graph)
    first, second = (execute(graph, order, operators) for _ in range(2))
    assert second.differs_from(first)  # learnt
    for arena in (False, True):
        found = validate(graph, order, operators=operators, arena=arena, repeats=1)
        assert (found.mismatches, found.holds) == (0, True)


def test_wrong_lifetimes_are_found_out(chain, plan):
    lifetimes = plan.simulation.lifetimes
    end = lifetimes.end.copy()
    i = int((end + 2 <= len(plan.schedule)).argmax())
    end[i] += 2
    wrong = tampered(plan.simulation, end)
    for arena in (False, True):
        found = validate(chain, wrong, arena=arena, repeats=0)
        assert (found.holds, found.first_difference) == (False, end[i] - 2)
        assert ": +1,024 bytes in blocks, +1,000 bytes exactly" in dict(found.rows())["measured"]


def test_a_difference_to_the_byte_alone_is_named(chain, plan):
    found = validate(chain, plan, repeats=0)
    raw = found.execution.used_raw.copy()
    raw[3] += 7
    found = replace(found, execution=replace(found.execution, used_raw=raw))
    assert (found.holds, found.first_difference) == (False, 3)
    assert ": +0 bytes in blocks, +7 bytes exactly" in dict(found.rows())["measured"]


def test_bytes_that_are_not_given_back_are_seen_at_the_step(chain, plan):
    found = validate(chain, plan, operators=Keeping(chain, 3), repeats=0)
    step = found.first_difference
    assert step is not None
    assert not found.holds
    assert found.residual[step] == 1024
    assert not found.residual[:step].any()
    freed = [at for at, frees in enumerate(found.simulation.frees()) if chain.value_id("v3") in frees]
    assert step == freed[0] + 1
    node = chain.labels[int(found.simulation.schedule.order[step])]
    assert f"first difference at step {step}, {node}: +1,024 bytes" in dict(found.rows())["measured"]
    assert dict(found.rows())["verdict"] == "failed: memory, values or runs differ from the prediction"
    assert "+ used beyond the prediction" in plot.text("validation", found)
    assert "first difference" in {line.get_label() for line in plot.validation(found).lines}


def test_a_run_that_would_not_fit_does_not_begin(chain, plan, monkeypatch):
    monkeypatch.setattr(validate_module, "free_memory", lambda backend: 7000)
    with pytest.raises(
        BackendError, match=r"the run needs 7 KiB, including residents, but only 6.84 KiB are free .*smaller"
    ):
        validate(chain, plan)
    monkeypatch.setattr(validate_module, "free_memory", lambda backend: None)
    assert validate(chain, plan, repeats=0).holds


@pytest.mark.parametrize("arena", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_bytes_that_are_never_written_are_found_where_a_node_runs_again(share, arena):
    class Half(SyntheticOperators):
        def run(self, node, reads, residents, values, workspace):
            for value in values:
                value[: int(share * value.size)] = node + 1

    for size in (1000, 100_000):
        graph = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)], memory=size))
        found = validate(graph, solve(graph, 7 * size), operators=Half(graph), arena=arena, repeats=0)
        assert (found.simulation.runs > 1).any()
        assert not found.holds


@pytest.mark.parametrize(("residents", "given"), [(None, "NoneType"), ([None], 1), ([np.zeros(3, np.uint8)], 1)])
def test_residents_that_the_graph_does_not_have_are_refused(residents, given, chain, plan, monkeypatch):
    operators = SyntheticOperators(chain)
    monkeypatch.setattr(operators, "residents", lambda backend: residents)
    with raises(BackendError, given=given, count=0):
        validate(chain, plan, operators=operators)


@pytest.mark.parametrize("repeats", [-1, 1.5, "3", True])
def test_repeats_are_a_whole_number(repeats, chain, plan):
    with pytest.raises(refusal(repeats, ValueError), match="repeats is"):
        validate(chain, plan, repeats=repeats)


def test_long_times_are_printed_in_seconds(chain, plan):
    found = validate(chain, plan, operators=SyntheticOperators(chain), repeats=1)
    found = replace(found, seconds=found.seconds * 0 + 2, seconds_predicted=found.seconds_predicted * 0 + 1e-5)
    steps = len(plan.schedule)
    assert dict(found.rows())["time"].startswith(f"{2 * steps} s, median of 1 timed run; {steps * 10} us predicted")


@pytest.mark.parametrize("name", ["seconds", "seconds_predicted"])
@pytest.mark.parametrize("other", [lambda times: times * 1j, lambda times: times.astype(str) + "s", lambda times: None])
def test_times_are_real_numbers(name, other, chain, plan):
    found = validate(chain, plan, repeats=1)
    with pytest.raises((TypeError, ValueError), match="seconds"):
        replace(found, **{name: other(getattr(found, name))})


# ---------------------------------------------------------------- times


def test_times_of_other_operators_are_predicted_by_first_runs(chain, plan):
    found = validate(chain, plan, operators=SyntheticOperators(chain), repeats=3)
    assert found.seconds.shape == (3, len(plan.schedule))
    assert found.time_measured == pytest.approx(np.median(found.seconds.sum(axis=1)))
    first = {v: np.median(found.seconds[:, list(plan.schedule.order).index(v)]) for v in plan.schedule.order.tolist()}
    assert found.time_predicted == pytest.approx(sum(first[v] for v in plan.schedule.order.tolist()))
    again = ~plan.simulation.schedule.first_run
    predicted, measured = found.overhead_times()
    assert predicted == pytest.approx(found.seconds_predicted[again].sum())
    assert measured == pytest.approx(np.median(found.seconds[:, again].sum(axis=1)))
    assert found.overhead_times(shortest=1e9) == (0.0, 0.0)


def test_times_of_synthetic_operators_are_predicted_by_what_they_do(chain, plan, monkeypatch):
    costs = MixingCosts(call=1.0, written=0.0, read=0.0, wrapped=0.0, summed=0.0, residual=0.0)
    monkeypatch.setattr(validate_module, "mixing_costs", lambda backend: costs)
    found = validate(chain, plan, repeats=1)
    reads = np.diff(chain.read_indptr)[plan.schedule.order]
    assert found.seconds_predicted.tolist() == (1 + reads).tolist()
    record = found.record()
    assert record["time_predicted"] == found.time_predicted == (1 + reads).sum()
    assert record["overhead_predicted"] == found.overhead_times()[0]


def test_without_timed_runs_there_are_no_times(chain, plan):
    found = validate(chain, plan, repeats=0)
    record = found.record()
    assert found.time_predicted is found.time_measured is record["overhead_measured"] is None
    assert np.isnan(found.overhead_times()).all()
    assert "time" not in dict(found.rows())


def test_what_a_node_does_is_counted_in_words():
    # 3 and 5 bytes fill a word and two; c reads both, makes two values of 4 and 12 bytes, and has 2 bytes of scratch
    graph = ComputationGraph.from_arrays(
        value_indptr=[0, 1, 2, 4],
        read_indptr=[0, 0, 0, 2],
        read_indices=[0, 1],
        memory=[3, 5, 4, 12],
        workspace=[0, 0, 2],
    )
    one = {"call": 0.0, "written": 0.0, "read": 0.0, "wrapped": 0.0, "summed": 0.0, "residual": 0.0}
    deeds = {name: MixingCosts(**one | {name: 1.0}).of_nodes(graph).tolist() for name in one if name != "residual"}
    assert deeds == {
        "call": [1, 1, 2 * 3 + 2],
        "written": [1, 2, 1 + 3 + 2],
        "read": [0, 0, (1 + 1) + (1 + 2)],
        "wrapped": [0, 0, 3 + 3],  # the last value, from both
        "summed": [0, 0, 2],  # the second input into the first value
    }


def test_costs_are_measured_once_here():
    costs = mixing_costs("numpy")
    assert costs is mixing_costs("numpy")
    assert costs.written > 0
    assert min(costs.call, costs.read, costs.wrapped, costs.summed) >= 0


# ---------------------------------------------------------------- what is said of it


def test_the_record_is_json_and_names_everything(chain, plan):
    record = validate(chain, plan, repeats=1).record()
    assert json.loads(json.dumps(record)) == record
    assert (record["predicted_peak"], record["exact_peak"], record["device_peak"]) == (7168, 7000, None)
    assert record["residual"] == [0] * len(plan.schedule)
    assert record["runs"] == plan.simulation.runs.tolist()


def test_on_numpy_the_pool_is_only_told_of(chain, plan):
    found = validate(chain, plan, repeats=0)
    assert (found.pool_inside, found.replayed(), found.pool_total) == (None, None, 7168)
    assert "on a GPU, CuPy's pool as modelled 7 KiB" in dict(found.rows())["reserved"]


def test_a_pool_outside_its_interval_is_told(chain, plan):
    found = validate(chain, plan, repeats=0)
    on_gpu = replace(found.execution, backend="cupy")
    on_gpu = replace(found, execution=on_gpu, pool_predicted=(1, 2), device_peak=2**21)
    said = dict(on_gpu.rows())
    assert on_gpu.pool_inside is on_gpu.record()["pool_inside"] is False
    assert said["reserved"].endswith("CuPy's pool as modelled 1 B to 2 B, which does not match")
    assert said["device"] == "2 MiB more in use"
    assert replace(on_gpu, pool_predicted=(7168, 7168)).pool_inside


def test_the_picture_has_both_curves(chain, plan):
    found = validate(chain, plan, repeats=0)
    ax = plot.validation(found)
    curves = {patch.get_label(): patch.get_data().values.tolist() for patch in ax.patches}
    execution = found.execution
    wanted = {"predicted": execution.predicted, "measured": execution.used}  # on NumPy no pool reserves anything
    assert curves == {name: curve.tolist() for name, curve in wanted.items()}
    in_arena = validate(chain, plan, arena=True, repeats=0)
    drawn = {patch.get_label(): patch.get_data().values for patch in plot.validation(in_arena).patches}["reserved"]
    assert (drawn == in_arena.pool_total).all()
    assert plot.text("validation", found).splitlines()[-1] == "█ as predicted"


# ---------------------------------------------------------------- its parts


def test_shrinking_divides_every_size(chain):
    graph = differentiate(build("feed_forward", depth=2).graph)
    small = shrink(graph, 1000)
    assert small.memory.tolist() == [-(-size // 1000) for size in graph.memory.tolist()]
    assert small.resident.memory.tolist() == [-(-size // 1000) for size in graph.resident.memory.tolist()]
    assert small.compute.tolist() == graph.compute.tolist()
    assert simulate(small, range(small.n_nodes)).peak_memory < baseline_peak(graph)


def test_free_memory_is_what_somebody_knows(tmp_path, monkeypatch):
    here = Backend("numpy", np, "here")
    assert array_backend.free_memory(here) > 0
    info = tmp_path / "meminfo"
    info.write_text("MemTotal:  9 kB\nMemAvailable:       3 kB\n")
    monkeypatch.setattr(array_backend, "MEMINFO", info)
    assert array_backend.free_memory(here) == 3072
    info.write_text("MemTotal:  9 kB\n")
    monkeypatch.setattr(array_backend.os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_AVPHYS_PAGES": 5}.__getitem__)
    assert array_backend.free_memory(here) == 20480
    monkeypatch.setattr(array_backend, "MEMINFO", tmp_path / "none")
    assert array_backend.free_memory(here) is None


def test_a_gpu_is_asked_after_every_run_what_is_free(chain):
    free = iter([1000, 700, 300, 900])
    runtime = SimpleNamespace(memGetInfo=lambda: (next(free), 2000))
    gpu = Backend("cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)), "a GPU")
    array = lambda address: SimpleNamespace(data=SimpleNamespace(ptr=address))  # noqa: E731
    idle = SimpleNamespace(
        prepare=lambda backend, graph: None,
        residents=lambda backend: ["r"],
        run=lambda *given: None,
        checksum=lambda given: 7,
    )
    monitored = MonitoredOperators(idle, 2)
    assert (monitored.device_peak, monitored.addresses) == (None, None)
    monitored.prepare(gpu, chain)
    assert (monitored.residents(gpu), monitored.checksum(None)) == (["r"], 7)
    monitored.run(0, [], [], [array(512)], array(4096))
    monitored.run(1, [], [], [array(1024), array(0)], None)
    monitored.run(0, [], [], [array(2048)], None)
    assert monitored.runs.tolist() == [2, 1]
    assert monitored.addresses.tolist() == [512, 1024, 0, 2048, 4096]  # workspaces behind
    assert monitored.device_peak == 700
