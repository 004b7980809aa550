"""Blocks of a model in PyTorch's checkpoints, with the outputs of chosen operators saved."""

import contextlib
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from remat_algos.errors import ArgumentError, BackendError, PlanError
from remat_algos.interop.torch.eager_capture import NORMS, draws, is_cached_cast, mapped
from remat_algos.interop.torch.stable_names import is_compiling
from remat_algos.interop.torch.storages import tensors

aten = torch.ops.aten
Saved = tuple[tuple[str, int], ...]
"""Operators whose outputs stay saved: overload, and how often it came before in the call of the block."""
KEEP_ALL = None
"""Stands for `Saved` where a block is not recomputed at all."""


# ---------------------------------------------------------------- operators


@cache
def overload(name: str) -> Any:
    """Return the operator of a name such as "aten.mm.default"."""
    found: Any = torch.ops
    for part in name.split("."):
        found = getattr(found, part, None)
    if not hasattr(found, "_schema"):
        wrong = (
            "PyTorch has no operator {name!r}; import the package that registers it, or plan again with this PyTorch"
        )
        raise ArgumentError(wrong, name=name)
    return found


def savable(name: str) -> bool:
    """True if a policy may save the output of an operator: it changes nothing in place and is no view."""
    operator = overload(name)
    base = name.split(".")[1]
    return not getattr(operator, "is_view", False) and (not base.endswith("_") or base.startswith("__"))


@cache
def _runs_once(operator: Any) -> bool:
    """True for collectives with a result of their own; their wait is free."""
    return getattr(operator, "namespace", "") in ("_c10d_functional", "c10d_functional") and "wait" not in str(operator)


@cache
def _is_counted(operator: Any) -> bool:
    """True for operators that a rerun repeats: no views, changes in place, or reads of numbers and attributes."""
    changes = getattr(getattr(operator, "_schema", None), "is_mutable", False)
    reads = operator is aten._local_scalar_dense.default or getattr(operator, "namespace", "") == "prim"
    return not (changes or reads or getattr(operator, "is_view", False))


@cache
def _is_foreign(operator: Any) -> bool:
    """True for operators registered outside of PyTorch, which may draw without the tag that says so."""
    return getattr(operator, "namespace", "") not in ("aten", "prims", "_c10d_functional", "c10d_functional")


def _generators(arguments: Any) -> list[torch.Tensor]:
    """States of the random generators that an operator on these arguments may draw from."""
    on_gpu = {each.device for each in tensors(arguments) if each.is_cuda}
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state(device) for device in on_gpu)]


def _signature(args: Any) -> Any:
    """What tells the arguments of a call from others of its operator."""
    return torch.is_grad_enabled(), [(each.shape, each.dtype) for each in args if isinstance(each, torch.Tensor)]


# ---------------------------------------------------------------- one call of a block


class _Snapshot:
    """Saved outputs of an operator, the versions at which they were saved, the call, and whether it drew."""

    __slots__ = ("call", "drawn", "outputs", "versions")

    def __init__(self, outputs: Any, call: Any = None, drawn: bool = False) -> None:
        self.outputs, self.versions = outputs, [each._version for each in tensors(outputs)]
        self.call, self.drawn = call, drawn

    def detached(self) -> "_Snapshot":
        self.outputs = mapped(torch.Tensor.detach, self.outputs)
        return self

    def read(self) -> Any:
        for tensor, version in zip(tensors(self.outputs), self.versions, strict=True):
            if tensor._version != version:
                raise BackendError(
                    "a saved tensor of shape {shape} was changed in place before its gradient; leave it out of the "
                    "policy, or make the change out of place",
                    shape=tuple(tensor.shape),
                )
        return mapped(torch.Tensor.detach, self.outputs)


class _Outputs:
    """The saved outputs of one call of a block."""

    def __init__(self, saved: Saved) -> None:
        self.places: dict[Any, set[int]] = {}
        for name, place in saved:
            self.places.setdefault(overload(name), set()).add(place)
        self.values: dict[tuple[Any, int], _Snapshot] = {}
        self.sequence: list[Any] = []  # operators of the forward part, which a rerun has to repeat
        self.drawn = False  # a draw is saved
        self.redraw = False  # and one after it is not, so the generator has to move on in the rerun


class _Mode(TorchDispatchMode):
    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __init__(self, outputs: _Outputs) -> None:
        super().__init__()
        self.outputs = outputs
        self.places = Counter[Any]()
        self.all_count = not _is_distributed()  # else not those without gradients: `fully_shard` may gather in one run

    def _place(self, operator: Any) -> int:
        place = self.places[operator]
        self.places[operator] = place + 1
        return place


