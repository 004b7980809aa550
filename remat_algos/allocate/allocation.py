"""`Allocation`: an address for every buffer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.allocate.buffers import Buffers, check_alignment
from remat_algos.arguments import checked_arguments
from remat_algos.context import Stop
from remat_algos.errors import AllocationError, ArgumentTypeError, GraphError
from remat_algos.ir.arrays import Int64, brief, by_fields, frozen
from remat_algos.kernels.offsets import first_clash


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """The address of each buffer in one arena.

    Parameters
    ----------
    buffers : Buffers
    storage : int64[k]
        The block of each buffer. With `share_storage` and `colour` blocks stand side by side and buffers share one at
        different times; with `pack` buffers written over each other are a block, every other buffer is its own block.
    offset : int64[k]
        First byte of each buffer.
    size : int
        Bytes of the arena.
    method : str
        The algorithm.
    bound : int
        Lower bound in bytes of any allocation of these buffers, at least their `max_live` rounded up to the alignment.
    alignment : int
        A power of two that divides every offset.
    stop : Stop
        How the search ended.
    """

    buffers: Buffers
    storage: Int64
    offset: Int64
    size: int
    method: str
    bound: int
    alignment: int = 1
    stop: Stop = Stop.DONE

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        if not isinstance(self.buffers, Buffers):
            raise ArgumentTypeError("buffers has type {kind!w}; give Buffers", kind=type(self.buffers).__name__)
        for field in ("storage", "offset"):
            object.__setattr__(self, field, _numbers(getattr(self, field), field, len(self.buffers)))
        _check_storage(self.storage)
        for field in ("size", "bound"):
            number = getattr(self, field)
            if not isinstance(number, int | np.integer) or isinstance(number, bool) or not 0 <= number < 2**62:
                raise AllocationError(
                    "{field!w} is {number!r}; give whole bytes, 0 or more", field=field, number=number
                )
        check_alignment(self.alignment)

    @classmethod
    @checked_arguments
    def side_by_side(cls, buffers: Buffers, storage: Int64, method: str, alignment: int = 1) -> Allocation:
        """Put blocks in a row, each as large as its largest buffer; for buffers without fixed offsets.

        Parameters
        ----------
        buffers : Buffers
        storage : int64[k]
            The block of each buffer, from 0; there are at most as many blocks as buffers.
        method : str
        alignment : int

        Raises
        ------
        AllocationError
            If `storage` is not one block for each buffer, the alignment is not a power of two, or a buffer has a fixed
            offset or belongs to an arena beyond the first.

        Examples
        --------
        >>> Allocation.side_by_side(Buffers([0, 1], [1, 2], [4, 2]), [0, 0], "by hand").size
        4
        """
        check_arena(buffers)
        if (buffers.offset >= 0).any():
            raise AllocationError(
                "{method} puts blocks side by side and cannot keep the fixed offset of buffer {name}; use pack "
                "(--method offsets), or leave the offsets free",
                method=method,
                name=buffers.name(int(np.argmax(buffers.offset))),
            )
        rounded = buffers.rounded(alignment)
        storage = _numbers(storage, "storage", len(buffers))
        _check_storage(storage)
        if storage.max(initial=-1) >= len(buffers):
            raise AllocationError(
                "storage names block {storage}; with {n_buffers} buffers, number from 0",
                storage=storage.max(),
                n_buffers=len(buffers),
            )
        length = np.zeros(int(storage.max(initial=-1)) + 1, np.int64)
        np.maximum.at(length, storage, rounded.size)
        end = np.cumsum(length)
        size = int(end[-1]) if end.size else 0
        return cls(buffers, storage, (end - length)[storage], size, method, rounded.max_live, alignment)

    @property
    def proven(self) -> bool:
        """True if no allocation of these buffers is smaller."""
        return self.size <= self.bound

    @property
    def fragmentation(self) -> float:
        """Share of the arena beyond the bytes of the worst step."""
        return 1 - self.buffers.max_live / self.size if self.size else 0.0

    def verify(self) -> None:
        """Check that each buffer is in the arena, aligned, and overlaps no other that is needed at the same step.

        Buffers with a fixed offset lie there. A block has one buffer at a time, and the arena is no smaller than its
        bound; the bound itself is not checked.

        Raises
        ------
        AllocationError
            One sentence on the first error.
        """
        buffers = self.buffers
        check_arena(buffers)
        outside = (self.offset < 0) | (self.offset + buffers.size > self.size)
        if outside.any():
            i = int(np.argmax(outside))
            last = self.offset[i] + buffers.size[i]
            raise AllocationError(
                "buffer {name} lies at {offset}:{last}, outside the arena of {size} bytes",
                name=buffers.name(i),
                offset=self.offset[i],
                last=last,
                size=self.size,
            )
        moved = (buffers.offset >= 0) & (self.offset != buffers.offset)
        if moved.any():
            i = int(np.argmax(moved))
            raise AllocationError(
                "buffer {name} lies at {offset}, but has the fixed offset {fixed}",
                name=buffers.name(i),
                offset=self.offset[i],
                fixed=buffers.offset[i],
            )
        misaligned = self.offset % self.alignment != 0
        if misaligned.any():
            i = int(np.argmax(misaligned))
            raise AllocationError(
                "buffer {name} lies at {offset}, which {alignment} does not divide",
                name=buffers.name(i),
                offset=self.offset[i],
                alignment=self.alignment,
            )
        overwriting = np.flatnonzero(buffers.over >= 0)
        elsewhere = self.offset[overwriting] != self.offset[buffers.over[overwriting]]
        if elsewhere.any():
            i = int(overwriting[np.argmax(elsewhere)])
            raise AllocationError(
                "buffer {name} is written over {under}, but lies elsewhere",
                name=buffers.name(i),
                under=buffers.name(int(buffers.over[i])),
            )
        i, j = first_clash(buffers.begin, buffers.release_step, buffers.size, self.offset)
        if i >= 0:
            step = max(buffers.begin[i], buffers.begin[j])
            raise AllocationError(
                "buffers {name} and {other} overlap: at step {step} they lie at {begin}:{end} and "
                "{other_begin}:{other_end}",
                name=buffers.name(i),
                other=buffers.name(j),
                step=step,
                begin=self.offset[i],
                end=self.offset[i] + buffers.size[i],
                other_begin=self.offset[j],
                other_end=self.offset[j] + buffers.size[j],
            )
        self._check_blocks()
        if self.bound > self.size:
            raise AllocationError(
                "the arena has {size} bytes, which is below its bound of {bound}", size=self.size, bound=self.bound
            )

    def _check_blocks(self) -> None:
        """Raise AllocationError if two buffers are in one block at the same step."""
        buffers = self.buffers
        order = np.lexsort((buffers.begin, self.storage))
        before, after = order[:-1], order[1:]
        both = (self.storage[before] == self.storage[after]) & (buffers.begin[after] < buffers.release_step[before])
        if both.any():
            at = int(np.argmax(both))
            i, j = int(before[at]), int(after[at])
            raise AllocationError(
                "buffers {name} and {other} are both in block {storage} at step {step}",
                name=buffers.name(i),
                other=buffers.name(j),
                storage=self.storage[i],
                step=buffers.begin[j],
            )


def check_arena(buffers: Buffers) -> None:
    """Raise AllocationError if a buffer belongs to an arena beyond the only one."""
    if buffers.arena.max(initial=0) > 0:
        i = int(np.argmax(buffers.arena))
        raise AllocationError(
            "buffer {name} belongs to arena {arena}, and there is arena 0 only; give the capacity of each "
            "arena (pack_arenas, or --capacity more than once)",
            name=buffers.name(i),
            arena=buffers.arena[i],
        )


def _numbers(array: ArrayLike, what: str, count: int) -> Int64:
    try:
        return frozen(array, np.int64, what, count)
    except GraphError as error:
        raise AllocationError(error.template, **error.fields) from error


def _check_storage(storage: Int64) -> None:
    if storage.min(initial=0) < 0:
        i = int(np.argmin(storage))
        raise AllocationError("storage[{i}] is {storage}; blocks are numbered from 0", i=i, storage=storage[i])
