"""Undocumented names that every PyTorch since 2.6 has; `private_names` contains the names that differ by version.

- Fake tensors and dispatch modes, which PyTorch's manual describes without a public module.
- The schema of an operator, which shows its in-place writes.
- `without_modes`, which hides operators from active modes.
- The mode in which torch.compile traces.
- The version of a tensor, by which autograd detects in-place changes, and the test for views.
"""

from operator import attrgetter, methodcaller
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,  # noqa: F401
    FakeTensorMode,  # noqa: F401
)
from torch.utils._python_dispatch import TorchDispatchMode as DispatchMode
from torch.utils._python_dispatch import _disable_current_modes as without_modes  # noqa: F401
from torch.utils._pytree import tree_leaves, tree_map  # noqa: F401

Operator = type(torch.ops.aten.add.Tensor)
DATA_DEPENDENT = (DataDependentOutputException, DynamicOutputShapeException)
"""Errors that operators raise on fake tensors if the result depends on elements, which fake tensors do not have."""


version = attrgetter("_version")
"""Return the version of a tensor, the number of its in-place changes."""
is_view = methodcaller("_is_view")
"""Return True for a view that autograd tracks; PyTorch's engine does not add gradients to a view in place."""


class LightMode(DispatchMode):
    """A dispatch mode that ignores compiled code and avoids Dynamo's guard around each operator."""

    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


def storage_key(tensor: Any) -> int:
    """Return a key that tensors with the same storage share; it is valid while one of them is alive."""
    return id(tensor.untyped_storage())


def is_compiling() -> bool:
    """Return True while torch.compile traces, also in AOTAutograd, where `torch.compiler` before 2.11 returns False."""
    functional = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FUNCTIONAL)
    return torch.compiler.is_compiling() or functional is not None


def schema_of(operator: Any) -> Any:
    """Return the schema of an operator, with argument names and in-place writes, or None for other objects."""
    return getattr(operator, "_schema", None)


def arguments_by_name(operator: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    schema = schema_of(operator)
    names = [] if schema is None else [argument.name for argument in schema.arguments]
    return dict(zip(names, args, strict=False)) | dict(kwargs)


def writes_into_arguments(operator: Any) -> bool:
    schema = schema_of(operator)
    return schema is not None and schema.is_mutable


def allocated_bytes(profile: Any) -> list[int]:
    """Return the bytes of each CPU allocation (positive) or release (negative) in a memory profile, in order."""
    events = profile.profiler.kineto_results.events()
    return [event.nbytes() for event in events if event.name() == "[memory]"]


def ran_compiled(profile: Any) -> bool:
    """Return True if a profile contains code that torch.compile has compiled."""
    events = profile.profiler.kineto_results.events()
    return any(event.name().startswith("Torch-Compiled Region") for event in events)
