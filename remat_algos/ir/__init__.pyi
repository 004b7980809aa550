# Written by docs/stubs.py.
from remat_algos.ir.backward import Backward as Backward
from remat_algos.ir.boundary import add_boundary as add_boundary
from remat_algos.ir.labels import Labels as Labels
from remat_algos.ir.resident import Resident as Resident
