"""Pictures as files."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from remat_algos.arguments import check_kind, checked_arguments
from remat_algos.errors import ArgumentError
from remat_algos.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Metadata to omit: dates and versions, which would make two files of the same figure differ.
UNDATED: dict[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}


def picture_format(path: str | os.PathLike[str]) -> str:
    """Return the format that the extension of a path names; raise ValueError if it is not supported."""
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in UNDATED:
        raise ArgumentError(
            "{path!p}: the ending is not a picture format; use one of {endings!l}",
            path=path,
            endings=[f".{kind}" for kind in UNDATED],
        )
    return kind


@checked_arguments
def save(picture: Axes | Figure, path: str | os.PathLike[str], *, dpi: int = 150) -> None:
    """Write a figure to a file atomically; the same figure gives the same bytes.

    Parameters
    ----------
    picture : Axes or Figure
        If axes are given, their figure is saved.
    path : path
        The extension selects the format: png, svg or pdf.
    dpi : int
        Resolution of a png, in dots per inch.

    Raises
    ------
    ValueError
        If the extension is not supported.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from remat_algos import plot
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> file = Path(mkdtemp()) / "chain.svg"
    >>> plot.save(plot.graph(ComputationGraph.from_edges([("A", "B")])), file)
    >>> file.read_bytes()[:5]
    b'<?xml'
    """
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    check_kind(picture, Axes, "picture", Figure)
    if dpi < 1:
        raise ArgumentError("dpi is {dpi}; give 1 or more", dpi=dpi)
    write_whole(Path(path), picture_bytes(picture, picture_format(path), dpi))


def picture_bytes(picture: Axes | Figure, kind: str, dpi: int = 150) -> bytes:
    """Return the file contents of a figure in the format `kind`; the same figure gives the same bytes."""
    import matplotlib

    data = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "remat"}):
        picture.figure.canvas.figure.savefig(data, format=kind, dpi=dpi, bbox_inches="tight", metadata=UNDATED[kind])
    return data.getvalue()
