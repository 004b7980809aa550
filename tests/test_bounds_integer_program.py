"""Programs over 0/1 variables: what happens to standard output meanwhile."""

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

from remat_algos.bounds.integer_program import (
    FREE,
    ProgramRows,
    solve_integer_program,
)
from remat_algos.c_output import DEBUG_LINE, c_library, without_debug_lines

of_c = pytest.mark.skipif(c_library() is None, reason="C's stdout cannot be set here")


def printed(program):
    """What a process of its own has written to a pipe in the end; C keeps the lines of a pipe in a buffer."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, env=kept, check=True)
    return done.stdout.decode().splitlines()


@of_c
def test_of_what_c_prints_the_debugging_lines_are_left_out():
    lines = printed(f"""
        import ctypes
        from remat_algos.c_output import without_debug_lines
        c = ctypes.CDLL(None)
        c.puts(b"C before")
        for k in range(2):
            with without_debug_lines():
                c.puts({DEBUG_LINE!r} + b"transform")
                c.puts(b"C meanwhile %d" % k)
                print("Python", flush=True)
                with without_debug_lines():
                    c.puts({DEBUG_LINE!r} + b"a second thread")
                c.puts({DEBUG_LINE!r} + b"transform")
        c.puts(b"C after")
    """)
    assert lines == ["Python", "Python", "C before", "C meanwhile 0", "C meanwhile 1", "C after"]


def program():
    """One that takes HiGHS some milliseconds."""
    rng = np.random.default_rng(1)
    cost, amounts, rows = rng.uniform(50, 99, 20), rng.integers(1, 60, (20, 20)), ProgramRows()
    for each in amounts:
        rows.add(np.arange(20)[:, np.newaxis], each, low=300)
    return cost, rows, np.full(20, FREE)


def test_a_row_is_one_of_the_free_variables_and_the_rest_of_its_bounds():
    """3a - b + c >= 4 and 3c - d + a >= 4 in halves, where b = 1, d = 0.5 and c is free: 1.5a + 0.5c >= 2.5."""
    rows = ProgramRows()
    rows.add(np.array([[0, 2], [1, 3], [2, 0]]), [3, -1, 1], low=4, unit=2)
    rows.add(np.array([[3]]), [2], high=5)
    matrix, low, high = rows.table(np.array([FREE, 1, FREE, 0.5]))
    assert matrix.toarray().tolist() == [[1.5, 0.5], [0.5, 1.5], [0, 0]]
    assert (low.tolist(), high.tolist()) == ([2.5, 2.25, -np.inf], [np.inf, np.inf, 4])


def test_standard_output_is_that_of_the_other_threads_while_a_program_is_solved(capfd):
    """They see the same file, and what they and their processes print is there at once, not when HiGHS is done."""
    usual, done, seen = os.fstat(1), threading.Event(), []

    def other():
        while not done.wait(0.001):
            os.write(1, b"thread\n")
            seen.append(os.path.samestat(os.fstat(1), usual))

    thread = threading.Thread(target=other)
    thread.start()
    try:
        with without_debug_lines():
            solve_integer_program(*program())
            subprocess.run(["echo", "process"], check=True)
            meanwhile = os.pread(1, 1 << 20, 0)  # capfd would empty the file, and lose a line written just then
    finally:
        done.set()
        thread.join()
    assert b"process\n" in meanwhile
    assert capfd.readouterr().out.count("thread\n") == len(seen) > 2
    assert all(seen)


@of_c
def test_a_closed_standard_output_is_no_trouble():
    lines = printed("""
        import os
        from remat_algos.c_output import without_debug_lines
        pipe = os.dup(1)
        os.close(1)
        with without_debug_lines():
            pass
        os.write(pipe, b"done")
    """)
    assert lines == ["done"]
