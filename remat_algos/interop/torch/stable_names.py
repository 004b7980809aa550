"""Undocumented names of PyTorch that every version from 2.6 has; `private_names` has those that change.

They are: fake tensors and dispatch modes, which PyTorch's manual describes without a public module; the schema of an
operator, which shows what it writes in place; `without_modes`, which hides operators from active modes; the mode in
which torch.compile traces; the version of a tensor, by which autograd detects in-place changes; and the test for views.
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
"""Errors of an operator whose result depends on elements, which a fake tensor does not have."""


version = attrgetter("_version")
"""Return the number of in-place changes of a tensor."""
is_view = methodcaller("_is_view")
"""True for a view that autograd tracks: PyTorch's engine does not add a gradient into it."""


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
    """Return a key, equal for tensors with the same storage while one of them is alive."""
    return id(tensor.untyped_storage())


def is_compiling() -> bool:
    """True while torch.compile traces; before PyTorch 2.11 `torch.compiler` only knows while Python is read."""
    functional = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FUNCTIONAL)
    return torch.compiler.is_compiling() or functional is not None


def schema_of(operator: Any) -> Any:
    """Return the schema of an operator: argument names and in-place writes; None if it is not an operator."""
    return getattr(operator, "_schema", None)


def arguments_by_name(operator: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the arguments of an operator's call by name."""
    schema = schema_of(operator)
    names = [] if schema is None else [argument.name for argument in schema.arguments]
    return dict(zip(names, args, strict=False)) | dict(kwargs)


def writes_into_arguments(operator: Any) -> bool:
    """True if an operator writes in place."""
    schema = schema_of(operator)
    return schema is not None and schema.is_mutable


def allocated_bytes(profile: Any) -> list[int]:
    """Return the byte changes by CPU allocations and releases in a memory profile, in order."""
    events = profile.profiler.kineto_results.events()
    return [event.nbytes() for event in events if event.name() == "[memory]"]


def ran_compiled(profile: Any) -> bool:
    """True if a profile contains code compiled by torch.compile."""
    events = profile.profiler.kineto_results.events()
    return any(event.name().startswith("Torch-Compiled Region") for event in events)
