"""Keep the debugging lines of HiGHS out of standard output."""

import functools
import os
import platform
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from remat_algos.forks import release_after_fork

# HiGHS prints lines that begin with this, regardless of its options.
DEBUG_LINE = b"HighsMipSolverData::"


class _Diversion:
    """The diversion of C's own `stdout`, not Python's, to a file while threads are inside HiGHS."""

    lock = threading.Lock()
    users = 0
    usual: int | None = None  # C's original `stdout`
    # The C stream of an unnamed file. It is never closed, since another thread may be about to print to it.
    stream: int | None = None


@contextmanager
def without_debug_lines() -> Iterator[None]:
    """Keep debugging lines of HiGHS (C's `puts`) out of standard output, where a command may print JSON."""
    state, c = _Diversion, c_library()
    if c is None:
        yield
        return
    with state.lock:
        state.users += 1
        if state.users == 1:
            _divert(state, *c)
    try:
        yield
    finally:
        with state.lock:
            state.users -= 1
            if state.users == 0:
                _restore(state, *c)


def _in_child() -> None:
    """Restore C's `stdout` in a child that was forked while threads were inside HiGHS; the parent keeps the file."""
    state, c = _Diversion, c_library()
    if state.usual is not None and c is not None:
        c[1].value = state.usual
    state.users, state.usual, state.stream = 0, None, None


release_after_fork(_Diversion.lock, _in_child)


@functools.cache
def c_library() -> tuple[Any, Any] | None:
    """Return the C library and its variable `stdout`, or None if that cannot be set, as on Windows and with musl."""
    import ctypes

    name = "__stdoutp" if sys.platform == "darwin" else "stdout"
    if name == "stdout" and platform.libc_ver()[0] != "glibc":
        return None
    library = ctypes.CDLL(None)
    library.tmpfile.restype = ctypes.c_void_p
    for function in (library.fileno, library.fflush, library.rewind):
        function.argtypes = (ctypes.c_void_p,)
    library.fwrite.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p)
    return library, ctypes.c_void_p.in_dll(library, name)


def _divert(state: type[_Diversion], library: Any, stdout: Any) -> None:
    state.stream = state.stream or library.tmpfile()
    # If no temporary file can be created, the debugging lines are printed.
    if state.stream is not None:
        state.usual, stdout.value = stdout.value, state.stream


def _restore(state: type[_Diversion], library: Any, stdout: Any) -> None:
    if state.usual is None:
        return
    stdout.value = usual = state.usual
    state.usual = None
    library.fflush(state.stream)
    file = library.fileno(state.stream)
    written = os.pread(file, os.fstat(file).st_size, 0)
    rest = b"".join(line for line in written.splitlines(keepends=True) if not line.startswith(DEBUG_LINE))
    os.ftruncate(file, 0)
    library.rewind(state.stream)
    library.fwrite(rest, 1, len(rest), usual)
