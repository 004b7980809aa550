from .driver import sweep as sweep
from .jobs import SweepJob as SweepJob
from .jobs import list_jobs as list_jobs
from .jobs import read_jobs as read_jobs
from .results import SweepResults as SweepResults
from .results import read_sweep as read_sweep
