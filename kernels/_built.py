"""Check that the compiled kernels were built from the sources beside them."""

import hashlib
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

STAMP = "_built.txt"  # written by setup.py beside the compiled kernels
SHARED = "_cyutility"  # helpers of Cython for all kernels, compiled once


def source_hash(folder: Path) -> str:
    """Hash of every Cython source in a folder."""
    digest = hashlib.sha256()
    for source in sorted([*folder.glob("*.pyx"), *folder.glob("*.pxd")]):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def build_fault(folder: Path) -> str | None:
    """The fault of the compiled kernels in a folder, or None."""
    files = {file.name for file in folder.iterdir()}
    names = [SHARED, *(file.stem for file in folder.glob("*.pyx"))]
    if STAMP not in files or not all(any(name + end in files for end in EXTENSION_SUFFIXES) for name in names):
        return "the kernels of remat_algos are not built"
    if (folder / STAMP).read_text(encoding="utf-8").split()[:1] != [source_hash(folder)]:
        return "the kernels of remat_algos were built from other sources than those beside them"
    return None
