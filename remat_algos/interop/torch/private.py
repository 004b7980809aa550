"""Every private name of PyTorch that this package uses; a version that moved one is told in one sentence."""

import importlib
from typing import Any

import torch

TESTED = "2.13"
"""Versions of PyTorch whose private names are known to be these."""

_moved: list[str] = []


def _find(module: str, name: str) -> Any:
    """A private name, or None, which is noted, where it is not there any more."""
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        _moved.append(f"{module}.{name}")
        return None


_AOT, _DESCRIPTORS = "torch._functorch.aot_autograd", "torch._functorch._aot_autograd.descriptors"

export_joint: Any = _find(_AOT, "aot_export_joint_with_descriptors")
compile_joint: Any = _find(_AOT, "aot_compile_joint_with_descriptors")
InputMutation: Any = _find(_DESCRIPTORS, "InputMutationAOTOutput")
Parameter: Any = _find(_DESCRIPTORS, "ParamAOTInput")
Buffer: Any = _find(_DESCRIPTORS, "BufferAOTInput")
Tangent: Any = _find(_DESCRIPTORS, "TangentAOTInput")
SubclassPart: Any = _find(_DESCRIPTORS, "SubclassGetAttrAOTInput")
Saved: Any = _find(_DESCRIPTORS, "SavedForBackwardsAOTOutput")
SavedUnchecked: Any = _find(_DESCRIPTORS, "SavedForBackwardsNoVcCheckAOTOutput")
aot_autograd: Any = _find("torch._dynamo.backends.common", "aot_autograd")
CompileContext: Any = _find("torch._guards", "CompileContext")
Operator: Any = _find("torch._ops", "OpOverload")
BoxedCode: Any = _find("torch.fx.graph", "_BoxedCodeGen")
DispatchMode: Any = _find("torch.utils._python_dispatch", "TorchDispatchMode")
without_modes: Any = _find("torch.utils._python_dispatch", "_disable_current_modes")
tree_leaves: Any = _find("torch.utils._pytree", "tree_leaves")

CustomPartitioner: Any = _find("torch._inductor.custom_graph_pass", "CustomPartitionerFn")
DataDependent: Any = (
    _find("torch._subclasses.fake_tensor", "DataDependentOutputException"),
    _find("torch._subclasses.fake_tensor", "DynamicOutputShapeException"),
    _find("torch.fx.experimental.symbolic_shapes", "GuardOnDataDependentSymNode"),
)


def _check() -> None:
    """ImportError if a name has moved."""
    if _moved:
        raise ImportError(
            f"PyTorch {torch.__version__} has no {', '.join(_moved)} (tested: {TESTED}); install a tested version: "
            f"python -m pip install 'torch=={TESTED}.*'; graphs that were captured and saved are read without PyTorch"
        )


_check()


def inductor() -> tuple[Any, Any]:
    """Inductor's function that compiles a graph, and its configuration; slow to import."""
    found = _find("torch._inductor.compile_fx", "compile_fx"), _find("torch._inductor", "config")
    _check()
    return found


def storage_key(tensor: Any) -> int:
    """What is equal for tensors with the same storage, as long as one of them is alive."""
    return tensor.untyped_storage()._cdata


def writes_into_arguments(operator: Any) -> bool:
    """Whether an operator is in-place."""
    schema = getattr(operator, "_schema", None)
    return schema is not None and schema.is_mutable


def frame_id() -> int:
    """The number of the Python frame that torch.compile is compiling; parts of one call have rising numbers. Else 0."""
    compiled = CompileContext.current_compile_id()
    return 0 if compiled is None or compiled.frame_id is None else compiled.frame_id


def allocated_bytes(profile: Any) -> list[int]:
    """The change of each allocation and release of the CPU that a profile with memory saw, in their order."""
    events = profile.profiler.kineto_results.events()
    return [event.nbytes() for event in events if event.name() == "[memory]"]
