"""In place: which instance is written over which, and that nothing needed is lost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.in_place import find_overwrites
from remat_algos.errors import AllocationError, ArgumentTypeError
from remat_algos.formats.buffer_tables import read_in_place
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.kinds import operation_kinds
from remat_algos.ir.parts import GradientNames, Labels
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.search.solve import solve
from remat_algos.zoo.registry import build
from tests.oracles import allocations
from tests.oracles.plain import plain
from tests.oracles.simulation import lifetimes, serving_run
from tests.raising import raises, refused
from tests.strategies import graphs, orders, training_graphs


def loose(graph):
    """A table under which all operations of a random graph that have a name may work in place, on one read or two."""
    most = {}
    for op, reads in zip(graph.labels.ops or (), np.diff(graph.read_indptr).tolist(), strict=False):
        most[op] = max(reads, most.get(op, 0))
    tried = [(0,), (1, 0), (1,), (0, 1)]
    places = {op: tuple(place for place in tried[k % 4] if place < most[op]) for k, op in enumerate(sorted(most))}
    return {op: own for op, own in places.items() if op}


def network(nodes, outputs=(), **arrays):
    """A graph from lines `name: operation read ...`; its outputs are those named, or what is not read."""
    rows = [line.split(":") for line in nodes.split("/")]
    names = [name.strip() for name, _ in rows]
    words = [text.split() for _, text in rows]
    reads = [[names.index(x) for x in own[1:]] for own in words]
    if outputs:
        arrays["output"] = [name in outputs for name in names]
    return ComputationGraph.from_arrays(
        read_indptr=np.cumsum([0, *map(len, reads)]),
        read_indices=[x for own in reads for x in own],
        labels=Labels(tuple(names), ops=tuple(own[0].strip("-") for own in words)),
        **arrays,
    )


def pairs(graph, order=None, table=None):
    """Which value is written over which, by name."""
    simulation = simulate(graph, range(graph.n_nodes) if order is None else order)
    value = simulation.lifetimes.value
    over = find_overwrites(simulation, table)
    return {graph.value_name(value[i]): graph.value_name(value[over[i]]) for i in np.flatnonzero(over >= 0)}


def test_nothing_is_written_over_what_is_copied_to_the_host():
    """b may work in place on a, and d on what a load brings back; a is stored, and read again from the load."""
    graph = network("a: -/b: Add a/c: - b/d: Add a c")
    assert pairs(graph) == {"d": "a"}
    loaded = Schedule(range(4), loads=[(3, 0)])
    assert pairs(graph, loaded) == {"d": "a"}
    assert find_overwrites(simulate(graph, loaded)).tolist() == [-1, -1, -1, -1, 3]
    with raises(AllocationError, written="b", read="a", step=1):
        pairs(graph, loaded, {"b": "a"})


# ---------------------------------------------------------------- nothing needed is lost


def even(graph, data):
    """The graph with values of one or two sizes, so that many fit over each other, and operations on all nodes."""
    sizes = st.lists(st.sampled_from([3, 3, 3, 4, 0]), min_size=graph.n_values, max_size=graph.n_values)
    return graph.with_costs(memory=data.draw(sizes)) if graph.n_values else graph


@given(st.data())
def test_what_is_read_later_is_never_written_over(data):
    graph = even(data.draw(graphs() | training_graphs()), data)
    order = data.draw(orders(graph))
    simulation = simulate(graph, order)
    over = find_overwrites(simulation, loose(graph))
    cells = allocations.one_cell_each(over, np.count_nonzero(graph.workspace[order]))
    allocations.play(graph, order, cells, over)
    Buffers.of(simulation, over)  # nor would the constructor take it


@given(st.data())
def test_the_first_read_that_is_possible_is_taken(data):
    graph = even(data.draw(graphs()), data)
    order, table = data.draw(orders(graph)), loose(graph)
    over = find_overwrites(simulate(graph, order), table)
    g, lives = plain(graph), lifetimes(plain(graph), order)
    instance = {(step, x): i for i, (step, x, _) in enumerate(lives)}

    def possible(step, x, y):
        dies = lives[instance[serving_run(g, order, step, x), x]][2] == step + 1
        return dies and x not in g.outputs and g.memory[x] == g.memory[y] > 0

    for i, (step, y, end) in enumerate(lives):
        node = order[step]
        needed = end > step + 1 or (y in g.outputs and step == order.index(node))
        if y != g.values[node][0] or not needed:
            assert over[i] < 0
            continue
        places = table.get(graph.labels.ops[node], ()) if graph.labels.ops else ()
        reads = [g.reads[node][place] for place in places if place < len(g.reads[node])]
        first = next((x for x in reads if possible(step, x, y)), None)
        assert over[i] == (-1 if first is None else instance[serving_run(g, order, step, first), first])


def test_a_whole_network_runs_in_place():
    """Every node twice in a row, but for what may run only once, so that what is written over is made again."""
    graph = differentiate(build("resnet18", batch=1).graph, parameter_gradients=True)
    order = [v for v in range(graph.n_nodes) for _ in range(1 if graph.once[v] or not graph.forward[v] else 2)]
    simulation = simulate(graph, order)
    over = find_overwrites(simulation)
    assert np.count_nonzero(over >= 0) > 50
    cells = allocations.one_cell_each(over, np.count_nonzero(graph.workspace[order]))
    allocations.play(graph, order, cells, over)
    assert Buffers.of(simulation, over).max_live <= simulation.peak_memory


def test_the_oracle_finds_what_is_written_over_too_soon():
    graph = network("a: -/b: - a/c: - a b")
    with pytest.raises(allocations.Spoilt):
        allocations.play(graph, [0, 1, 2], allocations.one_cell_each([-1, 0, -1], 0), [-1, 0, -1])


# ---------------------------------------------------------------- cases


@pytest.mark.parametrize(
    ("nodes", "arrays", "table", "over"),
    [
        # the last reader takes it: c reads a and b, which lies on a where the table has no place for both
        ("x: -/a: - x/b: ReLU a/c: Add a b", {}, None, {"c": "a"}),
        ("x: -/a: - x/b: ReLU a/c: Add a b", {}, {"Add": 1}, {"c": "b"}),
        ("x: -/a: - x/b: ReLU a/c: Add a b", {}, {"Add": [1, 0]}, {"c": "b"}),
        # the first read of a sum is read later, or smaller, or an output; the second is free
        ("a: -/b: -/c: Add a b/d: - a c", {}, None, {"c": "b"}),
        ("a: -/b: -/c: Subtract a b", {}, None, {"c": "a"}),
        ("a: -/b: -/c: Sub a b", {"memory": [2, 4, 4]}, None, {"c": "b"}),
        ("a: -/b: -/c: Add a b", {"outputs": "ac"}, None, {"c": "b"}),
        ("a: -/b: -/c: Add a b/d: - a c", {}, {"Add": 0}, {}),
        ("a: -/b: -/c: Add a b/d: - a c", {}, {"Add": ()}, {}),
        # an output is never written over, sizes must be equal, and what nobody reads takes no place
        ("a: -/b: ReLU a", {"outputs": "ab"}, None, {}),
        ("a: -/b: ReLU a/c: ReLU b", {"outputs": "bc"}, None, {"b": "a"}),
        ("a: -/b: ReLU a/c: ReLU b", {"memory": [4, 4, 2]}, None, {"b": "a"}),
        ("a: -/b: ReLU a/c: -", {"outputs": "c"}, None, {}),
        ("a: -/b: ReLU a/c: -", {"outputs": "c"}, {"b": "a"}, {"b": "a"}),
        # a table adds operations and forbids them; a demand goes before it
        ("a: -/b: Warp a/c: ReLU b/d: Mul c", {}, None, {"c": "b"}),
        ("a: -/b: Warp a/c: ReLU b/d: Mul c", {}, {"Warp": 0, "ReLU": None, "Multiply": 0}, {"b": "a", "d": "c"}),
        ("a: -/b: -/c: Add a b", {}, {"c": "b"}, {"c": "b"}),
        # a place that some nodes have is passed over at others; no node of the graph is an Exp
        ("a: -/b: Add a/c: -/d: Add c b", {}, {"Add": 1}, {"d": "b"}),
        ("a: -/b: Add a/c: -/d: Add c b", {}, {"Exp": 7}, {"b": "a", "d": "c"}),
    ],
)
def test_what_is_written_over_what(nodes, arrays, table, over):
    assert pairs(network(nodes, **arrays), table=table) == over


def test_a_gradient_is_written_over_either_read_if_the_table_says_so():
    graph = differentiate(network("a: -/b: Sigmoid a/c: - b", outputs="c"))
    reads = [graph.value_name(x) for x in graph.reads(graph.node_id("grad(a)"))]
    assert reads[0] == "grad(b)"
    assert pairs(graph)["grad(a)"] == "grad(b)"
    assert pairs(graph, table={"grad(Sigmoid)": (reads.index("b"), 0)})["grad(a)"] == "b"


def test_a_table_of_operations_finds_none_in_a_graph_without_them():
    simulation = simulate(ComputationGraph.from_edges([(0, 1)]), [0, 1])
    assert find_overwrites(simulation, {"ReLU": 0}).tolist() == [-1, -1]


def test_a_value_run_again_is_another_instance():
    """b is written over the second a; the first is read by c."""
    graph = network("a: -/b: ReLU a/c: - a/d: - b c")
    simulation = simulate(graph, [0, 2, 0, 1, 3])
    assert find_overwrites(simulation).tolist() == [-1, -1, -1, 2, -1]


def test_workspaces_and_residents_are_left_alone():
    graph = network("a: -/b: ReLU a", workspace=[0, 4])
    simulation = simulate(graph, [0, 1])
    buffers = Buffers.of(simulation, find_overwrites(simulation))
    assert buffers.over.tolist() == [-1, 0, -1]
    assert (buffers.max_live, simulation.peak_memory) == (5, 6)


# ---------------------------------------------------------------- gradients


def test_gradients_are_written_over_those_they_read():
    """That of the product is not: it is no work element by element."""
    graph = differentiate(network("a: Convolution/b: ReLU a/c: GELU b/d: Linear c"))
    assert pairs(graph) == {"grad(b)": "grad(c)", "grad(a)": "grad(b)"}


def test_of_two_gradients_the_last_takes_the_place():
    """grad(b) and grad(a) both read grad(c); the sum of a's two gradients goes over the first of them."""
    graph = differentiate(network("a: -/b: - a/c: Multiply b a"))
    assert graph.node_names()[3:] == ["grad(c)", "grad(b)", "grad(a)@c", "grad(a)"]
    assert pairs(graph) == {"grad(a)@c": "grad(c)", "grad(a)": "grad(a)@c"}


