"""The public face: what is of a wrong kind is told in one sentence, and names are taken where ids are."""

import inspect
from collections.abc import Sequence

import networkx as nx
import numpy as np
import pytest

import remat_algos as ra
from remat_algos.arguments import check_of, checked_arguments, takes
from remat_algos.search.request import Request
from tests.fuzz import hostile
from tests.public import PUBLIC
from tests.test_public_face import members

pytestmark = pytest.mark.usefixtures("short_searches")


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """Where functions write that take a text or a path as the name of a file."""
    monkeypatch.chdir(tmp_path)


FORWARD = ra.ComputationGraph.from_edges([("a", "b"), ("b", "c"), ("c", "d")])
TRAINING = ra.differentiate(FORWARD)
NAMES = TRAINING.node_names()
PLAN = ra.solve(TRAINING, "100%", solver="no_remat")
DIGRAPH = nx.DiGraph([("a", "b")])

# ---------------------------------------------------------------- wrong kinds

TRIED = ("None", "a fraction", "an object", "a networkx graph", "a matrix", "pairs with None")
"""Kinds that each parameter is given here; `python -m tests.fuzz api` draws from all."""


@pytest.mark.parametrize("name", hostile.targets())
def test_an_argument_of_a_wrong_kind_is_a_sentence(name):
    function, given = hostile.arguments(name)
    for parameter in hostile.targets()[name][1]:
        for kind in TRIED:
            fault = hostile.fault_of(function, given | {parameter.name: hostile.KINDS[kind]()})
            assert fault is None, f"{parameter.name} is {kind}: {fault}"


RANDOM = [name for name, (_, taken) in hostile.targets().items() if any(p.name == "seed" for p in taken)]
RECORDS = ("SweepJob", "Exercise")
ANY_INTEGER = ("execute", "validate", "SyntheticOperators")


@pytest.mark.parametrize("name", [name for name in RANDOM if name not in (*RECORDS, *ANY_INTEGER)])
def test_a_negative_seed_is_refused(name):
    function, given = hostile.arguments(name)
    with pytest.raises(ra.errors.ArgumentError, match="seed is -1; give a whole number, 0 or more"):
        function(**given | {"seed": -1})


def test_every_public_function_checks_the_kinds_of_its_arguments():
    for name, function in PUBLIC.items():
        if inspect.isfunction(function) and inspect.signature(function).parameters:
            function = function.__wrapped__ if name in ra._READING else function
            assert hasattr(function, "__wrapped__"), f"@checked_arguments goes above {name}"


GRAPH_TAKEN = [
    name for name, function in members() if name in PUBLIC and "graph" in inspect.signature(function).parameters
]


