"""The JSON schemas of docs/schema describe what is written and what is read."""

import copy
import functools
import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos.formats.graphs import json_text
from remat_algos.plan.policy import Treatment
from remat_algos.plan.record import KINDS, LINK_KINDS, shaped
from tests.formats_page import FILES
from tests.strategies import graphs, orders
from tests.test_plan_copies import planned

pytestmark = pytest.mark.usefixtures("short_searches")

jsonschema = pytest.importorskip("jsonschema")

DOCS = Path(__file__).parent.parent / "docs"
SCHEMAS = GRAPH, PLAN, POLICY, CHECKPOINTS, EXPLANATION = [
    json.loads((DOCS / "schema" / f"{name}.schema.json").read_text("utf-8"))
    for name in ("graph", "plan", "policy", "checkpoints", "explanation")
]
IS_GRAPH, IS_PLAN, IS_POLICY, IS_CHECKPOINTS, IS_EXPLANATION = map(jsonschema.Draft202012Validator, SCHEMAS)
HAND_WRITTEN = FILES["net.json"][2]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_schemas_are_schemas(schema):
    jsonschema.Draft202012Validator.check_schema(schema)


def test_the_schemas_list_every_key_that_is_read():
    assert set(GRAPH["properties"]) == set(json_text.KEYS)
    parts = {"node": json_text.NODE_KEYS, "value": json_text.VALUE_KEYS, "resident": json_text.RESIDENT_KEYS}
    assert {part: set(GRAPH["$defs"][part]["properties"]) for part in parts} == {
        part: set(keys) for part, keys in parts.items()
    }
    assert set(PLAN["required"]) == {"format", "version", *KINDS}


@settings(max_examples=60, deadline=None)
@given(graph=graphs())
def test_every_graph_that_is_written_and_its_plan_are_valid(graph):
    IS_GRAPH.validate(json.loads(ra.formats.to_json(graph)))
    for frees in (False, True):
        IS_PLAN.validate(json.loads(ra.solve(graph, solver="no_remat").text("frees" if frees else "plan")))


@pytest.mark.parametrize("name", ["unet", "lstm", "transformer"])
@pytest.mark.parametrize("differentiated", [False, True])
def test_the_example_graphs_and_their_plans_are_valid(name, differentiated):
    graph = ra.read_graph(DOCS.parent / "examples" / "graphs" / f"{name}.nodes.csv")
    graph = ra.differentiate(graph) if differentiated else graph
    IS_GRAPH.validate(json.loads(ra.formats.to_json(graph)))
    record = ra.solve(graph, solver="no_remat").record(frees=True)
    IS_PLAN.validate(json.loads(json.dumps(record)))
    assert set(record) <= set(PLAN["properties"])


def test_a_plan_with_a_link_is_valid_and_its_keys_go_together():
    record = json.loads(planned().text("frees"))
    IS_PLAN.validate(record)
    assert set(record) <= set(PLAN["properties"])
    assert set(PLAN["dependentRequired"]) == set(LINK_KINDS)
    for name in LINK_KINDS:
        assert not IS_PLAN.is_valid({key: entry for key, entry in record.items() if key != name})
    assert not IS_PLAN.is_valid(record | {"loads": [["v3", 12]]})
    assert not IS_PLAN.is_valid(record | {"lingering": [["v3", 6]]})


@settings(max_examples=30, deadline=None)
@given(graph=graphs(), data=st.data())
def test_explanations_are_valid_and_have_only_keys_of_the_schema(graph, data):
    plan = ra.Plan(graph, ra.Budget(), None, ra.simulate(graph, data.draw(orders(graph))), "a", "a", {}, None, 0.0)
    check_explanation(ra.explain(plan))


def test_an_explanation_of_offloaded_values_is_valid():
    record = check_explanation(ra.explain(planned()))
    assert any("offloaded" in decision for decision in record["decisions"])


