"""What Python shows of our types: a line each, without arrays; of the list of solvers a table."""

import dataclasses
import inspect
import sys
from pathlib import Path

import pytest
from hypothesis import given

import remat_algos as ra
from remat_algos.ir.parts import Derivation
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.registry import evaluated
from tests.public import PUBLIC
from tests.strategies import graphs, training_graphs

pytestmark = pytest.mark.usefixtures("short_searches")

CHAIN = ra.ComputationGraph.from_edges([(f"node{i}", f"node{i + 1}") for i in range(40)], memory=4096)
TRAINING = ra.differentiate(CHAIN)
PLAN = ra.solve(TRAINING, "60%", solver="chen_sqrt")
NETWORK = ra.zoo.build("feed_forward", batch=2, depth=2, width=4)
UNDIRECTED = ra.structure.UndirectedGraph.of(CHAIN)
DECOMPOSITION = ra.structure.TreeDecomposition.of(ra.structure.eliminate(UNDIRECTED))
BUFFERS = ra.allocate.Buffers.of(PLAN.simulation)


def shown():
    """Objects of the public types, and of others that users meet."""
    yield from (CHAIN, TRAINING, NETWORK.graph, NETWORK, CHAIN.labels, TRAINING.labels, TRAINING.labels.names)
    yield from (NETWORK.graph.resident, NETWORK.graph.backward, ra.Budget("50%"), TRAINING.derivation)
    yield ra.Constraints(TRAINING, max_runs=2, fixed_order=True, regions={"all": ("*", "4GiB")})
    yield from (PLAN, PLAN.schedule, PLAN.simulation, PLAN.simulation.lifetimes, *ra.list_solvers())
    yield from (ra.compare(TRAINING, "60%"), ra.frontier(TRAINING, solvers=["chen_sqrt", "no_remat"]))
    yield ra.bounds.overhead_bound(TRAINING, 10)
    yield from ra.formats.graph_formats()
    yield from (ra.explain(PLAN), *ra.explain(PLAN).decisions, ra.difference(PLAN, PLAN), ra.breakdown(PLAN))
    yield from (UNDIRECTED, ra.structure.eliminate(UNDIRECTED), ra.structure.width_bounds(UNDIRECTED), DECOMPOSITION)
    yield from (
        ra.structure.SeparatorTree.balanced(DECOMPOSITION, CHAIN.n_nodes),
        ra.structure.lower_set_family(TRAINING, "pruned"),
    )
    yield from (
        ra.structure.PathDecomposition.of(UNDIRECTED, range(CHAIN.n_nodes)),
        ra.structure.LowerSets.of(CHAIN, [range(41)]),
    )
    yield from (
        BUFFERS,
        ra.allocate.pack(BUFFERS),
        ra.allocate.pack_arenas(BUFFERS, [BUFFERS.max_live, BUFFERS.max_live]),
        ra.allocate.Trace.of_buffers(BUFFERS),
        ra.allocate.cupy_pool(ra.allocate.Trace.of_buffers(BUFFERS)),
    )
    yield from (
        ra.solve(TRAINING, "60%", allocator="arena").reservation,
        ra.solve(TRAINING, "60%", allocator="cupy_pool").reservation,
    )
    yield from (ra.execute(CHAIN, range(41)), ra.validate(CHAIN, simulate(CHAIN, range(41)), repeats=0))
    yield from (NETWORK, ra.cost.Device("mine", {"float32": 1e12}, 1e12, 1e-6, 2**34))
    yield from (*ra.ir.operation_kinds(), ra.zoo.Settings())
    yield from (evaluated(PLAN.graph, PLAN.schedule), ra.cost.Link.of("pcie5"))
    yield ra.teach.exercise("offsets")
    yield from (ra.sweeps.SweepJob(CHAIN), ra.sweeps.SweepResults(Path("results"), ({"outcome": "planned"},)))


@pytest.fixture(scope="module")
def objects():
    return list(shown())


def test_every_type_is_a_line_without_arrays(objects):
    for subject in objects:
        line = repr(subject)
        assert type(subject).__name__ in line
        assert "\n" not in line
        assert "array(" not in line
        assert len(line) < 300, line


def test_no_public_type_is_left_out(objects):
    seen = {type(subject) for subject in objects} | {
        type(run) for run in ra.allocate.cupy_pool(ra.allocate.Trace.of_buffers(BUFFERS)).runs
    }
    missing = {kind for kind in PUBLIC.values() if inspect.isclass(kind) and dataclasses.is_dataclass(kind)} - seen
    assert missing == {ra.solvers.Region}


LINES = [
    (CHAIN, "<ComputationGraph: 41 nodes, 40 reads, "),
    (TRAINING, "<ComputationGraph: 82 nodes (41 forward, 41 backward), "),
    (PLAN, "<Plan: chen_sqrt, peak "),
    (
        PLAN.schedule,
        f"<Schedule: {len(PLAN.schedule)} steps, {(PLAN.simulation.runs > 1).sum()} nodes recomputed>",
    ),
    (PLAN.simulation, "<Simulation: peak "),
    (ra.ComputationGraph.from_edges([]), "<ComputationGraph: 0 nodes, 0 reads, 0 B>"),
    (ra.Schedule([]), "<Schedule: 0 steps, 0 nodes recomputed>"),
    (ra.Schedule([0, 0, 0]), "<Schedule: 3 steps, 1 node recomputed>"),
]


@pytest.mark.parametrize(("subject", "begins"), LINES, ids=[begins for _, begins in LINES])
def test_lines_say_what_counts(subject, begins):
    assert repr(subject).startswith(begins)


@given(graphs() | training_graphs(max_nodes=8))
def test_every_graph_and_its_run_have_a_line(graph):
    found = simulate(graph, range(graph.n_nodes))
    for subject in (graph, graph.labels, found, found.schedule, found.lifetimes):
        assert "\n" not in repr(subject)


def test_a_long_name_is_shortened():
    graph = ra.ComputationGraph.from_edges([("a" * 10**5, "b")])
    assert len(repr(simulate(graph, [0, 1]))) < 200


def test_the_solvers_are_a_table_and_still_a_list():
    solvers = ra.list_solvers()
    lines = str(solvers).splitlines()
    assert repr(solvers) == str(solvers)
    assert lines[0].split() == ["solver", "paper", "what", "it", "does"]
    assert max(map(len, lines)) <= 80
    named = [line.split()[0] for line in lines[1:] if not line.startswith(" ")]
    assert named == [solver.name for solver in solvers]
    assert isinstance(solvers, list)
    assert [solver.paper for solver in solvers] == [solvers[i].paper for i in range(len(solvers))]


def test_interactive_python_shows_a_line(capsys):
    sys.displayhook(PLAN)
    assert capsys.readouterr().out.count("\n") == 1


def test_what_is_nothing_has_a_line_too():
    assert repr(Derivation("00", {"factor": 2})).count("\n") == 0
