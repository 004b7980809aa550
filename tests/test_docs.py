"""The documentation says what is so."""

import doctest
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import remat_algos as ra
from remat_algos.cli.exits import ExitCode
from remat_algos.formats import attributes, columns, csv_tables, to_json
from remat_algos.formats.graphs import npz_bytes
from remat_algos.formats.registry import graph_formats
from remat_algos.plan.record import KINDS
from remat_algos.solvers.registry import list_solvers
from tests.formats_page import FILES, FORMATS, GRAPHS

pytestmark = pytest.mark.usefixtures("short_searches")

ENDINGS = [ending for form in graph_formats() for ending in form.endings]
ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All files that the page on formats shows."""
    place = tmp_path_factory.mktemp("formats")
    for name, (_, _, text) in FILES.items():
        (place / name).write_text(text, encoding="utf-8")
    return place


def cells(section, level=3):
    """Code words in the first two columns of the table under a heading."""
    text = FORMATS.partition(f"\n{'#' * level} {section}\n")[2].partition("\n#")[0]
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| `")]
    return {word for row in rows for cell in row for word in re.findall(r"`(\w+)`", cell)}


def names_in_bibliography():
    return set(re.findall(r"^@\w+\{(\w+),", (DOCS / "references.bib").read_text(encoding="utf-8"), re.MULTILINE))


# formats


def test_the_page_shows_every_format():
    models = {".onnx", ".mlir", ".stablehlo"}  # of other libraries
    shown = {".csv", ".txt", *ENDINGS} - {".gv", ".edges", ".npz"} - models  # other names of .dot and .txt
    assert {Path(name).suffix for name in FILES} == shown
    assert all(f"`{ending}`" in FORMATS for ending in models)
    kinds = {"nodes of", "plan for", "mirror counts of", "buffers", "in-place table of"}
    assert {kind for kind, _, _ in FILES.values()} == {"", *kinds}


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_on_the_page_are_read_run_and_written_back(folder, tmp_path, name):
    graph = ra.read_graph(folder / name)
    training = graph if graph.is_training else ra.differentiate(graph)
    assert ra.solve(training, "least").peak_memory > 0
    for ending in (".json", ".npz", ".nodes.csv", ".graphml", ".dot"):
        ra.write_graph(graph, tmp_path / f"again{ending}")
        again = ra.read_graph(tmp_path / f"again{ending}")
        assert (again.n_nodes, again.labels.names) == (graph.n_nodes, graph.labels.names)
        assert again.memory.tolist() == graph.memory.tolist()
        assert again.hash == graph.hash


def test_tables_of_nodes_on_the_page_go_with_their_edge_lists(folder):
    for name, (kind, edges, _) in FILES.items():
        if kind == "nodes of":
            graph = ra.read_graph(folder / edges, nodes=folder / name)
            assert graph.memory.tolist() == [8000, 1000, 1000, 2000, 4]


def test_the_plan_on_the_page_is_true(folder):
    for name, (kind, graph, _) in FILES.items():
        if kind == "plan for":
            assert ra.verify(ra.read_graph(folder / graph), folder / name).overhead > 0


def test_a_differentiated_graph_is_written_as_it_was():
    path = ROOT / "tests" / "golden" / "differentiated.json"
    assert to_json(ra.read_graph(path)) == path.read_text(encoding="utf-8")


def test_the_tables_with_everything_say_what_the_text_says(folder):
    graph = ra.read_graph(folder / "norm.nodes.csv")
    saved = {graph.labels[v]: [graph.value_name(x) for x in graph.backward.saved(v)] for v in range(graph.n_nodes)}
    assert saved == {"linear 1": [], "norm": ["linear 1", "statistics"], "linear 2": ["norm"]}
    weight = graph.resident.names.index("weight")
    assert [weight in graph.resident.reads(v) for v in range(graph.n_nodes)] == [True, False, True]
    assert graph.labels.views == {"flat": "norm"}
    assert graph.mark.tolist() == [1, 2, 0]


def test_the_drawing_on_the_page_is_the_graph_of_the_tables(folder):
    assert ra.read_graph(folder / "net.dot").hash == ra.read_graph(folder / "net.nodes.csv").hash


def test_every_attribute_beyond_the_columns_is_described():
    text = FORMATS.partition("\n## GraphML and DOT\n")[2].partition("\n### ")[0]
    more = {*attributes.NODE_ATTRIBUTES, *attributes.EDGE_ATTRIBUTES, *attributes.GRAPH_ATTRIBUTES}
    assert more - set(csv_tables.NODE_COLUMNS) <= set(re.findall(r"`(\w+)`", text))


@pytest.mark.parametrize(
    ("section", "columns"),
    [
        ("Columns of X.nodes.csv", csv_tables.NODE_COLUMNS),
        ("Columns of X.values.csv", csv_tables.VALUE_COLUMNS),
    ],
)
def test_every_column_and_alias_is_described(section, columns):
    assert cells(section) >= {name for column, aliases in columns.items() for name in (column, *aliases)}


def test_every_column_of_edges_is_described():
    text = FORMATS.partition("\n### Columns of X.edges.csv\n")[2].partition("\n#")[0]
    assert set(re.findall(r"^\| `(\w+)`", text, re.MULTILINE)) == set(csv_tables.EDGE_COLUMNS)


def test_every_alias_of_edges_is_described():
    assert cells("Columns of X.edges.csv") >= set(columns.aliases(csv_tables.EDGE_COLUMNS))


def test_every_exit_code_is_described():
    text = (DOCS / "cli.md").read_text(encoding="utf-8").partition("| exit code |")[2].partition("\n\n")[0]
    described = [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)]
    assert described == list(ExitCode)


def keys_of(thing):
    if isinstance(thing, dict):
        return set(thing).union(*map(keys_of, thing.values()))
    return set().union(*map(keys_of, thing)) if isinstance(thing, list) else set()


def test_every_key_of_graphs_in_json_is_described(folder):
    text = FORMATS.partition("\n## JSON\n")[2].partition("\n## ")[0]
    graph = ra.read_graph(folder / "net.json")
    written = json.loads(to_json(graph)), json.loads(to_json(ra.differentiate(graph)))
    keys = set().union(*map(keys_of, written)) - {"factor", "parameter_gradients", "loss", "keep_outputs", "flat"}
    assert {"compute_scale", "derivation", "gradient_of", "mark", "grad_memory"} <= keys
    assert keys <= set(re.findall(r'[`"](\w+)[`"]', text))


def test_every_array_of_npz_is_described():
    text = FORMATS.partition("\n## npz\n")[2].partition("\n## ")[0]
    arrays = {*npz_bytes.ARRAYS, *npz_bytes.OPTIONAL_ARRAYS, "remat_graph"}
    arrays |= {f"backward.{name}" for name in npz_bytes.BACKWARD} | {f"resident.{name}" for name in npz_bytes.RESIDENT}
    assert arrays <= set(re.findall(r"`([\w.]+)`", text))


def test_every_key_of_plans_is_described_and_shown(folder):
    text = FORMATS.partition("\n## Plans\n")[2].partition("\n## ")[0]
    training = ra.differentiate(ra.read_graph(folder / "net.nodes.csv"))
    plain, arena, pool, constrained = (
        {*KINDS, *ra.solve(training, **given).record(frees=True)}
        for given in (
            {"budget": "least"},
            {"budget": "least", "allocator": "arena"},
            {"allocator": "cupy_pool"},
            {"constraints": {"max_runs": 3}},
        )
    )
    described = {
        word for line in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for word in re.findall(r"`(\w+)`", line)
    }
    timed = replace(training, labels=replace(training.labels, compute_unit="us"))
    copied = set(ra.solve(timed, "100%", link="50GB/s", effort="fast").record())
    assert plain | arena | pool | constrained | copied == described
    assert plain == set(json.loads(FILES["plan.json"][2]))


@pytest.mark.parametrize("name", ["mirror.csv", "mirror.json"])
def test_mirror_counts_on_the_page_are_those_of_its_graph(folder, name):
    graph = ra.read_graph(folder / FILES[name][1])
    assert ra.formats.read_mirror_counts(graph, folder / name).tolist() == [1, 1, 0, 0]


def test_buffers_on_the_page_fit_what_they_need_at_once(folder):
    found = ra.allocate.pack(ra.formats.read_buffers(folder / "buffers.csv"))
    assert (found.size, found.proven) == (5, True)
    assert {"id", "lower", "upper", "size", "offset"} <= cells("Buffers", level=2)


def test_the_in_place_table_on_the_page_is_what_its_graph_allows(folder):
    table = ra.formats.read_in_place(folder / "in_place.csv")
    assert table == {"Dropout": None, "grad(ReLU)": 0, "relu": "conv"}
    training = ra.differentiate(ra.read_graph(folder / FILES["in_place.csv"][1]))
    simulation = ra.simulate(training, range(training.n_nodes))
    over = dict(
        zip(simulation.lifetimes.value.tolist(), ra.allocate.find_overwrites(simulation, table).tolist(), strict=True)
    )
    assert over[training.value_id("relu")] == training.value_id("conv")  # one run each: instances are values
    assert over[training.value_id("dropout")] == -1
    assert {"op", "read", "value", "over"} <= cells("In-place tables", level=2)


def test_python_on_the_page_runs():
    blocks = re.findall(r"<!-- run -->\n```python\n(.*?)^```$", FORMATS, re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        test = doctest.DocTestParser().get_doctest(block, {}, "formats.md", "docs/formats.md", 0)
        assert doctest.DocTestRunner().run(test).failed == 0


# bibliography


@pytest.mark.parametrize("solver", list_solvers(), ids=lambda solver: solver.name)
def test_papers_of_solvers_are_in_the_bibliography(solver):
    assert not solver.paper or solver.paper in names_in_bibliography()


def test_papers_named_in_the_package_are_in_the_bibliography():
    sources = [*(ROOT / "remat_algos").rglob("*.py"), *DOCS.glob("*.md")]
    named = {
        key for path in sources for key in re.findall(r"\b[a-z]{3,}(?:19|20)\d\d\b", path.read_text(encoding="utf-8"))
    }
    assert named
    assert named <= names_in_bibliography()


def test_every_key_has_one_entry():
    keys = re.findall(r"^@\w+\{(\w+),", (DOCS / "references.bib").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(keys) == len(set(keys))


def test_entries_have_author_title_and_year():
    entries = (DOCS / "references.bib").read_text(encoding="utf-8").split("@")[1:]
    assert all(
        re.search(rf"^  {field} += \{{.+\}},$", entry, re.MULTILINE)
        for entry in entries
        for field in ("author", "title", "year")
    )


# contributing


def test_contributing_begins_with_the_command_that_installs():
    page = (DOCS / "contributing.md").read_text(encoding="utf-8")
    assert re.search(r"^```\w*\n(.*?)\n```$", page, re.DOTALL | re.MULTILINE)[1] == "python -m pip install -e '.[test]'"
