"""Selective checkpoints in PyTorch: the outputs of chosen operators of a block stay saved."""

import contextlib
import sys
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from remat_algos.errors import ArgumentError, BackendError, PlanError
from remat_algos.interop.torch.eager_capture import NORMS, draws, is_cached_cast
from remat_algos.interop.torch.stable_names import (
    LightMode,
    is_compiling,
    schema_of,
    storage_key,
    version,
    writes_into_arguments,
)
from remat_algos.interop.torch.storages import mapped, named_tensors, tensors
from remat_algos.wording import listed

aten = torch.ops.aten
Saved = tuple[tuple[str, int], ...]
"""Operators whose outputs stay saved: pairs (overload, number of earlier calls of the overload in the block)."""
KEEP_ALL = None


@cache
def overload(name: str) -> Any:
    """Return the operator with a name such as "aten.mm.default"."""
    operator: Any = torch.ops
    for part in name.split("."):
        operator = getattr(operator, part, None)
    if schema_of(operator) is None:
        wrong = (
            "PyTorch has no operator {name!r}; import the package that registers it, or plan again with this PyTorch"
        )
        raise ArgumentError(wrong, name=name)
    return operator


def savable(name: str) -> bool:
    """Return True if a policy may save an operator's output: it returns no view and writes nothing in place."""
    operator = overload(name)
    base = name.split(".")[1]
    return not getattr(operator, "is_view", False) and (not base.endswith("_") or base.startswith("__"))


@dataclass(frozen=True, slots=True)
class _Traits:
    cast: bool
    """True for a cast, whose result autocast may cache."""
    once: bool
    """True for a collective, whose result must be saved; false for `wait`, which costs nothing."""
    counted: bool
    """True if reruns must repeat it; false for views, changes in place, reads of an element and profiler marks."""
    foreign: bool
    """True if it is not PyTorch's own; it may then draw random numbers without PyTorch's tag for random operators."""
    draws: bool
    """True if it may draw random numbers."""


@cache
def _traits(operator: Any) -> _Traits:
    namespace = getattr(operator, "namespace", "")
    # Profiler marks are not counted, because `fully_shard` marks its gathers in the forward part only.
    reads = operator is aten._local_scalar_dense.default or namespace in ("prim", "profiler")
    collective = namespace in ("_c10d_functional", "c10d_functional")
    foreign = namespace not in ("aten", "prims") and not collective
    return _Traits(
        cast=operator is aten._to_copy.default,
        once=collective and "wait" not in str(operator),
        counted=not (writes_into_arguments(operator) or reads or getattr(operator, "is_view", False)),
        foreign=foreign,
        draws=foreign or torch.Tag.nondeterministic_seeded in getattr(operator, "tags", ()),
    )


def _generators(arguments: Any) -> list[torch.Tensor]:
    """Return the states of the random generators from which an operator on these arguments may draw."""
    on_gpu = {each.device for each in tensors(arguments) if each.is_cuda}
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state(device) for device in on_gpu)]


def _signature(args: Any) -> list[Any]:
    """Describe the arguments of a call; a rerun compares descriptions to check that it makes the same call."""
    signature: list[Any] = [torch.is_grad_enabled()]
    for each in args:
        if isinstance(each, torch.Tensor):
            signature += each.shape
            signature.append(each.dtype)
    return signature


def _version(outputs: Any) -> int:
    """Return a number that increases with every in-place change of an output."""
    return version(outputs) if isinstance(outputs, torch.Tensor) else sum(map(version, tensors(outputs)))


