"""Whole numbers may be floats wherever one number is an id or a count; fractions are one sentence."""

from functools import partial

import pytest

import remat_algos as ra
from remat_algos.schedule.views import live_at

EDGES = [(0, 1), (0, 2), (1, 2)]
GRAPH = ra.ComputationGraph.from_edges(EDGES)
TRAINING = ra.differentiate(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(6)]))
SIMULATION = ra.simulate(GRAPH, range(3))
PLAN = ra.solve(TRAINING, "100%")
UNDIRECTED = ra.structure.UndirectedGraph.of(GRAPH)
ELIMINATION = ra.structure.eliminate(UNDIRECTED)
DECOMPOSITION = ra.structure.TreeDecomposition.of(ELIMINATION)
PATH = ra.structure.PathDecomposition.of(UNDIRECTED, range(3))
FAMILY = ra.structure.lower_set_family(GRAPH)

FACE = {
    "live_at": partial(live_at, SIMULATION),
    "breakdown": SIMULATION.breakdown,
    "mirror_count": lambda i: SIMULATION.schedule.mirror_count(i + 2).tolist(),
    "reads": GRAPH.reads,
    "values": GRAPH.values,
    "value_name": GRAPH.value_name,
    "node_id": GRAPH.node_id,
    "value_id": GRAPH.value_id,
    "bag of an elimination": ELIMINATION.bag,
    "bag": lambda i: DECOMPOSITION.bag(i - 1),
    "bag of a path": lambda i: PATH.bag(i - 1),
    "neighbours": UNDIRECTED.neighbours,
    "vertices": lambda i: ra.structure.UndirectedGraph.from_edges(i + 2, EDGES).edges().tolist(),
    "edges": lambda i: ra.structure.UndirectedGraph.from_edges(3, [(0, i)]).edges().tolist(),
    "LowerSets.of": lambda i: ra.structure.LowerSets.of(GRAPH, [[0, i], [0, 1, 2]]).sets(GRAPH),
    "chain": lambda i: FAMILY.chain([i]).sets(GRAPH),
    "what_if": lambda i: ra.what_if(TRAINING, keep=[i]).order.tolist(),
    "explain": lambda i: str(ra.explain(PLAN, i)),
}


@pytest.mark.parametrize("call", FACE.values(), ids=FACE)
def test_a_whole_float_is_the_number(call):
    assert call(1.0) == call(1)


@pytest.mark.parametrize("call", FACE.values(), ids=FACE)
def test_a_fraction_is_one_sentence(call):
    with pytest.raises(ValueError, match=r"0\.5|1\.5|2\.5|not pairs|vertex ids") as error:
        call(0.5)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("flag", "meant"), [(1.0, True), (0.0, False), (1, True), (True, True)])
def test_a_flag_may_be_a_whole_float(flag, meant):
    networkx = pytest.importorskip("networkx")
    digraph = networkx.DiGraph([("a", "b")])
    digraph.nodes["a"]["once"] = flag
    assert ra.from_networkx(digraph).once.tolist() == [meant, False]
