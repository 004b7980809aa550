"""SIGINT, SIGTERM and SIGKILL at random times to the command line: exit codes, and files that are whole."""

import dataclasses
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

UNIT = "commands"
ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-m", "remat_algos")
SECONDS_TO_STOP = 20.0  # far more than it takes, on a busy machine too
GRAPH = "model:resnet18"
CODES = {
    signal.SIGINT: (130, -signal.SIGINT),
    signal.SIGTERM: (143, -signal.SIGTERM),
    signal.SIGKILL: (-signal.SIGKILL,),
}
KINDS = ("nodes", "edges", "values")


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """Words of the command line, and the files that it writes."""

    words: tuple[str, ...]
    writes: tuple[str, ...] = ()


COMMANDS = {
    "solve": Command(("solve", GRAPH, "--budget", "55%", "-o", "plan.json"), ("plan.json",)),
    "solve --json": Command(("solve", GRAPH, "--budget", "55%", "--json")),
    "solve --allocator": Command(
        ("solve", GRAPH, "--budget", "70%", "--allocator", "arena", "-o", "packed.json"), ("packed.json",)
    ),
    "compare": Command(("compare", GRAPH, "--budget", "55%")),
    "compare --json": Command(("compare", GRAPH, "--budget", "55%", "--json")),
    "frontier": Command(("frontier", GRAPH, "--json")),
    "fit": Command(("fit", "--model", "vgg16", "--vary", "batch", "--memory", "4GiB", "--json")),
    "run": Command(("run", GRAPH, "--budget", "100%", "--solver", "no_remat", "--json")),
    "allocate": Command(("allocate", "--buffers", "buffers.csv", "-o", "allocated.csv", "--json"), ("allocated.csv",)),
    "convert": Command(("convert", "long.txt", "long.json"), ("long.json",)),
    "convert to tables": Command(
        ("convert", "long.txt", "long.nodes.csv"), tuple(f"long.{kind}.csv" for kind in KINDS[:2])
    ),
    "animate": Command(("animate", GRAPH, "-o", "moves.svg"), ("moves.svg",)),
    "show": Command(("show", GRAPH, "--json")),
    "width": Command(("width", GRAPH, "--json")),
}
OLD = b"what was there before\n"


def case(rng, report):
    """One command, stopped after 0.02 to 4 seconds, most often soon."""
    name = rng.choice(list(COMMANDS))
    stop = rng.choice((signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGTERM, signal.SIGKILL))
    report.count("commands")
    with tempfile.TemporaryDirectory() as folder:
        stopped(report, name, COMMANDS[name], stop, 0.02 * 200 ** rng.random(), rng.random() < 0.7, Path(folder))


def stopped(report, name, command, stop, after, replaces, folder):
    """Run a command in a folder, send it the signal after some seconds, and check what it left."""
    for file, text in inputs().items():
        (folder / file).write_bytes(text)
    if replaces:
        for file in command.writes:
            (folder / file).write_bytes(OLD)
    process = subprocess.Popen(
        [*PROGRAM, *command.words],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    what = f"{name}, {stop.name} after {after:.2f} s"
    try:
        out, err = process.communicate(timeout=after)
        sent = False
    except subprocess.TimeoutExpired:
        process.send_signal(stop)
        sent = True
        try:
            out, err = process.communicate(timeout=SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            report.fault(f"goes on for {SECONDS_TO_STOP:g} s after {stop.name}", what)
    ended = sent and process.returncode != 0
    if sent and "Exception ignored in: <function _get_module_lock" in err:  # our handler raises in no import
        report.count("lost while Python started")
        check_files(report, what, command, folder, replaces, stop if ended else None)
        return
    if ended and "Traceback" in err and "in interruptible" not in err:  # no handler yet: Python still starts
        report.count("stopped before the command began")
        return
    report.count(f"{stop.name} stopped it" if ended else "ended by itself")
    check_streams(report, what, command, process.returncode, out, err, stop if ended else None)
    check_files(report, what, command, folder, replaces, stop if ended else None)


def check_streams(report, what, command, code, out, err, stop):
    """The exit code is that of the signal; no traceback; JSON is whole or not there."""
    if stop is None and code:
        report.fault("a command that fails by itself", f"{what}: exit code {code}, {err.strip()[-300:]!r}")
    elif stop is not None and code not in CODES[stop]:
        report.fault(f"another exit code after {stop.name}", f"{what}: {code}, {err.strip()[-300:]!r}")
    if "Traceback" in err or "Exception ignored" in err:
        report.fault("a traceback", f"{what}: {err.strip()[-600:]}")
    if "--json" in command.words and out.strip() and stop is not signal.SIGKILL:
        try:
            json.loads(out)
        except ValueError:
            report.fault("half of a JSON object is printed", f"{what}: {out[-100:]!r}")


def check_files(report, what, command, folder, replaces, stop):
    """Files that were there are whole, the old or the new; nothing else is left, but after SIGKILL."""
    for file, text in inputs().items():
        if (folder / file).read_bytes() != text:
            report.fault("an input changed", f"{what}: {file}")
    for file in command.writes:
        path = folder / file
        if path.exists() and path.read_bytes() != OLD and not whole(path):
            report.fault("half of a file is written", f"{what}: {file}")
        if not path.exists() and (replaces or stop is None):
            report.fault("a file is gone" if replaces else "a file is missing", f"{what}: {file}")
    left = sorted(set(os.listdir(folder)) - set(inputs()) - set(command.writes))
    if left and stop is not signal.SIGKILL:
        report.fault("a temporary file is left", f"{what}: {', '.join(left)}")


def whole(path):
    """Whether a file that a command wrote ends where it should."""
    data = path.read_bytes()
    if path.suffix == ".json":
        try:
            return bool(json.loads(data))
        except ValueError:
            return False
    if path.suffix == ".svg":
        return data.endswith(b"</svg>\n")
    return data.endswith(b"\n") and data.count(b"\n") == lines_of(path.name)


def lines_of(name):
    """How many lines the tables have that the commands write, headers included."""
    return {"allocated.csv": N_BUFFERS, "long.nodes.csv": N_NODES, "long.edges.csv": 2 * (N_NODES - 7)}[name] + 1


N_NODES, N_BUFFERS = 20_007, 300


def environment():
    """That of this process, with the package of this checkout."""
    return os.environ | {"PYTHONPATH": str(ROOT)}


@functools.cache
def inputs():
    """An edge list that takes a while to write, and buffers that take a while to pack."""
    edges = "".join(f"{v} {v + 1}\n{v} {v + 7}\n" for v in range(N_NODES - 7))
    rows = (f"b{i},{i * 7 % 400},{i * 7 % 400 + 1 + i % 90},{1 + i * i % 977}\n" for i in range(N_BUFFERS))
    return {"long.txt": edges.encode(), "buffers.csv": ("id,lower,upper,size\n" + "".join(rows)).encode()}
