"""The one way to make a Numba function here: nogil, and cached by the content of all kernel sources.

Numba's own cache looks at the function's file only, so it serves stale machine code when a callee in another file
changes. Once warm it ignores NUMBA_BOUNDSCHECK and NUMBA_OPT; its index of signatures is not safe for several processes
that write at once; and it unpickles from folders that other users may write. The cache here has one file for each
function and signature, named by a hash of all that changes the code, in a folder that only this user can write.
REMAT_CACHE_DIR says where.

Nothing is read or made on disk before a kernel module is imported, and no folder before the first call of a kernel. So
this module, which imports Numba (0.2 s), is imported by Numba kernels alone, and those inside the functions that call
them.
"""

import contextlib
import functools
import hashlib
import os
import pickle
import stat
import sys
import tempfile
import time
import warnings
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import llvmlite
import numba
import numpy as np
from numba.core import config
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

_VERSIONS = (EXTENSION_SUFFIXES[0], numba.__version__, llvmlite.__version__, np.__version__)
_NOT_CODE = ("CACHE_", "CUDA_", "NUMBA_", "THREADING_")  # settings of Numba that leave the code as it is
_KEPT = 30 * 24 * 3600  # seconds that a file stays after it was last loaded
_DIGEST = hashlib.sha256().digest_size


def njit(function=None, **options):
    """`numba.njit` with nogil and a cache that knows all kernel sources; usable with or without options."""
    if function is None:
        return lambda f: njit(f, **options)
    dispatcher = numba.njit(nogil=True, **options)(function)
    if not config.DISABLE_JIT:  # Numba has no public setting for the cache of one function
        dispatcher._cache = _Cache(function, options)
    return dispatcher


class _Cache(NullCache):
    """Compiled code of one function, a file for each signature.

    Numba calls both methods under its compiler lock. A file is written beside its place and moved there whole, and is
    read whole; its name stands for all that changes its content. So processes need no lock: at worst two compile the
    same, and a file that was removed is compiled anew.
    """

    def __init__(self, function, options):
        self.function = function
        self.options = repr(sorted(options.items()))
        self.file = Path(function.__code__.co_filename).absolute()
        _hash_at_import(self.file.parent)

    @property
    def cache_path(self):
        """Where the files lie, for `dispatcher.stats`; None if nothing is cached."""
        folder = cache_folder()
        return None if folder is None else str(folder)

    def load_overload(self, sig, target_context):
        """The function as another process compiled it, or None."""
        target_context.refresh()
        key, file = self._entry(sig, target_context.codegen())
        data = None if file is None else _read(file)
        if data is None:
            return None
        stored, parts = pickle.loads(data)
        return CompileResult._rebuild(target_context, *parts) if stored == key else None

    def save_overload(self, sig, data):
        """Store a compiled function."""
        key, file = self._entry(sig, data.codegen)
        if file is None:
            return
        if data.library.has_dynamic_globals:
            name = f"{self.function.__module__}.{self.function.__qualname__}"
            warnings.warn(
                f"{name} holds a pointer or a large global array, so each process compiles it; pass it as an argument",
                stacklevel=2,
            )
            return
        _write(file, dumps((key, data._reduce())))
        _remove_unused(file.parent)

    def _entry(self, sig, codegen):
        """Key of a signature, and the file for it; no file where none may be used."""
        sources = source_hash(self.file.parent)
        if sources is None or self.file.suffix != ".py":  # no sources beside the code, or the code is of a prompt
            return None, None
        if sources != _hash_at_import(self.file.parent):  # edited since: the code is not of what lies there now
            return None, None
        if self.function.__closure__:  # its values are part of the code
            return None, None
        folder = cache_folder()
        if folder is None:
            return None, None
        place = (self.function.__module__, self.function.__qualname__, self.function.__code__.co_firstlineno)
        key = (place, self.options, sources, _VERSIONS, _settings(), codegen.magic_tuple(), sig)
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:32]
        return key, folder / f"{self.function.__name__}-{digest}.nbc"


# ---------------------------------------------------------------- what changes the code


def source_hash(folder):
    """Hash of all Python sources in a folder, or None if there is none or one cannot be read."""
    digest = hashlib.sha256()
    try:
        sources = {source.name: source.read_bytes() for source in sorted(folder.glob("*.py"))}
    except OSError:
        return None
    for name, content in sources.items():
        digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    return digest.hexdigest() if sources else None


