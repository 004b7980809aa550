"""The public face as a whole: what belongs to two graphs is told apart, and every type survives pickle and copy.

Parameters are known by their names: those of `BOUND` belong to a graph, those of `FREE` to none. So a new public
function is tried at once, and one with a parameter of a new name has to say here which of the two it is.
"""

import copy
import inspect
import json
import os
import pickle
import signal
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest

import remat_algos as ra
from remat_algos.bounds.bound import Prices
from remat_algos.bounds.rising import bound_curve
from remat_algos.context import Clock
from remat_algos.executor.array_backend import backend
from remat_algos.ir.parts import GradientNames
from remat_algos.solvers.registry import list_solvers
from remat_algos.zoo.registry import build
from tests.public import PUBLIC

pytestmark = pytest.mark.usefixtures("short_searches")


class World:
    """A network and what can be made of it."""

    def __init__(self, depth):
        self.network = build("feed_forward", batch=2, depth=depth, width=4, features=4)
        self.graph = graph = ra.differentiate(self.network.graph, parameter_gradients=True)
        n = graph.n_nodes
        self.plan = ra.solve(graph, "100%", solver="no_remat", allocator="arena")
        self.bound = ra.bounds.LowerBound(graph.needed_compute, (n - 1,), Prices(1))
        self.curve = bound_curve(graph, [100], Clock(), effort="fast")
        self.constraints = ra.Constraints(graph, max_runs=2, regions={"all": ("*", 2**40)})
        self.simulation = self.plan.simulation
        self.schedule = self.simulation.schedule
        self.undirected = ra.structure.UndirectedGraph.of(graph)
        self.elimination = ra.structure.eliminate(self.undirected)
        self.decomposition = ra.structure.TreeDecomposition.of(self.elimination)
        self.separators = ra.structure.SeparatorTree.balanced(self.decomposition, n)
        self.path = ra.structure.PathDecomposition.of(self.undirected, np.arange(n))
        self.family = ra.structure.lower_set_family(graph)
        self.lower_sets = self.family.chain([2])
        self.buffers = ra.allocate.Buffers.of(self.simulation)
        self.allocation = ra.allocate.share_storage(self.buffers)
        self.trace = ra.allocate.Trace.of(self.simulation)
        self.use = ra.allocate.cupy_pool(self.trace)
        self.addresses = addresses(self.use)
        self.cuda_addresses = addresses(ra.allocate.cuda_caching(self.trace))
        self.frontier = ra.frontier(graph, solvers=["no_remat"])
        self.execution = ra.execute(graph, self.schedule, timed=True)
        self.validation = ra.validate(graph, self.plan, repeats=1)
        self.operators = ra.executor.SyntheticOperators(graph)
        ra.execute(graph, self.schedule, self.operators)
        self.results = ra.sweep([{"graph": graph, "solver": "no_remat"}], Path(mkdtemp(), "results"), processes=1)
        # all that a graph may have
        self.full = ra.ComputationGraph.from_arrays(
            read_indptr=[0, 0, *range(1, depth + 1)],
            read_indices=range(depth),
            backward=ra.ir.Backward([0] * (depth + 2), [], [1] * (depth + 1), [-1] * (depth + 1), [0] * (depth + 1)),
            labels=ra.ir.Labels(names=tuple(f"v{i}" for i in range(depth + 1)), value_names={0: "x"}, views={"y": "x"}),
            resident=ra.ir.Resident([4], [0], [0, *[1] * (depth + 1)], [0], ("in",)),
            mark=[1, *[0] * depth],
        )

    @property
    def instances(self):
        """One of every public type, by name."""
        return {
            "ComputationGraph": self.full,
            "Schedule": self.schedule,
            "Plan": self.plan,
            "Frontier": self.frontier,
            "LowerSets": self.lower_sets,
            "LowerSetFamily": self.family,
            "UndirectedGraph": self.undirected,
            "WidthBounds": ra.structure.width_bounds(self.undirected),
            "Elimination": self.elimination,
            "TreeDecomposition": self.decomposition,
            "PathDecomposition": self.path,
            "SeparatorTree": self.separators,
            "Simulation": self.simulation,
            "LowerBound": self.bound,
            "GraphFormat": next(form for form in ra.formats.graph_formats() if form.name == "JSON"),
            "Labels": self.full.labels,
            "Resident": self.full.resident,
            "Backward": self.full.backward,
            "Budget": ra.Budget("50%"),
            "Constraints": self.constraints,
            "Network": self.network,
            "Breakdown": ra.breakdown(self.plan),
            "Buffers": self.buffers,
            "Allocation": self.allocation,
            "SplitAllocation": ra.allocate.pack_arenas(self.buffers, [self.buffers.max_live] * 2),
            "Region": ra.solvers.Region((self.graph.n_nodes - 1,), 1, 0, 0, 0, 0, "kept", ""),
            "Execution": self.execution,
            "SyntheticOperators": self.operators,
            "Device": ra.cost.Device("gpu", {"float32": 1e12}, 1e11, 1e-6, 2**30),
            "Link": ra.cost.Link(25e9, 25e9),
            "Validation": self.validation,
            "Trace": self.trace,
            "PoolUse": self.use,
            "PoolRun": self.use.runs[0],
            "Reservation": self.plan.reservation,
            "OperationKind": ra.ir.operation_kind("Concat"),
            "Layers": ra.zoo.Layers("small", ra.zoo.Settings()),
            "Settings": ra.zoo.Settings(workspace=0),
            "SweepJob": ra.sweeps.SweepJob(self.graph, "100%", solver="no_remat"),
            "SweepResults": self.results,
            "Exercise": ra.teach.exercise("lower sets"),
        }


