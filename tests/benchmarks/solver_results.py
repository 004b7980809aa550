"""What solvers find, recorded, so that a change of the package can be compared with what they found before.

    python -m tests.benchmarks.solver_results record OUT.json [--graphs standard|all] [--solvers a,b]
    python -m tests.benchmarks.solver_results compare BEFORE.json AFTER.json [--equal]
    python -m tests.benchmarks.solver_results compare BEFORE.json AFTER.json [--points AUTO SINGLE] [--share PERCENT]

`record` solves 30 graphs within 90, 70, 50 and 30 % and as low as possible: with "auto", and "auto_fast", which is
"auto" at effort "fast", on all of them, and with each solver of `list_solvers` alone, `raw` and polished, on the 12 of
`ALONE`. No time limit is set, so results do not depend on the machine, and the graphs are chosen so that all of it
takes less than 15 minutes on one core. `--graphs all` adds large graphs and runs each solver alone on all of them,
without polishing, too; there `exact_dp` and `exhaustive_lower_sets` have a time limit of 20 seconds, and results that
the limit cut short are recorded as not complete. `exhaustive_lower_sets` runs only on graphs with fewer than 40 forward
nodes. What a solver cannot solve is recorded with the reason. Graphs whose files are missing are left out. Nothing but
the public face of the package is used.

Each solve gets a new copy of the graph, so no solver profits from what another one computed before, and CPU seconds are
those of `solve` alone; a solve of less than half a second is repeated, and the lowest of three figures counts. Each
solver solves a small graph first, which loads its kernels.

`compare --equal` is for changes that must not change a result: it prints each result of which feasibility, peak,
compute, order or the peak reached differs, and each that takes more than 1.1 times the CPU seconds of before. A row is
compared in time if it gains more than 0.05 s: below that, the clock measures the machine. The sum of all rows may not
be above 1.0 times that of before, to two digits. Exit code 1 for any of these. Single rows want a machine that does
nothing else: of two records of the same code, made beside four processes on each of two cores, 34 of 1,155 rows were
above 1.1 times, up to 1.74, and the sum at 0.99.

Without `--equal`, `compare` prints a table of the solvers, and each result that is infeasible where it was feasible, or
worse by more than `--points` points of overhead (0.1 for auto, 0.5 for a solver alone) or `--share` percent of the
least peak (1). Exit code 1 if there are any, other than results that the time limit cut short in BEFORE: those differ
from run to run. Within a budget less compute is better, then a lower peak; for "least" a lower peak, then less compute;
where both are infeasible, the lower of the peaks reached. Either way, results that only one record has are counted.
"""

import argparse
import copy
import hashlib
import json
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import remat_algos as ra
from tests.benchmarks.layered_graphs import layered_graph

ROOT = Path(__file__).parents[2]
BESIDE = [folder / "shared" / "graphs" for folder in ROOT.resolve().parents]  # the repository, or one that holds it
PUBLISHED = next((folder for folder in BESIDE if folder.is_dir()), BESIDE[0])  # graphs of the lower-set authors
STANDARD, ALL = "standard", "all"
AUTO, LEAST = "auto", "least"
EFFORTS = {AUTO: "default", "auto_fast": "fast"}
BUDGETS = ("90%", "70%", "50%", "30%", LEAST)
EXAMPLES = ("unet", "lstm", "transformer")
ZOO = {
    STANDARD: ("vgg16", "resnet18", "resnet20", "mobilenet_v2", "googlenet", "vit_b_16"),
    ALL: ("resnet50", "resnet152", "densenet121", "unet", "nmt", "deepspeech2_gru", "resnet1001"),
}
LAYERED = {STANDARD: (12, 20, 50, 100), ALL: (500, 2500)}  # forward nodes
ONE_PASS = "one pass 50"  # a layered graph of 50 nodes that stays without gradients
AUTHORS = {STANDARD: ("vgg19", "unet", "resnet50"), ALL: ("googlenet",)}
GOLDEN = (
    "views.nodes.csv",
    "values.nodes.csv",
    "marks.nodes.csv",
    "residents.nodes.csv",
    "once.nodes.csv",
    "workspace.nodes.csv",
    "decimals.nodes.csv",
    "path.gr",
    "edges.txt",
    "whole.json",
    "block.dot",
    "short_cut.graphml",
    "cg_chain.txt",
)
ALONE = (
    *(f"golden {name}" for name in (*GOLDEN[:6], "path.gr", "cg_chain.txt")),
    *("example unet", "published vgg19", "layered 12", ONE_PASS),
)
SLOW = {"exact_dp": 20.0, "exhaustive_lower_sets": 20.0}  # time limits in seconds
NEARLY = 0.9  # of the time limit: who fails after that was cut short
MOST_FORWARD = {"exhaustive_lower_sets": 39}  # forward nodes of the graphs that it runs on
CUT_SHORT = " (cut short by the time limit)"
POINTS, SHARE = (0.1, 0.5), 1.0
EQUAL = ("feasible", "peak", "compute", "order", "reached")
ROW_RATIO, SUM_RATIO, NOISE = 1.1, 1.0, 0.05  # of CPU seconds; seconds
BRIEF, REPEATED = 0.5, 3  # a solve of fewer seconds, and how often it is run

