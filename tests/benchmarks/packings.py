"""How closely schedules of the zoo pack, against what their worst step needs.

`python -m tests.benchmarks.packings` prints a table and writes docs/results/packings.json. The schedules are those of a
sweep. Each is packed as it is and with values written in place, for at most 5 seconds each.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.in_place import find_overwrites
from remat_algos.allocate.offsets import pack
from remat_algos.ir.budget import Budget
from remat_algos.ir.differentiate import differentiate
from remat_algos.schedule.simulation import Simulation
from remat_algos.solvers.registry import list_solvers
from remat_algos.sweeps.jobs import list_jobs
from remat_algos.zoo.registry import build, list_models
from tests.benchmarks.occasion import RESULTS as FOLDER
from tests.benchmarks.occasion import Occasion
from tests.benchmarks.swept import swept

RESULTS = FOLDER / "packings.json"
BUDGET = "60%"  # where a solver does not reach it, its lowest peak
SOLVER_SECONDS, PACKING_SECONDS = 3.0, 5.0
MOST_NODES = 20_000  # of the training graphs; deepspeech2_gru has 47,659
FEW = 300  # buffers


def schedules(counts: dict[str, Counter[str]]) -> Iterator[tuple[str, str, Simulation]]:
    """(model, solver, schedule), those that another solver gave already left out; `counts` says what came of each."""
    models = [name for name in list_models() if differentiate(build(name).graph).n_nodes <= MOST_NODES]
    asked = {"graph": [f"model:{name}" for name in models], "budget": BUDGET, "solver": list(counts)}
    jobs = list_jobs([{**asked, "raw": True, "time_limit": SOLVER_SECONDS}])
    within = swept(jobs, "packings")
    above = [i for i, row in enumerate(within.records) if row["outcome"] == "infeasible"]
    lowest = swept([replace(jobs[i], budget=Budget()) for i in above], "packings")
    place = {i: (lowest, k) for k, i in enumerate(above)}
    seen = set()
    for i, job in enumerate(jobs):
        results, k = place.get(i, (within, i))
        if results.records[k]["outcome"] != "planned":
            counts[job.solver]["no schedule"] += 1
            continue
        plan = results.plan(k)
        key = job.graph, plan.schedule.order.tobytes()
        counts[job.solver]["same as another" if key in seen else "packed"] += 1
        if key not in seen:
            seen.add(key)
            yield models[i // len(counts)], job.solver, plan.simulation


def packed(model: str, solver: str, simulation: Simulation, *, in_place_too: bool) -> dict[str, Any]:
    """How one schedule packs."""
    buffers = Buffers.of(simulation, find_overwrites(simulation) if in_place_too else None)
    started = time.perf_counter()
    found = pack(buffers, time_limit=PACKING_SECONDS)
    seconds = time.perf_counter() - started
    found.verify()
    return {
        "model": model,
        "solver": solver,
        "in_place": in_place_too,
        "buffers": len(buffers),
        "max_live": buffers.max_live,
        "size": found.size,
        "bound": found.bound,
        "method": found.method,
        "seconds": round(seconds, 3),
    }


def summary(rows: list[dict[str, Any]], counts: dict[str, Counter[str]]) -> dict[str, Any]:
    """The figures that are asked for, and how many models have what of each solver."""
    few = [row for row in rows if row["buffers"] <= FEW]
    return {
        "packings": len(rows),
        "largest_ratio": max(row["size"] / row["max_live"] for row in rows),
        "at_max_live": sum(row["size"] == row["max_live"] for row in rows),
        "slowest_seconds": max(row["seconds"] for row in rows),
        f"of_{FEW}_buffers_or_fewer": len(few),
        "proven_of_these": sum(row["size"] == row["bound"] for row in few),
        "solvers": counts,
    }


def main() -> None:
    """Pack, print, write."""
    measured_on, rows = Occasion.now().record("python -m tests.benchmarks.packings"), []
    counts: dict[str, Counter[str]] = {solver.name: Counter() for solver in list_solvers()}
    for name, found in groupby(schedules(counts), itemgetter(0)):
        told = [packed(*each, in_place_too=in_place_too) for each in found for in_place_too in (False, True)]
        worst = max(row["size"] / row["max_live"] for row in told)
        print(f"{name:<24}{len(told):4} packings, at most {worst:.4f} of max live", flush=True)
        rows += told
    found = summary(rows, counts)
    lines = ",\n".join(json.dumps(row) for row in rows)
    head = f'"measured_on": {json.dumps(measured_on)},\n"summary": {json.dumps(found)}'
    RESULTS.write_text(f'{{{head},\n"packings": [\n{lines}\n]}}\n', encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
