"""The public face: functions of a graph take the path of its file."""

import inspect
import pickle
from pathlib import Path

import pytest

import remat_algos as ra
from remat_algos.errors import GraphError

pytestmark = pytest.mark.usefixtures("short_searches")

NODES = "name,memory,compute\nconv1,8,20\nrelu1,8,1\nconv2,8,20\nloss,1,1\n"
EDGES = "src,dst\nconv1,relu1\nrelu1,conv2\nconv2,loss\n"


@pytest.fixture
def file(tmp_path):
    (tmp_path / "mine.nodes.csv").write_text(NODES)
    (tmp_path / "mine.edges.csv").write_text(EDGES)
    return tmp_path / "mine.nodes.csv"


@pytest.mark.parametrize("kind", [str, Path])
def test_solve_takes_a_path(file, kind):
    plan = ra.solve(kind(file), "100%")
    assert plan.graph.hash == ra.read_graph(file).hash
    assert plan.peak_memory == ra.solve(ra.read_graph(file), "100%").peak_memory


def test_whatever_begins_with_a_graph_takes_a_path(file):
    training = ra.differentiate(file)
    assert training.is_training
    assert ra.differentiate(graph=str(file)).hash == training.hash
    plan = ra.solve(training, "100%")
    assert ra.verify(file, plan).peak_memory == plan.peak_memory
    assert ra.simulate(file, range(4)).peak_memory == 16
    assert ra.compare(file, "100%").entries
    assert ra.frontier(file, solvers=["no_remat"]).plans
    assert ra.what_if(file, keep=["conv1"]).names(ra.read_graph(file)) == ["conv1", "relu1", "conv2", "loss"]
    assert ra.encode(file).n_nodes == 4


MODEL = "model:vgg11?batch=1&image=32"


@pytest.mark.parametrize("name", ["read_graph", *ra._READING])
def test_a_model_is_named_wherever_a_path_is_taken(name):
    graph = ra.zoo.build("vgg11", batch=1, image=32).graph
    with_more = {
        "simulate": (range(graph.n_nodes),),
        "verify": (ra.solve(graph, "100%", solver="no_remat"),),
        "solve": ("100%",),
        "compare": ("100%",),
        "plan_policy": ("100%", "stage1,stage2"),
    }
    fast = {"solvers": ["no_remat"]} if name in ("compare", "frontier") else {}
    if name == "plan_policy":
        with pytest.raises(ra.PlanError, match="give a graph with its backward part"):
            ra.plan_policy(MODEL, *with_more[name])
        return
    outcome = getattr(ra, name)(MODEL, *with_more.get(name, ()), **fast)
    if name in ("read_graph", "solve", "simulate"):
        assert getattr(outcome, "graph", outcome).hash == graph.hash


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("model:vgg5O", r"unknown model 'vgg5O'; did you mean"),
        ("model:vgg11?bacth=2", r"vgg11 has no option 'bacth'; did you mean batch"),
        ("vgg11", r"^vgg11: there is no such file; did you mean model:vgg11\?$"),
        ("VGG-11?batch=2", r"^VGG-11\?batch=2: there is no such file; did you mean model:vgg11\?batch=2\?$"),
    ],
)
def test_what_names_no_model_is_told_the_nearest(text, told):
    with pytest.raises(GraphError, match=told):
        ra.solve(text, "80%")


def test_only_a_text_names_a_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GraphError, match="no such file: model:vgg11"):
        ra.read_graph(Path("model:vgg11"))


def test_a_model_has_its_own_sizes(file):
    with pytest.raises(GraphError, match=r"model:vgg11 has its own sizes; leave out the table of nodes .*mine"):
        ra.read_graph("model:vgg11", nodes=file)


def test_python_never_differentiates_by_itself(file):
    assert not ra.solve(file, "least").graph.is_training
    with pytest.raises(GraphError, match=r"the graph has no backward part; call differentiate\(graph\) first"):
        ra.solve(file, "60%", solver="chen_sqrt")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(GraphError, match=r"none\.csv"):
        ra.solve(tmp_path / "none.csv", "60%")


@pytest.mark.parametrize("name", ra._READING)
def test_they_are_found_by_pickle_and_look_like_what_they_wrap(name):
    function = getattr(ra, name)
    assert pickle.loads(pickle.dumps(function)) is function
    assert next(iter(inspect.signature(function).parameters)) == "graph"
    assert function.__name__ == name


@pytest.mark.parametrize(
    "call",
    [
        lambda given, _: ra.schedule.lowest_pass(given),
        lambda given, folder: ra.write_graph(given, folder / "g.json"),
        lambda given, _: ra.structure.lower_set_family(given),
        lambda given, _: ra.solve(given, "60%"),
    ],
)
def test_what_is_no_graph_is_one_sentence(call, tmp_path):
    with pytest.raises(
        TypeError, match=r"^graph is a bytes; give a ComputationGraph \(read_graph, from_networkx and .* make one\)$"
    ):
        call(b"x", tmp_path)


@pytest.mark.parametrize("given", ["x", 7, [1]])
def test_to_networkx_names_what_it_takes(given):
    with pytest.raises(TypeError, match=r"^subject is an? \w+; give a ComputationGraph, a Simulation or a Plan$"):
        ra.to_networkx(given)
