"""The pages for readers show what happens: their commands, their Python, their tables."""

import contextlib
import doctest
import io
import pkgutil
import re
import shlex
import subprocess
import tomllib
import types
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

import remat_algos as ra
from docs import console, measured_figures, zoo
from docs.artifact import ITEMS
from docs.page_parts import solver_page
from docs.reproductions.__main__ import main as reproduce
from docs.reproductions.registry import list_papers
from remat_algos.allocate import allocators
from remat_algos.cli import commands
from remat_algos.cli.main import main
from remat_algos.solvers import registry
from remat_algos.solvers.registry import list_solvers
from remat_algos.zoo import registry as models_registry
from remat_algos.zoo.builder import Builder
from remat_algos.zoo.layers import Layers
from tests.public import NAMESPACES, PUBLIC

DOCS = Path(console.DOCS)
FILES = [path for path in sorted(DOCS.rglob("*.md")) if path.name != "page.md"]  # a template of a reproduction
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in FILES}
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INTERPRETER = re.search(r"<!-- interpreter -->\n```python\n(.*?)```", PAGES["actions.md"], re.DOTALL)[1]
SOLVERS = list_solvers()
ALLOCATORS = allocators.list_allocators()
FAMILIES = models_registry.list_families()  # loads them, so that a page does not load them into what goes with it


def pages_with(pattern):
    """Pages to run; that for contributors is run by tests/test_docs_contributing.py."""
    return [name for name, text in PAGES.items() if re.search(pattern, text) and name != console.EXTENDS.name]


