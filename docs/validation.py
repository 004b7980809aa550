"""The page docs/validation.md and its figures, from what docs/results/validation_*.json and gpu_run_*.json hold.

Usage: python docs/validation.py

A test compares the page with what this script writes.
"""

import json
import sys
from pathlib import Path
from textwrap import fill

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import remat_algos as ra
from docs import gpu_parts
from remat_algos.text.units import format_bytes
from tests.benchmarks.occasion import Occasion

DOCS = Path(__file__).resolve().parent
RESULTS = DOCS / "results"
HEAD = """# Validation

The simulator's prediction can be checked: `remat run` and `ra.validate` execute every node of a plan with real arrays,
on NumPy or on a GPU, and compare.

```python
import remat_algos as ra

graph = ra.differentiate(ra.zoo.build("resnet", image=32, stages=(1, 1), batch=4).graph)
plan = ra.solve(graph, "50%")
found = ra.validate(graph, plan)
assert found.holds
assert found.measured_peak == found.predicted_peak
print(found)
```

Each node does integer work on all bytes that it reads (`SyntheticOperators`), so that a value that was freed too early,
overwritten, or computed from the wrong inputs changes a checksum. Three things are compared with the prediction:

- *bytes*: what the allocator has handed out while each step runs, to the byte, and with each request rounded up to 512
  as GPU allocators do. The prediction is computed from graph and order, not from the lifetimes by which the run frees,
  so a wrong lifetime is detected. `residual` is measured minus predicted at each step, `first_difference` the first
  step at which they differ;
- *values*: a recomputed value must be bit-identical to the original; `mismatches` is 0 or names the node;
- *runs*: how often each node ran.

"To the byte" refers to values and workspaces. Temporary arrays that NumPy allocates inside an operator are not counted;
on a GPU those that operators allocate from CuPy come from the same pool, and are counted in the rounded bytes.

## What is detected, and what is not

`validate` checks before and after each step that the values read are still what was made; it fills each allocation with
a different byte, and overwrites what is freed, and each workspace before the results of its node are summed up. With
`arena=True` the schedule is executed a second time without an arena, and every instance of every value must have the
same checksum. So each of these makes `holds` false: two overlapping buffers that are needed at the same time, be they
values, results of one node or workspaces; an operator that overwrites what it reads, even if no later node reads it; a
recomputed value that differs; an output lost before the end; an array that is kept too long; bytes that an operator
never writes, if its node is recomputed or with `arena`.

Not detected are bytes that are overwritten by equal ones, values whose 32-bit checksums agree by chance, residents that
an operator changes and should not, and operators that make the same wrong value each time: `validate` knows what was
made, not what should have been made. In an arena, an array or a view that an operator keeps beyond its call is not
counted; it is detected only if it is read after its bytes have changed. On NumPy without `arena` it counts as live.
`execute` alone, without `checking` (on by default in an arena) and without another run to compare with
(`Execution.differs_from`), detects less: recomputed values that differ, and lost outputs.

If everything is as predicted, the validation passes, and `remat run` ends with exit code 0, otherwise 1. It also
reports the bytes that the pool had reserved (`pool_total`) with the interval that the model of CuPy's pool predicts,
the memory that the device itself counts (`device_peak`, in steps of 2 MiB, other processes included), and times:
predicted from the cost of the operators on other sizes, measured as the median of several runs; on a GPU the time of a
step is that of its kernels, after a pause in which they are launched.

With [operators of your own](operators.md), `time_predicted` is the sum over all runs of the time that the first run of
the node took in the same timed runs. It contains measured times, so only `overhead_predicted` is a prediction there.

## On NumPy

The tests run every solver on twelve graphs, the three example graphs and nine networks of the [zoo](zoo.md), with
budgets of 90 %, 70 %, 50 % and 30 % and the lowest peak (`exhaustive_lower_sets` where the graph is small enough). All
plans take exactly the predicted bytes at each step, and every recomputed value is bit-identical. `remat run --arena`
executes in one arena, every value at a fixed address.

Times on NumPy are predicted less well: the cost of a word depends on the cache that it is in, and memory that the
system provides for the first time costs more than memory that was used before.
"""
ON_GPU = """
## On a GPU

`python -m tests.benchmarks.gpu_validation` validates plans of all solvers on networks of all families, with peaks up to
40 GB, writes `docs/results/validation_<device>.json`, and `python docs/validation.py` this page. Its exit code is 1 if
a claim fails: all as predicted, the pool's total equal to the prediction where no tie leaves it open and exact after
replay everywhere, values as on NumPy, at least 100 validations, a peak of 40 GB. Two targets only inform: the pool's
total inside the predicted interval where there are ties, and nine in ten long overheads within 10 %.

`python -m pytest -m gpu` runs the tests that need a GPU; without one, each is skipped with the reason.

"""
NOTHING = """**Nothing has been recorded on a GPU yet.** Statements about CuPy on these pages come from its source, from
tests against stubs and, by hand, from CuPy 14.2 itself on a device emulated by a processor; none was measured on a GPU.
"""


def table(columns, rows):
    """A table in Markdown."""
    lines = ["| " + " | ".join(columns) + " |", "| " + " | ".join("---" for _ in columns) + " |"]
    return "\n".join([*lines, *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)])


def recorded(pattern="validation_*.json"):
    """(name of the file, what it holds) of every run."""
    files = sorted(RESULTS.glob(pattern))
    return [(file.stem, json.loads(file.read_text("utf-8"))) for file in files]


