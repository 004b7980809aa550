"""Addresses for the buffers of a schedule."""

from remat_algos.namespace import namespace

__all__, __getattr__, __dir__ = namespace(
    __name__,
    {
        "offsets": "pack",
        "sharing": "share_storage separate_storage",
        "colouring": "colour",
        "in_place": "find_overwrites",
        "buffers": "Buffers",
        "allocation": "Allocation",
        "arenas": "pack_arenas SplitAllocation",
        "traces": "Trace",
        "pools": "PoolUse PoolRun cupy_pool cuda_caching arena",
        "reservation": "Reservation",
        "allocators.registry": "list_allocators",
    },
)
