"""How near solvers come to the least peak of small random graphs, whose optimum an exact search has found.

`python -m tests.benchmarks.random_dags` sweeps, prints a table and writes docs/results/kumar2019_random_dags.json; with
`--golden` it searches for the optima anew before, and writes tests/golden/random_dags.json.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from remat_algos.ir.graph import ComputationGraph
from remat_algos.search.auto import default_solvers
from remat_algos.solvers.registry import AUTO, list_solvers
from remat_algos.sweeps.jobs import list_jobs
from tests.benchmarks.occasion import RESULTS as FOLDER
from tests.benchmarks.occasion import Occasion
from tests.benchmarks.swept import swept
from tests.oracles.live_sets import least_peak

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "random_dags.json"
RESULTS = FOLDER / "kumar2019_random_dags.json"
SEED, COUNT = 2019, 300
FAMILIES = {  # least and largest density of the reads, and of how far back they reach
    "near": (0.3, 0.9, 2, 8),  # the order of ids is 1.056 of the optimum; the aims were set on graphs with 1.058
    "far": (0.1, 0.9, 15, 15),  # 1.170: to run each node once there are often better orders
}


def random_dags(family: str) -> Iterator[ComputationGraph]:
    """300 forward graphs of 8 to 15 nodes, sizes and costs between 1 and 9; the last node is the output.

    A node reads each of so many before it with one probability; both are drawn for each graph. Where nobody reads a
    node, the next one does.
    """
    sparsest, densest, nearest, farthest = FAMILIES[family]
    rng = np.random.default_rng(SEED)
    for _ in range(COUNT):
        n = int(rng.integers(8, 15, endpoint=True))
        density, reach = rng.uniform(sparsest, densest), rng.integers(nearest, farthest, endpoint=True)
        distance = np.arange(n) - np.arange(n)[:, np.newaxis]
        reads = (rng.random((n, n)) < density) & (distance > 0) & (distance <= reach)
        unread = np.flatnonzero(~reads[:-1].any(axis=1))
        reads[unread, unread + 1] = True
        memory, compute = rng.integers(1, 9, (2, n), endpoint=True)
        yield ComputationGraph.from_edges(np.argwhere(reads), memory, compute, n_nodes=n)


def golden() -> dict[str, list[int]]:
    """The least peak of each graph of each family."""
    found: dict[str, list[int]] = json.loads(GOLDEN.read_text(encoding="utf-8"))["least_peak"]
    return found


def search() -> None:
    """Write the golden file: the optima, and how they were found."""
    found = {family: [least_peak(graph)[0] for graph in random_dags(family)] for family in FAMILIES}
    made_by = "python -m tests.benchmarks.random_dags --golden: the exact search of tests/oracles/live_sets.py"
    write(GOLDEN, {"made_by": made_by, "seed": SEED, "least_peak": found})


def rows() -> Iterator[dict[str, Any]]:
    """What all solvers reach together, and each one alone, polished and raw, as far as it serves such graphs."""
    graphs = {family: list(random_dags(family)) for family in FAMILIES}
    every = [graph for family in FAMILIES for graph in graphs[family]]
    alone = [solver.name for solver in default_solvers() if all(solver.needs(graph) is None for graph in every)]
    asked = {"graph": every, "budget": "least", "gradients": False}
    ways = [{"solver": AUTO}, *({"solver": name, "raw": raw} for name in alone for raw in (False, True))]
    jobs = list_jobs([asked | way for way in ways])
    peaks = np.array([row["peak_memory"] for row in swept(jobs, "random_dags").records])
    optima = np.concatenate([golden()[family] for family in FAMILIES])
    ratios = peaks.reshape(len(ways), len(FAMILIES), COUNT) / optima.reshape(len(FAMILIES), COUNT)
    for k, family in enumerate(FAMILIES):
        for way, ratio in zip(ways, ratios[:, k], strict=True):
            row = {
                "family": family,
                "solver": way["solver"] + ", raw" * way.get("raw", False),
                "exact": int((ratio == 1).sum()),
                "mean_ratio": round(float(ratio.mean()), 4),
                "max_ratio": round(float(ratio.max()), 4),
            }
            print(*(f"{cell!s:>16}" for cell in row.values()), flush=True)
            yield row


def without_rows() -> dict[str, str]:
    """Why solvers of the registry have none."""
    graphs = [graph for family in FAMILIES for graph in random_dags(family)]
    default = {solver.name for solver in default_solvers()}
    return {
        solver.name: reason or "only where it is named"
        for solver in list_solvers()
        if (reason := next(filter(None, map(solver.needs, graphs)), "")) or solver.name not in default
    }


def write(file: Path, content: dict[str, Any]) -> None:
    file.parent.mkdir(exist_ok=True)
    text = re.sub(r",\n +(?=\d)", ", ", json.dumps(content, indent=1))  # numbers side by side
    file.write_text(text + "\n", encoding="utf-8")


def main() -> None:
    measured_on = Occasion.now().record("python -m tests.benchmarks.random_dags")
    if "--golden" in sys.argv[1:]:
        search()
    print(*(f"{title:>16}" for title in ("family", "solver", "exact", "mean ratio", "max ratio")), f"of {COUNT} graphs")
    write(RESULTS, {"measured_on": measured_on, "graphs": COUNT, "rows": list(rows()), "without_rows": without_rows()})


if __name__ == "__main__":
    main()
