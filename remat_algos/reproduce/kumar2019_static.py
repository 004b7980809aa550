"""The peaks of kumar2019 through a static allocation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from remat_algos.allocate.buffers import Buffers
from remat_algos.allocate.offsets import pack
from remat_algos.reproduce.case import Case
from remat_algos.reproduce.page import Table
from remat_algos.text.units import format_bytes

STATIC = """\
The paper measures the peak of an optimal static allocation. Here every value of the schedules above has one address \
during its lifetime, found by a single greedy order, since nothing on this page may depend on a clock; `remat \
allocate` searches longer. No allocation is below the live peak."""


def static(cases: Sequence[Case]) -> Table:
    """Live peaks, and the size of an arena with fixed addresses.

    Parameters
    ----------
    cases : sequence of Case
    """
    columns: dict[str, Callable[[Any], str]] = {"network": str, "algorithm": str}
    columns |= {"live peak": format_bytes, "static allocation": format_bytes, "ratio": "{:.3f}".format}
    rows = []
    for case in cases:
        for name, simulation in case.simulations.items():
            solved = pack(Buffers.of(simulation), time_limit=0)
            solved.verify()
            peak = simulation.peak_memory
            rows.append((case.label, name, peak, solved.size, solved.size / max(1, peak)))
    return Table("static", "Peaks through a static allocation", columns, rows)
