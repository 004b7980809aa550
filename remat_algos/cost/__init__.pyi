from .backends import gpu_missing as gpu_missing
from .calibration import calibrate as calibrate
from .devices import Device as Device
from .links import Link as Link
