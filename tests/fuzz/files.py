"""Files that are nearly right through every function that reads one: a result, or an error of one sentence."""

import dataclasses
import functools
import importlib.util
import io
import os
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import remat_algos as ra
from remat_algos.cost.devices import get_device
from remat_algos.formats.graphs.json_text import from_json, to_json
from remat_algos.formats.graphs.npz_bytes import from_npz, to_npz
from remat_algos.search import plan_cache
from tests.formats_page import FILES, GRAPHS
from tests.fuzz.mutations import mutated

UNIT = "files"
LONGEST_MESSAGE = 1500
MOST_SECONDS = 5.0  # of the processor, for one file; pydot alone takes some
DOT_CHARACTERS = 4_000  # that pydot takes a second more for, where brackets are nested
BATCH = 20  # files per case
RAM = "/dev/shm" if os.path.isdir("/dev/shm") else None
SLOW = {  # tried less often
    **{"net.dot": 0.03, "written.dot": 0.03},
    **{"plan packed": 0.3, "plan with an allocator": 0.3, "step.mlir": 0.3},
}
NODE_LINK = b"""{"directed": true, "multigraph": false, "graph": {},
 "nodes": [{"id": "a", "memory": 8}, {"id": ["b", 1], "compute": 2.5}, {"id": 3, "memory": "4 kB"}],
 "edges": [{"source": "a", "target": ["b", 1]}, {"source": ["b", 1], "target": 3}]}"""
ADJACENCY = b"""{"directed": true, "multigraph": false, "graph": [],
 "nodes": [{"id": "a", "memory": 8}, {"id": "b"}, {"id": 3}], "adjacency": [[{"id": "b"}, {"id": 3}], [], []]}"""
_BEGIN = """<ir_version: 10, opset_import: ["" : 21, "mine" : 1]>"""
ONNX = {
    "layers.onnx": f"""{_BEGIN} net (float[n, 16] x, float[n, 4] y) => (float loss)
<float[32, 16] w1 = {{0}}, float[32] b1 = {{0}}, float[32, 4] w2 = {{0}}, int64[2] shape = {{-1, 4}}> {{
    h = Gemm <transB = 1> (x, w1, b1)
    r = Relu (h)
    d, mask = Dropout (r)
    z = MatMul (d, w2)
    flat = Reshape (z, shape)
    e = Sub (flat, y)
    loss = ReduceMean <keepdims = 0> (e)
}}""",
    "block.onnx": f"""{_BEGIN} net (float[n, 4, 8, 8] x) => (float[n, 6, 4, 4] p) <
    float[6, 2, 3, 3] w = {{0}}, float[6] scale = {{1}}, float[6] bias = {{0}},
    float[6] mean = {{0}}, float[6] var = {{1}}
> {{
    c = Conv <pads = [1, 1, 1, 1], group = 2> (x, w)
    y, mean_out, var_out = BatchNormalization <training_mode = 1> (c, scale, bias, mean, var)
    r = Relu (y)
    p, places = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)
}}""",
    "branches.onnx": f"""{_BEGIN} net (float[n] x, bool c) => (float[n] y) {{
    a = mine.Twice (x)
    y = If <
        then_branch = yes () => (float[n] t) {{ t = Exp (a) }},
        else_branch = no () => (float[n] e) {{ e = Neg (a) }}
    > (c)
}}
<domain: "mine", opset_import: ["" : 21]>
Twice (v) => (w) {{ w = Add (v, v) }}""",
}
STABLEHLO = {
    "step.mlir": """module @jit_f attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%a: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> (tensor<8x4xf32> {jax.result_info = ""}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] :
      (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %1 = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %2 = call @relu(%0, %1) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %3 = stablehlo.reshape %2 : (tensor<8x4xf32>) -> tensor<32xf32>
    %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [0] :
      (tensor<32xf32>, tensor<f32>) -> tensor<f32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    return %5 : tensor<8x4xf32>
  }
  func.func private @relu(%a: tensor<8x4xf32>, %b: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %0 = stablehlo.maximum %a, %b : tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}
"""
}
NETWORKX = {"node_link.json": NODE_LINK, "adjacency.json": ADJACENCY}


@dataclasses.dataclass(frozen=True, slots=True)
class Reader:
    """A function that reads files of a folder, and files that it accepts."""

    read: Callable[[Path], Any]
    files: dict[str, bytes]


def case(rng, report):
    """Some mutated files of one reader."""
    readers = all_readers()
    name = rng.choices(list(readers), [SLOW.get(name, 1) for name in readers])[0]
    reader = readers[name]
    with tempfile.TemporaryDirectory(dir=RAM) as folder:
        for _ in range(BATCH):
            contents = dict(reader.files)
            for file in rng.sample(sorted(contents), rng.choice((1, 1, len(contents)))):
                contents[file] = mutated(rng, file, contents[file])
            for file, data in contents.items():
                Path(folder, file).write_bytes(data)
            report.count("files")
            check(report, name, reader.read, Path(folder), contents)


