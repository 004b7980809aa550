"""Contents of packages: public names, imported on first use, and modules, found by their files."""

from __future__ import annotations

import importlib
import os
import sys

TYPE_CHECKING = False  # not imported: importing the package must stay fast
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType
    from typing import Any

NAMESPACES = "allocate bounds cost errors executor formats ir models operations plot schedule solvers structure sweeps"
"""The packages, and the module of errors, that have public names of their own."""


def namespace(
    package: str, homes: Mapping[str, str], modules: str = "", library: str = ""
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a package.

    Parameters
    ----------
    package : str
        Dotted name of the package.
    homes : mapping of str to str
        From modules of the package to the public names that they define, separated by blanks.
    modules : str
        Names of public modules of the package.
    library : str
        An optional library that they import, with an extra of its name.

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
    """The end of a message: the place where a name is public, if any."""
    if name.startswith("_"):
        return ""
    spaces = [__package__, *(f"{__package__}.{space}" for space in NAMESPACES.split())]
    public = (f"{space}.{name}" for space in spaces if name in importlib.import_module(space).__all__)
    home = next(public, None)
    return "" if home is None else f"; it is {home}"


def modules_in(package: ModuleType) -> list[str]:
    """Names of the modules in the folder of a package, without leading underscores; none is imported.

    pkgutil finds them too, but is slow to import.

    Examples
    --------
    >>> from remat_algos.formats import graphs
    >>> modules_in(graphs)[:2]
    ['cg_text', 'dot_text']
    """
    files = (file for folder in package.__path__ for file in os.listdir(folder))
    return sorted(file.removesuffix(".py") for file in files if file.endswith(".py") and not file.startswith("_"))
