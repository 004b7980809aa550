"""What the executor needs of CuPy, on the processor: pools with hooks, and kernels compiled by the C++ compiler.

The text of a kernel is compiled as it is; around it a few lines play the GPU: blocks and threads one after the other.
"""

import ctypes
import shutil
import subprocess
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

CHUNK = 512

# Threads of a warp run from the last to the first, so that the first one can be told the sum of the others.
GPU = """
#define __global__
#define __device__ static
struct Place { unsigned x; };
static Place gridDim, blockDim, blockIdx, threadIdx;
static unsigned carried;
static unsigned __shfl_down_sync(unsigned, unsigned found, int other)
{
    if (other != 16) return 0;
    if (threadIdx.x % 32) { carried += found; return 0; }
    unsigned all = carried;
    carried = 0;
    return all;
}
static void atomicAdd(unsigned* sum, unsigned found) { *sum += found; }
template <class Kernel, Kernel* kernel> struct Launch;
template <class... Types, void (*kernel)(Types...)> struct Launch<void(Types...), kernel> {
    static void go(unsigned blocks, unsigned threads, Types... arguments)
    {
        gridDim.x = blocks;
        blockDim.x = threads;
        for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
            for (int thread = threads - 1; thread >= 0; thread--) {
                threadIdx.x = thread;
                kernel(arguments...);
            }
    }
};
"""
COMPILER = shutil.which("g++") or shutil.which("c++")

_here = threading.local()
_compiled = {}


class OutOfMemoryError(MemoryError):
    pass


class Array(np.ndarray):
    """An array that holds its memory as long as it, or a part of it, is there."""

    def __new__(cls, shape, dtype, memptr=None):
        n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory = memptr if memptr is not None else allocator()(n_bytes)
        found = memory.bytes[:n_bytes].view(dtype).reshape(shape).view(cls)
        found.memory = memory
        return found

    def __array_finalize__(self, origin):
        self.memory = getattr(origin, "memory", None)

    @property
    def data(self):
        address = self.ctypes.data
        return SimpleNamespace(
            ptr=address,
            copy_to_host_async=lambda host, size, stream=None: ctypes.memmove(host, address, size),
            copy_from_host_async=lambda host, size, stream=None: ctypes.memmove(address, host, size),
        )

    def set(self, array, stream=None):
        assert array.dtype == self.dtype
        self[...] = array


class Memory:
    """Bytes at an address that 512 divides."""

    def __init__(self, n_bytes, pool=None):
        room = np.empty(n_bytes + CHUNK, np.uint8)
        start = -room.ctypes.data % CHUNK
        self.bytes, self.size, self.pool = room[start : start + n_bytes], n_bytes, pool

    def __del__(self):
        if self.pool is not None and self.size:
            self.pool.take_back(self.size, id(self))


class PinnedMemory(Memory):
    """Bytes of the host."""

    @property
    def ptr(self):
        return self.bytes.ctypes.data


def allocator():
    return getattr(_here, "allocator", None) or Memory


@contextmanager
def using_allocator(given=None):
    before = getattr(_here, "allocator", None)
    _here.allocator = given
    try:
        yield
    finally:
        _here.allocator = before


