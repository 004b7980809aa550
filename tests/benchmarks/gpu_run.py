"""A ten-minute run on a GPU, the most valuable checks first: docs/results/gpu_run_cupy.json.

    python -m tests.benchmarks.gpu_run

runs five parts, each in a process of its own, which is stopped when its time is over, and writes what each has found as
soon as it is known:

- small: twenty small plans, to the byte as predicted beside CuPy's pool, and their values as on NumPy;
- networks: ResNet-50, U-Net and GPT-2 at 64 GB without rematerialization, within 70, 50 and 35 %: bytes, and time
  beside the prediction from costs measured on that card;
- torch: GPT, ResNet-50 and U-Net trained by PyTorch within half of their memory (tests/benchmarks/torch_steps.py);
- calibrate: the rates of the card and of its link to the host, saved as a device file;
- copies: the link used both ways at once, and the three networks with copies over it, beside the predicted timeline.

Then `python docs/validation.py` writes the page. With `--backend numpy` the same parts run small on the processors, and
in PyTorch's build for the CPU: there is no pool and no link, so copies take as long as over an assumed one. A part that
fails or is stopped keeps what it has found, and `--only PART` runs it again. Exit code 1 if a part failed or a
prediction of bytes did not hold.
"""

import argparse
import dataclasses
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from statistics import median
from threading import Timer
from typing import Any

import numpy as np

from remat_algos.cost.calibration import calibrate
from remat_algos.cost.devices import get_device
from remat_algos.cost.links import Link, units_per_second
from remat_algos.errors import GraphError, RematError
from remat_algos.executor.array_backend import Array, Backend
from remat_algos.executor.array_backend import backend as backend_of
from remat_algos.executor.operators import SyntheticOperators
from remat_algos.executor.run import execute
from remat_algos.files import write_whole
from remat_algos.ir.graph import ComputationGraph
from remat_algos.search.solve import solve
from tests.benchmarks.gpu_validation import NETWORKS, cases, environment, result, sized, whole_networks
from tests.benchmarks.occasion import RESULTS, Occasion

SMALL_CASES, SMALL_PEAK = 20, {"numpy": 500_000, "cupy": 20_000_000}
COPIED_PEAK = {"numpy": 4_000_000, "cupy": 16 * 10**9}  # bytes of a network without rematerialization
RESIDENTS = 8 * 10**9
BURN = {"numpy": 40, "cupy": 1000}  # multiply-adds for each word, so that a copy can hide behind compute
ASSUMED = Link(out=2e8, into=2e8, latency=1e-5, source="assumed")  # where there is none
REPEATS = 3
BOTH_WAYS, COPIES = 2**28, 8  # bytes of a copy, and how many follow each other

CHECKS = "holds", "same_as_numpy", "replay_exact", "bytes_as_predicted"
LOSS, GRADIENT = 1e-3, 1e-2  # two runs of a GPU differ by the order of their sums

Records = Iterator[dict[str, Any]]


@dataclass(slots=True)
class PartOptions:
    """Where a part runs, how much of it, and where the device file lies."""

    backend: str
    quick: bool
    device_file: Path


# ---------------------------------------------------------------- parts


def small(options: PartOptions) -> Records:
    """Small plans of all families: bytes, pool, values."""
    yield environment(backend_of(options.backend))
    yield from islice(small_results(options.backend), 2 if options.quick else SMALL_CASES)


def small_results(backend: str) -> Records:
    """Of every small case whose solver can serve its graph."""
    for case in cases(backend):
        if not case.whole:
            with suppress(GraphError):
                yield result(replace(case, peak=SMALL_PEAK[backend]), backend)


def networks(options: PartOptions) -> Records:
    """Whole networks within 70, 50 and 35 %: bytes and time."""
    yield environment(backend_of(options.backend))
    for case in islice(whole_networks(options.backend), 1 if options.quick else None):
        yield result(case, options.backend)


def torch(options: PartOptions) -> Records:
    """PyTorch's own training steps."""
    try:
        from tests.benchmarks import torch_steps
    except ImportError as error:  # none, or one whose private names are others
        yield {"skipped": f"{error}".partition("\n")[0]}
        return

    yield from torch_steps.results(options.quick)


def calibration(options: PartOptions) -> Records:
    """The rates of the device, saved as a file that `cost="measured"` and `link=` take."""
    effort = {"repeats": 1, "size": 256} if options.quick else {}
    device = calibrate(backend=options.backend, dtype="float16" if options.backend == "cupy" else "float64", **effort)
    device.save(options.device_file)
    yield device.record()


def copies(options: PartOptions) -> Records:
    """The link both ways at once; then plans with copies, as long as predicted or not."""
    on = backend_of(options.backend)
    yield environment(on)
    measured = get_device(str(options.device_file)) if options.device_file.exists() else None
    link = measured.link if measured is not None and measured.name == on.device else None
    if on.stream is None:
        yield {"skipped": "the host has no link to itself; copies take as long as over an assumed one"}
    else:
        yield both_ways(on)
        if link is None:
            yield {"skipped": "the link of this card was not measured; run the part calibrate first"}
            return
    for network in NETWORKS[:1] if options.quick else NETWORKS:
        yield run_with_copies(on, network, link or ASSUMED)


