"""The folder for results that are cached between processes."""

import functools
import os
import stat
import sys
import warnings
from pathlib import Path


def cache_place() -> Path:
    """Return REMAT_CACHE_DIR or, if it is not set, the default path. Raise RuntimeError if there is no home folder."""
    caches = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME", "")
    return Path(
        os.environ.get("REMAT_CACHE_DIR")
        or Path(caches if os.path.isabs(caches) else Path.home() / ".cache", "remat_algos")
    ).absolute()


@functools.cache
def cache_folder(name: str, content: str) -> Path | None:
    """Return a private folder of the cache, created if missing.

    If other users can write to it, warn that `content` is not cached, and return None. A temporary folder is not used
    instead, since another user could create a folder with that name first.
    """
    try:
        folder = cache_place() / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or not is_private(status):
            msg = f"{str(folder)!r} is a link, or other users can write to it"
            raise OSError(msg)
    except (OSError, RuntimeError) as error:  # RuntimeError: no home directory
        warnings.warn(
            f"{content} are not kept: {error}; set REMAT_CACHE_DIR to a folder that only you can write to",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return folder


def is_private(status: os.stat_result) -> bool:
    """Return True if only this user can write to a file or folder; always True on Windows, which has no such modes."""
    return not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o022)
