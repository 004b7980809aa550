"""The page for reviewers of artifacts: its commands, what they write, and the versions with which they ran."""

import json
import re
import shutil
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from docs import artifact, contributing
from docs.artifact import DIFFERS, ITEMS, RECORD, SAME, TIMES, Item

ROOT = Path(__file__).parent.parent
ITEM = {item.name: item for item in ITEMS}
RECORDED = [
    path.relative_to(ROOT).as_posix()
    for folder, endings in {
        "docs/results": ("",),
        "docs/reproductions": (".csv", ".svg"),
        "docs/figures": ("",),
    }.items()
    for path in sorted((ROOT / folder).iterdir())
    if path.name.endswith(endings)
]
LINES = (ROOT / "docs" / "constraints.txt").read_text(encoding="utf-8").splitlines()
PINS = dict(line.split("==") for line in LINES if not line.startswith("#"))
VERSIONS = {canonicalize_name(name): pinned for name, pinned in PINS.items()}
NEVER_RUN = {"cuda12", "cuda13", "torchvision"}  # extras that made nothing on these pages


def test_every_recorded_file_is_made_by_one_item():
    """A new result or figure needs an item of docs/artifact.py, or a place in the files of one."""
    makers = {path: [item.name for item in ITEMS if path in item.written(ROOT)] for path in RECORDED}
    assert len(makers) > 80
    assert {path: names for path, names in makers.items() if len(names) != 1} == {}


def test_tables_and_figures_of_reproductions_are_on_their_page():
    titles = artifact.titles()
    shown = [path for path in RECORDED if path.startswith(("docs/reproductions/", "docs/figures/"))]
    assert [path for path in shown if path not in titles] == []


def test_every_recorded_file_has_a_row():
    page = artifact.PAGE.read_text(encoding="utf-8")
    linked = set().union(*map(artifact.linked_files, ITEMS))
    assert [path for path in RECORDED if path not in linked and f"]({path.removeprefix('docs/')})" not in page] == []


def test_items_have_names_of_one_word_each_once():
    assert len(ITEM) == len(ITEMS)
    assert [name for name in ITEM if not re.fullmatch(r"\w+", name)] == []


def test_the_page_is_what_the_module_writes():
    """`python -m docs.artifact --write-page` writes it."""
    assert artifact.page(artifact.recorded()) == artifact.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "record"), artifact.recorded().items())
def test_a_record_says_when_where_and_with_which_command(name, record):
    assert record["measured_on"]["command"] == ITEM[name].command
    assert record["measured_on"].keys() >= {"date", "commit", "processor", "cores", "python", "packages", "load"}
    assert record["outcome"] in (SAME, TIMES)
    assert (record["cpu_seconds"] > 0, record["peak_bytes"] > 2**20) == (True, True)


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "results").glob("*.json")), ids=lambda path: path.name)
def test_a_result_names_the_command_of_its_item(path):
    measured_on = json.loads(path.read_text(encoding="utf-8")).get("measured_on")
    if measured_on is None:
        pytest.skip("recorded before results had an occasion")
    (item,) = (item for item in ITEMS if path.relative_to(ROOT).as_posix() in item.written(ROOT))
    assert item.command.startswith(measured_on["command"].partition(" --")[0])


# running them


def changed_copy(tmp_path, path, old, new):
    """A copy of the project in which one file is not as it is recorded."""
    folder = contributing.copy(tmp_path)
    content = (folder / path).read_bytes()
    assert old in content
    (folder / path).write_bytes(content.replace(old, new, 1))
    return folder


def test_a_changed_byte_is_found(tmp_path):
    folder = changed_copy(tmp_path, "docs/reproductions/chen2016_order.csv", b"holds", b"fails")
    (found,) = artifact.compared(ITEM["chen2016"], folder)
    assert re.match(r"docs/reproductions/chen2016_order.csv, line 2: recorded '.*holds.*', now '.*fails.*'", found)


def test_a_file_that_is_missing_or_new_is_found(tmp_path):
    folder = contributing.copy(tmp_path)
    (folder / "docs" / "figures" / "zoo_vit.svg").unlink()
    (folder / "docs" / "figures" / "zoo_other.svg").touch()
    assert list(artifact.compared(ITEM["zoo"], folder)) == [
        "docs/figures/zoo_other.svg is new",
        "docs/figures/zoo_vit.svg is not written",
    ]


def test_a_time_is_no_difference_but_all_else_is(tmp_path):
    path = "docs/results/torch_gpt.txt"
    folder = changed_copy(tmp_path, path, b"seconds     capture", b"seconds     capture 9.99 and not")
    assert list(artifact.compared(ITEM["torch_gpt"], folder)) == [""]
    file = folder / path
    file.write_text(file.read_text(encoding="utf-8").replace("11.5 MiB", "11.6 MiB", 1), encoding="utf-8")
    (found,) = artifact.compared(ITEM["torch_gpt"], folder)
    assert found.startswith(f"{path}, line 4: recorded 'peak        11.5 MiB")


