"""Solvers, allocators and formats, read from their files without imports, for a fast `--help`."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import remat_algos

QUOTES = '"""'
ROOT = Path(remat_algos.__file__).parent
_GRAPH_FORMAT = re.compile(r"^GRAPH_FORMAT = (GraphFormat\((?:.+\)|\n[\s\S]*?^\)))$", re.MULTILINE)


class Outline(NamedTuple):
    """A registered function: name, first line of its docstring, options with defaults."""

    name: str
    summary: str
    options: Mapping[str, Any]


def outlines(folder: str, decorator: str) -> list[Outline]:
    """The functions that the files of a folder register with a decorator, by name.

    Examples
    --------
    >>> [found.options for found in outlines("solvers/methods", "solver") if found.name == "milp"]
    [{'mip_gap': 0.0}]
    """
    found = []
    for file in sorted((ROOT / folder).glob("*.py")):
        source = file.read_text(encoding="utf-8")
        begin = source.find(f"\ndef {file.stem}(")
        if f"\n@{decorator}(" not in source[: max(0, begin)]:
            continue
        end = source.index(QUOTES, source.index(QUOTES, begin) + 1) + len(QUOTES)  # of the documentation
        (function,) = ast.parse(source[begin:end]).body
        assert isinstance(function, ast.FunctionDef)
        given = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
        options = {option.arg: _value(default, source) for option, default in given if default is not None}
        found.append(Outline(file.stem, (ast.get_docstring(function) or "").split("\n")[0], options))
    return found


def graph_formats() -> dict[str, tuple[str, ...]]:
    """The graph formats by name, each with the endings that it writes.

    Examples
    --------
    >>> found = graph_formats()
    >>> found["DOT"], found["PACE"]
    (('.dot', '.gv'), ('.gr',))
    """
    found = {}
    folders = ROOT / "formats" / "graphs", ROOT / "interop" / "model_files"
    for file in (file for folder in folders for file in sorted(folder.glob("[!_]*.py"))):
        source = file.read_text(encoding="utf-8")
        for written in _GRAPH_FORMAT.findall(source):
            call = ast.parse(written, mode="eval").body
            assert isinstance(call, ast.Call)
            given = dict(zip(("name", "read", "write", "endings"), call.args, strict=False))
            given |= {str(keyword.arg): keyword.value for keyword in call.keywords}
            endings = _value(given["endings"], source) if {"write", "endings"} <= given.keys() else ()
            found[_value(given["name"], source)] = endings
    return found


def _value(default: ast.expr, source: str) -> Any:
    """A literal, or the constant that a module assigns or imports from another; else the name of the constant."""
    if not isinstance(default, ast.Name):
        return ast.literal_eval(default)
    if assigned := re.search(rf"^{default.id} = ([^#\n]+)", source, re.MULTILINE):
        return ast.literal_eval(assigned[1].strip())
    if home := re.search(rf"^from remat_algos\.([\w.]+) import .*\b{default.id}\b", source, re.MULTILINE):
        return _value(default, (ROOT / f"{home[1].replace('.', '/')}.py").read_text(encoding="utf-8"))
    return default.id
