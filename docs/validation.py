"""The marked parts of docs/validation.md and its figures, from docs/results/validation_*.json and gpu_run_*.json.

Usage: python docs/validation.py

A test compares the page with what this script writes.
"""

import json
import sys
from functools import reduce
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import remat_algos as ra
from docs.page_parts import filled, table
from docs.reproductions.page import wrapped
from remat_algos.wording import format_bytes
from tests.benchmarks.occasion import Occasion

DOCS = Path(__file__).resolve().parent
RESULTS, PAGE = DOCS / "results", DOCS / "validation.md"
BUSY = 0.5  # load average from which on the machine was shared
PARTS = {
    "small": "20 small plans: bytes, CuPy's pool, values as on NumPy",
    "networks": "ResNet-50, U-Net, GPT-2 of 64 GB within 70, 50 and 35 %: bytes, predicted and measured time",
    "torch": "GPT, ResNet-50, U-Net trained by PyTorch at a 50 % budget: the allocator's peak, the time of a step",
    "calibrate": "rates of the card and its link, saved as a device file",
    "copies": "bandwidth of the link in both directions at once; predicted and measured time of plans with copies",
}
MISSING = """
On the CPU there is no pool, no link and no stream: kernels take the time of NumPy, copies the time of an assumed link.
**A GPU has yet to show** whether CuPy's pool holds the predicted bytes at 64 GB, how close times come to their
predictions, what PyTorch's caching allocator adds to the predicted peak, how long a step within half of the memory
takes compared with eager PyTorch and `activation_memory_budget`, and whether copies are hidden by compute as the
timeline predicts.
"""
NOTHING = """**Nothing has been recorded on a GPU yet.** Statements about CuPy on these pages come from its source, from
tests against stubs and, by hand, from CuPy 14.2 itself on a device emulated by a processor; none was measured on a GPU.
"""


def recorded(pattern="validation_*.json"):
    """(name of the file, what it holds) of every run."""
    files = sorted(RESULTS.glob(pattern))
    return [(file.stem, json.loads(file.read_text("utf-8"))) for file in files]


def on_gpu(records):
    """Those on a GPU."""
    return [(name, record) for name, record in records if record["backend"] == "cupy"]


def page(records, runs=()):
    """The page with what is recorded: of validations, and of runs in parts."""
    parts = {
        "numpy": "\n".join(times(record) for _, record in records if record["backend"] == "numpy"),
        "gpu": "\n".join(section(name, record) for name, record in on_gpu(records)) or NOTHING,
        "parts": in_parts(runs),
    }
    return reduce(lambda text, part: filled(text, *part), parts.items(), PAGE.read_text("utf-8"))


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
    return f"{wrapped(said)}\n"


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


def in_parts(records):
    """What runs in parts have found, on the processors and on a GPU."""
    by = {record["backend"]: record for record in records}
    rows = [(name, what, _ran(by.get("numpy"), name), _ran(by.get("cupy"), name)) for name, what in PARTS.items()]
    text = table(("part", "what it checks", "on the CPU", "on a GPU"), rows) + "\n"
    for record in records:
        text += "\n".join(["", *_found(record)])
    return text + ("" if "cupy" in by else MISSING)


def _ran(record, name):
    if record is None:
        return "not run"
    part = record["parts"][name]
    return f"{part['outcome'].replace('|', '/')}, {part['seconds']:.0f} s"


def _found(record):
    """Write what each part of a run has found."""
    on = record["measured_on"]
    loads = [part["measured_on"]["load"] for part in record["parts"].values() if part["measured_on"]]
    where = "On a GPU" if record["backend"] == "cupy" else "On the CPU"
    about = f"{on['date']}, commit {on['commit']}, {on['processor']}, {on['cores']} cores"
    yield f"### {where}"
    yield ""
    busy = "; other processes ran, so times mean little" if max(loads) > BUSY else ""
    yield f"{about}; load average {max(loads):.1f} before{busy}."
    yield ""
    parts = {name: part["records"] for name, part in record["parts"].items()}
    small = [r for r in parts["small"] if "holds" in r]
    if small:
        held = f"{sum(r['holds'] for r in small)} of {len(small)}"
        yield f"{held} small plans took the predicted bytes at every step, with equal values in all runs.{_pool(small)}"
    if record["backend"] == "numpy":
        runs = [row for row in parts["networks"] if "network" in row]
        yield f"So did {sum(row['holds'] for row in runs)} of {len(runs)} runs of networks."
        return
    for shown, rows in ((_network, parts["networks"]), (_trained, parts["torch"]), (_copied, parts["copies"])):
        cells = [shown(row) for row in rows]
        some = [row for row in cells if row is not None]
        if some:
            yield ""
            yield table(list(some[0]), [row.values() for row in some])
    yield from _rates(parts)


