"""Every command fits 80 columns, in a pipe and on a terminal, without a broken word."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from remat_algos.cli.main import main
from tests.command_line import on_terminal, runner

pytestmark = pytest.mark.usefixtures("short_searches")
ROOT = Path(__file__).parent.parent
COLUMNS = 80
LONG = "encoder/stage_{}/attention/self/query_key_value/projection/MatMul"
MARKED = re.compile(r"^<!-- file: ([^\s,]+).*? -->\n```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMANDS = [
    "show {}",
    "show {} --breakdown",
    "show {} --allocator cupy_pool",
    "solve {} --budget 90% -o plan.json",
    "solve {} --budget 90% --allocator arena --solver chen_greedy",
    "solve {} --budget 100% --allocator cuda_caching --solver chen_greedy",
    "verify {} plan.json",
    "explain {} plan.json",
    "explain {} --solver echo",
    "simulate {} plan.json --budget 90%",
    "simulate {} plan.json --table --steps 0:12",
    "simulate {} plan.json --matrix",
    "animate {} plan.json --steps 0:12",
    "compare {} --budget 90% --solver chen_sqrt,chen_greedy,no_remat,exhaustive_lower_sets",
    "compare {} --budget 90% --allocator arena --solver chen_greedy,no_remat",
    "frontier {} --solver chen_sqrt,chen_recursive --points 5",
    "allocate {} plan.json",
    "order {} --no-search",
    "unroll {}",
    "width {}",
    "convert {} out.json",
    "diff {} plan.json plan.json",
]
ALONE = [
    "--help",
    "models resnet switch_transformer mixture_of_experts",
    "fit --model vgg?image=32&width=8 --vary batch --values 8,16 --memory 20MB --solver no_remat,chen_sqrt,chen_greedy",
    *(
        f"{name} --help"
        for name in ("solve", "run", "compare", "show", "fit", "explain", "allocate", "simulate", "animate", "models")
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """README's graph, and a model whose nodes have long names."""
    place = tmp_path_factory.mktemp("columns")
    for name, content in MARKED.findall((ROOT / "README.md").read_text("utf-8")):
        (place / name).write_text(content)
    names = [LONG.format(i) for i in range(12)]
    (place / "long.nodes.csv").write_text("name,memory,compute,op\n" + "".join(f"{n},4MiB,10,MatMul\n" for n in names))
    edges = [*pairwise(names), (names[0], names[6])]
    (place / "long.edges.csv").write_text("src,dst\n" + "".join(f"{u},{v}\n" for u, v in edges))
    return place


@pytest.fixture
def remat(capsys, folder, monkeypatch):
    monkeypatch.chdir(folder)
    return runner(capsys)


def check(text, names=()):
    """Lines are short but for a word alone; no name is cut where a line ends."""
    for line in text.splitlines():
        assert len(line) <= COLUMNS or len(line.split()) == 1, line
    words = set(text.replace(",", " ").split())
    for name in names:
        assert name in words or not any(word and name.startswith(word) and len(word) > 8 for word in words)


@pytest.mark.parametrize("graph", ["mine.nodes.csv", "long.nodes.csv"])
def test_every_command_on_a_graph_fits(remat, graph):
    for command in COMMANDS:
        words = command.format(graph).split()
        said = remat(*words)
        assert said.code == 0, (command, said.err)
        check(said.out, ["chen_recursive", "chen_greedy", "exhaustive_lower_sets", "no_remat"])
        assert all(line == line.rstrip() for line in said.lines)
        if graph == "mine.nodes.csv" and not {"--table", "--matrix"} & set(words):
            assert remat(*words, "--json").record


@pytest.mark.parametrize("command", ALONE)
def test_what_needs_no_graph_fits(remat, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    said = remat(*command.split())
    assert said.code == 0
    check(said.out)


def test_a_run_fits(remat):
    said = remat("run", "mine.nodes.csv", "--budget", "80%", "--repeats", "1")
    assert said.code == 0
    check(said.out)


@pytest.mark.parametrize(
    "command",
    ["solve long.nodes.csv --budget 90%", "compare mine.nodes.csv --budget 90% --solver chen_sqrt,chen_greedy"],
)
def test_on_a_terminal_too_and_in_colour(folder, monkeypatch, command):
    monkeypatch.chdir(folder)
    code, seen, _, _ = on_terminal(*command.split(), err=False)
    assert code == 0
    assert "\x1b[" in seen
    check(re.sub(r"\x1b\[[0-9;]*m", "", seen))


def test_no_colour_where_it_is_not_wanted(monkeypatch, capsys, folder):
    """NO_COLOR: a terminal gets what a pipe gets."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert main(["show", "mine.nodes.csv"]) == 0
    assert "\x1b" not in capsys.readouterr().out