class _Snapshot:
    """Saved outputs of a call, with their version, the signature of the call, and whether it drew random numbers."""

    __slots__ = ("call", "drawn", "outputs", "version")

    def __init__(self, outputs: Any, call: Any = None, drawn: bool = False) -> None:
        self.outputs, self.version, self.call, self.drawn = outputs, _version(outputs), call, drawn

    def detached(self) -> "_Snapshot":
        self.outputs = mapped(torch.Tensor.detach, self.outputs)
        return self

    def read(self) -> Any:
        if _version(self.outputs) != self.version:
            raise BackendError(
                "a saved tensor of shape {shape} was changed in place before its gradient was computed; leave it "
                "out of the policy, or change a copy",
                shape=tuple(max(tensors(self.outputs), key=version).shape),
            )
        return mapped(torch.Tensor.detach, self.outputs)


class _Calls:
    """Calls of one operator in a block: counts of calls in the forward part and in the rerun, and saved outputs."""

    __slots__ = ("again", "count", "operator", "places", "saved", "traits")

    def __init__(self, operator: Any, places: Collection[int] = ()) -> None:
        self.operator, self.traits = operator, _traits(operator)
        self.places = range(sys.maxsize) if self.traits.once else places
        self.count = self.again = 0
        self.saved: dict[int, _Snapshot] = {}


@lru_cache
def _places(saved: Saved) -> dict[Any, set[int]]:
    places: dict[Any, set[int]] = {}
    for name, place in saved:
        places.setdefault(overload(name), set()).add(place)
    return places


class _Forward(LightMode):
    """Dispatch mode of the forward part, which stores the outputs of saved operators in one call to a block."""

    def __init__(self, saved: Saved) -> None:
        super().__init__()
        self.saved = saved
        # Keys are ids, because the hash of an operator is computed in slow Python code.
        self.calls = {id(operator): _Calls(operator, places) for operator, places in _places(saved).items()}
        # `fully_shard` may gather parameters in the forward part but not in the rerun, or vice versa. Gathers run
        # without gradients, so in distributed training only operators that run with gradients have to be repeated.
        self.all_count = not _is_distributed()
        self.sequence: list[Any] = []  # calls to repeat
        self.drawn = False  # a saved operator has drawn
        # True if an unsaved draw has followed a saved one: the rerun must then repeat the saved one to advance the
        # generator.
        self.redraw = False

    def calls_of(self, operator: Any) -> _Calls:
        return self.calls.get(id(operator)) or self.calls.setdefault(id(operator), _Calls(operator))

    def is_repeated(self, traits: _Traits) -> bool:
        return traits.counted and (self.all_count or torch.is_grad_enabled())

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, calls = kwargs or {}, self.calls_of(operator)
        traits, place = calls.traits, calls.count
        if traits.cast and is_cached_cast(operator, args):
            return operator(*args, **kwargs)
        calls.count += 1
        if self.is_repeated(traits):
            self.sequence.append(operator)
        saves = place in calls.places
        before = _generators((args, kwargs)) if saves and traits.foreign else []
        result = operator(*args, **kwargs)
        drawn = traits.draws and draws(operator, args, kwargs)
        if saves:
            if traits.foreign:
                drawn |= not all(map(torch.equal, before, _generators((args, kwargs))))
            calls.saved[place] = _Snapshot(result, _signature(args), drawn)
            self.drawn |= drawn
        elif self.drawn and (drawn or traits.foreign):
            self.redraw = True
        return result

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        # Detach only now, because inside of a dispatch the detached tensor would not share the version counter.
        for calls in self.calls.values():
            for each in calls.saved.values():
                each.detached()


