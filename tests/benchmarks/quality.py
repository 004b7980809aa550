"""How good plans are: the overhead of `solve`, its bound, and what the project wants, on the zoo and on random graphs.

    python -m tests.benchmarks.quality [--rows resnet50,nmt-25%] [--effort best] [--json] [--before OUT.jsonl] [--all]

Rows are chosen by graph or by name; shell patterns are allowed. `--json` prints a record per line as it is measured;
`--before` compares with such lines of an earlier run. Without `--rows` all rows run but the slow ones, in some minutes;
`--all` adds these: every network of the zoo at 50 % and at 25 %, longer searches, and each point of a frontier.
`python -m pytest tests/benchmarks -k quality` prints the same tables and writes them to docs/benchmarks.md; rows are
chosen there by `-k "quality and resnet50"`, and then nothing is written.

Budgets are shares of the peak without rematerialization. Networks are those of the zoo with their defaults, with their
gradients; layered graphs have none. Seconds are those of the processor for the whole solve, bound included; each
solve gets a new copy of the graph, and a small graph is solved before, which loads the kernels.
"""

import argparse
import copy
import functools
import hashlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

import remat_algos as ra
from docs.page_parts import table
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.bounds.tuning import TOLERANCE
from remat_algos.ir.budget import even_limits
from remat_algos.schedule.emission import baseline_peak
from remat_algos.search.auto import default_solvers
from tests.benchmarks.layered_graphs import layered_graph
from tests.benchmarks.optima import golden, graph_of
from tests.benchmarks.page import PAGE, QUALITY, missed_line

HEAD = """
Plans of `solve` with its defaults: overhead and lower bound in % of one pass, `gap` in points. Budgets are shares of
the peak without rematerialization; networks come from the zoo, with gradients; layered graphs come from
`tests/benchmarks/layered_graphs.py`, without gradients. `wanted` is the overhead that the project wants,
**missed** if it is not reached to the digits shown. `python -m tests.benchmarks.quality` measures single rows.
[quality.txt](results/quality.txt) has the rows, and below are their sums.
`python -m pytest tests/benchmarks -k quality` writes both.
"""
RECORD = PAGE.parent / "results" / "quality.txt"
COLUMNS = ("graph", "nodes", "budget", "overhead", "bound", "gap", "wanted", "CPU s", "method", "effort", "note")
FIGURES = ("figure", "measured", "wanted")
WIDTHS, FIGURE_WIDTHS = (22, 7, 8, 10, 9, 9, 18, 7, 16, 8, 30), (78, 12, 24)
DEFAULT, BEST = "default", "best"
EFFORTS = ("fast", DEFAULT, BEST)
LOWEST_SHARE, ABOVE_FLOOR = 25, 1.1  # per cent of the base, and times the floor: the lower budget of a network
NEAR = 0.5  # points of overhead above the bound
BUDGETS, COMPARED = 40, 4  # of a frontier, and how many of them are compared with a solve of their own

Record = dict[str, Any]


# ---------------------------------------------------------------- rows


@dataclass(frozen=True, slots=True)
class Row:
    """One solve and what is wanted of it.

    Parameters
    ----------
    graph : str
        A network of the zoo, or a name of `LAYERED`.
    budget : int
        Per cent of the peak without rematerialization.
    wanted : str
        The overhead that is wanted, in per cent of one pass, to as many digits as are compared.
    effort : str
    note : str
        Within how many seconds it is wanted, and what else is to be said.
    slow : bool
        Whether it runs by name and by `--all` only.
    above_floor : bool
        Whether the budget is raised to `ABOVE_FLOOR` times the lower bound of the peak.
    """

    graph: str
    budget: int
    wanted: str = ""
    effort: str = DEFAULT
    note: str = ""
    slow: bool = False
    above_floor: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """`resnet50-25%`, with the effort where that is not the default."""
        ending = "" if self.effort == DEFAULT else f"-{self.effort}"
        return f"{self.graph}-{self.budget}%{'-or-floor' if self.above_floor else ''}{ending}"


