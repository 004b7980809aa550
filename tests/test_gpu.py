"""What needs a GPU: bytes, addresses, bits and times of a real pool and real kernels against what is predicted."""

import itertools

import numpy as np
import pytest

from docs.zoo import SMALL
from examples.layers.layer_operators import LayerOperators
from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.offsets import pack
from remat_algos.allocate.pools import cupy_pool
from remat_algos.allocate.traces import Trace
from remat_algos.cost.backends import gpu_missing
from remat_algos.cost.calibration import calibrate
from remat_algos.errors import BudgetError, GraphError, OutOfMemoryError
from remat_algos.executor.array_backend import backend
from remat_algos.executor.operators import SyntheticOperators
from remat_algos.executor.run import execute
from remat_algos.executor.validate import validate
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.search.auto import default_solvers
from remat_algos.search.solve import solve
from remat_algos.zoo.registry import build

pytestmark = pytest.mark.gpu
FAMILIES = ("densenet", "feed_forward", "googlenet", "lstm", "resnet_cifar", "vit")
LAYERS = {
    "resnet": {"image": 16, "stages": (1, 1), "batch": 2, "classes": 10},
    "lstm": {"batch": 2, "steps": 3, "depth": 1, "width": 4, "features": 3, "classes": 5},
}
MIB = 2**20


@pytest.fixture(autouse=True)
def gpu():
    """The GPU; a test without one says what is missing."""
    reason = gpu_missing()
    if reason is not None:
        pytest.skip(reason)
    return backend("cupy")


def training(family, batch=1):
    return differentiate(build(family, **{**SMALL[family], "batch": batch}).graph)


def plans(graph, budgets=("70%", "least")):
    """What the solvers of the portfolio plan, each schedule once."""
    found = {}
    for solver in default_solvers():
        for budget in budgets:
            try:
                plan = solve(graph, budget, solver=solver.name, raw=True)
            except (BudgetError, GraphError):
                continue
            found[plan.schedule.order.tobytes()] = plan.schedule
    return list(found.values())


# ---------------------------------------------------------------- bytes


@pytest.mark.parametrize("family", FAMILIES)
def test_plans_take_what_was_predicted_and_make_what_numpy_makes(family):
    graph = training(family)
    for schedule in plans(graph):
        found = validate(graph, schedule, "cupy", repeats=0)
        assert found.holds, str(found)
        assert found.measured_peak == found.predicted_peak
        assert found.replayed().reserved.tolist() == found.execution.total.tolist()
        assert found.pool_inside or not cupy_pool(found.simulation).exact, str(found)
        assert found.device_peak >= 0
        assert found.execution.checksums.tolist() == execute(graph, schedule).checksums.tolist()


@pytest.mark.parametrize("family", FAMILIES)
def test_an_arena_holds_the_same_values(family):
    graph = training(family)
    schedule = solve(graph, "least").schedule
    packed = validate(graph, schedule, "cupy", arena=True, repeats=0)
    assert packed.holds, str(packed)
    assert packed.execution.checksums.tolist() == execute(graph, schedule).checksums.tolist()


@pytest.mark.parametrize("checking", [False, True])
@pytest.mark.parametrize("arena", [False, True])
def test_copies_beside_kernels_bring_back_the_same_bits(checking, arena):
    """Every second value of a chain of 64 MiB values leaves, and comes back for its gradient."""
    graph = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(12)], memory=64 * MIB))
    order, loads = np.arange(graph.n_nodes), []
    for step in order[~graph.forward].tolist():
        loads += [(step, x) for x in graph.reads(step) if graph.forward[x] and x % 2 == 0 and x < 11]
    loads = list({x: (step, x) for step, x in reversed(loads)}.values())  # for its first reader
    simulation = simulate(graph, Schedule(order, loads=loads))
    allocation = pack(Buffers.of(simulation), alignment=512) if arena else None
    there = execute(graph, simulation, None, allocation, backend="cupy", checking=checking)
    assert there.used.tolist() == there.predicted.tolist()
    assert there.host.tolist() == simulation.host_trace.tolist()
    assert there.host.max() > 0
    assert there.mismatches == []
    assert there.differs_from(execute(graph, order)) == []


def different_sizes():
    """A chain with a skip, no two sizes equal: there are no ties, so the total is known beforehand."""
    sizes = [512 * (40 + 3 * i) for i in range(12)]
    edges = [(i, i + 1) for i in range(11)] + [(0, 5), (2, 9)]
    return ComputationGraph.from_edges(edges, memory=sizes)