class _Rerun(LightMode):
    """Dispatch mode of the rerun, which returns each stored output once and runs all other operators."""

    def __init__(self, forward: _Forward) -> None:
        super().__init__()
        self.forward = forward

    def __enter__(self) -> "_Rerun":
        forward = self.forward
        missing = [f"{name}#{i}" for name, i in forward.saved if i >= forward.calls_of(overload(name)).count]
        if missing:
            warnings.warn(
                f"the plan saves {listed(missing)}, which the forward of a block did not run; plan again for this "
                "model and its inputs",
                stacklevel=2,
            )
        for calls in forward.calls.values():
            calls.again = 0
        self.sequence = iter(forward.sequence)
        return super().__enter__()

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, calls = kwargs or {}, self.forward.calls_of(operator)
        if calls.traits.cast and is_cached_cast(operator, args):
            return operator(*args, **kwargs)
        stored = calls.saved.pop(calls.again, None)
        calls.again += 1
        is_same = stored is None or stored.call == _signature(args)
        if self.forward.is_repeated(calls.traits):
            is_same = is_same and next(self.sequence, None) is operator
        if not is_same:
            raise BackendError(
                "recomputing a block runs {operator} where its forward part ran another operator; if the block creates "
                "a table, a mask or a cache in its first call, call the model once before training",
                operator=str(operator),
            )
        if stored is None:
            return operator(*args, **kwargs)
        if self.forward.redraw and stored.drawn:
            operator(*args, **kwargs)
        return stored.read()


class _Kept(saved_tensors_hooks):
    """Hooks that override those of a checkpoint, so that autograd saves tensors as it does without a checkpoint."""

    def __init__(self) -> None:
        super().__init__(lambda tensor: _Snapshot(tensor).detached(), _Snapshot.read)


def contexts(saved: Saved | None) -> tuple[Any, Any]:
    """Return the contexts for the forward part and the rerun of one call to a block."""
    if is_compiling():
        return create_selective_checkpoint_contexts(_policy(saved))
    if saved is KEEP_ALL:
        return _Kept(), contextlib.nullcontext()
    if not saved and not _is_distributed():
        return contextlib.nullcontext(), contextlib.nullcontext()
    forward = _Forward(saved)
    return forward, _Rerun(forward)


