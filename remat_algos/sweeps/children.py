"""Processes that solve jobs, one for each thread or worker of an executor.

With any executor, a job that exhausts memory, runs forever or crashes the interpreter ends only its own process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.connection import wait
from pathlib import Path
from typing import IO, Any

from remat_algos.errors import SweepError
from remat_algos.files import write_whole
from remat_algos.sweeps import tuning
from remat_algos.sweeps.worker import FAILED, receive, send
from remat_algos.wording import first_line, format_bytes, shortened

_BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from remat_algos.sweeps.worker import serve; serve(json.loads(sys.argv[2]))"
)
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


@dataclass(frozen=True, slots=True)
class Conditions:
    """The limits of a job (seconds, bytes, number of tries), and the modules to import first."""

    modules: tuple[str, ...] = ()
    timeout: float | None = None
    memory: int | None = None
    retries: int = 3


class Died(Exception):
    """The process ended or was killed before it answered."""


class NotStarted(Exception):
    """The process cannot start now: there are too many processes, memory or disk is full, or starting is slow."""


class Child:
    def __init__(self, modules: tuple[str, ...]) -> None:
        self.modules = modules
        self.stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process lives
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _BOOT, json.dumps(sys.path), json.dumps(modules)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.stderr,
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,  # Ctrl-C reaches only the driver
            )
        except OSError:
            self.stderr.close()
            raise

    def begin(self) -> None:
        """Wait until the process is ready. Raise SweepError if an import fails, NotStarted if it is killed or slow."""
        try:
            self._wait(tuning.START, None)
            self._received()
        except Died as error:
            if self.process.wait() < 0:
                raise NotStarted(str(error)) from error
            raise SweepError(
                "the process for jobs does not start on {host}: {why!w}; install what is missing on that host",
                host=socket.gethostname(),
                why=str(error),
            ) from error

    def solve(self, record: Mapping[str, Any], conditions: Conditions) -> tuple[dict[str, Any], str]:
        """Solve a job; return its figures and the JSON of its plan. Raise Died if the process ended or was killed."""
        self.stderr.seek(0)
        self.stderr.truncate()  # output of earlier jobs
        try:
            send(self.process.stdin, json.dumps(record).encode())  # type: ignore[arg-type]
        except OSError as error:
            raise Died(self._reason()) from error
        self._wait(conditions.timeout, conditions.memory)
        return json.loads(self._received()), self._received().decode()

    def stop(self) -> None:
        """Kill the process and its children; `solve` in another thread then raises Died."""
        # Once the return code has been read, another process may get the same id.
        if self.process.returncode is None:
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def has_ended(self) -> bool:
        """Return True if the process has ended; its id stays reserved, so `stop` can still kill its children."""
        # macOS has waitid from Python 3.13 on.
        if self.process.returncode is not None or not hasattr(os, "waitid"):
            return self.process.poll() is not None
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def __del__(self) -> None:  # called when its thread ends
        if hasattr(self, "process"):
            self.kill()

    def kill(self) -> None:
        self.stop()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.stderr):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]

    def _wait(self, timeout: float | None, memory: int | None) -> None:
        assert self.process.stdout is not None
        end = time.monotonic() + timeout if timeout is not None else None
        while True:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                self.stop()
                msg = f"it took more than {timeout:g} s"
                raise Died(msg)
            pause = tuning.LOOK_AGAIN if memory is not None else tuning.SIGN
            if wait([self.process.stdout.fileno()], min(pause, left or tuning.SIGN)):
                return
            # The process may have ended although its children still have the pipe open.
            if self.has_ended():
                raise Died(self._reason())
            used = self._resident() if memory is not None else 0
            if memory is not None and used > memory:
                self.stop()
                msg = f"it took {format_bytes(used)} of memory, more than the {format_bytes(memory)} of a job"
                raise Died(msg)

    def _received(self) -> bytes:
        message = receive(self.process.stdout)  # type: ignore[arg-type]
        if message is None:
            raise Died(self._reason())
        return message

    def _resident(self) -> int:
        with contextlib.suppress(OSError, ValueError, IndexError):
            return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * _PAGE
        return 0

    def _reason(self) -> str:
        """Kill the process; return its exit code or signal, and the last line of its error output."""
        self.stop()
        code = self.process.wait()
        self.stderr.seek(max(0, self.stderr.seek(0, os.SEEK_END) - 4000))
        lines = self.stderr.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        if code >= 0:
            how = f"exit code {code}"
        else:
            how = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
            how += ", perhaps for lack of memory" if -code == signal.SIGKILL else ""
        return f"its process ended ({shortened(how)})" + (f": {shortened(last, 200)}" if last else "")


_OF_THREAD = threading.local()


class Processes(ThreadPoolExecutor):
    """The default executor: each of its threads waits for its own process, so a crash affects only one job."""

    def __init__(self, count: int) -> None:
        self.children, self.closed = list[Child](), False
        super().__init__(count, initializer=setattr, initargs=(_OF_THREAD, "executor", self))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Kill the processes, even those with a job, and end the threads."""
        self.closed = True
        for child in list(self.children):
            child.stop()
        super().shutdown(wait, cancel_futures=cancel_futures)
        for child in self.children:
            child.kill()


def solved(
    record: Mapping[str, Any],
    graph: str | bytes,
    conditions: Conditions = Conditions(),
) -> tuple[dict[str, Any], str]:
    """Solve a job in this thread's process; return its figures with the "outcome", and the plan as JSON."""
    child = getattr(_OF_THREAD, "child", None)
    if child is not None and (child.modules != conditions.modules or child.has_ended()):
        child.kill()
        child = _OF_THREAD.child = None
    own = f"{threading.get_ident()}-{record['graph']}.npz"
    file = Path(graph) if isinstance(graph, str) else Path(_graph_folder().name, own)
    try:
        try:
            if not isinstance(graph, str):
                write_whole(file, graph)
            if child is None:
                child = _OF_THREAD.child = Child(conditions.modules)
                executor = getattr(_OF_THREAD, "executor", None)
                if executor is not None:
                    executor.children.append(child)
                    if executor.closed:
                        child.stop()
                child.begin()
        except OSError as error:
            raise NotStarted(error.strerror or first_line(error)) from error
        return child.solve({**record, "file": str(file)}, conditions)
    except NotStarted:
        _end_child()
        raise
    except Died as error:
        _end_child()
        return {"outcome": FAILED, "reason": str(error)}, ""
    finally:
        if not isinstance(graph, str):
            file.unlink(missing_ok=True)


def _end_child() -> None:
    child, _OF_THREAD.child = getattr(_OF_THREAD, "child", None), None
    if child is not None:
        child.kill()


@lru_cache(1)
def _graph_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="remat-graphs-")
