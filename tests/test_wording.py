"""Names and arguments in messages: quoted in part where they are long, in print where they cannot be printed."""

import ast
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos.formats.graphs.json_text import from_json
from remat_algos.interop.open_dims import missing_lengths
from remat_algos.text.amounts import (
    cost_of,
    fine_percent,
    format_compute,
    format_seconds,
    parse_bytes,
    percent,
    size_of,
)
from remat_algos.text.markdown import code, markdown_table
from remat_algos.wording import (
    LONGEST_NAME,
    comma_separated,
    did_you_mean,
    exact_bytes,
    first_line,
    format_bytes,
    install_command,
    labelled,
    listed,
    one_line,
    printable,
    quoted,
    sentence,
    shortened,
    spelled,
    tabulated,
    typed,
    wrapped,
)

pytestmark = pytest.mark.usefixtures("short_searches")

LONG = "layer" * 2_000
PAIR = [(f"{LONG}0", f"{LONG}1"), (f"{LONG}1", f"{LONG}2"), (f"{LONG}0", f"{LONG}2")]


def _pair(**given):
    return ra.ComputationGraph.from_edges(PAIR, **given)


def _table(tmp_path, text, name="g.nodes.csv"):
    (tmp_path / "g.edges.csv").write_text("src,dst\n")
    path = tmp_path / name
    path.write_text(text)
    return path