def check(report, name, read, folder, contents):
    """Only results and errors of one sentence come out, and soon."""
    started, before = time.process_time(), open_files()
    result = None
    try:
        result = read(folder)
        report.count("read")
    except ra.RematError as error:
        report.count("refused")
        if "\n" in str(error) or len(str(error)) > LONGEST_MESSAGE:
            report.fault("an error is no sentence", f"{name}: {str(error)[:200]!r}", contents)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        report.fault(f"{type(error).__name__}", f"{name}: {str(error)[:200]} ({where})", contents)
    patience = MOST_SECONDS + (sum(map(len, contents.values())) / DOT_CHARACTERS if name.endswith(".dot") else 0)
    if time.process_time() - started > patience:
        report.fault(f"more than {MOST_SECONDS:g} s for one file", name, contents)
    if open_files() > before:
        report.fault("a file is left open", name, contents)
    if isinstance(result, ra.Plan):
        check_text(report, name, result, contents)
    if isinstance(result, ra.ComputationGraph) and result.n_nodes <= 200:
        check_use(report, name, result, contents)


def open_files():
    """How many files this process has open, 0 where that is not known."""
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def check_text(report, name, plan, contents):
    """A plan that is read can be printed, and says that it is optimal only where that was proven here."""
    try:
        text = " ".join(str(plan).split())
        if "optimal: no schedule" in text and not (plan.bound and plan.bound.proven):
            report.fault("an optimum that was not proven", name, contents)
        if plan.bound and plan.bound.proven and plan.bound.amount > plan.simulation.compute:
            report.fault("a bound above the plan", name, contents)
    except Exception as error:
        report.fault(f"{type(error).__name__} in the text", f"{name}: {str(error)[:200]}", contents)


def check_use(report, name, graph, contents):
    """What is read can be used: it is written and read again, differentiated, and planned."""
    try:
        if from_json(to_json(graph)).hash != graph.hash:
            report.fault("another graph after a round trip", name, contents)
        if from_npz(to_npz(graph)).hash != graph.hash:
            report.fault("another graph after a round trip", name, contents)
        training = graph if graph.forward_of is not None else ra.differentiate(graph)
        ra.solve(training, "100%", solver="no_remat")
        report.count("used")
    except ra.RematError:  # nothing to differentiate, or a mark that no rematerialization breaks
        report.count("used")
    except Exception as error:
        report.fault(f"{type(error).__name__} in use", f"{name}: {str(error)[:200]}", contents)


# ---------------------------------------------------------------- readers


@functools.cache
def all_readers():
    """Readers by name: of the files that docs/formats.md shows, and of what the package writes."""
    written = graphs_written() | plans_written() | plans_cached() | decompositions_written()
    return graphs_of_the_page() | tables_of_the_page() | written | models_of_others()


def graphs_of_the_page():
    """Each file is mutated with those that are read beside it."""
    readers = {}
    for name in GRAPHS:
        stem = name.removesuffix(".nodes.csv")
        beside = [other for other in FILES if other.startswith(f"{stem}.") and other.endswith(".csv")]
        readers[name] = Reader(graph_reader(name), texts(beside if name.endswith(".nodes.csv") else [name]))
    return readers


def tables_of_the_page():
    """Sizes, mirror counts, buffers and in-place rows, each with the graph it is for."""
    graph, chain = page_graph("net.nodes.csv"), example()
    return {
        "sizes.csv": Reader(
            lambda folder: ra.read_graph(folder / "figure.txt", nodes=folder / "sizes.csv"),
            texts(["figure.txt", "sizes.csv"]),
        ),
        "mirror.csv": Reader(lambda folder: mirrored(graph, folder / "mirror.csv"), texts(["mirror.csv"])),
        "mirror.json": Reader(lambda folder: mirrored(graph, folder / "mirror.json"), texts(["mirror.json"])),
        "buffers.csv": Reader(
            lambda folder: ra.allocate.share_storage(ra.formats.read_buffers(folder / "buffers.csv")),
            texts(["buffers.csv"]),
        ),
        "in_place.csv": Reader(
            lambda folder: ra.allocate.find_overwrites(
                ra.simulate(chain, [0, 1, 2, 3]), ra.formats.read_in_place(folder / "in_place.csv")
            ),
            {"in_place.csv": b"op,read,value,over\nDropout,none,,\nReLU,0,,\n,,n1,n0\n"},
        ),
    }