def _is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _policy(saved: Saved | None) -> Callable[..., CheckpointPolicy]:
    chosen, counts = frozenset(saved or ()), Counter[Any]()

    def policy(context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        place = counts[context.is_recompute, operator]
        counts[context.is_recompute, operator] += 1
        if saved is KEEP_ALL or (str(operator), place) in chosen or _traits(operator).once:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return policy


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The decision on a wrapped block, and the modules in it that have parameters or are batch norms."""

    saved: Saved
    modules: tuple[nn.Module, ...]
    offloads: bool = False
    inputs: tuple[str, ...] = ()  # offloaded; empty means all


def _contexts(treatment: Checkpoint) -> tuple[Any, Any]:
    forward, rerun = contexts(treatment.saved)
    if is_compiling():
        return forward, rerun
    unchanged = _Unchanged(rerun)
    for each in treatment.modules:
        unchanged.note(each)
    return forward, unchanged


def run_block(forward: Callable[..., Any], treatment: Checkpoint, *args: Any, **kwargs: Any) -> Any:
    """Call the forward of a block in a checkpoint; call it directly if gradients are not recorded."""
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    block: Any = getattr(forward, "__self__", None)
    if getattr(block, "gradient_checkpointing", False) and block.training:
        raise PlanError(
            "a {kind} has a plan, but the trainer checkpoints it too; switch off the trainer's gradient checkpointing, "
            "or pass plan.kwargs to it instead of plan.apply(model)",
            kind=type(block).__name__,
        )
    # Pass tensors as arguments: the checkpoint then keeps them and checks their versions.
    named = list(named_tensors(args, kwargs))
    others = [_in_tuples(lambda each: _TENSOR if isinstance(each, torch.Tensor) else each, (*args, *kwargs.values()))]
    call = partial(_call, forward, len(args), tuple(kwargs), others.pop())
    offloaded = {
        storage_key(tensor)
        for name, tensor in (named if treatment.offloads else ())
        if (name in treatment.inputs or not treatment.inputs) and not isinstance(tensor, nn.Parameter)
    }
    with _OnHost(offloaded) if offloaded else contextlib.nullcontext():
        return checkpoint(
            call, *(each for _, each in named), use_reentrant=False, context_fn=partial(_contexts, treatment)
        )


_TENSOR = object()


def _in_tuples(function: Callable[[Any], Any], argument: Any) -> Any:
    if not isinstance(argument, tuple):
        return function(argument)
    parts = [_in_tuples(function, each) for each in argument]
    return type(argument)(*parts) if hasattr(argument, "_fields") else type(argument)(parts)


def _call(
    forward: Callable[..., Any], count: int, names: Sequence[str], others: tuple[Any, ...], *tensors: torch.Tensor
) -> Any:
    remaining = iter(tensors)
    values = _in_tuples(lambda each: next(remaining) if each is _TENSOR else each, others)
    return forward(*values[:count], **dict(zip(names, values[count:], strict=True)))


class _OnHost(saved_tensors_hooks):
    """Hooks that store an input of a checkpoint on the host if its storage is in `offloaded`."""

    def __init__(self, offloaded: Collection[int]) -> None:
        self.offloaded, self.copies = offloaded, dict[int, _HostCopy]()
        super().__init__(self.store, lambda packed: packed.read())

    def store(self, tensor: torch.Tensor) -> Any:
        key = storage_key(tensor)
        if key not in self.offloaded:
            return _Snapshot(tensor).detached()
        if hasattr(tensor, "__tensor_flatten__"):
            return _PartsOnHost(tensor)
        if key not in self.copies:
            self.copies[key] = _HostCopy(tensor)
        return self.copies[key].view_of(tensor)


class _PartsOnHost:
    """A tensor that consists of other tensors, such as a DTensor, with their whole storages on the host."""

    def __init__(self, tensor: Any) -> None:
        names, self.context = tensor.__tensor_flatten__()
        # Some parts are not tensors, such as the mesh of a DTensor.
        self.parts = {name: mapped(lambda part: _HostCopy(part).view_of(part), getattr(tensor, name)) for name in names}
        self.build, self.shape = type(tensor).__tensor_unflatten__, (tensor.shape, tensor.stride())

    def read(self) -> Any:
        parts = {name: part.read() if isinstance(part, _View) else part for name, part in self.parts.items()}
        return self.build(parts, self.context, *self.shape)


class _HostCopy:
    """A copy of a whole storage on the host, which several tensors can share; a rerun loads it once."""

    def __init__(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        flat = tensor.as_strided((storage.nbytes() // tensor.itemsize,), (1,), 0)
        self.device = tensor.device
        self.host = torch.empty_like(flat, device="cpu", pin_memory=tensor.is_cuda).copy_(flat)
        self.views = self.unread = 0
        self.loaded: torch.Tensor | None = None

    def view_of(self, tensor: torch.Tensor) -> "_View":
        self.views += 1
        return _View(self, tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset())

    def load(self) -> torch.Tensor:
        if self.loaded is None:
            self.loaded = self.host.to(self.device, non_blocking=self.host.is_pinned(), copy=True)
            self.unread = self.views
        self.unread -= 1
        loaded = self.loaded
        if not self.unread:
            self.loaded = None
        return loaded


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    copy: _HostCopy
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def read(self) -> torch.Tensor:
        return self.copy.load().view(self.dtype).as_strided(self.shape, self.stride, self.offset)


class _Unchanged:
    """Context manager for a rerun: checks that parameters are unchanged and freezes the statistics of batch norms."""

    def __init__(self, rerun: Any = None) -> None:
        self.rerun = rerun
        self.versions: dict[int, tuple[torch.Tensor, int]] = {}
        self.norms: dict[Any, tuple[float | None, int]] = {}

    def note(self, module: nn.Module, args: Any = None) -> None:
        """Record the versions of a module's parameters, and the momentum of a batch norm, before its forward."""
        for each in module.parameters(recurse=False):
            self.versions[id(each)] = each, version(each)
        if isinstance(module, NORMS) and module.training and module.track_running_stats:
            self.norms[module] = module.momentum, 0

    def __enter__(self) -> None:
        for parameter, before in self.versions.values():
            if version(parameter) != before:
                raise BackendError(
                    "a parameter of shape {shape} was changed after the forward part, so its block would be recomputed "
                    "with other values; call optimizer.step() after backward()",
                    shape=tuple(parameter.shape),
                )
        for norm in self.norms:
            self.norms[norm] = norm.momentum, version(norm.num_batches_tracked)
            norm.momentum = 0.0
        self.rerun.__enter__()

    def __exit__(self, *error: Any) -> None:
        try:
            self.rerun.__exit__(*error)
        finally:
            for norm, (momentum, before) in self.norms.items():
                norm.momentum = momentum
                if count := version(norm.num_batches_tracked) - before:
                    norm.num_batches_tracked.sub_(count)


class TrainedBlocks:
    """Assigns the decisions of a plan to blocks, if a trainer calls the same `context_fn` for all blocks.

    A block is recognized by the first module that its forward calls. The assignment therefore stays correct after an
    interrupted pass, a pass without gradients, or a change of the order of the blocks.
    """

    def __init__(self, treatments: Sequence[Saved | None]) -> None:
        self.treatments = tuple(treatments)
        self.places: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()
        self.next = 0
        self.failed = False  # a block raised an error
        self.short = 0  # blocks in last incomplete pass

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.treatments,)

    def advance(self) -> int:
        """Return the number of the next block in the plan's order, and move on to the block after it."""
        place = self.next
        self.next = (place + 1) % len(self.treatments)
        return place

    def place(self, first: nn.Module, expected: int) -> int:
        """Return the number of the block whose first module is `first`; a new block gets number `expected`."""
        count, seen = len(self.treatments), len(self.places)
        place = self.places.get(first)
        early = place == 0 and seen < count and not self.failed
        if (place is None and seen == count) or (early and self.short == seen):
            raise ArgumentError(
                "the plan is for {count} blocks, but the trainer checkpoints {seen!w}; plan for this model, leave "
                "every_n_layers at 1, and read plan.kwargs once per model",
                count=count,
                seen="more" if seen == count else seen,
            )
        self.short = seen if early else self.short
        return self.places.setdefault(first, expected)


