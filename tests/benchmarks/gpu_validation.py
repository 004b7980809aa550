"""Plans of every solver on networks of every family, run on a GPU: docs/results/validation_<device>.json.

    python -m tests.benchmarks.gpu_validation

takes under eight minutes on a GPU with 80 GB or more; with `--backend numpy` it runs small sizes on the processors,
and with `--output -` it only prints its summary. Exit code 1 if a run was not what was predicted, or on a GPU a target
was missed that is a claim; the other targets inform.

Each round takes a small network of every family once, with another solver and budget and with a batch that makes the
run without rematerialization hold about as much as the round says. After the first round come whole networks, of 126 to
627 nodes, which without rematerialization fill the device. Where a batch of one is too much, all sizes are divided.
"""

import argparse
import json
import math
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from docs.zoo import SMALL
from remat_algos import __version__
from remat_algos.allocate.pools import cupy_pool
from remat_algos.errors import AllocationError, BudgetError, GraphError
from remat_algos.executor.array_backend import backend as backend_of
from remat_algos.executor.mixing_costs import mixing_costs
from remat_algos.executor.run import execute, shrink
from remat_algos.executor.validate import validate
from remat_algos.ir.differentiate import differentiate
from remat_algos.schedule.emission import baseline_peak
from remat_algos.search.solve import solve
from remat_algos.solvers.registry import list_solvers
from remat_algos.zoo.registry import build, list_families
from tests.benchmarks.occasion import RESULTS, Occasion

BUDGETS = ("50%", "70%", "least", "90%", "30%")
PEAKS = {  # bytes of each round without rematerialization
    "numpy": (2_000_000, 500_000),
    "cupy": (2 * 10**9, 2 * 10**7, 45 * 10**9, 2 * 10**8, 10**10, 10**9, 2 * 10**10, 5 * 10**8, 5 * 10**9),
}
NETWORKS, SHARES = ("resnet50", "unet", "gpt2_small"), ("70%", "50%", "35%")
FULL = {"numpy": 4_000_000, "cupy": 64 * 10**9}  # bytes of each of the networks without rematerialization
RESIDENTS = {"numpy": 10**7, "cupy": 8 * 10**9}  # bytes of parameters and inputs, at most
COMPARED = 3 * 10**7  # bytes up to which NumPy does the same
LONG = 100e-6  # seconds of a node, from which times can be predicted
REPEATS = 3
ENOUGH, LARGE = 100, 40 * 10**9  # validations, and bytes of the highest peak, that a GPU is to see
SHARE = 0.9  # of the long overheads that are to be within 10 % of the prediction
VERSION = Path("/proc/driver/nvidia/version")
SOLVING = 3.0  # seconds that a solver may take
KEPT = {
    *("predicted_peak", "measured_peak", "exact_peak", "measured_exact_peak", "pool_total", "pool_predicted"),
    *("pool_inside", "device_peak", "first_difference", "mismatches", "time_predicted", "time_measured", "holds"),
    "steps",
}


@dataclass(frozen=True, slots=True)
class Case:
    """A small network of a family, or a whole one; who plans it, within what; bytes without rematerialization."""

    network: str
    solver: str
    budget: str
    peak: int
    whole: bool = False


def whole_networks(backend):
    """Each of the networks at each share, the highest budgets first."""
    return [Case(network, "auto", share, FULL[backend], whole=True) for share in SHARES for network in NETWORKS]


def cases(backend):
    """All that there is to do, families and solvers mixed, so that what comes first has some of everything."""
    families = [family.name for family in list_families()]
    solvers = [solver.name for solver in list_solvers()]
    for turn in range(len(solvers)):
        for i, family in enumerate(families):
            solver, budget = solvers[(i + turn) % len(solvers)], BUDGETS[(i + turn) % len(BUDGETS)]
            yield Case(family, solver, budget, PEAKS[backend][turn % len(PEAKS[backend])])
        if not turn:
            yield from whole_networks(backend)


