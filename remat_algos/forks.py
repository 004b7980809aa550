"""Safe forks while threads run: a child inherits locked locks, but no thread that would release them."""

import importlib._bootstrap as bootstrap
import os
import time
from _thread import LockType as Lock
from _thread import get_ident
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")

IMPORTED = (f"{__name__.partition('.')[0]}.", "numpy.", "scipy.")
"""Modules that solver threads may import during a fork; NumPy imports some only on the first call of a function."""


class cached_property(Generic[Result]):
    """`functools.cached_property` without its lock in Python 3.11, which a fork could leave locked in the child."""

    def __init__(self, function: Callable[[Any], Result]) -> None:
        self.function, self.name, self.__doc__ = function, function.__name__, function.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Result:
        if instance is None:
            return self  # type: ignore[return-value]
        return instance.__dict__.setdefault(self.name, self.function(instance))


_locks: list[tuple[Lock, Callable[[], None]]] = []
_acquired: list[tuple[Lock, Callable[[], None]]] = []


def release_after_fork(lock: Lock, in_child: Callable[[], None] = lambda: None) -> None:
    """Register a lock that forks acquire first, so that no other thread owns it; `in_child` then runs in the child."""
    _locks.append((lock, in_child))


def _before() -> None:
    """Acquire the locks while no other thread imports a module; a child would wait forever for such an import."""
    latest = time.monotonic() + 5.0
    while True:
        for each in tuple(_locks):
            each[0].acquire()
            _acquired.append(each)
        if not _others_import() or time.monotonic() > latest:
            return
        _in_parent()  # imports may need the locks
        time.sleep(0.001)


def _in_parent() -> None:
    while _acquired:
        _acquired.pop()[0].release()


def _in_child() -> None:
    while _acquired:
        lock, in_child = _acquired.pop()
        in_child()
        lock.release()


def wait_at_forks() -> None:
    """Register the handlers for forks; called once, when the package is imported."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)


def _others_import() -> bool:
    own, locks = get_ident(), getattr(bootstrap, "_module_locks", {})
    return any(_is_locked(lock(), own) for name, lock in list(locks.items()) if name.startswith(IMPORTED))


def _is_locked(lock: object, own: int) -> bool:
    return getattr(lock, "owner", None) not in (None, own)
