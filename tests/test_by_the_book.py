"""The papers' algorithms in examples/by_the_book against the package's solvers, on 300 random graphs each."""

import ast
import os
import subprocess
import sys

import numpy as np
import pytest

from docs.reproductions.echo2020.passes import by_algorithm_1
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Backward
from remat_algos.schedule.emission import mirror_schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.chain_stages import BACKWARD, LEAF, SWEEP, stages_of
from remat_algos.solvers.methods.chen_greedy import Walk, paper_grid
from remat_algos.solvers.methods.echo import Choice
from remat_algos.solvers.methods.revolve import forward_runs
from remat_algos.solvers.registry import list_candidates
from remat_algos.structure.cuts import ForwardPart, segment_counts
from tests.books import FOLDER, book
from tests.echo_cases import attention, echoed, network, random_networks, tensors
from tests.small_graphs import training_chain
from tests.strategies import rows

FILES = sorted(FOLDER.glob("*.py"))
COUNT = 300


# ---------------------------------------------------------------- every file


def test_the_page_of_the_examples_lists_every_file():
    page = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in FILES if f"`by_the_book/{path.name}`" not in page] == []


def test_the_page_shows_every_file():
    page = (FOLDER.parents[1] / "docs" / "by_the_book.md").read_text(encoding="utf-8")
    assert [path.name for path in FILES if f"{{literalinclude}} ../examples/by_the_book/{path.name}" not in page] == []


each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


