# Written by docs/stubs.py.
from remat_algos.sweeps.driver import sweep as sweep
from remat_algos.sweeps.islands import search_islands as search_islands
from remat_algos.sweeps.jobs import SweepJob as SweepJob
from remat_algos.sweeps.jobs import list_jobs as list_jobs
from remat_algos.sweeps.jobs import read_jobs as read_jobs
from remat_algos.sweeps.results import SweepResults as SweepResults
from remat_algos.sweeps.results import read_sweep as read_sweep
