"""Calls of every public function and method with one argument of a wrong kind: an error in words, or a result."""

import inspect
import linecache
import random
import tempfile
import traceback
import warnings
from functools import cache
from pathlib import Path

import networkx as nx
import numpy as np

import remat_algos as ra
from remat_algos.cost.links import LinkTimes
from remat_algos.executor.array_backend import backend
from remat_algos.ir.tables import named_tables
from tests.test_public_face import is_constructor, members, of_an_instance, parameters, what, worlds

PACKAGE = (str(Path(ra.__file__).parent), str(Path(ra.__file__).parent.parent / "kernels"))
REFUSALS = (ra.RematError, ValueError, TypeError, OSError, ImportError)

KINDS = {
    "None": lambda: None,
    "True": lambda: True,
    "a number": lambda: 7,
    "a number below 0": lambda: -1,
    "a fraction": lambda: 0.5,
    "nan": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "a complex number": lambda: 1j,
    "a text": lambda: "x",
    "an empty text": lambda: "",
    "bytes": lambda: b"x",
    "a path": lambda: Path("none.json"),
    "an empty list": lambda: [],
    "a list with None": lambda: [None],
    "pairs with None": lambda: [("a", None)],
    "flags": lambda: [True] * 5,
    "names": lambda: ["x", "y"],
    "rows of two lengths": lambda: [[1, 2], [3]],
    "a pair": lambda: (1, 2),
    "an empty dictionary": dict,
    "a dictionary": lambda: {"a": None},
    "a dictionary of lists": lambda: {0: []},
    "a set": lambda: {1, 2},
    "a range": lambda: range(3),
    "a generator": lambda: (i for i in range(2)),
    "an object": object,
    "a module": lambda: np,
    "an error": lambda: ValueError("x"),
    "fractions in an array": lambda: np.array([0.5, np.nan]),
    "a matrix": lambda: np.ones((2, 2)),
    "a scalar array": lambda: np.array("x"),
    "names in an array": lambda: np.array(["x", "y"]),
    "objects in an array": lambda: np.array([None, {}], object),
    "complex numbers in an array": lambda: np.array([1j]),
    "records in an array": lambda: np.zeros(2, [("a", int)]),
    "dates in an array": lambda: np.array(["2020-01-01"], "M8[D]"),
    "a networkx graph": lambda: nx.DiGraph([("a", "b")]),
    "a graph": lambda: worlds()[0].graph,
    "another graph": lambda: worlds()[1].graph,
    "a plan": lambda: worlds()[0].plan,
    "another plan": lambda: worlds()[1].plan,
    "a simulation": lambda: worlds()[0].simulation,
    "a schedule": lambda: worlds()[0].schedule,
    "another schedule": lambda: worlds()[1].schedule,
    "a network": lambda: worlds()[0].network,
    "an undirected graph": lambda: worlds()[0].undirected,
    "a decomposition": lambda: worlds()[0].decomposition,
    "buffers": lambda: worlds()[0].buffers,
    "an allocation": lambda: worlds()[0].allocation,
    "a frontier": lambda: worlds()[0].frontier,
    "lower sets": lambda: worlds()[0].lower_sets,
    "a budget": lambda: ra.Budget("50%"),
    "a class": lambda: ra.ComputationGraph,
    "a function": lambda: lambda *given: 1,
}
"""What is given in place of an argument."""
CALLED = ("a class", "a function")  # where functions are taken, what goes wrong in them is theirs

IN_ORDER = ("Operators.run", "Operators.checksum", "Operators.residents")
"""What a run calls in a certain order, with the arrays of its backend."""