Build = Callable[[], ra.ComputationGraph]
Row = dict[str, Any]
Key = tuple[str, str, str, bool]


# graphs


def graphs(which: str) -> dict[str, Build]:
    """Names, and functions that make the graphs, before differentiation."""
    sets = (STANDARD,) if which == STANDARD else (STANDARD, ALL)
    builds = {f"golden {name}": _file(ROOT / "tests" / "golden" / name) for name in GOLDEN}
    builds |= {f"example {name}": _file(ROOT / "examples" / "graphs" / f"{name}.nodes.csv") for name in EXAMPLES}
    builds[ONE_PASS] = partial(layered_graph, 50, 0.43, seed=0)
    for each in sets:
        builds |= {f"published {name}": _file(PUBLISHED / f"{name}.nodes.csv") for name in AUTHORS[each]}
        builds |= {f"layered {n}": _layered(n) for n in LAYERED[each]}
        builds |= {name: _model(name) for name in ZOO[each]}
    return builds


def _file(path: Path) -> Build:
    def read() -> ra.ComputationGraph:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ra.errors.GraphWarning)  # columns that are of no use here
            return ra.read_graph(path)

    return read


def _model(name: str) -> Build:
    return lambda: ra.zoo.build(name).graph


def _layered(n_nodes: int) -> Build:
    return lambda: ra.zoo.random.layered_dag(n_nodes, seed=0)


# record


def record(
    file: Path, builds: Mapping[str, Build], solvers: Iterable[str], *, alone: Collection[str] | None = None
) -> None:
    """Solve the graphs and write the results, after each graph all so far.

    Parameters
    ----------
    file : Path
        The record, written whole.
    builds : mapping
        Names, and functions that make the graphs.
    solvers : iterable of str
        Names of `list_solvers`, or those of `EFFORTS`.
    alone : collection of str, optional
        Graphs on which single solvers run, polished and without time limits; by default all, unpolished too, and within
        the limits of `SLOW`.
    """
    solvers = list(solvers)
    ways, limits = ((True, False), SLOW) if alone is None else ((True,), {})
    sizes: dict[str, Row] = {}
    rows: list[Row] = []
    warm_up = ra.differentiate(ra.zoo.random.chain(8))  # which every solver serves
    for solver in solvers:
        for budget in ("50%", LEAST):
            _solved(warm_up, solver, budget, True, None)
    for name, build in builds.items():
        try:
            forward = build()
        except (OSError, ra.RematError) as error:
            print(f"{name}: left out, {error}", flush=True)
            continue
        graph = forward if forward.is_training or name == ONE_PASS else ra.differentiate(forward)
        sizes[name] = {
            "nodes": graph.n_nodes,
            "memory": int(graph.memory.sum()),
            "compute": int(graph.compute.sum()),
        }
        before = len(rows)
        for solver in solvers:
            single = solver not in EFFORTS
            if single and (forward.n_nodes > MOST_FORWARD.get(solver, math.inf) or name not in (alone or builds)):
                continue
            for polished in ways if single else (True,):
                for budget in BUDGETS:
                    rows.append({"graph": name} | result(graph, solver, budget, polished, limits.get(solver)))
        _write(file, sizes, rows)
        seconds = sum(row["seconds"] for row in rows[before:])
        print(f"{name:<24}{graph.n_nodes:8,} nodes{len(rows) - before:6} results{seconds:10.2f} s of CPU", flush=True)
    _write(file, sizes, rows)


