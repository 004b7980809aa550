"""Registry of model families, and `build`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, ClassVar, TypeVar

import remat_algos.zoo.families as package
from remat_algos.arguments import checked_arguments
from remat_algos.cost.devices import DTYPES
from remat_algos.errors import GraphError
from remat_algos.registry import Entries, Registered, Registry
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.network import Network
from remat_algos.zoo.reference import PREFIX, Option, split_reference
from remat_algos.zoo.settings import CHOICES, Settings, checked, kind_of, offer

Variants = Mapping[str, Mapping[str, Any]]
Values = Sequence[int] | Callable[[Mapping[str, Any]], Sequence[int]]
"""Ascending values, or a function that computes them from the other options of a model."""

LARGEST_OPTION = 4096
"""Maximum value that `multiples_of` returns."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Family(Registered):
    """Models built by one function, `function(net, *, batch, ...)`, which adds operations to a `Layers`.

    `variants` maps each model to its options that differ from the defaults. `grows` maps an option to its valid values,
    in ascending order; an option that is not in it may be any number of 1 or more.
    """

    variants: Variants
    grows: Mapping[str, Values]

    COLUMNS: ClassVar[tuple[str, ...]] = ("family", "what it builds")

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """The options of the family, with defaults and with types as strings."""
        # `slots=True` creates a new class, so super() without arguments fails.
        own = super(Family, self).parameters
        return {name: parameter.replace(annotation=kind_of(parameter.annotation)) for name, parameter in own.items()}

    def values(self, option: str, model: str, options: Mapping[str, Any]) -> Sequence[int] | None:
        """Return the valid values of an option, given the others, or None if every number of 1 or more is valid."""
        rule = self.grows.get(option)
        if not callable(rule):
            return rule
        return rule({**self.options, **self.variants.get(model, {}), **options})


Function = TypeVar("Function", bound=Callable[..., None])
FAMILIES = Registry[Family](package)


def multiples_of(option: str, times: int = 1) -> Values:
    """Return a rule: the valid values are the multiples of m, where m is `times` multiplied by another option."""
    return lambda options: range(times * options[option], LARGEST_OPTION + 1, times * options[option])


def divisors_of(option: str) -> Values:
    """Return a rule: the valid values are the divisors of another option."""
    return lambda options: [d for d in range(1, options[option] + 1) if options[option] % d == 0]


def family(variants: Variants, grows: Mapping[str, Values] | None = None) -> Callable[[Function], Function]:
    """Register a family; see `Family` for the parameters."""

    def register(function: Function) -> Function:
        FAMILIES.add(Family(function, variants, grows or {}))
        return function

    return register


def list_families() -> Entries[Family]:
    """List all families, by name."""
    return FAMILIES.all()


def list_models() -> list[str]:
    """List the names of the built-in models, family by family.

    Returns
    -------
    list of str

    Examples
    --------
    >>> "vgg19" in list_models()
    True
    """
    return [name for family in list_families() for name in family.variants]


def get_family(model: str) -> Family:
    """Return the family of a model, or the family with this name; otherwise GraphError suggests similar names."""
    for candidate in list_families():
        if model == candidate.name or model in candidate.variants:
            return candidate
    families = [candidate.name for candidate in list_families()]
    otherwise = f"there are the families {', '.join(families)}"
    raise GraphError(
        "unknown model {model!r}; {offer!w}",
        model=model,
        offer=offer(model, [*list_models(), *families], otherwise),
    )


def options_of(model: str) -> dict[str, Option]:
    """Return {name: option} of a model or family: its own options, then the common options."""
    choices = {**CHOICES, "dtype": tuple(name for name in DTYPES if "float" in name)}
    family = get_family(model)
    variant = family.variants.get(model, {})
    own = [Option(name, o.annotation, variant.get(name, o.default), True) for name, o in family.parameters.items()]
    common = [Option(f.name, str(f.type), f.default, False, choices.get(f.name, ())) for f in fields(Settings)]
    return {option.name: option for option in (*own, *common)}


def read_reference(text: str) -> tuple[str, dict[str, Any]]:
    """Parse a reference, with or without `model:`; return the model and its options."""
    model, texts = split_reference(text)
    by_name = options_of(model)
    return model, {name: by_name[name].read(value) if name in by_name else value for name, value in texts.items()}


def nearest_reference(text: str) -> str | None:
    """Return the model with the most similar name, ignoring case and hyphens, or None if none is similar."""
    model, mark, query = text.partition("?")
    names = [*list_models(), *(family.name for family in list_families())]
    near = get_close_matches(model.lower().replace("-", "_"), names, n=1, cutoff=0.8)
    return f"{PREFIX}{near[0]}{mark}{query}" if near else None


@checked_arguments
def build(model: str, **options: Any) -> Network:
    """Build a built-in network.

    Parameters
    ----------
    model : str
        One of `list_models`, or a family. Options may follow, as on the command line: "model:resnet50?batch=96", where
        "model:" can be omitted.
    **options
        Options of the family (`batch`, `image`, `depth`, ...; docs/zoo.md), and those of `Settings`: `dtype`,
        `dropout`, `counting`, `granularity`, `workspace`, `cost`, `device`, `parameter_gradients`, `optimizer`.

    Returns
    -------
    Network

    Raises
    ------
    GraphError
        If the model or an option is unknown (the message suggests similar names), or shapes are impossible.

    Examples
    --------
    >>> build("resnet50", batch=1).n_parameters
    25557032
    >>> build("vgg19?dropout=single", batch=4).graph.n_nodes
    46
    """
    model, from_text = read_reference(model) if isinstance(model, str) else (model, {})
    twice = next((name for name in options if name in from_text), None)
    if twice is not None:
        raise GraphError("{model}: {twice} is given twice; leave one out", model=model, twice=twice)
    options = {**from_text, **options}
    chosen = get_family(model)
    own, others = _options(chosen, model, options)
    net = Layers(model, Settings(**others))
    try:
        chosen.function(net, **own)
        return net.network()
    except OverflowError as error:
        raise GraphError("{model}: a size is 2**63 or more; give smaller numbers", model=model) from error


def _options(family: Family, model: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    own = {name: value for name, value in options.items() if name in family.options}
    others = {name: value for name, value in options.items() if name not in family.options}
    common = Settings.names()
    for name in others:
        if name not in common:
            raise GraphError(
                "{model} has no option {name!r}; {offer!w}",
                model=model,
                name=name,
                offer=offer(name, [*family.options, *common]),
            )
    if own.get("stages") is not None and "depth" in own:
        raise GraphError(
            "{model}: stages and depth are both given, but stages set the depth; leave depth out", model=model
        )
    whole = {**family.variants.get(model, {}), **own}
    return {name: checked(model, family.parameters[name], value) for name, value in whole.items()}, others
