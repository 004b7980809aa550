"""Orders and mirror counts that others wrote down: every kind of file read, every fault one sentence."""

import contextlib
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remat_algos.errors import GraphError, GraphWarning, PlanError, RematError, ScheduleError
from remat_algos.formats.graph_files import write_graph
from remat_algos.formats.graphs.json_text import to_json
from remat_algos.formats.graphs.npz_bytes import to_npz
from remat_algos.formats.orders import read_mirror_counts, read_order
from remat_algos.ir.budget import Budget
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Labels
from remat_algos.plan.plan import ORDER_FORMS, Plan
from remat_algos.schedule.emission import mirror_schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.search.solve import solve
from tests.oracles.plain import plain
from tests.oracles.simulation import slow_simulation
from tests.raising import raises
from tests.strategies import graphs, orders, rows, training_graphs

PLAYED = settings(max_examples=30)


def graph_of(reads, **arrays):
    return ComputationGraph.from_arrays(**rows("read", reads), **arrays)


def chain(*names):
    """Each reads the one before."""
    return graph_of([[v - 1] if v else [] for v in range(len(names))], labels=Labels(names=names))


def plan_of(graph, order):
    simulation = simulate(graph, order)
    return Plan(graph, Budget(), None, simulation, "mine", "mine", {}, None, 0.0)


ABC = graph_of([[], [0], [0, 1]], labels=Labels(names=("A", "B", "C")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("orders")


@pytest.fixture
def read(tmp_path):
    """Write text, bytes or arrays to a file, and read it as an order of a graph."""

    def read(content, graph=ABC):
        file = tmp_path / "order.txt"
        if isinstance(content, dict):
            np.savez(file, **content)
            file = tmp_path / "order.txt.npz"
        elif isinstance(content, bytes):
            file.write_bytes(content)
        else:
            file.write_text(content, encoding="utf-8")
        found, schedule = read_order(file, graph)
        assert found is graph or found.derivation is not None
        return schedule.order.tolist()

    return read


# ---------------------------------------------------------------- every kind, told by content


WANTED = [0, 1, 0, 2]
KINDS = {
    "plan": plan_of(ABC, WANTED).text(),
    "plan with frees": plan_of(ABC, WANTED).text("frees"),
    "plan in one line": json.dumps(plan_of(ABC, WANTED).record()),
    "a plan of bare bones": '{"format": "remat-plan", "schedule": ["A", 1, "A", "C"]}',
    "JSON names": '["A", "B", "A", "C"]',
    "JSON ids": "[0, 1, 0, 2]",
    "JSON of both": ' \n["A", 1, 0, "C"]',
    "names": "A\nB\nA\nC\n",
    "names without an end of line": "A\nB\nA\nC",
    "names with ends of Windows": "A\r\nB\r\nA\r\nC\r\n",
    "names with a byte order mark": b"\xef\xbb\xbfA\nB\nA\nC\n",
    "names, blanks and comments": "# mine\n\n  A\nB  \n\t A\n# the last\nC\n\n",
    "ids": "0\n1\n0\n2\n",
    "names and ids": "A\n1\n0\nC\n",
    "one line with blanks": "A B  A\tC",
    "one line with commas": "A, B,A , C\n",
    "one line of ids": "0,1,0,2",
    "actions": "compute A\ncompute B\ncompute A\ncompute C\n",
    "actions with frees": "compute A\ncompute B\nfree A\ncompute A\ncompute C\nfree A\nfree B\n",
    "actions with ids and blanks": "# what to do\n  compute  0\n\ncompute B\ncompute 0\ncompute C",
    "R": {"R": np.array([[1, 0, 0], [0, 1, 0], [1, 0, 1]], bool)},
    "R of integers": {"R": np.array([[1, 1, 0], [1, 0, 1]])},
    "R of decimals": {"R": np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]], np.float32)},
    "R and S": {"R": np.array([[1, 0, 0], [0, 1, 0], [1, 0, 1]]), "S": np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]])},
    "R, S and more": {"R": np.array([[1, 1, 0], [1, 0, 1]]), "S": np.array([[0] * 3, [0, 1, 0]]), "T": np.array("x")},
}