class _Forward(_Mode):
    """Stores the outputs of saved operators."""

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, outputs = kwargs or {}, self.outputs
        if is_cached_cast(operator, args):
            return operator(*args, **kwargs)
        saves = _runs_once(operator)
        if saves or operator in outputs.places:
            place = self._place(operator)
            saves = saves or place in outputs.places[operator]
        if saves:
            before = _generators((args, kwargs)) if _is_foreign(operator) else []
            result = operator(*args, **kwargs)
            drawn = draws(operator, args, kwargs) or not all(
                map(torch.equal, before, _generators((args, kwargs)) if before else [])
            )
            outputs.values[operator, place] = _Snapshot(result, _signature(args), drawn)
            outputs.drawn |= drawn
        else:
            result = operator(*args, **kwargs)
            if outputs.drawn and (_is_foreign(operator) or draws(operator, args, kwargs)):
                outputs.redraw = True
        if _is_counted(operator) and (self.all_count or torch.is_grad_enabled()):
            outputs.sequence.append(operator)
        return result

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        # Detached only here: within the dispatch an alias would not share the version counter.
        for each in self.outputs.values.values():
            each.detached()


class _Rerun(_Mode):
    """Answers saved operators from the stored outputs, each once, and runs all others."""

    def __enter__(self) -> "_Rerun":
        self.places.clear()
        self.sequence = iter(self.outputs.sequence)
        self.operators = {operator for operator, _ in self.outputs.values}
        return super().__enter__()

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, stored = kwargs or {}, None
        if is_cached_cast(operator, args):
            return operator(*args, **kwargs)
        if operator in self.operators:
            stored = self.outputs.values.pop((operator, self._place(operator)), None)
        known = stored is None or stored.call == _signature(args)
        if _is_counted(operator) and (self.all_count or torch.is_grad_enabled()):
            known = known and next(self.sequence, None) is operator
        if not known:
            raise BackendError(
                "the rerun of a block comes to {operator} where its forward did not; if the block makes a table, a "
                "mask or a cache in its first call, call the model once before training",
                operator=str(operator),
            )
        if stored is None:
            return operator(*args, **kwargs)
        if self.outputs.redraw and stored.drawn:
            operator(*args, **kwargs)
        return stored.read()


class _Kept(saved_tensors_hooks):
    """Lets autograd save tensors as it does without a checkpoint; the hooks of the checkpoint around stay unused."""

    def __init__(self) -> None:
        super().__init__(lambda tensor: _Snapshot(tensor).detached(), _Snapshot.read)


def contexts(saved: Saved | None) -> tuple[Any, Any]:
    """Return the contexts of the forward part and of the rerun of one call of a block."""
    if is_compiling():
        return create_selective_checkpoint_contexts(_policy(saved))
    if saved is KEEP_ALL:
        return _Kept(), contextlib.nullcontext()
    if not saved and not _is_distributed():
        return contextlib.nullcontext(), contextlib.nullcontext()
    outputs = _Outputs(saved)
    return _Forward(outputs), _Rerun(outputs)


