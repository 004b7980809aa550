"""Families of models, found by looking into their folder, and `build`."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

import remat_algos.models.families as families_room
from remat_algos.errors import GraphError
from remat_algos.models.layers import Layers
from remat_algos.models.network import Network
from remat_algos.models.settings import Settings

Variants = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Models that one function builds.

    Parameters
    ----------
    function : callable
        `function(net, *, batch, ...)` builds into a `Layers`.
    variants : mapping of str to mapping
        Name of each model of the family, and the options in which it differs from the defaults.
    grows : mapping of str to sequence of int
        Values of an option, from the least up, where not every number from 1 on makes sense.
    """

    function: Callable[..., None]
    variants: Variants
    grows: Mapping[str, Sequence[int]]

    @property
    def name(self) -> str:
        """The name of its function and of its file."""
        return self.function.__name__

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return (inspect.getdoc(self.function) or "").split("\n")[0]

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """Its own options, each with its default and its type as text."""
        parameters = inspect.signature(self.function).parameters
        return {
            name: p.replace(annotation=_text(p.annotation))
            for name, p in parameters.items()
            if p.kind is inspect.Parameter.KEYWORD_ONLY
        }


Function = TypeVar("Function", bound=Callable[..., None])
_registered: dict[str, Family] = {}


def family(variants: Variants, grows: Mapping[str, Sequence[int]] | None = None) -> Callable[[Function], Function]:
    """Register a family; see `Family` for the parameters."""

    def register(function: Function) -> Function:
        _registered[function.__name__] = Family(function, variants, grows or {})
        return function

    return register


def list_families() -> list[Family]:
    """All families, by name.

    Examples
    --------
    >>> "resnet" in [family.name for family in list_families()]
    True
    """
    files = (file for folder in families_room.__path__ for file in os.listdir(folder))
    for name in sorted(file.removesuffix(".py") for file in files if file.endswith(".py") and not file.startswith("_")):
        importlib.import_module(f"{families_room.__name__}.{name}")
    return [_registered[name] for name in sorted(_registered)]


def list_models() -> list[str]:
    """Names that `build` knows, family by family.

    Examples
    --------
    >>> "vgg19" in list_models()
    True
    """
    return [name for family in list_families() for name in family.variants]


def get_family(model: str) -> Family:
    """The family of a model, or of that name.

    Raises
    ------
    GraphError
        If there is none; the nearest names are offered.
    """
    for found in list_families():
        if model == found.name or model in found.variants:
            return found
    families = [found.name for found in list_families()]
    near = get_close_matches(str(model), [*list_models(), *families], n=3, cutoff=0.5)
    offer = f"did you mean {' or '.join(near)}?" if near else f"there are the families {', '.join(families)}"
    raise GraphError(f"no model is called {model!r}; {offer}")


def build(model: str, **options: Any) -> Network:
    """A network of the zoo.

    Parameters
    ----------
    model : str
        One of `list_models`, or a family.
    **options
        Those of the family (`batch`, `image`, `depth`, ...; docs/zoo.md), and those of `Settings`: `dtype`,
        `dropout`, `counting`, `granularity`, `workspace`, `cost`, `device`, `parameter_gradients`, `optimizer`.

    Returns
    -------
    Network

    Raises
    ------
    GraphError
        If a model or an option is not known, with the nearest names, or the shapes are impossible.

    Examples
    --------
    >>> build("resnet50", batch=1).n_parameters
    25557032
    >>> build("vgg19", dropout="single").graph.n_nodes
    46
    """
    found = get_family(model)
    own = {**found.variants.get(model, {}), **{name: o for name, o in options.items() if name in found.options}}
    others = {name: option for name, option in options.items() if name not in found.options}
    known = Settings.names()
    for name in others:
        if name not in known:
            near = get_close_matches(name, [*found.options, *known], n=3, cutoff=0.5)
            offer = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join([*found.options, *known])}"
            raise GraphError(f"{model} has no option {name!r}; {offer}")
    for name, value in own.items():
        _check(model, found.options[name], value)
    settings = Settings(**others)
    net = Layers(model, settings)
    try:
        found.function(net, **own)
        return net.network()
    except OverflowError as error:
        raise GraphError(f"{model}: a size is 2**63 or more; give smaller numbers") from error


def _check(model: str, option: inspect.Parameter, value: Any) -> None:
    """GraphError unless a value is of the option's type, and positive where it counts something."""
    kind = option.annotation
    if "None" in kind and value is None:
        return
    if kind.startswith("tuple"):
        good = isinstance(value, tuple | list) and all(_is_count(k, 1) for k in value)
        wanted = "positive whole numbers, such as (3, 4, 6, 3)"
    elif kind.startswith("bool"):
        good, wanted = isinstance(value, bool), "True or False"
    elif kind.startswith("int"):
        least = 0 if option.default == 0 else 1
        good, wanted = _is_count(value, least), f"a whole number from {least} on"
    else:
        good, wanted = isinstance(value, str), "a name"
    if not good:
        raise GraphError(f"{model}: {option.name} is {value!r}; give {wanted}")


def _text(annotation: Any) -> str:
    """A type as its source has it, also where annotations are no text."""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