@pytest.mark.parametrize("content", KINDS.values(), ids=KINDS)
def test_every_kind_of_file_is_told_by_its_content(read, content):
    assert read(content) == WANTED


def test_a_plan_says_how_its_graph_was_differentiated(tmp_path):
    graph = ComputationGraph.from_edges([(i, i + 1) for i in range(6)])
    training = differentiate(graph, factor=3, keep_outputs=True)
    plan = solve(training, "least", solver="chen_sqrt")
    plan.save(tmp_path / "plan.json")
    found, schedule = read_order(tmp_path / "plan.json", graph)
    assert found.hash == training.hash
    assert schedule.order.tolist() == plan.schedule.order.tolist()
    found, schedule = read_order(tmp_path / "plan.json", training)
    assert found is training


def test_a_plan_for_the_graph_as_it_is_adds_no_gradients(tmp_path):
    plan_of(ABC, WANTED).save(tmp_path / "plan.json")
    assert read_order(tmp_path / "plan.json", ABC)[0] is ABC


# ---------------------------------------------------------------- what a plan writes is read


ODD = ["A", "a b", "a, b", "#1", "# note", "compute x", "free x", "compute", "é", "名 前"]
ODD += ["0", "1", "2", "-1", "a:1", "{", '"']


@st.composite
def odd_names(draw, graph):
    """The graph with names that would mean something else elsewhere; digits come as names while ids exist."""
    names = draw(st.lists(st.sampled_from(ODD), min_size=graph.n_nodes, max_size=graph.n_nodes, unique=True))
    return replace(graph, labels=Labels(names=tuple(names)), derivation=None)


@st.composite
def written(draw):
    """A plan for a graph with names or without."""
    graph = draw(graphs(max_nodes=8, min_nodes=1) | training_graphs(max_nodes=12))
    if graph.single_valued and graph.n_nodes <= len(ODD) and draw(st.booleans()):
        graph = draw(odd_names(replace(graph, resident=None)))
    return plan_of(graph, draw(orders(graph)))


@pytest.mark.parametrize("form", ORDER_FORMS)
@PLAYED
@given(plan=written())
def test_every_form_of_a_plan_is_read_as_the_plan(folder, form, plan):
    file = folder / "order"
    plan.save(file, form)
    first = plan.schedule.names(plan.graph)[0]
    if form == "names" and first[0] in "{[":
        return  # a file that begins like that is JSON
    graph, schedule = read_order(file, plan.graph)
    assert graph is plan.graph
    assert schedule.order.tolist() == plan.schedule.order.tolist()


@pytest.mark.parametrize(
    "names", [("compute x", "x"), ("compute x", "free x"), ("#1", "1"), ("1", "0"), ("a b", "a"), ("a,b", "c")]
)
def test_odd_names_on_lines_are_names(read, names):
    graph = chain(*names)
    assert read("\n".join(names), graph) == [0, 1]
    assert read("".join(f"compute {name}\n" for name in names), graph) == [0, 1]


def test_a_list_of_names_that_begins_like_json_is_told_so(read):
    """The one thing that lines of names cannot say; actions can. Brackets alone are no JSON."""
    with pytest.raises(PlanError, match="not valid JSON"):
        read("[0]conv\n[1]relu\n", chain("[0]conv", "[1]relu"))
    assert read("[CLS]\n{x}\n", chain("[CLS]", "{x}")) == [0, 1]
    assert read("compute [0]conv\ncompute [1]relu\n", chain("[0]conv", "[1]relu")) == [0, 1]


def test_a_name_goes_before_an_id_and_an_id_before_nothing(read):
    graph = chain("2", "1", "c")
    assert read("2 1 2 c", graph) == [0, 1, 0, 2]
    assert read('["2", 2, "0"]', graph) == [0, 2, 0]


def test_one_name_with_a_blank_is_one_step(read):
    assert read("a b", graph_of([[]], labels=Labels(names=("a b",)))) == [0]
    assert read("compute a b", graph_of([[]], labels=Labels(names=("a b",)))) == [0]


