"""Dense loops compiled ahead of time, for each kind of vector unit, beside Numba.

`python -m tests.benchmarks.compiled` prints the tables behind docs/compiled.md, with `--write` it writes them;
with `--only` one part: "kernels", "later calls" or "first calls".
Seconds of the processor: medians of rounds in which all variants run one after the other, so that what else runs on the
cores disturbs them alike. The loops are those of kernels/vectors.pxd and bitsets.pxd, compiled here for one unit at a
time.
"""

import argparse
import ctypes
import io
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np

import remat_algos
from docs.page_parts import fill, table
from remat_algos.cli.installation import installation, installation_rows
from remat_algos.cli.output import print_row, print_text
from tests.benchmarks.occasion import Occasion

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "compiled.md"
RESULTS = {name: PAGE.parent / "results" / f"compiled_{name}_calls.txt" for name in ("later", "first")}
UNITS = {"plain": (), "AVX2": ("-mavx2",), "AVX-512": ("-mavx512f",)}
ROUNDS, ENTRIES = 11, 6_000_000
LENGTHS = 16, 64, 4096
CALLS = """
long long rows_raise(double* row, const double* other, double by, double most, long long n, long long times) {
    for (; times; times--) remat_raise(row, other, n, by++, most);
    return 0;
}
long long first_below(const double* row, double bound, long long n, long long times) {
    long long found = 0;
    for (; times; times--) found += remat_first_below(row, 0, n, bound--);
    return found;
}
long long rows_lower(float* row, const float* a, const float* b, float cost, long long n, long long times) {
    for (; times; times--) remat_lower(row, a, b, n, cost--);
    return 0;
}
long long add(int* row, int by, long long n, long long times) {
    for (; times; times--, by = -by) remat_add(row, n, by);
    return 0;
}
long long fold(int* row, int by, long long n, long long times) {
    long long found = 0;
    for (; times; times--, by = -by) found += remat_fold(row, by);
    return found;
}
long long excess(const int* row, int limit, long long n, long long times) {
    long long found = 0;
    for (; times; times--, limit = -limit) found += remat_excess(row, limit);
    return found;
}
long long gather(const long long* indptr, const int* indices, const long long* memory, const int* seen, long long n,
                 long long times) {
    long long found = 0;
    for (long long time = 0; time < times; time++)
        for (long long v = 0; v + 1 < n; v++) {
            long long live = 0;
            for (long long j = indptr[v]; j < indptr[v + 1]; j++)
                live += memory[indices[j]] * (seen[indices[j]] != time);
            found += live;
        }
    return found;
}
long long count_bits(const unsigned long long* words, long long n, long long times) {
    long long found = 0;
    for (long long time = 0; time < times; time++)
        for (long long i = 0; i < n; i++) found += remat_popcount(words[i] ^ time);
    return found;
}
"""
TITLES = {
    "rows_raise": "rows of the frontier of chains of lower sets, `max(x, min(y - a, r))`",
    "first_below": "rows of the exact and the approximate program, next entry below a bound",
    "rows_lower": "rows of chains of stages, `min(x, c + y + z)`",
    "add": "timeline of a plan: bytes between two steps",
    "fold": "timeline: bytes of a block, and its maximum",
    "excess": "timeline: what a block has above the limit",
    "gather": "what figures of blocks and closure bounds do: bytes of the 2.5 values that a node reads",
    "count_bits": "bits of words",
}

MODULES = {  # the kernels in which the loops are
    **dict.fromkeys(["rows_raise", "first_below"], "lower_set_dp"),
    "rows_lower": "chain_table",
    **dict.fromkeys(["add", "fold", "excess"], "live_profile"),
    "gather": "blocks",
    "count_bits": "elimination",
}
SHOWN = ("python", "kernels", "flags", "first use")  # rows of `remat --version --verbose` that name no folder


def compiler() -> list[str] | None:
    """The C compiler of this Python, with its arguments; None if there is none."""
    words = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    return words if shutil.which(words[0]) else None


def libraries(folder: Path) -> dict[str, ctypes.CDLL]:
    """The loops as compiled for each unit that this processor has."""
    texts = [(ROOT / "kernels" / name).read_text(encoding="utf-8") for name in ("vectors.pxd", "bitsets.pxd")]
    loops = [re.search(r'"""\n(.*?)"""', text, re.DOTALL)[1].replace("\\\\\n", "\\\n") for text in texts]
    source = folder / "loops.c"
    source.write_text("\n".join([*loops, CALLS]), encoding="utf-8")
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8") if os.path.exists("/proc/cpuinfo") else ""
    found = {}
    for unit, options in UNITS.items():
        if all(option.removeprefix("-m") in flags for option in options):
            library = folder / f"{unit}.so"
            flags_of_build = ["-O3", "-shared", "-fPIC", "-ffp-contract=off", "-DREMAT_NO_CLONES", *options]
            subprocess.run([*(compiler() or ["cc"]), *flags_of_build, str(source), "-o", str(library)], check=True)
            found[unit] = ctypes.CDLL(str(library))
    return found


def arguments(loop: str, n: int) -> list:
    """Arrays and numbers of a loop over n entries."""
    chance = np.random.default_rng(n)
    whole = aligned(chance.integers(-1000, 1000, n).astype(np.int32))
    if loop == "gather":
        indptr = np.concatenate([[0], np.cumsum(chance.integers(1, 5, n - 1))])
        indices = chance.integers(0, n, indptr[-1]).astype(np.int32)
        return [indptr, indices, chance.integers(1, 1000, n), np.zeros(n, np.int32)]
    return {
        "rows_raise": lambda: [*(aligned(row * 1e6) for row in chance.random((2, n))), 5.0, 9e5],
        "first_below": lambda: [aligned(chance.random(n) + 1), 0.5],
        "rows_lower": lambda: [*(aligned(row) for row in chance.random((3, n), np.float32)), np.float32(0.1)],
        "add": lambda: [whole, np.int32(3)],
        "fold": lambda: [whole, np.int32(3)],
        "excess": lambda: [whole, np.int32(100)],
        "count_bits": lambda: [aligned(chance.integers(0, 2**63, n, np.uint64))],
    }[loop]()


