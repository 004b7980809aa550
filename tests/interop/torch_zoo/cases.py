"""What a case is, and the registry that models are added to."""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

EAGER, AOT_EAGER, WITHOUT_ONEDNN = "eager", "aot_eager", "eager without oneDNN"
"""What a model is compared with. aot_eager is PyTorch's backend that runs the captured graph as it is."""


@dataclass(frozen=True)
class Case:
    """A model and a batch: arguments, and arguments by name."""

    model: nn.Module
    inputs: tuple[Any, ...]
    keywords: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """How a case is made, and how it is to be run.

    Parameters
    ----------
    build : callable
        Returns the case.
    special : str
        What is special about it for a planner.
    library : str
        What it needs.
    one_graph : bool
        Whether `rematerialize` can capture it.
    reference : str
        What it is equal to, bit for bit.
    config : mapping
        Of torch._dynamo.
    """

    build: Callable[[], Case]
    special: str
    library: str = "torch"
    one_graph: bool = True
    reference: str = EAGER
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_missing(self) -> bool:
        """Whether its library is not installed."""
        return importlib.util.find_spec(self.library) is None


CASES: dict[str, Entry] = {}


def case(special, **options):
    """Add a function that returns a model, its inputs and, if it has any, its arguments by name."""

    def add(build):
        CASES[build.__name__] = Entry(build=lambda: Case(*build()), special=special, **options)
        return build

    return add


def make(name):
    """A case, always the same."""
    torch.manual_seed(1)
    return CASES[name].build()
