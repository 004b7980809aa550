"""The folder of a sweep: a file for each result, each graph, and each running driver.

sweep.json               the format
graphs/ID.npz            graphs, by a hash of their bytes
sources.json             ids of graphs by file or model, so that a finished sweep need not read its graphs again
results/ab/ab....json    one result: a line with its figures, and a line with its plan
drivers/2-of-8.json      the driver of the second of eight parts of the jobs; the file is locked while it runs
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

from remat_algos.errors import SweepError
from remat_algos.files import json_of, make_folder, write_whole
from remat_algos.formats.graphs.npz_bytes import from_npz
from remat_algos.ir.arrays import LARGEST_SUM
from remat_algos.ir.graph import ComputationGraph
from remat_algos.sweeps.worker import OUTCOMES, PLANNED

FORMAT, VERSION = "remat-sweep", 1
NUMBERS = ("peak_memory", "reserved_memory", "one_pass", "compute", "overhead", "nodes")  # figures of a plan
COUNTS = ("limit", "resident_memory", "host_peak", "bound", "steps", "reached", "least", "tries")
TEXTS = ("reason", "method", "bound_source", "stop", "host")
REQUEST_TEXTS = ("graph", "version", "solver", "effort")
MEASURED = ("gap", "time", "seconds", "cpu_seconds", "memory")  # missing if unknown
OWN = ("sweep.json", "graphs", "sources.json", "results", "drivers")


class SweepFolder:
    """The folder of a sweep; `create` makes a missing folder. Raise SweepError if it contains unrelated files."""

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        mark = path / "sweep.json"
        try:
            record = json_of(mark.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            if not create:
                raise SweepError(
                    "{folder!p} is not the folder of a sweep; name that of `remat sweep -o`", folder=path
                ) from None
            if path.is_dir() and any(each.name not in OWN and each.name[0] != "." for each in path.iterdir()):
                raise SweepError(
                    "{folder!p} contains other files; name a new folder, or the folder of a sweep", folder=path
                ) from None
            if path.exists() and not path.is_dir():
                raise SweepError("{folder!p} is a file; name a folder", folder=path) from None
            path.mkdir(parents=True, exist_ok=True)
            record = {"format": FORMAT, "version": VERSION}
            write_whole(mark, (json.dumps(record) + "\n").encode(), durable=True)
        except ValueError:
            record = None
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise SweepError(
                "{folder!p} is not the folder of a sweep: its sweep.json was not written by a sweep; name a new folder",
                folder=path,
            )
        if (actual := record.get("version")) != VERSION:
            raise SweepError(
                "{folder!p} has version {found}; this release reads version {version}; name a new folder",
                folder=path,
                found=actual,
                version=VERSION,
            )
        self._whole = set[str]()

    def add_graph(self, data: bytes) -> str:
        name = _id(data)
        if not self.has_graph(name):
            file = self.graph_file(name)
            _make(file.parent)
            write_whole(file, data, durable=True)
        return name

    def has_graph(self, name: str) -> bool:
        if name not in self._whole:
            with contextlib.suppress(OSError):
                if _id(self.graph_file(name).read_bytes()) == name:
                    self._whole.add(name)
        return name in self._whole

    def read_graph(self, name: str) -> ComputationGraph:
        """Read a graph. Raise SweepError if its npz is missing or damaged."""
        if not self.has_graph(name):
            raise SweepError(
                "{file!p} is missing or damaged; run the sweep again to write it from its source",
                file=self.graph_file(name),
            )
        return from_npz(self.graph_file(name).read_bytes())

    def graph_file(self, name: str) -> Path:
        return self.path / "graphs" / f"{name}.npz"

    def sources(self) -> dict[str, str]:
        """Return a mapping from the source of each graph to its id, without graphs whose file is missing."""
        try:
            known = json_of((self.path / "sources.json").read_bytes())
        except (OSError, ValueError):
            return {}
        there = {file.stem for file in (self.path / "graphs").glob("*.npz")}
        pairs = known.items() if isinstance(known, dict) else ()
        return {source: name for source, name in pairs if isinstance(name, str) and name in there}

    def keep_sources(self, known: Mapping[str, str]) -> None:
        write_whole(self.path / "sources.json", json.dumps(dict(known), indent=1).encode())

    def result_file(self, job: str) -> Path:
        return Path(f"{self.path}/results/{job[:2]}/{job}.json")  # faster than joining

    def write_result(self, job: str, figures: Mapping[str, Any], plan: str) -> None:
        """Write a result; when this returns, it is complete and safely on the disk."""
        file = self.result_file(job)
        _make(file.parent)
        write_whole(file, f"{json.dumps(figures)}\n{plan}\n".encode(), durable=True)

    def read(self, job: str) -> dict[str, Any] | None:
        """Return the figures of a job from the first line of its result, or None if they are missing or damaged."""
        try:
            with open(self.result_file(job), "rb") as file:
                return _figures(file.readline(), job)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None

    def figures(self) -> Iterator[dict[str, Any] | None]:
        """Yield the figures of each result, or None for a file that is damaged or has the name of another job."""
        for part, entry in self._files():
            job = entry.name.removesuffix(".json")
            if not entry.is_file():  # folder, pipe or broken link
                yield None
                continue
            with open(entry.path, "rb") as file:
                yield _figures(file.readline(), job) if job[:2] == part else None

    def plan_text(self, job: str) -> str:
        """Return the JSON of a job's plan; empty if there is no plan."""
        with open(self.result_file(job), "rb") as file:
            file.readline()
            return file.readline().decode().strip()

    def _files(self) -> Iterator[tuple[str, os.DirEntry[str]]]:
        absent = contextlib.suppress(FileNotFoundError, NotADirectoryError)
        with absent, os.scandir(self.path / "results") as parts:
            for part in parts:
                if not part.is_dir():
                    if _PART.fullmatch(part.name):  # a file replaces the folder
                        yield part.name, part
                    continue
                with os.scandir(part.path) as files:
                    for file in files:
                        if file.name[0] != "." and file.name.endswith(".json"):
                            yield part.name, file


