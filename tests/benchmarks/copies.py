"""Keep, recompute or offload: overhead in time and lower bound of `solve` over two links.

`python -m tests.benchmarks.copies` measures all rows and writes them into docs/results/copies.txt and the section
"copies" of docs/benchmarks.md;
`--rows llama_7b` measures the rows of some graphs and writes nothing.
"""

import argparse
import fnmatch
import functools
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import remat_algos as ra
from docs.page_parts import line, table
from remat_algos.cost.links import Link
from remat_algos.schedule.emission import baseline_peak
from tests.benchmarks.occasion import Occasion
from tests.benchmarks.page import COPIES, PAGE, missed_line, write_section

RECORD = PAGE.parent / "results" / "copies.txt"
DEVICE = "cost=roofline&device=h100-sxm&dtype=bfloat16"
BUDGETS = (50, 35, 25)
RATES = (50, 200)  # GB/s each way
WANTED = {  # overhead in time in % by graph and rate; None: any plan
    "llama_7b": {50: (2.59, 6.74, 10.78), 200: (0, 0, 0.33)},
    "vit_b_16?batch=64": {50: (6.9, 11.75, 16.4), 200: (2.6, 5.2, 7.1)},
    "mixtral_8x7b": {50: (2.4, 6.0, 9.5), 200: (0, 0, 0.3)},
    "gpt2_small?batch=8": {50: (10.8, 19.3, None), 200: (4.6, 8.2, None)},
    "gpt2_xl": {50: (8.0, 14.5, 19.5), 200: (3.0, 7.5, 12.0)},
    "vit_h_14": {50: (6.5, 11.0, 15.0), 200: (1.5, 4.5, 7.5)},
    "resnet50?batch=96": {50: (5.55, 10.4, 17.0), 200: (2.3, 4.4, 12.0)},
    "stable_diffusion_unet": {50: (10.5, 15.0, None), 200: (3.5, 10.0, None)},
}
HEAD = f"""
These are plans for training graphs of the zoo, with roofline costs of an H100 (`{DEVICE}`),
within shares of the peak of one pass, over links of 50 and 200 GB/s each way without latency (`share=1`). Overheads are
in % of one pass: of its compute in plans without copies, of its time in plans with copies. The bound holds for every
plan with copies. If it is above `wanted`, no plan reaches `wanted`. CPU seconds include the plan without copies.
The table has the rows of 50 %; [copies.txt](results/copies.txt) also has those of 35 % and 25 %.
`python -m tests.benchmarks.copies` writes both.
"""
COLUMNS = ("graph", "budget", "no copies", "GB/s", "time", "bound", "wanted", "host GiB", "CPU s")
Record = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One budget of a graph."""

    graph: str
    budget: int

    @property
    def name(self) -> str:
        return f"{self.graph}-{self.budget}%"


def cases(patterns: Iterable[str]) -> list[Case]:
    """The cases of graphs whose names match one of some shell patterns."""
    chosen = [name for name in WANTED if any(fnmatch.fnmatch(name, f"{pattern}*") for pattern in patterns)]
    return [Case(name, budget) for name in chosen for budget in BUDGETS]


@functools.lru_cache(maxsize=2)
def graph_named(name: str) -> ra.ComputationGraph:
    return ra.differentiate(f"model:{name}{'&' if '?' in name else '?'}{DEVICE}")


def measure(case: Case) -> list[Record]:
    """The rows of a case, one for each rate."""
    graph = graph_named(case.graph)
    limit, one_pass = baseline_peak(graph) * case.budget // 100, graph.needed_compute
    try:
        without = round(100 * ra.solve(graph, limit).overhead / one_pass, 3)
    except ra.BudgetError:
        without = None
    return [
        {"graph": case.graph, "budget": case.budget, "without": without, "rate": rate}
        | {"wanted": WANTED[case.graph][rate][BUDGETS.index(case.budget)]}
        | solved(graph, limit, Link(out=1e9 * rate, into=1e9 * rate, latency=0, share=1))
        for rate in RATES
    ]


def solved(graph: ra.ComputationGraph, limit: int, link: Link) -> Record:
    """Figures of a plan over a link, held against its bound and its limit."""
    one_pass, begin = graph.needed_compute, time.process_time()
    try:
        plan = ra.solve(graph, limit, link=link)
    except ra.BudgetError as error:
        return {"seconds": round(time.process_time() - begin, 1), "impossible": error.lower_bound > limit}
    seconds, bound = time.process_time() - begin, plan.bound.amount
    if plan.peak_memory > limit or bound > plan.time:
        raise AssertionError(f"peak {plan.peak_memory} of {limit}, time {plan.time} with a bound of {bound}")
    return {
        "time": round(100 * plan.overhead_in_time / one_pass, 3),
        "bound": round(100 * (bound - one_pass) / one_pass, 3),
        "host": plan.simulation.host_peak,
        "seconds": round(seconds, 1),
    }


def missed(record: Mapping[str, Any]) -> bool:
    """Whether a plan takes more than is wanted though no proof says that it must, or there is none.

    Examples
    --------
    >>> missed({"time": 2.6, "bound": 2.5, "wanted": 2.55}), missed({"time": 2.6, "bound": 2.58, "wanted": 2.55})
    (True, False)
    """
    if "time" not in record:
        return not record["impossible"]
    wanted = record["wanted"]
    return wanted is not None and record["time"] > wanted >= record["bound"]


def cells(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The cells of a row."""
    without, wanted = record["without"], record["wanted"]
    shown = "a plan" if wanted is None else f"{wanted:g}"
    if "bound" in record and wanted is not None and record["bound"] > wanted:
        shown += ", below the bound"
    shown += ", **missed**" if missed(record) else ""
    begun = (record["graph"], f"{record['budget']} %")
    begun += ("none" if without is None else f"{without:.3f}", str(record["rate"]))
    seconds = f"{record['seconds']:.1f}"
    if "time" not in record:
        return (*begun, "impossible" if record["impossible"] else "none", "", shown, "", seconds)
    host = f"{record['host'] / 2**30:.2f}"
    return (*begun, f"{record['time']:.3f}", f"{record['bound']:.3f}", shown, host, seconds)


