"""The `__init__.pyi` of the package and of its namespaces, from which editors and mypy know the public names.

`python docs/stubs.py` writes them; a test compares.
"""

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import remat_algos

ROOT = Path(remat_algos.__file__).parent


def namespaces() -> dict[str, ModuleType]:
    """The package, and each of its namespaces that is a package, by dotted name."""
    rooms = [getattr(remat_algos, name) for name in remat_algos.__all__]
    modules = [remat_algos, *(room for room in rooms if isinstance(room, ModuleType) and hasattr(room, "__path__"))]
    return {module.__name__: module for module in modules}


def stub(module: ModuleType) -> str:
    """The text of the `__init__.pyi` of a package."""
    imports, definitions = set[str](), list[str]()
    for name in sorted(module.__all__):
        found = getattr(module, name)
        if module is remat_algos and name in remat_algos._READING:
            needed, definition = reading(inspect.unwrap(found))
            imports |= {line for used, line in needed.items() if used not in module.__all__}
            definitions.append(definition)
        else:
            home = module.__name__ if isinstance(found, ModuleType) else found.__module__
            imports.add(f"from {home} import {name} as {name}")
    version = ["__version__: str"] if hasattr(module, "__version__") else []
    return "\n".join(["# Written by docs/stubs.py.", *sorted(imports), *version, *definitions, ""])


def reading(function: Callable[..., Any]) -> tuple[dict[str, str], str]:
    """What the definition of a function imports that takes the path of a graph too, by name, and this definition.

    An import `as` its own name would be exported by the stub.
    """
    tree = ast.parse(Path(inspect.getfile(function)).read_text(encoding="utf-8"))
    (defined,) = (each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == function.__name__)
    taken = defined.args
    taken.args[0].annotation = ast.parse("ComputationGraph | str | PathLike[str]", mode="eval").body
    taken.defaults = [ast.Constant(...) for _ in taken.defaults]
    taken.kw_defaults = [each and ast.Constant(...) for each in taken.kw_defaults]
    defined.body, defined.decorator_list = [ast.Expr(ast.Constant(...))], []
    text = ast.unparse(defined).replace("\n    ", " ")
    used = {node.id for node in ast.walk(defined) if isinstance(node, ast.Name)}
    imports = {"PathLike": "from os import PathLike"}
    for node in tree.body:
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            if alias.name in used:
                imports[alias.name] = f"from {node.module} import {alias.name}"
            used.discard(alias.name)
    known = vars(inspect.getmodule(function))
    for name in used & known.keys() - {function.__name__}:
        is_module = isinstance(known[name], ModuleType)
        imports[name] = f"import {name}" if is_module else f"from {function.__module__} import {name}"
    return imports, text


def stubs() -> dict[Path, str]:
    """File to text."""
    folders = {name: ROOT.joinpath(*name.split(".")[1:]) for name in namespaces()}
    return {folders[name] / "__init__.pyi": stub(module) for name, module in namespaces().items()}


if __name__ == "__main__":
    for file, text in stubs().items():
        file.write_text(text, encoding="utf-8")
