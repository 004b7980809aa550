"""The text of a file."""

import os
from pathlib import Path

from remat_algos.errors import GraphError


def read_text(path: str | os.PathLike[str], remedy: str | None = None) -> str:
    r"""The text of a file of UTF-8, without the mark that may begin it; GraphError if it has none.

    Parameters
    ----------
    path : path
    remedy : str, optional
        What to do, in both complaints; by default each has its own.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp()) / "graph.txt"
    >>> _ = file.write_bytes(b"\xef\xbb\xbfA B\n")
    >>> read_text(file)
    'A B\n'
    """
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        todo = remedy or "save the file as UTF-8"
        raise GraphError(f"{Path(path).name}: byte {error.start} is not UTF-8 text; {todo}") from error
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        reason = error.strerror if isinstance(error, OSError) else error
        raise GraphError(f"{path}: cannot be read ({reason}); {remedy or 'give a file that is there'}") from error
