"""Pack buffers into a small arena: dynamic storage allocation."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from remat_algos.allocate import tuning
from remat_algos.allocate.allocation import NO_LIMIT, Allocation, Buffers, check_arena, is_byte_count, refuse
from remat_algos.arguments import as_seed, checked_arguments
from remat_algos.context import WHOLE, Clock, Progress, Stop, until_stopped
from remat_algos.errors import AllocationError
from remat_algos.ir.arrays import Bool, Int64, interval_sums
from remat_algos.kernels.offsets import GapFit, SkylineFit
from remat_algos.kernels.offsets_search import PackingSearch


@dataclass(frozen=True, slots=True, eq=False)
class PackingBlocks:
    """The blocks that `pack` places: rectangles whose width is a range of sections, and whose height is their bytes.

    Steps are grouped into sections. Within a section, no block ends before all blocks of the section have begun, so two
    blocks share a section if and only if they share a step. Block i is live in the sections `begin[i]:end[i]`, and its
    offset may be from `low[i]` to `high[i]` (equal if fixed). Blocks are sorted by begin. `of_buffer` maps buffers to
    blocks, and buffers of 0 bytes to -1.
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
        """Make blocks from buffers; buffers that overwrite each other form one block."""
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
        return self.end - self.begin

    @property
    def n_overlaps(self) -> int:
        """Number of ordered pairs of blocks that share a section; a pair counts once per shared section."""
        return int((interval_sums(self.begin, self.end, 1, self.n_sections) ** 2).sum())

    @property
    def greatest_live(self) -> Int64:
        """int64[n]: for each block, the maximum bytes live in any of its sections."""
        if len(self) == 0:
            return self.size
        pairs = np.stack([self.begin, self.end], axis=1).ravel()
        return np.maximum.reduceat(np.append(self.live, 0), pairs)[::2]

    @property
    def live(self) -> Int64:
        """int64[n_sections]: bytes live in each section."""
        return interval_sums(self.begin, self.end, self.size, self.n_sections)


def _last_steps(begin: Int64, end: Int64) -> Int64:
    """Return, for each section, the last step at which one of its blocks begins."""
    begins = np.unique(begin)
    # Number of distinct ends up to each begin; it is constant within a section.
    ended = np.searchsorted(np.unique(end), begins, side="right")
    return begins[np.append(np.diff(ended) > 0, True)] if begins.size else begins


