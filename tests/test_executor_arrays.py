"""Backends that are there, or say what is missing; memories, and what they count."""

import gc
import sys
from contextlib import nullcontext
from dataclasses import replace
from importlib.resources import files
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.sharing import separate_storage, share_storage
from remat_algos.cost.backends import gpu_missing
from remat_algos.errors import AllocationError, BackendError, OutOfMemoryError
from remat_algos.executor.array_backend import backend
from remat_algos.executor.memories import PATTERN, ArenaMemory, PoolMemory, TrackingMemory
from remat_algos.executor.run import execute
from remat_algos.ir.parts import Resident
from remat_algos.schedule.simulation import simulate
from remat_algos.zoo.random import chain
from tests import cuda_stub
from tests.raising import raises

MEMORIES = [TrackingMemory, PoolMemory]


@pytest.fixture
def cupy(monkeypatch):
    """CuPy, played on the processor; no kernels."""
    module = cuda_stub.module()
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


@pytest.fixture
def on(cupy):
    """The backend that a memory is made for."""
    return {TrackingMemory: backend("numpy"), PoolMemory: backend("cupy")}


# ---------------------------------------------------------------- backends


def broken(error):
    def fail(*_):
        raise error

    return fail


def test_numpy_is_always_there():
    here = backend("numpy")
    assert here.xp is np
    assert here.device.endswith("processors")
    with here.running(), here.uncounted():
        array = here.empty(7)
    assert here.to_host(array) is array
    assert (here.seconds([1.0, 3.0, 4.0, 4.5]) == [2.0, 0.5]).all()


def test_a_gpu_that_can_be_used(cupy):
    there = backend("cupy")
    assert gpu_missing() is None
    assert (there.device, there.xp) == ("a stub", cupy)
    assert backend("cupy") is there
    assert there.to_host(there.empty(3)).shape == (3,)
    assert (there.seconds([there.mark() for _ in range(4)]) == [0.002, 0.002]).all()


@pytest.mark.parametrize(
    ("path", "error", "sentence"),
    [
        (None, ImportError("No module named 'cupy'", name="cupy"), "CuPy is not installed; run python -m pip install "),
        (None, ImportError("libcuda.so.1: cannot open"), "CuPy cannot be loaded (libcuda.so.1: cannot open); install "),
        (None, ValueError("numpy.dtype size changed\nmore"), "CuPy cannot be loaded (numpy.dtype size changed); "),
        ("count", RuntimeError("cudaErrorNoDevice: no CUDA-capable"), "CuPy finds no CUDA device; run on a machine "),
        ("count", RuntimeError("cudaErrorInsufficientDriver: old."), "CuPy finds no CUDA driver that it can use ("),
        ("count", None, "CuPy finds no CUDA device"),
        ("zeros", RuntimeError("cudaErrorDevicesUnavailable"), "the CUDA device cannot compute (cudaErrorDevices"),
        (
            "fill",
            RuntimeError("Failed to find CUDA headers\nmore"),
            "CuPy cannot build kernels here (Failed to find CU",
        ),
    ],
)
def test_what_is_missing_is_said_in_one_sentence(path, error, sentence, cupy, monkeypatch):
    if path == "count":
        monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", broken(error) if error else lambda: 0)
    elif path == "zeros":
        monkeypatch.setattr(cupy, "zeros", broken(error))
    elif path == "fill":
        monkeypatch.setattr(cuda_stub.Array, "fill", broken(error))
    else:
        monkeypatch.setattr("importlib.import_module", broken(error))
    assert gpu_missing().startswith(sentence)
    assert "; " in gpu_missing()
    assert "\n" not in gpu_missing()
    with pytest.raises(BackendError) as raised:
        backend("cupy")
    assert str(raised.value) == f"backend cupy cannot run here: {gpu_missing()}"


def test_a_missing_compiler_is_told(cupy, monkeypatch):
    module = SimpleNamespace(get_function=broken(RuntimeError("CuPy failed to load libnvrtc.so.13: cannot open")))
    monkeypatch.setattr(cupy, "RawModule", lambda code: module)
    with pytest.raises(
        BackendError, match=r"CuPy cannot build kernels here \(CuPy failed .*; install the missing parts "
    ):
        backend("cupy")


@pytest.mark.parametrize("file", ["mixing.cu", "busy.cu"])
def test_kernels_of_each_file_are_launched_before_anything_else(file, cupy, monkeypatch):
    source = files("remat_algos.kernels").joinpath("cuda", file).read_text(encoding="utf-8")

    def module(code):
        refuses = broken(RuntimeError("cudaErrorNoKernelImageForDevice"))
        return SimpleNamespace(get_function=lambda name: refuses) if code == source else cuda_stub.RawModule(code)

    monkeypatch.setattr(cupy, "RawModule", module)
    with pytest.raises(
        BackendError, match=r"^the CUDA device does not run kernels \(cudaErrorNoKernelImage.*; free it"
    ):
        backend("cupy")


