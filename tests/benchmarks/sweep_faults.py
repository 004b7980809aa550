"""Sweeps under faults, and what they cost: python -m tests.benchmarks.sweep_faults [--only PART].

200 jobs run on two workers while workers, drivers or both are killed at random moments, the disk is full, the folder
cannot be written to, or jobs take all memory, raise, crash or never end. Each time the results have to be those of one
process.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import remat_algos as ra
from remat_algos.sweeps.folder import SweepFolder

ROOT = Path(__file__).resolve().parents[2]
DRIVER = """
import json, resource, sys, remat_algos as ra
jobs, folder, options = json.loads(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
ra.sweep(jobs, folder, modules=["tests.sweep_solvers"], **options)
own = resource.getrusage(resource.RUSAGE_SELF)
print(own.ru_utime + own.ru_stime)
"""
MEASURED = ("seconds", "cpu_seconds", "memory", "tries", "host")


class Sweeps:
    """Runs drivers in processes of their own, on jobs that take `seconds` each."""

    def __init__(self, place, n_jobs, seconds):
        self.place, self.n_jobs, self.seconds = Path(place), n_jobs, seconds
        graph = self.place / "graph.txt"
        graph.write_text("".join(f"{i} {i + 1}\n" for i in range(9)))
        self.row = {"graph": str(graph), "solver": "counting", "seed": list(range(n_jobs))}
        self.expected = None

    def start(self, folder, rows=None, **options):
        """Start a driver."""
        env = {
            **os.environ,
            "COUNTED": str(self.place / "counted"),
            "COUNTING_SECONDS": str(self.seconds),
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, "-c", DRIVER, json.dumps(rows or [self.row]), str(folder)]
        options = {"processes": 2} | options
        return subprocess.Popen(
            [*command, json.dumps(options)],
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, folder, **options):
        """Run a driver to its end; returns its CPU seconds."""
        process = self.start(folder, **options)
        out, err = process.communicate()
        if process.returncode:
            raise RuntimeError(err)
        return float(out.split()[-1])

    def whole(self, folder):
        """The results in a folder are those of one process, each once."""
        if self.expected is None:
            seconds, self.seconds = self.seconds, 0
            self.run(self.place / "expected", processes=1)
            self.seconds = seconds
            self.expected = lasting(ra.read_sweep(self.place / "expected"))
            if len(self.expected) != self.n_jobs:
                raise AssertionError(f"{len(self.expected)} results of one process")
        parts, found = list(Path(folder).rglob(".*.part")), lasting(ra.read_sweep(folder))
        for row, expected in zip(found, self.expected, strict=False):
            if row != expected:
                print({name: (row[name], expected[name]) for name in row if row[name] != expected[name]})
        return {
            "results": len(found),
            "equal": found == self.expected,
            "claims left": len(list(Path(folder, "claims").iterdir())),
            "half": len(parts),
        }


def lasting(results):
    return [{name: value for name, value in row.items() if name not in MEASURED} for row in results]


def workers_of(process):
    files = Path(f"/proc/{process.pid}/task").glob("*/children")
    try:
        return [int(number) for file in files for number in file.read_text().split()]
    except OSError:
        return []


def killed(sweeps, moments, rng, *, worker=False, driver=False, turn=False):
    """Kill one worker, each in turn, the driver, or all at random moments, and start a driver anew where it went."""
    folder, kills = sweeps.place / "results", 0
    pause = sweeps.n_jobs * sweeps.seconds / 2 / moments
    process = sweeps.start(folder)
    while process.poll() is None or process.returncode:
        if process.poll() is not None:
            if process.returncode not in (0, -signal.SIGKILL):
                raise RuntimeError(process.communicate()[1])
            process = sweeps.start(folder)
        time.sleep(rng.uniform(0.3, 1.7) * pause)
        workers = workers_of(process)
        if kills == moments or process.poll() is not None or not workers:
            continue
        kills += 1
        if driver:
            process.kill()
            process.wait()
        if worker:
            for number in [workers[kills % len(workers)] if turn else rng.choice(workers)] if not driver else workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
    return {"kills": kills, **sweeps.whole(folder)}


def refused(sweeps, folder, said):
    """A driver ends with one error that holds these words; returns what it said."""
    process = sweeps.start(folder)
    err = process.communicate()[1].strip().splitlines()
    if not process.returncode or said not in err[-1]:
        raise AssertionError(err)
    return err[-1].partition(": ")[2].partition("'")[0].strip(" :")


def disk_full(sweeps):
    """A small disk is full before half of the jobs are done; with room the sweep goes on."""
    disk = sweeps.place / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={sweeps.n_jobs // 2 * 4}k", "none", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        return {"not run": "no mount is allowed here"}
    try:
        said = refused(sweeps, disk / "results", "No space left")
        done = len(ra.read_sweep(disk / "results"))
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        sweeps.run(disk / "results")
        return {"said": said, "done before": done, **sweeps.whole(disk / "results")}
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def read_only(sweeps):
    """The folder becomes read-only while the sweep runs."""
    disk = sweeps.place / "read_only"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "none", str(disk)], capture_output=True).returncode:
        return {"not run": "no mount is allowed here"}
    try:
        process = sweeps.start(disk / "results")
        while not (disk / "results" / "results").is_dir() or len(ra.read_sweep(disk / "results")) < sweeps.n_jobs // 4:
            time.sleep(0.05)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        err = process.communicate()[1].strip().splitlines()[-1]
        said = refused(sweeps, disk / "results", "Read-only")
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        sweeps.run(disk / "results")
        return {
            "said": err.partition(": ")[2].partition("'")[0].strip(" :"),
            "again": said,
            **sweeps.whole(disk / "results"),
        }
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def bad_jobs(sweeps):
    """One job each that takes all memory, raises, crashes or never ends, among others."""
    bad = {"graph": sweeps.row["graph"], "solver": ["hungry", "raising", "crashing", "endless"]}
    good = {**sweeps.row, "seed": list(range(sweeps.n_jobs - 4))}
    folder = sweeps.place / "results"
    process = sweeps.start(folder, [bad, good], timeout=5.0, memory=2**30)
    if process.wait():
        raise RuntimeError(process.communicate()[1])
    found = ra.read_sweep(folder)
    reasons = {row["solver"]: f"{row['reason']} ({row['tries']} tries)" for row in found if row["outcome"] == "failed"}
    return {"results": len(found), "planned": sum(row["outcome"] == "planned" for row in found), **reasons}


def costs(sweeps):
    """Seconds of a driver's own CPU for each job, and of a sweep that is finished already."""
    sweeps.seconds, jobs = 0, 1000
    row = {**sweeps.row, "seed": list(range(jobs))}
    processes = [sweeps.start(sweeps.place / "idle", [{**row, "seed": 0}])]
    idle = float(processes[-1].communicate()[0].split()[-1])
    process = sweeps.start(sweeps.place / "results", [row])
    own = float(process.communicate()[0].split()[-1])
    begun = time.perf_counter()
    ra.sweep([row], sweeps.place / "results", modules=["tests.sweep_solvers"])
    again = time.perf_counter() - begun
    return {
        "driver's ms of CPU a job": round(1000 * (own - idle) / jobs, 2),
        "finished, 1,000 jobs, s": round(again, 2),
    }


def large_folder(sweeps, count=100_000):
    """Seconds to read a folder of many results, and to see which jobs it has."""
    folder = sweeps.place / "results"
    sweeps.run(folder, processes=2)
    store = SweepFolder(folder)
    figures = next(store.figures())
    plan = store.plan_text(figures["job"])
    rng = random.Random(0)
    for _ in range(count - sweeps.n_jobs):
        job = f"{rng.getrandbits(128):032x}"
        file = store.result_file(job)
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{json.dumps(figures | {'job': job})}\n{plan}\n")
    begun = time.perf_counter()
    read = len(ra.read_sweep(folder))
    seconds = time.perf_counter() - begun
    begun = time.perf_counter()
    ra.sweep([{**sweeps.row}], folder, modules=["tests.sweep_solvers"])
    return {
        "results": read,
        "read, s": round(seconds, 1),
        "200 finished jobs of it, s": round(time.perf_counter() - begun, 1),
    }


def two_workers(sweeps, jobs=24):
    """How much faster two workers are than one, on jobs of about a second."""
    row = {
        "graph": "model:resnet50",
        "budget": "50%",
        "solver": "search",
        "effort": "fast",
        "seed": list(range(jobs)),
        "raw": True,
    }
    seconds = {}
    for count in (1, 2):
        begun = time.perf_counter()
        process = sweeps.start(sweeps.place / f"with {count}", [row], processes=count)
        if process.wait():
            raise RuntimeError(process.communicate()[1])
        seconds[count] = time.perf_counter() - begun
    return {
        "a job, s": round(seconds[1] / jobs, 2),
        "one, s": round(seconds[1], 1),
        "two, s": round(seconds[2], 1),
        "faster by": round(seconds[1] / seconds[2], 2),
    }


def main(arguments=None):
    """Run the parts and print what each found."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only")
    given = parser.parse_args(arguments)
    rng = random.Random(given.seed)
    parts = {
        "kill -9 of a worker": lambda s: killed(s, given.moments, rng, worker=True),
        "kill -9 of every worker in turn": lambda s: killed(s, given.moments, rng, worker=True, turn=True),
        "kill -9 of the driver": lambda s: killed(s, given.moments, rng, driver=True),
        "kill -9 of driver and workers": lambda s: killed(s, given.moments, rng, driver=True, worker=True),
        "disk full": disk_full,
        "folder read-only": read_only,
        "jobs that go wrong": bad_jobs,
        "costs": costs,
        "large folder": large_folder,
        "two workers": two_workers,
    }
    for name, part in parts.items():
        if given.only in (None, name):
            place = tempfile.mkdtemp(prefix="remat-sweep-faults-")
            try:
                found = part(Sweeps(place, given.jobs, 0.2))
            finally:
                shutil.rmtree(place, ignore_errors=True)
            print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
