"""Registries of functions, such as solvers and model families; each function has its own module in a folder."""

import importlib
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, Generic, TypeVar

from remat_algos.errors import ArgumentTypeError
from remat_algos.wording import one_line, shortened, tabulated


def modules_in(package: ModuleType) -> list[str]:
    # `pkgutil` would be slow to import.
    files = (file for folder in package.__path__ for file in os.listdir(folder))
    return sorted(file.removesuffix(".py") for file in files if file.endswith(".py") and not file.startswith("_"))


@dataclass(frozen=True, slots=True, eq=False)
class Registered:
    """A registered function; its signature and its docstring describe it."""

    function: Callable[..., Any]

    COLUMNS: ClassVar[tuple[str, ...]] = ("name", "what it does")

    def __repr__(self) -> str:
        return one_line(self, *(shortened(cell, 90) for cell in self.cells))

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return (inspect.getdoc(self.function) or "").split("\n")[0]

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """The keyword-only parameters of the function."""
        parameters = inspect.signature(self.function).parameters
        return {name: p for name, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}

    @property
    def options(self) -> dict[str, Any]:
        """The options of the function with their defaults."""
        return {name: parameter.default for name, parameter in self.parameters.items()}

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of the function's row under `COLUMNS`."""
        return self.name, self.summary


Entry = TypeVar("Entry", bound=Registered)


class Entries(list[Entry]):
    """A list of registered functions that is shown as a table."""

    def __repr__(self) -> str:
        return "\n".join(tabulated(self[0].COLUMNS, [entry.cells for entry in self])) if self else "[]"

    __str__ = __repr__


def check_brackets(decorator: str, function: object) -> None:
    """Raise TypeError if a decorator was written without parentheses, so that it received the function itself."""
    if function is not None:
        name = shortened(getattr(function, "__name__", function))
        raise ArgumentTypeError(
            "@{decorator!w} above {name!w} has no parentheses; write @{decorator!w}()", decorator=decorator, name=name
        )


class Registry(Generic[Entry]):
    """Registered functions by name; each has a file in a package, which is imported on first use."""

    def __init__(self, package: ModuleType) -> None:
        self.package = package
        self.entries: dict[str, Entry] = {}

    def add(self, entry: Entry) -> None:
        """Register a function. A function of the package does not replace a user's function of the same name."""
        home = f"{self.package.__name__}.{entry.name}"
        earlier = self.entries.get(entry.name, entry)
        if entry.function.__module__ != home or earlier.function.__module__ == home:
            self.entries[entry.name] = entry

    def all(self) -> Entries[Entry]:
        for name in modules_in(self.package):
            importlib.import_module(f"{self.package.__name__}.{name}")
        return Entries(self.entries[name] for name in sorted(self.entries))

    def get(self, name: str) -> Entry | None:
        """Return the function called `name`, or None. Other modules of the package are not imported."""
        if name not in self.entries and name in modules_in(self.package):
            importlib.import_module(f"{self.package.__name__}.{name}")
        return self.entries.get(name)
