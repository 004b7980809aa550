"""Names that PyTorch's reference does not list and that every version from 2.6 has; `private_names` has the others."""

from typing import Any

import torch
from torch._ops import OpOverload as Operator  # noqa: F401
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode  # noqa: F401
from torch.utils._python_dispatch import TorchDispatchMode as DispatchMode  # noqa: F401
from torch.utils._python_dispatch import _disable_current_modes as without_modes  # noqa: F401
from torch.utils._pytree import tree_leaves, tree_map  # noqa: F401


def storage_key(tensor: Any) -> int:
    """Return a key, equal for tensors with the same storage while one of them is alive."""
    return tensor.untyped_storage()._cdata


def is_compiling() -> bool:
    """True while torch.compile traces; before PyTorch 2.11 `torch.compiler` says so only while it reads Python."""
    functional = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FUNCTIONAL)
    return torch.compiler.is_compiling() or functional is not None


def writes_into_arguments(operator: Any) -> bool:
    """True if an operator is in-place."""
    schema = getattr(operator, "_schema", None)
    return schema is not None and schema.is_mutable


def allocated_bytes(profile: Any) -> list[int]:
    """Return the changes by CPU allocations and releases in a memory profile, in order."""
    events = profile.profiler.kineto_results.events()
    return [event.nbytes() for event in events if event.name() == "[memory]"]


def ran_compiled(profile: Any) -> bool:
    """True if a profile saw code of torch.compile."""
    events = profile.profiler.kineto_results.events()
    return any(event.name().startswith("Torch-Compiled Region") for event in events)
