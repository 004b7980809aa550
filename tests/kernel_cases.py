"""Calls of kernels that take memory, as `(small, large)`: `large` takes more than 4 MiB, `small` can be compared."""

from functools import partial

import numpy as np
from remat_algos.kernels import rules
from remat_algos.kernels.blocks import BlockGraph, PairFigures, block_borders
from remat_algos.kernels.chain_table import operations
from remat_algos.kernels.closure import ClosureSearch, forced_bytes, two_path_bytes
from remat_algos.kernels.decomposition import (
    bags_to_tree,
    branch_layout,
    broken_law,
    leftmost_topological_order,
    minimum_layout,
    place_early,
    root_tree,
    separators,
)
from remat_algos.kernels.elimination import (
    EliminationRun,
    contraction_width,
    elimination_bags,
    reduce_safely,
)
from remat_algos.kernels.emitter import beam_search_order, canonical_order, mirror_order
from remat_algos.kernels.flow import FlowNetwork, maximum_flow
from remat_algos.kernels.graph import GraphArrays, topological_order
from remat_algos.kernels.greedy import greedy_order
from remat_algos.kernels.layer_order import crossings, nearest_rising, reduce_crossings
from remat_algos.kernels.lifetimes import broken_mark, host_bytes, instance_lifetimes, serving_runs
from remat_algos.kernels.live_sets import LiveSetSearch
from remat_algos.kernels.lower_set_dp import (
    ChainSteps,
    Completion,
    MinimumBudget,
    MinimumCache,
    MinimumCost,
    MinimumPeaks,
)
from remat_algos.kernels.lower_sets import all_lower_sets, lower_set_figures, superset_rows
from remat_algos.kernels.offsets import GapFit, SkylineFit, first_clash, shared_blocks
from remat_algos.kernels.offsets_search import PackingSearch
from remat_algos.kernels.passes import dead_runs, replay_order, run_prices, sink_order
from remat_algos.kernels.pools import LOWEST, run_pool
from remat_algos.kernels.regions import greedy_cuts, keep_depths, removed_regions, segment_cuts
from remat_algos.kernels.rules import Rule
from remat_algos.kernels.schedule_state import ScheduleRules, ScheduleState
from remat_algos.kernels.search import N_EXPONENTIALS, ScheduleSearch
from remat_algos.kernels.timeline import Engines, timeline
from remat_algos.kernels.timetable import Timetable
from remat_algos.kernels.twremat import PLAIN, recursive_order

from remat_algos.ir.arrays import NO_PAIRS, NO_TRIPLES
from remat_algos.solvers.methods.greedy_remat import RULES
from remat_algos.structure.elimination import ELIMINATION_RULES

CASES = {}


def case(function):
    """Register what returns a pair of calls without arguments; both may be called again."""
    CASES[function.__name__] = function
    return function


def grid(rows, columns):
    """An undirected grid: indptr, indices."""
    place = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)
    tail = np.concatenate([place[:-1].ravel(), place[:, :-1].ravel()])
    head = np.concatenate([place[1:].ravel(), place[:, 1:].ravel()])
    source, target = np.concatenate([tail, head]), np.concatenate([head, tail])
    return rows_by(source, target, place.size)


def calls(kernel, small, large):
    """Both calls of a function, its arrays as lists."""
    return lambda: as_lists(kernel(*small)), lambda: kernel(*large)


def both(small, large):
    """Both calls of functions without arguments, the arrays of the first as lists."""
    return lambda: as_lists(small()), large


def searched_by(make, answer, work=10**9):
    """A call that makes a search of a kernel, advances it and returns what is asked of it."""

    def call():
        search = make()
        search.advance(work)
        return answer(search)

    return call


def as_lists(result):
    if isinstance(result, tuple):
        return [as_lists(part) for part in result]
    return result.tolist() if isinstance(result, np.ndarray) else result


def rows_by(key, value, n):
    """The values of each key, ascending: indptr, indices."""
    indptr = np.concatenate([[0], np.cumsum(np.bincount(key, minlength=n))])
    return indptr, value[np.lexsort((value, key))].astype(np.int32)


