"""Mirror counts from tables and JSON, and what is wrong with them in one sentence."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.errors import GraphError, GraphWarning
from remat_algos.formats.orders import read_mirror_counts
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Labels
from remat_algos.plan.solve import solve
from remat_algos.schedule.emission import mirror_schedule
from tests.raising import raises
from tests.strategies import rows


def chain(**arrays):
    """a -> b -> c -> d and the gradients."""
    arrays = {"labels": Labels(names=tuple("abcd")), **arrays}
    return differentiate(ComputationGraph.from_arrays(**rows("read", [[], [0], [1], [2]]), **arrays))


@pytest.fixture
def counts(tmp_path):
    """Counts from the text of a file."""

    def read(text, graph=None):
        file = tmp_path / "m"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_mirror_counts(chain() if graph is None else graph, file).tolist()[:4]

    return read


@pytest.mark.parametrize(
    "text",
    [
        "node,count\na,2\nb,1\n",
        "count,node\n1,b\n2,a\n",
        "name,mirror_count\n a , 2 \nb,1\nc,0\n",
        "id,count\r\n0,2\r\n1,1\r\n",
        "\ufeffnode,count\na,2\n\nb,01\nd,0",
        '{"a": 2, "b": 1}',
        ' {"0": 2, "b": 1, "d": 0}\n',
        '\ufeff{"a": 2, "1": 1}',
    ],
)
def test_counts_are_read_from_tables_and_json(counts, text):
    assert counts(text) == [2, 1, 0, 0]


@pytest.mark.parametrize("text", ["node,count\n", "{}"])
def test_nodes_that_are_not_named_have_none(counts, text):
    assert counts(text) == [0, 0, 0, 0]


def test_a_name_comes_before_an_id(counts):
    graph = chain(labels=Labels(names=("3", "x", "y", "z")))
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
        ("node,count\na,1\nb,-1\n", {}, "m, line 3: the count of b is -1; counts are 0 or more"),
        ("node,count\na,1.5\n", {}, "m, line 2: the count of a is 1.5; give a whole number, 0 or more"),
        ("node,count\na,\n", {}, "m, line 2: the count of a is empty; give a whole number, 0 or more"),
        ("node,count\na,many\n", {}, "m, line 2: the count of a is many; give a whole number"),
        ("node,count\na,1_0\n", {}, "m, line 2: the count of a is 1_0; give a whole number"),
        ("node,count\na,²\n", {}, "m, line 2: the count of a is ²; give a whole number"),
        ("node,count\na,2147483648\n", {}, "m, line 2: the count of a is 2147483648; give at most 2147483647"),
        (f"node,count\na,{'9' * 5000}\n", {}, f"m, line 2: the count of a is {'9' * 20}…{'9' * 19}; give at most"),
        ("node,count\nconv,1\n", {}, "m, line 2: no node is called 'conv'"),
        ("node,count\n8,1\n", {}, "m, line 2: there is no node 8; nodes are 0 to 7"),
        (f"node,count\n{'9' * 5000},1\n", {}, f"m, line 2: there is no node {'9' * 20}…{'9' * 19}; nodes are"),
        ("node,count\n-1,1\n", {}, "m, line 2: no node is called '-1'"),
        ("node,count\n,1\n", {}, "m, line 2: no node is called ''"),
        ("node,count\na,1\nb,1\n\na,0\n", {}, "m, line 5: a is named twice; keep one of its counts"),
        ("node,count\na,1\n0,1\n", {}, "m, line 3: a is named twice; keep one of its counts"),
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
        ('{"a": -1}', {}, "m: the count of a is -1; counts are 0 or more"),
        ('{"a": 1.0}', {}, "m: the count of a is 1.0; give a whole number, 0 or more"),
        ('{"a": true}', {}, "m: the count of a is true; give a whole number"),
        ('{"a": null}', {}, "m: the count of a is null; give a whole number"),
        ('{"a": {"b": 1}}', {}, 'm: the count of a is {"b": 1}; give a whole number'),
        ('{"a": 1, "a": 1}', {}, "m: key 'a' is given twice; keep one"),
        ('{"conv": 1}', {}, "m: no node is called 'conv'"),
        ('{"b": 1}', ONCE, "m: b must run only once"),
        ('{"a": 1}', MARKED, "m: a is marked to be kept"),
        ("[1, 2]", {}, "m: not a JSON object; give a table with the columns node and count, or a JSON object"),
        ('{"a": 1', {}, "m: not valid JSON"),
        ("{" * 9999, {}, "m: not valid JSON"),
    ],
)
def test_what_is_wrong_is_one_sentence_with_its_line(counts, text, arrays, message):
    with pytest.raises(GraphError, match=re.escape(message)) as error:
        counts(text, chain(**arrays))
    assert "\n" not in str(error.value)


def test_counts_of_nought_are_no_wish_against_once_or_a_mark(counts):
    text = "node,count\na,0\nb,-0\n"
    assert counts(text, chain(**ONCE)) == counts(text, chain(**MARKED)) == [0, 0, 0, 0]


def test_a_plan_is_told_from_counts(counts):
    plan = solve(chain(), solver="chen_sqrt")
    with pytest.raises(GraphError, match="m: a plan, not mirror counts"):
        counts(plan.text())


@pytest.mark.parametrize("name", ["nowhere.csv", ".", "a\0b"])
def test_a_file_that_is_not_there_is_one_sentence(tmp_path, name):
    with pytest.raises(
        GraphError, match=r"no such file: |is a directory; name a file in it|cannot be read: embedded null byte"
    ):
        read_mirror_counts(chain(), tmp_path / name)


@given(st.lists(st.integers(0, 3), min_size=4, max_size=4), st.booleans())
def test_what_was_written_is_what_is_run(tmp_path_factory, given_counts, as_json):
    file, graph = tmp_path_factory.mktemp("counts") / "m", chain()
    pairs = dict(zip("abcd", given_counts, strict=True))
    text = json.dumps(pairs) if as_json else "node,count\n" + "".join(f"{v},{m}\n" for v, m in pairs.items())
    file.write_text(text)
    count = read_mirror_counts(graph, file)
    assert count.dtype == np.int64
    assert mirror_schedule(graph, count).order.tolist() == mirror_schedule(graph, given_counts + [0] * 4).order.tolist()


def test_nodes_without_names_go_by_id(counts):
    graph = replace(chain(), labels=Labels(), derivation=None)
    assert counts("node,count\n1,3\n", graph) == [0, 3, 0, 0]
