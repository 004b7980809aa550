"""The command line, run in this process, in another one or on a terminal, and the graphs that its tests plan."""

import functools
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from remat_algos.cli.main import main
from remat_algos.formats.graph_files import read_graph
from remat_algos.ir.differentiate import differentiate
from remat_algos.search.solve import solve

# A chain of six; differentiated, it computes 51 + 2 * 41 = 133 and has 28 bytes live at once.
CHAIN = "name,memory,compute\na,4,10\nb,4,10\nc,4,10\nd,4,10\ne,4,10\nloss,1,1\n"
CHAIN_EDGES = "src,dst\na,b\nb,c\nc,d\nd,e\ne,loss\n"
# An input of 100 bytes that a reads, and a parameter of a of 7 bytes.
RESIDENT = "name,memory,compute,resident,param_memory\nx,100,,input,\na,4,10,,7\nb,4,10,,\nc,4,10,,\nloss,1,1,,\n"
RESIDENT_EDGES = "src,dst\nx,a\na,b\nb,c\nc,loss\n"


def lay_tables(folder, **graphs):
    """Write the tables of graphs, by default of the chain and of the graph with residents; (nodes, edges) by name."""
    for name, (nodes, edges) in {
        "chain": (CHAIN, CHAIN_EDGES),
        "resident": (RESIDENT, RESIDENT_EDGES),
        **graphs,
    }.items():
        (folder / f"{name}.nodes.csv").write_text(nodes)
        (folder / f"{name}.edges.csv").write_text(edges)
    return folder


@functools.cache
def chain_plan():
    """The text of a plan for the chain at 80 %, with its frees; a and b run again."""
    with tempfile.TemporaryDirectory() as folder:
        graph = read_graph(lay_tables(Path(folder)) / "chain.nodes.csv")
    return solve(differentiate(graph), "80%").text("frees")


@dataclass
class Said:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def record(self):
        """The one JSON object; fails if there is anything else."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    @property
    def flat(self):
        """The text in one line, with one space between words, however it was wrapped."""
        return " ".join(self.out.split())

    @property
    def lines(self):
        return self.out.splitlines()

    @property
    def fine(self):
        """It ended with 0 and without a word on standard error."""
        return (self.code, self.err) == (0, "")


def complains(said, *named, code=2):
    """One sentence on standard error that names what it is about; at most the line about the graph before it."""
    assert re.fullmatch(r"(\S+: \d+ nodes; \d+ gradient nodes added \(.*\))?", said.flat)
    assert (said.code, said.err.count("\n")) == (code, 1)
    assert said.err.startswith("remat: ")
    assert "bug" not in said.err
    assert [name for name in named if name not in said.err] == []
    return True


BUDGETED = ("--budget", "--overhead", "--device", "--plan", "--help", "-h")


def with_budget(words):
    """A command line; one that solves gets the lowest peak as its budget, if it is about something else."""
    words = [str(word) for word in words]
    given = any(word.partition("=")[0] in BUDGETED for word in words)
    return words if words[:1] not in (["solve"], ["run"]) or given else [*words, "--budget", "least"]


def runner(capsys):
    """Runs a command line (`with_budget`); what it says is read back from `capsys`."""

    def run(*words):
        capsys.readouterr()
        code = main(with_budget(words))
        return Said(code, *capsys.readouterr())

    return run


def process(*words, **settings):
    """Runs a command line in a process of its own."""
    command = [sys.executable, "-m", "remat_algos", *with_budget(words)]
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 60, **settings}
    done = subprocess.run(command, check=False, **given)
    return Said(done.returncode, done.stdout or "", done.stderr or "")


def on_terminal(*words, out=True, err=True):
    """What a command line says to a pseudo-terminal, and to the pipes that take the place of the rest."""
    pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    running = subprocess.Popen(
        [sys.executable, "-m", "remat_algos", *with_budget(words)],
        stdin=subprocess.DEVNULL,
        stdout=theirs if out else subprocess.PIPE,
        stderr=theirs if err else subprocess.PIPE,
        env={**environment, "TERM": "xterm-256color", "COLUMNS": "100", "LC_ALL": "C.UTF-8"},
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 65536):
            seen += chunk
    except OSError:  # how Linux says that the other side has closed
        pass
    os.close(ours)
    piped = [text.decode() if text is not None else "" for text in running.communicate(timeout=60)]
    return running.returncode, seen.decode(), *piped