def result(
    graph: ra.ComputationGraph, solver: str, budget: str, polished: bool, time_limit: float | None = None
) -> Row:
    """One result; of "auto" with its defaults, which polish."""
    row = _solved(graph, solver, budget, polished, time_limit)
    for _ in range(1, REPEATED if row["seconds"] < BRIEF else 1):
        again = _solved(graph, solver, budget, polished, time_limit)
        row["seconds"] = min(row["seconds"], again["seconds"])
    return row


def _solved(graph: ra.ComputationGraph, solver: str, budget: str, polished: bool, limit: float | None) -> Row:
    options: dict[str, Any] = {"solver": solver, "raw": True, "polish": polished}
    if solver in EFFORTS:
        options = {"effort": EFFORTS[solver]}
    row: Row = {
        "solver": solver,
        "budget": budget,
        "polished": polished,
        "feasible": False,
        "peak": None,
        "compute": None,
        "overhead": None,  # percent of one pass
        "order": None,  # a hash
        "reached": None,  # bytes, where a solver says how low it came
        "reason": None,
        "complete": True,  # False: the time limit cut it short
    }
    fresh = copy.deepcopy(graph)  # without the arrays that were derived from it before
    started, begin = time.monotonic(), time.process_time()
    try:
        plan = ra.solve(fresh, budget, time_limit=limit, **options)
    except ra.RematError as error:
        seconds = time.process_time() - begin
        late = limit is not None and time.monotonic() - started > NEARLY * limit
        row |= {"reached": getattr(error, "reached", None), "reason": str(error), "complete": not late}
    else:
        seconds = time.process_time() - begin
        compute = plan.simulation.compute
        order = np.asarray(plan.schedule.order, "<i4").tobytes()
        row |= {
            "feasible": True,
            "peak": plan.peak_memory,
            "compute": compute,
            "overhead": round(100 * plan.overhead / max(1, compute - plan.overhead), 6),
            "order": hashlib.blake2b(order, digest_size=8).hexdigest(),
            "complete": limit is None or bool(plan.report.stop.complete),
        }
    return row | {"seconds": round(seconds, 4)}


def _write(file: Path, sizes: Mapping[str, Row], rows: Iterable[Row]) -> None:
    lines = ",\n".join(json.dumps(row) for row in rows)
    part = file.with_name(f"{file.name}.part")
    part.write_text(f'{{"graphs": {json.dumps(sizes)},\n"rows": [\n{lines}\n]}}\n', encoding="utf-8")
    os.replace(part, file)


# compare


def compare(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    *,
    points: tuple[float, float] = POINTS,
    share: float = SHARE,
) -> Iterator[Row]:
    """The results that are in both records, side by side.

    Parameters
    ----------
    before, after : mapping
        Records.
    points : (float, float)
        Points of overhead that a result of "auto", and of a solver alone, may lose.
    share : float
        Percent of the least peak that it may lose.

    Yields
    ------
    dict
        `before`, `after`; `order`, -1 if the result is better, 0 if equal, 1 if worse; `points` and `share` lost;
        `fault`, why it is not accepted, or "".

    Raises
    ------
    ValueError
        If a graph is not the same in both records, or they have no result in common.
    """
    for key, old, new in _pairs(before, after):
        lost_points, lost_share = _lost(old, new)
        fault = ""
        if old["feasible"] and not new["feasible"]:
            fault = "infeasible"
        elif lost_points > points[key[1] not in EFFORTS]:
            fault = f"{lost_points:.2f} points more overhead"
        elif lost_share > share:
            fault = f"peak {lost_share:.2f} % higher"
        if fault and not (old["complete"] and new["complete"]):
            fault += CUT_SHORT
        order = (_rank(old) < _rank(new)) - (_rank(new) < _rank(old))
        yield {
            "before": old,
            "after": new,
            "order": order,
            "points": lost_points,
            "share": lost_share,
            "fault": fault,
        }


