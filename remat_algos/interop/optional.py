"""Libraries that only some installations have."""

import contextlib
import importlib
from collections.abc import Iterator
from types import ModuleType

from remat_algos.errors import GraphError
from remat_algos.text.wording import first_line


def require(module: str, extra: str) -> ModuleType:
    """A module of an optional library.

    Parameters
    ----------
    module : str
        Its dotted name.
    extra : str
        The extra of this package that installs it.

    Raises
    ------
    ImportError
        With the command that installs it.

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
        raise ImportError(f"{library} cannot be imported ({first_line(error)}); {remedy}", name=error.name) from error


@contextlib.contextmanager
def reading_needs(extra: str, form: str, source: str) -> Iterator[None]:
    """Turn the ImportError of a library, needed to read a file, into a GraphError.

    Parameters
    ----------
    extra : str
        The extra of this package that installs it; the library is called so too.
    form : str
        The format of the file.
    source : str
        The name of the file.

    Raises
    ------
    GraphError
        With the command that installs it.

    Examples
    --------
    >>> with reading_needs("onnx", "ONNX", "m"):
    ...     raise ModuleNotFoundError("No module named 'onnx'", name="onnx")
    Traceback (most recent call last):
    remat_algos.errors.GraphError: m: reading ONNX needs onnx; install it: python -m pip install 'remat_algos[onnx]'
    """
    try:
        yield
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) or "No module named" in str(error)
        fault = "" if missing else f", which cannot be imported ({first_line(error)})"
        remedy = f"install it: python -m pip install 'remat_algos[{extra}]'"
        raise GraphError(f"{source}: reading {form} needs {extra}{fault}; {remedy}") from error