VALID = {
    "topic": lambda: "segments",
    "alignment": lambda: 1,
    "amount": lambda: 1,
    "array": lambda: np.zeros(1, np.uint8),
    "backend": lambda: backend("numpy"),
    "bags": lambda: [[0], [0, 1]],
    "base": lambda: 100,
    "blocks": lambda: "layers.*",
    "budget": lambda: "100%",
    "by": lambda: 2,
    "data": lambda: ra.formats.to_npz(worlds()[0].full),
    "digraph": lambda: nx.DiGraph([("a", "b")]),
    "dtype": lambda: "float32",
    "edges": lambda: [(0, 1)],
    "first": lambda: [0] * 3,
    "folder": lambda: folder() / "results",
    "compute": lambda: 5,
    "form": lambda: ra.formats.graph_formats()[0],
    "i": lambda: 0,
    "jobs": lambda: [{"graph": worlds()[0].graph, "solver": "no_remat"}],
    "last": lambda: [1] * 3,
    "limit": lambda: 2**40,
    "method": lambda: "by hand",
    "model": lambda: "feed_forward",
    "n_nodes": lambda: worlds()[0].graph.n_nodes,
    "n_vertices": lambda: worlds()[0].graph.n_nodes,
    "name": lambda: "Concat",
    "node": lambda: 0,
    "one_pass": lambda: 5,
    "other": lambda: worlds()[0].training,
    "peak": lambda: 0,
    "place": lambda: 0,
    "reads": lambda: [],
    "record": dict,
    "resident": lambda: 0,
    "residents": lambda: [],
    "results": lambda: worlds()[0].results,
    "rows": lambda: [0, len(worlds()[0].family) - 1],
    "scale": lambda: 1,
    "settings": lambda: ra.zoo.Settings(),
    "step": lambda: 0,
    "subjects": lambda: {"a": worlds()[0].plan},
    "tables": lambda: named_tables([("a", "b")], ["a", "b"], {"memory": [1, 1], "compute": [1, 1]}),
    "text": lambda: ra.formats.to_json(worlds()[0].full),
    "value": lambda: 0,
    "value_indptr": lambda: worlds()[0].graph.value_indptr,
    "vertex": lambda: 0,
}
"""What fits a parameter that has no default and belongs to no graph."""
OWN = {
    ("Budget.of", "budget"): lambda: "50%",
    ("Plan.load", "path"): lambda: folder() / "plan.json",
    ("calibrate", "repeats"): lambda: 1,
    ("calibrate", "size"): lambda: 64,
    ("compare", "effort"): lambda: "fast",
    ("compare", "solvers"): lambda: ["no_remat"],
    ("differentiate", "graph"): lambda: worlds()[0].network.graph,
    ("encode", "graph"): lambda: worlds()[0].network.graph,
    ("fit", "build"): lambda: lambda value: worlds()[0].graph,
    ("fit", "most"): lambda: 1,
    ("fit", "solvers"): lambda: ["no_remat"],
    ("frontier", "effort"): lambda: "fast",
    ("frontier", "points"): lambda: 2,
    ("frontier", "solvers"): lambda: ["no_remat"],
    ("add_boundary", "readers"): lambda: [worlds()[0].graph.n_nodes - 1],
    ("from_arrays", "read_indices"): lambda: [0],
    ("from_arrays", "read_indptr"): lambda: [0, 0, 1],
    ("node_id", "name"): lambda: "v0",
    ("pack_arenas", "capacities"): lambda: [2**40],
    ("plot_text", "picture"): lambda: "memory",
    ("plot_save", "path"): lambda: folder() / "picture.svg",
    ("plot_save", "picture"): lambda: ra.plot.memory(worlds()[0].plan),
    ("read_buffers", "path"): lambda: folder() / "buffers.csv",
    ("read_gr", "path"): lambda: folder() / "graph.gr",
    ("read_in_place", "path"): lambda: folder() / "in_place.csv",
    ("read_mirror_counts", "path"): lambda: folder() / "counts.csv",
    ("read_jobs", "path"): lambda: folder() / "jobs.jsonl",
    ("read_sweep", "folder"): lambda: worlds()[0].results.folder,
    ("SweepResults.save", "path"): lambda: folder() / "table.csv",
    ("read_order", "path"): lambda: folder() / "order.txt",
    ("read_td", "path"): lambda: folder() / "graph.td",
    ("read_graph", "path"): lambda: folder() / "graph.json",
    ("solve", "effort"): lambda: "fast",
    ("solve", "solver"): lambda: "no_remat",
    ("solve", "start"): lambda: None,
    **{(f"Link.{each}", "graph"): lambda: worlds()[0].graph for each in ("times", "ticks", "refined")},
    ("overhead_bound", "link"): lambda: LinkTimes(*[[1] * worlds()[0].graph.n_values] * 2),
    ("train", "steps"): lambda: 1,
    ("validate", "repeats"): lambda: 1,
    ("value_id", "name"): lambda: "x",
    ("write_gr", "path"): lambda: folder() / "out.gr",
    ("write_td", "path"): lambda: folder() / "out.td",
    ("write_allocation", "path"): lambda: folder() / "out.csv",
}
"""The same of single functions."""