def check_explanation(explanation):
    """Validate the JSON record of an explanation, and return it."""
    record = json.loads(json.dumps(explanation.record()))
    IS_EXPLANATION.validate(record)
    assert set(record) <= set(EXPLANATION["properties"])
    return record


@pytest.mark.parametrize("link", [None, "pcie4"])
def test_policies_of_blocks_and_of_tensors_are_valid(tmp_path, link):
    graph = ra.differentiate("model:llama_7b?depth=4&cost=roofline&device=h100-sxm&dtype=bfloat16")
    policy = ra.plan_policy(graph, "60%", "layers.*", link=link)
    policy.save(tmp_path / "policy.json")
    record = json.loads((tmp_path / "policy.json").read_text("utf-8"))
    IS_POLICY.validate(record)
    assert set(record) | {"link", "tensors"} == set(POLICY["properties"])
    assert not IS_POLICY.is_valid({**record, "semantics": "compiled"})
    assert not IS_POLICY.is_valid({key: entry for key, entry in record.items() if key != "limit"})
    tensors = ra.solve(graph, solver="no_remat").policy().record()
    IS_POLICY.validate(json.loads(json.dumps(tensors)))
    assert not IS_POLICY.is_valid(record | {"tensors": tensors["tensors"]})


def test_the_schema_and_the_reader_of_checkpoints_agree(tmp_path):
    torch = pytest.importorskip("torch")
    from remat_algos.interop.torch import load_checkpoints, plan_checkpoints

    blocks = [torch.nn.Sequential(torch.nn.Linear(32, 128), torch.nn.GELU(), torch.nn.Linear(128, 32)) for _ in "abcd"]
    model, batch, file = torch.nn.Sequential(*blocks), (torch.ones(256, 32),), tmp_path / "plan.json"
    for link in (None, {"out": 1e18, "into": 1e18}):
        plan_checkpoints(model, batch, "least", loss=torch.sum, link=link).save(file)
        record = json.loads(file.read_text("utf-8"))
        IS_CHECKPOINTS.validate(record)
        assert set(record) == set(CHECKPOINTS["properties"])
    record["blocks"].append(Treatment("4", "offload", ("::aten.mm.default#0",), 8, 1, 0.5, ("0", "mask")).record())
    file.write_text(json.dumps(record), "utf-8")
    assert load_checkpoints(file).treatments[-1].inputs == ("0", "mask")
    verdicts = set()
    for seed in range(300):
        document = mutated(record, seed)
        file.write_text(json.dumps(document), "utf-8")
        valid = IS_CHECKPOINTS.is_valid(document)
        assert accepts(load_checkpoints, file) is (valid and not _refused_by_the_reader_alone(document)), (
            seed,
            document,
        )
        verdicts.add(valid)
    assert verdicts == {True, False}


def _refused_by_the_reader_alone(document):
    """True if a block has two treatments, or a count of bytes is a float such as 2.0, which is an integer in JSON."""
    blocks = document["blocks"]
    counts = [
        document["peak_memory"],
        document["resident_memory"],
        *(b[key] for b in blocks for key in ("memory", "compute")),
    ]
    return len({block["name"] for block in blocks}) < len(blocks) or any(type(count) is float for count in counts)


def test_the_graph_on_the_page_is_valid_and_read():
    IS_GRAPH.validate(json.loads(HAND_WRITTEN))
    assert ra.formats.from_json(HAND_WRITTEN).n_nodes == len(json.loads(HAND_WRITTEN)["nodes"])


@pytest.mark.parametrize(
    "fault",
    [
        lambda graph: graph.pop("format"),
        lambda graph: graph.update(version=2),
        lambda graph: graph.update(backward="later"),
        lambda graph: graph["nodes"][0].update(once=1),
        lambda graph: graph["nodes"][0].update(compute=True),
        lambda graph: graph["nodes"][0].update(reads="x"),
        lambda graph: graph["residents"][0].pop("name"),
    ],
)
def test_what_the_schema_refuses_the_reader_refuses(fault):
    graph = json.loads(HAND_WRITTEN)
    fault(graph)
    assert not IS_GRAPH.is_valid(graph)
    with pytest.raises(ra.GraphError):
        ra.formats.from_json(json.dumps(graph))


