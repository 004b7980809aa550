"""The examples do what they say."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.files.read import read_graph
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.no_remat import no_remat
from remat_algos.solvers.registry import get_solver

GRAPHS = Path(__file__).parent.parent / "examples" / "graphs"
TABLES = ("unet.nodes.csv", "unet.edges.csv", "unet.values.csv")


@pytest.fixture(scope="module")
def unet():
    return read_graph(GRAPHS / TABLES[0])


@pytest.fixture(scope="module")
def training(unet):
    return differentiate(unet)


def saved(graph, name):
    return [graph.value_name(x) for x in graph.backward.saved(graph.node_id(name))]


def test_the_script_writes_the_files_that_stand_beside_it(tmp_path):
    script = GRAPHS / "unet.py"
    for _ in range(2):
        subprocess.run([sys.executable, script, tmp_path], check=True, timeout=60)
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(TABLES)
        assert all((tmp_path / name).read_bytes() == (GRAPHS / name).read_bytes() for name in TABLES)


def test_a_copy_of_the_script_writes_beside_itself(tmp_path):
    copy = tmp_path / "unet.py"
    copy.write_bytes((GRAPHS / "unet.py").read_bytes())
    subprocess.run([sys.executable, copy.name], cwd=tmp_path, check=True, timeout=60)
    assert (tmp_path / TABLES[0]).read_bytes() == (GRAPHS / TABLES[0]).read_bytes()


def test_the_unet_has_the_operations_of_a_unet(unet):
    assert Counter(unet.labels.ops) == {
        "Convolution": 19,
        "ReLU": 22,
        "MaxPooling": 4,
        "Dropout": 1,
        "UpConvolution": 4,
        "Concat": 4,
        "SoftmaxCrossEntropy": 1,
    }
    assert unet.labels.names[-1] == "loss"
    assert [unet.value_name(x) for x in np.flatnonzero(unet.output)] == ["loss"]


def test_operations_of_the_unet_have_the_values_they_have(unet):
    several = {unet.labels[v]: len(unet.values(v)) for v in range(unet.n_nodes) if len(unet.values(v)) > 1}
    assert several == dict.fromkeys(["bottom.dropout", "loss", *(f"enc{i}.pool" for i in range(4))], 2)
    assert [unet.labels[v] for v in np.flatnonzero(unet.once)] == ["bottom.dropout"]


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        ("enc0.conv1", []),
        ("enc0.conv2", ["enc0.relu1"]),
        ("enc0.relu2", ["enc0.relu2"]),
        ("enc0.pool", ["enc0.pool.indices"]),
        ("bottom.dropout", ["bottom.dropout.mask"]),
        ("dec3.up", ["bottom.dropout"]),
        ("dec3.concat", []),
        ("scores", ["dec0.relu2"]),
        ("loss", ["probabilities"]),
    ],
)
def test_gradients_of_the_unet_read_what_they_really_read(unet, node, wanted):
    assert saved(unet, node) == wanted


def test_what_only_gradients_read_has_no_gradient(unet):
    without = {unet.value_name(x) for x in np.flatnonzero(unet.backward.grad_memory < 0)}
    assert without == {"bottom.dropout.mask", "probabilities", *(f"enc{i}.pool.indices" for i in range(4))}


def test_sizes_of_the_unet_are_those_of_its_tensors(unet):
    memory = {unet.value_name(x): int(unet.memory[x]) for x in range(unet.n_values)}
    assert memory["enc0.conv1"] == 8 * 64 * 256 * 256 * 4
    assert memory["bottom.conv1"] == 8 * 1024 * 16 * 16 * 4
    assert memory["dec0.concat"] == 8 * 128 * 256 * 256 * 4
    assert memory["enc3.pool.indices"] == 8 * 512 * 16 * 16 * 8
    assert memory["bottom.dropout.mask"] == 8 * 1024 * 16 * 16
    assert memory["probabilities"] == 8 * 2 * 256 * 256 * 4
    assert memory["loss"] == 4
    resident = dict(zip(unet.resident.names, unet.resident.memory.tolist(), strict=True))
    assert resident["image"] == 8 * 3 * 256 * 256 * 4
    assert resident["labels"] == 8 * 256 * 256 * 8
    assert resident["param(enc0.conv2)"] == (64 * 64 * 9 + 64) * 4
    assert resident["param(dec0.up)"] == (128 * 64 * 4 + 64) * 4
    assert len(resident) == 2 + 19 + 4


def test_convolutions_do_most_of_the_work_and_have_workspace(unet):
    convolution = np.array([op in ("Convolution", "UpConvolution") for op in unet.labels.ops])
    assert unet.compute[convolution].sum() > 0.99 * unet.compute.sum()
    assert unet.compute[unet.node_id("enc0.conv2")] == round(2 * 8 * 256 * 256 * 64 * 64 * 9 / 1e6)
    assert unet.workspace[convolution].any()
    assert not unet.workspace[~convolution].any()


@pytest.mark.parametrize("name", ["chen_sqrt", "chen_greedy", "chen_recursive"])
def test_every_method_of_chen_reaches_70_percent_on_the_unet(training, name):
    base = simulate(training, no_remat(training, None)).peak_memory
    limit = int(0.7 * base)
    found = get_solver(name).function(training, limit)
    assert simulate(training, found.schedule).peak_memory <= limit