LAYERED = {  # nodes, w, seed
    f"layered{n}_{seed}": (n, width, seed) for n, width in ((250, 0.43), (1000, 0.31)) for seed in (0, 1)
}
SEVENTEEN = (  # networks whose mean at half the memory is wanted
    *("resnet50", "resnet152", "googlenet_bn", "mobilenet_v2", "unet", "vit_b_16", "llama_7b", "gpt2_small", "pspnet"),
    *("stable_diffusion_unet", "deepspeech2_1rnn", "lstm", "nmt", "densenet121", "vgg16_bn", "transformer_base"),
    "switch_base_8",
)
ROWS = (
    Row("resnet50", 50, "0.84", note="in 3 s"),
    Row("resnet50", 25, "7.5", note="in 3 s"),
    Row("resnet152", 50, "0.70", note="in 5 s"),
    Row("resnet152", 25, "6.6", note="in 5 s"),
    Row("googlenet_bn", 50, "0.229", note="in 5 s"),
    Row("googlenet_bn", 25, "6.13", note="in 5 s"),
    Row("mobilenet_v2", 50, "3.148", note="in 1 s"),
    Row("unet", 50, "3.544", note="in 1 s"),
    Row("vit_b_16", 50, "1.685", note="in 2 s, optimal"),
    Row("vit_b_16", 25, "14.71", note="in 2 s, optimal"),
    Row("llama_7b", 50, "5.557", note="a gap of 0.003"),
    Row("llama_7b", 25, "17.638", note="a gap of 0.003"),
    Row("gpt2_small", 50, "1.618"),
    Row("gpt2_small", 25, "21.59"),
    Row("pspnet", 50, "0.42", note="in 3 s"),
    Row("pspnet", 25, "7.0", note="in 3 s"),
    Row("stable_diffusion_unet", 50, "1.945", note="in 5 s"),
    Row("deepspeech2_1rnn", 50, "17.0", note="in 10 s"),
    Row("deepspeech2_1rnn", 25, note="a plan, or a proof that there is none"),
    Row("lstm", 50, "5.0", note="in 10 s"),
    Row("nmt", 50, "0.224"),
    Row("nmt", 25, "8.4", note="in 15 s"),
    Row("densenet121", 50, "0.349"),
    Row("vgg16_bn", 50, "0.272"),
    Row("transformer_base", 50, "14.98"),
    Row("switch_base_8", 50, "1.14"),
    Row("layered250_0", 80, "1.0", note="in 2 s"),
    Row("layered250_1", 80, "2.7", note="in 2 s"),
    Row("layered250_0", 70, "10", note="in 5 s"),
    Row("layered250_1", 70, "22", note="in 5 s"),
    Row("layered1000_0", 80, "1.9", BEST, note="in 15 s"),
    Row("layered1000_1", 80, "1.5", BEST, note="in 15 s"),
    Row("layered1000_0", 70, "11", note="in 15 s"),
    Row("layered1000_1", 70, "8.5", note="in 15 s"),
    Row("resnet152", 25, "6.46", BEST, note="2 % below the prototype", slow=True),
    Row("pspnet", 25, "6.7", BEST, note="6.55 is 2 % below the prototype", slow=True),
    Row("lstm", 50, "4.8", BEST, note="in 60 s", slow=True),
    Row("nmt", 25, "7.6", BEST, note="in 60 s", slow=True),
)


def zoo_rows() -> tuple[Row, ...]:
    """Every network of the zoo at half the memory, and at a quarter or a little above its floor."""
    networks = ra.zoo.list_models()
    return (
        *(Row(name, 50, slow=True) for name in networks if name not in SEVENTEEN),
        *(Row(name, LOWEST_SHARE, slow=True, above_floor=True) for name in networks),
    )


def all_rows() -> tuple[Row, ...]:
    """The rows of the table, then those of the zoo."""
    return (*ROWS, *zoo_rows())


