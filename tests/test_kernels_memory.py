"""Kernels that run out of memory raise MemoryError, and work again when there is more."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from threading import Timer

import pytest

from remat_algos import kernels
from tests import kernel_cases

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the address space is limited by Linux's rlimit"),
    pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer reserves terabytes"),
]

CHILD = """
    import json, os, resource, sys
    from tests.kernel_cases import CASES

    def size():
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmSize")) << 10

    def outcome(call, room):
        pid = os.fork()
        if pid:
            status = os.waitpid(pid, 0)[1]
            return {0: "done", 1: "MemoryError", 2: "wrong"}.get(os.waitstatus_to_exitcode(status), str(status))
        resource.setrlimit(resource.RLIMIT_AS, (size() + room, resource.RLIM_INFINITY))
        try:
            call()
        except MemoryError:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            os._exit(1 if small() == before else 2)
        os._exit(0)

    for line in sys.stdin:  # one case each, in a process as fresh as this one
        if os.fork():
            print("exit", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
            continue
        small, large = CASES[line.strip()]()
        before = small()
        outcomes = []
        for room in json.loads(sys.argv[1]):
            outcomes.append(outcome(large, room << 10))
            if outcomes[-1] == "done":  # so it is in more room
                break
        print(json.dumps(outcomes), flush=True)
        os._exit(0)
"""
ROOM = [64, 256, 1024, 4096, 8192, 16384, 32768, 65536, 131072, 262144]  # KiB beside what the process has


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Asks a process, which has imported all, for a case: lines of what came of it, and what it said of errors."""
    said = tmp_path_factory.mktemp("kernels") / "said.txt"
    with said.open("w") as errors:
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(CHILD), json.dumps(ROOM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"},  # glibc: large blocks that are freed are given back
        )

    def ask(case):
        before = said.stat().st_size
        print(case, file=child.stdin, flush=True)
        watchdog = Timer(120, child.kill)
        watchdog.start()
        said_by_case = [child.stdout.readline()]
        while said_by_case[-1] and not said_by_case[-1].startswith("exit"):
            said_by_case.append(child.stdout.readline())
        watchdog.cancel()
        return said_by_case, said.read_bytes()[before:].decode()

    with child:
        yield ask
        child.stdin.close()


@pytest.mark.parametrize("case", sorted(kernel_cases.CASES))
def test_lack_of_memory_is_an_error(case, asked):
    lines, errors = asked(case)
    assert lines[-1] == "exit 0\n", errors
    assert "ignored" not in errors  # Cython prints what a function that cannot raise swallows
    outcomes = json.loads(lines[0])
    assert set(outcomes) <= {"MemoryError", "done"}, outcomes
    assert outcomes[:4] == ["MemoryError"] * 4, outcomes


def test_every_compiled_module_that_python_calls_has_a_case():
    folder, cases = Path(kernels.__file__).parent, Path(kernel_cases.__file__).read_text(encoding="utf-8")
    sources = {source.stem: source.read_text(encoding="utf-8") for source in folder.glob("*.pyx")}
    modules = sorted(name for name, text in sources.items() if re.search(r"^ *def ", text, re.MULTILINE))
    assert modules
    assert [name for name in modules if f"from remat_algos.kernels.{name} import" not in cases] == []


EXHAUSTED = """
    import ctypes, os, resource
    import numpy as np
    from remat_algos.kernels.offsets import GapFit

    begin = np.arange(5000)
    ones = np.ones(5000, np.int64)
    run = GapFit(begin, begin, begin + 1, ones, low=0 * ones, high=9000 * ones, best=False)
    malloc = ctypes.CDLL(None).malloc
    malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    with open("/proc/self/status") as status:
        size = next(int(line.split()[1]) for line in status if line.startswith("VmSize")) << 10
    resource.setrlimit(resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))
    for bits in range(20, 3, -1):
        while malloc(1 << bits):
            pass
    try:
        run.run(5000)
    except MemoryError:
        os._exit(1)
    os._exit(0)
"""


def test_the_first_exception_takes_no_memory():
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(EXHAUSTED)], capture_output=True, timeout=120)
    assert done.returncode == 1, done.stderr