FAULTS = {
    "no such node": lambda _: _pair().node_id(f"{LONG}9"),
    "a long word that is not a valid name": lambda _: ra.ComputationGraph.from_edges([("a", "b")]).node_id(LONG),
    "twice the same name": lambda _: ra.ComputationGraph.from_arrays(
        read_indptr=[0, 0, 0], read_indices=[], labels=ra.ir.Labels(names=(LONG, LONG))
    ),
    "a view of nothing": lambda _: ra.ComputationGraph.from_arrays(
        read_indptr=[0, 0], read_indices=[], labels=ra.ir.Labels(names=(LONG,), views={f"{LONG}v": f"{LONG}w"})
    ),
    "a cycle": lambda _: ra.ComputationGraph.from_edges([(f"{LONG}{i}", f"{LONG}{(i + 1) % 5}") for i in range(5)]),
    "not a loss": lambda _: ra.differentiate(_pair(), loss=[LONG]),
    "a name of a schedule": lambda _: ra.Schedule.from_names(_pair(), [LONG]),
    "read too soon": lambda _: ra.simulate(_pair(), [1, 0, 2]),
    "never computed": lambda _: ra.simulate(_pair(), [0, 1]),
    "once, twice": lambda _: ra.simulate(_pair(once=[True, False, False]), [0, 0, 1, 2]),
    "kept, again": lambda _: ra.simulate(_pair(mark=[1, 0, 0]), [0, 0, 1, 2]),
    "a count of a node that runs once": lambda _: ra.schedule.mirror_schedule(
        ra.differentiate(_pair(once=[True, False, False])), np.ones(6)
    ),
    "no budget": lambda _: ra.solve(ra.differentiate(_pair()), 1),
    "not lower": lambda _: ra.structure.LowerSets.of(_pair(), [[1], [0, 1, 2]]),
    "keep and recompute": lambda _: ra.what_if(ra.differentiate(_pair()), keep=[f"{LONG}0"], recompute=[f"{LONG}0"]),
    "overlap": lambda _: ra.allocate.Allocation(
        ra.allocate.Buffers([0, 0], [1, 1], [4, 4], names=(f"{LONG}a", f"{LONG}b")), [0, 1], [0, 0], 8, "", 8
    ).verify(),
    "over": lambda _: ra.allocate.Buffers([0, 0], [1, 1], [4, 4], over=[-1, 0], names=(f"{LONG}a", f"{LONG}b")),
    "a solver": lambda _: ra.solve(_pair(), solver=LONG),
    "a table": lambda path: ra.read_graph(_table(path, f"name,memory\n{LONG},1\n{LONG},2\n")),
    "a size": lambda path: ra.read_graph(_table(path, f"name,memory\n{LONG},many\n")),
    "a device": lambda _: ra.cost.Device(LONG, {"float32": 1e12}, 1e11, 1e-6, -1),
    "a budget of a plan": lambda _: ra.verify(_pair(), ra.solve(_pair(), "100%").record() | {"budget": {LONG: 1}}),
    "a version of a graph": lambda _: from_json(f'{{"format": "remat-graph", "version": "{LONG}", "nodes": []}}'),
    "a version of a plan": lambda _: ra.verify(_pair(), {"format": "remat-plan", "version": LONG}),
    "a budget": lambda _: ra.solve(_pair(), f"{LONG}"),
    "a share": lambda _: ra.Budget(device=f"{'1' * 20_000}%"),
    "a bare number": lambda _: ra.Budget("1" * 20_000 + ".5"),
    "a family": lambda _: ra.structure.lower_set_family(_pair(), LONG),
    "a rule": lambda _: ra.structure.eliminate(ra.structure.UndirectedGraph.of(_pair()), LONG),
    "a key": lambda _: ra.schedule.reuse_values(_pair(), ra.Schedule([0, 1, 2]), 3, key=LONG),
    "an allocator": lambda _: ra.solve(_pair(), allocator=LONG),
    "candidates": lambda _: ra.solve(ra.differentiate(_pair()), solver="chen_sqrt", candidates=LONG),
    "a strategy": lambda _: ra.solve(ra.differentiate(_pair()), solver="exact_dp", strategy=LONG),
    "an operation": lambda _: ra.solve(ra.differentiate(_pair()), solver="drop_cheap", drop=[LONG]),
    "a cut": lambda _: ra.solve(ra.differentiate(_pair()), solver="chen_sqrt", at=[LONG]),
    "in place": lambda _: ra.allocate.find_overwrites(ra.simulate(_pair(), [0, 1, 2]), {LONG: 0}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_errors_quote_long_names_in_part(fault, tmp_path):
    with pytest.raises((ra.RematError, ValueError)) as caught:
        FAULTS[fault](tmp_path)
    message = str(caught.value)
    assert LONG[: LONGEST_NAME + 1] not in message
    assert "1" * (LONGEST_NAME + 1) not in message
    assert len(message) < 900


def test_a_short_name_is_quoted_as_it_is():
    assert shortened("x" * LONGEST_NAME) == "x" * LONGEST_NAME
    assert len(shortened("x" * LONGEST_NAME + "y")) == LONGEST_NAME


def test_a_misspelled_key_with_a_line_break_is_quoted_on_one_line(tmp_path):
    file = tmp_path / "g.json"
    file.write_text('{"format": "remat-graph", "version": 1, "nodes": [{"name": "a", "values": [{"memori\\n": 4}]}]}')
    with pytest.raises(ra.GraphError) as caught:
        ra.read_graph(file)
    assert r"`memori\n` is not known; did you mean `memory`?" in str(caught.value)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- arguments of any kind

CHAIN = ra.differentiate(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(4)]))
SCHEDULE = ra.Schedule(range(CHAIN.n_nodes))
HOSTILE = {
    "long": LONG,
    "not for a terminal": "\x1b[31mred\x1b]0;title\x07\u202e\x9b\r\n",
    "an array": np.arange(12_000).reshape(3_000, 4),
    "half a character": "\ud800",
    "too many digits": 10**5_000,
    "a list of many": ["name"] * 10_000,
}
ARGUMENTS = {
    "alignment": lambda x: ra.solve(CHAIN, "80%", alignment=x),
    "solver": lambda x: ra.solve(CHAIN, "80%", solver=x),
    "effort": lambda x: ra.solve(CHAIN, "80%", effort=x),
    "allocator": lambda x: ra.solve(CHAIN, "80%", allocator=x),
    "budget": lambda x: ra.solve(CHAIN, x if not isinstance(x, int) else f"{x % 7}?"),
    "seed": lambda x: ra.solve(CHAIN, "80%", seed=x if not isinstance(x, int) else -x),
    "time_limit": lambda x: ra.solve(CHAIN, "80%", time_limit=x if not isinstance(x, int) else -x),
    "constraints": lambda x: ra.solve(CHAIN, "80%", constraints=x),
    "an option": lambda x: ra.solve(CHAIN, "80%", solver="twremat", orders=x if not isinstance(x, int) else -x),
    "the name of an option": lambda x: ra.solve(CHAIN, "80%", solver="twremat", **{repr(x)[:9_000]: 1}),
    "options of none": lambda x: ra.solve(CHAIN, "80%", **{repr(x)[:9_000]: 1}),
    "by": lambda x: ra.breakdown(CHAIN, by=x),
    "a model": lambda x: ra.zoo.build(x),
    "an option of a model": lambda x: ra.zoo.build("unet", image=x if not isinstance(x, int) else -x),
    "a node": lambda x: CHAIN.node_id(x),
    "keep": lambda x: ra.what_if(CHAIN, keep=[x]),
    "family": lambda x: ra.structure.lower_set_family(CHAIN, x),
    "rule": lambda x: ra.structure.eliminate(ra.structure.UndirectedGraph.of(CHAIN), x),
    "key": lambda x: ra.schedule.reuse_values(CHAIN, SCHEDULE, 9, key=x),
    "backend": lambda x: ra.execute(CHAIN, SCHEDULE, backend=x),
    "a path to read": lambda x: ra.read_graph(x),
    "a path to write": lambda x: ra.write_graph(CHAIN, x),
    "form": lambda x: ra.solve(CHAIN, "100%", solver="no_remat").text(x),
    "factor": lambda x: ra.differentiate(ra.ComputationGraph.from_edges([(0, 1)]), factor=x),
    "loss": lambda x: ra.differentiate(ra.ComputationGraph.from_edges([(0, 1)]), loss=[x]),
    "bits": lambda x: ra.encode(CHAIN, bits=x),
    "dtype": lambda x: ra.cost.calibrate(dtype=x),
    "limit": lambda x: ra.bounds.overhead_bound(CHAIN, x if not isinstance(x, int) else 0.5),
    "capacity": lambda x: ra.allocate.pack(
        ra.allocate.Buffers([0], [1], [4]), capacity=x if not isinstance(x, int) else -x
    ),
    "alignment of buffers": lambda x: ra.allocate.Buffers([0], [1], [4]).rounded(x),
    "by which to shrink": lambda x: ra.executor.shrink(CHAIN, x),
    "points": lambda x: ra.frontier(CHAIN, points=x if not isinstance(x, int) else -x),
    "a picture": lambda x: ra.plot.save(None, x),
    "what to run": lambda x: ra.execute(CHAIN, x),
}


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_errors_quote_any_argument_in_part_and_in_print(argument, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which kind is the affair of others
        ARGUMENTS[argument](HOSTILE[value])
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 600


@given(
    names=st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=100), min_size=1, max_size=3, unique=True)
)
def test_a_remedy_with_names_of_dimensions_can_be_copied(names):
    text = str(missing_lengths(1, "x", [4], names, "model.onnx")).partition("dims=")[2]
    end = re.match(r'\{("([^"\\]|\\.)*": 1(, )?)+\}', text).end()
    assert ast.literal_eval(text[:end]) == dict.fromkeys(names, 1)
    assert text[end:] in ("", " or model.onnx?" + "&".join(f"{name}=1" for name in names))