def chosen(patterns: Iterable[str], everything: bool = False) -> list[Row | str]:
    """Rows whose name or graph matches a pattern, then names of `SUMMARIES`.

    Slow rows are chosen where a pattern matches no other, or where everything is wanted.

    Raises
    ------
    ValueError
        For a pattern that matches none.

    Examples
    --------
    >>> [str(row) for row in chosen(["pspnet", "lay*250*-80%", "nmt-25%-best", "optima"])]
    ['pspnet-50%', 'pspnet-25%', 'layered250_0-80%', 'layered250_1-80%', 'nmt-25%-best', 'optima']
    """
    rows = [*all_rows(), *SUMMARIES]
    names = set()
    for pattern in patterns:
        matches = [row for row in rows if any(fnmatchcase(name, pattern) for name in _names(row))]
        if not matches:
            raise ValueError(f"no row matches {pattern!r}; give a graph, as unet, or a row of --list, as unet-50%")
        quick = [row for row in matches if everything or not (isinstance(row, Row) and row.slow)]
        names |= {str(row) for row in quick or matches}
    return [row for row in rows if str(row) in names]


def _names(row: Row | str) -> tuple[str, ...]:
    return (row.name, row.graph) if isinstance(row, Row) else (row,)


# ---------------------------------------------------------------- measured


@functools.lru_cache(maxsize=4)  # rows of a graph follow each other, with few exceptions
def graph_named(name: str) -> ra.ComputationGraph:
    """A network with its gradients, or a layered graph as it is."""
    if name in LAYERED:
        return layered_graph(*LAYERED[name])
    return ra.differentiate(ra.zoo.build(name).graph)


@functools.cache
def warm_up() -> None:
    """Load the kernels."""
    ra.solve(ra.differentiate(ra.zoo.random.layered_dag(30, seed=0)), "80%")


def limit_of(row: Row, graph: ra.ComputationGraph) -> int:
    """The budget in bytes."""
    limit = baseline_peak(graph) * row.budget // 100
    return max(limit, int(ABOVE_FLOOR * least_peak_bound(graph)[0])) if row.above_floor else limit


def measure(row: Row, effort: str | None = None, **options: Any) -> Record:
    """Solve once; overheads and gaps are in per cent of one pass. `options` go to `solve`.

    Examples
    --------
    >>> record = measure(Row("unet", 50, "3.5"), effort="fast")
    >>> record["nodes"], record["feasible"], record["overhead"] >= record["bound"]
    (126, True, True)
    """
    warm_up()
    graph = graph_named(row.graph)
    limit, one_pass = limit_of(row, graph), max(1, graph.needed_compute)
    record: Record = {
        "row": row.name,
        "graph": row.graph,
        "nodes": graph.n_nodes,
        "budget": round(100 * limit / baseline_peak(graph), 1),
        "limit": limit,
        "wanted": row.wanted,
        "effort": effort or row.effort,
        "note": row.note,
        **{key: str(option) for key, option in options.items()},
    }
    floor = least_peak_bound(graph)[0]
    if limit < floor:
        why = f"the floor is {100 * floor / baseline_peak(graph):.0f} %"
        return record | {"feasible": False, "proven": True, "seconds": 0.0, "note": why}
    fresh = copy.deepcopy(graph)  # without the arrays that were derived from it before
    begin = time.process_time()
    try:
        plan = ra.solve(fresh, limit, effort=record["effort"], **options)
    except ra.BudgetError as error:
        seconds = time.process_time() - begin
        record |= {"feasible": False, "proven": error.lower_bound > limit, "reached": error.reached}
        return record | {"seconds": round(seconds, 2)}
    seconds = time.process_time() - begin
    if plan.peak_memory > limit:
        raise AssertionError(f"{row.name}: the peak is {plan.peak_memory}, above the limit {limit}")
    bound, compute = plan.bound.amount, plan.simulation.compute
    if bound > compute:
        raise AssertionError(f"{row.name}: the bound {bound} is above the compute {compute}")
    bound = max(bound, one_pass) - one_pass
    order = np.asarray(plan.schedule.order, "<i4").tobytes()
    return record | {
        "feasible": True,
        "peak": plan.peak_memory,
        "overhead": round(100 * plan.overhead / one_pass, 5),
        "bound": round(100 * bound / one_pass, 5),
        "gap": round(100 * (plan.overhead - bound) / one_pass, 5),
        "seconds": round(seconds, 2),
        "method": plan.method,
        "bound_source": plan.bound.source,
        "order": hashlib.blake2b(order, digest_size=8).hexdigest(),
    }


