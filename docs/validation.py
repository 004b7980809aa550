"""The page docs/validation.md and its figures, from what docs/results/validation_*.json hold.

Usage: python docs/validation.py

A test compares the page with what this script writes.
"""

import json
from pathlib import Path

import remat_algos as ra
from remat_algos.ir.units import format_bytes

DOCS = Path(__file__).resolve().parent
RESULTS = DOCS / "results"
HEAD = """# Plans run for real

What the judge says of a plan can be tried: `remat run` and `ra.validate` run every node of it with real arrays, on
NumPy or on a GPU, and compare.

```python
import remat_algos as ra

graph = ra.differentiate(ra.models.build("resnet", image=32, stages=(1, 1), batch=4).graph)
plan = ra.solve(graph, "50%")
found = ra.validate(graph, plan)
assert found.holds
assert found.measured_peak == found.predicted_peak
print(found)
```

Each node does integer work on all bytes that it reads (`SyntheticOperators`), so that a value that was freed too early,
written over, or made from the wrong inputs shows in a checksum. Held to the prediction are

- *bytes*: what the allocator has handed out while each step runs, to the byte, and with each request rounded up to 512
  as allocators of GPUs do. `residual` is measured minus predicted at each step, `first_difference` the first step at
  which they part;
- *values*: what is made again must be what it was at first, bit for bit; `mismatches` is 0 or names the node;
- *runs*: how often each node ran.

If all are as predicted, the verdict holds, and `remat run` ends with exit code 0, else 1. Beside it stand the bytes
that the pool had reserved (`pool_total`) with the interval that the model of CuPy's pool states beforehand, the memory
that the device itself counts (`device_peak`, in steps of 2 MiB, other processes included), and times: predicted from
what the operators cost on other sizes, measured as the median of some runs.

## On NumPy

The tests run every solver of the portfolio on twelve graphs, the three example graphs and nine networks of the
[zoo](zoo.md), with budgets of 90 %, 70 %, 50 % and 30 % and the least: all plans that there are take exactly the bytes
that were predicted at each step, and make every value again as it was. `remat run --packed` does it in one arena, every
value at its address. Times on NumPy are less sure: memory that the system hands out for the first time costs more than
memory that was used before. `python -m tests.benchmarks.gpu_validation --backend numpy --output -` says how near they
come.

## On a GPU

`python -m tests.benchmarks.gpu_validation` validates plans of all solvers on networks of all families, with peaks up to
40 GB, writes `docs/results/validation_<device>.json`, and `python docs/validation.py` this page.
`python -m pytest -m gpu` runs the tests that need a GPU; without one each of them says in a sentence what is missing.

"""
NOTHING = """**Nothing has been recorded on a GPU yet.** What is said of CuPy on these pages has been read in its source
and tried against stubs, not measured.
"""


def table(columns, rows):
    """A table in Markdown."""
    lines = ["| " + " | ".join(columns) + " |", "| " + " | ".join("---" for _ in columns) + " |"]
    return "\n".join([*lines, *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)])


def recorded():
    """(name of the file, what it holds) of every run on a GPU."""
    files = sorted(RESULTS.glob("validation_*.json"))
    found = [(file.stem, json.loads(file.read_text("utf-8"))) for file in files]
    return [(name, record) for name, record in found if record["backend"] == "cupy"]


def page(records):
    """The whole page."""
    if not records:
        return HEAD + NOTHING
    return HEAD + "\n".join(section(name, record) for name, record in records)


def section(name, record):
    """One device."""
    summary, results = record["summary"], record["validations"]
    versions = f"driver {record['driver'] or 'unknown'}, CUDA {cuda(record['cuda_driver'])} (driver) and "
    versions += f"{cuda(record['cuda_runtime'])} (runtime), CuPy {record['cupy']}, NumPy {record['numpy']}"
    near = summary["long_overheads_within_10_percent"], summary["long_overheads"]
    facts = [
        ("validations", summary["validations"]),
        ("as predicted", summary["hold"]),
        ("bytes apart, at most", f"{summary['bytes_apart']:,}"),
        ("runs with a value that was not the same", summary["mismatches"]),
        ("pool total inside the stated interval", of(summary["pool_inside"])),
        ("pool total exact at every step after replay", of(summary["replay_exact"])),
        ("same values as NumPy", of(summary["same_as_numpy"])),
        ("highest peak", format_bytes(summary["highest_peak"])),
        ("overhead within 10 % of the prediction, nodes of 100 us or more", of(near)),
        ("seconds for all", summary["seconds"]),
    ]
    return f"""### {record["device"]}

{format_bytes(record["memory"])}, {versions}, Python {record["python"]}.

{table(("measured", ""), facts)}

![Bytes and times on {record["device"]}](figures/{name}.svg)

{table(("family", "validations", "as predicted", "peaks", "reserved beyond used"), by("family", results))}

{table(("solver", "validations", "as predicted", "peaks", "reserved beyond used"), by("solver", results))}
"""


def by(key, results):
    """Rows for each family, or for each solver."""
    rows = []
    for name in sorted({result[key] for result in results}):
        some = [result for result in results if result[key] == name]
        peaks = sorted(result["measured_peak"] for result in some)
        beyond = max(result["fragmentation"] for result in some)
        spread = f"{format_bytes(peaks[0])} to {format_bytes(peaks[-1])}"
        rows.append((name, len(some), sum(result["holds"] for result in some), spread, f"up to {100 * beyond:.1f} %"))
    return rows


def of(counts):
    """So many of so many."""
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
    (DOCS / "validation.md").write_text(page(found), encoding="utf-8")
    for name, record in found:
        ra.save_picture(figure(record), DOCS / "figures" / f"{name}.svg")
