"""Many jobs on any executor, with one folder of results."""

from remat_algos.namespace import namespace

__all__, __getattr__, __dir__ = namespace(
    __name__,
    {
        "driver": "sweep",
        "results": "SweepResults read_sweep",
        "islands": "search_islands",
        "jobs": "SweepJob list_jobs read_jobs",
    },
)
