"""The command that tests versions of PyTorch: what it counts, and what it says of one that cannot be installed."""

import sys
from pathlib import Path

import pytest

from tests import torch_versions

FILE = """
import pytest

def test_passes(): pass
def test_fails(): assert 0
def test_is_skipped(): pytest.skip("for a reason")
"""


def test_tests_are_counted(tmp_path):
    file = tmp_path / "test_three.py"
    file.write_text(FILE)
    assert torch_versions.tests(Path(sys.executable), tmp_path, [str(file)], "0", 60) == (1, 1, 1)


def test_a_file_that_cannot_be_collected_has_failed(tmp_path):
    file = tmp_path / "test_broken.py"
    file.write_text("import a_module_that_is_not_there")
    assert torch_versions.tests(Path(sys.executable), tmp_path, [str(file)], "0", 60) == (0, 1, 0)


def test_tests_that_take_too_long_are_ended(tmp_path):
    file = tmp_path / "test_slow.py"
    file.write_text("import time; time.sleep(600)")
    with pytest.raises(torch_versions.StepError, match=r"^not done after 0\.5 s$"):
        torch_versions.tests(Path(sys.executable), tmp_path, [str(file)], "0", 0.5)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "import sys; sys.exit('ERROR: two packages differ\\nfor help visit https://pages')",
            "ERROR: two packages differ",
        ),
        ("raise SystemExit(7)", "exit code 7"),
        ("import time; time.sleep(600)", "not done after 2 s"),
    ],
)
def test_a_command_that_fails_has_a_reason(code, said):
    with pytest.raises(torch_versions.StepError) as caught:
        torch_versions.run(2, sys.executable, "-c", code)
    assert str(caught.value) == said


def table(monkeypatch, capsys, words, steps):
    """Return the exit code and the rows of a run whose steps are replaced: installations, and programs."""
    monkeypatch.setattr(torch_versions.venv, "create", lambda *args, **options: None)

    def run(limit, python, *command):
        said = steps.get(command[5] if "pip" in command else "probe", [])
        if isinstance(said, str):
            raise torch_versions.StepError(said)
        return said

    monkeypatch.setattr(torch_versions, "run", run)
    code = torch_versions.main(words)
    return code, [line.split(maxsplit=2) for line in capsys.readouterr().out.partition("skipped\n")[2].splitlines()]


@pytest.mark.parametrize(("failures", "expected"), [(0, 3), (1, 1)])
def test_a_version_that_cannot_be_installed_is_not_run(monkeypatch, capsys, failures, expected):
    monkeypatch.setattr(torch_versions, "tests", lambda *arguments: (7, failures, 2))
    steps = {"torch==2.6.*": "no network", "probe": ["2.15.0"]}
    code, (missing, newest) = table(monkeypatch, capsys, ["--eager", "2.6", "newest"], steps)
    assert code == expected
    assert missing == ["2.6", "all", "NOT RUN, it cannot be installed: no network"]
    assert [*newest[:2], *newest[2].split()] == ["2.15.0", "eager", "7", str(failures), "2"]


def test_the_backend_of_a_version_outside_its_window_is_not_run(monkeypatch, capsys):
    monkeypatch.setattr(torch_versions, "tests", lambda *arguments: (7, 0, 2))
    code, rows = table(monkeypatch, capsys, ["2.9"], {"probe": ["2.9.1", "take PyTorch 2.12"]})
    assert (code, rows[1]) == (0, ["2.9.1", "compiled", "NOT RUN: take PyTorch 2.12"])


def test_both_parts_of_a_version_of_the_window_are_run(monkeypatch, capsys):
    files = []
    monkeypatch.setattr(torch_versions, "tests", lambda python, folder, part, *options: files.append(part) or (7, 0, 2))
    code, rows = table(monkeypatch, capsys, ["2.13.0+cpu"], {"probe": ["2.13.0+cpu"]})
    assert (code, [row[1] for row in rows]) == (0, ["eager", "compiled"])
    assert files[0] == torch_versions.EAGER
    assert "tests/interop/test_torch.py" in files[1]
    assert not set(files[0]) & set(files[1])


def test_a_version_that_cannot_be_imported_has_failed(monkeypatch, capsys):
    code, rows = table(monkeypatch, capsys, ["2.6"], {"probe": "OSError: libcudart"})
    assert (code, rows) == (1, [["2.6", "all", "FAILED, it cannot be imported: OSError: libcudart"]])


def test_a_part_that_takes_too_long_has_failed(monkeypatch, capsys):
    def tests(*arguments):
        raise torch_versions.StepError("not done after 9 s")

    monkeypatch.setattr(torch_versions, "tests", tests)
    code, rows = table(monkeypatch, capsys, ["--eager", "2.6"], {"probe": ["2.6.0"]})
    assert (code, rows) == (1, [["2.6.0", "eager", "FAILED: not done after 9 s"]])


def test_the_files_of_eager_tests_are_there():
    assert all((torch_versions.ROOT / file).is_file() for file in torch_versions.EAGER)