def path(n):
    """An undirected path: indptr, indices."""
    return grid(1, n)


def path_tree(n):
    """The tree decomposition of a path: bag_indptr, bag_indices, parent."""
    bags = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    return np.arange(0, 2 * n - 1, 2), bags.ravel().astype(np.int32), np.arange(-1, n - 2, dtype=np.int32)


def graph_arrays(n, read_indptr, reads, **arrays):
    """A graph of n nodes with one value of one byte each; its last node makes the output."""
    arrays = {"memory": np.ones(n, np.int64), "output": (np.arange(n) == n - 1).view(np.uint8), **arrays}
    return GraphArrays(
        value_indptr=np.arange(n + 1), read_indptr=read_indptr, read_indices=reads.astype(np.int32), **arrays
    )


def backward_reads(n):
    """Node i reads value i - 1, and gradient i, node 2 n - 1 - i, value i too: rows and values, and forward_of."""
    forward, backward = np.arange(n), np.arange(n - 1, -1, -1)
    read_indptr = np.concatenate([[0], np.arange(n), n - 1 + 2 * np.arange(1, n + 1)])
    reads = np.concatenate([forward[:-1], np.stack([np.arange(n - 1, 2 * n - 1), backward], axis=1).ravel()])
    forward_of = np.concatenate([np.full(n, -1), backward]).astype(np.int32)
    return (read_indptr, reads.astype(np.int32)), forward_of


def backward_rows(n):
    """Such a training graph, without outputs, and forward_of."""
    reads, forward_of = backward_reads(n)
    flags = np.ones(2 * n, np.uint8)
    return graph_arrays(2 * n, *reads, output=0 * flags, needed=flags), forward_of


# ---------------------------------------------------------------- elimination, decomposition, flow


@case
def elimination():
    def eliminate(graph):
        run = EliminationRun(
            *graph, np.arange(graph[0].size - 1, dtype=np.int32), ELIMINATION_RULES.rule("fill"), True, 1000
        )
        run.run(10**9)
        return [array.tolist() for array in run.result()[:3]]

    few, many = grid(5, 5), grid(200, 200)
    return lambda: eliminate(few), lambda: eliminate(many)


@case
def elimination_matrix():
    def run(n, near):
        """A circle, each vertex joined with some on both sides: dense, so that the next step makes a matrix of it."""
        neighbours = np.empty((n, 2 * near), np.int32)
        distance = np.append(np.arange(-near, 0), np.arange(1, near + 1))
        for v in range(n):
            neighbours[v] = np.sort((v + distance) % n)
        rank, degree = np.arange(n, dtype=np.int32), ELIMINATION_RULES.rule("degree")
        return EliminationRun(np.arange(n + 1) * 2 * near, neighbours.ravel(), rank, degree, True, 1)

    dense = run(7000, 225)
    return lambda: run(40, 5).run(10), lambda: dense.run(1)


@case
def elimination_of_an_order():
    few, many = grid(5, 5), grid(200, 200)
    order = np.arange(40000, dtype=np.int32)
    return calls(elimination_bags, (*few, order[:25]), (*many, order))


@case
def elimination_contraction():
    return calls(contraction_width, grid(5, 5), grid(170, 170))


@case
def elimination_reduction():
    return calls(reduce_safely, (*grid(5, 5), 2), (*grid(170, 170), 2))


@case
def decomposition():
    memory = np.ones(300000, np.int64)
    return calls(separators, (*path_tree(9), memory[:9]), (*path_tree(300000), memory))


@case
def decomposition_check():
    def all_three(bags, edges, order, graph):
        return (
            root_tree(order.size, edges),
            bags_to_tree(order, *bags[:2])[1],
            broken_law(*bags, indptr=graph[0], indices=graph[1]),
        )

    def trees(n):
        edges = np.stack([np.arange(n - 2), np.arange(1, n - 1)], axis=1).astype(np.int32)
        return path_tree(n), edges, np.arange(n - 1, dtype=np.int32), path(n)

    return calls(all_three, trees(9), trees(500000))


