"""The one way to make a Numba function here: nogil, and cached by the content of all kernels.

Numba's own cache looks at one file only, so it serves stale machine code when a callee in another file changes,
ignores NUMBA_BOUNDSCHECK once warm, and raises at import where nothing is writable. So the cache folder is named by
a hash of everything that can change the code; REMAT_CACHE_DIR says where such folders go.
"""

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
from pathlib import Path

import numba
from numba.core import config

_HERE = Path(__file__).parent


def source_hash(folder=_HERE):
    """Hash of Numba's version, of its bounds check setting, and of every kernel source."""
    digest = hashlib.sha256(f"{numba.__version__} {os.environ.get('NUMBA_BOUNDSCHECK', '')}".encode())
    for source in sorted(Path(folder).glob("*.py")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def _places(name):
    """Folders to try, best first; the last lies in the system's temporary folder, whose sticky bit protects it."""
    if os.environ.get("REMAT_CACHE_DIR"):
        yield Path(os.environ["REMAT_CACHE_DIR"], name)
    elif sys.platform == "win32":
        yield Path(os.environ.get("LOCALAPPDATA") or Path.home(), "remat_algos", name)
    else:
        with contextlib.suppress(RuntimeError):  # no home directory at all
            yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "remat_algos", name)
    with contextlib.suppress(OSError):  # no temporary folder either
        yield Path(tempfile.gettempdir(), f"remat_algos-{os.getuid() if hasattr(os, 'getuid') else ''}-{name}")


def cache_folder(folder=_HERE):
    """A writable folder of this user alone for this state of the kernels, or None."""
    for place in _places(f"numba-{source_hash(folder)}"):
        try:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            status = place.stat()
            if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & stat.S_IWOTH):
                continue  # code of another user is not run
            with tempfile.TemporaryFile(dir=place):
                return place
        except OSError:
            continue
    return None


_CACHE = cache_folder()


def njit(function=None, **options):
    """`numba.njit` with nogil and a cache that knows all kernel sources; usable with or without options."""
    if function is None:
        return lambda f: njit(f, **options)
    usual = config.CACHE_DIR
    config.CACHE_DIR = str(_CACHE or "")
    try:
        return numba.njit(cache=_CACHE is not None, nogil=True, **options)(function)
    finally:
        config.CACHE_DIR = usual
