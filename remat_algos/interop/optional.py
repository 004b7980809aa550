"""Import of optional libraries."""

import importlib
from types import ModuleType

from remat_algos.wording import first_line, install_command


def require(module: str, extra: str) -> ModuleType:
    """Import a module of an optional library; if that fails, the ImportError contains the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        msg = (
            f"{library} cannot be imported ({first_line(error)}); install it, from a checkout: {install_command(extra)}"
        )
        raise ImportError(msg, name=error.name) from error
