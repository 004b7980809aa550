"""Hashes and checksums of 32-bit words for synthetic nodes, bit-identical on NumPy and CUDA.

Word i of a result is initially i times an odd constant, xor a number that identifies the result. Each input adds its
word i (modulo its length) times an odd number that depends on the position of the input. An input longer than the
result also adds its checksum times that number, so that every byte counts. Rounds of multiplication, addition and xor
with the upper bits follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import SupportsInt

import numpy as np
from numpy.typing import NDArray

from remat_algos.executor import tuning
from remat_algos.executor.array_backend import Array, Backend, cuda_kernels

PLACE, WEIGHT, MULTIPLIER, ADDEND = 0x9E3779B1, 0x85EBCA77, 0x2C1B3C6D, 0x297A2D39
SHIFT = 15

_MULTIPLIER, _ADDEND, _SHIFT = (np.array(c, np.uint32) for c in (MULTIPLIER, ADDEND, SHIFT))  # faster than scalars

Words = NDArray[np.uint32]


@cache
def _tables() -> tuple[Words, Words]:
    """Return i * PLACE and (2 * i + 1) * WEIGHT for the positions i in a block, read-only."""
    i = np.arange(tuning.BLOCK_WORDS, dtype=np.uint32)
    places, weights = i * PLACE, (2 * i + 1) * WEIGHT
    for table in (places, weights):
        table.setflags(write=False)
    return places, weights


class NumpyMixer:
    """Mixes on the CPU, block by block; scratch memory is a few blocks, regardless of the sizes."""

    def __init__(self) -> None:
        self._places, self._weights = _tables()
        self._odd: list[NDArray[np.uint32]] = []
        self._mixed, self._upper = np.empty(tuning.BLOCK_WORDS, np.uint32), np.empty(tuning.BLOCK_WORDS, np.uint32)

    def mix(self, out: Array, number: int, inputs: Sequence[Array], iters: int, burn: int, add: bool = False) -> None:
        """Write the mix of the inputs to `out`; if `add`, add it to the contents of `out`."""
        n_words = -(-out.size // 4)
        factors = self._factors(len(inputs))
        longer = sum((2 * k + 3) * self.checksum(a) for k, a in enumerate(inputs) if a.size > 4 * n_words)
        for start in range(0, n_words, tuning.BLOCK_WORDS):
            count = min(tuning.BLOCK_WORDS, n_words - start)
            mixed, upper = self._mixed[:count], self._upper[:count]
            if start:
                np.add(self._places, start * PLACE % 2**32, out=self._mixed)
                np.bitwise_xor(mixed, number, out=mixed)
            else:
                np.bitwise_xor(self._places[:count], number, out=mixed)
            for array, factor in zip(inputs, factors, strict=False):
                if array.size:
                    np.multiply(_periodic(array, start, count), factor, out=upper)
                    np.add(mixed, upper, out=mixed)
            if longer:
                np.add(mixed, longer % 2**32, out=mixed)
            for _ in range(iters):
                np.multiply(mixed, _MULTIPLIER, out=mixed)
                np.add(mixed, _ADDEND, out=mixed)
                np.right_shift(mixed, _SHIFT, out=upper)
                np.bitwise_xor(mixed, upper, out=mixed)
            if burn:
                _burn(count, burn)
            if add:
                np.add(mixed, _words(out, start, count), out=mixed)
            _store(mixed, out, start)

    def _factors(self, count: int) -> list[NDArray[np.uint32]]:
        while len(self._odd) < count:
            self._odd.append(np.array(2 * len(self._odd) + 3, np.uint32))
        return self._odd

    def checksum(self, array: Array) -> int:
        """Return the sum of all words, each times the odd weight of its position, modulo 2**32."""
        n_words = -(-array.size // 4)
        if 0 < n_words <= tuning.BLOCK_WORDS:
            return int(np.dot(_words(array, 0, n_words), self._weights[:n_words]))
        total = 0
        for start in range(0, n_words, tuning.BLOCK_WORDS):
            words = _words(array, start, min(tuning.BLOCK_WORDS, n_words - start))
            total += int(np.dot(words, self._weights[: words.size]))
            total += 2 * start * WEIGHT * int(np.add.reduce(words, dtype=np.uint32))
        return total % 2**32


def _store(words: Words, array: Array, start: int) -> None:
    target = array[4 * start : 4 * (start + words.size)]
    if target.size % 4:
        target[:] = words.view(np.uint8)[: target.size]
    else:
        target.view(np.uint32)[:] = words


def _words(array: Array, start: int, count: int) -> Words:
    """Return words `start:start + count` of an array; copy them only if the last word is incomplete."""
    part = array[4 * start : 4 * (start + count)]
    if part.size % 4 == 0:
        return part.view(np.uint32)
    words = np.zeros(count, np.uint32)
    words.view(np.uint8)[: part.size] = part
    return words


def _periodic(array: Array, start: int, count: int) -> Words:
    """Return `count` words, from word `start`, of the array repeated periodically."""
    n_words = -(-array.size // 4)
    start %= n_words
    first = _words(array, start, min(count, n_words - start))
    rest = count - first.size
    if not rest:
        return first
    period = _words(array, 0, min(n_words, rest))
    return np.concatenate([first, np.tile(period, -(-rest // period.size))[:rest]])


def _burn(count: int, burn: int) -> None:
    x = np.ones(count, np.float32)
    for _ in range(burn):
        np.multiply(x, np.float32(0.999), out=x)
        np.add(x, np.float32(0.001), out=x)


class _Slots:
    """Checksums in GPU memory, initially zero, copied to the host on demand."""

    def __init__(self, backend: Backend, count: int) -> None:
        self._backend = backend
        with backend.uncounted():
            self.device = backend.xp.zeros(count, np.uint32)
        self.used = self._known = 0
        self._host: Words = np.empty(count, np.uint32)

    def take(self, count: int) -> Array:
        self.used += count
        return self.device[self.used - count : self.used]

    def value(self, slot: int) -> int:
        if slot >= self._known:
            self._host[self._known : self.used] = self._backend.to_host(self.device[self._known : self.used])
            self._known = self.used
        return int(self._host[slot])


class _Later:
    """A checksum that the GPU may still be computing; int() waits for it."""

    __slots__ = ("_slot", "_slots")

    def __init__(self, slots: _Slots) -> None:
        self._slots, self._slot = slots, slots.used - 1

    def __int__(self) -> int:
        return self._slots.value(self._slot)


class CudaMixer:
    """Mixes on a GPU with the kernels in `mixing.cu`, which use no memory of the measured pool."""

    THREADS = 256

    def __init__(self, backend: Backend, max_inputs: int) -> None:
        xp = backend.xp
        device = xp.cuda.runtime.getDevice()
        self._mix, self._checksum = cuda_kernels(xp, "mixing.cu", "mix", "checksum")
        self._backend, self._slots = backend, _Slots(backend, tuning.TABLE_SLOTS)
        with backend.uncounted():
            self._nothing = xp.zeros(1, np.uint32)
            self._table = self._nothing
            if max_inputs > tuning.MAX_POINTERS:
                self._table = xp.zeros(2 * max_inputs, np.uint64)
        properties = xp.cuda.runtime.getDeviceProperties(device)
        self._max_blocks = 32 * int(properties["multiProcessorCount"])

    def mix(self, out: Array, number: int, inputs: Sequence[Array], iters: int, burn: int, add: bool = False) -> None:
        if out.size == 0:
            return
        table = self._nothing
        if len(inputs) > tuning.MAX_POINTERS:
            table = self._table
            entries = [array.data.ptr if array.size else 0 for array in inputs] + [array.size for array in inputs]
            table[: len(entries)].set(np.array(entries, np.uint64), stream=self._backend.stream)
        few = inputs if len(inputs) <= tuning.MAX_POINTERS else []
        pointers = [array if array.size else self._nothing for array in few]
        sizes = [np.int64(array.size) for array in few]
        idle = tuning.MAX_POINTERS - len(few)
        arguments = (
            *(out, np.int64(out.size), np.uint32(number), np.int32(iters), np.int32(burn), np.int32(add)),
            *(np.int32(len(inputs)), *pointers, *[self._nothing] * idle, *sizes, *[np.int64(0)] * idle),
            *(table, self._sums(inputs, out.size)),
        )
        self._mix((self._blocks(out.size),), (self.THREADS,), arguments)

    def checksum(self, array: Array) -> SupportsInt:
        if array.size == 0:
            return 0
        self._add_up(array, self._take(1))
        return _Later(self._slots)

    def _sums(self, inputs: Sequence[Array], n_bytes: int) -> Array:
        """Return uint32[n_inputs]: checksums of inputs that are longer than the result, 0 for other inputs."""
        longer = [-(-array.size // 4) > -(-n_bytes // 4) for array in inputs]
        if not any(longer):
            return self._nothing
        sums = self._take(len(inputs))
        for k, array in enumerate(inputs):
            if longer[k]:
                self._add_up(array, sums[k : k + 1])
        return sums

    def _add_up(self, array: Array, total: Array) -> None:
        self._checksum((self._blocks(array.size),), (self.THREADS,), (array, np.int64(array.size), total))

    def _take(self, count: int) -> Array:
        if self._slots.used + count > self._slots.device.size:
            self._slots = _Slots(self._backend, max(tuning.TABLE_SLOTS, count))
        return self._slots.take(count)

    def _blocks(self, n_bytes: int) -> int:
        words = -(-n_bytes // 4)
        return min(-(-words // self.THREADS), self._max_blocks)


Mixer = NumpyMixer | CudaMixer


def mixer(backend: Backend, max_inputs: int = 0) -> Mixer:
    """Return the mixer of a backend, for nodes of up to `max_inputs` inputs."""
    return NumpyMixer() if backend.name == "numpy" else CudaMixer(backend, max_inputs)
