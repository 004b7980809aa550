"""Public names of a package that are imported when they are first used."""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False  # not imported: this is loaded with the package, which loads nothing that takes time
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def namespace(
    package: str, homes: Mapping[str, str], modules: str = ""
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """What a package calls `__all__`, `__getattr__` and `__dir__`.

    Parameters
    ----------
    package : str
        Its dotted name.
    homes : mapping of str to str
        A module below the package to the public names that it defines, with blanks between them.
    modules : str
        Names of modules below the package that are public themselves.

    Examples
    --------
    >>> names, get, _ = namespace("remat_algos.models", {"registry": "build list_models"}, "random")
    >>> names, get("build").__module__, get("random").__name__
    (['build', 'list_models', 'random'], 'remat_algos.models.registry', 'remat_algos.models.random')
    """
    home = {name: f"{package}.{module}" for module, names in homes.items() for name in names.split()}
    rooms = modules.split()

    def get(name: str) -> Any:
        if name in rooms:
            return importlib.import_module(f"{package}.{name}")
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(home[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    names = [*home, *rooms]
    return names, get, lambda: sorted(names)