def _is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _policy(saved: Saved | None) -> Callable[..., CheckpointPolicy]:
    """Return the policy of one call of a block, for compilers."""
    chosen, counts = frozenset(saved or ()), Counter[Any]()

    def policy(context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        place = counts[context.is_recompute, operator]
        counts[context.is_recompute, operator] += 1
        if saved is KEEP_ALL or (str(operator), place) in chosen or _runs_once(operator):
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return policy


# ---------------------------------------------------------------- wrapped blocks


def run_block(
    forward: Callable[..., Any], saved: Saved, offload: bool, norms: tuple[nn.Module, ...], *args: Any, **kwargs: Any
) -> Any:
    """Call the forward of a block in a checkpoint; without gradients call it alone."""
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    block: Any = getattr(forward, "__self__", None)
    if getattr(block, "gradient_checkpointing", False) and block.training:
        raise PlanError(
            "a {kind} has a plan, and the trainer checkpoints it too; switch its gradient checkpointing off, or give "
            "it plan.kwargs instead of plan.apply(model)",
            kind=type(block).__name__,
        )
    values = [*args, *kwargs.values()]
    # Tensors are arguments of the checkpoint, which checks their versions; one that is offloaded is the only one.
    moved = [i for i, each in enumerate(values) if isinstance(each, torch.Tensor)][: 1 if offload else None]
    others = [None if i in moved else each for i, each in enumerate(values)]
    call = partial(_call, forward, tuple(kwargs), others, moved)
    context = partial(contexts, saved) if not norms else partial(_with_norms, saved, norms)
    with _on_host() if offload else contextlib.nullcontext():
        return checkpoint(call, *[values[i] for i in moved], use_reentrant=False, context_fn=context)


def _call(
    forward: Callable[..., Any], names: Sequence[str], others: list[Any], moved: list[int], *tensors: torch.Tensor
) -> Any:
    values = list(others)
    for place, tensor in zip(moved, tensors, strict=True):
        values[place] = tensor
    count = len(values) - len(names)
    return forward(*values[:count], **dict(zip(names, values[count:], strict=True)))


def _on_host() -> saved_tensors_hooks:
    """Keep what the checkpoint itself saves, the input of its block, on the host."""

    def store(tensor: torch.Tensor) -> tuple[torch.device, torch.Tensor]:
        copy = torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
        return tensor.device, copy.copy_(tensor)

    return saved_tensors_hooks(store, lambda stored: stored[1].to(stored[0], non_blocking=stored[1].is_pinned()))


def _with_norms(saved: Saved, norms: Sequence[nn.Module]) -> tuple[Any, Any]:
    """Return the contexts of a block whose batch norms do not update their statistics a second time."""
    forward, rerun = contexts(saved)
    return forward, rerun if is_compiling() else _UnchangedStatistics(norms, rerun)


class _UnchangedStatistics:
    """The context of a rerun in which batch norms leave their statistics as they are."""

    def __init__(self, norms: Sequence[Any], rerun: Any) -> None:
        self.norms, self.rerun = norms, rerun
        self.before: dict[Any, tuple[float | None, int]] = {}

    def __enter__(self) -> None:
        for norm in self.norms:
            self.freeze(norm)
        self.rerun.__enter__()

    def freeze(self, module: Any, args: Any = None) -> None:
        """Leave the statistics of a module as they are, if it is a batch norm; a hook before its forward."""
        if isinstance(module, NORMS) and module.training and module.track_running_stats and module not in self.before:
            self.before[module] = module.momentum, module.num_batches_tracked._version
            module.momentum = 0.0

    def __exit__(self, *error: Any) -> None:
        try:
            self.rerun.__exit__(*error)
        finally:
            for norm, (momentum, version) in self.before.items():
                norm.momentum = momentum
                if count := norm.num_batches_tracked._version - version:
                    norm.num_batches_tracked.sub_(count)
            self.before = {}


def batch_norms(block: nn.Module) -> tuple[nn.Module, ...]:
    """Return the batch norms of a block."""
    return tuple(each for each in block.modules() if isinstance(each, NORMS))


# ---------------------------------------------------------------- blocks of a trainer


class TrainedBlocks:
    """The blocks for which a trainer calls one `context_fn`, in the order of their calls.

    A block is known again by the first module that its forward calls. So passes that were broken off, passes without
    gradients and other orders do not shift the treatments.
    """

    def __init__(self, treatments: Sequence[Saved | None]) -> None:
        self.treatments = tuple(treatments)
        self.places: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()
        self.next = 0
        self.failed = False  # a block raised an error
        self.short = 0  # blocks seen before the last pass that began too early

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.treatments,)

    def advance(self) -> int:
        """Return the place of the block that is called now."""
        place = self.next
        self.next = (place + 1) % len(self.treatments)
        return place

    def place(self, first: nn.Module, expected: int) -> int:
        """Return the place of the block whose forward calls this module first."""
        count, seen = len(self.treatments), len(self.places)
        place = self.places.get(first)
        early = place == 0 and seen < count and not self.failed
        if (place is None and seen == count) or (early and self.short == seen):
            raise ArgumentError(
                "the plan is for {count} blocks, and the trainer checkpoints {seen!w}; plan for this model, and read "
                "plan.kwargs once for each model",
                count=count,
                seen="more" if seen == count else seen,
            )
        self.short = seen if early else self.short
        return self.places.setdefault(first, expected)


class _BlockForward:
    """The context in which a block of a trainer runs."""

    def __init__(self, trained: TrainedBlocks) -> None:
        self.trained = trained
        self.stack = contextlib.ExitStack()

    def __enter__(self) -> None:
        self.place = self.trained.advance()
        self.hook = register_module_forward_pre_hook(self._recognize)
        self._begin(self.trained.treatments[self.place])

    def _begin(self, saved: Saved | None) -> None:
        forward, self.rerun = contexts(saved)
        self.stack.enter_context(forward)

    def _recognize(self, module: nn.Module, args: Any) -> None:
        self.hook.remove()
        place = self.trained.place(module, self.place)
        if place != self.place:
            self.stack.close()
            self.trained.next = place
            self.trained.advance()
            # Operators before the first module were not counted, so none is saved by its count in this call.
            self._begin(KEEP_ALL if self.trained.treatments[place] is KEEP_ALL else ())

    def __exit__(self, *error: Any) -> None:
        self.hook.remove()
        self.trained.failed |= error[0] is not None
        self.stack.__exit__(*error)


class _BlockRerun:
    """The context in which a block of a trainer runs again; its batch norms become known as they are called."""

    def __init__(self, forward: _BlockForward) -> None:
        self.forward = forward

    def __enter__(self) -> None:
        self.statistics = _UnchangedStatistics((), self.forward.rerun)
        self.hook = register_module_forward_pre_hook(self.statistics.freeze)
        self.statistics.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.hook.remove()
        self.statistics.__exit__(*error)


def next_contexts(trained: TrainedBlocks) -> tuple[Any, Any]:
    """Return the contexts of a block of a trainer; it is the `context_fn` of all of them."""
    if is_compiling():
        return contexts(trained.treatments[trained.advance()])
    forward = _BlockForward(trained)
    return forward, _BlockRerun(forward)