def aligned(row: np.ndarray) -> np.ndarray:
    """A copy that begins with a line of the cache: a short row that is written and read at once is slow elsewhere."""
    room = np.empty(row.nbytes + 64, np.uint8)
    begin = -room.ctypes.data % 64
    copy = room[begin : begin + row.nbytes].view(row.dtype)
    copy[:] = row
    return copy


def call(library: ctypes.CDLL, loop: str, values: list, times: int) -> int:
    """Run a loop of a library."""
    kinds = {np.float32: ctypes.c_float, float: ctypes.c_double, np.int32: ctypes.c_int}
    words = [
        ctypes.c_void_p(value.ctypes.data) if isinstance(value, np.ndarray) else kinds[type(value)](value)
        for value in values
    ]
    function = getattr(library, loop)
    function.restype = ctypes.c_longlong
    return function(*words, ctypes.c_longlong(values[0].size), ctypes.c_longlong(times))


def variants(found: dict[str, ctypes.CDLL], loop: str, n: int) -> dict[str, float]:
    """Nanoseconds for an entry; what all variants compute is compared first."""
    from tests.benchmarks import compiled_peers

    peer = getattr(compiled_peers, loop)
    runs = {unit: lambda values, k, library=library: call(library, loop, values, k) for unit, library in found.items()}
    runs["Numba"] = lambda values, k: peer(*values, k)
    results = []
    for run in runs.values():
        values = arguments(loop, n)
        results.append((run(values, 3), values[0].tolist()))
    assert all(result == results[0] for result in results), f"{loop}: the variants differ"
    values, times = arguments(loop, n), max(1, ENTRIES // n)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            begin = time.process_time()
            run(values, times)
            seconds[name].append(time.process_time() - begin)
    return {name: 1e9 * statistics.median(each) / (times * n) for name, each in seconds.items()}


FIRST_CALL = """
import sys, time
import numpy as np
from tests.benchmarks.compiled import arguments
values = arguments(sys.argv[1], 128)
begin = time.process_time()
from tests.benchmarks import compiled_peers
getattr(compiled_peers, sys.argv[1])(*values, 1)
print(time.process_time() - begin)
"""
LOADED = """
import importlib, sys, time
import numpy as np
begin = time.process_time()
importlib.import_module(f"remat_algos.kernels.{sys.argv[1]}")
print(time.process_time() - begin)
"""


def first_call(program: str, *words: str, cache: Path | None = None) -> float:
    """Seconds that a fresh process prints."""
    command = [sys.executable, "-c", program, *words]
    environment = {**os.environ, **({"NUMBA_CACHE_DIR": str(cache)} if cache else {})}
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, env=environment)
    return float(done.stdout)


def later_calls(folder: Path) -> str:
    """Nanoseconds for an entry, as rows grow, as Markdown."""
    occasion, found = Occasion.now(), libraries(folder)
    columns = [*found, "Numba"]
    rows = []
    for loop, title in TITLES.items():
        for n in [128] if loop in ("fold", "excess") else [4096] if loop == "gather" else LENGTHS:
            times = variants(found, loop, n)
            rows.append([title, f"{n:,}", *(f"{times[name]:.3f}" for name in columns)])
    return f"Measured on {occasion}. CPU nanoseconds for an entry:\n\n{table(['loop', 'entries', *columns], rows)}"


def first_calls(folder: Path) -> str:
    """Milliseconds to the end of the first call, as Markdown."""
    what = "CPU milliseconds to the end of the first call in a fresh process, which has loaded NumPy"
    heads = ["loop", "Cython, its module loaded", "Numba compiles", "Numba from its cache"]
    occasion, rows = Occasion.now(), []
    for loop, title in TITLES.items():
        cache = folder / loop
        cold = first_call(FIRST_CALL, loop, cache=cache)
        warm = statistics.median(first_call(FIRST_CALL, loop, cache=cache) for _ in range(3))
        loaded = statistics.median(first_call(LOADED, MODULES[loop]) for _ in range(3))
        rows.append([title, *(f"{1e3 * seconds:,.0f}" for seconds in (loaded, cold, warm))])
    return f"Measured on {occasion}. {what}:\n\n{table(heads, rows)}"


def kernels(_: Path) -> str:
    """Return the rows of `remat --version --verbose` on kernels, as Markdown."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        print_text(f"remat {remat_algos.__version__}")
        for label, text in installation_rows(installation()):
            if label in SHOWN:
                print_row(label, text)
    return f"```text\n$ remat --version --verbose\n{printed.getvalue()}```"


PARTS = {"kernels": kernels, "later calls": later_calls, "first calls": first_calls}


def main() -> None:
    """Print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write docs/compiled.md and the tables in docs/results")
    parser.add_argument("--only", choices=PARTS, help="one part; that of the kernels is not measured")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        texts = {name: PARTS[name](Path(folder)) for name in ([chosen.only] if chosen.only else PARTS)}
    for text in texts.values():
        print(text)
    if chosen.write:
        for name, text in texts.items():
            if name == "kernels":
                fill(PAGE, name, f"{text}\n\n")
            else:
                RESULTS[name.split()[0]].write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