@case
def decomposition_layout():
    ids = np.arange(500000, dtype=np.int32)
    return calls(place_early, (*path(9), ids[:9]), (*path(500000), ids))


@case
def decomposition_branches():
    def path_bags(n):
        indptr, indices, _ = path_tree(n)  # a bag for each vertex but the last, which has no neighbours left
        return np.arange(n, dtype=np.int32), np.append(indptr, 2 * n - 1), np.append(indices, np.int32(n - 1))

    return calls(branch_layout, path_bags(10), path_bags(300001))


@case
def decomposition_minimum():
    return calls(minimum_layout, path(9), path(23))


@case
def decomposition_order():
    def rows(n):
        none = np.zeros(n + 1, np.int64)
        return none, none, np.zeros(0, np.int32), np.arange(n)[::-1].copy()

    return calls(leftmost_topological_order, rows(9), rows(500000))


@case
def flow():
    def network(n):
        ids, capacity = np.arange(n, dtype=np.int32), np.arange(n - 1, 0, -1)
        return n, ids[:-1], ids[1:], capacity, 0, n - 1

    return calls(maximum_flow, network(9), network(300000))


@case
def flow_again():
    def cut(n):
        ids, capacity = np.arange(n, dtype=np.int32), np.arange(n - 1, 0, -1)

        def twice():
            network = FlowNetwork(n, ids[:-1], ids[1:], 0, n - 1)
            return [network.minimum_cut(amount)[0] for amount in (capacity, capacity + 1)]

        return twice

    return cut(9), cut(300000)


def chain_moments(n):
    """A chain and its backward pass, without outputs; and flags of no node."""
    ids, flags = np.arange(2 * n, dtype=np.int32), np.zeros(2 * n, np.uint8)
    read, reader = np.concatenate([ids[:-1], ids[:n][::-1]]), np.concatenate([ids[1:], ids[n:]])
    return graph_arrays(2 * n, *rows_by(reader, read, 2 * n), output=flags, needed=flags + 1), flags


