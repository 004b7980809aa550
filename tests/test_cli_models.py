"""The zoo on the command line: lists of models, files of them, and model:NAME wherever a graph is named."""

import pytest

from remat_algos.cli.main import main
from remat_algos.formats.graph_files import read_graph
from remat_algos.ir.differentiate import differentiate
from remat_algos.zoo.registry import build, get_family, list_families, options_of
from tests.command_line import complains

pytestmark = pytest.mark.usefixtures("short_searches")

SMALL = "model:vgg11?batch=2&image=32&width=8"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a tight and a loose plan for the small model."""
    folder = tmp_path_factory.mktemp("models")
    for plan, budget in (("tight", "least"), ("all", "100%")):
        words = ["--budget", budget, "--solver", "chen_sqrt", "-o", str(folder / f"{plan}.json")]
        assert main(["solve", SMALL, *words]) == 0
    return folder


def cells(line):
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


# A model wherever a graph is named


@pytest.mark.parametrize(
    "command",
    [
        "show GRAPH",
        "solve GRAPH --budget 90% --solver chen_sqrt",
        "frontier GRAPH --solver chen_sqrt,no_remat",
        "simulate GRAPH TIGHT",
        "explain GRAPH TIGHT",
        "diff GRAPH TIGHT ALL",
        "verify GRAPH TIGHT",
        "convert GRAPH model.json",
    ],
)
def test_every_command_takes_a_model(remat, place, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    given = {"GRAPH": SMALL, "TIGHT": place / "tight.json", "ALL": place / "all.json"}
    words = [given.get(word, word) for word in command.split()]
    said, coded = remat(*words), remat(*words, "--json")
    assert (said.code, said.err, coded.code, coded.err) == (0, "", 0, "")
    assert coded.record
    if words[0] not in ("diff", "explain"):
        assert said.lines[0].startswith(f"{SMALL}: {build(SMALL).graph.n_nodes} nodes")


def test_the_answers_are_those_for_the_file_of_the_model(remat, tmp_path):
    file = tmp_path / "vgg.json"
    assert remat("convert", SMALL, file).code == 0
    named, read = (remat("show", graph, "--json").record for graph in (SMALL, file))
    network = build(SMALL)
    assert named.pop("model") == {"parameters": network.n_parameters, "macs": network.macs, "flops": network.flops}
    assert named == read


def test_show_says_the_parameters_and_the_multiply_adds_of_a_model(remat):
    said = remat("show", "model:vgg19?batch=1")
    assert cells(said.lines[2]) == ["model", "143,667,240 parameters, 19,632,062,464 multiply-adds forward"]
    assert not any(line.startswith("model  ") for line in said.lines[3:])


def test_a_plan_for_another_batch_is_no_plan_for_this_one(remat, place):
    said = remat("verify", SMALL.replace("batch=2", "batch=3"), place / "tight.json")
    assert complains(said, "tight.json", code=2)


def test_what_a_model_has_differentiated_is_not_differentiated_again(remat):
    said = remat("show", f"{SMALL}&parameter_gradients=true")
    assert "with its own backward part; no gradients added" in said.flat
    assert build(f"{SMALL}&parameter_gradients=true").graph.is_training


def test_parameters_of_a_model_get_gradients_on_request(remat):
    plain, whole = (
        remat("show", SMALL, *words, "--json").record["backward_nodes"] for words in ([], ["--parameter-gradients"])
    )
    assert whole > plain


def test_a_file_that_is_called_like_a_model_is_read(remat, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vgg19").write_text("A B\n")
    assert remat("show", "vgg19", "--inference", "--json").record["nodes"] == 2


def test_effects_are_told_apart_and_not_listed_among_what_is_live(remat):
    """ResNet18 has 20 batch norms, whose running statistics are effects of 0 bytes."""
    graph = "model:resnet18?batch=4&image=64"
    assert "1 output, 20 effects of 0 bytes" in remat("show", graph).out
    said, record = remat("simulate", graph).out, remat("simulate", graph, "--json").record
    assert ".running" not in said
    assert ", 0 B" not in said
    assert any(".running" in entry["value"] and entry["memory"] == 0 for entry in record["live"])


# remat models


def test_all_models_are_listed_with_their_sizes(remat, monkeypatch):
    families = [get_family("vgg")]
    monkeypatch.setattr("remat_algos.zoo.registry.list_families", lambda: families)  # others take long
    assert "remat models NAME lists the options" in remat("models").out
    record = remat("models", "--json").record["models"]
    assert [entry["model"] for entry in record] == list(get_family("vgg").variants)
    vgg = next(entry for entry in record if entry["model"] == "vgg19")
    assert (vgg["family"], vgg["parameters"], vgg["batch"]) == ("vgg", 143_667_240, 32)
    assert vgg["parameter_memory"] == 4 * 143_667_240
    assert vgg["macs"] == 32 * 19_632_062_464
    graph = build("vgg19").graph
    assert (vgg["nodes"], vgg["values"], vgg["activation_memory"]) == (
        graph.n_nodes,
        graph.n_values,
        graph.memory.sum(),
    )
    assert vgg["options"]["depth"] == 19


def test_a_family_is_listed_with_its_options(remat):
    said = remat("models", "vgg")
    assert said.fine
    rows = {cells(line)[1]: line for line in said.lines[1:9]}
    assert list(rows) == list(get_family("vgg").variants)
    assert "143,667,240" in rows["vgg19"]
    options = {line.split()[0] for line in said.lines[10:] if line}
    assert options >= set(options_of("vgg"))
    assert "[1]" not in said.out


def test_names_choose_models_and_families_each_once(remat):
    record = remat("models", "--json", "vgg19", "resnet_cifar", "vgg19", "resnet20").record["models"]
    assert [entry["model"] for entry in record] == ["vgg19", *get_family("resnet_cifar").variants]
    assert remat("models", "vgg11", "--json").record["models"][0]["options"]["depth"] == 11


def test_multiply_adds_are_those_of_one_example(remat):
    """VGG19 has 19,632,062,464 of them, whatever its batch."""
    heads, row = (line.split() for line in remat("models", "vgg19").lines[:2])
    assert " ".join(heads[6:8]) == "GMACs each"
    assert (row[1], row[2], row[6]) == ("vgg19", "32", "19.632")


# A model in a file


@pytest.mark.parametrize("ending", [".json", ".npz"])
def test_a_file_of_any_format_is_the_model(remat, tmp_path, ending):
    file = tmp_path / f"vgg{ending}"
    said = remat("convert", SMALL, file)
    graph = build(SMALL).graph
    assert said.fine
    assert said.lines == [f"{SMALL}: {graph.n_nodes} nodes", f"written  {file}"]
    assert read_graph(file).hash == graph.hash


def test_options_of_the_family_and_of_all_models_are_taken(remat, tmp_path):
    file = tmp_path / "resnet.npz"
    query = "stages=1,1,1&preactivation=true&dtype=float16&batch=4&parameter_gradients=true"
    said = remat("convert", f"model:resnet20?{query}", file, "--json")
    options = {"stages": (1, 1, 1), "preactivation": True, "dtype": "float16", "batch": 4, "parameter_gradients": True}
    graph = build("resnet20", **options).graph
    assert said.record["graph_hash"] == graph.source_hash
    assert read_graph(file).hash == graph.hash


def test_gradients_are_added_on_request(remat, tmp_path):
    file = tmp_path / "vgg.npz"
    said = remat("convert", SMALL, "--differentiate", file)
    whole = differentiate(build(SMALL).graph)
    assert f"; {whole.n_nodes - build(SMALL).graph.n_nodes} gradient nodes added" in said.flat
    assert read_graph(file).hash == whole.hash


def test_tables_say_what_they_leave_out(remat, tmp_path):
    said = remat("convert", "model:vgg11", tmp_path / "vgg.nodes.csv")
    assert said.code == 0
    assert said.lines[-1].startswith("left out  ")
    assert "the unit of compute" in said.lines[-1]


def test_every_family_has_a_summary(remat):
    assert all(family.summary.strip() for family in list_families())