def test_names_to_choose_from_are_whole():
    name = "encoder.layers.0.self_attention.scores_after_masking.softmax"
    assert did_you_mean(name[:-1] + "X", [name]) == f"; did you mean {name}?"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (format_bytes(2132279296), "1.99 GiB"),
        (format_bytes(1023), "1023 B"),
        (format_bytes(1023 * 1024), "0.999 MiB"),
        (exact_bytes(2132279296), "1.99 GiB (2,132,279,296 bytes)"),
        (exact_bytes(999), "999 B"),
        (listed(["a", "b", "c"], 2), "a, b and 1 more"),
        (listed(["a"], 2, total=2000), "a and 1,999 more"),
        (comma_separated(["layer0", "ReLU,Tanh,"]), ["layer0", "ReLU", "Tanh"]),
        (comma_separated(5), []),
        (printable("conv\x1b[31m\n"), "conv\\x1b[31m\\n"),
        (printable("[[1 2]\n [3 4]]"), "[[1 2] [3 4]]"),
        (spelled(10**5000), "<int>"),
        (shortened("encoder.layer.11.attention.output", 16), "encoder.….output"),
        (quoted(list(range(1000)), 16), "[0, 1, 2…8, 999]"),
        (typed("x[0]"), '"x[0]"'),
        (len(typed("layer." * 100)), 602),
        (first_line(OSError("No space left.\nNone at all.")), "No space left"),
        (one_line([3, 4], "2 entries", "", "sum 7"), "<list: 2 entries, sum 7>"),
        (did_you_mean("Conv3", ["conv1", "relu"]), "; did you mean conv1?"),
        (
            sentence("{name} reads {reads!l}: {count:node}", {"name": "x\n", "reads": "ab", "count": 2}),
            "x\\n reads a, b: 2 nodes",
        ),
        (wrapped("at the peak: conv1, relu1", 16, indent="  "), ["at the peak:", "  conv1, relu1"]),
        (wrapped("model:resnet?depth=14&batch=8", 24, options=True), ["model:resnet?depth=14&", "batch=8"]),
        (labelled([("peak", "19 MiB, limit 20 MiB")], 20), ["peak  19 MiB, limit", "      20 MiB"]),
        (
            tabulated(("solver", "extra runs"), [("no_remat", "0"), ("chen_sqrt", "12")], width=16),
            ["           extra", "solver      runs", "no_remat       0", "chen_sqrt     12"],
        ),
        (parse_bytes("1.5 kB"), 1500),
        (format_compute(2374000000000, "FLOPs"), "2.37 TFLOP"),
        (format_compute(2374, "GFLOPs"), "2.37 TFLOP"),
        (format_compute(161), "161"),
        (format_compute(2400000, "ns"), "2.4 ms"),
        (format_seconds(75), "75 s"),
        (percent(0, 0), "0.0 %"),
        (fine_percent(64, 97), "66.0 %"),
        (fine_percent(1, 30_000), "0.003 %"),
        (fine_percent(0, 5), "0 %"),
        (str(size_of(120.5)), "120.5"),
        (size_of("4MiB"), 4194304),
        (str(cost_of("33.5")), "33.5"),
        (list(markdown_table(("name",), [("a|b",)], (False,)))[-1], "| a\\|b |"),
        (code("a`b"), "``a`b``"),
        (code("`"), "`` ` ``"),
    ],
)
def test_texts_of_messages_tables_and_amounts(text, expected):
    assert text == expected


def test_an_install_command_names_an_extra_of_this_package():
    """No package index has the package, so a command that names it there cannot work."""
    root = Path(__file__).resolve().parents[1]
    extras = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    sources = [file.read_text(encoding="utf-8") for file in (root / "remat_algos").rglob("*.py")]
    call = re.compile(r"""\b(?:require\("[\w.]+", |install_command\()["'](\w+)""")
    calls = {extra for source in sources for extra in call.findall(source)}
    assert {"torch", "jax", "onnx", "graphs", "dask", "cuda12"} <= calls <= set(extras)
    assert install_command("torch") in (root / "README.md").read_text(encoding="utf-8")
    pages = [root / "README.md", *root.glob("docs/*.md"), *root.glob("examples/**/*.py")]
    texts = [*sources, *(page.read_text(encoding="utf-8") for page in pages)]
    assert not [text for text in texts if "remat_algos[" in text]
