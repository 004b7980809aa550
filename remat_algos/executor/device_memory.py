"""Free memory of a device."""

from __future__ import annotations

import os
import re
from pathlib import Path

from remat_algos.executor.array_backend import Backend

MEMINFO = Path("/proc/meminfo")


def free_memory(backend: Backend) -> int | None:
    """Free bytes of a GPU, by its runtime, or of this machine; None if unknown.

    Examples
    --------
    >>> from remat_algos.executor.array_backend import backend
    >>> free = free_memory(backend("numpy"))
    >>> free is None or free > 0
    True
    """
    if backend.name == "cupy":
        return int(backend.xp.cuda.runtime.memGetInfo()[0])
    try:
        available = re.search(r"^MemAvailable: +(\d+) kB$", MEMINFO.read_text(), re.MULTILINE)
        if available is not None:
            return 1024 * int(available[1])
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (OSError, ValueError):  # no Linux
        return None
