"""Buffers (sizes and live ranges) and their addresses in one arena: `Allocation`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.arguments import as_list, as_text, as_whole_number, check_kind, checked_arguments
from remat_algos.context import Stop
from remat_algos.errors import AllocationError, GraphError, about
from remat_algos.ir.arrays import LARGEST_SUM, Bool, Int64, as_whole, brief, by_fields, check_sizes, frozen
from remat_algos.kernels.offsets import first_clash
from remat_algos.schedule.simulation import Simulation, check_simulation

NO_LIMIT = 2**63 - 1


def whole_numbers(array: ArrayLike, what: str, count: int | None = None, *, sizes: bool = False) -> Int64:
    """Convert to a read-only array of whole numbers, or of sizes in bytes; raise AllocationError if impossible."""
    try:
        numbers = frozen(array, np.int64, what, count)
        if sizes:
            check_sizes(numbers, what)
    except GraphError as error:
        raise AllocationError(error.template, **error.fields) from error
    return numbers


def is_byte_count(number: Any) -> TypeGuard[int]:
    """Return True for integers of any size that are 0 or more, and False for all floats, such as 2.0."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool) and bool(number >= 0)


def checked_limit(limit: int | None, what: str = "limit", minimum: int = 0) -> int:
    """Check a limit in bytes; return `NO_LIMIT` for None."""
    if limit is None:
        return NO_LIMIT
    if not is_byte_count(limit) or limit < minimum:
        raise AllocationError(
            "{what!w} is {limit!r}; give a whole number of bytes, {minimum} or more, or None",
            what=what,
            limit=limit,
            minimum=minimum,
        )
    return min(int(limit), NO_LIMIT)


def is_alignment(number: Any) -> bool:
    """Return True if a number is a power of two below 2**53."""
    alignment = as_whole(number) or 0
    return 0 < alignment < LARGEST_SUM and alignment & (alignment - 1) == 0


def check_alignment(alignment: Any) -> int:
    """Return the alignment; raise AllocationError unless it is a power of two below 2**53."""
    if not is_alignment(alignment):
        raise about(
            "alignment",
            AllocationError(
                "the alignment is {alignment!r}; give a power of two below 2**53, such as 64", alignment=alignment
            ),
        )
    return int(alignment)


