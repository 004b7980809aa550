# Written by docs/stubs.py.
from remat_algos.cost.backends import gpu_missing as gpu_missing
from remat_algos.cost.calibration import calibrate as calibrate
from remat_algos.cost.devices import Device as Device
from remat_algos.cost.links import Link as Link