def table(text):
    """Rows of cells of the tables in a text, the lines below the heads apart."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return [row for row in rows if not all(re.fullmatch(r":?-+:?", cell) for cell in row)]


# commands


RUN = subprocess.run


def run_here(command, **settings):
    """Runs `remat` in this process, unless the line asks a shell for more; what it says as if both streams were one."""
    words = shlex.split(command) if isinstance(command, str) else []
    if words[:1] != ["remat"] or re.search("[|<>]", command):
        return RUN(command, **settings)
    said = io.StringIO()
    with contextlib.chdir(settings["cwd"]), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(words[1:])
    return subprocess.CompletedProcess(command, code, said.getvalue())


@pytest.mark.parametrize("name", pages_with("```console"))
def test_commands_on_the_page_say_what_it_shows(name, monkeypatch):
    """`python docs/console.py` writes what they say now."""
    monkeypatch.setattr(subprocess, "run", run_here)
    assert "this is a bug" not in PAGES[name]
    assert console.timeless(console.renewed(PAGES[name])) == console.timeless(PAGES[name])


FENCE = re.compile(
    r"(?P<mark><!-- [^\n]* -->\n)?^(?P<ticks>`{3,})(?P<kind>[^\n`]*)\n(?P<body>.*?)^(?P=ticks)$",
    re.MULTILINE | re.DOTALL,
)


@pytest.mark.parametrize("path", [console.README, *FILES], ids=lambda path: path.relative_to(DOCS.parent).as_posix())
def test_outputs_that_no_test_runs_are_those_of_a_record(path):
    """A plain block is a part of docs/results, is renewed by an item of docs/artifact.py or a script, or is a file."""
    text = path.read_text(encoding="utf-8")
    records = [record.read_text(encoding="utf-8") for record in (DOCS / "results").glob("*.txt")]
    renewed = path.relative_to(DOCS.parent).as_posix() in {item.prints for item in ITEMS}
    written = [part.span() for part in re.finditer(r"<!-- ([\w ]+) -->\n.*?<!-- end \1 -->", text, re.DOTALL)]
    files = [content for _, content in console.WRITTEN.findall(text)]
    for block in FENCE.finditer(text):
        shown = block["kind"] not in ("", "text") or re.match("<!-- (file|adds|changes|command)", block["mark"] or "")
        commands_alone = all(re.match(r"(python|cibuildwheel) |$", line) for line in block["body"].split("\n"))
        if shown or commands_alone or renewed or block["body"] in files:
            continue
        inside = any(begin <= block.start() < end for begin, end in written)
        assert inside or any(block["body"] in record for record in records), block["body"]


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(commands.__path__)])
def test_every_command_has_a_section_with_an_example(name):
    section = PAGES["cli.md"].partition(f"\n## remat {name}\n")[2].partition("\n## ")[0]
    assert any(f"$ remat {name} " in block for block in console.BLOCK.findall(section))


# how pages look


def test_code_keeps_its_lines_and_output_wraps():
    configuration = (DOCS / "conf.py").read_text(encoding="utf-8")
    assert re.search(r'html_css_files = \["(.*?)"\]', configuration)[1] == "wide.css"
    style = (DOCS / "_static" / "wide.css").read_text(encoding="utf-8")
    assert re.search(r"^pre \{\n  white-space: pre;\n  overflow-x: auto;\n\}", style, re.MULTILINE)
    wrapped = re.search(r"\n((?:\.[\w-]+ pre,?\s)+)\{\n  white-space: pre-wrap;", style)[1]
    assert set(re.findall(r"\.([\w-]+) pre", wrapped)) == {"highlight-console", "cell_output"}
    shadow = re.search(r"\n(\.highlight pre,[^{]*)\{[^}]*no-repeat local", style)[1]
    assert ".table-wrapper.container" in shadow


@pytest.mark.parametrize("name", PAGES)
def test_no_line_of_a_paragraph_is_a_comment_or_an_item(name):
    """A line that begins with % is not on the page, one with + is an item of a list; lists have a dash."""
    prose = re.sub(
        r"^(`{3,}|\$\$)[^\n]*\n.*?^\1$|^\\begin\{.*?^\\end\{.*?$", "", PAGES[name], flags=re.DOTALL | re.MULTILINE
    )
    assert re.findall(r"^ {0,3}(?:%|[+*] ).*", prose, re.MULTILINE) == []


CELL = re.compile(r"^```\{code-cell\}.*\n((?:[^`].*\n|\n)*)```$", re.MULTILINE)
HIDDEN = re.compile(r"^:tags: .*(?:remove-cell|remove-input|hide-input)|^  code_prompt_hide: Code$", re.MULTILINE)


@pytest.mark.parametrize("name", [name for name, text in PAGES.items() if CELL.search(text)])
def test_code_that_a_page_shows_and_formulas_in_letters_fit_their_boxes(name):
    """88 letters fit the box of a hidden answer at 1,280 pixels."""
    code = [cell for cell in CELL.findall(PAGES[name]) if not HIDDEN.search(cell)]
    formulas = map(dedent, re.findall(r"(?<=\n\n)(?: {4}.*\n)+", CELL.sub("", PAGES[name])))
    assert [line for block in (*code, *formulas) for line in block.split("\n") if len(line) > 88] == []


# what readers look for

TECHNIQUE = ("index.md", "torch.md", "torch_training.md", "jax.md", "notation.md", "tutorials/index.md", "../README.md")
NAMES = {
    "gradient checkpointing": TECHNIQUE,
    "activation checkpointing": ("policies.md", *(page for page in TECHNIQUE if page != "jax.md")),
    "rematerialization": tuple(page for page in TECHNIQUE if page != "torch_training.md"),
    "selective activation checkpointing": ("torch_training.md",),
    "maximum closure": ("theory/closure_bound.md", "notation.md"),
    "uniform-cost search": ("theory/live_sets.md",),
    "vertex separation number": ("theory/path_decompositions.md", "notation.md"),
    "cpu offloading": ("offload.md", "notation.md"),
}


@pytest.mark.parametrize(("name", "page"), [(name, page) for name, pages in NAMES.items() for page in pages])
def test_ideas_have_the_names_that_readers_know_where_they_are_introduced(name, page):
    assert name in " ".join((DOCS / page).read_text(encoding="utf-8").lower().split())


def test_the_first_page_leads_to_plan_checkpoints_in_one_click():
    links = re.findall(r"\[`?plan_checkpoints.*?\]\((.*?)\)", PAGES["index.md"])
    assert links == ["torch_training.md"] * 2
    first = re.search(r"```py\n(.*?)```", PAGES["torch_training.md"], re.DOTALL)[1]
    assert "plan = plan_checkpoints(" in first


QUESTIONS = {
    "make a graph file": "bring.md#an-edge-list-or-tables",
    "choose a solver": "solvers/index.md#which-solver",
    "a bound": "faq.md#how-good-is-the-plan",
    "a PyTorch model": "torch_training.md",
    "add a solver": "contributing.md#a-solver-is-one-file",
    "FSDP": "torch_training.md#fsdp2",
}


@pytest.mark.parametrize(("question", "place"), QUESTIONS.items())
def test_the_first_page_answers_first_questions_in_one_click(question, place):
    rows = PAGES["index.md"].partition("\n## First questions\n")[2].partition("\n## ")[0].splitlines()
    (row,) = (line for line in rows if question in line.partition("](")[0])
    assert f"]({place})" in row


@pytest.mark.parametrize("page", ["../README.md", "start.md"])
def test_bound_and_gap_are_explained_below_the_first_plan_that_is_printed(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    first = next(block for block in console.BLOCK.finditer(text) if "\nlower bound " in block[1])
    below = text[first.end() :].partition("\n## ")[0]
    assert "**lower bound**" in below
    assert "**gap**" in below


def test_installation_lines_work_in_a_checkout():
    """Nothing is released, so pip finds no `remat_algos` elsewhere."""
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    files = [*FILES, *DOCS.rglob("*.ipynb"), console.README, *(DOCS.parent / "examples").rglob("*.py")]
    extras = []
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"remat_algos\[\w", text), path
        extras += [extra for group in re.findall(r"\.\[([\w,]+)\]['\"]", text) for extra in group.split(",")]
    assert {"torch", "jax", "onnx", "test", "docs"} <= set(extras) <= set(project["optional-dependencies"])


# what scripts write


@pytest.mark.parametrize(("page", "write"), [("zoo.md", zoo.zoo), ("layers.md", zoo.layers)])
def test_pages_of_the_zoo_are_what_the_script_writes(page, write):
    """`python docs/zoo.py` writes them."""
    assert write() == PAGES[page]


def test_every_family_is_drawn():
    drawn = {path.stem for path in (DOCS / "figures").glob("zoo_*.svg")}
    assert drawn == {f"zoo_{name}" for name in zoo.SMALL} == {f"zoo_{family.name}" for family in FAMILIES}


def test_every_layer_of_the_vocabulary_has_a_table():
    methods = {name for name in dir(Layers) if name[0] != "_" and not hasattr(Builder, name)}
    shown = {call.removeprefix("net.").partition("(")[0] for call in zoo.CALLS}
    assert methods - shown == {"pointwise", "lstm_weights"}  # what others are made of


@pytest.mark.slow
@pytest.mark.parametrize("paper", list_papers())
def test_reproductions_are_what_the_command_writes(paper, tmp_path):
    """`python -m docs.reproductions PAPER` writes them."""
    assert reproduce([paper, "-o", str(tmp_path)]) == 0
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (DOCS / "reproductions" / path.name).read_bytes(), path.name


# figures in sentences


@pytest.mark.parametrize(("name", "sentence"), [(name, sentence) for name, sentence, _ in measured_figures.SENTENCES])
def test_sentences_with_figures_are_on_their_pages(name, sentence):
    assert measured_figures.place(PAGES[name], sentence)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sentence", "measure"), measured_figures.SENTENCES)
def test_figures_in_sentences_are_what_the_script_measures(name, sentence, measure):
    """`python docs/measured_figures.py` writes them."""
    assert measured_figures.renewed(PAGES[name], sentence, measure()) == PAGES[name]


# Python


@pytest.mark.parametrize("name", sorted({*pages_with("```python")} - {"formats.md"}))
def test_python_on_the_page_runs(name, tmp_path, monkeypatch, short_search):
    """All blocks of a page in one namespace, in the folder of a reader; what it registers goes when it is done."""
    for known in registry.SOLVERS, models_registry.FAMILIES:
        monkeypatch.setattr(known, "entries", dict(known.entries))
    monkeypatch.setattr(allocators, "ALLOCATORS", dict(allocators.ALLOCATORS))
    monkeypatch.chdir(tmp_path)
    console.prepare(tmp_path, PAGES[name])
    namespace = {"__name__": "page"}
    for block in PYTHON.finditer(PAGES[name]):
        line = PAGES[name].count("\n", 0, block.start())
        if ">>>" in block[1]:
            test = doctest.DocTestParser().get_doctest(block[1], namespace, name, name, line)
            assert doctest.DocTestRunner().run(test, clear_globs=False).failed == 0
            namespace = test.globs
        else:
            exec(compile("\n" * (line + 1) + block[1], name, "exec"), namespace)


# running a plan


def toy_functions(graph):
    """For each node a function that makes values of the bytes that the graph says, with a number that tells inputs."""

    def function(node):
        def run(*inputs):
            told = tuple(value.number for value in inputs)
            return [
                types.SimpleNamespace(nbytes=int(graph.memory[x]), number=hash((x, told))) for x in graph.values(node)
            ]

        return run

    return {graph.labels[v]: function(v) for v in range(graph.n_nodes)}


def interpreted(graph, lines):
    namespace = {}
    exec(INTERPRETER, namespace)
    reads = {graph.labels[v]: [graph.value_name(x) for x in graph.reads(v)] for v in range(graph.n_nodes)}
    makes = {graph.labels[v]: [graph.value_name(x) for x in graph.values(v)] for v in range(graph.n_nodes)}
    held, most = namespace["run"](lines, toy_functions(graph), reads, makes)
    return {name: value.number for name, value in held.items()}, most


def test_the_interpreter_is_as_short_as_promised():
    assert len(INTERPRETER.splitlines()) <= 20


@pytest.mark.parametrize("budget", ["least", "80%"])
@pytest.mark.parametrize(
    "name", ["mine", *(path.name[: -len(".nodes.csv")] for path in console.GRAPHS.glob("*.nodes.csv"))]
)
def test_the_interpreter_gets_the_same_numbers_within_the_peak(name, budget, tmp_path, short_search):
    console.prepare(tmp_path)
    training = ra.differentiate(ra.read_graph(tmp_path / f"{name}.nodes.csv"))
    training = training.with_costs(workspace=np.zeros(training.n_nodes, np.int64))  # the functions' own affair
    plan, plain = ra.solve(training, budget, effort="fast"), ra.solve(training, solver="no_remat")
    results, most = interpreted(training, [f"{action} {name}\n" for action, name in plan.actions(names=True)])
    assert most == plan.peak_memory
    wanted, most = interpreted(training, [f"{action} {name}" for action, name in plain.actions(names=True)])
    assert most == plain.peak_memory
    assert results == wanted
    assert results.keys() == {training.value_name(x) for x in np.flatnonzero(training.output)}


# solvers


def section(text, heading):
    """The part of a page below a heading, up to the next heading of the same level or a higher one."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    marks, below = re.search(rf"^(#+) {heading}\n(.*)", text, re.MULTILINE | re.DOTALL).groups()
    return re.split(rf"^#{{1,{len(marks)}}} ", below, maxsplit=1, flags=re.MULTILINE)[0]


def options_on(page, name):
    """Name and default of each option in the table of the section that has this name."""
    rows = table(section(section(page, name), "Options"))
    return {option.strip("`"): default.strip("`") for option, default, _ in rows[1:]}


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_every_solver_has_a_page_that_describes_its_options(solver):
    page = PAGES[f"solvers/{solver_page(solver.name)}"]
    defaults = {name: "" if value is None else str(value) for name, value in solver.options.items()}
    assert options_on(page, solver.name) == defaults
    assert solver.paper in section(page, solver.name)


def test_the_list_of_solvers_leads_to_their_pages():
    linked = re.findall(r"^\| \[(\w+)\]\((\w+\.md)(?:#\1)?\)", PAGES["solvers/index.md"], re.MULTILINE)
    assert sorted(linked) == [(solver.name, solver_page(solver.name)) for solver in SOLVERS]


# theory


@pytest.mark.parametrize(
    "name", [name for name, text in PAGES.items() if name[:7] == "theory/" and "\n## Exerc" in text]
)
def test_exercises_of_the_theory_have_a_kind_stars_and_an_answer(name):
    kinds = r"\*\*(?:Predict|Construct|Prove|Implement)\*\* ★{1,3} \S"
    exercises = PAGES[name].partition("\n## Exercises\n")[2]
    for exercise in re.split(r"^\d\. ", exercises, flags=re.MULTILINE)[1:]:
        assert re.match(kinds, exercise), exercise
        assert ":tags: [hide-cell]" in exercise or ":::{admonition} Answer" in exercise, exercise


# allocators


@pytest.mark.parametrize("allocator", ALLOCATORS, ids=lambda allocator: allocator.name)
def test_every_allocator_has_a_section_that_describes_its_options(allocator):
    defaults = {name: str(value) for name, value in allocator.options.items()}
    assert options_on(PAGES["allocators/index.md"], allocator.name) == defaults


def test_the_list_of_allocators_leads_to_their_sections():
    linked = re.findall(r"^\| \[(\w+)\]\(#\1\)", PAGES["allocators/index.md"], re.MULTILINE)
    assert sorted(linked) == [allocator.name for allocator in ALLOCATORS]


# reference


@pytest.mark.parametrize("room", ["", *NAMESPACES])
def test_every_public_name_stands_on_the_page_of_its_namespace_twice(room):
    page, prefix = PAGES[f"api/{room or 'index'}.md"], f"{room}." if room else ""
    public = sorted(name for name in PUBLIC if name.rpartition(".")[0] == room)
    assert sorted(re.findall(r"^\.\. auto\w+:: remat_algos\.([\w.]+)$", page, re.MULTILINE)) == public
    listed = re.findall(r"^   (\w+)$", page, re.MULTILINE)
    assert sorted(f"{prefix}{name}" for name in listed) == public


def test_every_page_is_in_a_table_of_contents():
    listed = set()
    for name in pages_with("{toctree}"):
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", PAGES[name], re.DOTALL):
            lines = [line for line in tree.splitlines() if line and not line.startswith(":")]
            listed |= {(Path(name).parent / line).as_posix() for line in lines}
    included = {path for file in FILES for path in included_by(file)}
    pages = {*FILES, *DOCS.rglob("*.ipynb")} - included
    assert listed == {path.relative_to(DOCS).with_suffix("").as_posix() for path in pages} - {"index"}


def test_links_lead_somewhere():
    for name, text in PAGES.items():
        for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
            path, _, anchor = link.partition("#")
            target = (DOCS / name).parent / path if path else DOCS / name
            assert path.startswith("http") or target.exists(), (name, link)
            assert not anchor or anchor in anchors(target), (name, link)


def included_by(page):
    """The pages that a page includes as a whole or in part."""
    names = re.findall(r"^```\{include\} (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [(page.parent / name).resolve() for name in names]


def anchors(page):
    """Names of the headings of a page and of the pages that it includes, as GitHub and MyST make them."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in (page, *included_by(page)))
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