# ---------------------------------------------------------------- mutated documents

STRANGE = (
    *(None, True, False, 0, 1, 2, 3, -1, 1.0, 2.0, -1.0, 0.5, 10**6),
    *("", " ", "x", "a", "4GiB", "3.5", "-4", "-1", "none", "keep", "input"),
    *([], [1], [1.0], ["a"], [""], [[]], {}, {"a": 1}, {"name": "a"}, {"a": "b"}, {"out": 1, "into": 2}),
)
EVERY_KEY = {
    **{"format": "remat-graph", "version": 1, "compute_unit": "ns", "compute_scale": 10, "backward": "to come"},
    "residents": [{"name": "w", "memory": 4, "role": "parameter", "readers": ["a"]}],
    "views": {"v": "a"},
    "nodes": [
        {
            **{"name": "a", "op": "Conv", "compute": 3.5, "workspace": 0, "once": False, "mark": 1, "reads": []},
            "values": [{"name": "a", "memory": 8, "output": False, "grad_memory": 8}, {"name": "b", "memory": "4KiB"}],
            **{"saved": ["a"], "grad_compute": 5, "grad_workspace": 1},
        },
        {
            **{"name": "c", "memory": 4, "output": True, "view_of": None, "reads": ["a"], "saved": ["a"]},
            **{"backward": False, "gradient_of": None},
        },
    ],
}


def places(document, path=()):
    """The paths to all parts of a document."""
    yield path
    parts = document.items() if isinstance(document, dict) else enumerate(document) if type(document) is list else ()
    for key, part in parts:
        yield from places(part, (*path, key))


def mutated(document, seed):
    """The document with one part removed or replaced."""
    chance, document = random.Random(seed), copy.deepcopy(document)
    *path, last = chance.choice([path for path in places(document) if path and path[0] != "details"])
    parent = document
    for key in path:
        parent = parent[key]
    if chance.random() < 0.15:
        del parent[last]
    else:
        parent[last] = copy.deepcopy(chance.choice(STRANGE))
    return document


def accepts(reader, document):
    try:
        reader(document)
    except ra.RematError:
        return False
    return True


@pytest.mark.filterwarnings("ignore::remat_algos.errors.GraphWarning")
def test_the_schema_and_the_reader_of_graphs_agree_on_mutated_documents():
    """The reader refuses more only where it assembles the graph: cycles, names that clash or are unknown."""
    verdicts = set()
    for seed in range(600):
        document = mutated(EVERY_KEY, seed)
        text, valid = json.dumps(document), IS_GRAPH.is_valid(document)
        reader = (lambda text: json_text.GRAPH_FORMAT.read(text, "it")) if valid else ra.formats.from_json
        assert accepts(reader, text) is valid, (seed, document)
        verdicts.add(valid)
    assert verdicts == {True, False}


def test_the_schema_and_the_reader_of_plans_agree_on_mutated_documents():
    """`verify` refuses more only where a figure is not that of the simulation."""
    graph, copies = ra.differentiate(ra.ComputationGraph.from_edges([("a", "b"), ("b", "c"), ("a", "c")])), planned()
    plan = ra.solve(graph, solver="no_remat")
    documents = [(graph, json.loads(plan.text("frees"))), (copies.graph, json.loads(copies.text("frees")))]
    verdicts = set()
    for seed in range(400):
        graph, document = documents[seed % 2]
        document = mutated(document, seed)
        valid = IS_PLAN.is_valid(document)
        assert accepts(shaped if valid else functools.partial(ra.verify, graph), document) is valid, (seed, document)
        verdicts.add(valid)
    assert verdicts == {True, False}
