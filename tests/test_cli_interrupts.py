"""Ctrl-C and SIGTERM, as processes: an exit code, one line, and no temporary file."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")

START = "import os, signal, sys, time\nfrom remat_algos.cli.exits import interruptible\n"
KILL = "os.kill(os.getpid(), signal.{})\n"
CODES = {"SIGINT": 130, "SIGTERM": 143}
each_signal = pytest.mark.parametrize("name", CODES)


def command(script, folder, *words):
    """Python with a script, in a process that minds Ctrl-C even where a shell's background jobs ignore it."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def ended(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@each_signal
def test_an_import_that_swallows_everything_does_not_swallow_the_interrupt(tmp_path, name):
    (tmp_path / "swallows.py").write_text(
        f"import os, signal, time\ntry:\n    {KILL.format(name)}    time.sleep(0.1)\nexcept BaseException:\n    pass\n"
    )
    script = f"{START}def main():\n    import swallows\n    time.sleep(50)\n    return 0\nsys.exit(interruptible(main))"
    assert ended(command(script, tmp_path)) == (CODES[name], "", "remat: interrupted\n")


@each_signal
def test_an_import_that_is_interrupted_comes_to_its_end(tmp_path, name):
    (tmp_path / "long.py").write_text(
        f"import os, signal, time\n{KILL.format(name)}time.sleep(0.2)\nprint('whole', flush=True)\n"
    )
    script = f"{START}def main():\n    import long\n    time.sleep(50)\nsys.exit(interruptible(main))"
    assert ended(command(script, tmp_path)) == (CODES[name], "whole\n", "remat: interrupted\n")


@each_signal
def test_what_the_command_returns_when_it_is_interrupted_is_the_exit_code(tmp_path, name):
    main = f"def main():\n    try:\n        {KILL.format(name)}        time.sleep(50)\n"
    main += "    except KeyboardInterrupt:\n        print('the best so far')\n        return 130\n"
    assert ended(command(f"{START}{main}sys.exit(interruptible(main))", tmp_path)) == (
        CODES[name],
        "the best so far\n",
        "",
    )


def test_a_command_that_is_not_interrupted_keeps_its_code(tmp_path):
    for code in (0, 3):
        assert ended(command(f"{START}sys.exit(interruptible(lambda: {code}))", tmp_path)) == (code, "", "")


def test_an_interrupt_at_the_very_end_changes_nothing(tmp_path):
    script = f"{START}code = interruptible(lambda: 0)\n{KILL.format('SIGINT')}sys.exit(code)"
    assert ended(command(script, tmp_path)) == (0, "", "")


AT_EACH_LINE = """
import json
def trace(frame, event, argument):
    global left
    if frame.f_code.co_name != "interruptible":
        return None
    if signal.getsignal(signals[0]) is not usual[0]:
        left -= 1
        if left == 0:
            for number in signals:
                os.kill(os.getpid(), number)
    return trace
signals = [getattr(signal, name) for name in sys.argv[1:]]
usual = [signal.getsignal(number) for number in signals]
ends = []
for line in range(1, 500):
    for number, handler in zip(signals, usual):
        signal.signal(number, handler)
    left = line
    sys.settrace(trace)
    try:
        end = int(interruptible(lambda: 0))
    except BaseException as error:
        end = repr(error)
    sys.settrace(None)
    if left > 0:
        break
    ends.append(end)
print(json.dumps(ends))
"""


@pytest.mark.parametrize("names", [("SIGINT",), ("SIGTERM",), ("SIGTERM", "SIGINT")], ids=" ".join)
def test_a_signal_at_any_line_of_it_interrupts_the_command_or_comes_too_late(tmp_path, names):
    """Handlers run between any two lines, also between those that set the handlers and those after the command."""
    code, out, err = ended(command(START + AT_EACH_LINE, tmp_path, *names))
    ends = json.loads(out)
    interrupted = ends.count(CODES[names[0]])
    assert (code, interrupted + ends.count(0)) == (0, len(ends)), (ends, err)
    assert 5 < interrupted < len(ends)
    assert ends[:interrupted] == [CODES[names[0]]] * interrupted
    assert err == "remat: interrupted\n" * interrupted


def test_what_is_ignored_stays_ignored(tmp_path):
    ignored = f"{START}signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    main = f"def main():\n    {KILL.format('SIGINT')}    return 0\n"
    assert ended(command(f"{ignored}{main}sys.exit(interruptible(main))", tmp_path)) == (0, "", "")


@each_signal
def test_no_temporary_file_is_left(tmp_path, name):
    (tmp_path / "plan.json").write_text("old")
    script = f"{START}from pathlib import Path\nfrom remat_algos import files\n"
    script += "files.os.replace = lambda *_: time.sleep(50)\n"
    script += "sys.exit(interruptible(lambda: files.write_whole(Path('plan.json'), b'new')))"
    process = command(script, tmp_path)
    for _ in range(600):
        if any(file.suffix == ".part" and file.read_bytes() == b"new" for file in tmp_path.iterdir()):
            break
        time.sleep(0.05)
    process.send_signal(getattr(signal, name))
    assert ended(process) == (CODES[name], "", "remat: interrupted\n")
    assert os.listdir(tmp_path) == ["plan.json"]
    assert (tmp_path / "plan.json").read_text() == "old"


def test_the_installed_command_starts_there():
    project = Path(__file__).parent.parent / "pyproject.toml"
    assert 'remat = "remat_algos.__main__:start"' in project.read_text(encoding="utf-8")
