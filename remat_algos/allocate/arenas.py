"""Allocation in several arenas, such as the memories of a microcontroller."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from remat_algos.allocate import tuning
from remat_algos.allocate.allocation import NO_LIMIT, Allocation, Buffers, fullest_step, refuse, whole_numbers
from remat_algos.allocate.offsets import OffsetSearch, Packing, PackingBlocks
from remat_algos.arguments import as_list, as_seed, as_whole_number, check_kind, checked_arguments
from remat_algos.context import Clock, OutOfTime, Progress, Stop, interrupted_as, until_stopped
from remat_algos.errors import AllocationError, CapacityError, extended
from remat_algos.ir.arrays import Int64, as_whole, brief, by_fields
from remat_algos.wording import LONGEST_PATH, listed, shortened


@dataclass(frozen=True, slots=True, eq=False)
class SplitAllocation:
    """The arena of each buffer, and its offset there.

    Parameters
    ----------
    buffers : Buffers
    arena : int64[k]
        The arena of each buffer, from 0.
    offset : int64[k]
        First byte of each buffer, from the start of its arena.
    capacities : tuple of int
        Bytes in each arena.
    method : str
        Name of the algorithm.
    alignment : int
        A power of two that divides every offset.

    Examples
    --------
    >>> split = SplitAllocation(Buffers([0, 0], [2, 2], [4, 2]), [0, 1], [0, 0], (4, 2), "by hand")
    >>> split.verify()
    >>> split.sizes
    (4, 2)
    """

    buffers: Buffers
    arena: Int64
    offset: Int64
    capacities: tuple[int, ...]
    method: str
    alignment: int = 1

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        check_kind(self.buffers, Buffers, "buffers")
        object.__setattr__(self, "capacities", _capacities(self.capacities))
        for field in ("arena", "offset"):
            object.__setattr__(self, field, whole_numbers(getattr(self, field), field, len(self.buffers)))
        outside = (self.arena < 0) | (self.arena >= len(self.capacities))
        lies = "buffer {name} is in arena {arena}; {known!w}"
        refuse(self.buffers, outside, lies, arena=self.arena, known=_known(self.capacities))

    def part(self, arena: int) -> Allocation:
        """Return the allocation of the buffers in one arena; its size is the number of bytes used.

        Raise AllocationError if the arena does not exist, or an in-place chain is split over two arenas.
        """
        if as_whole(arena) is None or not 0 <= arena < len(self.capacities):
            raise AllocationError("unknown arena {arena!r}; {known!w}", arena=arena, known=_known(self.capacities))
        apart = (self.buffers.over >= 0) & (self.arena != self.arena[self.buffers.over])
        refuse(self.buffers, apart, "buffer {name} overwrites {under}, but they are in different arenas")
        members = np.flatnonzero(self.arena == arena)
        buffers = _subset(self.buffers, members)
        rounded, offset = buffers.rounded(self.alignment), self.offset[members]
        size = int((offset + rounded.size).max(initial=0))
        reach = int((rounded.fixed + rounded.size).max(initial=0, where=rounded.fixed >= 0))
        storage = np.unique(buffers.first, return_inverse=True)[1]
        bound = max(rounded.max_live, reach)
        return Allocation(buffers, storage, offset, size, self.method, bound, self.alignment)

    @property
    def parts(self) -> tuple[Allocation, ...]:
        """The allocation of each arena."""
        return tuple(self.part(arena) for arena in range(len(self.capacities)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Used bytes in each arena."""
        return tuple(part.size for part in self.parts)

    def verify(self) -> None:
        """Check each arena as `Allocation.verify` does, and the capacities and required arenas.

        Raises
        ------
        AllocationError
            If a check fails; the message describes the first failure.
        """
        own = self.buffers.fixed_arena
        refuse(
            self.buffers,
            (own >= 0) & (own != self.arena),
            "buffer {name} is in arena {arena}, but belongs to arena {fixed_arena}",
            arena=self.arena,
            fixed_arena=own,
        )
        for arena, (part, capacity) in enumerate(zip(self.parts, self.capacities, strict=True)):
            try:
                part.verify()
            except AllocationError as error:
                raise extended(error, "arena {arena}: ", arena=arena) from error
            if part.size > capacity:
                raise AllocationError(
                    "arena {arena} has {capacity} bytes, but its buffers end at byte {size}",
                    arena=arena,
                    capacity=capacity,
                    size=part.size,
                )