def test_a_string_of_a_json_list_is_one_name(read):
    with pytest.raises(ScheduleError, match="unknown node 'A B C'"):
        read('["A B C"]')


def test_an_unknown_form_is_refused():
    with pytest.raises(PlanError, match="unknown form 'yaml'; use plan, frees, names, actions"):
        plan_of(ABC, WANTED).text("yaml")


# ---------------------------------------------------------------- stage by stage, as Checkmate has it


@st.composite
def stages(draw):
    """A graph, and a sound order that rises by ids within each stage."""
    graph = draw(graphs(max_nodes=7, min_nodes=1) | training_graphs(max_nodes=12))
    return graph, draw(orders(graph))


def matrices(graph, order):
    """R and S of a schedule: a stage ends where the order falls; S holds what is read in a later stage, no longer."""
    g, stage_of = plain(graph), []
    for step, node in enumerate(order):
        stage_of.append(stage_of[-1] + (node <= order[step - 1]) if step else 0)
    count = stage_of[-1] + 1 if order else 0
    computed, saved = np.zeros((2, count, graph.n_nodes), bool)
    computed[stage_of, order] = True
    for begin, x, end in slow_simulation(g, order).lifetimes:
        saved[stage_of[begin] + 1 : stage_of[end - 1] + 1, g.producer[x]] = True
    return computed, saved


@PLAYED
@given(stages())
def test_matrices_of_a_schedule_give_it_back(folder, run):
    graph, order = run
    computed, saved = matrices(graph, order)
    file = folder / "stages.npz"
    for kept in ({}, {"S": saved}):
        np.savez(file, R=computed, **kept)
        assert read_order(file, graph)[1].order.tolist() == order


@PLAYED
@given(stages(), st.data())
def test_a_value_that_s_forgets_or_invents_is_missed(folder, run, data):
    """With one entry of S flipped the stages are refused, or hold more or less than is needed but can be run."""
    graph, order = run
    g = plain(graph)
    computed, saved = matrices(graph, order)
    if not saved.size:
        return
    stage, node = (data.draw(st.integers(0, size - 1)) for size in saved.shape)
    saved[stage, node] ^= True
    file = folder / "stages.npz"
    np.savez(file, R=computed, S=saved)
    if possible(g, computed, saved):
        assert read_order(file, graph)[1].order.tolist() == order
    else:
        with pytest.raises(ScheduleError, match=r"^stages\.npz: stage \d+ (computes|has) "):
            read_order(file, graph)


def possible(g, computed, saved):
    """Checkmate's laws: S keeps what the stage before had, and R reads what its stage has."""
    stages, nodes = computed.shape
    for t in range(stages):
        for v in range(nodes):
            if saved[t, v] and not (t and (computed[t - 1, v] or saved[t - 1, v])):
                return False
            if computed[t, v] and not all(computed[t, u] or saved[t, u] for u in g.predecessors(v)):
                return False
    return True


# ---------------------------------------------------------------- faults


R = np.array([[1, 1, 0], [0, 0, 1]])


def acts(text):
    """Lines of actions from "c A, f A", with s and l for copies."""
    deeds = {"c": "compute", "f": "free", "s": "store", "l": "load"}
    return "\n".join(f"{deeds[line.split()[0]]} {line.split()[1]}" for line in text.split(", "))


