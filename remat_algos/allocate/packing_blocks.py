"""Rectangles to pack: one for each chain of in-place buffers, with steps compressed to sections."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from remat_algos.allocate.buffers import NO_LIMIT, Buffers
from remat_algos.ir.arrays import Bool, Int64


@dataclass(frozen=True, slots=True, eq=False)
class PackingBlocks:
    """The blocks that `pack` places: rectangles of sections by bytes, without those of 0 bytes.

    A section is a range of steps in which no block ends before all of its blocks have begun: a block needed at one of
    its steps is needed at its last. So there are at most n sections, and blocks overlap in a section if and only if
    they overlap at a step.

    Block i has the half-open sections `begin[i]:end[i]`, ascending, and an offset from `low[i]` to `high[i]`: equal if
    it is fixed, 0 and `NO_LIMIT` if it may lie anywhere. `of_buffer` has the block of each buffer, -1 if it has no
    bytes.
    """

    begin: Int64
    end: Int64
    size: Int64
    n_sections: int
    of_buffer: Int64
    low: Int64
    high: Int64

    @classmethod
    def of(cls, buffers: Buffers) -> PackingBlocks:
        """Make the blocks of all buffers; those written over each other are one block."""
        storage, size = buffers.first, buffers.size
        begin, end = buffers.begin.copy(), buffers.release_step
        np.maximum.at(end, storage, buffers.release_step)
        roots = np.flatnonzero((storage == np.arange(len(buffers))) & (size > 0))
        roots = roots[np.argsort(begin[roots], kind="stable")]
        block = np.full(len(buffers), -1)
        block[roots] = np.arange(roots.size)
        last = _last_steps(begin[roots], end[roots])
        first, behind = (np.searchsorted(last, steps[roots]) for steps in (begin, end))
        fixed = buffers.fixed[roots]
        low, high = np.maximum(fixed, 0), np.where(fixed < 0, NO_LIMIT, fixed)
        return cls(first, behind, size[roots], last.size, block[storage], low, high)

    def __len__(self) -> int:
        return self.size.size

    @property
    def fixed(self) -> Bool:
        """bool[n]: True for blocks with only one possible offset."""
        return self.low == self.high

    @property
    def length(self) -> Int64:
        """int64[n]: number of sections of each block."""
        return self.end - self.begin

    @property
    def n_overlaps(self) -> int:
        """Ordered pairs of overlapping blocks, counted in every section."""
        change = np.bincount(self.begin, minlength=self.n_sections + 1)
        change -= np.bincount(self.end, minlength=self.n_sections + 1)
        return int((np.cumsum(change) ** 2).sum())

    @property
    def greatest_live(self) -> Int64:
        """int64[n]: bytes needed in the worst section of each block."""
        if len(self) == 0:
            return self.size
        pairs = np.stack([self.begin, self.end], axis=1).ravel()
        return np.maximum.reduceat(np.append(self.live, 0), pairs)[::2]

    @property
    def live(self) -> Int64:
        """int64[n_sections]: bytes needed in each section."""
        change = np.zeros(self.n_sections + 1, np.int64)
        np.add.at(change, self.begin, self.size)
        np.subtract.at(change, self.end, self.size)
        return np.cumsum(change[:-1])


def _last_steps(begin: Int64, end: Int64) -> Int64:
    """The last step of each section at which a block begins."""
    begins = np.unique(begin)
    ended = np.searchsorted(np.unique(end), begins, side="right")  # number of ends up to each
    return begins[np.append(np.diff(ended) > 0, True)] if begins.size else begins