def test_kernels_without_effect_are_told(cupy, monkeypatch):
    monkeypatch.setattr(cupy, "RawModule", lambda code: SimpleNamespace(get_function=lambda name: lambda *_: None))
    with pytest.raises(BackendError, match=r"^kernels run on the CUDA device, but have no effect; reinstall "):
        backend("cupy")


# ---------------------------------------------------------------- memories


@pytest.mark.parametrize("kind", MEMORIES)
@given(data=st.data())
def test_what_is_used_is_what_is_held(kind, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "cupy", cuda_stub.module())
        on = backend("numpy" if kind is TrackingMemory else "cupy")
        held, most = {}, 0
        with on.running(), kind(on, pattern=data.draw(st.booleans())) as memory:
            for key in range(data.draw(st.integers(0, 20))):
                if held and data.draw(st.booleans()):
                    gone = data.draw(st.sampled_from(sorted(held)))
                    del held[gone]
                    memory.free(gone)
                held[key] = data.draw(st.integers(0, 2000))
                memory.allocate(held[key], key)
                assert memory.used == memory.peak() == sum(-(-size // 512) * 512 for size in held.values())
                assert memory.used_raw == sum(held.values())
                most = max(most, memory.used)
                assert memory.total >= most if kind is PoolMemory else memory.total == most
        assert (memory.used, memory.used_raw) == (0, 0)


@pytest.mark.parametrize("kind", MEMORIES)
def test_a_limit_is_told_with_what_is_free(kind, on):
    with kind(on[kind], limit=2048) as memory:
        memory.allocate(1025, 0)
        with pytest.raises(OutOfMemoryError) as error:
            memory.allocate(600, 1)
        assert (error.value.requested, error.value.free) == (600, 512)
        memory.allocate(0, 2)
        memory.allocate(512, 3)
        assert memory.used == 2048
    with kind(on[kind], limit=0) as memory, pytest.raises(OutOfMemoryError):
        memory.allocate(1, 0)
    with kind(on[kind], limit=2**70) as memory:  # beyond all machines
        assert memory.allocate(9, 0).size == 9


@pytest.mark.parametrize("kind", MEMORIES)
@pytest.mark.parametrize("limit", [-5, "4GiB", 1.5, 4096.0])
def test_a_limit_is_a_number_of_bytes(kind, on, limit):
    with pytest.raises(AllocationError, match=f"limit is {limit!r}; give a whole number of bytes, 0 or more"):
        kind(on[kind], limit=limit)


def test_what_is_free_is_seen_whoever_counts_references(on, monkeypatch):
    """As in Python 3.14, which counts fewer of them."""
    monkeypatch.setattr(sys, "getrefcount", lambda _: 1)
    with TrackingMemory(on[TrackingMemory]) as memory:
        kept = memory.allocate(600, 0)
        memory.free(0)
        assert memory.used == 1024
        del kept
        assert (memory.used, memory.used_raw) == (0, 0)


def test_a_pool_is_asked_once_a_step(on, monkeypatch):
    asked, ask = [], cuda_stub.MemoryPool.used_bytes

    def counted(pool):
        asked.append(pool)
        return ask(pool)

    monkeypatch.setattr(cuda_stub.MemoryPool, "used_bytes", counted)
    with PoolMemory(on[PoolMemory]) as memory:
        for i in range(9):
            memory.allocate(600, i)
        memory.free(0)
        assert asked == []
        memory.allocate(512, 9)
        assert memory.peak() == 8 * 1024 + 512
        with pytest.raises(OutOfMemoryError):
            _refused(memory, monkeypatch)
        assert memory.peak() == 8 * 1024 + 512
    assert len(asked) == 2


def _refused(memory, monkeypatch):
    """A request for which there is no room; hooks are told of it too."""
    monkeypatch.setattr(memory._pool, "limit", 1)
    memory.allocate(10**6, 99)


@pytest.mark.parametrize("kind", MEMORIES)
def test_what_somebody_keeps_is_counted_until_they_let_go(kind, on):
    with kind(on[kind]) as memory:
        part = memory.allocate(600, 0)[100:200]
        memory.free(0)
        assert memory.used == 1024
        del part
        gc.collect()
        assert memory.used == 0
    kept = memory.allocate(600, 1) if kind is TrackingMemory else None
    memory.close()
    del kept
    assert memory.used == 0


def test_temporaries_between_two_counts_show_on_a_gpu(on):
    there = on[PoolMemory]
    with PoolMemory(there) as memory:
        memory.allocate(512, 0)
        there.xp.empty(5000, np.uint8)
        assert (memory.used, memory.peak(), memory.peak()) == (512, 512 + 5120, 512)
        with there.uncounted():  # a pool that is not counted
            there.xp.empty(5000, np.uint8)
        there.empty(5000)
        assert memory.peak() == 512
        memory.allocate(512, 1)
        memory.free(0)
        memory.allocate(512, 2)
        assert memory.peak() == 1024  # and not what there was before the free
    there.xp.empty(100, np.uint8)
    assert memory.used == 0


def test_what_others_give_back_does_not_count(on):
    there = on[PoolMemory]
    others = there.xp.cuda.MemoryPool().malloc(5120)
    with PoolMemory(there) as memory:
        memory.allocate(512, 0)
        memory.peak()
        del others
        there.xp.empty(100, np.uint8)
        assert memory.peak() == 1024


@pytest.mark.parametrize("in_place", [False, True])
def test_an_arena_writes_over_what_begins_and_what_is_freed(in_place):
    buffers = Buffers([0, 1], [2, 3], [8, 8], over=[-1, 0 if in_place else -1])
    with ArenaMemory(backend("numpy"), (share_storage if in_place else separate_storage)(buffers)) as memory:
        first = memory.allocate(8, 0)
        assert (first == PATTERN).all()
        first[:] = 1
        second = memory.allocate(8, 1)
        assert (second == (1 if in_place else PATTERN)).all()
        second[:] = 2
        memory.free(0)
        assert (first == (2 if in_place else PATTERN)).all()
        memory.free(1)
        assert (second == PATTERN).all()


def test_freed_bytes_are_written_over(on):
    for kind in MEMORIES:
        with kind(on[kind], pattern=True) as memory:
            array = memory.allocate(9, 0)
            array[:] = 1
            memory.free(0)
            assert (array == PATTERN).all()


@pytest.mark.parametrize("size", [7, 8])
def test_a_gpu_reads_no_odd_addresses(size, on):
    allocation = separate_storage(Buffers([0, 0], [1, 1], [size, size]))
    with raises(AllocationError, name="1", offset=size):
        ArenaMemory(on[PoolMemory], allocation)
    with ArenaMemory(on[PoolMemory], separate_storage(Buffers([0, 0], [1, 1], [7, 7]), alignment=512)) as memory:
        assert memory.allocate(7, 1).data.ptr % 512 == 0


def test_what_is_written_over_another_one_lies_where_that_lies():
    buffers = Buffers([0, 1], [2, 3], [8, 8], over=[-1, 0])
    allocation = share_storage(buffers)
    with ArenaMemory(backend("numpy"), allocation) as memory:
        assert memory.allocate(8, 0) is memory.allocate(8, 1)
    with raises(AllocationError, name="1", offset=8, below="0", below_offset=0):
        ArenaMemory(backend("numpy"), replace(allocation, offset=[0, 8], size=16))


class Filling:
    """Operators without kernels: each value is its node."""

    def prepare(self, backend, graph):
        pass

    def residents(self, backend):
        return []

    def run(self, node, reads, residents, values, workspace):
        for value in values:
            value.fill(node)

    def checksum(self, array):
        return int(array.sum(dtype=np.uint32))


def test_a_pool_that_ends_a_run_leaves_nothing(on):
    graph = chain(5, memory=600)
    with pytest.raises(
        OutOfMemoryError,
        match="requests 600 bytes, 1,024 in chunks of 512, where 976 are free: the",
    ):
        execute(graph, range(5), Filling(), backend="cupy", limit=2000)
    found = execute(graph, range(5), Filling(), backend="cupy", limit=2048, timed=True, checking=True)
    assert found.used.tolist() == found.predicted.tolist()
    assert found.total.tolist() == [1024, 2048, 2048, 2048, 2048]
    assert found.seconds.tolist() == [0.002] * 5


class FillingWithResidents(Filling):
    """The same beside residents, of which a part has been given back before the run; one node may fail."""

    def __init__(self, fails=-1):
        self.fails = fails

    def residents(self, backend):
        backend.empty(3000)
        return [backend.empty(700)]

    def run(self, node, reads, residents, values, workspace):
        if node == self.fails:
            raise RuntimeError("no more")
        super().run(node, reads, residents, values, workspace)


@pytest.mark.parametrize("ends", ["well", "limit", "error", "arena"])
def test_no_run_keeps_memory_of_the_device(ends, on):
    """Neither of outputs, nor of residents: a pool of CuPy that goes takes along what is idle in it."""
    read_by_node_1 = Resident(memory=[700], role=[0], read_indptr=[0, 0, 1, 1, 1, 1], read_indices=[0], names=["w"])
    graph = replace(chain(5, memory=600), resident=read_by_node_1)
    simulation = simulate(graph, range(5))
    how = {
        "well": {},
        "limit": {"limit": 1536},
        "error": {},
        "arena": {"allocation": separate_storage(Buffers.of(simulation), alignment=512)},
    }[ends]
    operators, before = FillingWithResidents(3 if ends == "error" else -1), cuda_stub.MemoryPool.on_device
    for _ in range(3):
        with nullcontext() if ends in ("well", "arena") else pytest.raises((OutOfMemoryError, RuntimeError)):
            execute(graph, simulation, operators, backend="cupy", **how)
        assert cuda_stub.MemoryPool.on_device == before