def on_gpu(records):
    """Those on a GPU."""
    return [(name, record) for name, record in records if record["backend"] == "cupy"]


def page(records, runs=()):
    """The whole page: of validations, and of runs in parts."""
    here = [times(record) for _, record in records if record["backend"] == "numpy"]
    sections = [section(name, record) for name, record in on_gpu(records)]
    return HEAD + "".join(here) + ON_GPU + ("\n".join(sections) or NOTHING) + gpu_parts.section(runs, table)


def times(record):
    """How well times were predicted on NumPy, and beside what."""
    summary = record["summary"]
    near = of((summary["long_overheads_within_10_percent"], summary["long_overheads"]))
    half, held = summary["long_overheads_median_apart"], of((summary["hold"], summary["validations"]))
    absent = {words.partition(":")[0] for words in summary["skipped"]} - {r["solver"] for r in record["validations"]}
    named = " and ".join(f"`{name}`" for name in sorted(absent))
    without = f" There is no plan of {named}, which served no network that was tried." if absent else ""
    said = (
        f"In one run, `{record['measured_on']['command']}`, {held} plans passed, of {summary['solvers']} solvers on "
        f"{summary['networks']} networks.{without} {near} overheads of a millisecond "
        f"and more, in nodes of 100 us and more, were within 10 % of the predicted time, half of them within "
        f"{100 * half:.0f} %. Such shares depend on what else the machine does: it was {occasion(record)}."
    )
    return f"\n{fill(said, 120, break_on_hyphens=False, break_long_words=False)}\n"


def occasion(record):
    """When and where it was measured, in words."""
    fields = {name: value for name, value in record["measured_on"].items() if name != "command"}
    return str(Occasion(**fields))


def section(name, record):
    """One device."""
    summary, results = record["summary"], record["validations"]
    versions = f"driver {record['driver'] or 'unknown'}, CUDA {cuda(record['cuda_driver'])} (driver) and "
    versions += f"{cuda(record['cuda_runtime'])} (runtime), CuPy {record['cupy']}, NumPy {record['numpy']}"
    targets = [
        (
            name.replace("_", " "),
            f"{aim['at_least']:,}",
            f"{aim['found']:,}",
            aim["outcome"],
            "yes" if aim["claim"] else "no",
        )
        for name, aim in summary.get("targets", {}).items()
    ]
    near = summary["long_overheads_within_10_percent"], summary["long_overheads"]
    facts = [
        ("validations", summary["validations"]),
        ("as predicted", summary["hold"]),
        ("bytes apart, at most", f"{summary['bytes_apart']:,}"),
        ("runs with a value that was not the same", summary["mismatches"]),
        ("pool total inside the stated interval", of(summary["pool_inside"])),
        ("pool total as stated where no tie leaves it open", of(summary["pool_known"])),
        ("pool total exact at every step after replay", of(summary["replay_exact"])),
        ("same values as NumPy", of(summary["same_as_numpy"])),
        ("highest peak", format_bytes(summary["highest_peak"])),
        ("overhead within 10 % of the prediction, nodes of 100 us or more", of(near)),
        ("seconds for all", summary["seconds"]),
    ]
    return f"""### {record["device"]}

{format_bytes(record["memory"])}, {versions}, Python {record["python"]}; measured on {occasion(record)}.

{table(("measured", ""), facts)}

{table(("target", "at least", "found", "outcome", "claim"), targets)}

![Bytes and times on {record["device"]}](figures/{name}.svg)

{table(("network", "validations", "as predicted", "peaks", "reserved beyond used"), by("network", results))}

{table(("solver", "validations", "as predicted", "peaks", "reserved beyond used"), by("solver", results))}
"""


def by(key, results):
    """Rows for each network, or for each solver."""
    rows = []
    for name in sorted({result[key] for result in results}):
        some = [result for result in results if result[key] == name]
        peaks = sorted(result["measured_peak"] for result in some)
        beyond = max(result["fragmentation"] for result in some)
        spread = f"{format_bytes(peaks[0])} to {format_bytes(peaks[-1])}"
        rows.append((name, len(some), sum(result["holds"] for result in some), spread, f"up to {100 * beyond:.1f} %"))
    return rows


def of(counts):
    """m of n."""
    return f"{counts[0]} of {counts[1]}"


def cuda(number):
    """13000 is 13.0."""
    return f"{number // 1000}.{number % 1000 // 10}"


def figure(record):
    """Bytes and times, as predicted across, as measured upwards."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(10, 4.4), layout="constrained")
    results = record["validations"]
    pairs = (
        ("bytes used at the peak", "predicted_peak", "measured_peak"),
        ("seconds of all operators", "time_predicted", "time_measured"),
    )
    for ax, (what, predicted, measured) in zip(drawn.subplots(1, 2), pairs, strict=True):
        some = [result for result in results if result[predicted] and result[measured]]
        x, y = ([result[key] for result in some] for key in (predicted, measured))
        ax.plot(x, y, "o", markersize=4, color="#0072B2")
        if x:
            ax.plot([min(x), max(x)], [min(x), max(x)], color="black", linewidth=0.8)
        ax.set(xscale="log", yscale="log", title=what, xlabel="predicted", ylabel="measured")
    return drawn


if __name__ == "__main__":
    found = recorded()
    runs = [run for _, run in recorded("gpu_run_*.json")]
    (DOCS / "validation.md").write_text(page(found, runs), encoding="utf-8")
    for name, record in on_gpu(found):
        ra.plot.save(figure(record), DOCS / "figures" / f"{name}.svg")