@functools.cache
def _hash_at_import(folder):
    """The hash when this process imported its first kernel of the folder."""
    return source_hash(folder)


def _settings():
    """Hash of Numba's settings, from the environment or set in `numba.config`; new ones of later versions too."""
    used = sorted((name, repr(value)) for name, value in vars(config).items() if name.isupper())
    return hashlib.sha256(repr([item for item in used if not item[0].startswith(_NOT_CODE)]).encode()).hexdigest()


# ---------------------------------------------------------------- files


def _read(file):
    """Content of a file of this user alone, or None if there is none or it is damaged."""
    try:
        with open(file, "rb") as stream:
            if _refusal(os.fstat(stream.fileno())):
                return None
            content = stream.read()
    except OSError:
        return None
    with contextlib.suppress(OSError):
        os.utime(file)  # in use: `_remove_unused` leaves it
    digest, data = content[:_DIGEST], content[_DIGEST:]
    return data if hashlib.sha256(data).digest() == digest else None


def _write(file, data):
    """Put a file in its place whole, or not at all where that fails: on a full disk, in a folder that was removed."""
    with contextlib.suppress(OSError):
        handle, part = tempfile.mkstemp(dir=file.parent, suffix=".part")
        try:
            with open(handle, "wb") as stream:
                stream.write(hashlib.sha256(data).digest() + data)
            os.replace(part, file)
        except BaseException:
            os.unlink(part)
            raise


def _remove_unused(folder):
    """Remove what no process loaded for a month: code of earlier sources, parts that a killed process left."""
    before = time.time() - _KEPT
    with contextlib.suppress(OSError):
        for file in list(folder.iterdir()):
            with contextlib.suppress(OSError):
                if file.lstat().st_mtime < before:
                    file.unlink()


# ---------------------------------------------------------------- the folder


@functools.cache
def cache_folder():
    """A writable folder of this user alone, made on the first call; None if there is no place for one.

    A folder that the user asked for is used, or else none: it would be no help to write elsewhere.
    """
    asked = os.environ.get("REMAT_CACHE_DIR")
    for place in [asked] if asked else _usual_places():
        folder = Path(place, "numba").absolute()
        try:
            _make_private(folder)
            return folder
        except OSError as error:
            if asked:
                warnings.warn(
                    f"REMAT_CACHE_DIR={asked} is not used and compiled kernels are not kept: {error.filename}: "
                    f"{error.strerror}; set it to a folder that only you can write",
                    RuntimeWarning,
                    stacklevel=2,
                )
    return None


def _usual_places():
    """Folders to try, best first."""
    with contextlib.suppress(RuntimeError):  # no home directory at all
        caches = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME", "")
        yield Path(caches if os.path.isabs(caches) else Path.home() / ".cache", "remat_algos")
    with contextlib.suppress(OSError):  # no temporary folder either
        yield Path(tempfile.gettempdir(), f"remat_algos-{os.getuid() if hasattr(os, 'getuid') else ''}")


def _make_private(folder):
    """Make a folder that only this user can write; OSError if another user could write or exchange it."""
    _make_way(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise PermissionError(None, "is a link", str(folder))
    if reason := _refusal(status):
        raise PermissionError(None, reason, str(folder))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(None, "is not writable", str(folder))


def _make_way(path):
    """Make the folders that lead to a place; OSError if another user could exchange one of them, or a link."""
    if path != path.parent:
        _make_way(path.parent)
    if not os.path.exists(path):
        path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if reason := _refusal(status, way=True):
        raise PermissionError(None, reason, str(path))
    if stat.S_ISLNK(status.st_mode):
        _make_way(path.parent / path.readlink())


def _refusal(status, way=False):
    """Why a folder, link or file is not safe from other users, or "".

    On the way to the folder, root may own what is there, links have no permissions of their own, and in a folder with
    the sticky bit (/tmp) only the owner of an entry can exchange it.
    """
    if not hasattr(os, "getuid"):
        return ""
    if status.st_uid != os.getuid() and not (way and status.st_uid == 0):
        return "belongs to another user"
    if way and (stat.S_ISLNK(status.st_mode) or status.st_mode & stat.S_ISVTX):
        return ""
    return "may be written by other users (`chmod go-w` ends that)" if status.st_mode & 0o022 else ""