@dataclass(frozen=True, slots=True, eq=False)
class Buffers:
    """Buffers: their sizes in bytes, and half-open ranges of steps during which they are live.

    Parameters
    ----------
    begin, end : int64[k]
        Buffer i is live during the steps `begin[i]:end[i]`, a nonempty range. Steps are numbered from 0.
    size : int64[k]
        Bytes.
    instance : int64[k], optional
        The instance of the schedule's `Lifetimes` that each buffer stores; -1, the default, for workspaces.
    over : int64[k], optional
        The buffer that each buffer overwrites in place (chen2016, section 3). The overwritten buffer has the same size,
        is overwritten only once, and is last live at the first step of the other buffer. -1, the default: none.
    names : tuple of str
        Names from the input file; empty by default.
    offset : int64[k], optional
        Fixed offset of each buffer from the start of its arena; -1, the default, if the buffer may be placed anywhere.
        A buffer that overwrites a fixed buffer has the same offset.
    arena : int64[k], optional
        Required arena of each buffer, from 0; -1, the default, for any. A buffer with a fixed offset belongs to arena 0
        by default.

    Raises
    ------
    AllocationError
        If a buffer ends before it begins, a size is negative, a buffer overwrites one that is live later, or two
        buffers with fixed offsets share a byte at a step; if arrays differ in length or contain fractions; or if the
        sizes add up to 2**53 or more.

    Examples
    --------
    >>> buffers = Buffers([0, 1, 2], [2, 3, 4], [4, 2, 2], over=[-1, -1, 1])
    >>> buffers.max_live
    6
    >>> Buffers([0, 1], [2, 3], [4, 2], offset=[0, 3])
    Traceback (most recent call last):
    remat_algos.errors.AllocationError: buffers 0 and 1 overlap: both are needed at step 1, and by their fixed \
offsets they occupy bytes 0:4 and 3:5; move one, or leave its offset free
    """

    begin: Int64
    end: Int64
    size: Int64
    instance: Int64 = None  # type: ignore[assignment]  # set by `__post_init__`
    over: Int64 = None  # type: ignore[assignment]
    names: tuple[str, ...] = ()
    offset: Int64 = None  # type: ignore[assignment]
    arena: Int64 = None  # type: ignore[assignment]

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", whole_numbers(self.size, "size", sizes=True))
        count = len(self.size)
        for field in ("begin", "end", "instance", "over", "offset", "arena"):
            array = getattr(self, field)
            object.__setattr__(self, field, whole_numbers(-1 if array is None else array, field, count))
        object.__setattr__(self, "names", tuple(as_list(self.names, "names", as_text)))
        if self.names and len(self.names) != count:
            raise AllocationError(
                "there are {n_names} names for {count} buffers; give one each, or none",
                n_names=len(self.names),
                count=count,
            )
        for wrong, fault in (
            (self.begin < 0, "begins before step 0; steps are 0 or more"),
            (self.end <= self.begin, "ends before it begins, or with it; `upper` is the first step without it"),
            (self.instance < -1, "has an invalid instance; instances are 0 or more, -1 for none"),
            (self.over < -1, "is written over an unknown buffer; give its number, or -1 for none"),
            (self.offset < -1, "has a negative offset; offsets are 0 or more, -1 for any"),
            (self.offset > LARGEST_SUM - self.size, "has an offset at which it ends beyond 2**53; give a lower one"),
            (self.arena < -1, "has a negative arena; arenas are numbered from 0, -1 for any"),
        ):
            refuse(
                self,
                wrong,
                "buffer {name} (steps {begin} to {end}) {fault!w}",
                begin=self.begin,
                end=self.end,
                fault=fault,
            )
        self._check_over()
        self._check_fixed()

    @classmethod
    def of(cls, simulation: Simulation, over: Int64 | None = None) -> Buffers:
        """Return the buffers of a schedule: one per instance, in order, followed by workspaces.

        Parameters
        ----------
        simulation : Simulation
        over : int64[n_instances], optional
            The instance that each instance overwrites in place (`find_overwrites`), or -1.

        Raises
        ------
        TypeError
            If `simulation` is not a Simulation. For a plan, pass `plan.simulation`.
        """
        check_simulation(simulation)
        lifetimes, graph = simulation.lifetimes, simulation.graph
        workspace = graph.workspace[simulation.schedule.order]
        steps = np.flatnonzero(workspace)
        instances = np.arange(lifetimes.value.size)
        none = np.full(steps.size, -1)
        over = whole_numbers(-1 if over is None else over, "over", instances.size)
        return cls(
            np.concatenate([lifetimes.made_at, steps]),
            np.concatenate([lifetimes.end, steps + 1]),
            np.concatenate([graph.memory[lifetimes.value], workspace[steps]]),
            np.concatenate([instances, none]),
            np.concatenate([over, none]),
        )

    def __len__(self) -> int:
        return self.size.size

    def places(self, simulation: Simulation) -> Int64:
        """Return int64[k]: the index in `self` of each of a schedule's buffers. Raise AllocationError if any differs.

        Examples
        --------
        >>> from remat_algos.ir.graph import ComputationGraph
        >>> from remat_algos.schedule.simulation import simulate
        >>> simulation = simulate(ComputationGraph.from_edges([(0, 1), (1, 2)]), [0, 1, 2])
        >>> Buffers.of(simulation).places(simulation).tolist()
        [0, 1, 2]
        """
        expected = Buffers.of(simulation)
        order = np.lexsort((self.begin, np.where(self.instance < 0, len(self), self.instance)))
        fields = ("instance", "begin", "end", "size")
        if len(self) != len(expected) or any(
            not np.array_equal(getattr(self, field)[order], getattr(expected, field)) for field in fields
        ):
            raise AllocationError(
                "the allocation is not one of this schedule's buffers; allocate Buffers.of(simulate(graph, schedule))"
            )
        return order

    def name(self, i: int) -> str:
        """Return the name of a buffer, or its number as text. Raise AllocationError for an unknown buffer."""
        i = as_whole_number(i, "i")
        if not 0 <= i < len(self):
            raise AllocationError("unknown buffer {i}; buffers are 0 to {last}", i=i, last=len(self) - 1)
        return self.names[i] if self.names else str(i)

    @property
    def first(self) -> Int64:
        """int64[k]: first buffer of the in-place chain of each buffer, itself if it overwrites nothing."""
        root = np.where(self.over >= 0, self.over, np.arange(len(self)))
        while (root[root] != root).any():
            root = root[root]
        return root

    def rounded(self, alignment: int) -> Buffers:
        """Return buffers with sizes rounded up to an alignment, a power of two that must divide all fixed offsets."""
        alignment = check_alignment(alignment)
        if alignment == 1:
            return self
        refuse(
            self,
            (self.offset >= 0) & (self.offset % alignment != 0),
            "buffer {name} has the fixed offset {offset}, which is not a multiple of the alignment {alignment}; move "
            "it, or give a smaller alignment",
            offset=self.offset,
            alignment=alignment,
        )
        if np.ceil(self.size / alignment).sum() * alignment >= LARGEST_SUM:
            raise AllocationError(
                "the sizes, rounded up to multiples of {alignment}, add up to 2**53 or more; give a smaller alignment",
                alignment=alignment,
            )
        return replace(self, size=-(-self.size // alignment) * alignment)

    @property
    def fixed(self) -> Int64:
        """int64[k]: the fixed offset of each buffer or of its in-place chain, -1 if neither is fixed."""
        return self._of_chain(self.offset)

    @property
    def fixed_arena(self) -> Int64:
        """int64[k]: the required arena of each buffer, 0 for a fixed offset without an arena, -1 for any arena."""
        arena = self._of_chain(self.arena)
        return np.where((arena < 0) & (self.fixed >= 0), 0, arena)

    @property
    def release_step(self) -> Int64:
        """int64[k]: first step at which another buffer may use the bytes; one step before `end` if overwritten."""
        release = self.end.copy()
        overwriting = np.flatnonzero(self.over >= 0)
        release[self.over[overwriting]] = self.begin[overwriting]
        return release

    @property
    def max_live(self) -> int:
        """Maximum bytes live at a step, a lower bound on every arena; overwritten buffers count once."""
        return fullest_step(self.begin, self.release_step, self.size)[0]

    def _of_chain(self, numbers: Int64) -> Int64:
        if (numbers < 0).all():
            return numbers
        first, result = self.first, np.full(len(self), -1)
        np.maximum.at(result, first, numbers)
        return result[first]

    def _check_fixed(self) -> None:
        if max(self.offset.max(initial=-1), self.arena.max(initial=-1)) < 0:
            return
        fixed, arena = self.fixed, self.fixed_arena
        for own, of_chain, what in ((self.offset, fixed, "offset"), (self.arena, arena, "arena")):
            refuse(
                self,
                (own >= 0) & (own != of_chain),
                "buffer {name} has the fixed {what!w} {own}, but overwrites, or is overwritten by, a buffer with the "
                "fixed {what!w} {of_chain}; give both the same {what!w}",
                what=what,
                own=own,
                of_chain=of_chain,
            )
        for number in np.unique(arena[fixed >= 0]).tolist():
            check_overlaps(
                self,
                np.flatnonzero((fixed >= 0) & (arena == number)),
                fixed,
                "buffers {name} and {other} overlap: both are needed at step {step}, and by their fixed offsets "
                "they occupy bytes {begin}:{end} and {other_begin}:{other_end}; move one, or leave its offset free",
            )

    def _check_over(self) -> None:
        if self.over.max(initial=-1) >= len(self):
            raise AllocationError(
                "`over` names buffer {under}; buffers are 0 to {last}", under=self.over.max(), last=len(self) - 1
            )
        overwriting = self.over >= 0
        if not overwriting.any():
            return
        under = self.over  # -1 is masked by `overwriting`
        twice = np.flatnonzero(np.bincount(under[overwriting]) > 1)
        for wrong, fault in (
            (np.isin(under, twice), "which another buffer also overwrites"),
            (self.size[under] != self.size, "which has another size"),
            (self.end[under] > self.begin + 1, "which is read later"),
            (self.end[under] <= self.begin, "which is already freed"),
            (self.begin[under] >= self.begin, "which does not exist before"),
        ):
            refuse(self, overwriting & wrong, "buffer {name} cannot overwrite {under}, {fault!w}", fault=fault)


def fullest_step(begin: Int64, end: Int64, size: Int64) -> tuple[int, int]:
    """Return the maximum bytes live at a step, and the first step that attains it."""
    if not size.size:
        return 0, 0
    steps, change = np.concatenate([begin, end]), np.concatenate([size, -size])
    order = np.lexsort((change, steps))  # at equal steps, frees first
    live = np.cumsum(change[order])
    return int(live.max()), int(steps[order][live.argmax()])


def refuse(buffers: Buffers, wrong: Bool, template: str, **fields: Any) -> None:
    """Raise AllocationError for the first buffer marked in `wrong`; `{under}` is the buffer that it overwrites."""
    if not wrong.any():
        return
    i = int(np.argmax(wrong))
    shown = {name: each[i] if isinstance(each, np.ndarray) else each for name, each in fields.items()}
    if "{under}" in template:
        shown["under"] = buffers.name(int(buffers.over[i]))
    raise AllocationError(template, name=buffers.name(i), **shown)


def check_overlaps(buffers: Buffers, members: Int64, offset: Int64, template: str) -> None:
    """Raise AllocationError if two of these buffers share a byte at a step."""
    lives = buffers.begin[members], buffers.release_step[members]
    i, j = first_clash(*lives, buffers.size[members], offset[members])
    if i < 0:
        return
    i, j = int(members[i]), int(members[j])
    raise AllocationError(
        template,
        name=buffers.name(i),
        other=buffers.name(j),
        step=max(buffers.begin[i], buffers.begin[j]),
        begin=offset[i],
        end=offset[i] + buffers.size[i],
        other_begin=offset[j],
        other_end=offset[j] + buffers.size[j],
    )


def check_arena(buffers: Buffers) -> None:
    """Raise AllocationError if a buffer belongs to an arena other than arena 0."""
    refuse(
        buffers,
        buffers.arena > 0,
        "buffer {name} belongs to arena {arena}, but there is only arena 0; give the capacity of each arena "
        "(pack_arenas, or --capacity more than once)",
        arena=buffers.arena,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """The address of each buffer in one arena.

    Parameters
    ----------
    buffers : Buffers
    storage : int64[k]
        The block of each buffer. `share_storage` and `colour` make blocks that do not overlap; the buffers of a block
        use it in turn. `pack` makes one block for each buffer, or for several that overwrite each other.
    offset : int64[k]
        First byte of each buffer.
    size : int
        Bytes in the arena.
    method : str
        Name of the algorithm.
    bound : int
        Lower bound in bytes on any allocation of these buffers; at least `max_live` rounded up to the alignment.
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
        check_kind(self.buffers, Buffers, "buffers")
        object.__setattr__(self, "storage", _blocks(self.storage, len(self.buffers)))
        object.__setattr__(self, "offset", whole_numbers(self.offset, "offset", len(self.buffers)))
        for field in ("size", "bound"):
            number = getattr(self, field)
            if not isinstance(number, int | np.integer) or isinstance(number, bool) or not 0 <= number < 2**62:
                raise AllocationError(
                    "{field!w} is {number!r}; give a whole number of bytes, 0 or more", field=field, number=number
                )
        check_alignment(self.alignment)

    @classmethod
    @checked_arguments
    def side_by_side(cls, buffers: Buffers, storage: Int64, method: str, alignment: int = 1) -> Allocation:
        """Lay out blocks one after another, each as large as its largest buffer; fixed offsets are not supported.

        Parameters
        ----------
        buffers : Buffers
        storage : int64[k]
            The block of each buffer, a number from 0 to k - 1.
        method : str
        alignment : int

        Raises
        ------
        AllocationError
            If `storage` does not have one block per buffer, the alignment is not a power of two, or a buffer has a
            fixed offset or belongs to an arena other than arena 0.

        Examples
        --------
        >>> Allocation.side_by_side(Buffers([0, 1], [1, 2], [4, 2]), [0, 0], "by hand").size
        4
        """
        check_arena(buffers)
        refuse(
            buffers,
            buffers.offset >= 0,
            "method {method} places blocks side by side and cannot keep the fixed offset of buffer {name}; use pack "
            "(--method offsets), or leave the offsets free",
            method=method,
        )
        rounded = buffers.rounded(alignment)
        storage = _blocks(storage, len(buffers))
        if storage.max(initial=-1) >= len(buffers):
            raise AllocationError(
                "`storage` names block {storage}; number the blocks of {n_buffers:buffer} from 0",
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
        """Share of the arena that is free even at the step with the most live bytes."""
        return 1 - self.buffers.max_live / self.size if self.size else 0.0

    def verify(self) -> None:
        """Check that each buffer is in the arena, aligned, and disjoint from buffers that are live at the same step.

        Also check that fixed offsets are respected, that the buffers of a block use it in turn, and that the arena is
        not smaller than its bound. The bound itself is not checked.

        Raises
        ------
        AllocationError
            If a check fails; the message describes the first failure.
        """
        buffers = self.buffers
        check_arena(buffers)
        last = self.offset + buffers.size
        refuse(
            buffers,
            (self.offset < 0) | (last > self.size),
            "buffer {name} occupies bytes {offset}:{last}, outside the arena of {size:byte}",
            offset=self.offset,
            last=last,
            size=self.size,
        )
        refuse(
            buffers,
            (buffers.offset >= 0) & (self.offset != buffers.offset),
            "buffer {name} is at offset {offset}, but its fixed offset is {fixed}",
            offset=self.offset,
            fixed=buffers.offset,
        )
        refuse(
            buffers,
            self.offset % self.alignment != 0,
            "buffer {name} is at offset {offset}, which is not a multiple of the alignment {alignment}",
            offset=self.offset,
            alignment=self.alignment,
        )
        elsewhere = (buffers.over >= 0) & (self.offset != self.offset[buffers.over])
        refuse(buffers, elsewhere, "buffer {name} overwrites {under}, but their offsets differ")
        check_overlaps(
            buffers,
            np.arange(len(buffers)),
            self.offset,
            "buffers {name} and {other} overlap: at step {step} they occupy bytes {begin}:{end} "
            "and {other_begin}:{other_end}",
        )
        self._check_blocks()
        if self.bound > self.size:
            raise AllocationError(
                "the arena has {size} bytes, less than its lower bound {bound}", size=self.size, bound=self.bound
            )

    def _check_blocks(self) -> None:
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


def _blocks(storage: ArrayLike, count: int) -> Int64:
    blocks = whole_numbers(storage, "storage", count)
    if blocks.min(initial=0) < 0:
        i = int(np.argmin(blocks))
        raise AllocationError("storage[{i}] is {storage}; blocks are numbered from 0", i=i, storage=blocks[i])
    return blocks
