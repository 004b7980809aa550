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
    assert torch_versions.tests(Path(sys.executable), tmp_path, [str(file)], "0") == (1, 1, 1)


def test_a_file_that_cannot_be_collected_has_failed(tmp_path):
    file = tmp_path / "test_broken.py"
    file.write_text("import a_module_that_is_not_there")
    assert torch_versions.tests(Path(sys.executable), tmp_path, [str(file)], "0") == (0, 1, 0)


@pytest.mark.parametrize(("failures", "expected"), [(0, 3), (1, 1)])
def test_a_version_that_cannot_be_installed_is_not_run(monkeypatch, capsys, failures, expected):
    monkeypatch.setattr(torch_versions.venv, "create", lambda *args, **options: None)
    monkeypatch.setattr(torch_versions, "install", lambda python, version: "no network" if version == "2.6" else "")
    monkeypatch.setattr(torch_versions, "printed", lambda python, code: "2.15.0")
    monkeypatch.setattr(torch_versions, "tests", lambda *arguments: (7, failures, 2))
    assert torch_versions.main(["--eager", "2.6", "newest"]) == expected
    _, missing, newest = capsys.readouterr().out.splitlines()
    assert missing.split(maxsplit=2) == ["2.6", "all", "NOT RUN, it cannot be installed: no network"]
    assert newest.split() == ["2.15.0", "eager", "7", str(failures), "2"]


def test_the_files_of_eager_tests_are_there():
    assert all((torch_versions.ROOT / file).is_file() for file in torch_versions.EAGER)