def _pool(rows):
    """Say how many pools had the predicted total, and how many values are those of NumPy; "" where there is no pool."""
    known = [row["pool_inside"] for row in rows if row["pool_known"] and row["pool_inside"] is not None]
    same = [row["same_as_numpy"] for row in rows if row["same_as_numpy"] is not None]
    if not known and not same:
        return ""
    return (
        f" Of {len(known)} pools without ties {sum(known)} had the predicted total; {sum(same)} of {len(same)} had the "
        "values of NumPy."
    )


def _network(row):
    if "network" not in row:
        return None
    return {
        "network": row["network"].partition(",")[0],
        "budget": row["budget"],
        "nodes": row["nodes"],
        "peak": format_bytes(row["measured_peak"]),
        "as predicted": "yes" if row["holds"] else "no",
        "overhead, predicted": _ms(row["long_overhead_predicted"]),
        "overhead, measured": _ms(row["long_overhead_measured"]),
    }


def _trained(row):
    if "model" not in row:
        return None
    if "error" in row:
        return dict(zip(_TRAINED, (row["model"], row["method"], "", f"none: {row['error']}", "", ""), strict=True))
    way = row["method"] + (f" {row['share']:.3g}" if "activation" in row["method"] else "")
    way += " (its least peak is above ours)" if row.get("reaches_peak") is False else ""
    predicted = format_bytes(row["predicted_peak"]) if "predicted_peak" in row else ""
    longer = f"{row['slowdown']:.2f}" if "slowdown" in row else ""
    peak = format_bytes(row["peak"]) + (f", reserved {format_bytes(row['reserved'])}" if "reserved" in row else "")
    cells = row["model"], way, predicted, peak, _ms(row["seconds"]), longer
    return dict(zip(_TRAINED, cells, strict=True))


_TRAINED = "model", "method", "peak, predicted", "peak of the allocator", "step", "slowdown"


def _copied(row):
    if "network" not in row:
        return None
    return {
        "network with copies": row["network"],
        "budget": row["budget"],
        "loads": row["loads"],
        "bytes as predicted": "yes" if row["bytes_as_predicted"] else "no",
        "one pass, predicted": _ms(row["one_pass_predicted"]),
        "one pass, measured": _ms(row["one_pass_measured"]),
        "plan, predicted": _ms(row["plan_predicted"]),
        "plan, measured": _ms(row["plan_measured"]),
    }


def _rates(parts):
    """The card's rates, and those of its link."""
    for device in parts["calibrate"]:
        flops = ", ".join(f"{rate / 1e12:.3g} TFLOP/s in {dtype}" for dtype, rate in device["flops"].items())
        yield ""
        memory = f"{device['bandwidth'] / 1e9:.0f} GB/s, {1e6 * device['launch']:.1f} us a launch"
        yield f"{device['name']}: {flops}, {memory}."
    for row in parts["copies"]:
        if "each_of_both" in row:
            out, into, both = (row[key] / 1e9 for key in ("out", "into", "each_of_both"))
            yield f"Its link: {out:.1f} GB/s out, {into:.1f} GB/s into, each {both:.1f} GB/s while the other runs."


def _ms(seconds):
    return f"{1000 * seconds:,.1f} ms"


if __name__ == "__main__":
    found = recorded()
    runs = [run for _, run in recorded("gpu_run_*.json")]
    PAGE.write_text(page(found, runs), encoding="utf-8")
    for name, record in on_gpu(found):
        ra.plot.save(figure(record), DOCS / "figures" / f"{name}.svg")