def _pairs(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[Key, Row, Row]]:
    """The results that are in both records; ValueError as `compare` has it."""
    other = [name for name, size in before["graphs"].items() if after["graphs"].get(name, size) != size]
    if other:
        raise ValueError(f"not the same graph in both records: {', '.join(other)}")
    olds, news = _by_key(before), _by_key(after)
    pairs = [(key, old, news[key]) for key, old in olds.items() if key in news]
    if not pairs:
        raise ValueError("the records have no result in common")
    return pairs


def _key(row: Row) -> Key:
    return row["graph"], row["solver"], row["budget"], row["polished"]


def _by_key(record: Mapping[str, Any]) -> dict[Key, Row]:
    return {_key(row): row for row in record["rows"]}


def _reached(row: Row) -> float:
    return math.inf if row["reached"] is None else row["reached"]


def _rank(row: Row) -> tuple[float, ...]:
    """What comes first is better."""
    if not row["feasible"]:
        return 1, _reached(row)
    figures = (row["peak"], row["compute"])
    return 0, *(figures if row["budget"] == LEAST else figures[::-1])


def _lost(old: Row, new: Row) -> tuple[float, float]:
    """Points of overhead, and percent of the least peak; 0 where nothing is lost."""
    least = old["budget"] == LEAST
    if old["feasible"] and new["feasible"]:
        points = 0.0 if least and new["peak"] < old["peak"] else round(new["overhead"] - old["overhead"], 6)
        share = _percent(old["peak"], new["peak"]) if least else 0.0
        return max(0.0, points), max(0.0, share)
    if old["feasible"] or new["feasible"]:
        return 0.0, 0.0  # not a matter of more or less
    if old["reached"] is None:
        return 0.0, 0.0
    return 0.0, max(0.0, _percent(old["reached"], _reached(new)))


def _percent(old: float, new: float) -> float:
    return 100 * (new - old) / max(1, old)


def table(compared: Iterable[Row]) -> Iterator[str]:
    """A line for each solver, and one for all."""
    groups: dict[str, list[Row]] = {}
    for pair in compared:
        row = pair["before"]
        groups.setdefault(row["solver"] + ("" if row["polished"] else ", unpolished"), []).append(pair)
    counts, losses, times = (
        ("results", "better", "equal", "worse"),
        ("points", "% of peak"),
        ("CPU s", "after", "ratio"),
    )
    yield f"{'solver':<28}" + "".join(f"{title:>11}" for title in (*counts, *losses, *times, "same order"))
    groups["all"] = [pair for group in groups.values() for pair in group]
    for name, pairs in groups.items():
        orders = [pair["order"] for pair in pairs]
        before, after = (sum(pair[which]["seconds"] for pair in pairs) for which in ("before", "after"))
        same = sum(pair["before"]["order"] == pair["after"]["order"] is not None for pair in pairs)
        cells = (
            *(len(pairs), orders.count(-1), orders.count(0), orders.count(1)),
            *(f"{max(pair[lost] for pair in pairs):.3f}" for lost in ("points", "share")),
            *(f"{before:.1f}", f"{after:.1f}", f"{after / before:.2f}" if before else "-"),
            same,
        )
        yield f"{name:<28}" + "".join(f"{cell!s:>11}" for cell in cells)


def _figures(row: Row) -> str:
    if row["feasible"]:
        return f"peak {row['peak']:,} overhead {row['overhead']:.3f} %"
    return "infeasible" if row["reached"] is None else f"reached {row['reached']:,}"


