"""Reading is bounded, for every file that the package reads; files may be compressed."""

import gzip
import io
import os
import zipfile

import numpy as np
import pytest

import remat_algos as ra
from remat_algos.cost.devices import get_device
from remat_algos.errors import GraphError, RematError
from remat_algos.files import LIMIT_VARIABLE, READ_LIMIT, beginning, read_bytes, read_text
from remat_algos.formats.graphs.npz_bytes import from_npz

GRAPH = ra.ComputationGraph.from_edges([("a", "b"), ("b", "c")])
DEVICE = ra.cost.Device("mine", {"float32": 1e12}, 1e11, 1e-6, 2**30)
TABLE = "id,lower,upper,size\nx,0,2,8\n"


def plan_text():
    return ra.solve(ra.differentiate(GRAPH), "100%").text()


READERS = {
    "graph": ("a b\nb c\n", ra.read_graph),
    "tables": ("name,memory\na,1\nb,1\n", lambda path: ra.read_graph(path.with_name("E.txt"), nodes=path)),
    "plan": (plan_text, lambda path: ra.Plan.load(path, GRAPH)),
    "order": ("a\nb\nc\n", lambda path: ra.formats.read_order(path, GRAPH)),
    "mirror counts": ("node,count\na,1\n", lambda path: ra.formats.read_mirror_counts(ra.differentiate(GRAPH), path)),
    "buffers": (TABLE, ra.formats.read_buffers),
    "in-place table": ("op,read\nReLU,0\n", ra.formats.read_in_place),
    "undirected graph": ("p tw 2 1\n1 2\n", ra.formats.read_gr),
    "tree decomposition": ("s td 1 1 1\nb 1 1\n", ra.formats.read_td),
    "device": (lambda: __import__("json").dumps(DEVICE.record()), get_device),
}


@pytest.fixture(params=READERS)
def case(request, tmp_path):
    """A file, its bytes, and what reads it."""
    text, read = READERS[request.param]
    data = (text() if callable(text) else text).encode()
    (tmp_path / "E.txt").write_text("a b\n")
    return tmp_path / "file", data, read


def test_every_file_may_be_compressed(case):
    file, data, read = case
    file.write_bytes(gzip.compress(data))
    read(file)


def test_no_file_is_read_beyond_the_limit(case, monkeypatch):
    file, data, read = case
    file.write_bytes(data)
    monkeypatch.setenv(LIMIT_VARIABLE, str(len(data)))
    read(file)
    monkeypatch.setenv(LIMIT_VARIABLE, str(len(data) - 1))
    with pytest.raises(RematError, match=rf"file is larger than .*; to read it, set .*{LIMIT_VARIABLE}"):
        read(file)


def test_no_file_is_decompressed_beyond_the_limit(case, monkeypatch):
    file, data, read = case
    file.write_bytes(gzip.compress(data + b" " * 100_000))
    monkeypatch.setenv(LIMIT_VARIABLE, "64 KiB")
    with pytest.raises(RematError, match="file is larger than"):
        read(file)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no such device")
def test_a_device_without_end_is_refused(case, monkeypatch):
    file, _, read = case
    monkeypatch.setenv(LIMIT_VARIABLE, "1 MiB")
    file.symlink_to("/dev/zero")
    with pytest.raises(RematError, match="file is larger than"):
        read(file)


def test_gzip_cut_off_or_damaged_is_one_sentence(tmp_path):
    file, data = tmp_path / "g.txt.gz", gzip.compress(b"a b\n" * 1000)
    for damaged in (data[:-6], data[:12], data[:20] + b"\xff" * 9 + data[29:]):
        file.write_bytes(damaged)
        with pytest.raises(GraphError, match=r"g\.txt\.gz: damaged gzip data; is the file whole\?"):
            ra.read_graph(file)
        assert isinstance(beginning(file, 100), str)  # `remat width` looks at it before it is read