@checked_arguments
def pack_arenas(
    buffers: Buffers,
    capacities: Sequence[int],
    *,
    alignment: int = 1,
    time_limit: float = 5.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> SplitAllocation:
    """Split buffers over arenas with the given capacities; each buffer gets one arena and one offset there.

    The arenas are laid end to end, separated by walls. A wall is an additional buffer with a fixed offset that is live
    at all steps. This reduces the problem to `pack` with a capacity, solved by the same greedy rules and exact search,
    which fill the arenas in order. Buffers with an `arena` or an `offset` keep them; offsets count from the start of
    the arena, which is arena 0 by default.

    Parameters
    ----------
    buffers : Buffers
    capacities : sequence of int
        Bytes in each arena, rounded down to the alignment.
    alignment : int
        A power of two that divides every offset; sizes are rounded up to it.
    time_limit : float
        Seconds. The first greedy rule always finishes.
    seed : int
        Random seed of the search.
    progress : callable, optional
        A `Progress` function, called with the elapsed share of the time and the current method.

    Returns
    -------
    SplitAllocation
        The same result for the same seed, unless the time limit was reached.

    Raises
    ------
    CapacityError
        If no split exists, or none was found in time; the error names buffers that cause the failure.
    AllocationError
        If a capacity or the alignment is invalid, a fixed offset is not a multiple of the alignment or ends beyond its
        arena, or a buffer belongs to an unknown arena.
    TypeError, ValueError
        If `buffers`, `capacities`, `seed` or `time_limit` is invalid.

    Examples
    --------
    >>> split = pack_arenas(Buffers([0, 0, 1], [1, 2, 2], [6, 3, 5]), [6, 4])
    >>> split.arena.tolist(), split.offset.tolist(), split.sizes
    ([0, 1, 0], [0, 0, 0], (6, 3))
    >>> pack_arenas(Buffers([0, 1], [1, 2], [6, 11], names=("a", "b")), [6, 8])
    Traceback (most recent call last):
    remat_algos.errors.CapacityError: buffer b of 11 bytes is larger than every arena, of which the largest has \
8 bytes; give an arena of 11 bytes or more
    """
    lengths = _capacities(capacities)
    clock, random = Clock(time_limit, progress), np.random.default_rng(as_seed(seed))
    row = _ArenaRow.of(buffers, lengths, alignment)
    row.check()
    seconds = None if clock.left is None else tuning.SEARCH_TIME * clock.left
    packing = ArenaPacking(row.blocks, row.total, Clock(seconds, progress), random)
    with interrupted_as("interrupted before the buffers were split; nothing was found yet"):
        with until_stopped() as ending:
            packing.greedy()
        if not packing.fits and ending.stop is not Stop.INTERRUPTED:
            _check_steps(row, clock)
            with until_stopped() as ending:
                packing.search(tuning.FIRST_ROUNDS)
                if not packing.enough and len(row.blocks) <= tuning.MAX_ASSIGNED:
                    _Assignment(row, packing).run()
                packing.search()
        if not packing.fits:
            if ending.stop is Stop.INTERRUPTED:
                raise KeyboardInterrupt
            raise _forced(row, packing.bound > packing.capacity, clock)
    packing.clock.finish()
    arena, offset = row.places(packing.offset)
    return SplitAllocation(buffers, arena, offset, lengths, packing.method, alignment)


class ArenaPacking(Packing):
    """A packing that ends at the first placement within the capacity, or at a proof that none exists."""

    def __init__(
        self, blocks: PackingBlocks, capacity: int, clock: Clock, random: np.random.Generator | None = None
    ) -> None:
        super().__init__(blocks, capacity, clock, random)
        if (self.offset > blocks.high).any():  # violates a required arena
            self.size = max(self.size, capacity + 1)

    @property
    def fits(self) -> bool:
        return self.size <= self.capacity

    @property
    def enough(self) -> bool:
        """True if the search found a placement or proved that none exists."""
        return self.fits or self.bound > self.capacity

    @property
    def news(self) -> str:
        return f"splitting over arenas, by {self.method}"

    def search(self, rounds: int | None = None) -> None:
        """Search for a placement within the capacity; shuffle the order of the blocks between attempts."""
        search, patience = OffsetSearch(self), tuning.PACKING_PATIENCE // 64
        for _ in itertools.count() if rounds is None else range(rounds):
            if self.enough:
                return
            search.dive(self.capacity, patience)
            if not self.enough:
                self.shuffle()
            patience *= 2


class _Assignment:
    """Assign blocks to arenas, largest first. Decide cases of about twenty buffers that `ArenaPacking` cannot."""

    def __init__(self, row: _ArenaRow, packing: ArenaPacking) -> None:
        blocks = self.blocks = row.blocks
        self.row, self.packing = row, packing
        seconds = packing.clock.left
        self.within = Clock(None if seconds is None else seconds / 2)
        only = np.searchsorted(row.start, blocks.low, side="right") - 1
        arenas = range(len(row.start))
        self.options = [
            arenas if high == NO_LIMIT else (arena,)
            for arena, high in zip(only.tolist(), blocks.high.tolist(), strict=True)
        ]
        area = blocks.length * blocks.size.astype(float)
        self.order = sorted(range(row.n_walls, len(blocks)), key=lambda b: (len(self.options[b]), -area[b]))
        self.room = [np.full(blocks.n_sections, length) for length in row.length.tolist()]
        self.members: list[list[int]] = [[] for _ in arenas]
        self.packed: dict[tuple[int, frozenset[int]], Int64 | None] = {}
        self.complete = True

    def run(self) -> None:
        if self.extend(0):
            offset = self.blocks.low.copy()  # offsets of the walls
            for arena, members in enumerate(self.members):
                if members:
                    offset[sorted(members)] = self.row.start[arena] + self.offsets(arena)
            self.packing.consider(offset, "arena by arena")
        elif self.complete:
            self.packing.bound = self.packing.capacity + 1

    def extend(self, depth: int) -> bool:
        """Assign the blocks `order[depth:]` to arenas by backtracking; return True on success."""
        if depth == len(self.order):
            return True
        block, blocks = self.order[depth], self.blocks
        sections, size = slice(blocks.begin[block], blocks.end[block]), blocks.size[block]
        unused: set[int] = set()
        for arena in self.options[block]:
            length = int(self.row.length[arena])
            if (self.room[arena][sections] < size).any() or (not self.members[arena] and length in unused):
                continue  # equal empty arenas are equivalent
            if not self.members[arena]:
                unused.add(length)
            self.room[arena][sections] -= size
            self.members[arena].append(block)
            if self.offsets(arena) is not None and self.extend(depth + 1):
                return True
            self.members[arena].pop()
            self.room[arena][sections] += size
            if not self.complete:
                return False
        return False

    def offsets(self, arena: int) -> Int64 | None:
        """Return the offsets of the blocks of an arena, relative to its start, or None if the blocks do not fit."""
        key = arena, frozenset(self.members[arena])
        if key not in self.packed:
            self.packing.check()
            if len(self.packed) >= tuning.MAX_PACKED or self.within.late:
                self.complete = False
                return None
            length, members = int(self.row.length[arena]), np.array(sorted(self.members[arena]))
            part = _some_blocks(self.blocks, members)
            low = np.where(part.high == NO_LIMIT, 0, part.low - self.row.start[arena])
            part = replace(part, low=low, high=np.where(part.fixed, low, NO_LIMIT))
            packing = Packing(part, length, Clock(self.within.left))
            with suppress(OutOfTime):
                packing.run()
            fits = packing.size <= length
            self.complete = self.complete and (fits or packing.bound > length)
            self.packed[key] = packing.offset if fits else None
        return self.packed[key]


def _known(capacities: tuple[int, ...]) -> str:
    last = len(capacities) - 1
    return f"arenas are 0 to {last}" if last else "there is arena 0 only"


def _subset(buffers: Buffers, members: Int64) -> Buffers:
    place = np.full(len(buffers) + 1, -1)  # last entry for index -1
    place[members] = np.arange(len(members))
    return Buffers(
        buffers.begin[members],
        buffers.end[members],
        buffers.size[members],
        buffers.instance[members],
        place[buffers.over[members]],
        tuple(buffers.name(i) for i in members.tolist()),
        buffers.offset[members],
    )


@dataclass(frozen=True, slots=True, eq=False)
class _ArenaRow:
    """Arenas end to end in one address space, separated by walls; `blocks` contains the walls, then the buffers."""

    buffers: Buffers
    capacities: tuple[int, ...]
    rounded: Buffers
    start: Int64
    length: Int64
    blocks: PackingBlocks

    @classmethod
    def of(cls, buffers: Buffers, capacities: tuple[int, ...], alignment: int) -> _ArenaRow:
        """Lay out the arenas; raise AllocationError if the alignment is invalid or an arena unknown."""
        rounded, unknown = buffers.rounded(alignment), buffers.arena >= len(capacities)
        belongs = "buffer {name} belongs to arena {arena}; {known!w}"
        refuse(buffers, unknown, belongs, arena=buffers.arena, known=_known(capacities))
        # This size is always enough: the other buffers fit side by side above those with fixed offsets.
        most = int(rounded.size.sum() + max(0, int(rounded.fixed.max(initial=0))))
        length = np.array([min(capacity - capacity % alignment, most) for capacity in capacities], np.int64)
        start = np.cumsum(length + alignment) - length - alignment
        return cls(buffers, capacities, rounded, start, length, _walled(rounded, start, length, alignment))

    @property
    def total(self) -> int:
        return int(self.start[-1] + self.length[-1])

    @property
    def n_walls(self) -> int:
        return len(self.start) - 1

    def places(self, offset: Int64) -> tuple[Int64, Int64]:
        # Buffers of 0 bytes have block -1, which selects the appended 0.
        at = np.append(offset, 0)[self.blocks.of_buffer]
        arena = np.searchsorted(self.start, at, side="right") - 1
        fixed, own = self.rounded.fixed, self.rounded.fixed_arena
        empty = self.blocks.of_buffer < 0
        arena = np.where(empty, np.maximum(own, 0), arena)
        return arena, np.where(empty, np.maximum(fixed, 0), at - self.start[arena])

    def check(self) -> None:
        buffers, size, own = self.buffers, self.rounded.size, self.rounded.fixed_arena
        end = buffers.fixed + size
        refuse(
            buffers,
            (buffers.fixed >= 0) & (end > self.length[own]),
            "buffer {name} has the fixed offset {fixed} and ends at {end}, beyond the {capacities} bytes of arena "
            "{own}; move it, or give another or a larger arena",
            fixed=buffers.fixed,
            end=end,
            capacities=np.array(self.capacities, object)[own],
            own=own,
        )
        room = np.where(own < 0, self.length.max(), self.length[own])
        if (size > room).any():
            i = int(np.argmax(np.where(size > room, size, 0)))
            where, most = "every arena, of which the largest", max(self.capacities)
            if own[i] >= 0:
                where, most = f"arena {own[i]}, to which it belongs and which", self.capacities[own[i]]
            raise CapacityError(
                "buffer {sized!w} is larger than {where!w} has {most:,} bytes; give an arena of {size:,} bytes or more",
                sized=self.sized(i),
                where=where,
                most=most,
                size=size[i],
                buffers=(i,),
                proven=True,
            )
        self._check_live(np.arange(len(buffers)), int(self.length.sum()), "all arenas together have")
        for arena in np.unique(own[own >= 0]).tolist():
            where = f"arena {arena}, to which they belong, has"
            self._check_live(np.flatnonzero(own == arena), int(self.length[arena]), where)

    def _check_live(self, members: Int64, room: int, where: str) -> None:
        rounded = self.rounded
        begin, end = rounded.begin[members], rounded.release_step[members]
        most, step = fullest_step(begin, end, rounded.size[members])
        if most > room:
            live = self.by_size(members[(begin <= step) & (step < end)].tolist())
            down = "" if self.rounded is self.buffers else " with the alignment"
            raise CapacityError(
                "at step {step} the buffers need {most:,} bytes{down!w}, but {where!w} {room:,}; the largest buffers: "
                "{largest!w}; give larger arenas, or another schedule",
                step=step,
                most=most,
                down=down,
                where=where,
                room=room,
                largest=self.largest(live),
                buffers=live,
                proven=True,
            )

    def sized(self, i: int) -> str:
        size = int(self.buffers.size[i])
        rounded = int(self.rounded.size[i])
        up = "" if size == rounded else f", {rounded:,} with the alignment"
        return f"{shortened(self.buffers.name(i))} of {size:,} bytes{up}"

    def largest(self, members: Sequence[int]) -> str:
        names = [f"{shortened(self.buffers.name(i))} ({self.buffers.size[i]:,})" for i in members]
        return listed(names, 3)

    def of_block(self, block: int) -> int:
        return int(np.flatnonzero(self.blocks.of_buffer == block)[0])

    def by_size(self, members: Iterable[int]) -> list[int]:
        return sorted(members, key=lambda i: -int(self.buffers.size[i]))


def _walled(buffers: Buffers, start: Int64, length: Int64, wall: int) -> PackingBlocks:
    """Return blocks for walls of `wall` bytes between the arenas, followed by blocks for the buffers."""
    blocks = PackingBlocks.of(buffers)
    own = np.full(len(blocks), -1)  # required arena of each block
    some = blocks.of_buffer >= 0
    own[blocks.of_buffer[some]] = buffers.fixed_arena[some]
    low = blocks.low + np.where(own < 0, 0, start[own])
    last = np.where(own < 0, NO_LIMIT, start[own] + length[own] - blocks.size)
    high = np.where(blocks.fixed, low, last)
    n_walls = len(start) - 1 if len(blocks) else 0
    walls, zeros = (start + length)[:n_walls], np.zeros(n_walls, np.int64)
    return PackingBlocks(
        np.concatenate([zeros, blocks.begin]),
        np.concatenate([zeros + blocks.n_sections, blocks.end]),
        np.concatenate([zeros + wall, blocks.size]),
        blocks.n_sections,
        np.where(some, blocks.of_buffer + n_walls, -1),
        np.concatenate([walls, low]),
        np.concatenate([walls, high]),
    )


def _check_steps(row: _ArenaRow, clock: Clock) -> None:
    within = _part_of(clock, tuning.STEPS_TIME)
    with suppress(OutOfTime):
        for section in np.argsort(-row.blocks.live, kind="stable")[: tuning.MAX_SHIFTS].tolist():
            live = np.flatnonzero((row.blocks.begin <= section) & (section < row.blocks.end))
            begin, end = np.zeros(live.size, np.int64), np.ones(live.size, np.int64)
            alone = replace(_some_blocks(row.blocks, live), begin=begin, end=end, n_sections=1)
            if _outcome(alone, row.total, within) is False:
                members = row.by_size(row.of_block(b) for b in live.tolist() if b >= row.n_walls)
                step = max(int(row.buffers.begin[i]) for i in members)
                raise CapacityError(
                    "at step {step} the buffers {largest!w} do not fit into {named!w}, however they are split; give"
                    " larger arenas, or another schedule",
                    step=step,
                    largest=row.largest(members),
                    named=_named(row.capacities),
                    buffers=members,
                    proven=True,
                )


def _forced(row: _ArenaRow, proven: bool, clock: Clock) -> CapacityError:
    """Return the error for a failed split. If the buffers fit without a certain large one, the error names it."""
    outcome = "is possible" if proven else "was found (there may be none, or the search may need a longer time limit)"
    fault = "no split of the {n_buffers:buffer} over {named!w} " + outcome
    n_buffers, named = len(row.buffers), _named(row.capacities)
    falling = np.argsort(-row.blocks.size, kind="stable")
    blocks = falling[falling >= row.n_walls][: tuning.MAX_LEFT_OUT].tolist()
    within = _part_of(clock, 1)
    with suppress(OutOfTime):
        for block in blocks:
            others = _some_blocks(row.blocks, np.delete(np.arange(len(row.blocks)), block))
            if _outcome(others, row.total, within):
                i = row.of_block(block)
                return CapacityError(
                    fault + "; without {sized!w} the others fit; give larger arenas",
                    n_buffers=n_buffers,
                    named=named,
                    sized=row.sized(i),
                    buffers=(i,),
                    proven=proven,
                )
    largest = [row.of_block(b) for b in blocks]
    return CapacityError(
        fault + "; the largest buffers: {largest!w}; give larger arenas",
        n_buffers=n_buffers,
        named=named,
        largest=row.largest(largest),
        buffers=largest,
        proven=proven,
    )


def _part_of(clock: Clock, share: float) -> Clock:
    """Return a clock for a share of the remaining time, limited to `tuning.DIAGNOSIS_SECONDS`."""
    return Clock(tuning.DIAGNOSIS_SECONDS if clock.left is None else min(tuning.DIAGNOSIS_SECONDS, share * clock.left))


def _outcome(blocks: PackingBlocks, capacity: int, clock: Clock) -> bool | None:
    """Return True if the blocks fit, False if they cannot, None if a quarter of the time does not decide it."""
    clock.check()
    packing = ArenaPacking(blocks, capacity, Clock(None if clock.left is None else clock.left / 4))
    with suppress(OutOfTime):
        packing.run()
    return True if packing.fits else False if packing.bound > capacity else None


def _some_blocks(blocks: PackingBlocks, members: Int64) -> PackingBlocks:
    """Return only the blocks `members`, with the same sections (groups of steps) and an empty `of_buffer`."""
    fields = {field: getattr(blocks, field)[members] for field in ("begin", "end", "size", "low", "high")}
    return replace(blocks, of_buffer=np.empty(0, np.int64), **fields)


def _capacities(capacities: Iterable[int]) -> tuple[int, ...]:
    capacities = as_list(capacities, "capacities", as_whole_number)
    if not 0 < len(capacities) <= 1000:
        raise AllocationError(
            "the capacities are {capacities!r}; give the bytes of each arena, such as (98304, 65536)",
            capacities=capacities,
        )
    for capacity in capacities:
        if capacity < 0:
            raise AllocationError("a capacity is {capacity!r}; give a number of bytes, 0 or more", capacity=capacity)
    return tuple(capacities)


def _named(capacities: Sequence[int]) -> str:
    return shortened(f"arenas of {listed([f'{capacity:,}' for capacity in capacities], 4)} bytes", LONGEST_PATH)