class _BlockForward:
    """Context of the forward of a block that a trainer checkpoints; `rerun` is the context of its recomputation."""

    def __init__(self, trained: TrainedBlocks) -> None:
        self.trained = trained
        self.stack = contextlib.ExitStack()
        self.rerun = _Unchanged()
        self.recognized = False

    def __enter__(self) -> None:
        self.place = self.trained.advance()
        self.hook = register_module_forward_pre_hook(self._enter_module)
        self._begin(self.trained.treatments[self.place])

    def _begin(self, saved: Saved | None) -> None:
        forward, self.rerun.rerun = contexts(saved)
        self.stack.enter_context(forward)

    def _enter_module(self, module: nn.Module, args: Any) -> None:
        self.rerun.note(module)
        if self.recognized:
            return
        self.recognized = True
        place = self.trained.place(module, self.place)
        if place != self.place:
            self.stack.close()
            self.trained.next = place
            self.trained.advance()
            # Operators that ran before the first module were not counted for this block, so its call numbers would be
            # wrong: save no outputs in this call.
            self._begin(KEEP_ALL if self.trained.treatments[place] is KEEP_ALL else ())

    def __exit__(self, *error: Any) -> None:
        self.hook.remove()
        self.trained.failed |= error[0] is not None
        self.stack.__exit__(*error)


def next_contexts(trained: TrainedBlocks) -> tuple[Any, Any]:
    """Return the contexts of the next block that a trainer checkpoints; this is the `context_fn` for all its blocks."""
    if is_compiling():
        return contexts(trained.treatments[trained.advance()])
    forward = _BlockForward(trained)
    return forward, forward.rerun
