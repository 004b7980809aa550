"""The data: graphs, their costs, their labels, and the files they travel in."""

from remat_algos.namespace import namespace

__all__, __getattr__, __dir__ = namespace(
    __name__,
    {
        "labels": "Labels",
        "resident": "Resident",
        "backward": "Backward",
    },
)
