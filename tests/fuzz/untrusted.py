"""Our own JSON files with one part that no writer writes: a result, or an error in one sentence, in time."""

import json
import tempfile
import time
import traceback
from functools import cache
from pathlib import Path

import remat_algos as ra
from remat_algos.cost.devices import get_device
from remat_algos.sweeps import read_jobs
from remat_algos.sweeps.folder import SweepFolder, driving

UNIT = "documents"
BATCH = 20
MOST_SECONDS = 5.0
STRANGE = (
    *("1e400", "-1e400", "NaN", "Infinity", "9" * 5000, "1" + "0" * 18, "-0", "0.1e-400", "1.0", "2.5"),
    *("[" * 100_000, "[" * 9000 + "]" * 9000, '{"x":' * 300 + "1" + "}" * 300, "[" * 40 + "]" * 40),
    *('"\\ud800"', '"\\u0000"', '"=1+1"', '"' + "a" * 10_000 + '"', '{"x": 1, "x": 2}', '{"": {}}'),
    *("null", "true", "[]", "{}", '""', "[[]]", '[""]', "[null]", "-1"),
)
MARK = "\ue000 here \ue001"


def case(rng, report):
    """One part of a document replaced, several times."""
    readers = all_readers()
    name = rng.choice(sorted(readers))
    read, document = readers[name]
    for _ in range(BATCH):
        text = spoilt(document, rng)
        report.count("documents")
        begun = time.process_time()
        try:
            with tempfile.TemporaryDirectory() as folder:
                read(Path(folder), text)
        except (ra.RematError, UserWarning):
            report.count("refused")
        except Exception:
            report.fault(f"{name}: an exception that is not ours", traceback.format_exc()[-2000:], {"it.json": text})
        if time.process_time() - begun > MOST_SECONDS:
            report.fault(f"{name}: over {MOST_SECONDS} s", "", {"it.json": text})


def spoilt(document, rng):
    """The bytes of the document with a strange text in place of one part, or a key twice, or a byte that is no text."""
    copy = json.loads(json.dumps(document))
    places = [(copy, key) for key in copy]
    for parent, key in places:
        part = parent[key]
        if isinstance(part, dict | list):
            places += [(part, each) for each in (part if isinstance(part, dict) else range(len(part)))]
    parent, key = rng.choice(places)
    parent[key] = MARK
    text = json.dumps(copy, ensure_ascii=False).replace(f'"{MARK}"', rng.choice(STRANGE))
    if rng.random() < 0.1:
        text = text.replace("{", '{"format": 1, ', 1)
    data = text.encode()
    if rng.random() < 0.1:
        at = rng.randrange(len(data))
        data = data[:at] + b"\xff" + data[at:]
    return data


@cache
def all_readers():
    """Name to (function of a folder and bytes, document that it accepts)."""
    graph = ra.ComputationGraph.from_edges([("a", "b"), ("b", "c"), ("a", "c")])
    training = ra.differentiate(graph)
    plan = json.loads(ra.solve(training, "100%", effort="fast").text())
    device = ra.cost.Device("here", {"float32": 1e12}, 1e11, 1e-6, 2**30, "a test").record()
    with tempfile.TemporaryDirectory() as folder:
        results = ra.sweep([{"graph": graph, "solver": "no_remat", "budget": "100%"}], folder, processes=1)
        (row,) = results
        file = SweepFolder(Path(folder), create=False).result_file(row["job"])
        figures, job = json.loads(file.read_bytes().split(b"\n")[0]), row["job"]

    def of_file(name, read):
        def reads(folder, text):
            (folder / name).write_bytes(text)
            return read(folder / name)

        return reads

    def of_sweep(name):
        def reads(folder, text):
            store = SweepFolder(folder / "s")
            place = folder / "s" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text)
            found = ra.read_sweep(folder / "s")
            store.sources()
            return str(found), found.csv()

        return reads

    def of_driver(folder, text):
        store = SweepFolder(folder / "s")
        with driving(store, (1, 1), "jobs"):
            (folder / "s" / "drivers" / "1-of-1.json").write_bytes(text)
            with driving(store, (1, 1), "jobs"):
                raise AssertionError("two drivers of one part")

    return {
        "graph": (of_file("g.json", ra.read_graph), json.loads(ra.formats.to_json(training))),
        "plan": (of_file("p.json", lambda file: ra.Plan.load(file, training)), plan),
        "verified plan": (of_file("p.json", lambda file: ra.verify(training, file)), plan),
        "order": (of_file("o.json", lambda file: ra.formats.read_order(file, training)), plan),
        "mirror counts": (of_file("m.json", lambda file: ra.formats.read_mirror_counts(training, file)), {"a": 1}),
        "device": (of_file("d.json", get_device), device),
        "jobs": (of_file("j.jsonl", read_jobs), {"graph": "model:vgg11", "budget": "80%", "seed": 1}),
        "result": (of_sweep(f"results/{job[:2]}/{job}.json"), figures),
        "sweep": (of_sweep("sweep.json"), {"format": "remat-sweep", "version": 1}),
        "driver": (of_driver, {"host": "here", "process": 1, "jobs": "jobs"}),
        "sources": (of_sweep("sources.json"), {"model:vgg11": "ab"}),
    }