class MemoryPool:
    """Segments of the size that was asked for; one that is idle serves a request of its size.

    As in CuPy from 14.1 on, what is idle when a pool goes is not given back to the device.
    """

    on_device = 0  # bytes that all pools hold of it, those that are gone too

    def __init__(self):
        self.idle, self.live, self.limit = [], 0, 0

    def set_limit(self, size):
        self.limit = size

    def total_bytes(self):
        return self.live + self.free_bytes()

    def used_bytes(self):
        return self.live

    def free_bytes(self):
        return sum(self.idle)

    def free_all_blocks(self):
        MemoryPool.on_device -= sum(self.idle)
        self.idle.clear()

    def malloc(self, size):
        chunk = -(-size // CHUNK) * CHUNK
        memory = None
        try:
            if chunk in self.idle:
                self.idle.remove(chunk)
            else:
                if self.limit and self.total_bytes() + chunk > self.limit:
                    self.free_all_blocks()
                    if self.total_bytes() + chunk > self.limit:
                        raise OutOfMemoryError(f"Out of memory allocating {chunk:,} bytes")
                MemoryPool.on_device += chunk
            memory = Memory(chunk, self)
            self.live += chunk
        finally:
            address = memory.bytes.ctypes.data if memory is not None and size else 0
            tell("malloc_postprocess", device_id=0, size=size, mem_size=chunk, mem_ptr=address, pmem_id=id(memory))
        return memory

    def take_back(self, chunk, number):
        self.live -= chunk
        self.idle.append(chunk)
        tell("free_postprocess", device_id=0, mem_size=chunk, mem_ptr=1, pmem_id=number)


class MemoryHook:
    def __enter__(self):
        hooks = vars(_here).setdefault("hooks", {})
        if self.name in hooks:
            raise RuntimeError("memory hook already exists")
        hooks[self.name] = self
        return self

    def __exit__(self, *_):
        del _here.hooks[self.name]

    def malloc_postprocess(self, *, device_id, size, mem_size, mem_ptr, pmem_id):
        pass

    def free_postprocess(self, *, device_id, mem_size, mem_ptr, pmem_id):
        pass


def tell(event, **about):
    for hook in vars(_here).get("hooks", {}).values():
        getattr(hook, event)(**about)


class Stream:
    def __init__(self, non_blocking=False):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def synchronize(self):
        pass

    def wait_event(self, event):
        pass


class Event:
    def record(self, stream):
        pass


class RawModule:
    def __init__(self, code):
        self.code = code

    def get_function(self, name):
        if name == "keep_busy":  # nothing is launched ahead here
            return lambda grid, block, arguments: None
        library = compiled(self.code)
        address = ctypes.c_void_p.in_dll(library, f"launch_{name}").value

        def launch(grid, block, arguments):
            given = [ctypes.c_uint(grid[0]), ctypes.c_uint(block[0]), *map(passed, arguments)]
            ctypes.CFUNCTYPE(None, *map(type, given))(address)(*given)

        return launch


def passed(argument):
    """As CuPy passes it: arrays by address, numbers by their type."""
    if isinstance(argument, Array):
        return ctypes.c_void_p(argument.ctypes.data)
    return np.ctypeslib.as_ctypes_type(argument.dtype)(argument.item())


def compiled(code):
    """The kernels of a text, as a library."""
    if code not in _compiled:
        names = [line.split("void ")[1].split("(")[0] for line in code.splitlines() if "__global__" in line]
        launches = "\n".join(
            f'extern "C" {{ void* launch_{name} = (void*)&Launch<decltype({name}), {name}>::go; }}' for name in names
        )
        with tempfile.TemporaryDirectory() as folder:
            library, source = Path(folder, "kernels.so"), Path(folder, "kernels.cpp")
            source.write_text(GPU + code + launches, encoding="utf-8")
            command = [COMPILER, "-std=c++14", "-O1", "-shared", "-fPIC", "-o", library, source]
            subprocess.run(command, check=True)
            _compiled[code] = ctypes.CDLL(str(library))
    return _compiled[code]


def module(processors=1):
    """The module, to stand in sys.modules as cupy."""
    if COMPILER is None:
        pytest.skip("there is no C++ compiler to compile kernels with")
    properties = {"name": b"a stub", "multiProcessorCount": processors}
    runtime = SimpleNamespace(
        getDeviceCount=lambda: 1,
        getDevice=lambda: 0,
        getDeviceProperties=lambda device: properties,
        memGetInfo=lambda: (2**30, 2**31),
    )
    cuda = SimpleNamespace(
        MemoryPool=MemoryPool,
        MemoryHook=MemoryHook,
        Stream=Stream,
        Event=Event,
        get_elapsed_time=lambda start, end: 2.0,
        using_allocator=using_allocator,
        alloc_pinned_memory=PinnedMemory,
        runtime=runtime,
        is_available=lambda: True,
    )

    def zeros(shape, dtype):
        found = Array(shape, dtype)
        found[...] = 0
        return found

    return SimpleNamespace(
        ndarray=Array,
        empty=Array,
        zeros=zeros,
        asnumpy=lambda array, stream=None: np.array(array),
        RawModule=RawModule,
        cuda=cuda,
        uint8=np.uint8,
        __version__="stub",
    )
