# Written by docs/stubs.py.
from remat_algos.allocate.allocation import Allocation as Allocation
from remat_algos.allocate.allocators.registry import list_allocators as list_allocators
from remat_algos.allocate.arenas import SplitAllocation as SplitAllocation
from remat_algos.allocate.arenas import pack_arenas as pack_arenas
from remat_algos.allocate.buffers import Buffers as Buffers
from remat_algos.allocate.colouring import colour as colour
from remat_algos.allocate.in_place import find_overwrites as find_overwrites
from remat_algos.allocate.offsets import pack as pack
from remat_algos.allocate.pools import PoolRun as PoolRun
from remat_algos.allocate.pools import PoolUse as PoolUse
from remat_algos.allocate.pools import arena as arena
from remat_algos.allocate.pools import cuda_caching as cuda_caching
from remat_algos.allocate.pools import cupy_pool as cupy_pool
from remat_algos.allocate.reservation import Reservation as Reservation
from remat_algos.allocate.sharing import separate_storage as separate_storage
from remat_algos.allocate.sharing import share_storage as share_storage
from remat_algos.allocate.traces import Trace as Trace
