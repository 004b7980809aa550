"""JSON from unknown sources: what was written is read; a fault is one sentence, wherever a file of ours is read."""

import gzip
import io
import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos.cost.devices import get_device
from remat_algos.errors import ArgumentError, GraphError, PlanError, RematError
from remat_algos.files import DEEPEST, json_of
from remat_algos.sweeps import read_jobs
from remat_algos.sweeps.folder import SweepFolder
from tests.command_line import runner

pytestmark = pytest.mark.usefixtures("short_searches")

FAULTS = {
    "deep lists": '{"x": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "lists a level too deep": "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1),
    "deep objects": '{"x":' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1),
    "a float that overflows": '{"x": 1e400}',
    "no number": '{"x": NaN}',
    "infinity": '{"x": -Infinity}',
    "thousands of digits": '{"x": ' + "9" * 5000 + "}",
    "twenty digits": '{"x": 99999999999999999999}',
    "a key twice": '{"x": 1, "x": 2}',
    "half a character": '{"x": "\\ud800"}',
    "half a character in a key": '{"\\udc00": 1}',
    "no end": '{"x": ',
    "nothing": "",
}


@pytest.mark.parametrize("text", FAULTS.values(), ids=FAULTS)
def test_a_fault_is_one_sentence(text):
    for given_text in (text, text.encode()):
        with pytest.raises(ValueError, match=r"\w") as error:
            json_of(given_text)
        assert type(error.value) is ArgumentError
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 200
    with pytest.raises(ValueError, match="byte 2 is not UTF-8 text"):
        json_of(b'["\xff"]')


leaves = st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.floats(-1e300, 1e300) | st.text()
json_values = st.recursive(leaves, lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts))


@given(json_values, st.booleans())
def test_what_is_written_is_read(value, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert json_of(text) == value
    assert json_of(text, exact=True) == json.loads(text, parse_float=lambda word: json_of(word, exact=True))


def test_levels_numbers_and_pairs_at_the_limit_are_read():
    assert json_of("[" * DEEPEST + "]" * DEEPEST)
    assert json_of(str(10**19 - 1)) == 10**19 - 1
    assert json_of('"\\ud83d\\ude00"') == "\U0001f600"


# ---------------------------------------------------------------- every file of ours

GRAPH = ra.ComputationGraph.from_edges([("a", "b"), ("b", "c")])


def npz_with(text):
    stored, out = dict(np.load(io.BytesIO(ra.formats.to_npz(GRAPH)))), io.BytesIO()
    np.savez(out, **stored | {"remat_graph": np.frombuffer(text.encode(), np.uint8)})
    return out.getvalue()


def sweep_of(name):
    """Reads a sweep with a file of such content."""

    def read(folder, text):
        store = SweepFolder(folder)
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text)
        return list(SweepFolder(folder, create=False).figures()), store.sources()

    return read


def reader(name, read):
    def reads(folder, text):
        (folder / name).write_bytes(npz_with(text) if name.endswith(".npz") else text.encode())
        return read(folder / name)

    return reads


READERS = {
    "graph": reader("g.json", ra.read_graph),
    "npz": reader("g.npz", ra.read_graph),
    "plan": reader("p.json", lambda file: ra.Plan.load(file, GRAPH)),
    "order": reader("o.json", lambda file: ra.formats.read_order(file, GRAPH)),
    "mirror counts": reader("m.json", lambda file: ra.formats.read_mirror_counts(GRAPH, file)),
    "device": reader("d.json", get_device),
    "jobs": reader("j.jsonl", read_jobs),
    "sweep": sweep_of("sweep.json"),
}
LENIENT = {
    "result": sweep_of("results/ab/ab01.json"),
    "sources": sweep_of("sources.json"),
}
"""Files of a sweep that are passed over if they are damaged."""


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", READERS)
def test_every_reader_refuses_it_in_one_sentence(name, fault, tmp_path):
    with pytest.raises(RematError) as error:
        READERS[name](tmp_path, FAULTS[fault])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", LENIENT)
