"""Lifetimes of instances, shared by the simulator, allocators, executor and plots."""

from dataclasses import dataclass

from remat_algos.ir.arrays import Int32, Int64, brief
from remat_algos.ir.csr import row_of


@dataclass(frozen=True, slots=True, eq=False)
class Lifetimes:
    """Lifetimes of instances: an entry per value and step that computes or loads it.

    An instance lives from its step to its last read before its value is made again; an output's first instance lives to
    the end of the schedule; an instance that is never read is freed after its step.

    Parameters
    ----------
    instance_indptr : int64[m + 1]
        Step s makes the instances `instance_indptr[s]:instance_indptr[s + 1]`: first what it loads.
    value : int32[n_instances]
    end : int64[n_instances]
        The first step at which it is no longer live.
    """

    instance_indptr: Int64
    value: Int32
    end: Int64

    __repr__ = brief

    @property
    def made_at(self) -> Int64:
        """int64[n_instances]: the step that makes each instance."""
        return row_of(self.instance_indptr)