def _make(folder: Path) -> None:
    try:
        make_folder(folder)
    except (FileExistsError, NotADirectoryError) as error:
        raise SweepError(
            "{file!p} is a file, but the sweep needs a folder of that name; remove it and run the sweep again",
            file=f"{folder.parent.name}/{folder.name}",
        ) from error


def _id(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _figures(line: bytes, job: str) -> dict[str, Any] | None:
    """Return the figures in the line of a result, or None if they are malformed or belong to another job."""
    try:
        figures = json_of(line)
        request, planned = figures["request"], figures["outcome"] == PLANNED
        texts = [figures["name"], *(request[name] for name in REQUEST_TEXTS), *([] if planned else [figures["reason"]])]
        checks = (
            figures["job"] == job,
            figures["outcome"] in OUTCOMES,
            {"graph", "version", "budget", "solver", "effort", "seed", "options"} <= request.keys(),
            {"memory", "overhead", "device"} <= request["budget"].keys(),
            all(isinstance(each, str | int | None) for each in (*request["budget"].values(), request["seed"])),
            all(isinstance(each, str) for each in texts),
            all(isinstance(figures.get(name), str | None) for name in TEXTS),
            not planned or all(type(figures[name]) is int for name in NUMBERS),
            all(_is_amount(figures.get(name), int) for name in (*NUMBERS, *COUNTS)),
            all(_is_amount(figures.get(name), int, float) for name in MEASURED),
            isinstance(figures.get("versions", {}), dict),
        )
        return figures if all(checks) else None
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def _is_amount(entry: Any, *kinds: type) -> bool:
    return entry is None or (type(entry) in kinds and 0 <= entry <= LARGEST_SUM)


_PART = re.compile("[0-9a-f]{2}")
_DRIVER = re.compile(r"[0-9]+-of-[0-9]+\.json")

_open_files = set[IO[bytes]]()
"""Files that this process has opened in `driving`."""


@contextlib.contextmanager
def driving(folder: SweepFolder, part: tuple[int, int], jobs: str) -> Iterator[None]:
    """Lock part i of n of the jobs for this driver. Raise SweepError if another running driver may solve some of them.

    `jobs` is a hash of the list of jobs. Parts overlap if drivers have different lists, or different numbers of parts.
    The system releases the lock of a killed driver. If the system does not support locks, every file counts as locked.
    """
    drivers = folder.path / "drivers"
    _make(drivers)
    file = drivers / f"{part[0]}-of-{part[1]}.json"
    with contextlib.ExitStack() as stack:
        with _opened(drivers / ".lock", "ab") as turn:
            _lock(turn, wait=True)
            for other in sorted(drivers.iterdir()):
                if _DRIVER.fullmatch(other.name):
                    _check_other(other, part, jobs)
            own = stack.enter_context(_opened(file, "x+b"))
            stack.callback(_remove, file, own)
            _lock(own)
            own.write(json.dumps({"host": socket.gethostname(), "process": os.getpid(), "jobs": jobs}).encode())
            os.fsync(own.fileno())
        _remove_abandoned(folder, os.fstat(own.fileno()).st_mtime)
        yield


@contextlib.contextmanager
def _opened(file: Path, mode: str) -> Iterator[IO[bytes]]:
    with open(file, mode, buffering=0) as opened:
        _open_files.add(opened)
        try:
            yield opened
        finally:
            _open_files.discard(opened)


def _close_in_child() -> None:
    """Close the locked files in a forked child: workers may outlive a killed driver, and would keep its locks."""
    for file in _open_files:
        file.close()
    _open_files.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


def _lock(file: IO[bytes], *, wait: bool = False) -> bool | None:
    """Lock a file. Return False if another driver has locked it, and None if locks are not supported."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:  # network drives may lack locks
        return None
    return True


def _check_other(file: Path, part: tuple[int, int], jobs: str) -> None:
    """Remove the file of a driver that has ended. Raise SweepError if a running driver may solve the same jobs."""
    try:
        with _opened(file, "r+b") as other:
            if _lock(other):
                file.unlink(missing_ok=True)
                return
            record = json_of(other.read(4096))
    except FileNotFoundError:  # the driver ended just now
        return
    except ValueError:
        record = None
    record = record if isinstance(record, dict) else {}
    number, count = map(int, file.stem.split("-of-"))
    same_jobs = record.get("jobs", jobs) == jobs
    if same_jobs and count == part[1] and number != part[0]:
        return
    raise SweepError(
        "{folder!p}: process {process} on {host} solves part {number}/{count} of {jobs}; run the sweep again when it "
        "has ended, or remove {file!p} if it no longer runs",
        folder=file.parents[1],
        process=record.get("process", "?"),
        host=record.get("host", "?"),
        number=number,
        count=count,
        jobs="these jobs" if same_jobs else "another list of jobs",
        file=file,
    )


def _remove(file: Path, own: IO[bytes]) -> None:
    """Remove the file of this driver, unless another driver has replaced it."""
    with contextlib.suppress(OSError):
        if os.path.samestat(os.fstat(own.fileno()), file.stat()):
            try:
                file.unlink()
            except PermissionError:  # Windows: the file is open
                own.close()
                file.unlink()


def _remove_abandoned(folder: SweepFolder, now: float) -> None:
    """Remove half-written files of killed drivers; `now` is the current time on the clock of the file system."""
    with contextlib.suppress(OSError):
        for half in folder.path.rglob(".*.part"):
            if now - half.stat().st_mtime > 600:  # seconds
                half.unlink(missing_ok=True)
