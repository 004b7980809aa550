from .bound import LowerBound as LowerBound
from .closure import closure_cut as closure_cut
from .closure import overhead_bound as overhead_bound
from .memory import least_peak_bound as least_peak_bound