def _absent(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """What only one of the records has, counted by solver and by graph."""
    keys = {"the first": set(_by_key(before)), "the second": set(_by_key(after))}
    for which, other in (("the first", "the second"), ("the second", "the first")):
        alone = keys[which] - keys[other]
        if alone:
            names = sorted({key[1] for key in alone}), sorted({key[0] for key in alone})
            yield f"{len(alone)} results only in {which}: {' and '.join(', '.join(each) for each in names)}"


def _name(key: Key) -> str:
    graph, solver, budget, polished = key
    return f"{graph}, {solver if polished else f'{solver}, unpolished'}, {budget}"


def report_equal(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Print which results differ, and which take longer; whether there are none, nor more seconds in sum."""
    pairs = _pairs(before, after)
    print(*_absent(before, after), sep="\n", end="\n" if [*_absent(before, after)] else "")
    different = [pair for pair in pairs if any(pair[1][field] != pair[2][field] for field in EQUAL)]
    for key, old, new in different:
        same = " by another order" if _figures(old) == _figures(new) else ""
        print(f"different: {_name(key)}: {_figures(old)} -> {_figures(new)}{same}")
    rows = [(key, old["seconds"], new["seconds"]) for key, old, new in pairs]
    slower = [row for row in rows if row[2] > ROW_RATIO * row[1] and row[2] - row[1] > NOISE]
    for key, old_seconds, new_seconds in slower:
        ratio = f"{new_seconds / old_seconds:.2f} x" if old_seconds else "from nothing"
        print(f"slower: {_name(key)}: {old_seconds:.2f} -> {new_seconds:.2f} s, {ratio}")
    old_sum, new_sum = sum(row[1] for row in rows), sum(row[2] for row in rows)
    ratio = round(new_sum / max(old_sum, 1e-4), 2)
    print(
        f"{len(pairs)} results: {len(different)} different, {len(slower)} above {ROW_RATIO} x the CPU seconds; "
        f"in sum {old_sum:.1f} -> {new_sum:.1f} s, {ratio:.2f} x"
    )
    return not different and not slower and ratio <= SUM_RATIO


def report(before: Mapping[str, Any], after: Mapping[str, Any], points: tuple[float, float], share: float) -> bool:
    """Print what `compare` finds; whether all of it is accepted."""
    compared = list(compare(before, after, points=points, share=share))
    print(*table(compared), *_absent(before, after), sep="\n")
    for pair in (pair for pair in compared if pair["fault"]):
        figures = f"{_figures(pair['before'])} -> {_figures(pair['after'])}"
        print(f"worse: {_name(_key(pair['before']))}: {pair['fault']}; {figures}")
    return not any(pair["fault"] and pair["before"]["complete"] for pair in compared)


# command line


def main(line: list[str] | None = None) -> int:
    """Record or compare; the exit code."""
    parser = argparse.ArgumentParser(prog="solver_results", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("file", type=Path)
    recording.add_argument("--graphs", choices=(STANDARD, ALL), default=STANDARD)
    recording.add_argument("--solvers", help="names separated by commas, auto and auto_fast among them; by default all")
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--equal", action="store_true", help="nothing may differ, nor take longer")
    comparing.add_argument("--points", type=float, nargs=2, default=POINTS, metavar=("AUTO", "SINGLE"))
    comparing.add_argument("--share", type=float, default=SHARE, metavar="PERCENT")
    arguments = parser.parse_args(line)
    if arguments.command == "compare":
        before, after = (json.loads(path.read_text(encoding="utf-8")) for path in (arguments.before, arguments.after))
        try:
            if arguments.equal:
                return 0 if report_equal(before, after) else 1
            return 0 if report(before, after, tuple(arguments.points), arguments.share) else 1
        except ValueError as error:
            parser.error(str(error))
    known = [*(solver.name for solver in ra.list_solvers()), *EFFORTS]
    solvers = arguments.solvers.split(",") if arguments.solvers else known
    if unknown := [name for name in solvers if name not in known]:
        parser.error(f"unknown solver {', '.join(unknown)}; use {', '.join(known)}")
    if not arguments.file.resolve().parent.is_dir():
        parser.error(f"there is no folder {arguments.file.parent}")
    record(arguments.file, graphs(arguments.graphs), solvers, alone=ALONE if arguments.graphs == STANDARD else None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
