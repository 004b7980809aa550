"""Entries that are given by name, in a mapping or under an index, go to what has the name, or are refused."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos.cost.node_costs import compute_costs
from remat_algos.errors import GraphError, RematError
from remat_algos.ir.arrays import entry_names
from tests.strategies import graphs

EDGES = [("conv", "relu"), ("relu", "fc"), ("fc", "loss")]
NAMES = ["conv", "relu", "fc", "loss"]


class Indexed:
    """An array with an index of names, as a Series of pandas."""

    def __init__(self, entries):
        self.index, self.entries = list(entries), list(entries.values())

    def __array__(self, dtype=None, copy=None):
        return np.array(self.entries, dtype)


class Dimensioned(Indexed):
    """The same as a DataArray of xarray has it."""

    def __init__(self, entries):
        super().__init__(entries)
        self.indexes = {"node": self.index}
        del self.index


def series(entries):
    return pytest.importorskip("pandas").Series(entries)


def column(entries):
    return pytest.importorskip("pandas").DataFrame({"memory": entries})["memory"]


KINDS = {"dict": dict, "index": Indexed, "indexes": Dimensioned, "Series": series, "column": column}


@pytest.fixture(params=KINDS, autouse=True)
def named(request):
    return KINDS[request.param]


def backwards(entries):
    return dict(reversed(entries.items()))


def test_edges_between_names_take_all_arrays_by_name(named):
    arrays = {"memory": [40, 30, 20, 10], "compute": [4, 3, 2, 1], "workspace": [7, 0, 0, 0], "mark": [1, 0, 0, 2]}
    arrays |= {"once": [False, False, True, False], "output": [False, True, False, True]}
    by_name = {what: named(backwards(dict(zip(NAMES, row, strict=True)))) for what, row in arrays.items()}
    graph, expected = (ra.ComputationGraph.from_edges(EDGES, **each) for each in (by_name, arrays))
    for what in arrays:
        assert getattr(graph, what).tolist() == getattr(expected, what).tolist(), what


def test_ids_are_names_too(named):
    graph = ra.ComputationGraph.from_edges([(0, 1), (1, 2)], memory=named({2: 30, 0: 10, 1: 20}))
    assert graph.memory.tolist() == [10, 20, 30]


@pytest.mark.parametrize("what", ["memory", "compute", "workspace"])
def test_costs_are_taken_by_name(named, what):
    graph = ra.ComputationGraph.from_edges(EDGES)
    entries = named(backwards(dict(zip(NAMES, [40, 30, 20, 10], strict=True))))
    assert getattr(graph.with_costs(**{what: entries}), what).tolist() == [40, 30, 20, 10]
    arrays = {"read_indptr": graph.read_indptr, "read_indices": graph.read_indices, "labels": graph.labels}
    assert getattr(ra.ComputationGraph.from_arrays(**arrays, **{what: entries}), what).tolist() == [40, 30, 20, 10]


def test_decisions_are_taken_by_name(named):
    training = ra.differentiate(ra.ComputationGraph.from_edges(EDGES))
    schedules = ra.schedule
    assert (
        schedules.mirror_schedule(training, named({"relu": 1, "conv": 2})).order.tolist()
        == schedules.mirror_schedule(training, [2, 1, 0, 0, 0, 0, 0, 0]).order.tolist()
    )
    assert (
        schedules.checkpoint_schedule(training, named({"fc": True, "loss": True})).order.tolist()
        == schedules.checkpoint_schedule(training, [False, False, True, True, *[False] * 4]).order.tolist()
    )


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"conv": 4, "relu": 4, "fc": 4}, "memory has no entry for loss"),
        ({"conv": 4, "relu": 4, "fc": 4, "los": 4}, "memory has an entry for 'los', which is not a node"),
        ({7: 4, 8: 4, 9: 4, 10: 4}, "which is not a node"),
    ],
)
def test_names_that_do_not_fit_are_refused(named, entries, message):
    graph = ra.ComputationGraph.from_edges(EDGES)
    for call in (lambda: graph.with_costs(memory=named(entries)), lambda: from_edges(named(entries))):
        with pytest.raises(GraphError, match=message):
            call()


def from_edges(memory):
    return ra.ComputationGraph.from_edges(EDGES, memory=memory)


@pytest.mark.parametrize(
    "call",
    [
        lambda names: ra.Schedule(names),
        lambda names: ra.allocate.Buffers(names, names, names),
        lambda names: ra.ir.Resident(names, [0], [0], [], ()),
        lambda names: ra.ComputationGraph.from_arrays(read_indptr=names, read_indices=[]),
        lambda names: ra.ComputationGraph.from_edges([(0, 1)], forward_of=names),
        lambda names: compute_costs(["ReLU", "ReLU"], names, names),
    ],
)
def test_arrays_that_are_not_taken_by_name_are_refused(named, call):
    with pytest.raises(RematError, match="has entries by name"):
        call(named({"b": 1, "a": 0}))


@given(graph=graphs(min_nodes=1), data=st.data())
def test_the_order_of_a_mapping_does_not_matter(graph, data):
    sizes = data.draw(st.permutations([(name, 8 + x) for x, name in enumerate(graph.value_names())]))
    expected = [8 + x for x in range(graph.n_values)]
    assert graph.with_costs(memory=Indexed(dict(sizes))).memory.tolist() == expected


def test_a_name_that_stands_twice_is_refused():
    twice = SimpleNamespace(index=["conv", "conv"])
    with pytest.raises(GraphError, match="memory has several entries for 'conv'; give one"):
        from_edges(twice)


def test_an_index_that_numbers_the_entries_is_none():
    pandas = pytest.importorskip("pandas")
    assert entry_names(pandas.Series([5, 6])) is entry_names([5, 6]) is entry_names(np.arange(2)) is None
    assert from_edges(pandas.Series([1, 2, 3, 4])).memory.tolist() == [1, 2, 3, 4]
    assert entry_names(pandas.Series([5, 6]).sort_values(ascending=False)) == [1, 0]