def section(records: Sequence[Mapping[str, Any]], where: str) -> str:
    """The section of docs/benchmarks.md."""
    late = sum(missed(record) for record in records)
    lines = [COPIES, HEAD, f"Measured on {where}.", "", missed_line(late, len(records)), ""]
    lines.append(table(COLUMNS, (cells(record) for record in records if record["budget"] == BUDGETS[0])))
    return "\n".join(lines) + "\n"


def record_text(records: Sequence[Mapping[str, Any]], where: str) -> str:
    """The rows of all budgets, and where they were measured."""
    return f"{table(COLUMNS, map(cells, records))}\n\nMeasured on {where} (`python -m tests.benchmarks.copies`).\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.copies", description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", default="", help="graphs, with commas between; shell patterns are allowed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes; by default one for each core")
    words = parser.parse_args(arguments)
    chosen = cases([word.strip() for word in words.rows.split(",")] if words.rows else [""])
    if not chosen:
        parser.error(f"unknown graph {words.rows!r}; there are {', '.join(WANTED)}")
    occasion, records = Occasion.now(), list[Record]()
    print(line(COLUMNS), flush=True)
    with ProcessPoolExecutor(words.jobs, mp_context=get_context("spawn")) as pool:
        for found in pool.map(measure, chosen):
            records += found
            for record in found:
                print(line(cells(record)), flush=True)
    if not words.rows:
        write_section(section(records, str(occasion)))
        RECORD.write_text(record_text(records, str(occasion)), encoding="utf-8")
    return int(any(map(missed, records)))


if __name__ == "__main__":
    sys.exit(main())