def addresses(use):
    """Where a pool put each buffer, its segments far apart."""
    return use.runs[0].segment * 2**40 + use.runs[0].offset


@cache
def worlds():
    return World(2), World(5)


PROTOCOLS = {"Operators"}

BOUND = {
    "graph": lambda w: w.graph,
    "simulation": lambda w: w.simulation,
    "plan": lambda w: w.plan,
    "constraints": lambda w: w.constraints,
    "schedule": lambda w: w.schedule,
    "start": lambda w: w.schedule,
    "order": lambda w: w.schedule.order,
    "subject": lambda w: w.graph,
    "lower_sets": lambda w: w.lower_sets,
    "sets": lambda w: w.lower_sets.sets(w.graph),
    "family": lambda w: w.family,
    "kept": lambda w: np.ones(w.graph.n_nodes, bool),
    "mirror_count": lambda w: np.zeros(w.graph.n_nodes, int),
    "copies": lambda w: np.zeros(w.graph.n_nodes, bool),
    "iters": lambda w: np.ones(w.graph.n_nodes, int),
    "burn": lambda w: np.ones(w.graph.n_nodes, int),
    "layout": lambda w: np.arange(w.graph.n_nodes),
    "elimination": lambda w: w.elimination,
    "decomposition": lambda w: w.decomposition,
    "separators": lambda w: w.separators,
    "n_vertices": lambda w: w.graph.n_nodes,
    "buffers": lambda w: w.buffers,
    "over": lambda w: np.full(w.simulation.lifetimes.value.size, -1),
    "storage": lambda w: w.allocation.storage,
    "allocation": lambda w: w.allocation,
    "trace": lambda w: w.trace,
    "after": lambda w: np.zeros(w.trace.event.size, int),
    "addresses": lambda w: w.addresses,
    "frontier": lambda w: w.frontier,
    "execution": lambda w: w.execution,
    "validation": lambda w: w.validation,
    "operators": lambda w: w.operators,
    "network": lambda w: w.network,
    "bound": lambda w: w.bound,
    "bound_or_search": lambda w: w.bound,
    "curve": lambda w: w.curve,
}
"""Parameters that belong to a graph, and what a world has for them."""

SPECIAL = {
    ("plot_report", "compared"): lambda w: w.plan,
    ("plot_lattice", "path"): lambda w: w.lower_sets,
    ("SeparatorTree.middle", "path"): lambda w: w.path,
    ("overhead_bound", "start"): lambda w: w.bound,
    ("SeparatorTree.cheapest", "memory"): lambda w: w.graph.memory,
    ("ComputationGraph.with_costs", "memory"): lambda w: w.full.memory,
    ("ComputationGraph.with_costs", "compute"): lambda w: w.full.compute,
    ("ComputationGraph.with_costs", "workspace"): lambda w: w.full.workspace,
    ("Execution.differs_from", "other"): lambda w: w.execution,
    ("difference", "other"): lambda w: w.plan,
    ("Schedule.from_names", "names"): lambda w: w.graph.node_names(),
    ("plot_decomposition", "names"): lambda w: w.graph.node_names(),
    ("cuda_caching", "addresses"): lambda w: w.cuda_addresses,
    ("least_budget", "family"): None,
    ("formula_frontier", "family"): None,
    ("lower_set_family", "family"): None,
    ("UndirectedGraph.from_edges", "n_vertices"): None,
    ("least_peak_bound", "copies"): None,
    ("Link.times", "graph"): None,
    ("Link.ticks", "graph"): None,
    ("Link.refined", "graph"): None,
    ("frontier", "graph"): BOUND["graph"],
}
"""The same of single functions, where the name alone does not tell."""

