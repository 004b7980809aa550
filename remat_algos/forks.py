"""Forks beside running threads: the child inherits their locks, which no thread of it will ever release."""

import importlib._bootstrap as bootstrap
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")

PATIENCE = 10_000
"""Milliseconds to wait for the imports of other threads."""


class cached_property(Generic[Result]):
    """An attribute that is computed once, as `functools.cached_property` does without its lock, which Python 3.11 has.

    Examples
    --------
    >>> class Circle:
    ...     @cached_property
    ...     def area(self):
    ...         return 3
    >>> circle = Circle()
    >>> circle.area, vars(circle)
    (3, {'area': 3})
    """

    def __init__(self, function: Callable[[Any], Result]) -> None:
        self.function, self.name, self.__doc__ = function, function.__name__, function.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Result:
        if instance is None:
            return self  # type: ignore[return-value]
        return instance.__dict__.setdefault(self.name, self.function(instance))


def release_after_fork(lock: threading.Lock, in_child: Callable[[], None] = lambda: None) -> None:
    """Let forks wait for a lock, so that it is free in both processes; `in_child` runs before it is released there."""
    held = list[threading.Lock]()  # empty if the lock was registered in the middle of a fork

    def acquire() -> None:
        lock.acquire()
        held.append(lock)

    def release() -> None:
        if held:
            held.pop().release()

    def release_in_child() -> None:
        in_child()
        release()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=acquire, after_in_parent=release, after_in_child=release_in_child)


def wait_for_imports() -> None:
    """Wait while other threads import modules: the child would wait for their locks for ever.

    Modules are imported when they are first needed, so solving threads import many.
    """
    own, locks = threading.get_ident(), getattr(bootstrap, "_module_locks", {})
    for _ in range(PATIENCE):
        if not any(_is_locked(reference(), own) for reference in list(locks.values())):
            return
        time.sleep(0.001)


def _is_locked(lock: object, own: int) -> bool:
    return getattr(lock, "owner", None) not in (None, own)
