# Written by docs/stubs.py.
from remat_algos.bounds.compute import ComputeBound as ComputeBound
from remat_algos.bounds.compute import closure_cut as closure_cut
from remat_algos.bounds.compute import overhead_bound as overhead_bound
from remat_algos.bounds.link_bound import time_bound as time_bound
from remat_algos.bounds.memory import least_peak_bound as least_peak_bound
