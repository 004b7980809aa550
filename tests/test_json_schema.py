"""The JSON schemas of docs/schema describe what is written and what is read."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings

import remat_algos as ra
from remat_algos.formats.graphs import json_text
from remat_algos.plan.record import KINDS, LINK_KINDS
from tests.strategies import graphs
from tests.test_plan_copies import planned

pytestmark = pytest.mark.usefixtures("short_searches")

jsonschema = pytest.importorskip("jsonschema")

DOCS = Path(__file__).parent.parent / "docs"
GRAPH, PLAN = (json.loads((DOCS / "schema" / f"{name}.schema.json").read_text("utf-8")) for name in ("graph", "plan"))
IS_GRAPH, IS_PLAN = map(jsonschema.Draft202012Validator, (GRAPH, PLAN))
HAND_WRITTEN = re.search(
    r"^<!-- file: mine.json -->\n```json\n(.*?)^```$", (DOCS / "json.md").read_text("utf-8"), re.S | re.M
)[1]


@pytest.mark.parametrize("schema", [GRAPH, PLAN])
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