@each_file
def test_a_file_is_short_and_compiled(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    assert "\n@njit\ndef " in text
    assert text.startswith('"""')


@each_file
def test_a_file_imports_only_numpy_and_numba(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert imports == ["import numpy as np", "from numba import njit"]


@each_file
def test_a_file_runs_alone_and_prints_the_same_without_compilation(path, capsys, tmp_path):
    main = book(path.stem).main
    plain_python = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": ""}
    command = [sys.executable, "-W", "error", path]
    run = subprocess.run(command, cwd=tmp_path, env=plain_python, check=True, timeout=60, capture_output=True)
    main()
    assert capsys.readouterr().out == run.stdout.decode() != ""


# ---------------------------------------------------------------- graphs


def generators(seed):
    """One random generator for each graph."""
    return (np.random.default_rng((seed, i)) for i in range(COUNT))


def random_reads(rng, most=12):
    """Predecessors of each node of a random graph; ids are a topological order."""
    n, density = int(rng.integers(1, most, endpoint=True)), rng.uniform(0.1, 0.6)
    return [[u for u in range(v) if rng.random() < density] for v in range(n)]


def csr(lists):
    """Row pointers int64[n + 1] and indices int32[...] of lists of ids."""
    indptr = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    return indptr, np.array([index for row in lists for index in row], np.int32)


def chain(memory, gradient=1, saves_output=True):
    """A chain of nodes with its gradients, which read the input and, with `saves_output`, the output of their node."""
    n = len(memory)
    saved = [[v - 1] * (v > 0) + [v] * saves_output for v in range(n)]
    rule = Backward(**rows("saved", saved), grad_memory=[gradient] * n, grad_compute=[-1] * n, grad_workspace=[0] * n)
    reads = [[v - 1] if v else [] for v in range(n)]
    return differentiate(ComputationGraph.from_arrays(**rows("read", reads), memory=memory, backward=rule))


# ---------------------------------------------------------------- chen2016, algorithm 1


def gradients_without_dropping(weight, v, label):
    """Gradients of a chain of layers tanh(weight[i] v) that stores the input of every layer."""
    inputs = [v]
    for row in weight:
        inputs.append(np.tanh(row * inputs[-1]))
    g, dw = inputs[-1] - label, []
    for i in reversed(range(len(weight))):
        dw.insert(0, g * (1 - inputs[i + 1] ** 2) * inputs[i])
        g = g * (1 - inputs[i + 1] ** 2) * weight[i]
    return g, dw


def test_chen_algorithm_1_runs_a_chain_as_chen_sqrt():
    """The same schedule, except for the last layer of each segment, which the text runs again without a reader."""
    for rng in generators(3):
        n = int(rng.integers(1, 12, endpoint=True))
        begin = np.array([0, *(i for i in range(1, n) if rng.random() < 0.4), n])
        weight, v, label = rng.standard_normal((n, 3)), rng.standard_normal(3), rng.standard_normal(3)
        g, dw, runs, stored = book("chen_algorithm_1").algorithm_1(weight, begin, v, label)
        wanted = gradients_without_dropping(weight, v, label)
        np.testing.assert_allclose(g, wanted[0], rtol=1e-12)
        np.testing.assert_allclose(dw, wanted[1], rtol=1e-12)
        assert stored == max(j + 1 + size for j, size in enumerate(np.diff(begin)))
        # Node 0 is the input, node i + 1 is layer i; node n + 1 is the gradient of the loss.
        graph = chain(np.ones(n + 1, int), saves_output=False)
        [candidate] = list_candidates(graph, "chen_sqrt", at=[*map(str, begin)], keep_last=False)
        again = [i for t, i in enumerate(runs) if i < n and (t < n or i + 1 not in begin)]
        order = candidate.schedule.order.tolist()
        assert [0, *(i + 1 for i in again)] == [node for node in order if node <= n]
        assert [node for node in order if node > n] == list(range(n + 1, 2 * n + 2))
        position = [t for t, i in enumerate(runs) if i >= n or t < n or i + 1 not in begin]
        assert [i < n for i in runs[position]] == [node <= n for node in order[1:]]


# ---------------------------------------------------------------- chen2016, algorithm 2


def test_chen_algorithm_2_orders_a_graph_as_mirror_schedule():
    """The graph has one gradient per node, as in the paper; the package has one per edge."""
    for rng in generators(4):
        reads = random_reads(rng)
        n = len(reads)
        successors = [[w for w in range(n) if v in reads[w]] for v in range(n)]
        m = rng.integers(0, rng.integers(0, 3, endpoint=True), n, endpoint=True)
        operator, indptr, indices, order = book("chen_algorithm_2").algorithm_2(*csr(reads), *csr(successors), m)
        # The gradient of v has id 2 n - 1 - v.
        gradients = [[2 * n - 1 - w for w in successors[v]] + [v] + reads[v] for v in reversed(range(n))]
        graph = ComputationGraph.from_arrays(
            **rows("read", reads + gradients), forward_of=[-1] * n + list(reversed(range(n)))
        )
        schedule = mirror_schedule(graph, np.append(m, np.zeros(n, int)))
        node = np.where(operator < n, operator, 3 * n - 1 - operator)
        assert node[order].tolist() == schedule.order.tolist()
        check_mirrored_graph(graph, m, node, indptr, indices)


def check_mirrored_graph(graph, m, node, indptr, indices):
    """Copy k of v reads copy min(k, m(u)) of its predecessors u; a gradient reads the last copies."""
    n, copies = m.size, {}
    for new, v in enumerate(node.tolist()):
        k = sum(1 for other, _ in copies if other == v)
        copies[v, k] = new
        wanted = []
        for u in graph.producer[graph.reads(v)].tolist():
            wanted.append(copies[u, 0 if u >= n else m[u] if v >= n else min(k, m[u])])
        assert indices[indptr[new] : indptr[new + 1]].tolist() == wanted
    assert len(copies) == 2 * n + m.sum()


# ---------------------------------------------------------------- chen2016, algorithm 3


def budgets_of(rng, memory):
    return [0, *rng.integers(0, memory.sum() + 2, 3).tolist(), rng.uniform(0, memory.sum() + 1)]


def test_chen_algorithm_3_divides_a_graph_as_chen_greedy():
    """On any graph, if C has only nodes whose value is the only one that is live after them, as the paper assumes."""
    for rng in generators(1):
        reads = random_reads(rng)
        memory = rng.integers(0, 9, len(reads))
        part = ForwardPart.of(differentiate(ComputationGraph.from_arrays(**rows("read", reads), memory=memory)))
        candidate = (part.graph.producer[part.alone] == part.nodes) & (part.alone >= 0) & (rng.random(len(reads)) < 0.8)
        walk = Walk(part.memory, np.flatnonzero(candidate))
        for budget in budgets_of(rng, memory):
            x, y, m = book("chen_algorithm_3").algorithm_3(memory, candidate, budget)
            segmentation = walk.segmentation(budget)
            assert (x, y) == (segmentation.x, segmentation.y)
            assert m.tolist() == segment_counts(part, segmentation.cuts, False)[part.nodes].tolist()


def test_chen_algorithm_3_plans_a_chain_as_chen_greedy():
    """The same budgets and schedules as `chen_greedy(grid="paper")`, and the peaks of their simulations."""
    for rng in generators(2):
        memory = rng.integers(1, 9, rng.integers(1, 16, endpoint=True))
        graph, candidate = chain(memory, gradient=0), np.ones(memory.size, bool)
        budgets = book("chen_algorithm_3").budget_grid(memory, candidate, 6)
        wanted = [segmentation.budget for segmentation in paper_grid(Walk(memory, np.arange(memory.size)))]
        assert budgets.tolist() == pytest.approx(wanted)
        orders = set()
        for budget in budgets:
            m = book("chen_algorithm_3").algorithm_3(memory, candidate, budget)[2]
            schedule = mirror_schedule(graph, np.append(m, np.zeros(memory.size, int)))
            orders.add(tuple(schedule.order.tolist()))
            assert book("chen_algorithm_3").chain_peak(memory, m) == simulate(graph, schedule).peak_memory
        options = {"grid": "paper", "candidates": "all", "keep_last": False}
        candidates = list_candidates(graph, "chen_greedy", **options)
        assert {tuple(each.schedule.order.tolist()) for each in candidates} == orders
        _, peak = book("chen_algorithm_3").search_over_budget(memory, candidate, 6)
        assert peak == min(each.simulation.peak_memory for each in candidates)


# ---------------------------------------------------------------- chen2016, section 4.4


def test_chen_recursion_plans_a_chain_as_chen_recursive():
    """The same schedule; g(n) is the peak of its simulation if gradients have no bytes and read inputs and outputs."""
    for rng in generators(6):
        n = int(rng.integers(1, 60, endpoint=True))
        k = int(rng.integers(1, min(n, 8), endpoint=True))
        m = book("chen_recursion").mirror_counts(n, k)
        graph = chain(np.ones(n, int), gradient=0)
        options = {"splits": k, "depth": n, "candidates": "all", "keep_last": False}
        [candidate] = list_candidates(graph, "chen_recursive", **options)
        schedule = mirror_schedule(graph, np.append(m, np.zeros(n, int)))
        assert schedule.order.tolist() == candidate.schedule.order.tolist()
        assert candidate.simulation.peak_memory == book("chen_recursion").g(n, k)


@pytest.mark.parametrize(("n", "k"), [(7, 1), (127, 1), (8, 2), (80, 2), (63, 3), (48, 6)])
def test_formula_3_is_formula_2_where_it_divides_exactly(n, k):
    assert book("chen_recursion").g(n, k) == pytest.approx(book("chen_recursion").formula_3(n, k))


# ---------------------------------------------------------------- griewank2000


def chain_operations(actions):
    """Operations on the stages of a chain: steps that only advance, and steps that are run and reversed."""
    revolve, state = book("revolve"), 0
    for action, place in actions:
        if action == revolve.ADVANCE:
            yield from ((SWEEP, stage) for stage in range(state, place))
        elif action in (revolve.FIRSTURN, revolve.YOUTURN):
            yield from ((LEAF, place), (BACKWARD, place))
        state = place


def stored_states(actions):
    """Maximum number of stored states, which an action never overwrites; restored states are stored."""
    revolve, stored, most = book("revolve"), [], 0
    for action, place in actions:
        if action == revolve.TAKESHOT:
            stored.append(place)
        elif action == revolve.RESTORE:
            assert place == stored[-1]
        elif action in (revolve.FIRSTURN, revolve.YOUTURN) and stored[-1] == place:
            stored.pop()
        most = max(most, len(stored))
    return most


def test_revolve_costs_what_our_revolve_costs():
    """The schedules may differ: where several cuts are optimal, ours takes the one nearest to the beginning."""
    graphs = [None, None, None, *map(training_chain, range(3, 31))]
    for rng in generators(5):
        n, snaps = int(rng.integers(3, 31)), int(rng.integers(1, 9))
        actions = [*zip(*(row.tolist() for row in book("revolve").revolve(n, snaps)), strict=True)]
        operations = list(chain_operations(actions))
        assert stored_states(actions) <= snaps
        assert [stage for operation, stage in operations if operation == BACKWARD] == [*reversed(range(n))]
        steps = sum(operation == SWEEP for operation, _ in operations)
        assert steps == book("revolve").forward_steps(n, snaps) == forward_runs(n, snaps)
        schedule = stages_of(graphs[n]).schedule(operations)
        [*_, candidate] = list_candidates(graphs[n], "revolve", checkpoints=snaps)
        simulation = simulate(graphs[n], schedule)
        assert (simulation.peak_memory, simulation.compute) == candidate.figures


def test_the_closed_form_of_revolve_is_its_recurrence():
    for n in (1, 2, 3, 7, 20, 45):
        for s in range(1, 12):
            assert book("revolve").forward_steps(n, s) == book("revolve").recurrence(n, s)


# ---------------------------------------------------------------- echo2020


def test_echo_pass_recomputes_what_echo_recomputes():
    """On graphs of single values; `check_paper` in test_solvers_echo.py has nodes of several."""
    for graph in random_networks(COUNT):
        maps = Choice.of(graph).maps
        G, heavy = tensors(maps)
        path = book("echo_pass").echo_pass(G, heavy)
        candidate = echoed(graph, mode="paper")
        assert book("echo_pass").stash(path, G) == candidate.details["stash"]
        assert maps.recomputed(path).tolist() == (candidate.schedule.mirror_count(graph.n_nodes) > 0).tolist()


def test_echo_algorithm_1_recomputes_what_the_reproduction_recomputes():
    for graph in random_networks(COUNT):
        maps = Choice.of(graph).maps
        path = book("echo_algorithm_1").algorithm_1(*tensors(maps))
        assert path.tolist() == by_algorithm_1(maps).tolist()


@pytest.mark.parametrize("steps", [3, 5, 8])
def test_the_example_of_figure_13(steps):
    """Algorithm 1 as printed saves nothing, which the paper does not mention."""
    G, heavy = tensors(Choice.of(network(attention(steps))).maps)
    pass_ = book("echo_pass")
    assert pass_.stash(pass_.echo_pass(G, heavy), G) == 2 * steps
    assert pass_.stash(book("echo_algorithm_1").algorithm_1(G, heavy), G) == steps**2
