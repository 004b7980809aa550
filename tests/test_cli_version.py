"""remat --version, and --verbose: what is installed, compiled and cached."""

import json
import re
from importlib.metadata import version
from pathlib import Path

import pytest

from remat_algos.cache_folder import cache_place
from remat_algos.cli import installation
from remat_algos.cli.main import main
from tests.test_cli_startup import KERNELS

SOURCES = Path(__file__).parent.parent / "kernels"


def said(capsys, *words):
    code = main(["--version", *words])
    return (code, *capsys.readouterr())


def record(capsys):
    code, out, err = said(capsys, "--verbose", "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_the_version_alone_is_one_line_or_one_object(capsys):
    number = version("remat_algos")
    assert said(capsys) == (0, f"remat {number}\n", "")
    code, out, err = said(capsys, "--json")
    assert (code, json.loads(out), err) == (0, {"version": number}, "")


def test_verbose_lists_every_kernel_as_built_from_these_sources(capsys):
    kernels = record(capsys)["kernels"]
    assert kernels["built"] == sorted(file.stem for file in SOURCES.glob("*.pyx"))
    assert (kernels["missing"], kernels["fault"], kernels["folder"]) == ([], None, str(KERNELS))
    stamp = (KERNELS / "_built.txt").read_text().split()
    assert [kernels["sources"], "Cython", kernels["cython"], *kernels["flags"]] == stamp[:-1]
    assert stamp[-1].startswith("setup.py-")


def test_what_is_compiled_on_first_use_are_the_kernels_of_cuda(capsys):
    files = {entry["file"]: entry["functions"] for entry in record(capsys)["first_use"] if entry["compiler"] == "CuPy"}
    assert files == {"busy.cu": ["keep_busy"], "mixing.cu": ["mix", "checksum"]}
    assert [path.name for path in sorted((KERNELS / "cuda").glob("*.cu"))] == list(files)
    package = Path(installation.__file__).parents[1]
    users = [file for file in package.rglob("*.py") if re.search(r"^\s*(import|from) numba", file.read_text(), re.M)]
    assert users == [package / "rules.py"]
    assert record(capsys)["first_use"][-1] == {"file": None, "functions": ["rules of the user"], "compiler": "Numba"}


def test_the_cache_is_named_and_counted_and_not_made(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("REMAT_CACHE_DIR", str(tmp_path / "mine"))
    assert record(capsys)["cache"] == {
        "folder": str(tmp_path / "mine"),
        "variable": "REMAT_CACHE_DIR",
        "plans": 0,
        "rules": 0,
    }
    assert not (tmp_path / "mine").exists()
    (tmp_path / "mine" / "plans").mkdir(parents=True)
    (tmp_path / "mine" / "plans" / "0.json").write_text("{}")
    (tmp_path / "mine" / "rules" / "0").mkdir(parents=True)
    (tmp_path / "mine" / "rules" / "0" / "rule.py").write_text("")
    assert record(capsys)["cache"]["plans"] == record(capsys)["cache"]["rules"] == 1
    row = dict(installation.installation_rows(installation.installation()))["cache"]
    assert row == f"{tmp_path / 'mine'}, 1 plan, 1 rule; set by REMAT_CACHE_DIR"
    monkeypatch.delenv("REMAT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert record(capsys)["cache"] == {"folder": str(cache_place()), "variable": None, "plans": 0, "rules": 0}


def test_without_a_home_there_is_no_cache(capsys, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(installation, "cache_place", homeless)
    assert record(capsys)["cache"]["folder"] is None
    assert "cache        none, because there is no home folder; set REMAT_CACHE_DIR\n" in said(capsys, "--verbose")[1]


def test_libraries_have_their_versions_or_are_listed_as_absent(capsys, monkeypatch):
    libraries = record(capsys)["libraries"]
    assert libraries["numpy"] == version("numpy")
    assert "\nlibraries    numpy " in said(capsys, "--verbose")[1]
    monkeypatch.setattr(installation, "_version", lambda name: None if name in ("scipy", "torch") else "1.0")
    lines = said(capsys, "--verbose")[1].splitlines()
    assert lines[-2:] == ["missing      scipy; install it", "optional     not installed: torch"]


def test_text_is_80_columns_wide(capsys, monkeypatch):
    monkeypatch.setenv("REMAT_CACHE_DIR", "/cache")
    code, out, err = said(capsys, "--verbose")
    assert (code, err, out.splitlines()[0]) == (0, "", f"remat {version('remat_algos')}")
    assert all(len(line) <= 80 or len(line.split()) <= 2 for line in out.splitlines())


@pytest.mark.parametrize("words", [["solve"], ["--verbose", "--quick"]], ids=" ".join)
def test_other_words_are_refused_in_one_line(capsys, words):
    code, out, err = said(capsys, *words)
    assert (code, out) == (2, "")
    assert err == f"remat: remat --version has no {words[-1]}; see remat --help\n"
