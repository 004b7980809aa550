"""Exercises: the same for the same seed, and every answer is that of a slow program written from the definitions."""

import dataclasses
import re

import pytest

import remat_algos as ra
from tests.oracles import closure, copies, elimination, emitter, live_sets, lower_sets, offsets, simulation

SEEDS = range(50)


# ---------------------------------------------------------------- a reader of the sheet


def rows_of(sheet):
    """The table of a sheet as lists of cells."""
    return [line.strip("|").replace(" ", "").split("|") for line in sheet.splitlines() if line.startswith("|")][2:]


def graph_of(sheet, gradients=True):
    """The graph of a sheet, from its text alone."""
    rows = rows_of(sheet)
    edges = [(u, name) for name, reads, *_ in rows for u in reads.split(",") if u != "-"]
    memory, compute = ({row[0]: int(row[i]) for row in rows} for i in (2, 3))
    graph = ra.ComputationGraph.from_edges(edges, memory, compute)
    assert graph.node_names() == [row[0] for row in rows]
    return ra.differentiate(graph) if gradients else graph


def after(sheet, words, end="."):
    """The names in a sheet between some words and a full stop."""
    return re.search(re.escape(words) + r"(.*?)" + re.escape(end), sheet)[1].replace(",", " ").split()


def ids(graph, names):
    return [graph.node_id(name) for name in names]


def segments(sheet):
    graph = graph_of(sheet)
    n = len(rows_of(sheet))
    ends = ids(graph, after(sheet, "Segments end at ", " and at the last"))
    order = emitter.checkpoint(graph, {*ends, *range(ends[-1] + 1, n)})
    return simulation.peak_memory(graph, order), len(order) - 2 * n


def recursion(sheet):
    graph = graph_of(sheet)
    n = len(rows_of(sheet))

    def run(first, last):
        """Layers and gradients of a part whose first input is live."""
        middle = (first + last) // 2
        if first == last:
            return [first, 2 * n - 1 - first]
        above = run(middle + 1, last) if middle < last else []
        return [
            *range(first, middle + 1),
            *above,
            2 * n - 1 - middle,
            *(run(first, middle - 1) if first < middle else []),
        ]

    order = run(0, n - 1)
    return simulation.peak_memory(graph, order), len(order) - n


def lower_sets_of(sheet):
    graph = graph_of(sheet)
    return (len(set(lower_sets.all_lower_sets(lower_sets.forward(graph)))),)


def boundaries(sheet):
    graph = graph_of(sheet, gradients=False)
    inside = set(ids(graph, after(sheet, "lower set {", "}")))
    kept = [u for u in inside if any(u in graph.reads(v) for v in set(range(graph.n_nodes)) - inside)]
    return tuple(graph.labels[u] for u in sorted(kept)), sum(int(graph.memory[u]) for u in kept)


def schedule_peak(sheet):
    graph = graph_of(sheet)
    slow = simulation.slow_simulation(graph, ids(graph, after(sheet, "The order is ")))
    return slow.peak, slow.peak_step + 1


def mirror_counts(sheet):
    graph = graph_of(sheet)
    counts = [int(count) for count in after(sheet, "m(e) are ", ":")]
    order = emitter.mirror(graph, counts + [0] * (graph.n_nodes - len(counts)))
    return len(order), simulation.peak_memory(graph, order)


def least_of_live_sets(sheet):
    return (live_sets.least_peak(graph_of(sheet, gradients=False))[0],)


def treewidth(sheet):
    pairs = [tuple(map(int, pair.split("-"))) for pair in after(sheet, "undirected graph are ")]
    graph = ra.structure.UndirectedGraph.from_edges(1 + max(map(max, pairs)), pairs)
    order = [int(v) for v in after(sheet, "in the order ", ";")]
    return elimination.width(graph, order), elimination.treewidth(graph)


def closure_bound(sheet):
    graph, limit = graph_of(sheet), int(after(sheet, "The peak may be ")[0])
    return (closure.whole_steps(graph, closure.relaxed_overhead(graph, limit) - 1e-9),)


def arenas(sheet):
    buffers = [(begin, last + 1, size) for _, begin, last, size in (map(int, row) for row in rows_of(sheet))]
    return offsets.max_live(buffers), offsets.least_arena(buffers)


def offload_timing(sheet):
    graph, load = graph_of(sheet), after(sheet, "loaded with ", ":")[0]
    order = range(graph.n_nodes)
    actions = copies.actions(graph, order, [(graph.node_id(load), 0)])
    clock = copies.clock(graph, actions, graph.memory, graph.memory)
    return clock.time, sum(clock.waits)


def greedy_choice(sheet):
    graph, n = graph_of(sheet), len(rows_of(sheet))
    peaks = [simulation.peak_memory(graph, emitter.checkpoint(graph, set(range(n)) - {v})) for v in range(n)]
    rows = [(int(compute) / int(size), v) for v, (_, _, size, compute) in enumerate(rows_of(sheet))]
    cheapest = min(rows)[1]
    return graph.labels[cheapest], peaks[cheapest], min(peaks)


SLOW = {
    "segments": segments,
    "recursion": recursion,
    "lower sets": lower_sets_of,
    "boundaries": boundaries,
    "schedule peak": schedule_peak,
    "mirror counts": mirror_counts,
    "live sets": least_of_live_sets,
    "treewidth": treewidth,
    "closure bound": closure_bound,
    "offsets": arenas,
    "offload timing": offload_timing,
    "greedy choice": greedy_choice,
}
TOPICS = list(SLOW)


@pytest.mark.parametrize("topic", TOPICS)
def test_answers_are_those_of_a_reader_with_a_slow_program(topic):
    results = set()
    for seed in SEEDS:
        exercise = ra.teach.exercise(topic, seed)
        assert exercise.result == SLOW[topic](str(exercise)), (topic, seed)
        results.add(str(exercise))
    assert len(results) == len(SEEDS)


# ---------------------------------------------------------------- sheets and keys


@pytest.mark.parametrize("topic", TOPICS)
def test_an_exercise_is_frozen_and_the_same_for_the_same_seed(topic):
    exercise = ra.teach.exercise(topic, seed=7)
    assert exercise == ra.teach.exercise(topic, 7)
    assert hash(exercise) == hash(ra.teach.exercise(topic, 7))
    assert (exercise.topic, exercise.seed) == (topic, 7)
    with pytest.raises(dataclasses.FrozenInstanceError):
        exercise.seed = 8


@pytest.mark.parametrize("topic", TOPICS)
def test_the_key_is_the_sheet_and_the_answer_which_contains_the_result(topic):
    for seed in SEEDS[:10]:
        exercise = ra.teach.exercise(topic, seed)
        sheet, _, answer = exercise.key.partition("\n\n**Answer.** ")
        assert sheet == str(exercise)
        assert answer == exercise.answer
        assert exercise.question in sheet
        for part in exercise.result:
            for number in part if isinstance(part, tuple) else (part,):
                assert re.search(rf"(?<!\w){number}(?!\w)", answer), (topic, seed, number)


def test_an_unknown_topic_is_one_sentence_with_the_topics():
    with pytest.raises(ra.errors.ArgumentError) as error:
        ra.teach.exercise("segment")
    assert str(error.value) == f"there is no topic 'segment'; topics are {', '.join(TOPICS)}"
    assert len(TOPICS) == 12
    assert re.findall(r'"([a-z ]+)"', ra.teach.exercise.__doc__)[:12] == TOPICS
