"""Where results are kept from one process to the next."""

import os
import re
import stat
from pathlib import Path

import pytest

from remat_algos import cache_folder as module
from remat_algos.cache_folder import cache_folder, is_private

posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="owners and permissions as on Unix")
NOT_PRIVATE = "'{}/asked/plans' is a link, or other users can write to it"


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    """A home of the test's own; REMAT_CACHE_DIR is not set."""
    for name in "REMAT_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA":
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home"
    folder.mkdir()
    for name in "HOME", "USERPROFILE":
        monkeypatch.setenv(name, str(folder))
    cache_folder.cache_clear()
    yield folder
    cache_folder.cache_clear()


def plans_folder():
    return cache_folder("plans", "plans")


@posix
@pytest.mark.parametrize(
    ("variable", "value", "folder"),
    [
        ("REMAT_CACHE_DIR", "", "home/.cache/remat_algos/plans"),
        ("REMAT_CACHE_DIR", "relative", "relative/plans"),
        ("REMAT_CACHE_DIR", "{}/asked", "asked/plans"),
        ("XDG_CACHE_HOME", "{}/xdg", "xdg/remat_algos/plans"),
        ("XDG_CACHE_HOME", "relative", "home/.cache/remat_algos/plans"),  # ignored, says its specification
    ],
)
def test_where_the_folder_lies(tmp_path, monkeypatch, variable, value, folder):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, value.format(tmp_path))
    assert plans_folder() == tmp_path / folder
    assert list((tmp_path / folder).iterdir()) == []


@posix
def test_what_is_made_is_for_its_user_alone():
    before = os.umask(0)
    try:
        folder = plans_folder()
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def link(folder):
    """In place of the folder, to one that is as private."""
    folder.rename(folder.with_name("real"))
    folder.symlink_to("real")


@posix
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (link, NOT_PRIVATE),
        (lambda folder: folder.chmod(0o720), NOT_PRIVATE),
        (lambda folder: folder.chmod(0o1702), NOT_PRIVATE),
        (lambda folder: folder.rmdir() or folder.touch(), "File exists: '{}/asked/plans'"),
    ],
    ids=["a link", "open to the group", "open to others", "a file"],
)
def test_a_folder_that_cannot_be_used_is_named_once(home, tmp_path, monkeypatch, change, reason):
    monkeypatch.setenv("REMAT_CACHE_DIR", str(tmp_path / "asked"))
    change(plans_folder())
    cache_folder.cache_clear()
    message = f"{re.escape(reason.format(tmp_path))}; set REMAT_CACHE_DIR to a folder that only you can write to"
    with pytest.warns(RuntimeWarning, match=message):
        assert plans_folder() is None
    assert plans_folder() is None  # a second warning would be an error
    assert list(home.iterdir()) == []


@posix
def test_what_belongs_to_another_user_is_not_used(tmp_path, monkeypatch):
    folder = plans_folder()
    assert is_private(folder.stat())
    cache_folder.cache_clear()
    monkeypatch.setattr(module.os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    assert not is_private(folder.stat())
    with pytest.warns(RuntimeWarning, match="other users can write to it"):
        assert plans_folder() is None


def test_a_user_without_a_home_has_no_cache_unless_one_is_named(tmp_path, monkeypatch):
    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    with pytest.warns(RuntimeWarning, match=r"not kept: Could not determine home directory\.; set REMAT_CACHE_DIR"):
        assert plans_folder() is None
    cache_folder.cache_clear()
    monkeypatch.setenv("REMAT_CACHE_DIR", str(tmp_path))
    assert plans_folder() == tmp_path / "plans"
