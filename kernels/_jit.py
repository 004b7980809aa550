"""The one way to make a Numba function here: nogil, and cached by the content of all kernel sources.

Numba's own cache looks at the function's file only, so it serves stale machine code when a callee in another file
changes; once warm it ignores NUMBA_BOUNDSCHECK; and it unpickles from folders that other users may write. Its index of
signatures is rewritten whole, so two processes that add signatures at once lose one, or load the code of the other: it
would need a lock between processes. A file for each function and signature, named by a hash of all that changes the
code, needs no lock and is shorter.

Importing this module imports Numba (0.2 s), so only Numba kernels import it, and their callers import them in the
function that calls them. The cache folder is made by the first call.
"""

import contextlib
import functools
import hashlib
import os
import pickle
import tempfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import llvmlite
import numba
import numpy as np
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from remat_algos.cache_folder import cache_folder, is_private

_VERSIONS = (EXTENSION_SUFFIXES[0], numba.__version__, llvmlite.__version__, np.__version__)
_DIGEST_SIZE = hashlib.sha256().digest_size


def njit(function=None, **options):
    """`numba.njit` with nogil and a cache that knows all kernel sources; usable with or without options.

    Functions without a file (at a prompt) and closures (their values are part of the code) are not cached.
    """
    if function is None:
        return functools.partial(njit, **options)
    dispatcher = numba.njit(nogil=True, **options)(function)
    if not numba.config.DISABLE_JIT and os.path.isfile(function.__code__.co_filename) and not function.__closure__:
        dispatcher._cache = _Cache(function, options)  # Numba has no public setting for the cache of one function
    return dispatcher


class _Cache(NullCache):
    """Compiled code of one function, a file for each signature.

    A file is written under another name and moved to its place, so no process sees half of one. It begins with a digest
    of its name and the rest: unpickling what a disk or a copy has damaged raises errors of many kinds, or loads other
    machine code. Processes that compile the same signature at once write the same code; a file that is removed or
    damaged is compiled anew.
    """

    def __init__(self, function, options):
        code = function.__code__
        self.name = function.__name__
        self.sources = Path(code.co_filename).absolute().parent
        self.key = (function.__module__, function.__qualname__, code.co_firstlineno, sorted(options.items()))
        _hash_at_import(self.sources)

    def load_overload(self, sig, target_context):
        """The function as compiled by another process, or None."""
        target_context.refresh()
        file = self._file(sig, target_context.codegen())
        parts = None if file is None else _read(file)
        return None if parts is None else CompileResult._rebuild(target_context, *parts)

    def save_overload(self, sig, data):
        """Store a compiled function, except one that holds an address of this process."""
        file = self._file(sig, data.codegen)
        if file is not None and not data.library.has_dynamic_globals:
            _write(file, dumps(data._reduce()))

    def _file(self, sig, codegen):
        """The file for the code of a signature, named by all that changes the code; None if it is not cached."""
        folder, sources = cache_folder("numba", "compiled kernels"), _hash_at_import(self.sources)
        if folder is None or sources is None or sources != source_hash(self.sources):  # edited since
            return None
        config = sorted(vars(numba.config).items())
        settings = [(name, value) for name, value in config if name.isupper() and "NUM_THREADS" not in name]
        key = (self.key, sources, _VERSIONS, settings, codegen.magic_tuple(), sig)  # magic_tuple: the processor
        return folder / f"{self.name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}.nbc"


def source_hash(folder):
    """Hash of all Python sources in a folder, or None if one cannot be read."""
    try:
        sources = [(source.name, source.read_bytes()) for source in sorted(folder.glob("*.py"))]
    except OSError:
        return None
    return hashlib.sha256(repr(sources).encode()).hexdigest()


_hash_at_import = functools.cache(source_hash)  # at the import of the first kernel of the folder in this process


def _digest(file, data):
    """Digest of the name and the data: the code of another function or signature is useless."""
    return hashlib.sha256(file.name.encode() + b"\0" + data).digest()


def _read(file):
    """The object in a whole file of this user, or None."""
    try:
        with open(file, "rb") as stream:
            content = stream.read() if is_private(os.fstat(stream.fileno())) else b""
    except OSError:  # none there
        return None
    digest, data = content[:_DIGEST_SIZE], content[_DIGEST_SIZE:]
    return pickle.loads(data) if digest == _digest(file, data) else None


def _write(file, data):
    """Write a whole file, or none: on a full disk, in a missing or read-only folder."""
    with contextlib.suppress(OSError):
        handle, part = tempfile.mkstemp(dir=file.parent)
        try:
            with open(handle, "wb") as stream:
                stream.write(_digest(file, data) + data)
            os.replace(part, file)
        except BaseException:
            os.unlink(part)
            raise