@pytest.mark.parametrize("name", [name for name in GRAPH_TAKEN if inspect.isfunction(PUBLIC[name])])
def test_what_is_no_graph_is_told_with_the_remedy(name):
    function, given = hostile.arguments(name)
    optional = inspect.signature(function).parameters["graph"].default is None
    for wrong, sentence in {
        "x.nodes.csv": None,
        DIGRAPH: r"graph is a networkx DiGraph; give from_networkx\(graph\)",
        ra.ComputationGraph: "graph is the class ComputationGraph; give an instance: a",
        None: None if optional else "graph is None; give a",
        PLAN: "graph is a Plan; give",
    }.items():
        undirected = "Undirected" in str(inspect.signature(function).parameters["graph"].annotation)
        if sentence is not None and not (undirected and wrong is DIGRAPH):
            with pytest.raises(TypeError, match=f"^{sentence}"):
                function(**given | {"graph": wrong})


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: ra.differentiate(DIGRAPH), "graph is a networkx DiGraph; give from_networkx(graph)"),
        (lambda: ra.encode(PLAN), "graph is a Plan; give its `graph`"),
        (lambda: ra.simulate(ra.zoo.build("feed_forward", depth=2), [0]), "graph is a Network; give its `graph`"),
        (lambda: ra.simulate(TRAINING, PLAN), "schedule is a Plan; give its `schedule`"),
        (lambda: ra.solve(TRAINING, start=PLAN.simulation), "start is a Simulation; give its `schedule`"),
        (lambda: ra.schedule.polish(TRAINING, PLAN, 9), "simulation is a Plan; give its `simulation`"),
        (lambda: ra.explain(TRAINING), "plan is a ComputationGraph; give a Plan (solve and Plan.load return one)"),
        (lambda: ra.difference(PLAN, 3), "other is an int; give a Plan (solve and Plan.load return one)"),
        (lambda: ra.verify(TRAINING, np.zeros(3)), "plan is a ndarray; give a Plan (solve and Plan.load return one)"),
        (lambda: ra.ComputationGraph.from_tables([]), "tables is a list; give a Tables"),
        (
            lambda: ra.solve(TRAINING, solver=["echo"]),
            "solver is ['echo']; give the name of a solver, such as 'echo', or leave it out",
        ),
        (lambda: ra.compare(TRAINING, solvers="echo"), "solvers is 'echo'; give a list, such as ['echo']"),
        (lambda: ra.frontier(TRAINING, solvers=[None]), "solvers[0] is None; give a string"),
        (lambda: ra.differentiate(FORWARD, factor="twice"), "factor is 'twice'; give a number"),
        (lambda: ra.differentiate(FORWARD, keep_outputs="no"), "keep_outputs is 'no'; give True or False"),
        (lambda: ra.solve(TRAINING, effort=3), "effort is 3; give a string, such as 'default'"),
        (lambda: ra.solve(TRAINING, progress="bar"), "progress is 'bar'; give a function"),
        (lambda: ra.read_graph(7), "path is 7; give the path of a file"),
        (lambda: PLAN.save(None), "path is None; give the path of a file"),
        (lambda: ra.explain(PLAN, most="all"), "most is 'all'; give a whole number"),
        (lambda: ra.simulate(TRAINING, [True] * 5), "step 0 of schedule is True; give ids or names of nodes"),
        (lambda: ra.plot.memory(PLAN, ax=3), "ax is an int; give an Axes"),
    ],
)
def test_a_wrong_kind_is_a_type_error_with_the_remedy(call, sentence):
    with pytest.raises(TypeError) as error:
        call()
    assert str(error.value) == sentence


@pytest.mark.parametrize("call", [ra.solve, ra.compare, ra.frontier], ids=lambda function: function.__name__)
@pytest.mark.parametrize(
    ("seed", "kind"), [("x", TypeError), (None, TypeError), (True, TypeError), (1.5, ValueError), (-1, ValueError)]
)
def test_a_seed_that_is_none_is_no_fault_of_the_graph(call, seed, kind):
    with pytest.raises(kind, match=f"^seed is {seed!r}; give a whole number") as error:
        call(TRAINING, seed=seed)
    assert not isinstance(error.value, ra.GraphError)


def test_none_is_no_name_of_a_node():
    with pytest.raises(ra.GraphError, match="edge 0 has None for a node; give two ids or names"):
        ra.ComputationGraph.from_edges([("a", None)])


def test_flags_are_no_sizes():
    with pytest.raises(ra.GraphError, match="True is not a size; write bytes"):
        ra.ComputationGraph.from_edges([(0, 1)], memory=[True, True])


# ---------------------------------------------------------------- the checks


@pytest.mark.parametrize(
    ("hint", "given", "arrives"),
    [
        (int, np.int8(3), 3),
        (int, 3.0, 3),
        (float, 3, 3),
        (bool, np.True_, True),
        (bool, 1, True),
        (Sequence[int], (1, 2.0), [1, 2]),
        (Sequence[int], 3, TypeError),
        (int | None, None, None),
        (int, None, TypeError),
        (str | None, 3, TypeError),
        (tuple[str, ...], ["a"], ("a",)),
    ],
)
def test_what_arrives(hint, given, arrives):
    check = check_of(hint)
    if arrives is TypeError:
        with pytest.raises(TypeError, match=r"^it\b"):
            check(given, "it")
    else:
        found = check(given, "it")
        assert (found, type(found)) == (arrives, type(arrives))


