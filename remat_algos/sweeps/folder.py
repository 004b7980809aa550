"""The folder of a sweep: one file for each result, the graphs, and which driver works at which job.

sweep.json               the format
graphs/ID.npz            graphs, by a hash of their bytes
sources.json             graphs that files and models gave, so that a finished sweep reads none of them again
results/ab/ab....json    one result: a line of figures, and a line with the plan
claims/                  jobs that a driver works at; drivers/ has a file for each, touched while it lives
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from remat_algos.errors import SweepError
from remat_algos.files import make_folder, write_whole
from remat_algos.formats.graphs.npz_bytes import from_npz
from remat_algos.ir.arrays import LARGEST_SUM
from remat_algos.ir.graph import ComputationGraph
from remat_algos.sweeps.worker import OUTCOMES, PLANNED
from remat_algos.text.untrusted_json import json_of
from remat_algos.text.wording import shortened, shortened_path

FORMAT, VERSION = "remat-sweep", 1
NUMBERS = ("peak_memory", "reserved_memory", "one_pass", "compute", "overhead", "nodes")  # of a plan
COUNTS = ("limit", "resident_memory", "host_peak", "bound", "steps", "reached", "least", "tries")
TEXTS = ("reason", "method", "bound_source", "stop", "host")
REQUEST_TEXTS = ("graph", "version", "solver", "effort")
MEASURED = ("gap", "time", "seconds", "cpu_seconds", "memory")  # of a result, if they are known
OWN = ("sweep.json", "graphs", "sources.json", "results", "claims", "drivers")
LEASE = 120.0
"""Seconds after which a driver on another machine that gave no sign of life has lost its jobs.

