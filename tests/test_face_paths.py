"""The public face: functions of a graph take the path of its file."""

import inspect
import pickle
from pathlib import Path

import pytest

import remat_algos as ra
from remat_algos.errors import GraphError

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


def test_the_name_of_a_model_is_no_path_and_the_error_says_how_to_build_it():
    with pytest.raises(
        GraphError, match=r"no such file: model:vgg16; a model is built: models\.build\('vgg16'\)\.graph"
    ):
        ra.solve("model:vgg16", "80%")


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