FAULTS = {
    # lists
    "an unknown name": ("A\nB\nX\n", "step 2: unknown node 'X'"),
    "a name with one near": ("A B AB", "step 2: unknown node 'AB'; did you mean "),
    "an id that is too large": ("0 1 3", "step 2 runs node 3; nodes are 0 to 2"),
    "an id of very many digits": ("9" * 5000, f"step 0 runs node {'9' * 20}…{'9' * 19}; nodes are 0 to 2"),
    "an id below zero": ("0 1 -1", "step 2: unknown node '-1'"),
    "JSON with an id that is too large": ("[0, 1, 3]", "step 2 runs node 3; nodes are 0 to 2"),
    "JSON with an id below zero": ("[0, -1]", "neither the name nor the id of a node"),
    "JSON with a decimal": ("[0, 1.0]", "neither the name nor the id of a node"),
    "JSON with true": ('["A", true]', "neither the name nor the id of a node"),
    "JSON with a list": ("[[0, 1]]", "neither the name nor the id of a node"),
    "JSON that ends early": ('["A", "B"', "not valid JSON"),
    "JSON that is very deep": ("[" * 100_000, "objects and lists are nested deeper than 64 levels"),
    # plans and graphs
    "a graph as JSON": (to_json(ABC), 'not a plan: it has no "format": "remat-plan" with a "schedule"'),
    "a plan without a schedule": ('{"format": "remat-plan"}', 'not a plan: it has no "format": "remat-plan" with'),
    "a plan whose gradients are no options": (
        '{"format": "remat-plan", "schedule": [0, 1, 2], "differentiate": true}',
        '"differentiate" of the plan is True, expected an object or null',
    ),
    "a graph as npz": (to_npz(ABC), "the npz file has no matrix R"),
    # bytes
    "nothing": ("", "the file is empty"),
    "blanks": (" \n\n\t\n", "the file is empty"),
    "comments": ("# nothing\n#more\n", "the file is empty"),
    "garbage": (bytes(range(128, 256)), "byte 0 is not UTF-8 text"),
    "garbage that is text": (b"\x00\x01\x02\x7f", "unknown node"),
    "an archive that is cut": (to_npz(ABC)[:200], "not an npz file that can be read"),
    "an archive of nothing": (b"PK\x05\x06" + bytes(18), "the npz file has no matrix R"),
    "an npy file": (b"\x93NUMPY" + bytes(80), "byte 0 is not UTF-8 text"),
    # actions
    "an action on an unknown node": (acts("c A, c X"), "step 1: unknown node 'X'"),
    "a free of an unknown value": (acts("c A, f X, c B, c C"), "before step 1 X is freed: unknown node 'X'"),
    "a free of what was never made": (acts("c A, f B, c B, c C"), "B is freed before step 1, but it is not in memory"),
    "a second free": (acts("c A, c B, f A, f A, c A, c C"), "A is freed before step 2, but it is not in memory"),
    "a free too early": (acts("c A, c B, f A, c C"), "A is freed before step 2, but step 2, C, reads it"),
    "a free before the first run": (acts("f A, c A, c B, c C"), "A is freed before step 0, but it is not"),
    "a third free of two copies": (acts("c A, c B, c A, f A, c C, f A, f A"), "A is freed before step 4, but it is"),
    "a store of what is freed": (acts("c A, s A, c B, f A, s B, l A, c C"), "B is stored before step 2, but never"),
    "a store after the free": (
        acts("c A, c B, f A, s A, l A, c C"),
        "A is stored before step 2, but it is already freed",
    ),
    "a free before the store": (acts("c A, c B, f A, c A, f A, c B, s A, l A, c C"), "A is freed before step 3, but"),
    "a store after the load": (acts("c A, c B, l A, f A, c C, s A"), "A is stored before step 3, but loaded before"),
    "a store before the value": (acts("s A, c A, c B, l A, c C"), "A is stored before step 0, but not computed"),
    "a store of an output": (acts("c A, c B, c C, s C, l C, c A"), "step 3 loads output C, which never leaves"),
    "a copy that is made and loaded at once": (acts("c A, s A, c B, l A, c A, c C, f A"), "step 2 makes A twice"),
    "a free of an output": (acts("c A, c B, c C, f C, c A"), "C is freed before step 3, but it is an output"),
    "nothing but frees": (acts("f A"), "output C is never computed; run C"),
    "an action that cannot be run": (acts("c A, f A, c C"), "step 1 runs C, which reads B before it has been computed"),
    "something that is no action": ("compute A\nrun B\n", "'run B' is not an action"),
    # matrices
    "R for another graph": ({"R": np.ones((2, 4))}, "R has 4 columns, but the graph has 3 nodes, including gradients"),
    "a list for R": ({"R": np.array([0, 1, 2])}, "R must be a matrix of 0 and 1"),
    "R of other numbers": ({"R": R * 2}, "R must be a matrix of 0 and 1"),
    "R of text": ({"R": np.array([["0", "1", "0"]])}, "R must be a matrix of 0 and 1"),
    "R of records": ({"R": np.zeros((2, 3), [("a", "i4")])}, "R must be a matrix of 0 and 1"),
    "R of objects": ({"R": np.array([[None] * 3])}, "not an npz file that can be read"),
    "R with a gap": ({"R": np.array([[1, np.nan, 0]])}, "R must be a matrix of 0 and 1"),
    "S alone": ({"S": R}, "the npz file has no matrix R"),
    "S of another shape": ({"R": R, "S": np.zeros((3, 3))}, "S must be a matrix of 0 and 1"),
    "S that has what is not there": ({"R": R, "S": np.array([[0, 0, 1], [1, 1, 0]])}, "stage 0 has C in S, but the"),
    "S that keeps what is gone": (
        {"R": np.array([[1, 1, 0], [0, 0, 0], [0, 0, 1]]), "S": np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0]])},
        "stage 2 has B in S, but the stage before neither",
    ),
    "R that reads what is gone": ({"R": R, "S": np.array([[0, 0, 0], [1, 0, 0]])}, "stage 1 computes C without B,"),
}


