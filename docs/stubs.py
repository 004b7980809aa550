"""The `__init__.pyi` of the package and of its namespaces, from which editors and mypy know the public names.

`python docs/stubs.py` writes them; a test compares.
"""

from pathlib import Path
from types import ModuleType

import remat_algos

ROOT = Path(remat_algos.__file__).parent


def namespaces() -> dict[str, ModuleType]:
    """The package, and each of its namespaces that is a package, by dotted name."""
    rooms = [getattr(remat_algos, name) for name in remat_algos.__all__]
    modules = [remat_algos, *(room for room in rooms if isinstance(room, ModuleType) and hasattr(room, "__path__"))]
    return {module.__name__: module for module in modules}


def stub(module: ModuleType) -> str:
    """The text of the `__init__.pyi` of a package."""
    imports = []
    for name in module.__all__:
        found = getattr(module, name)
        home = module.__name__ if isinstance(found, ModuleType) else getattr(found, "__wrapped__", found).__module__
        imports.append(f"from {home} import {name} as {name}\n")
    version = "\n__version__: str\n" if hasattr(module, "__version__") else ""
    return f"# Written by docs/stubs.py.\n{''.join(sorted(imports))}{version}"


def stubs() -> dict[Path, str]:
    """File to text."""
    folders = {name: ROOT.joinpath(*name.split(".")[1:]) for name in namespaces()}
    return {folders[name] / "__init__.pyi": stub(module) for name, module in namespaces().items()}


if __name__ == "__main__":
    for file, text in stubs().items():
        file.write_text(text, encoding="utf-8")