def test_a_damaged_file_of_a_sweep_spoils_no_other(name, fault, tmp_path):
    assert LENIENT[name](tmp_path, FAULTS[fault]) in (([None], {}), ([], {}))


# ---------------------------------------------------------------- limits on what is expanded


def test_gzip_is_not_expanded_without_end(tmp_path):
    bomb = b'{"format": "remat-graph", "version": 1, "nodes": [' + b"{}," * 2_000_000 + b"{}]}"
    (tmp_path / "g.json.gz").write_bytes(gzip.compress(bomb))
    with pytest.raises(GraphError, match="bytes of gzip expand to over 200 times as many; unpack the file"):
        ra.read_graph(tmp_path / "g.json.gz")
    text = "".join(f"{i} {i + 1}\n" for i in range(1000))
    (tmp_path / "g.txt.gz").write_bytes(gzip.compress(text.encode()))
    assert ra.read_graph(tmp_path / "g.txt.gz").n_nodes == 1001


def test_names_in_npz_are_not_expanded_without_end(tmp_path):
    with zipfile.ZipFile(tmp_path / "g.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("remat_graph.npy", b"\0" * 2**23)
    with pytest.raises(GraphError, match="the names are compressed by more than a factor of 200"):
        ra.read_graph(tmp_path / "g.npz")


# ---------------------------------------------------------------- other ends in exit 70


@pytest.mark.parametrize("columns", ["0", "1", "2", "7", "-5", "wide", "99999999999999999999"])
def test_any_number_of_columns_will_do(columns, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.txt").write_text("a b\nb c\na c\n")
    remat = runner(capsys)
    for command in (["show", "g.txt"], ["solve", "g.txt", "--budget", "100%", "--plot", "-"], ["models", "vgg11"]):
        assert remat(*command).code == 0, command


@pytest.mark.parametrize("memory", ["least+10%", "1e999999%", "1%%", -1, "x"])
def test_a_plan_with_a_budget_that_has_no_bytes_is_refused(memory):
    record = json.loads(ra.solve(GRAPH, "100%").text())
    record["budget"]["memory"] = memory
    with pytest.raises(PlanError):
        ra.verify(GRAPH, record)


FORKS = """
import os, sys, threading, time
import remat_algos as ra

edges = [(i, i + 1) for i in range(9)] + [(i, i + 3) for i in range(6)]

def solve():
    ra.solve(ra.ComputationGraph.from_edges(edges), "100%", effort="fast")

for _ in range(2):
    threading.Thread(target=solve, daemon=True).start()
for turn in range(5):
    time.sleep(0.03 * turn)
    child = os.fork()
    if child == 0:
        solve()
        os._exit(0)
    for _ in range(600):
        if os.waitpid(child, os.WNOHANG)[0]:
            break
        time.sleep(0.05)
    else:
        os.kill(child, 9)
        sys.exit("a fork did not end")
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_forks_beside_solving_threads_end():
    """Threads import modules and compute bounds meanwhile: locks of both would stay taken in the child."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


SLOW_IMPORT = """
import importlib, os, sys, threading, time
import remat_algos

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == MODULE:
            sys.meta_path.remove(self)
            time.sleep(0.3)

sys.meta_path.insert(0, Slow())
assert MODULE not in sys.modules
threading.Thread(target=importlib.import_module, args=[MODULE], daemon=True).start()
time.sleep(0.1)
child = os.fork()
if child == 0:
    importlib.import_module(MODULE)
    os._exit(0)
for _ in range(100):
    if os.waitpid(child, os.WNOHANG)[0]:
        os._exit(0)
    time.sleep(0.1)
os.kill(child, 9)
os._exit(1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize("module", ["remat_algos.questions.fit", "numpy.ma", "scipy.optimize"])
def test_a_fork_waits_for_an_import_of_another_thread(module):
    program = f"MODULE = {module!r}\n{SLOW_IMPORT}"
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", program], timeout=60).returncode == 0
