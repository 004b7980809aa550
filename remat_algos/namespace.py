"""What a package holds: public names that are imported when they are first used, and modules found by their files."""

from __future__ import annotations

import importlib
import os
import sys

TYPE_CHECKING = False  # not imported: this is loaded with the package, which loads nothing that takes time
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType
    from typing import Any

NAMESPACES = "allocate bounds cost errors executor formats ir models operations plot schedule solvers structure"
"""The packages, and the module of errors, that have public names of their own."""


def namespace(
    package: str, homes: Mapping[str, str], modules: str = "", library: str = ""
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
    library : str
        An optional library that they import; an extra of ours has its name.

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
            raise AttributeError(f"module {package!r} has no attribute {name!r}{_hint(name)}")
        try:
            module = importlib.import_module(home[name])
        except ModuleNotFoundError as error:
            if library and error.name == library:
                remedy = f"install it: python -m pip install '{__package__}[{library}]'"
                raise ImportError(f"{library} is not installed; {remedy}", name=library) from error
            raise
        found = getattr(module, name)
        setattr(sys.modules[package], name, found)
        return found

    names = [*home, *rooms]
    return names, get, lambda: sorted(names)


def _hint(name: str) -> str:
    """The end of a message: where a name is public that was looked for elsewhere."""
    if name.startswith("_"):
        return ""
    spaces = [__package__, *(f"{__package__}.{space}" for space in NAMESPACES.split())]
    public = (f"{space}.{name}" for space in spaces if name in importlib.import_module(space).__all__)
    home = next(public, None)
    return "" if home is None else f"; it is {home}"


def modules_in(package: ModuleType) -> list[str]:
    """Names of the modules in the folder of a package, those with a leading underscore apart; none is imported.

    pkgutil finds them too, but is slow to import.

    Examples
    --------
    >>> from remat_algos.formats import graphs
    >>> modules_in(graphs)[:2]
    ['cg_text', 'dot_text']
    """
    files = (file for folder in package.__path__ for file in os.listdir(folder))
    return sorted(file.removesuffix(".py") for file in files if file.endswith(".py") and not file.startswith("_"))
