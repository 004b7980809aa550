"""Sweeps under faults, and what they cost: python -m tests.benchmarks.sweep_faults [--only PART] [--write].

200 jobs run on two workers while workers, drivers or both are killed at random moments, the disk is full, the folder
cannot be written to, or jobs take all memory, raise, crash or never end. Each time the results have to be those of one
process. `--write` renews docs/results/sweeps.txt.
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
from functools import partial
from pathlib import Path
from statistics import median

import remat_algos as ra
from docs.page_parts import table
from remat_algos.sweeps.folder import SweepFolder
from remat_algos.wording import counted
from remat_algos.zoo.random import layered_dag
from tests.benchmarks.occasion import Occasion

ROOT = Path(__file__).resolve().parents[2]
DRIVER = """
import json, resource, signal, sys, remat_algos as ra
signal.signal(signal.SIGINT, signal.default_int_handler)  # what starts this in the background has it ignored
jobs, folder, options = json.loads(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
ra.sweep(jobs, folder, modules=["tests.sweep_solvers"], **options)
own = resource.getrusage(resource.RUSAGE_SELF)
print(own.ru_utime + own.ru_stime)
"""
ALONE = """
import sys, remat_algos as ra
from remat_algos.context import use_cores
use_cores(1)
graph = ra.differentiate(ra.zoo.build("resnet50").graph)
for seed in map(int, sys.argv[1:]):
    ra.solve(graph, "50%", solver="search", effort="fast", raw=True, seed=seed)
"""
RESULT = ROOT / "docs" / "results" / "sweeps.txt"
FAULTED = ("fault, with 200 jobs of 0.2 s on two workers", "found")
NO_MOUNT = "not run: no mount is allowed here"
MEASURED = ("seconds", "cpu_seconds", "memory", "tries", "host")


class Sweeps:
    """Runs drivers in processes of their own, on jobs that take `seconds` each."""

    def __init__(self, place, n_jobs, seconds):
        self.place, self.n_jobs, self.seconds = Path(place), n_jobs, seconds
        graph = self.place / "graph.json"
        ra.write_graph(layered_dag(40, width=6, seed=1), graph)
        self.row = {"graph": str(graph), "budget": "60%", "solver": "counting", "effort": "fast", "raw": True}
        self.row["seed"] = list(range(n_jobs))
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
        """Run a driver to its end; its CPU seconds."""
        process = self.start(folder, **options)
        out, err = process.communicate()
        if process.returncode:
            raise RuntimeError(err)
        return float(out.split()[-1])

    def alone(self):
        """The results of one process."""
        if self.expected is None:
            seconds, self.seconds = self.seconds, 0
            self.run(self.place / "expected", processes=1)
            self.seconds = seconds
            self.expected = lasting(ra.read_sweep(self.place / "expected"))
            if len(self.expected) != self.n_jobs:
                raise AssertionError(f"{len(self.expected)} results of one process")
        return self.expected

    def whole(self, folder):
        """What is the same each time: the results in a folder are those of one process, each once."""
        results = ra.read_sweep(folder)
        found = lasting(results)
        for row, expected in zip(found, self.alone(), strict=True):
            if row != expected:
                raise AssertionError({name: (row[name], expected[name]) for name in row if row[name] != expected[name]})
        if results.damaged or (left := list(Path(folder, "drivers").glob("*.json"))):
            raise AssertionError(f"{results.damaged} damaged files, drivers {left}")
        return f"{len(found)} results"


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
    return f"{counted(kills, 'kill')}: {sweeps.whole(folder)}"


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
        return NO_MOUNT
    try:
        said = refused(sweeps, disk / "results", "No space left")
        done = len(ra.read_sweep(disk / "results"))
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        sweeps.run(disk / "results")
        return f'"{said}", {done} results stay; with room, {sweeps.whole(disk / "results")}'
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def read_only(sweeps):
    """The folder becomes read-only while the sweep runs."""
    disk = sweeps.place / "read_only"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "none", str(disk)], capture_output=True).returncode:
        return NO_MOUNT
    try:
        process = sweeps.start(disk / "results")
        while not (disk / "results" / "results").is_dir() or len(ra.read_sweep(disk / "results")) < sweeps.n_jobs // 4:
            time.sleep(0.05)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        err = process.communicate()[1].strip().splitlines()[-1]
        said = refused(sweeps, disk / "results", "Read-only")
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        sweeps.run(disk / "results")
        first = err.partition(": ")[2].partition("'")[0].strip(" :")
        again = "again at the next start" if said == first else f'"{said}" at the next start'
        return f'"{first}", {again}; writable, {sweeps.whole(disk / "results")}'
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
    failed = [f"{row['reason']} ({row['tries']} tries)" for row in found if row["outcome"] == "failed"]
    if len(failed) != len(bad["solver"]) or len(found) != sweeps.n_jobs or found.left:
        raise AssertionError(str(found))
    planned = [row for row in lasting(found) if row["solver"] == "counting"]
    if planned != [row for row in sweeps.alone() if row["seed"] < sweeps.n_jobs - 4]:
        raise AssertionError("the others differ from those of one process")
    return f"{len(planned)} are planned, equal to those of one process; recorded as failed: {'; '.join(failed)}"


def interrupted(sweeps, moments, rng):
    """Ctrl-C and SIGTERM by turns, and a driver anew each time."""
    folder, slowest, stops = sweeps.place / "results", 0.0, 0
    pause = sweeps.n_jobs * sweeps.seconds / 2 / moments
    while True:
        process = sweeps.start(folder)
        try:
            _, err = process.communicate(timeout=1 + rng.uniform(0.3, 1.7) * pause)
            if process.returncode:
                raise RuntimeError(err)
            return f"{stops} stops, the slowest after {slowest:.1f} s: {sweeps.whole(folder)}"
        except subprocess.TimeoutExpired:
            begun = time.perf_counter()
            process.send_signal([signal.SIGINT, signal.SIGTERM][stops % 2])
            process.communicate()
            slowest, stops = max(slowest, time.perf_counter() - begun), stops + 1


def two_drivers(sweeps):
    """Two drivers of two workers each solve a part of the jobs."""
    folder = sweeps.place / "results"
    both = [sweeps.start(folder, part=(i, 2)) for i in (1, 2)]
    for process in both:
        _, err = process.communicate()
        if process.returncode:
            raise RuntimeError(err)
    solved = (sweeps.place / "counted").read_text().split()
    if len(solved) != sweeps.n_jobs:
        raise AssertionError(f"{len(solved)} jobs were solved")
    return f"each job is solved by one of them: {sweeps.whole(folder)}"


def driver(sweeps, jobs=1000):
    """CPU of a driver's own for each job."""
    sweeps.seconds = 0
    row = {**sweeps.row, "seed": list(range(jobs))}
    idle, own = (
        sweeps.run(sweeps.place / name, rows=rows) for name, rows in (("one", [{**row, "seed": 0}]), ("results", [row]))
    )
    return f"{1000 * (own - idle) / jobs:.2f} ms"


def finished(sweeps, jobs=1000):
    """Seconds of a sweep that is finished already."""
    sweeps.seconds = 0
    row = {**sweeps.row, "seed": list(range(jobs))}
    sweeps.run(sweeps.place / "results", rows=[row])
    begun = time.perf_counter()
    ra.sweep([row], sweeps.place / "results", modules=["tests.sweep_solvers"])
    return f"{time.perf_counter() - begun:.2f} s"


def large_folder(sweeps, count=100_000):
    """Seconds to read a folder of many results."""
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
    if read != count:
        raise AssertionError(f"{read} results")
    return f"{seconds:.1f} s"


def two_workers(sweeps, jobs=24, repeats=3):
    """How much faster two workers are than one, and two processes without a sweep, on jobs of about a second."""
    row = {"graph": "model:resnet50", "budget": "50%", "solver": "search", "effort": "fast", "raw": True}
    seconds = {1: [], 2: []}
    alone = {1: [], 2: []}
    for k in range(repeats):
        for count in seconds:
            folder = sweeps.place / f"{k} with {count}"
            rows = [{**row, "seed": list(range(jobs))}]
            seconds[count].append(timed(lambda f=folder, r=rows, n=count: sweeps.run(f, rows=r, processes=n)))
            alone[count].append(timed(lambda n=count: in_processes(n, jobs)))
    one, two, one_alone, two_alone = (median(each) for times in (seconds, alone) for each in times.values())
    return (
        f"{one / jobs:.1f} s a job; {one:.1f} s with one worker, {two:.1f} s with two: {one / two:.2f} times faster; "
        f"the same solves in one process and in two, without a sweep: {one_alone / two_alone:.2f} times"
    )


def timed(run):
    """Seconds by the clock."""
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def in_processes(count, jobs):
    """Solve in so many processes, each its part of the jobs."""
    running = [
        subprocess.Popen([sys.executable, "-c", ALONE, *map(str, range(k, jobs, count))], cwd=ROOT)
        for k in range(count)
    ]
    if any(process.wait() for process in running):
        raise RuntimeError("a process of its own failed")


FAULTS = {
    "kill -9 of a worker": lambda s, moments, rng: killed(s, moments, rng, worker=True),
    "kill -9 of every worker in turn": lambda s, moments, rng: killed(s, moments, rng, worker=True, turn=True),
    "kill -9 of the driver": lambda s, moments, rng: killed(s, moments, rng, driver=True),
    "kill -9 of the driver and all workers": lambda s, moments, rng: killed(s, moments, rng, driver=True, worker=True),
    "Ctrl-C and SIGTERM by turns": interrupted,
    "two drivers of one folder, each with a part": lambda s, **_: two_drivers(s),
    "the disk is full halfway": lambda s, **_: disk_full(s),
    "the folder becomes read-only": lambda s, **_: read_only(s),
    "four jobs go wrong": lambda s, **_: bad_jobs(s),
}
COSTS = {
    "the driver's own CPU, for each of 1,000 jobs": driver,
    "a finished sweep of 1,000 jobs, run again": finished,
    "a folder of 100,000 results, read": large_folder,
    "two workers on two cores": two_workers,
}


def measured(heading, found, where):
    """A table, and where it was measured."""
    return f"Measured on {where}.\n\n{table(heading, found.items())}\n"


def main(arguments=None):
    """Run the parts, print what each found, and write it."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=[*FAULTS, *COSTS])
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.relative_to(ROOT)}")
    given = parser.parse_args(arguments)
    rng, where = random.Random(given.seed), Occasion.now()
    parts = {name: partial(part, moments=given.moments, rng=rng) for name, part in FAULTS.items()} | COSTS
    found = {}
    for name, part in parts.items():
        if given.only in (None, name):
            place = tempfile.mkdtemp(prefix="remat-sweep-faults-")
            try:
                found[name] = part(Sweeps(place, given.jobs, 0.2))
            finally:
                shutil.rmtree(place, ignore_errors=True)
            print(f"{name}: {found[name]}", flush=True)
    if given.write and not given.only:
        faults = measured(FAULTED, {name: found[name] for name in FAULTS}, where)
        costs = measured(("what", "measured"), {name: found[name] for name in COSTS}, where)
        RESULT.write_text(f"{faults}\n{costs}", encoding="utf-8")


if __name__ == "__main__":
    main()
