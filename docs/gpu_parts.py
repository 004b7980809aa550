"""The section "Ten minutes of a GPU" of docs/validation.md, from what docs/results/gpu_run_*.json hold."""

from remat_algos.text.units import format_bytes

BUSY = 0.5  # load average from which on the machine was shared
HEAD = """
## Ten minutes of a GPU

`python -m tests.benchmarks.gpu_run` checks in ten minutes what these pages cannot say without a GPU, the most valuable
first, each part in a process of its own. Results are written as they come, so a run that is cut off keeps them.
`--backend numpy` runs the same parts, scaled down, on the CPU.

"""
PARTS = {
    "small": "20 small plans: bytes beside CuPy's pool, values as on NumPy",
    "networks": "ResNet-50, U-Net, GPT-2 of 64 GB within 70, 50 and 35 %: bytes, time beside prediction",
    "torch": "GPT, ResNet-50, U-Net trained by PyTorch at a 50 % budget: the allocator's peak, the time of a step",
    "calibrate": "rates of the card and its link, saved as a device file",
    "copies": "bandwidth of the link in both directions at once; the networks with copies, beside their timelines",
}
MISSING = """
On the processors there is no pool, no link and no stream: kernels take the time of NumPy, copies that of an assumed
link, and PyTorch's copies are synchronous. **What a GPU has yet to show**: whether CuPy's pool holds
what is predicted at 64 GB, how near times on a GPU come to their predictions, what PyTorch's caching allocator adds to
the predicted peak, how long a step within half of the memory takes beside eager PyTorch and `activation_memory_budget`
on a GPU, and whether copies hide behind compute as the timeline has it.
"""


def section(records, table):
    """The whole section; `table` writes one."""
    by = {record["backend"]: record for record in records}
    rows = [(name, what, _ran(by.get("numpy"), name), _ran(by.get("cupy"), name)) for name, what in PARTS.items()]
    text = HEAD + table(("part", "what it settles", "on the processors", "on a GPU"), rows) + "\n"
    for record in records:
        text += "\n".join(["", *_found(record, table)])
    return text + ("" if "cupy" in by else MISSING)


def _ran(record, name):
    if record is None:
        return "not run"
    part = record["parts"][name]
    return f"{part['outcome'].replace('|', '/')}, {part['seconds']:.0f} s"


def _found(record, table):
    """Write what each part of a run has found."""
    on = record["measured_on"]
    loads = [part["measured_on"]["load"] for part in record["parts"].values() if part["measured_on"]]
    where = "On a GPU" if record["backend"] == "cupy" else "On the processors"
    about = f"{on['date']}, commit {on['commit']}, {on['processor']}, {on['cores']} cores"
    yield f"### {where}"
    yield ""
    busy = "; other processes ran beside it, so times say little" if max(loads) > BUSY else ""
    yield f"{about}; load average {max(loads):.1f} before{busy}."
    yield ""
    parts = {name: part["records"] for name, part in record["parts"].items()}
    small = [r for r in parts["small"] if "holds" in r]
    if small:
        held = f"{sum(r['holds'] for r in small)} of {len(small)}"
        yield f"{held} small plans took the predicted bytes at every step, with equal values in all runs.{_pool(small)}"
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
