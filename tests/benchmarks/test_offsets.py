"""Addresses in a small arena: on public adversarial instances, on schedules of networks, on many buffers."""

import functools
import os
from pathlib import Path

import numpy as np
import pytest

from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.offsets import pack
from remat_algos.ir.differentiate import differentiate
from remat_algos.search.solve import solve
from remat_algos.zoo.registry import build

INSTANCES = Path(__file__).parents[3] / "shared" / "allocation"


def instance(name):
    file = INSTANCES / f"{name}.1048576.csv"
    if not file.exists():
        pytest.skip("the public instances are not in this checkout")
    return Buffers(*np.loadtxt(file, np.int64, delimiter=",", skiprows=1)[:, 1:].T)


@functools.cache
def of_schedule(reference, solver, budget):
    graph = differentiate(build(reference).graph)
    return Buffers.of(solve(graph, budget, solver=solver, raw=True).simulation)


def random_buffers(count, longest, seed=0):
    rng = np.random.default_rng(seed)
    begin = rng.integers(0, count, count)
    return Buffers(begin, begin + rng.integers(1, longest, count), rng.integers(1, 1000, count))


def describe(benchmark, found, **more):
    need = found.buffers.max_live
    benchmark.extra_info.update(
        cores=os.cpu_count(),
        buffers=len(found.buffers),
        times_max_live=round(found.size / need, 5),
        proven=found.proven,
        method=found.method,
        **more,
    )


@pytest.mark.parametrize("name", ["A", "D", "F", "K"])
def test_an_adversarial_instance_in_its_capacity(benchmark, name):
    found = benchmark.pedantic(
        pack, (instance(name),), {"capacity": 1 << 20, "time_limit": 60}, rounds=5, warmup_rounds=1
    )
    assert found.size <= 1 << 20
    describe(benchmark, found)


@pytest.mark.parametrize(
    ("reference", "solver", "budget"),
    [
        ("model:unet", "no_remat", None),
        ("model:transformer_base", "chen_greedy", "60%"),
        ("model:densenet161", "liveness_dp", "60%"),
        ("model:lstm", "chen_greedy", "least"),
        ("model:nmt", "chen_greedy", "60%"),
    ],
)
def test_a_schedule(benchmark, reference, solver, budget):
    found = benchmark.pedantic(pack, (of_schedule(reference, solver, budget),), rounds=3, warmup_rounds=1)
    describe(benchmark, found, wanted_times_max_live=1.02)


@pytest.mark.parametrize(("count", "longest"), [(2_000, 100), (20_000, 1_000), (100_000, 5_000)])
def test_random_buffers(benchmark, count, longest):
    found = benchmark.pedantic(pack, (random_buffers(count, longest),), rounds=1, warmup_rounds=1)
    describe(benchmark, found)
