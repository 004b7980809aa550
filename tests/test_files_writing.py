"""Files are written whole or not at all, whatever else writes there, and keep their mode."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from remat_algos.files import write_all, write_whole
from remat_algos.formats.graph_files import write_graph
from remat_algos.ir.graph import ComputationGraph

PAIR = ComputationGraph.from_edges([("a", "b")])


def test_threads_may_write_one_path(tmp_path):
    file = tmp_path / "plan.json"
    texts = [bytes([65 + i]) * 200_000 for i in range(8)]
    errors = []

    def write(data):
        try:
            for _ in range(20):
                write_whole(file, data)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(data,)) for data in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert file.read_bytes() in texts
    assert os.listdir(tmp_path) == ["plan.json"]


def test_what_a_killed_process_left_behind_blocks_nobody(tmp_path):
    (tmp_path / f".plan.json.{os.getpid()}.part").write_bytes(b"half")
    script = "from pathlib import Path; import os, signal, sys; from remat_algos import files\n"
    script += "files.os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
    script += "files.write_whole(Path(sys.argv[1]), b'new')"
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "plan.json")], check=False)
    left = set(os.listdir(tmp_path))
    assert len(left) == 2
    for _ in range(3):
        write_whole(tmp_path / "plan.json", b"new")
    assert (tmp_path / "plan.json").read_bytes() == b"new"
    assert set(os.listdir(tmp_path)) == {*left, "plan.json"}


@pytest.mark.parametrize("length", [244, 250, 255])
def test_names_may_be_as_long_as_the_system_allows(tmp_path, length):
    name = "n" * (length - 5) + ".json"
    write_graph(PAIR, tmp_path / name)
    write_graph(PAIR, tmp_path / name)
    assert os.listdir(tmp_path) == [name]


def test_a_name_that_is_too_long_leaves_the_other_files_as_they_were(tmp_path):
    short, long = tmp_path / "X.nodes.csv", tmp_path / ("x" * 300)
    short.write_bytes(b"old")
    with pytest.raises(OSError, match=r"File name too long: .*xxx") as failure:
        write_all({short: b"new", long: b"new"})
    assert failure.value.filename == str(long)
    assert os.listdir(tmp_path) == ["X.nodes.csv"]
    assert short.read_bytes() == b"old"


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o755, 0o444])
def test_the_mode_of_a_file_is_kept(tmp_path, mode):
    file = tmp_path / "plan.json"
    file.write_bytes(b"old")
    file.chmod(mode)
    write_whole(file, b"new")
    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o7777 == mode


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_nobody_reads_a_private_file_while_it_is_written(tmp_path, monkeypatch):
    file = tmp_path / "plan.json"
    file.write_bytes(b"old")
    file.chmod(0o600)
    seen = []
    replace = os.replace

    def look(source, target):
        seen.append(Path(source).stat().st_mode & 0o7777)
        replace(source, target)

    monkeypatch.setattr(os, "replace", look)
    write_whole(file, b"new")
    assert seen == [0o600]


def test_a_new_file_has_the_mode_that_others_have(tmp_path):
    (tmp_path / "other").write_bytes(b"")
    write_whole(tmp_path / "plan.json", b"new")
    assert (tmp_path / "plan.json").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_link_is_followed_and_its_folder_is_not_touched(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "real" / "plan.json")
    write_whole(tmp_path / "link.json", b"new")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real" / "plan.json").read_bytes() == b"new"
