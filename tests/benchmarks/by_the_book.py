"""CPU seconds of the files of examples/by_the_book: plain Python, Numba, and our solver.

`python -m tests.benchmarks.by_the_book` prints the table of docs/by_the_book.md, with `--write` it writes it. Each
figure is measured in a process of its own, and given up after 10 seconds.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from docs.page_parts import fill, table
from tests.benchmarks.occasion import Occasion
from tests.books import book

PAGE = Path(__file__).parents[2] / "docs" / "by_the_book.md"
SIZES = (100, 1_000, 10_000)
LIMIT = 10  # seconds


def reads(n):
    """Node v reads node v - 1, and three nodes in ten also one of the eight before it; int64[n + 1], int32[m]."""
    rng, rows = np.random.default_rng(7), [[]]
    for v in range(1, n):
        other = int(rng.integers(max(0, v - 8), v))
        rows.append(sorted({v - 1, other}) if rng.random() < 0.3 else [v - 1])
    return np.cumsum([0, *map(len, rows)], dtype=np.int64), np.array([u for row in rows for u in row], np.int32)


def chain(n):
    return np.array([0, *range(n)], np.int64), np.arange(n - 1, dtype=np.int32)


def successors(indptr, indices):
    reader = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    order = np.argsort(indices, kind="stable")
    count = np.bincount(indices, minlength=indptr.size - 1)
    return np.append(0, np.cumsum(count)), reader[order].astype(np.int32)


def forward_graph(n, rows=reads):
    from remat_algos.ir.graph import ComputationGraph

    indptr, indices = rows(n)
    return ComputationGraph.from_arrays(read_indptr=indptr, read_indices=indices)


def training_graph(n, rows=chain):
    from remat_algos.ir.differentiate import differentiate

    return differentiate(forward_graph(n, rows))


def candidates(graph, solver, **options):
    from remat_algos.solvers.registry import list_candidates

    return lambda: list_candidates(graph, solver, **options)


def decomposition(n):
    from remat_algos.structure.decompositions import TreeDecomposition
    from remat_algos.structure.elimination import UndirectedGraph, eliminate

    return TreeDecomposition.of(eliminate(UndirectedGraph.of(forward_graph(n)), "fill"))


def arrays_of(tree):
    return tree.bag_indptr, tree.bag_indices.astype(np.int64), tree.parent.astype(np.int64)


def chen_algorithm_1(n):
    rng, side = np.random.default_rng(1), max(1, int(n**0.5))
    begin = np.array([*range(0, n, side), n])
    return lambda of: of.algorithm_1(rng.standard_normal((n, 8)), begin, np.ones(8), np.zeros(8)), None


def chen_algorithm_2(n):
    from remat_algos.schedule.emission import mirror_schedule

    rows, m, graph = reads(n), (np.arange(n) % 10 > 0).astype(np.int64), training_graph(n, reads)
    counts = np.append(m, np.zeros(graph.n_nodes - n, np.int64))
    return lambda of: of.algorithm_2(*rows, *successors(*rows), m), lambda: mirror_schedule(graph, counts)


def chen_algorithm_3(n):
    from remat_algos.solvers.methods.chen_greedy import Walk, paper_grid

    memory = np.random.default_rng(2).integers(1, 9, n)
    ours = lambda: [*paper_grid(Walk(memory, np.arange(n)))]  # noqa: E731
    return lambda of: of.search_over_budget(memory, np.ones(n, bool), 6), ours


def chen_recursion(n):
    graph = training_graph(n)
    ours = candidates(graph, "chen_recursive", splits=1, depth=n, candidates="all", keep_last=False)
    return lambda of: of.mirror_counts(n, 1), ours


def kusumoto(name, solver, **options):
    def case(n):
        rows, ones, budget = chain(n), np.ones(n, np.int64), int(4 * n**0.5) + 8
        graph = training_graph(n)
        options_ = options | {"formula_budget": budget, "strategy": "time", "keep_last": False, "lazy": True}
        more = (False,) if name == "exact_dp" else ()
        return lambda of: getattr(of, name)(*rows, ones, ones, budget, *more), candidates(graph, solver, **options_)

    return case


def kumar_tree_decomposition(n):
    from remat_algos.structure.elimination import UndirectedGraph, eliminate

    rows, graph = reads(n), UndirectedGraph.of(forward_graph(n))
    return lambda of: of.minimum_fill_in(*rows), lambda: eliminate(graph, "fill")


def kumar_lemma_1(n):
    tree = decomposition(n)
    return lambda of: of.shrink(*arrays_of(tree)), tree.reduce


def kumar_balanced_separators(n):
    from remat_algos.structure.separators import SeparatorTree

    tree = decomposition(n).reduce()
    return lambda of: of.separators(*arrays_of(tree), n), lambda: SeparatorTree.balanced(tree, n)


def kumar_twremat(n):
    from remat_algos.structure.separators import SeparatorTree

    separators, targets = SeparatorTree.balanced(decomposition(n).reduce(), n), np.arange(n) == n - 1
    end, owner = separators.end.astype(np.int64), separators.owner.astype(np.int64)
    ours = candidates(forward_graph(n), "twremat", orders=1, batching=False, recursion_limit=1, length_limit=10**8)
    return lambda of: of.twremat(*reads(n), end, owner, targets, 1, False), ours


def kumar_greedy_remat(n):
    from remat_algos.schedule.schedule import Schedule
    from remat_algos.solvers.methods.greedy_remat import walk

    graph = training_graph(n)
    rows = graph.read_indptr, graph.producer[graph.read_indices].astype(np.int32)
    s, sigma, limit = np.ones(graph.n_nodes, np.int64), np.arange(graph.n_nodes), n // 2 + 4
    ours = lambda: walk(graph, Schedule(sigma), limit, 1, moves=False, rule="largest")  # noqa: E731
    return lambda of: of.greedy_remat(*rows, s, sigma, limit, 8 * (graph.n_nodes + 8)), ours


def revolve(n):
    snaps = max(1, int(np.ceil(np.log2(n))))
    return lambda of: of.revolve(n, snaps), candidates(training_graph(n), "revolve", checkpoints=snaps)


def echo_tensors(n):
    """The decoder of figure 8 of the paper, with about n forward nodes: its graph, and the arrays of the files."""
    from remat_algos.solvers.methods.echo import Choice
    from tests.echo_cases import decoder, network, tensors

    graph = network(decoder(n // 4))
    return graph, tensors(Choice.of(graph).maps)


def echo_algorithm_1(n):
    arrays = echo_tensors(n)[1]
    return lambda of: of.algorithm_1(*arrays), None


def echo_pass(n):
    from tests.echo_cases import echoed

    graph, arrays = echo_tensors(n)
    return lambda of: of.echo_pass(*arrays), lambda: echoed(graph, mode="paper")


CASES = {
    "chen_algorithm_1": chen_algorithm_1,
    "chen_algorithm_2": chen_algorithm_2,
    "chen_algorithm_3": chen_algorithm_3,
    "chen_recursion": chen_recursion,
    "kusumoto_exact_dp": kusumoto("exact_dp", "exact_dp"),
    "kusumoto_approximate_dp": kusumoto("approximate_dp", "approximate_dp", family="pruned"),
    "kumar_tree_decomposition": kumar_tree_decomposition,
    "kumar_lemma_1": kumar_lemma_1,
    "kumar_balanced_separators": kumar_balanced_separators,
    "kumar_twremat": kumar_twremat,
    "kumar_greedy_remat": kumar_greedy_remat,
    "revolve": revolve,
    "echo_algorithm_1": echo_algorithm_1,
    "echo_pass": echo_pass,
}


def seconds(call):
    begin = time.process_time()
    call()
    return time.process_time() - begin


def measure(name, n, mode):
    """CPU seconds of the first call and of the median of three later ones; of a solver of the package the median."""
    call, ours = CASES[name](n)
    if mode == "ours":
        return None if ours is None else [sorted(seconds(ours) for _ in range(3))[1]]
    module = book(name)
    first = seconds(lambda: call(module))
    return [first] if mode == "plain" else [first, sorted(seconds(lambda: call(module)) for _ in range(3))[1]]


def in_a_process(name, n, mode):
    command = [sys.executable, "-m", "tests.benchmarks.by_the_book", "--measure", name, str(n), mode]
    environment = os.environ | ({"NUMBA_DISABLE_JIT": "1"} if mode == "plain" else {})
    try:
        run = subprocess.run(command, env=environment, capture_output=True, timeout=LIMIT + 5, check=True)
    except subprocess.TimeoutExpired:
        return None
    found = json.loads(run.stdout)
    return [] if found is None else found


def rows():
    for name in CASES:
        ended = set()
        for n in SIZES:
            cells = []
            for mode, count in (("plain", 1), ("numba", 2), ("ours", 1)):
                found = None if mode in ended else in_a_process(name, n, mode)
                if found is None:
                    ended.add(mode)
                cells += [f"over {LIMIT}"] * count if found is None else [f"{each:.2g}" for each in found] or ["none"]
            yield [f"`{name}`", f"{n:,}", *cells]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the table to docs/by_the_book.md")
    parser.add_argument("--measure", nargs=3, metavar=("NAME", "N", "MODE"), help="print the seconds of one case")
    arguments = parser.parse_args()
    if arguments.measure:
        name, n, mode = arguments.measure
        print(json.dumps(measure(name, int(n), mode)))
        return
    occasion = Occasion.now()
    heads = ["file", "nodes", "plain Python", "Numba, first call", "Numba, later calls", "our solver"]
    lines = f"Measured on {occasion}. CPU seconds:\n\n{table(heads, rows(), ['---', *['--:'] * 5])}\n\n"
    print(lines)
    if arguments.write:
        fill(PAGE, "times", lines)


if __name__ == "__main__":
    main()