def alone(record: Record, time_limit: float | None = None) -> Record:
    """The record with the best overhead of any solver that is run alone, and its name."""
    graph, best, method = graph_named(record["graph"]), math.inf, "none"
    for solver in default_solvers(graph):
        try:
            plan = ra.solve(copy.deepcopy(graph), record["limit"], solver=solver.name, time_limit=time_limit)
        except ra.RematError:
            continue
        overhead = round(100 * plan.overhead / max(1, graph.needed_compute), 5)
        if overhead < best:
            best, method = overhead, solver.name
    note = f"alone: {best:.3f} by {method}" if best < math.inf else "alone: none"
    return record | {
        "alone": best if best < math.inf else None,
        "note": "; ".join(filter(None, (record["note"], note))),
    }


def missed(record: Mapping[str, Any]) -> bool:
    """Whether the overhead is above the one that is wanted, to the digits of that, or one solver alone is better.

    Examples
    --------
    >>> missed({"wanted": "0.84", "overhead": 0.844}), missed({"wanted": "0.84", "overhead": 0.846})
    (False, True)
    """
    if "figure" in record:
        if record["wanted"] is None:
            return False
        return record["value"] < record["wanted"] if "at_least" in record else record["value"] > record["wanted"]
    if record.get("alone") is not None and record.get("overhead", math.inf) > record["alone"]:
        return True
    if not record["wanted"]:
        return False
    digits = len(record["wanted"].partition(".")[2])
    return "overhead" not in record or round(record["overhead"], digits) > float(record["wanted"])


# ---------------------------------------------------------------- other figures


def figure(group: str, title: str, number: float, unit: str, wanted: float | None = None, **more: Any) -> Record:
    """A record that is no solve; `wanted` is a maximum unless `at_least` is among `more`."""
    return {"row": f"{group}: {title}", "figure": title, "value": number, "unit": unit, "wanted": wanted, **more}


def optima(everything: bool = False) -> Iterator[Record]:
    """Solves of the golden optima, of graphs of up to some fifty nodes, by two efforts."""
    for effort, exact, largest, seconds in (("fast", 99, 5, 0.05), (DEFAULT, 100, 0, 0.3)):
        yield from _optima(effort, exact, largest, seconds)


def _optima(effort: str, exact: float, largest: float, seconds: float) -> Iterator[Record]:
    """The same by one effort, and what is wanted of it: `seconds` in the mean."""
    warm_up()
    points = [(graph_of(entry), *point) for entry in golden() for point in entry["optima"] if point[1] is not None]
    begin, gaps, n_proven = time.process_time(), [], 0
    for graph, limit, compute in points:
        with suppress(ra.BudgetError):
            plan = ra.solve(graph, limit, effort=effort)
            gaps.append(100 * (plan.simulation.compute / compute - 1))
            n_proven += plan.bound.amount == plan.simulation.compute
    taken, count, ending = time.process_time() - begin, len(points), "" if effort == DEFAULT else f", {effort}"
    share = 100 * sum(gap == 0 for gap in gaps) / count
    yield figure("optima", f"{count} golden optima{ending}: exact", round(share, 2), "%", exact, at_least=True)
    proven, wanted = round(100 * n_proven / count, 2), 100 if effort == DEFAULT else None
    yield figure("optima", f"golden optima{ending}: proven", proven, "%", wanted, at_least=True)
    yield figure("optima", f"golden optima{ending}: no plan found", count - len(gaps), "", 0)
    yield figure("optima", f"golden optima{ending}: mean gap", round(float(np.mean(gaps)), 4), "%", 0.02)
    yield figure("optima", f"golden optima{ending}: largest gap", round(max(gaps), 4), "%", largest)
    yield figure("optima", f"golden optima{ending}: a solve in the mean", round(taken / count, 3), "CPU s", seconds)


