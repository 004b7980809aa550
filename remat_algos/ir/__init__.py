"""The data: graphs, their costs and their labels."""

from remat_algos.namespace import namespace

__all__, __getattr__, __dir__ = namespace(
    __name__,
    {
        "labels": "Labels",
        "resident": "Resident",
        "backward": "Backward",
        "boundary": "add_boundary",
    },
)