def sums_by_name(graph):
    """(new sum, old sum) values, as the names of the gradients tell them."""
    names = graph.labels.names
    assert isinstance(names, GradientNames)
    first = graph.n_nodes - names.target.size
    value_of = {first + i: int(graph.value_indptr[first + i]) for i in range(names.target.size)}
    found, newest = set(), {}
    for i, target in enumerate(names.target.tolist()):
        if target in newest:
            found.add((value_of[first + i], newest[target]))
        newest[target] = value_of[first + i]
    return found


@given(st.data())
def test_sums_are_found_from_the_arrays_alone(data):
    """All old sums of gradients, and no other read, where operations say nothing."""
    graph = even(data.draw(graphs(max_nodes=10, min_nodes=1, seeded=True)), data)
    training = differentiate(graph, parameter_gradients=data.draw(st.booleans()))
    sums = sums_by_name(training)
    simulation = simulate(training, range(training.n_nodes))
    over = find_overwrites(simulation, dict.fromkeys(loose(training)))
    found = {(i, int(over[i])) for i in np.flatnonzero(over >= 0)}
    assert found == {(y, x) for y, x in sums if training.memory[y] > 0}


def test_the_gradients_of_a_weight_add_up_in_one_place():
    """As in chen2016, section 5.3: otherwise each time step has its own."""
    graph = differentiate(build("lstm", batch=1, steps=5).graph, parameter_gradients=True)
    simulation = simulate(graph, range(graph.n_nodes))
    buffers = Buffers.of(simulation, find_overwrites(simulation))
    of_a_weight = [i for i in range(graph.n_nodes) if graph.labels[i].startswith("grad(lstm.layer1.state_weight)")]
    first = buffers.first[[int(graph.value_indptr[v]) for v in of_a_weight]]
    assert (len(of_a_weight), len(set(first))) == (5, 1)