@checked_arguments
def pack(
    buffers: Buffers,
    *,
    capacity: int | Sequence[int] | None = None,
    alignment: int = 1,
    time_limit: float = 5.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> Allocation:
    """Find offsets in a small arena within a time limit.

    Greedy rules run first. One takes blocks in some order, and repeatedly fills the lowest place with the first that
    fits [1]_. Others give each block the lowest or tightest gap. An exact search [2]_ then tries to fit all buffers
    into `max_live`, the maximum bytes live at a step. If that fails or stays undecided, it bisects between this bound
    and the best result. It enumerates only canonical placements: each block lies on the floor or directly on another
    block.

    Parameters
    ----------
    buffers : Buffers
        Buffers with a fixed `offset` stay there; the others are placed around them.
    capacity : int, optional
        Stop at an arena of at most this many bytes. The result may still be larger: compare its `size`. For several
        arenas use `pack_arenas`.
    alignment : int
        A power of two that divides every offset and the arena size; sizes are rounded up to it.
    time_limit : float
        Seconds. The first greedy rule always finishes.
    seed : int
        Random seed of the search.
    progress : callable, optional
        A `Progress` function, called with the elapsed share of the time and the best result.

    Returns
    -------
    Allocation
        The same result for the same seed, unless the time limit was reached. `method` names the rule that found it,
        and `bound` is the best proven lower bound. After an interrupt, the result is the best allocation found.

    Raises
    ------
    AllocationError
        If the alignment is not a power of two or the capacity is invalid, or if a fixed offset is not a multiple of the
        alignment or its buffer ends beyond the capacity.
    TypeError, ValueError
        If `seed` or `time_limit` is invalid.

    Notes
    -----
    Failed states of the search are stored as 128-bit hashes. `bound` and `proven` therefore assume that no two states
    have the same hash, which is extremely likely but not certain. The placement itself does not depend on it.

    References
    ----------
    .. [1] sekiyama2018: longest block first; here also the largest, the earliest, and the largest area first.
    .. [2] moffitt2023; here decisions go section by section, failed states are stored, and restarts are frequent.

    Examples
    --------
    Two buffers of 3 bytes and two of 2 bytes; at most 5 bytes are live at a step.

    >>> allocation = pack(Buffers([0, 0, 2, 3], [3, 2, 5, 5], [3, 2, 2, 3]))
    >>> allocation.size, allocation.offset.tolist(), allocation.proven
    (5, [0, 3, 3, 0], True)
    """
    if capacity is not None and not is_byte_count(capacity):
        several = "; for several arenas call pack_arenas" if isinstance(capacity, list | tuple) else ""
        raise AllocationError(
            "the capacity is {capacity!r}; give a number of bytes, 0 or more{several!w}",
            capacity=capacity,
            several=several,
        )
    check_arena(buffers)
    rounded, end = buffers.rounded(alignment), np.where(buffers.fixed < 0, 0, buffers.fixed + buffers.size)
    if capacity is not None:
        refuse(
            buffers,
            (end > capacity) & (end == end.max(initial=0)),
            "buffer {name} has the fixed offset {fixed} and ends at {end}, beyond the capacity of {capacity} bytes; "
            "move it, or increase the capacity",
            fixed=buffers.fixed,
            end=end,
            capacity=int(capacity),
        )
    random = np.random.default_rng(as_seed(seed))
    packing = Packing(PackingBlocks.of(rounded), capacity, Clock(time_limit, progress), random)
    with until_stopped() as ending:
        packing.run()
    if ending.stop is not Stop.INTERRUPTED:
        packing.clock.finish()
    fixed = rounded.fixed
    # Buffers of 0 bytes have block -1, which selects the appended 0.
    offset = np.append(packing.offset, 0)[packing.blocks.of_buffer]
    offset = np.where(fixed < 0, offset, fixed)
    reach = int((fixed + rounded.size).max(initial=0, where=fixed >= 0))  # includes buffers of 0 bytes
    storage = np.unique(buffers.first, return_inverse=True)[1]
    size, bound = max(packing.size, reach), max(packing.bound, reach)
    return Allocation(buffers, storage, offset, size, packing.method, bound, alignment, ending.stop)


class Packing:
    """The best placement of blocks, and the methods that improve it; `pack` documents `capacity`."""

    def __init__(
        self, blocks: PackingBlocks, capacity: int | None, clock: Clock, random: np.random.Generator | None = None
    ) -> None:
        self.blocks, self.capacity, self.clock = blocks, int(capacity or 0), clock
        self.rng = random or np.random.default_rng(0)
        fixed = blocks.fixed
        self.any_fixed = bool(fixed.any())
        reach = int((blocks.low + blocks.size).max(initial=0, where=fixed))
        # Every canonical offset is a multiple of this.
        self.unit = int(np.gcd.reduce(np.concatenate([blocks.size, blocks.low]))) or 1
        self.bound = max(reach, int(blocks.live.max(initial=0)))
        free = np.where(fixed, 0, blocks.size)
        self.offset = np.where(fixed, blocks.low, reach + np.cumsum(free) - free)
        self.size = reach + int(free.sum())
        self.method = "fixed offsets" if self.any_fixed and fixed.all() else "side by side"
        clock.stage(WHOLE, "time")

    @property
    def enough(self) -> bool:
        """True if the best placement is within the capacity, or is proven to be minimum."""
        return self.size <= max(self.bound, self.capacity)

    def run(self) -> None:
        """Run the methods in turn until the result is good enough."""
        self.greedy()
        for method in (self.search, self.shuffle):
            if not self.enough:
                method()

    def consider(self, offset: Int64, method: str) -> None:
        """Keep a placement if it is smaller; raise OutOfTime at the deadline."""
        size = int((offset + self.blocks.size).max(initial=0))
        if size < self.size and (offset <= self.blocks.high).all():
            self.size, self.offset, self.method = size, offset, method
        self.check()

    def check(self) -> None:
        """Report progress; raise OutOfTime at the deadline."""
        clock, share = self.clock, 1.0
        if clock.report is not None and clock.left:
            share = clock.elapsed / (clock.elapsed + clock.left)
        clock.progress(int(WHOLE * share), self.news)

    @property
    def news(self) -> str:
        return f"best {self.size:,} bytes, {self.method} · bound {self.bound:,}"

    def greedy(self) -> None:
        """Try lowest place, first fit and best fit, each with several orders of the blocks."""
        blocks = self.blocks
        for name, order in {} if self.any_fixed else self.orders().items():
            self.consider(self.stacked(order), f"lowest place, {name}")
            if self.enough:
                return
        for name, order in self.orders().items():
            if len(blocks) > tuning.MAX_BY_GAPS and name != "by begin":
                continue
            for rule, best in (("first fit", False), ("best fit", True)):
                self.consider(self.fitted(order, best), f"{rule}, {name}")
                if self.enough:
                    return

    def fitted(self, order: Int64, best: bool) -> Int64:
        """Place blocks, fixed ones first, in the lowest gap (first fit) or, if `best`, in the tightest (best fit)."""
        blocks = self.blocks
        order = order[np.argsort(~blocks.fixed[order], kind="stable")]
        return self.placed(
            GapFit(order, blocks.begin, blocks.end, blocks.size, low=blocks.low, high=blocks.high, best=best)
        )

    def stacked(self, order: Int64) -> Int64:
        """Repeatedly fill the lowest place with the first block that fits. Use first fit if some offsets are fixed."""
        if self.any_fixed:
            return self.fitted(order, False)
        blocks = self.blocks
        stack = SkylineFit(blocks.begin, blocks.end, blocks.size, inverse(order), blocks.n_sections)
        return self.placed(stack)

    def placed(self, rule: GapFit | SkylineFit) -> Int64:
        """Run a rule to its end and return the offsets; raise OutOfTime at the deadline, except for the first rule."""
        while not rule.run(tuning.BLOCKS_PER_CALL):
            if self.method != "side by side":
                self.check()
        return rule.offsets()

    def orders(self) -> dict[str, Int64]:
        """Return orders of the blocks by name: largest size, earliest begin, greatest length, or largest area first."""
        begin, size, length = self.blocks.begin, self.blocks.size, self.blocks.length
        return {
            "by size": np.lexsort((-length, -size)),
            "by begin": np.lexsort((-size, begin)),
            "by length": np.lexsort((-size, -length)),
            "by area": np.argsort(-length * size.astype(float), kind="stable"),
        }

    def shuffle(self) -> None:
        """Repeat the lowest-place rule with random orders; blocks near the top of the arena move to the front."""
        blocks, floor = self.blocks, max(self.bound, self.capacity)
        order = min(self.orders().values(), key=lambda order: int((self.stacked(order) + blocks.size).max()))
        place, smallest = inverse(order).astype(float), None
        for _ in range(tuning.PACKING_ROUNDS):
            offset = self.stacked(np.argsort(place, kind="stable"))
            size = int((offset + blocks.size).max())
            self.consider(offset, "first fit, shuffled" if self.any_fixed else "lowest place, shuffled")
            if self.enough:
                return
            if smallest is None or size <= smallest:
                kept, smallest, above = place, size, np.flatnonzero(offset + blocks.size > (floor + size) // 2)
            place = kept.copy()
            moved = above[self.rng.random(above.size) < 0.5]
            place[moved] *= self.rng.random(moved.size)

    def search(self) -> None:
        """Search for a placement within max(capacity, bound). If that fails, bisect between it and the best size."""
        work, memory = self.blocks.n_overlaps, int(self.blocks.length.sum())
        late = self.clock.left is not None and work > tuning.OVERLAPS_A_SECOND * self.clock.left
        if late or memory > tuning.MAX_MEMORY:
            return
        search = OffsetSearch(self)
        patience, parts = max(tuning.PACKING_PATIENCE, 4 * search.first), tuning.COARSE
        on_low, on_target = (tuning.ON_CAPACITY, tuning.ABOVE_CAPACITY) if self.capacity else (1, 1)
        while not self.enough:
            low = max(self.bound, self.capacity)
            search.dive(low, on_low * patience)
            low = max(self.bound, self.capacity)
            while not self.enough and self.size - low > (0 if low == self.bound else self.size // parts):
                target = (low + self.size - self.unit) // 2
                if search.dive(target, int(on_target * patience)) <= 0:
                    low = target - target % self.unit + self.unit
            patience, parts = 2 * patience, min(2 * parts, tuning.FINENESS)


class OffsetSearch:
    """Restarts of the exact search with varied priorities, because its work has a heavy-tailed distribution."""

    def __init__(self, packing: Packing) -> None:
        blocks = packing.blocks
        self.packing, self.blocks, self.rng = packing, blocks, packing.rng
        self.kernel = PackingSearch(
            blocks.begin,
            blocks.end,
            blocks.size,
            low=blocks.low,
            high=blocks.high,
            sections=blocks.n_sections,
            bits=tuning.TABLE_BITS,
        )
        self.live = blocks.greatest_live
        self.first = max(tuning.FIRST_DIVE, 4 * blocks.n_overlaps)

    def dive(self, target: int, patience: int) -> int:
        """Return 1 if the blocks fit in `target` bytes, -1 if not, 0 if undecided after `patience` units of work."""
        target -= target % self.packing.unit
        self.kernel.aim(target)
        until = self.kernel.work + patience
        for order, lowest, work in self.orders():
            self.kernel.restart(inverse(order), lowest)
            work += self.kernel.work
            while self.kernel.run(tuning.WORK_PER_CALL) == 0 and self.kernel.work < work:
                self.packing.check()
            if self.kernel.verdict > 0:
                self.packing.consider(self.kernel.offsets(), "canonical search")
            if self.kernel.verdict < 0:
                self.packing.bound = max(self.packing.bound, target + self.packing.unit)
            if self.kernel.verdict or self.kernel.work > until:
                return self.kernel.verdict
        return 0

    def orders(self) -> Iterator[tuple[Int64, bool, int]]:
        """Yield for each restart the priorities, whether the lowest offset comes first, and the work limit."""
        size, length = self.blocks.size.astype(float), self.blocks.length.astype(float)
        by_live, lowest, by_length, by_size, smallest, by_area = (
            (True, length, False),
            (True, length, True),
            (False, length, False),
            (False, size, False),
            (False, 1 / size, False),
            (False, length * np.sqrt(size), False),
        )
        plain = (lowest, by_live, by_length, by_size, (False, length, True), smallest, by_area)
        noisy = (by_live, smallest, by_area, by_length, smallest, by_size, by_area, lowest, (False, length, True))
        dives = itertools.count(1)
        for spread in itertools.chain([0.0], itertools.cycle([0.1, 0.5])):
            for of_live, weight, low in noisy if spread else plain:
                noise = weight * np.exp(self.rng.normal(0, spread, weight.size))
                yield np.lexsort((-noise, -self.live) if of_live else (-noise,)), low, self.first * luby(next(dives))


def luby(i: int) -> int:
    """Return entry i of Luby's sequence 1 1 2 1 1 2 4 1 1 2 ..., which spends equal total time on each length."""
    while i & (i + 1):
        i -= (1 << (i.bit_length() - 1)) - 1
    return (i + 1) // 2


def inverse(order: Int64) -> Int64:
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    return rank
