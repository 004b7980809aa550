"""Check that the compiled kernels were built from the sources in this folder."""

import hashlib
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

# Name of the file that setup.py writes next to the compiled kernels.
STAMP = "_built.txt"
# Name of the module with Cython's own helpers, which all kernels share.
SHARED = "_cyutility"


def source_hash(folder: Path) -> str:
    """Return a hash of all Cython sources in a folder."""
    digest = hashlib.sha256()
    for source in sorted([*folder.glob("*.pyx"), *folder.glob("*.pxd")]):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def build_fault(folder: Path) -> str | None:
    """Return what is wrong with the compiled kernels in a folder, or None if they match the sources."""
    files = {file.name for file in folder.iterdir()}
    names = [SHARED, *(file.stem for file in folder.glob("*.pyx"))]
    if STAMP not in files or not all(any(name + end in files for end in EXTENSION_SUFFIXES) for name in names):
        return "the kernels of remat_algos are not built"
    if (folder / STAMP).read_text(encoding="utf-8").split()[:1] != [source_hash(folder)]:
        return "the kernels of remat_algos do not match their sources"
    return None