# ---------------------------------------------------------------- tables


@pytest.mark.parametrize("call", [find_overwrites, Buffers.of])
def test_a_plan_says_where_its_simulation_is(call):
    plan = solve(network("a: -/b: ReLU a"))
    with raises(ArgumentTypeError, what="simulation", found="a Plan", field="simulation"):
        call(plan)
    with raises(ArgumentTypeError, what="simulation", found="a list", wanted="a Simulation"):
        call([0, 1])


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ({"b": "a"}, {"written": "b", "read": "a", "reader": "d"}),
        ({"d": "b"}, {"written": "d", "read": "b"}),
        ({"c": "a"}, {"written": "c", "read": "a", "name": "c"}),
        ({"e": "d"}, {"written": "e", "read": "d", "size": 2}),
        ({"b": "z"}, "the in-place table names an unknown value: "),
        ({"ReLu": 0}, {"name": "ReLu"}),
        ({"grad(Warp)": 0}, {"name": "grad(Warp)"}),
        ({"ReLU": -1}, {"name": "ReLU", "place": -1}),
        ({"ReLU": 0.5}, {"name": "ReLU", "place": 0.5}),
        ({"Add": (0, -1)}, {"name": "Add", "place": -1}),
        ({"ReLU": 7}, {"name": "ReLU", "place": 7, "n_reads": 1}),
        ({"Add": (0, 2)}, {"name": "Add", "place": 2, "n_reads": 2}),
        ({"ReLU": True}, {"name": "ReLU"}),
    ],
)
def test_a_table_that_cannot_be_is_refused(table, fault):
    graph = network("a: -/b: ReLU a/c: - b/d: Add a b/e: - d", outputs="bce", memory=[4, 4, 4, 4, 2])
    with refused(AllocationError, fault):
        pairs(graph, table=table)