def sized(network, settings, peak, residents):
    """(training graph, batch, divisor): about so many bytes without rematerialization; residents of so many at most."""

    def graph(batch):
        return differentiate(build(network, **{**settings, "batch": batch}).graph)

    one, three = baseline_peak(graph(1)), baseline_peak(graph(3))
    batch = max(1, round((peak - one) / max(1, (three - one) / 2)) + 1)
    found = graph(batch)
    by = max(baseline_peak(found) // (2 * peak), found.resident_memory // residents) + 1
    return (found if by == 1 else shrink(found, by)), batch, by


def planned(graph, case):
    """(plan, budget): within the case's budget, or one that the solver can keep; GraphError if it cannot serve."""
    for budget in dict.fromkeys((case.budget, "70%", "90%", "least")):
        try:
            plan = solve(graph, budget, solver=case.solver, raw=True, time_limit=SOLVING)
            return plan, budget
        except BudgetError:
            continue
    raise GraphError(f"{case.solver} has no plan within {case.budget}, nor any other")


def result(case, backend):
    """What one validation found."""
    settings = {} if case.whole else SMALL[case.network]
    graph, batch, by = sized(case.network, settings, case.peak, RESIDENTS[backend])
    plan, budget = planned(graph, case)
    found = validate(plan.graph, plan.schedule, backend, repeats=REPEATS)
    record = {key: value for key, value in found.record().items() if key in KEPT}
    predicted, measured = found.overhead_times(LONG)
    return {
        "network": case.network + (", whole" if case.whole else ""),
        "solver": case.solver,
        "budget": budget,
        "nodes": graph.n_nodes,
        "batch": batch,
        "divided_by": by,
        **record,
        "most_apart": int(np.abs(found.residual).max(initial=0)),
        "runs_again": int((found.runs - 1).clip(0).sum()),
        "fragmentation": round(1 - found.measured_peak / found.pool_total, 4) if found.pool_total else 0.0,
        "pool_known": cupy_pool(found.simulation).exact,
        "replay_exact": replayed(found),
        "same_as_numpy": same_as_numpy(found),
        "long_overhead_predicted": predicted,
        "long_overhead_measured": measured,
    }


def replayed(found):
    """Whether the model of the pool, given the addresses of the real one, has its total at every step."""
    try:
        use = found.replayed()
    except AllocationError:
        return False
    return None if use is None else bool(np.array_equal(use.reserved, found.execution.total))


def same_as_numpy(found):
    """Whether NumPy makes the same values, where it can be asked."""
    if found.execution.backend == "numpy" or found.predicted_peak > COMPARED:
        return None
    there = execute(found.simulation.graph, found.simulation)
    return bool(np.array_equal(there.checksums, found.execution.checksums))


def summary(results, skipped, seconds):
    """What can be said of all validations."""
    long = [(r["long_overhead_predicted"], r["long_overhead_measured"]) for r in results]
    apart = sorted(abs(p / m - 1) for p, m in long if m > 10 * LONG)
    return {
        "validations": len(results),
        "hold": sum(r["holds"] for r in results),
        "bytes_apart": max((r["most_apart"] for r in results), default=0),
        "mismatches": sum(r["mismatches"] != 0 for r in results),
        "pool_inside": count(r["pool_inside"] for r in results),
        "pool_known": count(r["pool_inside"] for r in results if r["pool_known"]),
        "replay_exact": count(r["replay_exact"] for r in results),
        "same_as_numpy": count(r["same_as_numpy"] for r in results),
        "highest_peak": max((r["measured_peak"] for r in results), default=0),
        "networks": len({r["network"] for r in results}),
        "solvers": len({r["solver"] for r in results}),
        "long_overheads": len(apart),
        "long_overheads_within_10_percent": sum(share <= 0.1 for share in apart),
        "long_overheads_median_apart": round(apart[len(apart) // 2], 4) if apart else None,
        "skipped": dict(Counter(skipped)),
        "seconds": round(seconds, 1),
    }


def targets(whole, backend):
    """By name what is aimed at, what was reached, and whether a miss makes the exit code 1.

    Claims are what these pages promise. The others inform: where blocks of a pool tie, so that its total is not known
    beforehand, the interval stated is no promise, and times depend on the machine.
    """
    gpu = backend == "cupy"
    inside, known = whole["pool_inside"], whole["pool_known"]
    long = whole["long_overheads_within_10_percent"], whole["long_overheads"]
    found = {
        "hold": (whole["validations"], whole["hold"], True),
        "pool_known": (known[1], known[0], True),
        "replay_exact": (whole["replay_exact"][1], whole["replay_exact"][0], True),
        "same_as_numpy": (whole["same_as_numpy"][1], whole["same_as_numpy"][0], True),
        "validations": (ENOUGH, whole["validations"], gpu),
        "highest_peak": (LARGE, whole["highest_peak"], gpu),
        "pool_inside": (inside[1], inside[0], False),
        "long_overheads_within_10_percent": (math.ceil(SHARE * long[1]), long[0], False),
    }
    return {
        name: {"at_least": wanted, "found": reached, "outcome": outcome(wanted, reached), "claim": claim}
        for name, (wanted, reached, claim) in found.items()
    }


def outcome(wanted, reached):
    """In a word; where there was nothing to reach, nothing was met."""
    return "not asked" if wanted == 0 else "met" if reached >= wanted else "missed"


def missed(whole):
    """The claims that were not met."""
    return [name for name, target in whole["targets"].items() if target["claim"] and target["outcome"] == "missed"]


def count(answers):
    """[how often yes, of how many that could be asked]."""
    asked = [answer for answer in answers if answer is not None]
    return [sum(asked), len(asked)]


def environment(device):
    """Device, driver and versions; nothing that names the machine."""
    found = {"device": device.device, "backend": device.name, "python": sys.version.split()[0]}
    found |= {"remat_algos": __version__, "numpy": np.__version__}
    if device.name == "cupy":
        runtime = device.xp.cuda.runtime
        found |= {"cupy": device.xp.__version__, "memory": int(runtime.memGetInfo()[1])}
        found |= {"cuda_driver": runtime.driverGetVersion(), "cuda_runtime": runtime.runtimeGetVersion()}
        found["driver"] = driver()
    return found


def driver():
    """The driver's own version, by NVML or else by the system's own note; None where nothing says."""
    try:
        version("nvidia-ml-py")
        import pynvml

        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except (PackageNotFoundError, ImportError):
        return noted_driver()
    except Exception as error:  # of NVML, whose classes are known only where it is
        return noted_driver() or f"unknown ({error})"


def noted_driver():
    """The version in /proc/driver/nvidia/version: the first number with points behind "Kernel Module"."""
    try:
        found = re.search(r"Kernel Module.*?\s(\d+(?:\.\d+)+)\s", VERSION.read_text("utf-8"))
    except OSError:
        return None
    return found and found[1]


def run(backend, most, limit, say=print):
    """Validate cases one after the other, until there are so many or the time is over."""
    command = f"python -m tests.benchmarks.gpu_validation --backend {backend} --most {most} --seconds {limit:g}"
    measured_on = Occasion.now().record(command)
    device, started = backend_of(backend), time.perf_counter()
    costs = mixing_costs(backend)
    results, skipped = [], []
    for case in cases(backend):
        if len(results) >= most or time.perf_counter() - started > limit:
            break
        try:
            results.append(result(case, backend))
        except GraphError as error:
            skipped.append(f"{case.solver}: {error}"[:120])
            continue
        last = results[-1]
        verdict = "holds" if last["holds"] else "PARTS"
        say(f"{len(results):4} {verdict} {case.network} {case.solver} {last['budget']} {last['measured_peak']:,} bytes")
    whole = summary(results, skipped, time.perf_counter() - started)
    whole["targets"] = targets(whole, backend)
    return {
        "format": "remat-validation",
        "version": 1,
        "measured_on": measured_on,
        **environment(device),
        "node_costs": {name: getattr(costs, name) for name in costs.__slots__},
        "summary": whole,
        "validations": results,
    }


def main(arguments=None):
    """Run, write, and say what came out."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=("cupy", "numpy"), default="cupy")
    parser.add_argument("--most", type=int, default=160, metavar="N", help="validations (160)")
    parser.add_argument("--seconds", type=float, default=420, help="after which no more is begun (420)")
    parser.add_argument("--output", metavar="FILE", help="docs/results/validation_<device>.json by default; - for none")
    given = parser.parse_args(arguments)
    found = run(given.backend, given.most, given.seconds)
    print(json.dumps(found["summary"], indent=1))
    if given.output != "-":
        name = "numpy" if given.backend == "numpy" else re.sub(r"\W+", "_", found["device"]).strip("_").lower()
        file = Path(given.output) if given.output else RESULTS / f"validation_{name}.json"
        file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(f"written {file}")
    claims = missed(found["summary"])
    if claims:
        print(f"missed: {', '.join(claims)}")
    return 1 if claims else 0


if __name__ == "__main__":
    from remat_algos.errors import RematError

    try:
        sys.exit(main())
    except RematError as error:
        print(f"gpu_validation: {error}", file=sys.stderr)
        sys.exit(2)
