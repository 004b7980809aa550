"""Bytes of shapes; FLOPs and bytes moved to time."""

from remat_algos.namespace import namespace

__all__, __getattr__, __dir__ = namespace(
    __name__,
    {
        "devices": "Device",
        "links": "Link",
        "calibration": "calibrate",
        "backends": "gpu_missing",
    },
)