NEEDS_UNDIRECTED = {"PathDecomposition.of", "PathDecomposition.verify", "TreeDecomposition.verify"}

FREE = """
    alignment allocator alone also amount arena arrays array ax backend bags base beam before_14_1 bits budget build by
    cap capacities capacity checking compared compute data depth digraph dpi dtype edges effort encode exact
    down factor first form frees given height i keep keep_last look max_moves search
    keep_outputs key last lazy least limit link liveness loss match_range max_split_size memory method
    mode most max_sets n_nodes name names
    node of once one_pass only options other outputs overhead parameter_gradients part path peak
    model picture place points polish progress raw readers reads record recompute reduced repeats resident residents
    rounds rows rule scale seconds seed seeds shortest size solver solvers source start step steps subjects
    table tables text ties time_limit timed title nodes gap tree value values vertex width workspace output mark labels
    derivation forward_of backward read_indices read_indptr value_indptr kinds settings
    chosen expert experts target targets x
    executor folder gradients jobs left modules processes results retries retry_failed share stop
    timeout blocks holds semantics topic question answer result
"""
"""Parameters that belong to no graph, or have to fit one graph alone."""

FITS = {
    # what may be of a larger graph
    ("SeparatorTree.balanced", "n_vertices"): "larger",
    ("SeparatorTree.middle", "n_vertices"): "larger",
    ("SeparatorTree.cheapest", "memory"): "larger",
    ("PathDecomposition.spans", "n_vertices"): "larger",
    ("TreeDecomposition.check_vertices", "n_vertices"): "larger",
    ("plot_decomposition", "graph"): "larger",
    ("plot_decomposition", "names"): "larger",
    ("emit", "graph"): "larger",
    ("LowerBound.record", "graph"): "larger",
    ("overhead_bound", "graph"): "larger",
    ("closure_cut", "graph"): "larger",
    ("Schedule.names", "graph"): "larger",
    ("write_td", "n_vertices"): "larger",
    ("Schedule.from_names", "graph"): "larger",
    ("Region.name", "graph"): "larger",
    ("Region.record", "graph"): "larger",
    # the other way round
    ("SeparatorTree.balanced", "decomposition"): "smaller",
    ("SeparatorTree.cheapest", "decomposition"): "smaller",
    ("SeparatorTree.middle", "path"): "smaller",
    ("write_td", "decomposition"): "smaller",
    ("emit", "order"): "smaller",
    ("closure_cut", "bound"): "smaller",
    ("overhead_bound", "start"): "smaller",
    ("Schedule.from_names", "names"): "smaller",
}


def members():
    """Every public function, constructor and method, by name; but those of protocols."""
    for dotted, thing in PUBLIC.items():
        name = dotted.replace("plot.", "plot_").rpartition(".")[2]
        if name in PROTOCOLS or (isinstance(thing, type) and issubclass(thing, BaseException)):
            continue
        yield name, thing
        for key in vars(thing) if isinstance(thing, type) else ():
            member = getattr(thing, key)
            if not key.startswith("_") and (inspect.isfunction(member) or inspect.ismethod(member)):
                yield f"{name}.{key}", member


def parameters(function):
    return [p for p in inspect.signature(function).parameters.values() if p.name != "self"]


def is_constructor(function):
    return isinstance(function, type) and is_dataclass(function)


def of_an_instance(name, function):
    return "." in name and not inspect.ismethod(function)


def what(name, parameter, world):
    """What a world has for a parameter; None for one that belongs to no graph."""
    if parameter == "graph" and (name in NEEDS_UNDIRECTED or name in ("eliminate", "width_bounds", "write_gr")):
        return world.undirected
    say = SPECIAL.get((name, parameter), BOUND.get(parameter))
    return say and say(world)


def bound(name, function):
    """The names of parameters that belong to a graph."""
    return [p.name for p in parameters(function) if SPECIAL.get((name, p.name), BOUND.get(p.name)) is not None]


def pairs():
    """(function, parameter) wherever two things come together that belong to a graph."""
    for name, function in members():
        if is_constructor(function):
            continue
        found = bound(name, function)
        if len(found) + of_an_instance(name, function) > 1:
            yield from ((name, parameter) for parameter in found)


