# Written by docs/stubs.py.
from remat_algos.formats.buffer_tables import read_buffers as read_buffers
from remat_algos.formats.buffer_tables import write_allocation as write_allocation
from remat_algos.formats.graphs.json_text import from_json as from_json
from remat_algos.formats.graphs.json_text import to_json as to_json
from remat_algos.formats.graphs.npz_bytes import from_npz as from_npz
from remat_algos.formats.graphs.npz_bytes import to_npz as to_npz
from remat_algos.formats.in_place_tables import read_in_place as read_in_place
from remat_algos.formats.mirror_counts import read_mirror_counts as read_mirror_counts
from remat_algos.formats.orders import read_order as read_order
from remat_algos.formats.pace import read_gr as read_gr
from remat_algos.formats.pace import read_td as read_td
from remat_algos.formats.pace import write_gr as write_gr
from remat_algos.formats.pace import write_td as write_td
from remat_algos.formats.registry import GraphFormat as GraphFormat
from remat_algos.formats.registry import graph_formats as graph_formats
from remat_algos.formats.registry import register as register
