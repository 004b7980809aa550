"""Import of optional libraries."""

import importlib
from types import ModuleType

from remat_algos.wording import first_line


def require(module: str, extra: str) -> ModuleType:
    """Import a module of an optional library; if that fails, ImportError has the command that installs this extra."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        remedy = f"install it: python -m pip install 'remat_algos[{extra}]'"
        msg = f"{library} cannot be imported ({first_line(error)}); {remedy}"
        raise ImportError(msg, name=error.name) from error