def test_what_does_not_fit_the_signature_is_for_python_to_tell():
    @checked_arguments
    def area(width: int, *, height: int = 1) -> int:
        return width * height

    assert (area(2.0, height=np.int64(3)), area(width=2)) == (6, 2)
    for call in (lambda: area(), lambda: area(1, 2), lambda: area(1, depth=2)):
        with pytest.raises(TypeError, match=r"area\(\)"):
            call()


def test_a_function_that_takes_the_arguments_of_another_has_its_signature_and_its_own_name_in_errors():
    @checked_arguments
    def size_of(width: int, *, height: int = 1, **options) -> int:
        return width * height

    @takes(size_of)
    def twice(size: int) -> str:
        """Say twice the size."""
        return str(2 * size)

    assert (twice(3), twice(width=3, height=2, depth=1)) == ("6", "12")
    assert str(inspect.signature(twice)) == "(width: int, *, height: int = 1, **options) -> str"
    assert (twice.__name__, twice.__doc__, twice.__module__) == ("twice", "Say twice the size.", __name__)
    for call in (lambda: twice(), lambda: twice(1, 2)):
        with pytest.raises(TypeError, match=r"^twice\(\): "):
            call()
    with pytest.raises(TypeError, match="width"):
        twice("wide")


def test_solve_states_no_parameter_again():
    own, request = inspect.signature(ra.solve), inspect.signature(Request.of)
    assert own.parameters == request.parameters
    assert own.return_annotation is ra.Plan


# ---------------------------------------------------------------- names where ids are


@pytest.mark.parametrize("form", [list, tuple, np.array, iter], ids=["list", "tuple", "array", "iterator"])
@pytest.mark.parametrize(
    "order_of",
    [
        lambda order: ra.simulate(TRAINING, order).schedule,
        lambda order: ra.solve(TRAINING, solver="live_set_search", start=order, time_limit=0).schedule,
        lambda order: ra.what_if(TRAINING, schedule=order),
        lambda order: ra.schedule.drop_dead_runs(TRAINING, order),
        lambda order: ra.schedule.sink_runs(TRAINING, order),
        lambda order: ra.schedule.reuse_values(TRAINING, order, 2**40),
        lambda order: ra.execute(TRAINING, order).simulation.schedule,
        lambda order: ra.validate(TRAINING, order, repeats=0).simulation.schedule,
        lambda order: ra.schedule.unroll(TRAINING, order).n_nodes,
    ],
    ids=["simulate", "start", "what_if", "drop", "sink", "reuse", "execute", "validate", "unroll"],
)
def test_a_schedule_may_be_of_names(order_of, form):
    found, expected = order_of(form(NAMES)), order_of(ra.Schedule(range(len(NAMES))))
    if isinstance(found, ra.Schedule):
        found, expected = found.order.tolist(), expected.order.tolist()
    assert found == expected


def test_an_unknown_name_is_told_with_its_step():
    with pytest.raises(ra.ScheduleError, match="step 1: unknown node 'x'") as error:
        ra.simulate(FORWARD, ["a", "x"])
    assert error.value.step == 1


def test_sets_of_nodes_may_be_of_names():
    by_name = ra.structure.LowerSets.of(TRAINING, [["a"], ["a", "b", "c", "d"]])
    assert by_name.sets(TRAINING) == ra.structure.LowerSets.of(TRAINING, [[0], [0, 1, 2, 3]]).sets(TRAINING)


def test_one_name_may_stand_alone():
    assert ra.what_if(TRAINING, keep="b").order.tolist() == ra.what_if(TRAINING, keep=["b"]).order.tolist()
