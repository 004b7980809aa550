"""Random cases, one after the other, in a process of their own: a crash or a hang is a fault of its case."""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ADDRESS_SPACE = 4 << 30  # bytes of the process that runs the cases; what wants more is a fault
PATIENCE = 180.0  # seconds of the processor that a case may take; some take 70
ASLEEP = 10  # times as long it may take on the clock, since other processes may run beside it
NEWS = 60.0  # seconds between lines that say how far it is
HANGS = "a case without an end"
SHOWN = 3  # faults of one kind that are printed and whose inputs are saved
LISTED = 100  # faults of one kind whose cases are named

Case = Callable[[random.Random, "Report"], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, the call that showed it, and its input as files."""

    kind: str
    detail: str = ""
    files: dict[str, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Report:
    """What one case, or many, did and found."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] += number

    def fault(self, kind: str, detail: str = "", files: dict[str, bytes] | None = None) -> None:
        self.faults.append(Fault(kind, detail, files or {}))


def run_case(case: Case, seed: int, number: int) -> Report:
    """One case in this process; the same seed and number give the same case."""
    report = Report()
    try:
        case(random.Random(f"{seed}/{number}"), report)
    except Exception:
        report.fault("the check itself failed", traceback.format_exc())
    return report


@dataclass(slots=True)
class Campaign:
    """Cases of one kind until the time is over or enough is counted.

    Parameters
    ----------
    name : str
        As the command line has it.
    case : callable
        A module-level function; it draws from the generator that it is given, and from nothing else.
    unit : str
        What `count` limits: a key of the report's counts.
    seed : int
    keep : path
        Folder for the inputs of faults.
    patience : float
        Seconds of the processor after which a case hangs.
    """

    name: str
    case: Case
    unit: str
    seed: int
    keep: Path
    patience: float = PATIENCE
    total: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)

    def run(self, *, first: int = 0, seconds: float = float("inf"), count: float = float("inf")) -> None:
        """Play cases from number `first` on; Ctrl-C ends them early."""
        number, over, news = first, time.monotonic() + seconds, time.monotonic() + NEWS
        worker = _Worker(self)
        with contextlib.suppress(KeyboardInterrupt), contextlib.closing(worker):
            while time.monotonic() < over and self.total[self.unit] < count:
                self._add(number, worker.play(number))
                number += 1
                if time.monotonic() > news:
                    news = time.monotonic() + NEWS
                    print(f"  {self.total[self.unit]:,} {self.unit}, {self.kinds.total():,} faults", flush=True)

    def replay(self, number: int) -> None:
        """Play one case in this process, where a debugger sees it."""
        self._add(number, run_case(self.case, self.seed, number))

    def summary(self) -> str:
        """Counts, then faults by kind."""
        lines = [f"  {what:<32} {number:>10,}" for what, number in sorted(self.total.items())]
        lines += [f"  FAULT {kind}: {number:,}" for kind, number in self.kinds.most_common()]
        return "\n".join([f"{self.name}, seed {self.seed}:", *lines, f"{self.kinds.total():,} faults"])

    def _add(self, number: int, report: Report) -> None:
        self.total += report.counts
        self.total["cases"] += 1
        for fault in report.faults:
            self.kinds[fault.kind] += 1
            if self.kinds[fault.kind] <= SHOWN:
                self._show(number, fault)
            elif self.kinds[fault.kind] <= LISTED:
                print(f"fault: {fault.kind}: --seed {self.seed} --case {number}", flush=True)

    def _show(self, number: int, fault: Fault) -> None:
        print(f"fault: {fault.kind}: {fault.detail}", flush=True)
        print(f"  again: python -m tests.fuzz {self.name} --seed {self.seed} --case {number}", flush=True)
        folder = self.keep / f"{self.name}-{self.seed}-{number}"
        for name, data in fault.files.items():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
            print(f"  input: {folder / name}", flush=True)


class _Worker:
    """The process that runs the cases; a new one takes over where it dies."""

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self.folder = tempfile.TemporaryDirectory(prefix="remat-fuzz-")  # its working folder, whatever a call writes
        self.process = None

    def _start(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.pipe, other = spawn.Pipe()
        self.dying_words = tempfile.NamedTemporaryFile("r", errors="replace")  # noqa: SIM115 - open as long as it lives
        campaign = self.campaign
        arguments = campaign.case, campaign.seed, campaign.patience, other, self.dying_words.name, self.folder.name
        self.process = spawn.Process(target=_work, args=arguments, daemon=True)
        self.process.start()
        other.close()
        self.pipe.recv()  # it is there: the time of a case is its own

    def play(self, number: int) -> Report:
        if self.process is None:
            self._start()
        self.pipe.send(number)
        try:
            if self.pipe.poll(ASLEEP * self.campaign.patience):
                return self.pipe.recv()
            kind = HANGS
            os.kill(self.process.pid, signal.SIGABRT)  # faulthandler prints where it is
            self.process.join(5)
        except EOFError:
            self.process.join()
            kind = _ending(self.process.exitcode)
        where = self.dying_words.read().partition("\nExtension modules")[0]
        self._stop()
        return Report(faults=[Fault(kind, where)])

    def _stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.dying_words.close()
            self.process = None

    def close(self) -> None:
        """End the process."""
        self._stop()
        self.folder.cleanup()


def _ending(code: int) -> str:
    """Why a process ended in the middle of a case."""
    if code == -signal.SIGPROF:
        return HANGS
    return f"the interpreter died of {signal.Signals(-code).name}" if code < 0 else f"the process ended ({code})"


def _work(case: Case, seed: int, patience: float, pipe, stderr: str, folder: str) -> None:
    """Run the cases whose numbers come in, in a folder of their own, and send back their reports."""
    sys.path[:] = map(os.path.abspath, sys.path)
    os.chdir(folder)
    os.dup2(os.open(stderr, os.O_WRONLY | os.O_APPEND), 2)  # what it prints in a crash, a sanitizer's report too
    warnings.simplefilter("ignore")
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, chain=True)  # where it is, before it dies of it
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that counts
    if "asan" not in os.environ.get("LD_PRELOAD", ""):  # AddressSanitizer reserves terabytes
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, resource.RLIM_INFINITY))
    pipe.send(None)
    while True:
        number = pipe.recv()
        signal.setitimer(signal.ITIMER_PROF, patience)
        report = run_case(case, seed, number)
        signal.setitimer(signal.ITIMER_PROF, 0)
        pipe.send(report)
