"""What needs a place in memory, and for how long."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from remat_algos.errors import AllocationError, GraphError
from remat_algos.ir.arrays import LARGEST_SUM, Int64, as_whole, brief, by_fields, check_sizes, frozen
from remat_algos.ir.wording import shortened
from remat_algos.schedule.simulation import Simulation, check_simulation


def is_alignment(given: Any) -> bool:
    """Whether it is a power of two, as bytes have it: below 2**53.

    Examples
    --------
    >>> is_alignment(512), is_alignment(48), is_alignment(2.5), is_alignment(2**70)
    (True, False, False, False)
    """
    found = as_whole(given) or 0
    return 0 < found < LARGEST_SUM and found & (found - 1) == 0


@dataclass(frozen=True, slots=True, eq=False)
class Buffers:
    """Bytes, each with the half-open range of steps at which they are needed.

    Parameters
    ----------
    begin, end : int64[k]
        Buffer i is needed at the steps `begin[i]:end[i]`, at least one; steps are 0 or more.
    size : int64[k]
        Bytes.
    instance : int64[k], optional
        The instance of the schedule's `Lifetimes` that each one stores; -1, the default, for a workspace.
    over : int64[k], optional
        The buffer that each one is written over: of the same size, needed for the last time at the step at which this
        one begins, and not taken by another (chen2016, section 3: in place). -1, the default, for a place of its own.
    names : tuple of str
        As the file calls them; none by default.

    Raises
    ------
    AllocationError
        If a buffer ends before it begins, a size is negative, or one is written over what is still needed; for arrays
        of different lengths, fractions, and sizes that add up to 2**53 or more.

    Examples
    --------
    >>> buffers = Buffers([0, 1, 2], [2, 3, 4], [4, 2, 2], over=[-1, -1, 1])
    >>> buffers.max_live
    6
    """

    begin: Int64
    end: Int64
    size: Int64
    instance: Int64 = None  # type: ignore[assignment]  # the constructor fills it
    over: Int64 = None  # type: ignore[assignment]
    names: tuple[str, ...] = ()

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "size", frozen(self.size, np.int64, "size"))
            check_sizes(self.size, "size")
            count = len(self.size)
            for field in ("begin", "end", "instance", "over"):
                given = getattr(self, field)
                object.__setattr__(self, field, frozen(-1 if given is None else given, np.int64, field, count))
        except GraphError as error:
            raise AllocationError(str(error)) from error
        if isinstance(self.names, str) or not all(isinstance(name, str) for name in self.names):
            raise AllocationError("the names of buffers are a sequence of str")
        object.__setattr__(self, "names", tuple(self.names))
        if self.names and len(self.names) != count:
            raise AllocationError(f"there are {len(self.names)} names for {count} buffers; give one each, or none")
        for wrong, said in (
            (self.begin < 0, "begins before step 0; steps are 0 or more"),
            (self.end <= self.begin, "ends before it begins, or with it; `upper` is the first step without it"),
            (self.instance < -1, "has an invalid instance; instances are 0 or more, -1 for none"),
            (self.over < -1, "is written over an unknown buffer; give its number, or -1 for a place of its own"),
        ):
            if wrong.any():
                i = int(np.argmax(wrong))
                raise AllocationError(f"buffer {shortened(self.name(i))}, {self.begin[i]} to {self.end[i]}, {said}")
        self._check_over()

    @classmethod
    def of(cls, simulation: Simulation, over: Int64 | None = None) -> Buffers:
        """All values and workspaces of a schedule: buffer i is instance i, workspaces come after them.

        Parameters
        ----------
        simulation : Simulation
        over : int64[n_instances], optional
            Which instance each one is written over (`in_place`), -1 for none.

        Raises
        ------
        TypeError
            For anything but a simulation; for a plan give `plan.simulation`.
        """
        check_simulation(simulation)
        lifetimes, graph = simulation.lifetimes, simulation.graph
        workspace = graph.workspace[simulation.schedule.order]
        steps = np.flatnonzero(workspace)
        instances = np.arange(lifetimes.value.size)
        none = np.full(steps.size, -1)
        return cls(
            np.concatenate([simulation.made_at, steps]),
            np.concatenate([lifetimes.end, steps + 1]),
            np.concatenate([graph.memory[lifetimes.value], workspace[steps]]),
            np.concatenate([instances, none]),
            np.concatenate([np.full(instances.size, -1) if over is None else over, none]),
        )

    def __len__(self) -> int:
        return self.size.size

    def places(self, simulation: Simulation) -> Int64:
        """int64[k]: which of these each buffer of a schedule is; AllocationError unless they are the schedule's.

        Parameters
        ----------
        simulation : Simulation

        Examples
        --------
        >>> from remat_algos.ir.graph import ComputationGraph
        >>> from remat_algos.schedule.simulation import simulate
        >>> simulation = simulate(ComputationGraph.from_edges([(0, 1), (1, 2)]), [0, 1, 2])
        >>> Buffers.of(simulation).places(simulation).tolist()
        [0, 1, 2]
        """
        wanted = Buffers.of(simulation)
        # buffers in the order of the schedule's own: instances, then workspaces by step
        order = np.lexsort((self.begin, np.where(self.instance < 0, len(self), self.instance)))
        fields = ("instance", "begin", "end", "size")
        if len(self) != len(wanted) or any(
            not np.array_equal(getattr(self, field)[order], getattr(wanted, field)) for field in fields
        ):
            raise AllocationError(
                "the allocation is not one of this schedule's buffers; allocate Buffers.of(simulate(graph, schedule))"
            )
        return order

    def name(self, i: int) -> str:
        """As the file calls it, or its number; AllocationError for an unknown buffer."""
        if not 0 <= i < len(self):
            raise AllocationError(f"unknown buffer {i}; buffers are 0 to {len(self) - 1}")
        return self.names[i] if self.names else str(i)

    @property
    def first(self) -> Int64:
        """int64[k]: the buffer that began the memory of each: others are written over it in turn."""
        found = np.where(self.over >= 0, self.over, np.arange(len(self)))
        while (found[found] != found).any():
            found = found[found]
        return found

    def rounded(self, alignment: int) -> Buffers:
        """The same with sizes that are multiples of an alignment, which is a power of two."""
        if not is_alignment(alignment):
            raise AllocationError(f"the alignment is {alignment}; give a power of two below 2**53, such as 64")
        if alignment == 1:
            return self
        alignment = int(alignment)
        if np.ceil(self.size / alignment).sum() * alignment >= LARGEST_SUM:
            raise AllocationError(
                f"rounded up to {alignment} the sizes add up to 2**53 or more; give a smaller alignment"
            )
        return replace(self, size=-(-self.size // alignment) * alignment)

    @property
    def given_up(self) -> Int64:
        """int64[k]: the first step at which others may use the bytes of each: `end`, or sooner, if written over."""
        found = self.end.copy()
        taken = np.flatnonzero(self.over >= 0)
        found[self.over[taken]] = self.begin[taken]
        return found

    @property
    def max_live(self) -> int:
        """Bytes needed at the worst step, what is written over not counted twice; no allocation is smaller."""
        steps, change = np.concatenate([self.begin, self.given_up]), np.concatenate([self.size, -self.size])
        order = np.lexsort((change, steps))  # what ends goes first
        return int(np.cumsum(change[order]).max(initial=0))

    def _check_over(self) -> None:
        taken = np.flatnonzero(self.over >= 0)
        under = self.over[taken]
        if taken.size == 0:
            return
        if under.max() >= len(self):
            raise AllocationError(f"over names buffer {under.max()}; buffers are 0 to {len(self) - 1}")
        twice = np.flatnonzero(np.bincount(under) > 1)
        for wrong, said in (
            (np.isin(under, twice), "which another buffer is also written over"),
            (self.size[under] != self.size[taken], "which has another size"),
            (self.end[under] > self.begin[taken] + 1, "which is read later"),
            (self.end[under] <= self.begin[taken], "which is already freed"),
            (self.begin[under] >= self.begin[taken], "which does not exist before"),
        ):
            if wrong.any():
                i, j = int(taken[np.argmax(wrong)]), int(under[np.argmax(wrong)])
                raise AllocationError(
                    f"buffer {shortened(self.name(i))} cannot be written over {shortened(self.name(j))}, {said}"
                )