def test_what_is_printed_is_looked_for_on_its_page(tmp_path):
    folder, item = contributing.copy(tmp_path), ITEM["jax_scan"]
    page = (ROOT / item.prints).read_text(encoding="utf-8")
    shown = re.search(r"^without a plan: by XLA .*\n(?:\d+%: .*\n)+", page, re.MULTILINE)[0]
    assert list(artifact.compared(item, folder, shown)) == []
    assert list(artifact.compared(item, folder, re.sub(r"within \S+", "within 9e-07", shown))) == [""]
    (found,) = artifact.compared(item, folder, shown.replace("peak", "height", 1))
    assert found.startswith("docs/jax.md does not show what is printed: 50%: height")


def test_rows_of_a_table_of_times_are_compared():
    old = "| reading | 1 s | 2 |\n| writing | 1 s | |\n\nMissed: nothing.\n"
    new = old.replace("1 s", "3 s").replace("nothing", "writing")
    assert artifact.difference("page.md", old.encode(), new.encode(), artifact.ROWS) == ""
    found = artifact.difference("page.md", old.encode(), new.replace("writing", "else", 1).encode(), artifact.ROWS)
    assert found == "page.md, line 2: recorded '| writing |', now '| else |'"


def test_an_item_is_run_in_a_copy_and_compared(capsys, monkeypatch):
    assert artifact.main(["validation_page"]) == 0
    assert re.match(r"validation_page +same +\d+\.\d CPU s +\d+ MiB\n$", capsys.readouterr().out)
    silent = Item("silent", "nothing is written", "echo words >&2; exit 3", ("docs/figures/training.svg",))
    monkeypatch.setattr(artifact, "ITEMS", (silent, Item("absent", "", "true", needs=("no_such_module",))))
    assert artifact.main([]) == 1
    printed = capsys.readouterr().out
    assert re.search(rf"^silent +{DIFFERS} .*\n    exit code 3: words\n    docs/figures/training.svg is not", printed)
    assert printed.endswith("absent                 not run: needs no_such_module\n")
    with pytest.raises(SystemExit, match="there is no item 'other'; there are silent, absent"):
        artifact.main(["other"])


def test_writing_the_page_keeps_what_a_run_took(tmp_path, monkeypatch):
    monkeypatch.setattr(artifact, "RECORD", tmp_path / RECORD.name)
    monkeypatch.setattr(artifact, "PAGE", Path(shutil.copy(artifact.PAGE, tmp_path)))
    assert artifact.main(["--write-page", "validation_page"]) == 0
    (record,) = artifact.recorded().values()
    assert record["measured_on"]["command"] == "python docs/validation.py"
    assert artifact.PAGE.read_text(encoding="utf-8") == artifact.page(artifact.recorded())


@pytest.mark.slow
def test_the_quick_items_are_as_recorded():
    assert artifact.main(["--quick"]) == 0


# versions


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def requirements():
    """Of the package, of building it, and of its extras, those apart that made nothing here."""
    found = project()
    extras = {
        line
        for name, lines in found["project"]["optional-dependencies"].items()
        if name not in NEVER_RUN
        for line in lines
    }
    lines = {*found["build-system"]["requires"], *found["project"]["dependencies"], *extras}
    return [Requirement(line) for line in sorted(lines) if not line.startswith("remat_algos")]


@pytest.mark.parametrize("requirement", requirements(), ids=lambda requirement: requirement.name)
def test_every_requirement_has_a_version_that_is_allowed(requirement):
    assert requirement.specifier.contains(VERSIONS[canonicalize_name(requirement.name)])


def test_every_package_is_listed_once():
    assert len(VERSIONS) == len([line for line in LINES if not line.startswith("#")])


def test_results_were_made_with_these_versions():
    records = [record["measured_on"] for record in artifact.recorded().values()]
    for measured_on in records:
        for name, used in measured_on["packages"].items():
            assert used.partition("+")[0] == VERSIONS[canonicalize_name(name)], measured_on["command"]
        assert f"Python {measured_on['python']}" in LINES[0]
    assert records


def installed(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def test_in_their_environment_all_that_is_installed_has_its_version():
    """What the requirements bring with them has a version too."""
    direct = [each.name for each in requirements()]
    if any(installed(name) not in (None, VERSIONS[canonicalize_name(name)]) for name in direct):
        pytest.skip("these are other versions")
    if f"Python {sys.version_info.major}.{sys.version_info.minor}" not in LINES[0]:
        pytest.skip("this is another Python")
    found, todo = set(), [name for name in direct if installed(name)]
    while todo:
        name = canonicalize_name(todo.pop())
        if name in found or installed(name) is None:
            continue
        found.add(name)
        needed = map(Requirement, requires(name) or [])
        todo += [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    other = {name: installed(name) for name in found if installed(name).partition("+")[0] != VERSIONS.get(name)}
    assert other == {}
