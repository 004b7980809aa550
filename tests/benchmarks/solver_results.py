"""What every solver finds, recorded, so that a change of the solvers can be compared with what they found before.

    python -m tests.benchmarks.solver_results record OUT.json [--graphs small|all] [--solvers a,b]
    python -m tests.benchmarks.solver_results compare BEFORE.json AFTER.json [--points AUTO SINGLE] [--share PERCENT]

`record` solves each graph within each budget: with each solver of `list_solvers` alone, `raw` and polished, and with
"auto" and its defaults. "all" adds large graphs, the golden files of the tests, more budgets, and each solver alone
without polishing. `exact_dp` and `exhaustive_lower_sets` have a time limit of 20 seconds, so their results may depend
on the machine; those that the limit cut short are recorded as not complete. `exhaustive_lower_sets` runs only on graphs
with fewer than 40 forward nodes. What a solver cannot solve is recorded with the reason. Graphs whose files are missing
are left out. Nothing but the public face of the package is used.

Each solve gets a new copy of the graph, so no solver profits from what another one computed before, and CPU seconds are
those of `solve` alone. Each solver solves a small graph first, which loads its kernels.

`compare` prints a table of the solvers, and each result that is infeasible where it was feasible, or worse by more than
`--points` points of overhead (0.1 for auto, 0.5 for a solver alone) or `--share` percent of the least peak (1). Exit
code 1 if there are any, other than results that the time limit cut short in BEFORE: those differ from run to run.
Within a budget less compute is better, then a lower peak; for "least" a lower peak, then less compute; where both are
infeasible, the lower of the peaks reached. Results that only one record has are counted.
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
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import remat_algos as ra

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT.resolve().parent / "shared" / "graphs"  # of the lower-set authors; it lies beside the repository
SMALL, ALL = "small", "all"
AUTO, LEAST = "auto", "least"
BUDGETS = {SMALL: ("70%", "50%", LEAST), ALL: ("90%", "70%", "50%", "30%", LEAST)}
ZOO = {
    SMALL: ("resnet18", "resnet50", "resnet152", "mobilenet_v2", "googlenet", "vit_b_16", "unet", "densenet121"),
    ALL: ("nmt", "deepspeech2_gru", "resnet1001"),
}
LAYERED = {SMALL: (500,), ALL: (2500,)}  # forward nodes
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
SLOW = {"exact_dp": 20.0, "exhaustive_lower_sets": 20.0}  # time limits in seconds
NEARLY = 0.9  # of the time limit: who fails after that was cut short
MOST_FORWARD = {"exhaustive_lower_sets": 39}  # forward nodes of the graphs that it runs on
CUT_SHORT = " (cut short by the time limit)"
POINTS, SHARE = (0.1, 0.5), 1.0

Build = Callable[[], ra.ComputationGraph]
Row = dict[str, Any]
Key = tuple[str, str, str, bool]


# graphs


def graphs(which: str) -> dict[str, Build]:
    """Names, and functions that make the graphs, before differentiation."""
    folder = ROOT / "examples" / "graphs"
    builds = {f"example {name}": _file(folder / f"{name}.nodes.csv") for name in ("unet", "lstm", "transformer")}
    for name in ("vgg19", "unet", "resnet50", "googlenet"):
        builds[f"published {name}"] = _file(PUBLISHED / f"{name}.nodes.csv")
    for group in (SMALL,) if which == SMALL else (SMALL, ALL):
        builds |= {name: _model(name) for name in ZOO[group]}
        builds |= {f"layered {n}": _layered(n) for n in LAYERED[group]}
    if which == ALL:
        builds |= {f"golden {name}": _file(ROOT / "tests" / "golden" / name) for name in GOLDEN}
    return builds


def _file(path: Path) -> Build:
    def read() -> ra.ComputationGraph:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ra.errors.GraphWarning)  # columns that are of no use here
            return ra.read_graph(path)

    return read


def _model(name: str) -> Build:
    return lambda: ra.models.build(name).graph


def _layered(n_nodes: int) -> Build:
    return lambda: ra.models.random.layered_dag(n_nodes, seed=0)


# record


def record(
    file: Path, builds: Mapping[str, Build], solvers: Iterable[str], budgets: Iterable[str], *, unpolished: bool = False
) -> None:
    """Solve the graphs and write the results, after each graph all so far.

    Parameters
    ----------
    file : Path
        The record, written whole.
    builds : mapping
        Names, and functions that make the graphs.
    solvers : iterable of str
        Names of `list_solvers`, or "auto".
    budgets : iterable of str
        Shares of the peak without rematerialization, or "least".
    unpolished : bool
        Whether to run each solver alone without polishing, too.
    """
    solvers, budgets = list(solvers), list(budgets)
    sizes: dict[str, Row] = {}
    rows: list[Row] = []
    _warm_up(solvers, budgets)
    for name, build in builds.items():
        try:
            forward = build()
        except (OSError, ra.RematError) as error:
            print(f"{name}: left out, {error}", flush=True)
            continue
        graph = forward if forward.is_training else ra.differentiate(forward)
        sizes[name] = {
            "nodes": graph.n_nodes,
            "memory": int(graph.memory.sum()),
            "compute": int(graph.compute.sum()),
        }
        before = len(rows)
        for solver in solvers:
            if forward.n_nodes > MOST_FORWARD.get(solver, math.inf):
                continue
            for polished in (True, False) if unpolished and solver != AUTO else (True,):
                for budget in budgets:
                    rows.append({"graph": name} | result(graph, solver, budget, polished))
        _write(file, sizes, rows)
        seconds = sum(row["seconds"] for row in rows[before:])
        print(f"{name:<24}{graph.n_nodes:8,} nodes{len(rows) - before:6} results{seconds:10.2f} s of CPU", flush=True)
    _write(file, sizes, rows)


def _warm_up(solvers: Iterable[str], budgets: Iterable[str]) -> None:
    graph = ra.differentiate(_layered(10)())
    for solver in solvers:
        for budget in budgets:
            result(graph, solver, budget, polished=True)


def result(graph: ra.ComputationGraph, solver: str, budget: str, polished: bool) -> Row:
    """One result; of "auto" with the defaults, which polish."""
    options: dict[str, Any] = {} if solver == AUTO else {"raw": True, "polish": polished}
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
    limit = SLOW.get(solver)
    started, begin = time.monotonic(), time.process_time()
    try:
        plan = ra.solve(fresh, budget, solver=solver, time_limit=limit, **options)
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
            "complete": bool(plan.details.get("complete", True)),
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
    other = [name for name, size in before["graphs"].items() if after["graphs"].get(name, size) != size]
    if other:
        raise ValueError(f"not the same graph in both records: {', '.join(other)}")
    olds, news = _by_key(before), _by_key(after)
    if not olds.keys() & news.keys():
        raise ValueError("the records have no result in common")
    for key in (key for key in olds if key in news):
        old, new = olds[key], news[key]
        lost_points, lost_share = _lost(old, new)
        fault = ""
        if old["feasible"] and not new["feasible"]:
            fault = "infeasible"
        elif lost_points > points[key[1] != AUTO]:
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


def report(before: Mapping[str, Any], after: Mapping[str, Any], points: tuple[float, float], share: float) -> bool:
    """Print what `compare` finds; whether all of it is accepted."""
    compared = list(compare(before, after, points=points, share=share))
    print(*table(compared), *_absent(before, after), sep="\n")
    for pair in (pair for pair in compared if pair["fault"]):
        graph, solver, budget, polished = _key(pair["before"])
        name = solver if polished else f"{solver}, unpolished"
        figures = f"{_figures(pair['before'])} -> {_figures(pair['after'])}"
        print(f"worse: {graph}, {name}, {budget}: {pair['fault']}; {figures}")
    return not any(pair["fault"] and pair["before"]["complete"] for pair in compared)


# command line


def main(line: list[str] | None = None) -> int:
    """Record or compare; the exit code."""
    parser = argparse.ArgumentParser(prog="solver_results", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("file", type=Path)
    recording.add_argument("--graphs", choices=(SMALL, ALL), default=SMALL)
    recording.add_argument("--solvers", help="names separated by commas, of which auto may be one; by default all")
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--points", type=float, nargs=2, default=POINTS, metavar=("AUTO", "SINGLE"))
    comparing.add_argument("--share", type=float, default=SHARE, metavar="PERCENT")
    arguments = parser.parse_args(line)
    if arguments.command == "compare":
        before, after = (json.loads(path.read_text(encoding="utf-8")) for path in (arguments.before, arguments.after))
        try:
            return 0 if report(before, after, tuple(arguments.points), arguments.share) else 1
        except ValueError as error:
            parser.error(str(error))
    known = [*(solver.name for solver in ra.list_solvers()), AUTO]
    solvers = arguments.solvers.split(",") if arguments.solvers else known
    if unknown := [name for name in solvers if name not in known]:
        parser.error(f"unknown solver {', '.join(unknown)}; use {', '.join(known)}")
    if not arguments.file.resolve().parent.is_dir():
        parser.error(f"there is no folder {arguments.file.parent}")
    record(
        arguments.file, graphs(arguments.graphs), solvers, BUDGETS[arguments.graphs], unpolished=arguments.graphs == ALL
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
