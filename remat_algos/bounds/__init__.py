"""Lower bounds that hold for every schedule."""

from remat_algos.namespace import namespace

__all__, __getattr__, __dir__ = namespace(
    __name__,
    {
        "compute": "ComputeBound closure_cut overhead_bound",
        "link_bound": "time_bound",
        "memory": "least_peak_bound",
    },
)
