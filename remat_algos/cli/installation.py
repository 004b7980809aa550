"""remat --version --verbose: list libraries, compiled kernels and the cache."""

from __future__ import annotations

import os
import platform
import re
import runpy
import sys
import sysconfig
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import remat_algos
from remat_algos.cache_folder import cache_place
from remat_algos.wording import counted

LIBRARIES = ("numpy", "scipy", "matplotlib", "rich")
OPTIONAL = ("networkx", "pydot", "onnx", "jax", "torch", "torchvision", "cupy", "numba")
# CuPy has several distribution names.
CUPY = ("cupy-cuda13x", "cupy-cuda12x", "cupy")
VARIABLE = "REMAT_CACHE_DIR"
CUDA_FUNCTION = re.compile(r"__global__\s+void\s+(\w+)")


def installation() -> dict[str, Any]:
    """Return the versions, kernels, code compiled on first use, cache and libraries; no library is imported."""
    places = [Path(place, "kernels") for place in remat_algos.__path__]
    folder = next(place for place in places if (place / "_built.py").exists())
    return {
        "version": remat_algos.__version__,
        "python": {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "platform": sysconfig.get_platform(),
            "executable": sys.executable,
        },
        "kernels": _kernels(folder),
        "first_use": _first_use(folder),
        "cache": _cache(),
        "libraries": {name: _version(name) for name in (*LIBRARIES, *OPTIONAL)},
    }


def installation_rows(record: dict[str, Any]) -> list[tuple[str, str]]:
    python, kernels, cache = record["python"], record["kernels"], record["cache"]
    built, missing = kernels["built"], kernels["missing"]
    unbuilt = f"; not built: {', '.join(missing)}" if missing else ""
    compiler = f", compiled with Cython {kernels['cython']}" if kernels["cython"] else ""
    sources = f"{kernels['sources']}, {kernels['fault'] or 'from which the kernels were built'}"
    cuda = [f"{entry['file']} ({', '.join(entry['functions'])})" for entry in record["first_use"] if entry["file"]]
    rules = "rules of your own" if record["libraries"]["numba"] else "nothing, since it is not installed"
    cached = ", ".join(counted(cache[kind], kind[:-1]) for kind in ("plans", "rules"))
    remark = f"set by {VARIABLE}" if cache["variable"] else f"{VARIABLE} changes it"
    no_home = f"none, because there is no home folder; set {VARIABLE}"
    cache_text = f"{cache['folder']}, {cached}; {remark}" if cache["folder"] else no_home
    present = [f"{name} {number}" for name, number in record["libraries"].items() if number]
    absent = [name for name, number in record["libraries"].items() if not number]
    needed = [name for name in absent if name in LIBRARIES]
    unused = [name for name in absent if name in OPTIONAL]
    rows = [
        ("python", f"{python['version']} ({python['implementation']}), {python['platform']}"),
        ("kernels", f"{len(built)} of {len(built) + len(missing)} modules{compiler}: {', '.join(built)}{unbuilt}"),
        ("sources", sources),
        ("flags", " ".join(kernels["flags"])),
        ("folder", kernels["folder"]),
        ("first use", f"compiled by CuPy for backend cupy: {'; '.join(cuda)}; by Numba: {rules}"),
        ("cache", cache_text),
        ("libraries", ", ".join(present)),
        ("missing", f"{', '.join(needed)}; install {'it' if len(needed) == 1 else 'them'}" if needed else ""),
        ("optional", f"not installed: {', '.join(unused)}" if unused else ""),
    ]
    return [(label, text) for label, text in rows if text]


def _kernels(folder: Path) -> dict[str, Any]:
    """Return the compiled and missing kernels of a folder, and the compiler flags."""
    # Run the file instead of importing it: a package without compiled kernels cannot be imported.
    stamps = runpy.run_path(str(folder / "_built.py"))
    files = {file.name for file in folder.iterdir()}
    names = sorted(file.stem for file in folder.glob("*.pyx"))
    built = [name for name in names if any(name + end in files for end in EXTENSION_SUFFIXES)]
    stamp = (folder / stamps["STAMP"]).read_text(encoding="utf-8").split() if stamps["STAMP"] in files else []
    return {
        "folder": str(folder),
        "built": built,
        "missing": sorted({*names} - {*built}),
        "fault": stamps["build_fault"](folder),
        "sources": stamps["source_hash"](folder),
        "cython": stamp[2] if len(stamp) > 2 else None,
        "flags": [word for word in stamp[3:] if word.startswith("-")],
    }


def _first_use(folder: Path) -> list[dict[str, Any]]:
    """Return the files that are compiled on the user's machine when they are first needed."""
    kernels = [
        {"file": file.name, "functions": CUDA_FUNCTION.findall(file.read_text(encoding="utf-8")), "compiler": "CuPy"}
        for file in sorted((folder / "cuda").glob("*.cu"))
    ]
    return [*kernels, {"file": None, "functions": ["rules of the user"], "compiler": "Numba"}]


def _cache() -> dict[str, Any]:
    """Return the folder of the cache, without creating it, and the numbers of cached plans and compiled rules."""
    variable = VARIABLE if os.environ.get(VARIABLE) else None
    try:
        folder = cache_place()
    except RuntimeError:  # no home folder
        return {"folder": None, "variable": None, "plans": 0, "rules": 0}
    plans, rules = (len(list(folder.glob(files))) for files in ("plans/*.json", "rules/*/rule.py"))
    return {"folder": str(folder), "variable": variable, "plans": plans, "rules": rules}


def _version(library: str) -> str | None:
    for name in CUPY if library == "cupy" else (library,):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None