PARTS: dict[str, tuple[Callable[[PartOptions], Records], float]] = {
    "small": (small, 0.14),
    "networks": (networks, 0.28),
    "torch": (torch, 0.4),
    "calibrate": (calibration, 0.06),
    "copies": (copies, 0.12),
}
"""What a part does, and its share of the time. A part that ends early leaves its time to those behind it."""


# ---------------------------------------------------------------- copies


class Span(SyntheticOperators):
    """Operators that mark when the first run begins, and when each ends."""

    def prepare(self, backend: Backend, graph: ComputationGraph) -> None:
        """Prepare the operators, and forget earlier marks."""
        super().prepare(backend, graph)
        self.on, self.marks = backend, list[Any]()

    def run(self, node: int, *arrays: Any) -> None:
        """Run a node between marks."""
        if not self.marks:
            self.marks.append(self.on.mark())
        super().run(node, *arrays)
        self.marks[1:] = [self.on.mark()]

    def seconds(self) -> float:
        """From the first run to the end of the last."""
        return float(self.on.seconds(self.marks)[0])


def run_with_copies(on: Backend, network: str, link: Link) -> dict[str, Any]:
    """A network within 35 % with copies: its time as predicted, from costs measured here, and as it was."""
    graph, batch, by = sized(network, {}, COPIED_PEAK[on.name], RESIDENTS)
    burn = np.full(graph.n_nodes, BURN[on.name])
    runs = (execute(graph, range(graph.n_nodes), Span(graph, burn=burn), backend=on.name, timed=True) for _ in range(4))
    costs = np.median([found.seconds for found in runs][1:], axis=0)  # the first one compiles, and touches everything
    graph = graph.with_costs(compute=np.rint(1e9 * costs).astype(np.int64))
    graph = replace(graph, labels=replace(graph.labels, compute_unit="ns", compute_scale=1))
    plan = solve(graph, "35%", link=link, effort="fast")
    found = {}
    for name, schedule, predicted in (
        ("one_pass", range(graph.n_nodes), graph.needed_compute),
        ("plan", plan.schedule, plan.time),
    ):
        operators = Span(graph, burn=burn)
        seconds = []
        for _ in range(REPEATS):
            execution = execute(graph, schedule, operators, backend=on.name, link=link)
            seconds.append(operators.seconds())
        found |= {f"{name}_predicted": predicted / units_per_second(graph), f"{name}_measured": median(seconds)}
    return {
        "network": network,
        "budget": "35%",
        "nodes": graph.n_nodes,
        "batch": batch,
        "divided_by": by,
        "loads": len(plan.schedule.loads),
        "peak": plan.peak_memory,
        "bytes_as_predicted": bool(np.array_equal(execution.used, execution.predicted)),
        "host_peak": plan.simulation.host_peak,
        "link": link.record(),
        **found,
    }


def both_ways(on: Backend) -> dict[str, Any]:
    """Bytes/s of large copies out alone, into alone, and of each while the other runs."""
    size = BOTH_WAYS
    device: list[Array] = [on.xp.zeros(size, "uint8") for _ in range(2)]
    host = [on.xp.cuda.alloc_pinned_memory(size) for _ in range(2)]
    streams = [on.xp.cuda.Stream(non_blocking=True) for _ in range(2)]
    copy = device[0].data.copy_to_host_async, device[1].data.copy_from_host_async

    def rate(ways: tuple[int, ...]) -> float:
        start = time.perf_counter()
        for _ in range(COPIES):
            for way in ways:
                copy[way](host[way].ptr, size, streams[way])
        for way in ways:
            streams[way].synchronize()
        return COPIES * size / (time.perf_counter() - start)

    on.synchronize()
    for way in (0, 1):
        rate((way,))  # pages are touched
    out, into, both = (max(rate(ways) for _ in range(REPEATS)) for ways in ((0,), (1,), (0, 1)))
    return {"out": out, "into": into, "each_of_both": both}


# ---------------------------------------------------------------- processes


@dataclass(slots=True)
class PartResult:
    """What a part has found so far, and how it ended."""

    outcome: str = "not begun"
    seconds: float = 0.0
    measured_on: dict[str, Any] | None = None
    records: list[dict[str, Any]] = field(default_factory=list)