def frontier(name: str, seconds: float, everything: bool = False) -> Iterator[Record]:
    """A frontier of 40 budgets, and solves of some of them."""
    warm_up()
    graph, group = copy.deepcopy(graph_named(name)), f"frontier-{name}"
    begin = time.process_time()
    curve = ra.frontier(graph, points=BUDGETS)
    taken = round(time.process_time() - begin, 1)
    title = f"frontier of {name}, {BUDGETS} budgets"
    yield figure(group, title, taken, "CPU s", seconds, plans=len(curve.plans))
    budgets = even_limits(curve.plans[0].peak_memory, curve.base, BUDGETS)
    some = budgets if everything else budgets[len(budgets) // COMPARED // 2 :: len(budgets) // COMPARED]
    lost = {}
    for budget in some:
        alone, plan = ra.solve(copy.deepcopy(graph), budget), curve.best(budget)
        lost[budget] = 100 * (plan.overhead - alone.overhead) / graph.needed_compute
    worst = max(lost, key=lost.__getitem__)
    title = f"frontier of {name}: most above a solve of its own, at {len(some)} budgets"
    yield figure(group, title, round(lost[worst], 4), "points", 0.1, budget=round(100 * worst / curve.base, 1))


SUMMARIES: dict[str, Callable[..., Iterator[Record]]] = {
    "optima": optima,
    "frontier-resnet50": functools.partial(frontier, "resnet50", 10),
    "frontier-stable_diffusion_unet": functools.partial(frontier, "stable_diffusion_unet", 60),
}


def sums(records: Iterable[Mapping[str, Any]]) -> Iterator[Record]:
    """What the records of many networks come to, of those groups that are whole."""
    by_row = {record["row"]: record for record in records if "graph" in record}
    half = [by_row[name] for name in (f"{network}-50%" for network in SEVENTEEN) if name in by_row]
    if len(half) == len(SEVENTEEN) and all(record["feasible"] for record in half):
        mean = float(np.mean([record["overhead"] for record in half]))
        yield figure("sums", "mean overhead of the 17 networks at 50 %", round(mean, 3), "%", 3.44)
        bound = float(np.mean([record["bound"] for record in half]))
        yield figure("sums", "mean of their bounds", round(bound, 3), "%")
        near = sum(record["gap"] <= NEAR for record in half)
        yield figure("sums", f"of these at most {NEAR} points above their bound", near, "", 15, at_least=True)
    networks = ra.zoo.list_models()
    for ending, budget in (("50%", "50 %"), (f"{LOWEST_SHARE}%-or-floor", f"{LOWEST_SHARE} % or 1.1 times the floor")):
        zoo = [by_row[f"{network}-{ending}"] for network in networks if f"{network}-{ending}" in by_row]
        if len(zoo) < len(networks):
            continue
        possible = [record for record in zoo if record["feasible"] or not record["proven"]]
        solved = [record for record in zoo if record["feasible"]]
        share = round(100 * len(solved) / max(1, len(possible)), 1)
        title = f"{len(zoo)} networks at {budget}: solved of the {len(possible)} not proven impossible"
        yield figure("sums", title, share, "%", 100, at_least=True)
        mean = float(np.mean([record["overhead"] for record in solved]))
        yield figure("sums", f"mean overhead of these {len(solved)}", round(mean, 3), "%")


# ---------------------------------------------------------------- the tables


def cells(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Under `COLUMNS`, or under `FIGURES`."""
    mark = ", **missed**" if missed(record) else ""
    if "figure" in record:
        sign = "at least " if "at_least" in record else "at most "
        wanted = "" if record["wanted"] is None else f"{sign}{record['wanted']:g}{mark}"
        return record["figure"], f"{record['value']:g} {record['unit']}".strip(), wanted
    feasible = record["feasible"]
    return (
        record["graph"],
        f"{record['nodes']:,}",
        f"{record['budget']:g} %",
        f"{record['overhead']:.3f}" if feasible else "impossible" if record["proven"] else "none",
        f"{record['bound']:.3f}" if feasible else "",
        "" if not feasible else "optimal" if record["gap"] <= 100 * TOLERANCE else f"{record['gap']:.3f}",
        record["wanted"] + mark,
        f"{record['seconds']:.1f}",
        record.get("method", ""),
        record["effort"],
        record["note"],
    )


def is_whole(records: Iterable[Mapping[str, Any]]) -> bool:
    """Whether no row is missing, the slow ones apart."""
    groups = {record["row"].partition(":")[0] for record in records}
    return groups >= {row.name for row in ROWS if not row.slow} | SUMMARIES.keys()


def section(records: Sequence[Mapping[str, Any]], where: str) -> str:
    """The section of docs/benchmarks.md."""
    figures = [record for record in records if "figure" in record]
    late = sum(missed(record) for record in records)
    lines = [QUALITY, HEAD, f"Measured on {where}.", "", missed_line(late, len(records))]
    lines += ["", table(FIGURES, map(cells, figures))]
    return "\n".join(lines) + "\n"


def solves_table(solves: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of solves without the columns that only the terminal has."""
    shown = [(row[0], *row[2:-2]) for row in (COLUMNS, *map(cells, solves))]
    return table(shown[0], shown[1:])


def record_text(records: Sequence[Mapping[str, Any]], where: str) -> str:
    """Return all rows, and where they were measured."""
    solves = solves_table(record for record in records if "graph" in record)
    figures = table(FIGURES, (cells(record) for record in records if "figure" in record))
    return f"{solves}\n\n{figures}\n\nMeasured on {where} (`python -m pytest tests/benchmarks -k quality`).\n"


def aligned(row: Iterable[str], widths: Iterable[int]) -> str:
    """Cells of a table for the terminal."""
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def text(record: Mapping[str, Any], before: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """A line for the terminal."""
    columns = aligned(cells(record), FIGURE_WIDTHS if "figure" in record else WIDTHS)
    return columns + (f"  {compared(record, before)}" if before else "")


# ---------------------------------------------------------------- command line


def compared(record: Mapping[str, Any], before: Mapping[str, Mapping[str, Any]]) -> str:
    """The overhead and the seconds of an earlier run, and the points that were gained or lost."""
    old = before.get(record["row"])
    if old is None:
        return "not measured before"
    if "figure" in record:
        return f"before {old['value']:g}"
    seconds = f"{old['seconds']:.1f} s"
    if not old["feasible"] or not record["feasible"]:
        return f"before {old['overhead']:.3f} in {seconds}" if old["feasible"] else f"before none in {seconds}"
    return f"before {old['overhead']:.3f} in {seconds}, {record['overhead'] - old['overhead']:+.3f}"


def read_lines(path: Path) -> dict[str, Record]:
    """Records by row, of the lines that `--json` printed."""
    records = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {record["row"]: record for record in records if "row" in record}


def main(arguments: list[str] | None = None) -> int:
    """Measure rows; exit code 1 if one misses what is wanted."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.quality", description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", default="", help="graphs or rows, with commas between; shell patterns are allowed")
    parser.add_argument("--effort", choices=EFFORTS, help="for every row; by default the row's own")
    parser.add_argument("--solver", help="one solver in place of auto")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--time-limit", type=float, help="seconds of each solve")
    parser.add_argument("--alone", action="store_true", help="each solver alone, too; a row that one betters is missed")
    parser.add_argument("--all", action="store_true", help="the slow rows too")
    parser.add_argument("--json", action="store_true", help="a record per line")
    parser.add_argument("--before", type=Path, help="lines of an earlier run with --json, to compare with")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    words = parser.parse_args(arguments)
    options = {key: getattr(words, key) for key in ("solver", "seed", "time_limit") if getattr(words, key) is not None}
    before = read_lines(words.before) if words.before else {}
    try:
        rows = chosen([word.strip() for word in words.rows.split(",")] if words.rows else ["*"], words.all)
    except ValueError as error:
        parser.error(str(error))
    if words.list:
        print(*rows, sep="\n")
        return 0
    records: list[Record] = []
    if not words.json:
        print(aligned(COLUMNS, WIDTHS), flush=True)

    def show(record: Record) -> None:
        records.append(record)
        print(json.dumps(record) if words.json else text(record, before), flush=True)

    for row in rows:
        if isinstance(row, Row):
            record = measure(row, words.effort, **options)
            show(alone(record, words.time_limit) if words.alone else record)
        else:
            for each in SUMMARIES[row](everything=words.all):
                show(each)
    for each in sums(records):
        show(each)
    return int(any(map(missed, records)))


if __name__ == "__main__":
    sys.exit(main())