@pytest.mark.parametrize(("content", "fault"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_one_sentence(read, content, fault):
    with pytest.raises((PlanError, ScheduleError), match=re.escape(fault)) as error:
        read(content)
    message = str(error.value)
    assert "\n" not in message
    assert len(message) < 300
    if (
        "step 1 runs C" not in fault and "never computed" not in fault
    ):  # these are the simulator's, which knows of no file
        assert message.startswith("order.txt")


@pytest.mark.parametrize("options", ['{"twice": true}', '{"factor": "two"}', '{"factor": -1}', '{"loss": ["nowhere"]}'])
def test_options_of_differentiate_that_do_not_fit(read, options):
    plan = f'{{"format": "remat-plan", "schedule": ["A"], "differentiate": {options}}}'
    with pytest.raises(PlanError, match=r'^order\.txt: "differentiate" has options that do not match the graph'):
        read(plan)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(PlanError, match=r"^no such file: .*nowhere\.txt$"):
        read_order(tmp_path / "nowhere.txt", ABC)


def test_a_folder(tmp_path):
    with pytest.raises(PlanError, match="is a directory; name a file in it"):
        read_order(tmp_path, ABC)


def test_a_graph_of_tables_is_no_order(tmp_path):
    write_graph(ABC, tmp_path / "mine.nodes.csv")
    with pytest.raises(ScheduleError, match=r"^mine\.nodes\.csv: step 0: unknown node"):
        read_order(tmp_path / "mine.nodes.csv", ABC)


def test_frees_of_a_second_run_are_of_the_second_run(read):
    """Freed after C, which reads the second A; the first was freed before."""
    assert read("compute A\ncompute B\nfree A\ncompute A\ncompute C\nfree A\nfree B\nfree C\n") == WANTED


def test_a_value_that_is_made_again_need_not_be_freed_before(read):
    assert read("compute A\ncompute B\ncompute A\ncompute C\nfree A\n") == WANTED


# A -> B -> C -> D, and D reads B too
BYTES = ComputationGraph.from_edges([("A", "B"), ("B", "C"), ("C", "D"), ("B", "D")], memory=[100, 7, 50, 60])
LISTS = {
    "in time": ("c A, c B, f A, c C, c D, f B, f C", [100, 107, 57, 117]),
    "an output at the end": ("c A, c B, f A, c C, c D, f B, f C, f D", [100, 107, 57, 117]),
    "late": ("c A, c B, c C, f A, c D, f B, f C", [100, 107, 157, 117]),
    "at the end": ("c A, c B, c C, c D, f A, f B, f C", [100, 107, 157, 217]),
    "never": ("c A, c B, c C, c D, f B, f C", [100, 107, 157, 217]),
    "an order, since no line is about memory": ("c A, c B, c C, c D", [100, 107, 57, 117]),
    "in time for one copy of two": ("c A, c B, c A, f A, c C, f A, c D", [100, 107, 207, 157, 117]),
    "one copy of two": ("c A, c B, f A, c C, c A, c D", [100, 107, 57, 157, 217]),
    "two copies": ("c A, c B, c A, c C, c D, f A", [100, 107, 207, 257, 317]),
    "an output made twice": ("c A, c B, f A, c C, c D, c D, f B, f C", [100, 107, 57, 117, 177]),
    "copied": ("c A, s A, c B, f A, c C, l A, c D, f A", [100, 107, 57, 217]),
    "copied, late": ("c A, s A, c B, c C, f A, l A, c D, f A", [100, 107, 157, 217]),
    "copied, never": ("c A, s A, c B, c C, l A, c D", [100, 107, 157, 317]),
    "copied at once": ("c A, c B, s A, f A, c C, l A, c D, f A", [100, 107, 57, 217]),
    "copied late": ("c A, c B, c C, s A, f A, l A, c D, f A", [100, 107, 157, 217]),
    "a copy back, late": ("c A, s A, c B, f A, l A, c C, f A, c D", [100, 107, 157, 117]),
    "stored from a second copy": ("c A, c B, f A, c A, s A, f A, c C, l A, c D, f A", [100, 107, 107, 57, 217]),
}


@pytest.mark.parametrize(("lines", "expected"), LISTS.values(), ids=LISTS)
def test_a_list_of_actions_has_the_bytes_of_what_it_frees(lines, expected, tmp_path):
    """By hand: computes and loads take memory, frees give it back."""
    (tmp_path / "actions.txt").write_text(acts(lines), encoding="utf-8")
    simulation = simulate(BYTES, read_order(tmp_path / "actions.txt", BYTES)[1])
    assert simulation.memory_trace.tolist() == expected
    actions = [f"{deed} {name}" for deed, name in simulation.actions(names=True)]
    assert [line for line in actions if line[0] in "sl"] == [
        line for line in acts(lines).split("\n") if line[0] in "sl"
    ]


def test_frees_speak_of_values_not_of_nodes(read):
    graph = graph_of([[], [0], [1, 2]], value_indptr=[0, 2, 3, 4], labels=Labels(names=("a", "b", "c")))
    assert read("compute a\ncompute b\nfree a\ncompute c\nfree a:1\n", graph) == [0, 1, 2]
    with raises(ScheduleError, name="a:1", step=2, reader="c"):
        read("compute a\ncompute b\nfree a:1\ncompute c\n", graph)


@PLAYED
@given(written(), st.data())
def test_a_free_moved_forward_past_a_read_is_found(folder, plan, data):
    """A plan frees as early as can be: a step earlier is before a read, or before the value is made."""
    actions = list(plan.actions(names=True))
    frees = [i for i, (deed, _) in enumerate(actions) if deed == "free"]
    if not frees:
        return
    at = data.draw(st.sampled_from(frees))
    before = max(i for i in range(at) if actions[i][0] == "compute")
    moved = [*actions[:before], actions[at], *actions[before:at], *actions[at + 1 :]]
    file = folder / "moved.txt"
    file.write_text("".join(f"{deed} {name}\n" for deed, name in moved), encoding="utf-8")
    with pytest.raises(ScheduleError, match=r"is freed before step \d+, but (step|it is not in memory)"):
        read_order(file, plan.graph)


@PLAYED
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_file_is_an_order_or_a_fault(folder, content):
    file = folder / "file"
    file.write_bytes(content)
    with contextlib.suppress(RematError):  # any other error is a fault of ours
        graph, schedule = read_order(file, ABC)
        assert graph is ABC
        assert set(schedule.order.tolist()) <= {0, 1, 2}


# ---------------------------------------------------------------- mirror counts


def training_chain(**arrays):
    """a -> b -> c -> d and the gradients."""
    arrays = {"labels": Labels(names=tuple("abcd")), **arrays}
    return differentiate(ComputationGraph.from_arrays(**rows("read", [[], [0], [1], [2]]), **arrays))


@pytest.fixture
def counts(tmp_path):
    """Counts from the text of a file."""

    def read(text, graph=None):
        file = tmp_path / "m"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_mirror_counts(training_chain() if graph is None else graph, file).tolist()[:4]

    return read


@pytest.mark.parametrize(
    "text",
    [
        *("node,count\na,2\nb,1\n", "count,node\n1,b\n2,a\n", "name,mirror_count\n a , 2 \nb,1\nc,0\n"),
        *("id,count\r\n0,2\r\n1,1\r\n", "\ufeffnode,count\na,2\n\nb,01\nd,0", '{"a": 2, "b": 1}'),
        *(' {"0": 2, "b": 1, "d": 0}\n', '\ufeff{"a": 2, "1": 1}'),
    ],
)
def test_counts_are_read_from_tables_and_json(counts, text):
    assert counts(text) == [2, 1, 0, 0]


@pytest.mark.parametrize("text", ["node,count\n", "{}"])
def test_nodes_that_are_not_named_have_none(counts, text):
    assert counts(text) == [0, 0, 0, 0]


def test_a_name_comes_before_an_id(counts):
    graph = training_chain(labels=Labels(names=("3", "x", "y", "z")))
    assert counts("node,count\n3,1\n", graph) == [1, 0, 0, 0]
    assert counts("node,count\n2,1\n", graph) == [0, 0, 1, 0]


def test_a_gradient_may_stand_there_only_for_a_complaint(counts):
    with raises(GraphError, source="m", line=2, name="grad(d)"):
        counts("node,count\ngrad(d),0\n")


def test_other_columns_are_ignored_with_a_notice(counts):
    with pytest.warns(GraphWarning, match="m: ignored columns why"):
        assert counts("node,count,why\na,1,cheap\n") == [1, 0, 0, 0]


ONCE = {"once": [0, 1, 0, 0]}
MARKED = {"mark": [1, 0, 0, 0]}


@pytest.mark.parametrize(
    ("text", "arrays", "message"),
    [
        ("node,count\na,1\nb,-1\n", {}, "m, line 3: the count of b is -1; give a whole number, 0 or more"),
        ("node,count\na,1.5\n", {}, "m, line 2: the count of a is 1.5; give a whole number, 0 or more"),
        ("node,count\na,\n", {}, "m, line 2: the count of a is empty; give a whole number, 0 or more"),
        ("node,count\na,many\n", {}, "m, line 2: the count of a is many; give a whole number"),
        ("node,count\na,1_0\n", {}, "m, line 2: the count of a is 1_0; give a whole number"),
        ("node,count\na,²\n", {}, "m, line 2: the count of a is ²; give a whole number"),
        ("node,count\na,2147483648\n", {}, "m, line 2: the count of a is 2147483648; give at most 2147483647"),
        (f"node,count\na,{'9' * 5000}\n", {}, f"m, line 2: the count of a is {'9' * 20}…{'9' * 19}; give at most"),
        ("node,count\nconv,1\n", {}, "m, line 2: unknown node 'conv'"),
        ("node,count\n8,1\n", {}, "m, line 2: there is no node 8; nodes are 0 to 7"),
        (f"node,count\n{'9' * 5000},1\n", {}, f"m, line 2: there is no node {'9' * 20}…{'9' * 19}; nodes are"),
        ("node,count\n-1,1\n", {}, "m, line 2: unknown node '-1'"),
        ("node,count\n,1\n", {}, "m, line 2: unknown node ''"),
        ("node,count\na,1\nb,1\n\na,0\n", {}, "m, line 5: a is listed twice; keep one of its counts"),
        ("node,count\na,1\n0,1\n", {}, "m, line 3: a is listed twice; keep one of its counts"),
        ("node,count\ngrad(b),1\n", {}, "m, line 2: grad(b) is a gradient, which runs once; leave it out"),
        ("node,count\n7,1\n", {}, "m, line 2: grad(a) is a gradient"),
        ("node,count\nb,2\n", ONCE, "m, line 2: b must run only once, so its count is 0, not 2"),
        ("node,count\na,1\n", MARKED, "m, line 2: a is marked to be kept, so its count is 0, not 1"),
        ("node\na\n", {}, "m, line 1: missing column `count` (found: node)"),
        ("count\n1\n", {}, "m, line 1: missing column `node` (found: count)"),
        ("node;count\na;1.5\n", {}, "m, line 2: the count of a is 1.5; give a whole number"),
        ("node,count\na\n", {}, "m, line 2: expected 2 cells, found 1; is the file whole?"),
        ("node,count,count\na,1,1\n", {}, "m, line 1: column `count` occurs twice; keep one"),
        ("", {}, "m: the file is empty"),
        (b"\xff\xfe\x00", {}, "m: the text is UTF-16; give a table with the columns node and count"),
        ('{"a": -1}', {}, "m: the count of a is -1; give a whole number, 0 or more"),
        ('{"a": 1.0}', {}, "m: the count of a is 1.0; give a whole number, 0 or more"),
        ('{"a": true}', {}, "m: the count of a is true; give a whole number"),
        ('{"a": null}', {}, "m: the count of a is null; give a whole number"),
        ('{"a": {"b": 1}}', {}, 'm: the count of a is {"b": 1}; give a whole number'),
        ('{"a": 1, "a": 1}', {}, "m: key 'a' is given twice; keep one"),
        ('{"conv": 1}', {}, "m: unknown node 'conv'"),
        ('{"b": 1}', ONCE, "m: b must run only once"),
        ('{"a": 1}', MARKED, "m: a is marked to be kept"),
        ("[1, 2]", {}, "m: not a JSON object; give a table with the columns node and count, or a JSON object"),
        ('{"a": 1', {}, "m: not valid JSON"),
        ("{" * 9999, {}, "m: not valid JSON"),
    ],
)
def test_what_is_wrong_is_one_sentence_with_its_line(counts, text, arrays, message):
    with pytest.raises(GraphError, match=re.escape(message)) as error:
        counts(text, training_chain(**arrays))
    assert "\n" not in str(error.value)


def test_counts_of_nought_are_no_wish_against_once_or_a_mark(counts):
    text = "node,count\na,0\nb,-0\n"
    assert counts(text, training_chain(**ONCE)) == counts(text, training_chain(**MARKED)) == [0, 0, 0, 0]


def test_a_plan_is_told_from_counts(counts):
    plan = solve(training_chain(), solver="chen_sqrt")
    with pytest.raises(GraphError, match="m: the file is a plan, not a table of mirror counts"):
        counts(plan.text())


@pytest.mark.parametrize("name", ["nowhere.csv", ".", "a\0b"])
def test_a_file_that_is_not_there_is_one_sentence(tmp_path, name):
    with pytest.raises(
        GraphError, match=r"no such file: |is a directory; name a file in it|cannot be read: embedded null byte"
    ):
        read_mirror_counts(training_chain(), tmp_path / name)


@given(st.lists(st.integers(0, 3), min_size=4, max_size=4), st.booleans())
def test_what_was_written_is_what_is_run(folder, given_counts, as_json):
    file, graph = folder / "m", training_chain()
    pairs = dict(zip("abcd", given_counts, strict=True))
    text = json.dumps(pairs) if as_json else "node,count\n" + "".join(f"{v},{m}\n" for v, m in pairs.items())
    file.write_text(text)
    count = read_mirror_counts(graph, file)
    assert count.dtype == np.int64
    assert mirror_schedule(graph, count).order.tolist() == mirror_schedule(graph, given_counts + [0] * 4).order.tolist()


def test_nodes_without_names_go_by_id(counts):
    graph = replace(training_chain(), labels=Labels(), derivation=None)
    assert counts("node,count\n1,3\n", graph) == [0, 3, 0, 0]
