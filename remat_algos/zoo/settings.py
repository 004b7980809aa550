"""Options common to all models, and checks of the options of families."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable
from dataclasses import dataclass, fields
from difflib import get_close_matches
from math import ceil
from typing import Any

from remat_algos.arguments import as_text
from remat_algos.cost.devices import Device, element_bytes, get_device
from remat_algos.cost.node_costs import COSTS
from remat_algos.errors import GraphError
from remat_algos.ir.arrays import as_whole
from remat_algos.text.amounts import size_of
from remat_algos.wording import listed, spelled

CHOICES = {
    "dropout": ("mask", "single"),
    "counting": ("framework", "paper"),
    "granularity": ("operation", "layer", "primitive"),
    "cost": COSTS,
    "optimizer": ("none", "sgd", "momentum", "adam", "adamw"),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Options that every model has.

    Parameters
    ----------
    dtype : str
        Type of activations and parameters: `float32`, `float16`, `bfloat16`, ... (docs/costs.md).
    dropout : {"mask", "single"}
        `mask`: one node draws the mask and must run only once; another node applies it and may be recomputed. `single`:
        one node with one value, which draws the same mask in each run from a stored seed.
    counting : {"framework", "paper"}
        `framework`: statistics, masks and indices are values, and convolutions have workspaces. `paper`: one value per
        operation, no workspaces, and gradients read the same values as in the graphs of kusumoto2019.
    granularity : {"operation", "layer", "primitive"}
        `operation`: one node per operation of a framework. `layer`: one node per block. `primitive`: norms, softmax,
        activations and optimizers consist of element-wise operations and reductions.
    workspace : int, float or str
        Maximum workspace in which a convolution unfolds its input ("64MiB"); 0 for none.
    cost : {"flops", "paper", "unit", "roofline", "occupancy", "measured"}
        Unit of `compute` (docs/costs.md).
    device : str or Device, optional
        Device for `roofline`, `occupancy` and `measured`: a name in the device table, or a file that
        `remat calibrate` has written.
    parameter_gradients : bool
        Differentiate the network, including gradients of parameters.
    optimizer : {"none", "sgd", "momentum", "adam", "adamw"}
        Differentiate the network and update each parameter. States have the dtype of the parameters; there is no
        float32 copy of the parameters.

    Raises
    ------
    GraphError
        If an option has an unknown value; the message suggests similar ones.

    Examples
    --------
    >>> Settings(workspace="1KiB").workspace_limit
    1024
    """

    dtype: str = "float32"
    dropout: str = "mask"
    counting: str = "framework"
    granularity: str = "operation"
    workspace: int | float | str = "64MiB"
    cost: str = "flops"
    device: str | Device | None = None
    parameter_gradients: bool = False
    optimizer: str = "none"

    def __post_init__(self) -> None:
        element_bytes(self.dtype)
        if "float" not in self.dtype:
            raise GraphError(
                "dtype is {dtype!r}, which has no gradients; use float32, float16 or bfloat16", dtype=self.dtype
            )
        for name, known in CHOICES.items():
            chosen = as_text(getattr(self, name), name, known[0])
            if chosen not in known:
                raise GraphError(
                    "{name!w} is {chosen!r}; {offer!w}", name=name, chosen=chosen, offer=offer(chosen, known)
                )
        if not isinstance(self.parameter_gradients, bool):
            raise GraphError(
                "parameter_gradients is {parameter_gradients!r}; give True or False",
                parameter_gradients=self.parameter_gradients,
            )
        if isinstance(self.device, str | os.PathLike):
            get_device(self.device)
        elif not isinstance(self.device, Device | None):
            raise GraphError("device is {device!r}; give a name, a file or a Device", device=self.device)
        try:
            if size_of(self.workspace) < 0:
                raise ValueError
        except ValueError as error:
            raise GraphError(
                "workspace is {workspace!r}; give bytes, or a size such as 64MiB", workspace=self.workspace
            ) from error

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of the options, in the order of their definition."""
        return tuple(option.name for option in fields(cls))

    @property
    def workspace_limit(self) -> int:
        """Maximum workspace of a convolution in bytes."""
        return 0 if self.counting == "paper" else ceil(size_of(self.workspace))

    @property
    def primitive(self) -> bool:
        """True if layers consist of element-wise operations and reductions."""
        return self.granularity == "primitive"

    @property
    def several_values(self) -> bool:
        """True if operations have values that only gradients read."""
        return self.counting == "framework"


def kind_of(annotation: Any) -> str:
    """Return an annotation as it is written in the source code."""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def checked(model: str, option: inspect.Parameter, value: Any) -> Any:
    """Convert a value to the type of an option; raise GraphError if the type is wrong or a number is too small."""
    kind, minimum = option.annotation, 0 if option.default == 0 else 1
    plain: Any = None
    if "None" in kind and value is None:
        return None
    if kind.startswith("tuple"):
        expected = "positive whole numbers, such as (3, 4, 6, 3)"
        numbers = [_count(k, 1) for k in value] if isinstance(value, tuple | list) else []
        plain = tuple(numbers) if numbers and None not in numbers else None
    elif kind.startswith("int"):
        expected, plain = f"a whole number, {minimum} or more", _count(value, minimum)
    elif kind.startswith("bool"):
        expected, plain = "True or False", value if isinstance(value, bool) else None
    else:
        expected, plain = "a name", value if isinstance(value, str) else None
    if plain is None:
        raise GraphError(
            "{model}: {name} is {value!r}; give {expected!w}",
            model=model,
            name=option.name,
            value=value,
            expected=expected,
        )
    return plain


def offer(name: Any, known: Iterable[str], otherwise: str = "") -> str:
    """Suggest similar names, ignoring case and hyphens; if no name is similar, return `otherwise` or list all names."""
    names = list(dict.fromkeys(known))
    near = get_close_matches(spelled(name).lower().replace("-", "_"), names, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else otherwise or f"use {listed(names, len(names))}"


def _count(value: Any, minimum: int) -> int | None:
    number = as_whole(value)
    return number if number is not None and number >= minimum else None
