"""README and the landing page: every block is run, every figure measured, every solver and paper named."""

import ast
import datetime
import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

import remat_algos as ra
from docs import console, headline_figures
from docs.page_parts import part
from docs.reproductions.__main__ import main as reproduce
from remat_algos.cli.main import main
from remat_algos.search.auto import TABLE

ROOT = Path(__file__).parent.parent
CITATION = {
    name: value.strip('" ')
    for name, value in re.findall(r"^([\w-]+):(.*)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
}
README = console.README.read_text(encoding="utf-8")
COMMANDS = dict(re.findall(r"<!-- command: ([a-z ]+) -->\n```sh\n(.*?)```", README, re.DOTALL))
PYTHON = re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
PAPERS = ("chen2016", "kusumoto2019", "kumar2019", "echo2020", "beaumont2019", "griewank2000", "jain2020")


@pytest.fixture
def folder(tmp_path, monkeypatch, short_search):
    """What a reader of the README has: its own graph, and the examples where the checkout has them.

    What tests here run has to end without an error, however good the plans are.
    """
    console.prepare(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(block):
    """The commands of a block: continued lines joined, comments left out."""
    return [line for line in COMMANDS[block].replace("\\\n", "").splitlines() if not line.startswith("#")]


def run(command):
    words = shlex.split(command, comments=True)
    if words[:3] == ["python", "-m", "docs.reproductions"]:
        assert reproduce(words[3:]) == 0, command
        return words[2]
    assert words[0] == "remat"
    assert main(words[1:]) == 0, command
    return words[1]


# blocks


def test_every_block_of_the_readme_is_of_a_kind_that_is_run():
    blocks = re.findall(r"^```(\w*)$", README, re.MULTILINE)[::2]
    assert (blocks.count("sh"), blocks.count("python")) == (len(COMMANDS), len(PYTHON))
    assert set(blocks) == {"", "sh", "console", "python", "py"}  # py: needs PyTorch, run by tests/interop/test_torch.py
    assert set(COMMANDS) == {"main", "tests", "own graph", "models"}  # .ci/run runs the first two as they are


def test_the_readmes_first_plan_is_made(folder):
    install, plan = COMMANDS["main"].strip().split(" && ")
    assert install == "python -m pip install -e ."
    run(plan)


def test_the_readmes_own_graph_is_planned_run_and_drawn(folder):
    commands = [run(line) for line in lines("own graph")]
    assert {"show", "solve", "verify", "run", "explain", "simulate", "compare", "frontier"} == set(commands)
    assert (folder / "memory.svg").exists()


@pytest.mark.parametrize(
    "command",
    [
        # docs/reproductions/tests makes the same quick page
        pytest.param(line, marks=pytest.mark.slow if "docs.reproductions" in line else ())
        for line in lines("models")
        if " fit " not in line and line != "remat models"  # tests/test_cli_models.py lists them all
    ],
)
def test_the_readmes_models_are_built(folder, command):
    run(command)


def test_the_readmes_fit_finds_the_batches_that_it_names(folder, capsys):
    (fit,) = (line for line in lines("models") if " fit " in line)
    run(f"{fit} --json")
    largest = {row["solver"]: row["value"] for row in json.loads(capsys.readouterr().out)["solvers"]}
    assert f"{largest['no_remat']} without recomputation, {largest['chen_recursive']} by chen_recursive" in README


def test_the_readmes_python_runs(folder):
    names = {}
    for block in PYTHON:
        exec(compile(block, "README.md", "exec"), names)


def test_the_readme_shows_what_its_commands_print():
    """`python docs/console.py` writes what they print now."""
    assert console.timeless(console.renewed(README)) == console.timeless(README)


# headlines


@pytest.fixture(scope="module")
def plans():
    return headline_figures.network()


def test_headlines_are_what_the_script_measures(plans):
    """`python docs/headline_figures.py` writes them."""
    lines = headline_figures.block(*plans)
    for page, docs in headline_figures.PAGES.items():
        assert part("headlines").search(page.read_text("utf-8"))[0] == lines(docs=docs)


def test_the_plan_of_the_headline_fits_where_the_run_without_it_does_not(plans):
    before, after = map(headline_figures.peak, plans)
    assert before > headline_figures.GPU > 11 * 2**30 >= after


def test_the_picture_shows_what_the_script_measures(plans, tmp_path):
    ra.plot.save(headline_figures.draw(*plans), tmp_path / "now.svg")
    now, shown = (
        [text for text in re.findall(r"<!-- (.*?) -->", path.read_text("utf-8")) if not text.isdigit()]
        for path in (tmp_path / "now.svg", ROOT / "docs" / "figures" / "before_and_after.svg")
    )
    assert now == shown
    assert f"without recomputation: {headline_figures.gib(headline_figures.peak(plans[0]))}" in shown


def test_no_schedule_of_the_chain_goes_below_the_lowest_peak_shown():
    chain = headline_figures.chain()
    lowest = ra.solve(chain, "least", solver="greedy_remat").peak_memory
    with pytest.raises(ra.BudgetError) as caught:
        ra.solve(chain, lowest - 1, solver="greedy_remat")
    assert caught.value.lower_bound == lowest
    assert f"{lowest} by a greedy search, which no schedule goes below" in " ".join(README.split())


@pytest.mark.parametrize(
    "command",
    [
        # the script that measures the headlines executes the same plan
        pytest.param(command, marks=pytest.mark.slow if command.startswith("remat run ") else ())
        for command in re.findall(r"`(remat .*?)`", part("headlines").search(README)[0])
    ],
)
def test_commands_beside_the_headlines_run(folder, command):
    run(command)


# solvers and papers


def test_the_readme_names_every_solver_beside_its_paper():
    named: dict[str, set[str]] = {}
    for line in re.findall(r"^\| .* \| `.* \|$", README.partition("\n## Solvers\n")[2], re.MULTILINE):
        paper = re.search(r"\((\w+)\) \| ", line)
        named.setdefault(paper[1] if paper else "", set()).update(re.findall(r"`(\w+)`", line))
    assert set(named) == {*PAPERS, ""}
    for paper, solvers in named.items():
        assert solvers == {solver.name for solver in ra.list_solvers() if (solver.paper or "") == paper}


def test_the_readme_names_what_auto_leaves_out():
    text = README.partition("\n## Solvers\n")[2]
    left_out = re.search(r"It leaves out (.*?), which", text, re.DOTALL)[1]
    assert set(re.findall(r"`(\w+)`", left_out)) == {s.name for s in ra.list_solvers() if not s.portfolio}
    special = re.search(r"proven optimal; (.*?)\.\n", text, re.DOTALL)[1]
    assert set(re.findall(r"`(\w+)`", special)) == {name for name, row in TABLE.items() if row.special or row.smallest}


@pytest.mark.parametrize("paper", PAPERS)
def test_the_readme_gives_the_title_of_every_paper(paper):
    bibliography = (ROOT / "docs" / "references.bib").read_text(encoding="utf-8")
    entry = bibliography.partition(f"{{{paper},")[2].partition("\n}")[0]
    title = re.search(r"title += \{(.*)\},$", entry, re.MULTILINE)[1].translate(str.maketrans("", "", "{}"))
    assert f"*{title}* ({paper})" in README


# words


PRIVATE = r"\b(judge[sd]?|anew|runs? again|made again|everybody knows|asked|so many|beats|held|from the optimum)\b"


def messages(tree):
    """String literals that a user reads: in `raise` and what makes errors, `help=` of arguments, HELPS of commands."""
    for node in ast.walk(tree):
        error = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Error")
        if error or isinstance(node, ast.Raise) or (isinstance(node, ast.keyword) and node.arg == "help"):
            yield from (n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str))
        elif isinstance(node, ast.Assign) and any(getattr(name, "id", "") == "HELPS" for name in node.targets):
            yield from ast.literal_eval(node.value).values()


@pytest.mark.parametrize(
    "page", [page.read_text(encoding="utf-8") for page in headline_figures.PAGES], ids=["README", "index"]
)
def test_the_first_pages_use_the_words_of_the_field(page):
    assert re.findall(PRIVATE, console.BLOCK.sub("", page)) == []  # what commands print has tests of its own


def test_errors_and_help_use_the_words_of_the_field():
    paths = sorted((ROOT / "remat_algos").rglob("*.py"))
    found = [(path.name, text) for path in paths for text in messages(ast.parse(path.read_text(encoding="utf-8")))]
    assert len(found) > 1000
    assert [(name, text) for name, text in found if re.search(PRIVATE, text)] == []


def test_the_changelog_the_citation_and_the_package_agree_on_the_release():
    changelog = (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8")
    version, date = re.search(r"^## (\S+) \((.*)\)$", changelog, re.MULTILINE).groups()  # of its first section
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {version, project["version"], CITATION["version"]} == {ra.__version__}
    assert date == CITATION["date-released"]
    assert datetime.date.fromisoformat(date)


def test_the_citation_has_what_its_format_asks_for():
    assert CITATION.keys() >= {"cff-version", "message", "title", "authors", "type", "license", "keywords"}
    assert (CITATION["cff-version"], CITATION["type"], CITATION["license"]) == ("1.2.0", "software", "Apache-2.0")


def test_files_that_a_hidden_cell_writes_are_those_that_the_page_shows():
    page = (console.DOCS / "start.md").read_text(encoding="utf-8")
    written = dict(console.WRITTEN.findall(page))
    shown = re.findall(r"^```(?:text|csv)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert (list(written), list(written.values())) == (["net.txt", "sizes.csv"], shown)
