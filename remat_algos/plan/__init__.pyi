# Written by docs/stubs.py.
from remat_algos.plan.breakdown import Breakdown as Breakdown