def test_a_limit_is_enough_or_not_as_the_model_says():
    graph = different_sizes()
    simulation = simulate(graph, range(12))
    use = cupy_pool(simulation)
    assert use.exact
    total, used = use.peak_reserved, use.peak_used
    whole = execute(graph, simulation, backend="cupy", limit=total)
    assert (whole.peak_total, whole.peak_used) == (total, used)
    for limit in (total - 512, used, used - 512, used // 2, 512):
        fails = cupy_pool(simulation, limit=limit).failed.size > 0
        if fails:
            with pytest.raises(OutOfMemoryError, match="step") as error:
                execute(graph, simulation, backend="cupy", limit=limit)
            assert error.value.step >= 0
            assert error.value.requested == graph.memory[error.value.node]
        else:
            assert execute(graph, simulation, backend="cupy", limit=limit).peak_used == used
    again = execute(graph, simulation, backend="cupy", limit=total)  # nothing is left of those that failed
    assert again.checksums.tolist() == whole.checksums.tolist()


def test_what_a_run_took_is_given_back(gpu):
    graph = ComputationGraph.from_edges([(0, 1), (1, 2)], memory=256 * MIB)
    execute(graph, [0, 1, 2], backend="cupy")
    free = gpu.xp.cuda.runtime.memGetInfo()[0]
    execute(graph, [0, 1, 2], backend="cupy")
    with pytest.raises(OutOfMemoryError):
        execute(graph, [0, 1, 2], backend="cupy", limit=256 * MIB)
    assert abs(gpu.xp.cuda.runtime.memGetInfo()[0] - free) <= 64 * MIB


def random_requests(seed, sizes):
    """(bytes of each request, requests that are given back after each)."""
    chance = np.random.default_rng(seed)
    asked, freed, live = [], [], []
    for i in range(300):
        asked.append(int(chance.choice(sizes)) if sizes else 512 * i + int(chance.integers(1, 512)) + 2**16)
        live.append(i)
        freed.append([live.pop(int(chance.integers(len(live)))) for _ in range(min(len(live), chance.integers(0, 3)))])
    return asked, freed


@pytest.mark.parametrize("sizes", [None, [100, 1000, 5000], [512 * k for k in range(1, 31)]], ids=["all", "3", "30"])
def test_the_real_pool_does_what_the_model_does(gpu, sizes):
    """Exactly, with the addresses of the real one; with no two sizes equal beforehand too."""
    cuda, seeds, inside = gpu.xp.cuda, 40, 0
    for seed in range(seeds):
        asked, freed = random_requests(seed, sizes)
        pool, live, addresses, used, total = cuda.MemoryPool(), {}, [], [], []
        with gpu.running():
            for i, (size, gone) in enumerate(zip(asked, freed, strict=True)):
                live[i] = pool.malloc(size)
                addresses.append(int(live[i].ptr))
                used.append(pool.used_bytes())
                total.append(pool.total_bytes())
                for j in gone:
                    del live[j]
            live.clear()
            pool.free_all_blocks()
        event, step = [], []
        for i, gone in enumerate(freed):
            event += [i, *(~j for j in gone)]
            step += [i] * (1 + len(gone))
        trace = Trace(np.array(asked), np.array(event), np.array(step), len(asked))
        use = cupy_pool(trace, addresses=addresses)
        assert use.used.tolist() == used
        assert use.reserved.tolist() == total
        before = cupy_pool(trace)
        assert before.reserved.tolist() == total or not before.exact
        assert before.exact or sizes is not None
        low, high = before.interval
        inside += low <= max(total) <= high
    assert inside >= seeds - 1  # the rules that are tried are not all that there could be


# ---------------------------------------------------------------- bits and times


@pytest.mark.parametrize("sizes", [(1, 2, 3, 5), (4096, 4097, 13, 0), (MIB, 3 * MIB + 1, 7, 2 * MIB)])
def test_numpy_and_cuda_agree_on_every_bit(sizes):
    for order in itertools.permutations(sizes):
        edges = [(i, j) for j in range(4) for i in range(j)]
        graph = ComputationGraph.from_edges(edges, memory=order, workspace=[0, 3, 4096, 1])
        here, there = (
            execute(graph, range(4), SyntheticOperators(graph, iters=3, burn=2), backend=name, outputs=True)
            for name in ("numpy", "cupy")
        )
        assert here.checksums.tolist() == there.checksums.tolist()
        assert all((here.outputs[x] == there.outputs[x]).all() for x in here.outputs)


def test_many_inputs_agree_too():
    graph = ComputationGraph.from_edges([(i, 20) for i in range(20)], memory=1001)
    here, there = (execute(graph, range(21), backend=name) for name in ("numpy", "cupy"))
    assert here.checksums.tolist() == there.checksums.tolist()


def test_more_work_takes_longer():
    graph = ComputationGraph.from_edges([(0, 1)], memory=256 * MIB)

    def seconds(**work):
        operators = SyntheticOperators(graph, **work)
        return min(execute(graph, [0, 1], operators, backend="cupy", timed=True).seconds[1] for _ in range(5))

    seconds()
    assert seconds(iters=1) < seconds(iters=200) < seconds(iters=2000)
    assert seconds(burn=0) < seconds(burn=5000)


@pytest.mark.parametrize("name", LAYERS)
def test_real_layers_make_the_same_gradients_again(name):
    network = build(name, **LAYERS[name])
    graph = differentiate(network.graph, parameter_gradients=True)
    plain = execute(graph, solve(graph, solver="no_remat").schedule, LayerOperators(network, graph), backend="cupy")
    schedule = solve(graph, "least").schedule
    again = execute(graph, schedule, LayerOperators(network, graph), backend="cupy")
    assert again.mismatches == []
    assert again.differs_from(plain) == []


def test_the_gpu_can_be_calibrated():
    device = calibrate(backend="cupy", repeats=2, size=4096)
    assert 0 < device.launch < 1e-3
    assert device.bandwidth > 1e10


def test_one_schedule_is_one_trace_for_model_and_pool():
    graph = different_sizes()
    simulation = simulate(graph, Schedule(np.arange(12)))
    found = validate(graph, simulation.schedule, "cupy", repeats=0)
    assert len(found.addresses) == len(Buffers.of(simulation))
    assert found.pool_predicted[0] == found.pool_predicted[1] == found.pool_total
