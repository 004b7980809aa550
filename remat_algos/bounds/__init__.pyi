from .compute import ComputeBound as ComputeBound
from .compute import closure_cut as closure_cut
from .compute import overhead_bound as overhead_bound
from .link_bound import time_bound as time_bound
from .memory import least_peak_bound as least_peak_bound