@case
def closure():
    def bound(n):
        return partial(closure_overhead, n // 2, [n, n + 1], *chain_moments(n))

    return bound(20), bound(100_000)


def closure_overhead(limit, nodes, graph, flags):
    """The bound of some nodes, each of which costs 1."""
    ones, most = np.ones(graph.n_nodes, np.int64), 2**61 // (graph.n_nodes + 2)
    search = ClosureSearch(graph, flags, ones, bits=0, step=1, most=most)
    search.aim(limit)
    search.visit(np.array(nodes, np.int32), 0, 10**9)
    return int(search.overhead), int(search.node)


@case
def closure_of_free_nodes():
    """n nodes read one, and one reads them all: when one of the n runs, the others have run or not."""

    def bound(n):
        ids, flags = np.arange(n + 2, dtype=np.int32), np.zeros(n + 2, np.uint8)
        reader, read = np.concatenate([ids[1:-1], 0 * ids[1:-1] + n + 1]), np.concatenate([0 * ids[1:-1], ids[1:-1]])
        graph = graph_arrays(n + 2, *rows_by(reader, read, n + 2), output=flags, needed=flags + 1)
        return partial(closure_overhead, n // 2, [1], graph, flags)

    return bound(20), bound(100_000)


@case
def closure_forced():
    def bytes_of(n):
        graph, flags = chain_moments(n)
        return graph, flags + 1, np.array([0], np.int32), 9**9

    return calls(forced_bytes, bytes_of(9), bytes_of(200_000))


@case
def closure_paths():
    def pairs_of(n):
        return chain_moments(n)[0], np.ones(2 * n, np.int64), np.arange(2, dtype=np.int32), 0, 0

    return calls(two_path_bytes, pairs_of(9), pairs_of(400_000))


# ---------------------------------------------------------------- graph, emitter, regions


@case
def graph():
    none = np.zeros(1000001, np.int64), np.zeros(0, np.int32)
    return calls(topological_order, (none[0][:10], none[1]), none)


@case
def graph_all_arrays():
    def arrays(n):
        rows = np.zeros(n + 1, np.int64), np.zeros(0, np.int32)
        return lambda: graph_arrays(n, *rows).n_values

    return arrays(9), arrays(1000000)


@case
def emitter():
    def twice(n):
        return *backward_rows(n), np.repeat([1, 0], n)

    return calls(mirror_order, twice(9), twice(200000))


@case
def emitter_canonical():
    def blocks(n):
        """Each forward node a block of its own."""
        last = np.full(2 * n, n, np.int32)
        block = np.concatenate([np.arange(n), np.full(n, n - 1)]).astype(np.int32)
        kept = (block == np.arange(2 * n)).astype(np.uint8)
        flags = {"kept": kept, "never_recomputed": 1 - kept, "lazy": False}
        return partial(canonical_order, *backward_rows(n), block=block, co_input_from=last, n_blocks=n, **flags)

    return both(blocks(9), blocks(200000))


@case
def emitter_beam_search():
    def graph(n):
        """Nodes without reads, of which eight are needed."""
        rows = np.zeros(n + 1, np.int64), np.zeros(0, np.int32)
        return graph_arrays(n, *rows, output=np.ones(n, np.uint8)), np.arange(8, dtype=np.int32), 20

    return calls(beam_search_order, graph(9), graph(4000000))


@case
def live_sets():
    """Nodes that the last one reads: every set of them is a state."""

    def search(n, n_states):
        ones, none = np.ones(n + 1, np.int64), (np.zeros(n + 2, np.int64), np.zeros(0, np.int32))
        graph = graph_arrays(n + 1, np.repeat([0, n], [n + 1, 1]), np.arange(n), compute=ones)
        run = LiveSetSearch(graph, ones, *none, limit=n + 1, ceiling=2**62, lowest=True)
        return run.advance(2**40, n_states), run.order().tolist()

    return lambda: search(6, 1000), lambda: search(40, 300000)


@case
def regions():
    def region(n):
        """A chain of cheap nodes."""
        flags, roots = np.ones(n, np.uint8), np.array([n - 1], np.int32)
        graph = graph_arrays(n, np.maximum(np.arange(-1, n), 0), np.arange(n - 1))
        return graph, flags, flags, 1 - flags, roots

    return calls(removed_regions, region(9), region(500000))


@case
def regions_segments():
    def cut(n):
        reached, places = np.arange(n + 1), np.arange(n)
        return lambda: (
            len(segment_cuts(reached, places, 0, n, n)),
            len(keep_depths(reached, places, places, n // 3, 3, False)),
            len(greedy_cuts(reached[1:], places, places, 0)[0]),
        )

    return cut(9), cut(800000)


# ---------------------------------------------------------------- greedy, twremat, offsets, offsets_search, pools


@case
def greedy():
    def walk(depth, limit):
        """A walk along a chain and its backward pass, in which node depth + i also reads node depth - 1 - i."""
        n = 2 * depth
        ids = np.arange(n, dtype=np.int32)
        read, reader = np.concatenate([ids[:-1], ids[:depth][::-1]]), np.concatenate([ids[1:], ids[depth:]])
        graph = graph_arrays(n, *rows_by(reader, read, n))
        bounds = {"limit": limit, "max_block": 32, "max_runs": 4 * n, "factor": 1, "min_work": 1000, "moves": True}
        bounds["rule"] = RULES.rule("xla")
        return partial(greedy_order, graph, ids, np.ones(n, np.uint8), **bounds)

    return both(walk(10, 6), walk(20_000, 19_900))


@case
def rule_values():
    rule = Rule("three", rules.__pyx_capi__["compute"], 3, (0,))
    return both(lambda: [rule.values(np.ones((4, 3)))], lambda: rule.values(np.ones((2_000_000, 3))))


@case
def twremat():
    def plan(n, m):
        """A chain of n nodes, the first one a separator; m nodes before it in the tree read one of them each."""
        reader, owner = np.arange(1, n + m), np.repeat([1, 2, 0], [1, n - 1, m])
        read = np.concatenate([reader[: n - 1] - 1, np.arange(m) % n])
        tree = {"end": [3, 3, 3], "children": [1, 2], "owner": owner, "n_bags": [9, 9, 1]}
        tree = {name: np.array(part, np.int32) for name, part in tree.items()} | {
            "child_indptr": np.array([0, 1, 2, 2])
        }
        graph = *rows_by(reader, read, n + m), np.ones(n + m, np.int64), np.arange(n, n + m, dtype=np.int32)
        return partial(recursive_order, *graph, **tree, recursion_limit=2, batch=PLAIN, longest=10**9)

    return both(plan(20, 30), plan(1500, 3000))


@case
def offsets_gaps():
    def fit(n):
        """Blocks side by side: no two overlap in their sections, and none is looked at again."""
        begin, end, size = np.arange(n), np.arange(1, n + 1), np.ones(n, np.int64)

        def offsets():
            run = GapFit(begin, begin, end, size, low=0 * begin, high=size + n, best=False)
            return run.run(n), run.offsets().tolist()

        return offsets

    return fit(600), fit(60_000)


@case
def offsets_skyline():
    def fit(n):
        begin = np.arange(n)
        end, size, rank = begin + 5, 64 + begin % 7, begin[::-1]

        def offsets():
            run = SkylineFit(begin, end, size, rank, n + 5)
            return run.run(10 * n), run.offsets().tolist()

        return offsets

    return fit(50), fit(60_000)


@case
def offsets_clash():
    def pile(n):
        """Buffers on top of each other."""
        return np.zeros(n, np.int64), np.ones(n, np.int64), np.full(n, 8), 8 * np.arange(n)

    return calls(first_clash, pile(50), pile(120_000))  # 60,000 need little more than 4 MiB


@case
def offsets_sharing():
    def halves(n):
        """The first half of the buffers is returned before the second half requests larger blocks."""
        ids, part = np.arange(n), np.arange(n) // (n // 2)
        return partial(shared_blocks, part, part + 1, 1 + ids, np.full(n, -1), begins=ids, ends=ids, match_range=1)

    return both(halves(50), halves(120_000))


@case
def offsets_search():
    def search(n, sections):
        """Blocks over nearly all sections, as many as fit on top of each other."""
        ids = np.arange(n)
        begin, end, size = ids % 5, sections - ids // 5 % 5, 1 + ids % 3

        def outcome():
            run = PackingSearch(begin, end, size, low=0 * ids, high=10**6 + ids, sections=sections, bits=10)
            run.aim(int(size.sum()))
            run.restart(ids, False)
            return run.run(10**8), run.work

        return outcome

    return search(10, 20), search(300, 1500)


@case
def pools():
    def trace(n):
        """Each chunk is split off a segment of its own; every other one is freed."""
        ids, zero = np.arange(n), np.zeros(n, np.int64)
        return partial(
            run_pool,
            np.concatenate([ids, ~ids[::2]]),
            size=512 * (1 + ids % 50),
            segment=zero + 2**20,
            arena=zero,
            rest=zero + 512,
            max_size=zero + 2**60,
            address=ids << 20,
            rule=LOWEST,
            seed=1,
            limit=2**60,
            fail_first=False,
            oversize=2**63 - 1,
        )

    return both(trace(50), trace(20_000))


# ---------------------------------------------------------------- lower sets: families, programs, blocks


@case
def lower_sets():
    def unordered(n):
        """Nodes without edges: each set of them is a lower set."""
        none = np.zeros(n + 1, np.int64), np.zeros(0, np.int32)
        return *none, *none, 2**20

    return calls(all_lower_sets, unordered(4), unordered(17))


@case
def lower_sets_figures():
    def beginnings(n):
        """All nodes but the last are read by the last: a lower set is the boundary of itself."""
        ids, ones = np.arange(n - 1, dtype=np.int32), np.ones(n, np.int64)
        pred_indptr, succ_indptr = np.repeat([0, n - 1], [n, 1]), np.minimum(np.arange(n + 1), n - 1)
        words = np.packbits(np.tri(n, (n + 63) // 64 * 64, -1, bool), axis=1, bitorder="little").view(np.uint64)
        succ = np.full(n - 1, n - 1, np.int32)
        rows = {"pred_indptr": pred_indptr, "pred": ids, "succ_indptr": succ_indptr, "succ": succ}
        return partial(lower_set_figures, words, **rows, memory=ones, compute=ones)

    return both(beginnings(9), beginnings(2000))


@case
def lower_sets_supersets():
    return calls(superset_rows, [np.ones((9, 1), np.uint64)], [np.ones((2500, 1), np.uint64)])


def chain_steps(n, width, words=1, covers=None):
    """Rows by figures, with steps to the next few; or by formulas, along covers."""
    ids, zeros = np.arange(n), np.zeros(n, np.int64)
    steps = ChainSteps(
        np.full((n, words), 1, np.uint64),
        memory=zeros[:1],
        compute=zeros[:1],
        set_memory=zeros,
        cost=zeros,
        beside=zeros,
        boundary_indptr=np.zeros(n + 1, np.int64),
        boundary=np.zeros(0, np.int32),
        covers=covers,
        kept=False,
        keep_last=True,
    )
    if covers is None:
        indptr = np.concatenate([[0], np.cumsum(np.minimum(width, n - 1 - ids))])
        length = 1 + np.arange(indptr[-1]) - np.repeat(indptr[:-1], np.diff(indptr))
        target = np.repeat(ids, np.diff(indptr)) + length
        figures = {"need": length**2, "adds": 1 + length % 3, "cost": length - 1, "max_need": 10**9}
        steps.store_figures(indptr, target.astype(np.int32), **figures)
    return steps


@case
def lower_set_dp():
    def store(n):
        pairs = n * (n - 1) // 2
        indptr = np.concatenate([[0], np.cumsum(np.arange(n - 1, -1, -1))])
        target = np.concatenate([np.arange(i + 1, n, dtype=np.int32) for i in range(n)])
        figures = np.arange(pairs)
        covers = np.zeros(n + 1, np.int64), np.zeros(0, np.int32)

        def call():
            steps = chain_steps(n, 1, covers=covers)
            steps.store(indptr, target)
            again = chain_steps(n, 1, covers=covers)
            again.store_figures(indptr, target, need=figures, adds=figures, cost=figures, max_need=pairs)
            chain = np.arange(0, n, 2)
            return steps.figures(chain), again.figures(chain)

        return call

    return store(9), store(1000)


@case
def lower_set_dp_cost():
    def cheapest(n, cap):
        make = partial(MinimumCost, chain_steps(n, n), n * n // 4, 1, cap)
        return searched_by(make, lambda search: (search.best(), search.chain()))

    return cheapest(9, 20), cheapest(400, 10000)


@case
def lower_set_dp_cache():
    def least(n):
        return searched_by(partial(MinimumCache, chain_steps(n, 3), 2 * n, 2 * n), MinimumCache.chain)

    return least(9), least(400000)


@case
def lower_set_dp_peaks():
    def frontier(n, cap):
        table = Completion(chain_steps(n, n), 10**6, 1, cap)
        return searched_by(partial(MinimumPeaks, table), MinimumPeaks.chains)

    return frontier(9, 20), frontier(80, 5000)


@case
def lower_set_dp_budget():
    def least(n):
        indptr, rows = np.minimum(np.arange(n + 1), n - 1), np.arange(1, n, dtype=np.int32)
        make = partial(MinimumBudget, chain_steps(n, 1, covers=(indptr, rows)), 10**6)
        return searched_by(make, lambda search: (search.current, search.budget), work=1)

    return least(9), least(300000)


@case
def blocks():
    """A gradient that reads the last node of a path: all that comes before it is recomputed, from the first on."""

    def path(n):
        return pair_figures(n, np.arange(n + 1), np.arange(n), [n - 1], 0)

    return path(9), path(1000000)


@case
def blocks_ahead():
    """The gradient of the first node reads all others, which read the first."""

    def star(n):
        reads = np.concatenate([np.zeros(n - 1), np.arange(n)])
        return pair_figures(n, np.append(np.arange(n), 2 * n - 1), reads, [0], 1)

    return star(9), star(1000000)


def pair_figures(n, row_ends, reads, owner, begin):
    """The figures of the block behind the first nodes, of n and one gradient; rows of values say what nodes read."""
    members = np.arange((n + 64) // 64 * 64) < np.array([[begin], [n + 1]])
    sets = np.packbits(members, axis=1, bitorder="little").view(np.uint64)
    nodes, zeros, ones = np.arange(n + 1, dtype=np.int32), np.zeros(n + 1, np.uint8), np.ones(n + 1, np.int64)
    none, no_rows = np.zeros(0, np.int32), np.zeros(n + 2, np.int64)
    row_indptr, reads = np.append(0, row_ends), reads.astype(np.int32)
    reader = np.repeat(nodes, np.diff(row_indptr))
    forward = reader < n
    borders = block_borders(sets, reader[forward], reads[forward], np.zeros(n + 1, np.int64))
    borders = dict(zip(("boundary", "after", "beside", "pinned"), borders, strict=True))
    arrays = graph_arrays(n + 1, row_indptr, reads, compute=ones, workspace=ones, output=zeros)
    graph = BlockGraph(
        arrays,
        owner=np.append(np.full(n, -1), owner).astype(np.int32),
        row=nodes,
        row_indptr=row_indptr,
        row_values=reads,
        upstream_indptr=no_rows,
        upstream_values=none,
        owned_indptr=np.append(0, np.cumsum(np.bincount(owner, minlength=n + 1))),
        owned_indices=nodes[n:],
        reader_indptr=no_rows,
        reader_indices=none,
        claim_indptr=no_rows,
        claim_indices=none,
        external_indptr=no_rows,
        external_indices=none,
        runs=(nodes < n).view(np.uint8),
        fixed=zeros,
        never=zeros,
        awaited=ones,
        gradient_reads=zeros,
        lazy=True,
    )
    pairs = PairFigures(graph)
    rows, before = {"indptr": np.array([0, 1, 1]), "target": np.array([1], np.int32)}, np.zeros(0, np.int64)
    bounds = {"max_peak": 2**62, "max_recompute": 2**62, "cached_before": before, "recompute_before": before}

    def call():
        figures = pairs.figures(sets, **borders, **rows, keep_all=zeros[:2], **bounds)
        return [array.tolist() for array in figures]

    return call


# ---------------------------------------------------------------- simulator and passes


def rounds(n):
    """Nodes that run twice, each time all of them and one that reads them all and makes the output.

    The graph, and the order.
    """
    ids, ones = np.arange(n + 1, dtype=np.int32), np.ones(n + 1, np.int64)
    graph = graph_arrays(n + 1, np.repeat([0, n], [n + 1, 1]), ids[:-1], compute=ones, workspace=ones)
    return graph, np.tile(ids, 2)


@case
def lifetimes():
    def simulate(graph, order):
        marks, forward_of = np.zeros(graph.n_nodes, np.int8), np.full(graph.n_nodes, -1, np.int32)
        loads, lingering = np.array([[order.size - 1, 0]], np.int32), np.array([[0, 0, 2]], np.int32)
        stores = np.array([[2, 0]], np.int32)
        lives = instance_lifetimes(graph, order, loads, lingering, stores)
        lives = *lives, serving_runs(graph, order)
        return lives, host_bytes(graph, order, loads, stores), broken_mark(graph, order, marks, forward_of)

    return calls(simulate, rounds(9), rounds(300000))


@case
def layer_order():
    def order_of(n):
        """Two layers; each item of the first has a line to the opposite place, and one to the first item."""
        row, order, ends = np.array([0, n, 2 * n]), np.arange(2 * n), np.arange(n)
        above, below = np.tile(ends, 2), np.concatenate([2 * n - 1 - ends, np.full(n, n)])
        better = reduce_crossings(row, order, above, below, 2, 10**6)
        return better.tolist(), crossings(row, better, above, below), nearest_rising(-ends.astype(float)).tolist()

    return lambda: order_of(40), lambda: order_of(300000)


@case
def on_engines():
    def play(graph, order):
        loads = np.stack([np.arange(1, order.size), order[:-1]], axis=1).astype(np.int32)
        loads = loads[loads[:, 1] < graph.n_nodes - 1]  # the last one is an output
        _, _, _, indptr, _, end, trace = instance_lifetimes(graph, order, loads, NO_TRIPLES, NO_PAIRS)
        values, step = np.unique(loads[:, 1], return_index=True)  # each is loaded first behind its first run
        step, instance = step + 1, indptr[step + 1] - 1
        lives = {"instance_indptr": indptr, "end": end, "trace": trace}
        copied = {"stores": values, "store_step": step, "store_instance": instance}
        copied |= {"out_time": np.ones_like(end)[values], "in_time": np.ones_like(end)[values]}
        return timeline(graph, order, loads, **copied, **lives, limit=2)

    return calls(play, rounds(9), rounds(300000))


@case
def passes():
    """After the first round all values are spare, and stay."""

    def replay(n):
        return *rounds(n), np.ones(2 * n + 2, np.int64), np.zeros(n + 1, np.uint8), 10**9

    return calls(replay_order, replay(9), replay(400000))


@case
def passes_over_an_order():
    def each(graph, order):
        sunk = sink_order(graph, order, np.zeros(order.size + 1, np.int64), 10**9)
        return dead_runs(graph, order, np.zeros(graph.n_nodes, np.uint8)), run_prices(graph, order), sunk

    return calls(each, rounds(9), rounds(300000))


def searched(n, n_moves, *, weight=0, loadable=None, engines=None):
    """The best order of a chain and its gradients, within bytes that one pass exceeds."""
    reads, forward_of = backward_reads(n)
    ones, none = np.ones(2 * n, np.int32), np.zeros(0, np.int32)
    graph = graph_arrays(2 * n, *reads, compute=np.ones(2 * n, np.int64))
    flags = {"late": np.zeros(2 * n, np.uint8), "backward": (forward_of >= 0).view(np.uint8)}
    pairs = {"rank": none, "update": none, "reader": none}
    rules = ScheduleRules(graph, max_runs=5 * ones, region=0 * ones, **flags, **pairs)
    loadable = np.empty(0, np.uint8) if loadable is None else loadable
    if engines is not None:
        Timetable(ScheduleState(graph, rules, loadable), engines)
    copies = {"loadable": loadable, "engines": engines}
    run = ScheduleSearch(graph, rules, np.full(2 * n, weight, np.float64), np.ones(N_EXPONENTIALS), 7, **copies)
    run.start(np.arange(2 * n, dtype=np.int32), 2 * n // 3, np.zeros(0, np.int64), -1)
    run.advance(n_moves)
    return run.best_order().tolist(), run.figures


@case
def search():
    return lambda: searched(6, 3000), lambda: searched(100000, 1000)


@case
def search_with_copies():
    def best(n, n_moves):
        """Forward values may leave."""
        engines = Engines(*(np.ones(2 * n, np.int64) for _ in range(3)))
        loadable = (np.arange(2 * n) < n).astype(np.uint8)
        return searched(n, n_moves, weight=1, loadable=loadable, engines=engines)

    return lambda: best(6, 3000), lambda: best(100000, 1000)


@case
def chain_table():
    """Sweeps that cost less than nothing, so that their number is quadratic."""

    def arguments(n):
        costs = np.stack([np.full(n, -1.0), np.ones(n), np.zeros(n)])
        return np.zeros(n * (n + 1) // 2, np.float32), 1, costs, np.zeros((12, n), np.int64), 1, True, 0, 10**7

    return calls(operations, arguments(9), arguments(2000))
