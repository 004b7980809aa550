"""Mixing on NumPy and in CUDA, against whole numbers; what synthetic operators make of a graph."""

import ctypes
import ctypes.util
import shutil
import subprocess
import sys
from importlib.resources import files
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.sharing import share_storage
from remat_algos.errors import ArgumentError
from remat_algos.executor import array_backend, mixing, tuning
from remat_algos.executor.array_backend import backend
from remat_algos.executor.mixing import mixer
from remat_algos.executor.operators import SyntheticOperators
from remat_algos.executor.run import execute, shrink
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Resident
from tests import cuda_stub
from tests.oracles import mixing as oracle
from tests.raising import raises
from tests.strategies import graphs, orders
from tests.test_executor_run import cases, written_over

pytestmark = pytest.mark.usefixtures("short_searches")

SOURCE = files("remat_algos.kernels").joinpath("cuda/mixing.cu")
NUMPY = backend("numpy")
inputs = st.lists(st.binary(max_size=40), max_size=12)
numbers = st.integers(0, 2**32 - 1)


def plain(data):
    return np.frombuffer(bytes(data), np.uint8).copy()


@pytest.fixture(scope="module")
def stub():
    """CuPy, played by the C++ compiler."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "cupy", cuda_stub.module())
        yield backend("cupy")


# ---------------------------------------------------------------- NumPy


@given(n_bytes=st.integers(0, 50), number=numbers, given_=inputs, iters=st.integers(0, 3))
def test_a_mix_is_what_whole_numbers_say(n_bytes, number, given_, iters):
    out = np.empty(n_bytes, np.uint8)
    mixer(NUMPY).mix(out, number, [plain(data) for data in given_], iters, 0)
    assert bytes(out) == oracle.mixed(n_bytes, number, given_, iters)
    assert int(mixer(NUMPY).checksum(out)) == oracle.checksum(bytes(out))


@given(data=st.data())
def test_blocks_do_not_show(data):
    sizes = data.draw(st.lists(st.integers(0, 300), min_size=1, max_size=4))
    arrays = [np.random.default_rng(size).integers(0, 256, size, np.uint8) for size in sizes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("remat_algos.executor.tuning.BLOCK_WORDS", 8)
        mixing._tables.cache_clear()
        out = np.empty(sizes[0], np.uint8)
        mixer(NUMPY).mix(out, 77, arrays, 2, 3)
        sums = [int(mixer(NUMPY).checksum(array)) for array in arrays]
    mixing._tables.cache_clear()
    assert bytes(out) == oracle.mixed(sizes[0], 77, [bytes(array) for array in arrays], 2)
    assert sums == [oracle.checksum(bytes(array)) for array in arrays]


def test_a_mix_that_is_added():
    out = plain(range(10))
    mixer(NUMPY).mix(out, 5, [plain(b"abc")], 1, 0, True)
    summed = zip(oracle.words(bytes(range(10))), oracle.words(oracle.mixed(12, 5, [b"abc"])), strict=True)
    assert bytes(out) == b"".join((sum(pair) % 2**32).to_bytes(4, "little") for pair in summed)[:10]


@given(array=st.binary(min_size=1, max_size=60), at=st.integers(0, 59), by=st.integers(1, 255))
def test_one_changed_byte_changes_the_checksum_and_every_mix(array, at, by):
    other = bytearray(array)
    other[at % len(array)] ^= by
    assert oracle.checksum(array) != oracle.checksum(bytes(other))
    out = [np.empty(8, np.uint8) for _ in range(2)]
    for found, data in zip(out, (array, other), strict=True):
        mixer(NUMPY).mix(found, 1, [plain(data)], 1, 0)
    # of longer inputs every word has the checksum, which may cancel out the word itself in one of both
    assert bytes(out[0]) != bytes(out[1])


# ---------------------------------------------------------------- CUDA


def test_the_kernels_are_in_the_package():
    text = SOURCE.read_text(encoding="utf-8")
    for name in ("PLACE", "WEIGHT", "MULTIPLIER", "ADDEND"):
        assert f"#define {name} 0x{getattr(mixing, name):08X}u" in text
    assert f"#define SHIFT {mixing.SHIFT}\n#define POINTERS {tuning.MAX_POINTERS}\n" in text


@given(n_bytes=st.integers(0, 3000), number=numbers, given_=inputs, iters=st.integers(0, 3), add=st.booleans())
def test_the_kernels_make_the_same_bits(stub, n_bytes, number, given_, iters, add):
    wanted, found = np.zeros(n_bytes, np.uint8), stub.xp.zeros(n_bytes, np.uint8)
    on_gpu = mixer(stub, len(given_))
    arrays = [stub.xp.zeros(len(data), np.uint8) for data in given_]
    for array, data in zip(arrays, given_, strict=True):
        array.set(plain(data))
    mixer(NUMPY).mix(wanted, number, [plain(data) for data in given_], iters, 5, add)
    on_gpu.mix(found, number, arrays, iters, 5, add)
    assert bytes(found) == bytes(wanted)
    assert int(on_gpu.checksum(found)) == int(mixer(NUMPY).checksum(wanted))


def test_many_threads_come_round(stub):
    array = np.random.default_rng(0).integers(0, 256, 200_001, np.uint8)
    there = stub.xp.zeros(array.size, np.uint8)
    there.set(array)
    found, wanted = stub.xp.zeros(100_000, np.uint8), np.empty(100_000, np.uint8)
    mixer(stub).mix(found, 3, [there], 1, 0)
    mixer(NUMPY).mix(wanted, 3, [array], 1, 0)
    assert np.array_equal(found, wanted)
    assert int(mixer(stub).checksum(there)) == int(mixer(NUMPY).checksum(array))


@pytest.mark.parametrize("slots", [1, 3, tuning.TABLE_SLOTS])
def test_checksums_wait_until_they_are_asked_for(stub, monkeypatch, slots):
    monkeypatch.setattr("remat_algos.executor.tuning.TABLE_SLOTS", slots)
    on_gpu, arrays = mixer(stub), [stub.xp.zeros(40, np.uint8) for _ in range(8)]
    for i, array in enumerate(arrays):
        array[0] = i
    asked = [on_gpu.checksum(array) for array in arrays]
    assert [int(sum_) for sum_ in asked] == [oracle.checksum(bytes(array)) for array in arrays]
    found = stub.xp.zeros(2, np.uint8)
    on_gpu.mix(found, 1, arrays, 1, 0)  # and those of inputs that are longer
    assert bytes(found) == oracle.mixed(2, 1, [bytes(array) for array in arrays], 1)


def test_checksums_share_one_array_and_are_copied_together(stub, monkeypatch):
    on_gpu, arrays = mixer(stub), [stub.xp.zeros(40, np.uint8) for _ in range(8)]
    made, copied = [], []
    zeros, to_host = stub.xp.zeros, type(stub).to_host
    monkeypatch.setattr(stub.xp, "zeros", lambda *args: made.append(args) or zeros(*args))
    monkeypatch.setattr(type(stub), "to_host", lambda self, array: copied.append(array.size) or to_host(self, array))
    asked = [on_gpu.checksum(array) for array in arrays]
    on_gpu.mix(zeros(2, np.uint8), 1, arrays, 1, 0)
    assert {int(sum_) for sum_ in asked} == {0}
    assert (made, copied) == ([], [16])


def test_kernels_are_built_once_for_each_device(monkeypatch):
    fake, device, built = cuda_stub.module(), [0], []
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(fake.cuda.runtime, "getDevice", lambda: device[0])

    def module(code):
        built.append(device[0])
        return SimpleNamespace(get_function=lambda name: name)

    monkeypatch.setattr(fake, "RawModule", module)
    monkeypatch.setattr(array_backend, "try_kernels", lambda cupy: None)
    for device[0] in (0, 0, 1, 0, 1):
        mixer(backend("cupy"))
    assert built == [0, 1]


@given(data=st.data())
def test_both_backends_make_the_same_of_a_graph(stub, data):
    graph = data.draw(graphs(max_nodes=8))
    order = data.draw(orders(graph))
    here, there = (execute(graph, order, backend=name) for name in ("numpy", "cupy"))
    assert here.checksums.tolist() == there.checksums.tolist()
    for field in ("used", "used_raw", "predicted", "resident", "mismatches"):
        assert np.array_equal(getattr(here, field), getattr(there, field)), field
    assert there.used.tolist() == there.predicted.tolist()


@given(data=st.data())
def test_both_backends_write_over_reads(stub, data):
    simulation = data.draw(cases())
    buffers = Buffers.of(simulation, data.draw(written_over(simulation)))
    found = execute(simulation.graph, simulation, None, share_storage(buffers, alignment=64), "cupy", checking=True)
    assert found.checksums.tolist() == execute(simulation.graph, simulation).checksums.tolist()
    assert found.used.tolist() == found.predicted.tolist()


@pytest.mark.parametrize("name", ["mixing.cu", "busy.cu"])
def test_a_compiler_of_cuda_takes_the_kernels(name, tmp_path):
    source = SOURCE.with_name(name)
    assert {file.name for file in SOURCE.parent.glob("*.cu")} == {"mixing.cu", "busy.cu"}
    nvrtc = next(filter(None, map(library, ("nvrtc", "libnvrtc.so.13", "libnvrtc.so.12"))), None)
    if nvrtc is None:
        nvcc = shutil.which("nvcc")
        if nvcc is None:
            pytest.skip("neither NVRTC nor nvcc, the compilers of CUDA, is here")
        subprocess.run([nvcc, "-arch=sm_90", "-cubin", "-o", tmp_path / "kernels.cubin", source], check=True)
        return
    program = ctypes.c_void_p()
    text = source.read_bytes()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, name.encode(), 0, None, None) == 0
    options = (ctypes.c_char_p * 1)(b"-arch=sm_90")
    assert nvrtc.nvrtcCompileProgram(program, 1, options) == 0


def library(name):
    """A shared library, wherever the system or pip has put it."""
    places = [ctypes.util.find_library(name), name]
    for folder in map(str, sys.path):
        places += [f"{folder}/nvidia/cuda_nvrtc/lib/{name}", f"{folder}/nvidia/cu13/lib/{name}"]
    for place in filter(None, places):
        try:
            return ctypes.CDLL(place)
        except OSError:
            continue
    return None


# ---------------------------------------------------------------- graphs


def of_one(memory=(8,), **more):
    """One node."""
    return ComputationGraph.from_arrays(
        read_indptr=[0, 0], read_indices=[], value_indptr=[0, len(memory)], memory=memory, **more
    )


def test_values_nodes_and_seeds_differ():
    found = [execute(of_one((8, 8)), [0], seed=seed).checksums.tolist() for seed in (0, 1, 2**40)]
    assert len({*found[0], *found[1], *found[2]}) == 6
    pair = ComputationGraph.from_edges([], memory=[8, 8])
    assert len(set(execute(pair, [0, 1]).checksums.tolist())) == 2


@pytest.mark.parametrize("seed", [0, 7, 2**40 + 1])
def test_values_workspaces_and_residents_are_all_different(seed):
    """Else bytes that are written over by something else might not change."""
    count = 500

    class Looking(SyntheticOperators):
        def residents(self, backend):
            found = super().residents(backend)
            seen.extend(array.tobytes() for array in found)
            return found

        def run(self, node, reads, residents, values, workspace):
            super().run(node, reads, residents, values, workspace)
            seen.extend([values[0].tobytes(), workspace.tobytes()])

    seen = []
    none = [0] * (count + 1)
    resident = Resident([4] * count, [0] * count, none, [], tuple(f"resident{i}" for i in range(count)))
    sizes = {"memory": [4] * count, "workspace": [4] * count}
    graph = ComputationGraph.from_arrays(read_indptr=none, read_indices=[], resident=resident, **sizes)
    execute(graph, range(count), Looking(graph, seed=seed))
    assert len(set(seen)) == len(seen) == 3 * count


def test_what_has_no_bytes_makes_nothing():
    found = execute(of_one((0, 0)), [0])
    assert found.checksums.tolist() == [0, 0]
    assert found.used.tolist() == found.used_raw.tolist() == [0]


def test_rounds_of_each_node():
    chain = ComputationGraph.from_edges([(0, 1)], memory=8)
    found = [execute(chain, [0, 1], SyntheticOperators(chain, iters=iters)).checksums for iters in (1, [1, 2], [2, 1])]
    burnt = execute(chain, [0, 1], SyntheticOperators(chain, burn=9)).checksums
    assert burnt.tolist() == found[0].tolist()  # it is work without an effect
    assert found[0][0] == found[1][0] != found[2][0]
    assert len({sums[1] for sums in found}) == 3


@pytest.mark.parametrize("work", [{"iters": -1}, {"iters": [2**31]}, {"burn": -3}])
def test_rounds_that_nobody_can_run(work):
    (name, rounds), *_ = work.items()
    with raises(ArgumentError, name=name, wrong=np.ravel(rounds)[0]):
        SyntheticOperators(of_one(), **work)


@pytest.mark.parametrize("by", [0, 1.5, "2", 2**63])
def test_sizes_are_divided_by_whole_numbers(by):
    with pytest.raises(TypeError if isinstance(by, str) else ValueError, match="by"):
        shrink(of_one((7,)), by)
    assert shrink(of_one((7, 2**52)), 2**63 - 1).memory.tolist() == [1, 1]
    assert shrink(of_one((7,)), np.int64(2)).memory.tolist() == [4]


def test_an_update_changes_the_parameter_and_nothing_else():
    resident = Resident([8, 8], [1, 0], [0, 0, 2], [0, 1], ("weight", "data"))
    graph = ComputationGraph.from_arrays(
        read_indptr=[0, 0, 1],
        read_indices=[0],
        memory=[8, 0],
        once=[False, True],
        forward_of=[-1, 0],
        resident=resident,
    )
    assert graph.updates.tolist() == [False, True]
    operators = SyntheticOperators(graph)
    operators.prepare(NUMPY, graph)
    arrays = operators.residents(NUMPY)
    before = [bytes(array) for array in arrays]
    operators.run(1, [plain(b"gradient")], arrays, [np.empty(0, np.uint8)], None)
    assert bytes(arrays[0]) != before[0]
    assert bytes(arrays[1]) == before[1]