def graphs_written():
    """A graph with everything and a differentiated one, in each format that is written here; what networkx writes."""
    readers = {}
    with tempfile.TemporaryDirectory() as folder:
        for stem, graph in (("everything", page_graph("norm.nodes.csv")), ("written", ra.differentiate(example()))):
            for ending in (".json", ".npz", ".graphml", ".dot"):
                path = Path(folder, stem + ending)
                ra.write_graph(graph, path)
                readers.setdefault(path.name, Reader(graph_reader(path.name), {path.name: path.read_bytes()}))
    readers |= {name: Reader(graph_reader(name), {name: data}) for name, data in NETWORKX.items()}
    return {name: reader for name, reader in readers.items() if name != "everything.dot"}


def plans_written():
    """Plans of each kind, and orders as others write them."""
    graph = example()
    training = ra.differentiate(graph)

    def plan(name, budget, **options):
        text = ra.solve(training, budget, **options).text("frees").encode()
        return {name: Reader(lambda folder: ra.Plan.load(folder / "plan.json", graph), {"plan.json": text})}

    def order(name, data):
        return {name: Reader(lambda folder: ra.simulate(*ra.formats.read_order(folder / name, graph)), {name: data})}

    stages = io.BytesIO()
    np.savez(stages, R=np.tril(np.ones((4, 4), int)), S=np.tril(np.ones((4, 4), int), -1))
    first = ra.solve(graph, "100%")
    return (
        plan("plan", "90%")
        | plan("plan packed", "95%", allocator="arena")
        | plan("plan with an allocator", "100%", allocator="cupy_pool")
        | order("order.json", first.text().encode())
        | order("order.txt", first.text("names").encode())
        | order("actions.txt", first.text("actions").encode())
        | order("order.npz", stages.getvalue())
    )


def plans_cached():
    """What the cache of plans holds: a damaged file is as if it were not there, and the plan is that of `solve`."""
    training = ra.differentiate(example())

    def read(folder):
        with mock.patch.object(plan_cache, "cache_folder", return_value=folder):
            plan = plan_cache.solve_cached(training, "90%", solver="chen_sqrt")
        if plan.peak_memory > plan.limit or ra.simulate(training, plan.schedule).compute != plan.simulation.compute:
            raise AssertionError("a damaged file of the cache gave a plan that is wrong")
        return plan

    with tempfile.TemporaryDirectory() as folder:
        read(Path(folder))
        (file,) = Path(folder).iterdir()
        return {"cached plan": Reader(read, {file.name: file.read_bytes()})}


def models_of_others():
    """Models of ONNX and StableHLO, where their library is there."""
    readers = {}
    if "onnx" not in missing_libraries():
        from onnx import parser

        for name, text in ONNX.items():
            readers[name] = Reader(graph_reader(f"{name}?n=3"), {name: parser.parse_model(text).SerializeToString()})
    if "jax" not in missing_libraries():
        readers |= {name: Reader(graph_reader(name), {name: text.encode()}) for name, text in STABLEHLO.items()}
    return readers


def missing_libraries():
    """The libraries without which some kinds of files are not tried."""
    return [name for name in ("onnx", "jax") if importlib.util.find_spec(name) is None]


def decompositions_written():
    """Undirected graphs, tree decompositions, devices."""
    device = ra.cost.Device("here", {"float32": 1e12}, 1e11, 1e-6, 2**30, "a test")
    with tempfile.TemporaryDirectory() as folder:
        device.save(Path(folder, "device.json"))
        record = Path(folder, "device.json").read_bytes()
    return {
        "undirected.gr": Reader(
            lambda folder: ra.structure.width_bounds(ra.formats.read_gr(folder / "g.gr")),
            {"g.gr": FILES["path.gr"][2].encode()},
        ),
        "tree.td": Reader(
            lambda folder: ra.formats.read_td(folder / "tree.td"),
            {"tree.td": b"s td 3 2 4\nb 1 1 2\nb 2 2 3\nb 3 3 4\n1 2\n2 3\n"},
        ),
        "device.json": Reader(lambda folder: get_device(str(folder / "device.json")), {"device.json": record}),
    }


def texts(names):
    return {name: FILES[name][2].encode() for name in names}


def graph_reader(name):
    return lambda folder: ra.read_graph(folder / name)


def mirrored(graph, path):
    return ra.schedule.mirror_schedule(graph, ra.formats.read_mirror_counts(graph, path))


def page_graph(name):
    """A graph of the page on formats."""
    with tempfile.TemporaryDirectory() as folder:
        for other, data in texts(FILES).items():
            Path(folder, other).write_bytes(data)
        return ra.read_graph(Path(folder, name))


def example():
    """n0 -> n1 -> n2 -> n3, and n1 -> n3."""
    labels = ra.ir.Labels(names=("n0", "n1", "n2", "n3"), ops=("", "ReLU", "Dropout", "ReLU"))
    return ra.ComputationGraph.from_arrays(
        read_indptr=[0, 0, 1, 2, 4], read_indices=[0, 1, 1, 2], memory=[4, 4, 4, 2], compute=[3, 1, 1, 5], labels=labels
    )
