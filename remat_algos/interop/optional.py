"""Import of optional libraries."""

import importlib
from types import ModuleType

from remat_algos.wording import first_line


def require(module: str, extra: str) -> ModuleType:
    """Import a module of an optional library.

    Parameters
    ----------
    module : str
        Dotted name.
    extra : str
        The extra of this package that installs it.

    Raises
    ------
    ImportError
        If it fails, with the command that installs the library.

    Examples
    --------
    >>> require("json", "onnx").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        remedy = f"install it: python -m pip install 'remat_algos[{extra}]'"
        msg = f"{library} cannot be imported ({first_line(error)}); {remedy}"
        raise ImportError(msg, name=error.name) from error
