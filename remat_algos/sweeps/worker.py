"""The process that solves jobs for `children`. A message is JSON after eight bytes with its length, never a pickle."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import platform
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import numpy as np

from remat_algos.context import use_cores
from remat_algos.errors import BudgetError, RematError
from remat_algos.files import read_bytes
from remat_algos.formats.graphs.npz_bytes import from_npz
from remat_algos.ir.budget import Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.record import SHOWN
from remat_algos.search.solve import solve
from remat_algos.wording import shortened

PLANNED, INFEASIBLE, REFUSED, FAILED = OUTCOMES = ("planned", "infeasible", "refused", "failed")
"""Outcomes, in this order: a plan; no plan within the budget; an unsuitable graph; a failure in every try."""
_HEAD = 8


def send(stream: IO[bytes], message: bytes) -> None:
    stream.write(len(message).to_bytes(_HEAD, "big") + message)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Read a message; return None if the stream ends, even if it ends within a message."""
    head = stream.read(_HEAD)
    length = int.from_bytes(head, "big")
    message = stream.read(length) if len(head) == _HEAD else b""
    return message if len(head) == _HEAD and len(message) == length else None


def serve(modules: list[str]) -> None:
    """Solve jobs until the driver closes the input. The process then ends at once, even during a job."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # solvers may print
    for number in (signal.SIGINT, signal.SIGTERM):  # only the driver stops workers
        signal.signal(number, signal.SIG_IGN)
    use_cores(1)
    for module in modules:
        importlib.import_module(module)
    send(out, b"{}")
    inbox = queue.SimpleQueue[bytes]()
    threading.Thread(target=_read, args=(inbox,), daemon=True).start()
    while True:
        record = json.loads(inbox.get())
        figures, plan = answered(record)
        send(out, json.dumps(figures).encode())
        send(out, plan.encode())


def _read(inbox: queue.SimpleQueue[bytes]) -> None:
    while (message := receive(sys.stdin.buffer)) is not None:
        inbox.put(message)
    os._exit(0)


def answered(record: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Solve the job in a `job_record` with the "file" of its graph; return its figures and the JSON of its plan."""
    begun, processor = time.monotonic(), time.process_time()
    _reset_memory()
    plan, size = "", {}
    try:
        try:
            graph = _graph(record["file"])
        # An unreadable graph is not the fault of the job. The error counts as unexpected, so the job is retried.
        except RematError as error:
            msg = f"its graph cannot be read here: {error}"
            raise RuntimeError(msg) from error
        size = {"nodes": graph.n_nodes, "one_pass": graph.needed_compute}
        figures, plan = _solved(graph, record)
    except BudgetError as error:
        figures = {"outcome": INFEASIBLE, "reason": str(error), "reached": error.reached, "least": error.lower_bound}
    except RematError as error:
        figures = {"outcome": REFUSED, "reason": shortened(" ".join(str(error).split()), 500)}
    except MemoryError:
        figures = {"outcome": FAILED, "reason": "not enough memory"}
    except Exception as error:
        figures = {"outcome": FAILED, "reason": reason_of(error)}
    spent = {
        "seconds": round(time.monotonic() - begun, 6),
        "cpu_seconds": round(time.process_time() - processor, 6),
        "memory": _memory(),
        "host": socket.gethostname(),
        "versions": _versions(),
    }
    return figures | size | spent, plan


def reason_of(error: Exception) -> str:
    """Return the reason to record for an unexpected error: its type and its message on one line."""
    return f"{type(error).__name__}: {shortened(' '.join(str(error).split()), 300)}"


def _solved(graph: ComputationGraph, record: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    named = {name: record[name] for name in ("solver", "effort", "seed")}
    plan = solve(graph, Budget(**record["budget"]), **named, **record["options"])
    if plan.report.simulated == 0 and plan.method == "no_remat" != plan.solver:
        msg = f"{shortened(plan.solver)} yielded no schedule, and no_remat replaced it"
        raise RuntimeError(msg)
    record = plan.record()
    figures = {name: record[name] for name in ("method", "limit", *SHOWN) if name in record}
    own = {"reserved_memory": plan.reservation.memory, "steps": len(plan.schedule), "stop": plan.report.stop.name}
    return {"outcome": PLANNED, **figures, **own}, json.dumps(record)


@lru_cache(2)  # counts towards job memory
def _graph(file: str) -> ComputationGraph:
    return from_npz(read_bytes(Path(file)))


@lru_cache(1)
def _versions() -> dict[str, str]:
    return {
        "remat_algos": version("remat_algos"),
        "numpy": np.__version__,
        "scipy": version("scipy"),
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def _reset_memory() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _memory() -> int:
    """Return the peak of the resident memory in bytes: that of the job on Linux, elsewhere of the whole process."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))
    import resource  # does not exist on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10
