"""The JSON of a plan: what stands in it, and of which kind it is."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from remat_algos.bounds.compute import ONE_PASS
from remat_algos.errors import GraphError, PlanError
from remat_algos.files import read_text
from remat_algos.ir.graph import ComputationGraph
from remat_algos.text.wording import quoted, shortened, shortened_path

FORMAT, VERSION = "remat-plan", 1
KINDS: Mapping[str, type | tuple[type, ...]] = {
    "graph_hash": str,
    "differentiate": (dict, type(None)),
    "solver": str,
    "method": str,
    "options": dict,
    "budget": (dict, type(None)),
    "limit": (int, type(None)),
    "schedule": list,
    "peak_memory": int,
    "resident_memory": int,
    "compute": int,
    "overhead": int,
    "bound": (int, type(None)),
    "bound_scope": (str, type(None)),
    "gap": (int, float, type(None)),
    "compute_unit": str,
    "compute_scale": int,
    "seconds": (int, float),
}
_KIND_NAMES = {
    str: "text",
    int: "a whole number",
    float: "a number",
    dict: "an object",
    list: "a list",
    type(None): "null",
}


def read_record(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON object in a file; PlanError, with line and column, if there is none."""
    file = Path(path)
    try:
        record = json.loads(read_text(file))
    except GraphError as error:
        raise PlanError(str(error)) from error
    except json.JSONDecodeError as error:
        fault = f"not valid JSON at line {error.lineno}, column {error.colno} ({shortened(error.msg)})"
        raise PlanError(
            f"{shortened_path(file.name)}: {fault}; give the whole of what `remat solve -o` wrote"
        ) from error
    except (ValueError, RecursionError) as error:
        raise PlanError(f"{shortened_path(file.name)}: not a plan: it cannot be read as JSON") from error
    if not isinstance(record, dict):
        raise PlanError(f"{shortened_path(file.name)}: not a plan: it is not a JSON object")
    return record


def shaped(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The record, if every entry is there and of its kind."""
    if record.get("format") != FORMAT:
        raise PlanError(f'not a plan: there is no "format": "{FORMAT}"')
    if type(record.get("version")) is not int or record["version"] != VERSION:
        raise PlanError(f"the plan has version {quoted(record.get('version'))}; this release reads version {VERSION}")
    for name, kind in KINDS.items():
        if name not in record:
            raise PlanError(f'the plan has no "{name}"')
        if not isinstance(record[name], kind) or isinstance(record[name], bool):
            expected = " or ".join(_KIND_NAMES[each] for each in (kind if isinstance(kind, tuple) else (kind,)))
            raise PlanError(f'"{name}" of the plan is {quoted(record[name])}, expected {expected}')
    if not isinstance(record.get("details", {}), dict):
        raise PlanError('"details" of the plan is not an object')
    if not isinstance(record.get("bound_source"), str | None):
        raise PlanError(f'"bound_source" of the plan is {quoted(record["bound_source"])}; expected a text or null')
    return record


def plain(value: Any) -> Any:
    """What JSON can hold of it: NumPy's numbers as Python's."""
    if isinstance(value, Mapping):
        return {str(name): plain(value) for name, value in value.items()}
    if isinstance(value, list | tuple):
        return [plain(value) for value in value]
    return value.item() if isinstance(value, np.generic) else value


def bound_source(record: Mapping[str, Any], graph: ComputationGraph) -> str | None:
    """Source of a plan's lower bound on compute; inferred for files of earlier releases, which do not name it."""
    if "bound_source" in record:
        return record["bound_source"]
    if record["bound"] is None:
        return None
    proven = record["bound_scope"] == "any order" and record["bound"] <= graph.needed_compute
    return ONE_PASS if proven else record["method"]


def gap(compute: int, bound: int | None, scope: str | None) -> float | None:
    """(compute - bound) / bound, if the bound holds for schedules of any order."""
    if bound is None or scope != "any order":
        return None
    return (compute - bound) / bound if bound else (0.0 if compute == 0 else None)
