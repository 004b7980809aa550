"""File formats of graphs, orders, mirror counts, buffers and tree decompositions."""

from remat_algos.namespace import namespace

__all__, __getattr__, __dir__ = namespace(
    __name__,
    {
        "orders": "read_order",
        "mirror_counts": "read_mirror_counts",
        "buffer_tables": "read_buffers write_allocation",
        "in_place_tables": "read_in_place",
        "pace": "read_gr write_gr read_td write_td",
        "graphs.json_text": "from_json to_json",
        "graphs.npz_bytes": "from_npz to_npz",
        "registry": "GraphFormat graph_formats register",
    },
)