def test_two_demands_on_one_value_are_refused():
    graph = ComputationGraph.from_arrays(
        read_indptr=[0, 0, 1, 3], read_indices=[0, 1, 2], value_indptr=[0, 1, 3, 4], labels=Labels(("a", "b", "c"))
    )
    with raises(AllocationError, written="b:1", read="a"):
        pairs(graph, table={"b": "a", "b:1": "a"})


def test_a_demand_holds_at_every_run():
    """The second b may be written over a; the first may not, as c reads a later."""
    graph = network("a: -/b: - a/c: - a/d: - b c")
    assert pairs(graph, [0, 2, 1, 3], {"b": "a"}) == {"b": "a"}
    with raises(AllocationError, written="b", read="a", reader="c"):
        pairs(graph, [0, 1, 2, 1, 3], {"b": "a"})


def test_a_table_is_read(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("op,read\nMultiply,1\nReLU, none\n")
    assert read_in_place(file) == {"Multiply": 1, "ReLU": None}
    file.write_text("op,read\nAdd,1\nReLU,0\nAdd,0\nAdd,2\n")
    assert read_in_place(file) == {"Add": (1, 0, 2), "ReLU": 0}
    file.write_text("over,value\nfc1,fc2\n")
    assert read_in_place(file) == {"fc2": "fc1"}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "t.csv: the file is empty"),
        ("op,over\n", {"source": "t.csv", "header": ["op", "over"]}),
        ("op,read\nReLU,\n", {"source": "t.csv", "line": 2, "op": "ReLU"}),
        ("op,read\nReLU,-1\n", {"source": "t.csv", "line": 2, "op": "ReLU", "read": "-1"}),
        ("op,read\nAdd,0\n\nAdd,0\n", {"source": "t.csv", "line": 4, "name": "Add"}),
        ("op,read\nAdd,0\nAdd,none\n", {"source": "t.csv", "line": 3, "name": "Add"}),
        ("op,read\nAdd,none\nAdd,0\n", {"source": "t.csv", "line": 3, "name": "Add"}),
        ("op,read,value,over\n,,a,b\n,,a,c\n", {"source": "t.csv", "line": 3, "name": "a"}),
        ("op,read\n,1\n", {"source": "t.csv", "line": 2}),
        ("value,over\nfc2,\n", {"source": "t.csv", "line": 2, "value": "fc2"}),
        ("op,read,value,over\na,1,b,c\n", {"source": "t.csv", "line": 2}),
        ("op,read\nReLU\n", "t.csv, line 2: expected 2 cells, found 1"),
    ],
)
def test_a_malformed_table_is_refused_with_its_line(tmp_path, text, fault):
    file = tmp_path / "t.csv"
    file.write_text(text)
    with refused(AllocationError, fault):
        read_in_place(file)


def test_what_works_in_place_has_a_gradient_that_does():
    for kind in operation_kinds():
        assert kind.gradient_places or not kind.in_place
        assert not (kind.heavy and kind.gradient_places)
        assert {*kind.in_place, *kind.gradient_places} <= {0, 1}