def run_part(name: str, options: PartOptions, limit: float, found: PartResult, keep: Callable[[], None]) -> None:
    """Run a part in a process of its own for `limit` seconds at most, and keep each record as it comes."""
    command = [sys.executable, "-m", "tests.benchmarks.gpu_run", "--part", name, "--backend", options.backend]
    command += ["--device-file", str(options.device_file), *(["--quick"] if options.quick else [])]
    started, stopped = time.perf_counter(), []
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, encoding="utf-8") as process,
    ):
        timer = Timer(max(limit, 0.0), lambda: (stopped.append(True), process.kill()))
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("{"):
                    found.records.append(json.loads(line))
                    keep()
            code = process.wait()
        finally:
            timer.cancel()
            process.kill()
        errors.seek(0)
        said = errors.read().strip().splitlines()
    found.seconds = round(time.perf_counter() - started, 1)
    found.outcome = "done" if code == 0 else "stopped" if stopped else f"failed: {said[-1][:300] if said else code}"
    keep()


def run(options: PartOptions, seconds: float, before: dict[str, Any], write: Callable[[dict[str, Any]], None]) -> int:
    """Run all parts within so many seconds, but for those found before; the exit code."""
    asked_for = [name for name in PARTS if name not in before]
    command = f"python -m tests.benchmarks.gpu_run --backend {options.backend} --seconds {seconds:g}"
    command += f"{' --quick' if options.quick else ''}{' --only ' + ' '.join(asked_for) if before else ''}"
    occasion = Occasion.now().record(command)
    parts = {name: PartResult(**before.get(name, {})) for name in PARTS}
    start, share, whole = time.perf_counter(), 0.0, sum(PARTS[name][1] for name in asked_for)

    def keep_all() -> None:
        head = {"format": "remat-gpu-run", "version": 1, "measured_on": occasion, "backend": options.backend}
        write(head | {"parts": {name: dataclasses.asdict(found) for name, found in parts.items()}})

    for name in asked_for:
        found = parts[name]
        found.measured_on = occasion
        share += PARTS[name][1] / whole
        run_part(name, options, start + share * seconds - time.perf_counter(), found, keep_all)
        print(f"{name}: {found.outcome}, {len(found.records)} records in {found.seconds} s")
    failed = any(part_failed(parts[name], options.backend) for name in asked_for)
    return 1 if failed or failed_checks(parts) else 0


def part_failed(found: PartResult, backend: str) -> bool:
    """True if a part failed, has no record, compared no gradients of its plans, or skipped something on a GPU."""
    plans = [record for record in found.records if "remat" in record.get("method", "")]
    return (
        found.outcome.startswith("failed")
        or not found.records
        or (bool(plans) and not any("gradient_difference" in record for record in plans))
        or (backend == "cupy" and any("skipped" in record for record in found.records))
    )


def failed_checks(parts: dict[str, PartResult]) -> list[dict[str, Any]]:
    """The records with other bytes, values or pools than predicted, or with losses or gradients unlike PyTorch's."""
    records = [record for found in parts.values() for record in found.records]
    wrong = [r for r in records if any(r.get(check) is False for check in CHECKS)]
    wrong += [r for r in records if r.get("pool_known") and r.get("pool_inside") is False]
    eager = {r["model"]: r["loss"] for r in records if r.get("method") == "eager" and "loss" in r}
    plans = [r for r in records if "remat" in r.get("method", "")]
    wrong += [r for r in plans if not r.get("gradient_difference", 0.0) <= GRADIENT]
    ours = [r for r in plans if r["method"].startswith("remat") and r["model"] in eager and "loss" in r]
    return wrong + [r for r in ours if not math.isclose(r["loss"], eager[r["model"]], rel_tol=LOSS)]


def main(arguments: list[str] | None = None) -> int:
    """Run all parts, or one and print what it finds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", choices=("cupy", "numpy"), default="cupy")
    parser.add_argument("--seconds", type=float, default=600, help="for all parts (600)")
    parser.add_argument("--quick", action="store_true", help="only the first item of each part")
    parser.add_argument("--only", choices=PARTS, nargs="+", help="run these parts; keep what the others have found")
    parser.add_argument("--output", type=Path, metavar="FILE", help="docs/results/gpu_run_<backend>.json by default")
    parser.add_argument("--device-file", type=Path, metavar="FILE", help="device_<backend>.json beside the output")
    parser.add_argument("--part", choices=PARTS, help="run one part here, and print its records")
    given = parser.parse_args(arguments)
    output = given.output or RESULTS / f"gpu_run_{given.backend}.json"
    options = PartOptions(
        given.backend, given.quick, given.device_file or output.with_name(f"device_{given.backend}.json")
    )
    if given.part is not None:
        for record in PARTS[given.part][0](options):
            print(json.dumps(record), flush=True)
        return 0

    def write(record: dict[str, Any]) -> None:
        write_whole(output, f"{json.dumps(record, indent=1)}\n".encode())

    before = {name: {} for name in set(PARTS) - set(given.only)} if given.only else {}
    if given.only and output.exists():
        kept = json.loads(output.read_text("utf-8"))["parts"]
        before = {name: kept[name] for name in before}
    code = run(options, given.seconds, before, write)
    print(f"written {output}")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RematError as error:
        print(f"gpu_run: {error}", file=sys.stderr)
        sys.exit(2)