@cache
def folder():
    """A folder with a graph and a plan."""
    place, world = Path(tempfile.mkdtemp(prefix="remat-fuzz-")), worlds()[0]
    ra.write_graph(world.full, place / "graph.json")
    world.plan.save(place / "plan.json")
    world.plan.save(place / "order.txt", "names")
    ra.formats.write_gr(world.undirected, place / "graph.gr")
    ra.formats.write_td(world.decomposition, place / "graph.td", world.graph.n_nodes)
    (place / "buffers.csv").write_text("id,lower,upper,size\n0,0,1,2\n")
    (place / "jobs.jsonl").write_text('{"graph": "graph.json"}')
    (place / "in_place.csv").write_text("op,read\nReLU,0\n")
    (place / "counts.csv").write_text(f"node,count\n{world.graph.labels[0]},0\n")
    return place


def fitting(name, parameter):
    """An argument that fits; `empty` where none is known."""
    own = OWN.get((name, parameter.name), OWN.get((name.rpartition(".")[2], parameter.name)))
    if own is not None:
        return own()
    given = what(name, parameter.name, worlds()[0])
    if given is not None or parameter.default is not parameter.empty:
        return parameter.default if given is None else given
    if parameter.name == "path":
        return folder() / "out.json"
    return VALID[parameter.name]() if parameter.name in VALID else parameter.empty


@cache
def targets():
    """Name to (function, its parameters) of every public function, constructor and method that takes arguments."""
    found = {}
    for name, function in members():
        if name.endswith(IN_ORDER):
            continue
        taken = [p for p in parameters(function) if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        if taken:
            found[name] = function, taken
    return found


def arguments(name):
    """The function of that name, of an instance where it is a method, and arguments by name that fit it."""
    function, taken = targets()[name]
    world = worlds()[0]
    if is_constructor(function):
        instance = world.instances[name]
        return function, {p.name: getattr(instance, p.name) for p in taken}
    if of_an_instance(name, function):
        kind, _, method = name.partition(".")
        function = getattr(world.instances[kind], method)
    given = {p.name: fitting(name, p) for p in taken}
    return function, {key: each for key, each in given.items() if each is not inspect.Parameter.empty}


def fault_of(function, given):
    """What a call raised that is no sentence of the package; None for those, and for a result."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ra.errors.GraphWarning)
            function(**given)
    except Exception as error:
        places = traceback.extract_tb(error.__traceback__)
        if not any(place.filename.startswith(PACKAGE) for place in places):
            return None  # Python's own check of a signature
        last = places[-1]
        in_words = (
            isinstance(error, REFUSALS)
            and last.filename.startswith(PACKAGE)
            and linecache.getline(last.filename, last.lineno).lstrip().startswith("raise ")
            and " " in str(error)
        )
        if not in_words:
            return f"{type(error).__name__}: {error} ({last.filename}:{last.lineno}: {last.line})"
    return None


def takes_functions(parameter):
    return any(word in str(parameter.annotation) for word in ("Callable", "Progress"))


def play(rng: random.Random, report):
    """One call with one argument of a wrong kind."""
    name = rng.choice(sorted(targets()))
    parameter = rng.choice(targets()[name][1])
    kind = rng.choice([kind for kind in KINDS if kind not in CALLED or not takes_functions(parameter)])
    function, given = arguments(name)
    report.count("calls")
    report.count("hostile")
    fault = fault_of(function, given | {parameter.name: KINDS[kind]()})
    if fault is not None:
        report.fault(f"no words from {name}", f"{parameter.name} is {kind}: {fault}")