def test_every_parameter_is_known():
    known = {*BOUND, *FREE.split()}
    for name, function in members():
        if not is_constructor(function):
            new = [p.name for p in parameters(function) if p.name not in known and (name, p.name) not in SPECIAL]
            assert not new, f"{name} takes {new}: do they belong to a graph (BOUND), or to none (FREE)?"
    assert set(worlds()[0].instances) == {name for name, thing in members() if isinstance(thing, type)}, (
        "a new public type needs an instance here"
    )


def call(name, base, other, parameter, folder):
    """Call a public function with what a world has, one parameter of which is the other world's."""
    function = dict(members())[name]
    given = {key: what(name, key, other if key == parameter else base) for key in bound(name, function)}
    needed = {
        "backend": backend("numpy"),
        "path": Path(folder) / "file",
        "limit": 2**40,
        "method": "by hand",
        "most": None,
    }
    for p in parameters(function):
        if p.default is p.empty and p.name not in given and p.kind is not p.VAR_KEYWORD:
            given[p.name] = needed[p.name]
        if p.name == "effort":
            given[p.name] = "fast"
    if of_an_instance(name, function):
        kind, _, method = name.partition(".")
        function = getattr(base.instances[kind], method)
    return function(**given)


def in_children(function, cases):
    """What a function does with each case, or how its process ended: a crash must not end the tests.

    One child does one case after another; where it dies, a new one goes on.
    """
    answers = []
    while len(answers) < len(cases):
        read, write = os.pipe()
        child = os.fork()
        if not child:
            try:
                for case in cases[len(answers) :]:
                    try:
                        function(*case)
                        answer = "no error"
                    except BaseException as error:
                        answer = f"raised {type(error).__mro__}: {error}"
                    os.write(write, json.dumps(answer).encode() + b"\n")
            finally:  # never back into pytest, of which this is a second process
                os._exit(0)
        os.close(write)
        n_answers = len(answers)
        with os.fdopen(read, "rb") as pipe:
            answers += map(json.loads, pipe)
        status = os.waitpid(child, 0)[1]
        if status or len(answers) == n_answers:
            answers.append(f"died with status {status}")
    return answers


class Unprintable(Exception):
    def __str__(self):
        raise ValueError("no text")


def test_a_case_that_ends_its_process_is_one_answer():
    def play(kind):
        if kind == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "unprintable":
            raise Unprintable

    kinds = ("fine", "unprintable", "fine", "crash", "crash", "fine")
    answers = in_children(play, [(kind,) for kind in kinds])
    assert answers == ["no error", "died with status 0", "no error", *["died with status 9"] * 2, "no error"]


def refuses(answer):
    """Whether an answer is an error of ours, or of Python's, that says what is wrong."""
    kinds, _, message = answer.partition(">): ")
    ours = any(kind in kinds for kind in ("RematError", "ValueError", "TypeError")) and "IndexError" not in kinds
    return answer.startswith("raised") and ours and " " in message and "could not be broadcast" not in message


def test_what_belongs_to_two_graphs_is_told_apart(tmp_path):
    cases = []
    for i, (name, parameter) in enumerate(pairs()):
        for base, other, way in (*worlds(), "larger"), (*reversed(worlds()), "smaller"):
            if FITS.get((name, parameter)) != way:
                cases += [(name, base, each, parameter, tmp_path / f"{i}_{way}") for each in (base, other)]
    for *_, folder in cases:
        folder.mkdir(exist_ok=True)
    for (name, base, other, parameter, _), answer in zip(cases, in_children(call, cases), strict=True):
        if base is other:
            assert answer == "no error", f"{name} with one graph alone: {answer}"
        else:
            assert refuses(answer), f"{name} with {parameter} of another graph: {answer}"


NO_CHECK = {
    ("ComputationGraph", "derivation"),
    ("ComputationGraph", "labels"),
    ("Execution", "allocation"),
    ("Plan", "bound_or_search"),  # its nodes are checked; a number of the other graph may be one of this
    ("Plan", "budget"),
    ("Plan", "report"),
    ("Plan", "reservation"),
    ("Reservation", "allocation"),
    ("Backward", "grad_memory"),
    ("SweepJob", "budget"),
    ("SweepJob", "graph"),
}