Network file systems show a new time of a file to others within a minute.
"""
BEAT = LEASE / 8


class SweepFolder:
    """The folder of a sweep.

    Parameters
    ----------
    path : Path
        It is made if it is missing; one that holds other things is refused.
    create : bool
        False: only one that is there is opened.

    Raises
    ------
    SweepError
        If it is not the folder of a sweep.
    OSError
        If it cannot be made or read.
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path, shown = path, shortened_path(path)
        mark = path / "sweep.json"
        try:
            record = json_of(mark.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            if not create:
                raise SweepError(f"{shown} is not the folder of a sweep; name that of `remat sweep -o`") from None
            if path.is_dir() and any(each.name not in OWN and each.name[0] != "." for each in path.iterdir()):
                raise SweepError(f"{shown} holds other files; name a new folder, or that of a sweep") from None
            if path.exists() and not path.is_dir():
                raise SweepError(f"{shown} is a file; name a folder") from None
            path.mkdir(parents=True, exist_ok=True)
            record = {"format": FORMAT, "version": VERSION}
            write_whole(mark, (json.dumps(record) + "\n").encode(), durable=True)
        except ValueError:
            record = None
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise SweepError(f"{shown} is not the folder of a sweep: its sweep.json is another file; name a new folder")
        if (found := record.get("version")) != VERSION:
            raise SweepError(
                f"{shown} has version {shortened(found)}; this release reads version {VERSION}; name a new folder"
            )
        self._whole = set[str]()

    # ---------------------------------------------------------------- graphs

    def add_graph(self, data: bytes) -> str:
        """Keep the npz of a graph; returns its id."""
        name = _id(data)
        if not self.has_graph(name):
            file = self.graph_file(name)
            _make(file.parent)
            write_whole(file, data, durable=True)
        return name

    def has_graph(self, name: str) -> bool:
        """True if the npz of a graph is there and whole."""
        if name not in self._whole:
            with contextlib.suppress(OSError):
                if _id(self.graph_file(name).read_bytes()) == name:
                    self._whole.add(name)
        return name in self._whole

    def read_graph(self, name: str) -> ComputationGraph:
        """Read a graph; SweepError if its npz is not there or damaged."""
        if not self.has_graph(name):
            file = shortened_path(self.graph_file(name))
            raise SweepError(f"{file} is missing or damaged; run the sweep again, which writes it from its source")
        return from_npz(self.graph_file(name).read_bytes())

    def graph_file(self, name: str) -> Path:
        """The npz of a graph."""
        return self.path / "graphs" / f"{name}.npz"

    def sources(self) -> dict[str, str]:
        """Ids of graphs by what they came from; those whose file is missing are left out."""
        try:
            known = json_of((self.path / "sources.json").read_bytes())
        except (OSError, ValueError):
            return {}
        there = {file.stem for file in (self.path / "graphs").glob("*.npz")}
        pairs = known.items() if isinstance(known, dict) else ()
        return {source: name for source, name in pairs if isinstance(name, str) and name in there}

    def keep_sources(self, known: Mapping[str, str]) -> None:
        """Write what `sources` reads."""
        write_whole(self.path / "sources.json", json.dumps(dict(known), indent=1).encode())

    # ---------------------------------------------------------------- results

    def result_file(self, job: str) -> Path:
        """The file of a result."""
        return Path(f"{self.path}/results/{job[:2]}/{job}.json")  # quicker than by its parts

    def write_result(self, job: str, figures: Mapping[str, Any], plan: str) -> None:
        """Write a result whole; it is on the disk when this returns."""
        file = self.result_file(job)
        _make(file.parent)
        write_whole(file, f"{json.dumps(figures)}\n{plan}\n".encode(), durable=True)

    def read(self, job: str) -> dict[str, Any] | None:
        """The first line of the result of a job; None if there is none, or the file is damaged."""
        try:
            with open(self.result_file(job), "rb") as file:
                return _figures(file.readline(), job)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None

    def figures(self) -> Iterator[dict[str, Any] | None]:
        """The first line of each result; None for a file that is damaged, or under the name of another job."""
        for part, entry in self._files():
            job = entry.name.removesuffix(".json")
            if not entry.is_file():  # a folder, a pipe, a link to nothing
                yield None
                continue
            with open(entry.path, "rb") as file:
                yield _figures(file.readline(), job) if job[:2] == part else None

    def plan_text(self, job: str) -> str:
        """The JSON of a plan; empty if the job has none."""
        with open(self.result_file(job), "rb") as file:
            file.readline()
            return file.readline().decode().strip()

    def _files(self) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """The files of results, with the names of their folders."""
        absent = contextlib.suppress(FileNotFoundError, NotADirectoryError)
        with absent, os.scandir(self.path / "results") as parts:
            for part in parts:
                if not part.is_dir():
                    if _PART.fullmatch(part.name):  # in the place of a folder of results, which are lost
                        yield part.name, part
                    continue
                with os.scandir(part.path) as files:
                    for file in files:
                        if file.name[0] != "." and file.name.endswith(".json"):
                            yield part.name, file


def _make(folder: Path) -> None:
    """Make a folder of a sweep; SweepError where a file stands."""
    try:
        make_folder(folder)
    except (FileExistsError, NotADirectoryError) as error:
        file = shortened_path(f"{folder.parent.name}/{folder.name}")
        raise SweepError(
            f"{file} is a file, where the sweep has a folder; remove it and run the sweep again"
        ) from error


def _id(data: bytes) -> str:
    """The id of a graph: a hash of the bytes of its npz."""
    return hashlib.sha256(data).hexdigest()[:32]


def _figures(line: bytes, job: str) -> dict[str, Any] | None:
    """The figures of a line; None if it holds none of this job."""
    try:
        figures = json_of(line)
        request = figures["request"]
        asked = {"graph", "version", "budget", "solver", "effort", "seed", "options"} <= request.keys()
        budgets = {"memory", "overhead", "device"} <= request["budget"].keys()
        texts = all(isinstance(each, str) for each in (figures["name"], *(request[name] for name in REQUEST_TEXTS)))
        texts = texts and all(isinstance(figures.get(name), str | None) for name in TEXTS)
        needed, reasons = (NUMBERS, ()) if figures["outcome"] == PLANNED else ((), ("reason",))
        texts = texts and all(isinstance(figures[name], str) for name in reasons)
        numbers = all(type(figures[name]) is int for name in needed)
        numbers = numbers and all(_is_whole(figures.get(name)) for name in (*NUMBERS, *COUNTS))
        measured = all(_is_number(figures.get(name)) for name in MEASURED)
        simple = all(isinstance(each, str | int | None) for each in (*request["budget"].values(), request["seed"]))
        versions = isinstance(figures.get("versions", {}), dict)
        whole = asked and budgets and texts and numbers and measured and simple and versions
        return figures if whole and figures["job"] == job and figures["outcome"] in OUTCOMES else None
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def _is_whole(entry: Any) -> bool:
    return entry is None or (type(entry) is int and 0 <= entry <= LARGEST_SUM)


def _is_number(entry: Any) -> bool:
    return entry is None or (type(entry) in (int, float) and 0 <= entry <= LARGEST_SUM)


# ---------------------------------------------------------------- several drivers

_PART = re.compile("[0-9a-f]{2}")
_CLAIM = re.compile(r".+\.[0-9]{1,9}")
_TOKEN = re.compile(rb"[0-9a-f]+-[0-9a-f]+")

_LIVE = set[str]()
"""Drivers of this process: it may have had others, which ended without removing their signs."""


class Claims:
    """The jobs that this driver works at, among other drivers of the same folder.

    A job is claimed by a file that only one driver can make. Its owner is alive while its own file is touched, or on
    the same machine while its process runs. The job of a dead owner is claimed by a file of the next number, so two
    drivers that find it dead at once cannot both take it.
    """

    def __init__(self, folder: SweepFolder, lease: float = LEASE) -> None:
        self.folder, self.lease = folder, lease
        self.token = f"{time.time_ns():x}-{os.urandom(6).hex()}"
        self.drivers, self.claims = folder.path / "drivers", folder.path / "claims"
        _make(self.drivers)
        _make(self.claims)
        self.sign = self.drivers / f"{self.token}.json"
        _LIVE.add(self.token)
        self._show()
        self.owned = dict[str, Path]()
        self._signs = dict[Path, dict[str, Any]]()

    def claim(self, job: str) -> bool:
        """True if the job is now ours; False if another driver that lives has it."""
        for number in count():
            file = self.claims / f"{job}.{number}"
            try:
                handle = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
            except FileExistsError:
                if self._lives(file):
                    return False
                continue
            self.owned[job] = file
            try:
                os.write(handle, self.token.encode())
            finally:
                os.close(handle)
            return True
        raise AssertionError

    def leave(self, job: str) -> None:
        """Give a job back, finished or not."""
        file = self.owned.pop(job, None)
        if file is not None:
            for number in range(int(file.suffix[1:]) + 1):  # those of drivers that died first: theirs may be taken then
                with contextlib.suppress(OSError):
                    file.with_suffix(f".{number}").unlink()

    def beat(self) -> None:
        """Show that this driver lives; it is called every `BEAT` seconds."""
        try:
            os.utime(self.sign)
        except FileNotFoundError:  # another driver took this one for dead, such as after a pause
            self._show()

    def _show(self) -> None:
        sign = {"machine": _machine(), "process": _process(os.getpid())}
        write_whole(self.sign, json.dumps(sign).encode())

    def close(self) -> None:
        """Give all jobs back, and remove what dead drivers left."""
        _LIVE.discard(self.token)
        for job in list(self.owned):
            self.leave(job)
        with contextlib.suppress(OSError):
            claims = (claim for claim in self.claims.iterdir() if _CLAIM.fullmatch(claim.name))
            for claim in sorted(claims, reverse=True):
                above = claim.with_suffix(f".{int(claim.suffix[1:]) + 1}")
                if self.folder.result_file(claim.stem).exists() and not self._lives(claim) and not above.exists():
                    claim.unlink(missing_ok=True)
            for sign in self.drivers.glob("[!.]*"):  # others are being written
                if sign != self.sign and not self._shows_life(sign):
                    sign.unlink(missing_ok=True)
            for part in self.folder.path.rglob(".*.part"):  # who wrote an old one was killed
                if self._now() - part.stat().st_mtime > self.lease:
                    part.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.sign.unlink()

    def _lives(self, claim: Path) -> bool:
        """True if the driver that made a claim lives; a claim that has gone meanwhile is tried again later."""
        try:
            token = claim.read_bytes()
            if not token:  # being written
                return self._now() - claim.stat().st_mtime < self.lease
        except FileNotFoundError:
            return True
        except OSError:  # a folder, for example
            return False
        if token == self.token.encode():
            return False
        return _TOKEN.fullmatch(token) is not None and self._shows_life(self.drivers / f"{token.decode()}.json")

    def _shows_life(self, sign: Path) -> bool:
        """True if the driver of a sign lives, as far as can be known here."""
        try:
            record = self._signs.get(sign) or self._signs.setdefault(sign, json_of(sign.read_bytes()))
            if record["machine"] == _machine():
                if record["process"] == _process(os.getpid()):
                    return sign.stem in _LIVE
                return sign.exists() and _process(record["process"][0]) == record["process"]
            return self._now() - sign.stat().st_mtime < self.lease
        except (OSError, ValueError, LookupError, TypeError):
            return False

    def _now(self) -> float:
        """The time of the file system, whose clock may differ from ours."""
        self.beat()
        return self.sign.stat().st_mtime


def _machine() -> str:
    """What tells this machine, or container, from others."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):  # Linux
        parts += [Path("/proc/sys/kernel/random/boot_id").read_text().strip(), os.readlink("/proc/self/ns/pid")]
    return " ".join(parts)


def _process(number: int) -> list[Any] | None:
    """The number of a process and when it started, as another may get its number; None if there is none."""
    try:
        stat = Path(f"/proc/{number}/stat").read_text()
    except OSError:
        if os.path.isdir("/proc/self"):
            return None
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return None
        except OSError:
            pass
        return [number, ""]
    state, *rest = stat.rpartition(")")[2].split()
    return None if state in "ZX" else [number, rest[18]]
