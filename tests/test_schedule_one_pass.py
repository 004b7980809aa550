"""Orders of one pass, against all of them."""

from collections.abc import Iterator

from hypothesis import given

from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.one_pass import lowest_pass
from remat_algos.schedule.simulation import simulate
from tests.strategies import graphs


def topological_orders(graph: ComputationGraph, begun: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    needed = {v for v in range(graph.n_nodes) if graph.needed[v]}
    if len(begun) == len(needed):
        yield begun
    for v in sorted(needed - set(begun)):
        if {int(graph.producer[x]) for x in graph.reads(v)} <= set(begun):
            yield from topological_orders(graph, (*begun, v))


@given(graphs(max_nodes=6))
def test_no_order_of_one_pass_is_lower_where_the_beam_holds_all_sets(graph):
    found = simulate(graph, lowest_pass(graph, beam=2**6))
    assert sorted(found.schedule.order.tolist()) == [v for v in range(graph.n_nodes) if graph.needed[v]]
    assert found.peak_memory == min(simulate(graph, order).peak_memory for order in topological_orders(graph))