def differ(one, other):
    """Whether two arrays, or tuples of them, are of different lengths."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.shape != other.shape
    same = type(one) is type(other) and not isinstance(one, Enum)
    return same and getattr(type(one), "__module__", "").startswith("remat_algos")


@pytest.mark.parametrize("name", [name for name, thing in members() if is_constructor(thing)])
def test_a_type_checks_that_its_fields_belong_together(name):
    small, large = (world.instances[name] for world in worlds())
    tried = [field for field in fields(small) if field.init]
    wrong = [f for f in tried if differ(getattr(small, f.name), getattr(large, f.name))]
    if len(wrong) == 1 and name not in ("LowerSets", "PathDecomposition"):
        return  # one array alone fits itself
    cases = [
        (field.name, {f.name: getattr(other if f is field else base, f.name) for f in tried})
        for field in wrong
        if (name, field.name) not in NO_CHECK
        for base, other in ((small, large), (large, small))
    ]
    for (field, _), answer in zip(
        cases, in_children(lambda _, given: dict(members())[name](**given), cases), strict=True
    ):
        assert refuses(answer), f"{name} with {field} of another: {answer}"


# ---------------------------------------------------------------- places


PLACES = {"node", "value", "i", "vertex", "step", "rows"}
NAMED = {"Labels", "Budget", "SyntheticOperators"}


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, function in members()
        if of_an_instance(name, function)
        and name.partition(".")[0] not in NAMED
        and any(p.name in PLACES for p in parameters(function))
    ],
)
@pytest.mark.parametrize("place", [-1, 10**6, 2**63])
def test_a_place_that_is_not_there_is_a_sentence(name, place):
    kind, _, method = name.partition(".")
    function = getattr(worlds()[0].instances[kind], method)
    (parameter,) = [p.name for p in parameters(function) if p.name in PLACES]
    with pytest.raises((ra.RematError, ValueError)) as caught:
        function(**{parameter: [place] if parameter == "rows" else place})
    assert not isinstance(caught.value, IndexError)
    assert " " in str(caught.value)


# ---------------------------------------------------------------- pickle, copy, frozen arrays


def parts(thing):
    """The fields of an instance, by name."""
    if is_dataclass(thing):
        return {f.name: getattr(thing, f.name) for f in fields(thing) if f.init}
    return thing.__getstate__()


def same(one, other):
    """Whether two things say the same, all the way down."""
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, GradientNames) or type(one).__module__.startswith("remat_algos"):
        if isinstance(one, tuple):
            return tuple(one) == tuple(other)
        if isinstance(one, BaseException):
            return str(one) == str(other)
        mine, its = parts(one), parts(other)
        return type(one) is type(other) and mine.keys() == its.keys() and all(same(mine[k], its[k]) for k in mine)
    if hasattr(one, "keys"):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other or callable(one)


def arrays_of(thing, seen=None):
    """The arrays of an instance and of what it holds."""
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return
    seen.add(id(thing))
    for each in parts(thing).values():
        if isinstance(each, np.ndarray):
            yield each
        elif is_dataclass(each) and type(each).__module__.startswith("remat_algos"):
            yield from arrays_of(each, seen)


WRITABLE = {"SyntheticOperators", "Validation"}  # they hold what ran
WAYS = {
    "pickle": lambda thing: pickle.loads(pickle.dumps(thing)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_type_and_solver_survives_pickle_and_copy(way):
    for name, thing in worlds()[0].instances.items():
        again = way(thing)
        assert type(again) is type(thing)
        assert same(thing, again), name
        for array in [*arrays_of(thing), *arrays_of(again)] if name not in WRITABLE else ():
            if array.size:
                with pytest.raises(ValueError, match="WRITEABLE"):
                    array.setflags(write=True)
    for solver in list_solvers():
        assert way(solver).name == solver.name


def test_a_graph_and_its_plans_stay_together_in_a_pickle():
    plan = pickle.loads(pickle.dumps(worlds()[0].plan))
    assert plan.simulation.graph is plan.graph
    assert plan.graph.hash == worlds()[0].graph.hash
    assert ra.verify(plan.graph, plan).peak_memory == plan.peak_memory


def test_what_a_caller_may_thaw_is_copied():
    memory = np.array([4, 2, 1])
    memory.setflags(write=False)
    graph = ra.ComputationGraph.from_edges([(0, 1), (1, 2)], memory=memory)
    memory.setflags(write=True)
    memory[:] = 9
    assert graph.memory.tolist() == [4, 2, 1]


def test_what_follows_from_a_graph_cannot_be_thawed():
    graph = worlds()[0].graph
    for array in (graph.producer, *graph.readers, *graph.predecessors, *graph.successors, graph.needed, graph.forward):
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.setflags(write=True)