def zipped(**sizes):
    """An npz file of zeros that is much smaller than what it holds."""
    data = io.BytesIO()
    np.savez_compressed(data, **{name: np.zeros(size, np.uint8) for name, size in sizes.items()})
    return data.getvalue()


def test_npz_beyond_the_limit_is_not_inflated(tmp_path, monkeypatch):
    bomb = zipped(R=3_000_000, S=3_000_000)
    assert len(bomb) < 20_000
    monkeypatch.setenv(LIMIT_VARIABLE, "5 MB")
    (tmp_path / "x.npz").write_bytes(bomb)
    for read in (ra.read_graph, lambda path: ra.formats.read_order(path, GRAPH)):
        with pytest.raises(RematError, match=r"x\.npz is larger than"):
            read(tmp_path / "x.npz")
    with pytest.raises(GraphError, match="npz is larger than"):
        from_npz(bomb)
    monkeypatch.setenv(LIMIT_VARIABLE, "7 MB")
    with pytest.raises(GraphError, match="not an npz graph"):
        ra.read_graph(tmp_path / "x.npz")


def test_an_array_that_claims_more_than_it_has_is_one_sentence(tmp_path):
    header = b"\x93NUMPY\x01\x00v\x00{'descr': '|u1', 'fortran_order': False, 'shape': (1099511627776,), }"
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("memory.npy", header.ljust(127) + b"\n")
    with pytest.raises(GraphError, match=r"x\.npz: not an npz graph"):
        ra.read_graph(tmp_path / "x.npz")


def test_the_limit_is_a_size(tmp_path, monkeypatch):
    (tmp_path / "g.txt").write_text("a b\n")
    for text in ("4GiB", " 1 MB", "4096", ""):
        monkeypatch.setenv(LIMIT_VARIABLE, text)
        assert read_text(tmp_path / "g.txt") == "a b\n"
    monkeypatch.setenv(LIMIT_VARIABLE, "much")
    with pytest.raises(GraphError, match=f"the environment variable {LIMIT_VARIABLE}: 'much' is not a size"):
        read_bytes(tmp_path / "g.txt")


def test_the_limit_is_half_a_gibibyte():
    assert READ_LIMIT == 512 * 2**20


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_the_beginning_is_that_of_the_text(tmp_path, pack):
    (tmp_path / "x").write_bytes(pack(b"\xef\xbb\xbfp tw 3 2\n" * 1000))
    assert beginning(tmp_path / "x", 9) == "p tw 3"
    (tmp_path / "x").write_bytes(pack(b"p tw 3 2\n" * 1000)[:30])
    assert len(beginning(tmp_path / "x", 9)) <= 9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p tw 10000000 1\n1 2\n", "line 1: the header has 10,000,000 nodes, but at most 100,000 may be without edges"),
        ("p tw 100003 1\n1 2\n", "line 1: the header has 100,003 nodes, but at most 100,000 may be without edges"),
        ("p tw 999999999 0\n", "line 1: the header has 999,999,999 nodes"),
    ],
)
def test_a_header_asks_for_no_more_than_the_file_holds(tmp_path, text, message):
    (tmp_path / "g.gr").write_text(text)
    for read in (ra.read_graph, ra.formats.read_gr):
        with pytest.raises(GraphError, match=message.replace(" nodes", " (nodes|vertices)")):
            read(tmp_path / "g.gr")


def test_isolated_nodes_of_a_header_are_there(tmp_path):
    (tmp_path / "g.gr").write_text("p tw 2002 1\n1 2\n")
    assert (ra.read_graph(tmp_path / "g.gr").n_nodes, ra.formats.read_gr(tmp_path / "g.gr").n_vertices) == (2002, 2002)
    star = "".join(f"1 {v}\n" for v in range(2, 150_001))
    (tmp_path / "g.gr").write_text(f"p tw 250000 149999\n{star}")
    assert ra.formats.read_gr(tmp_path / "g.gr").n_vertices == 250_000
