"""Capture of an eager training step without a compiler: operators, storages, and when PyTorch frees them."""

import contextlib
import gc
import re
import traceback
import warnings
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from itertools import zip_longest
from math import prod
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from remat_algos.arguments import checked_arguments
from remat_algos.cost.node_costs import AnyDevice, Cost
from remat_algos.errors import ArgumentTypeError, GraphError, PlanError, about
from remat_algos.interop.torch.costs import Call, price
from remat_algos.interop.torch.storages import stored_bytes
from remat_algos.ir.arrays import from_lists, indptr_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import ROLES, Labels, Resident
from remat_algos.plan.blocks import KEEP, Blocks, Holds

CUDA_ROUNDING = 512  # bytes to which CUDA's allocator rounds
FREE = (torch.ops.prim.device.default,)  # asked for attributes of fake tensors
KNOWN = 2**16  # elements of a tensor whose numbers are computed, if they do not depend on parameters
COLLECTIVES = ("_c10d_functional", "c10d_functional", "c10d")
DataDependent = (DataDependentOutputException, DynamicOutputShapeException)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
RESIDENT = -1  # base of a value that is made in place in a resident
FORWARD, NO_OWNER = -1, -2  # entries of `forward_of`
PLAIN = torch.Tensor, type, FunctionType, MethodType, ModuleType  # objects that are no containers


def tensors(arguments: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested tuples, lists, mappings and dataclasses."""
    if isinstance(arguments, torch.Tensor):
        yield arguments
    elif isinstance(arguments, Mapping):
        for each in arguments.values():
            yield from tensors(each)
    elif isinstance(arguments, tuple | list):
        for each in arguments:
            yield from tensors(each)
    elif _is_record(arguments):
        for each in fields(arguments):
            yield from tensors(getattr(arguments, each.name, None))


def _is_record(arguments: Any) -> bool:
    return is_dataclass(arguments) and not isinstance(arguments, type)


def named_tensors(args: Any, kwargs: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield names and tensors of the arguments of a call: "0", "mask", and in tuples "pair.1"."""
    pending = [*((str(i), each) for i, each in enumerate(args)), *kwargs.items()]
    for name, each in pending:
        if isinstance(each, torch.Tensor):
            yield name, each
        elif isinstance(each, tuple):
            yield from ((f"{name}.{inner}", tensor) for inner, tensor in named_tensors(each, {}))


def mapped(function: Callable[[torch.Tensor], Any], arguments: Any) -> Any:
    """Return nested arguments with a function applied to each tensor."""
    if isinstance(arguments, torch.Tensor):
        return function(arguments)
    if isinstance(arguments, dict):
        contents = {name: mapped(function, each) for name, each in arguments.items()}
        return contents if type(arguments) is dict else type(arguments)(**contents)
    if isinstance(arguments, tuple) and hasattr(arguments, "_fields"):
        return type(arguments)(*(mapped(function, each) for each in arguments))
    if isinstance(arguments, tuple | list):
        return type(arguments)(mapped(function, each) for each in arguments)
    if _is_record(arguments):
        record = copy(arguments)
        for each in fields(record):
            if hasattr(record, each.name):
                object.__setattr__(record, each.name, mapped(function, getattr(record, each.name)))
        return record
    return arguments


# ---------------------------------------------------------------- what a step leaves as it was


class _Attributes:
    """What the attributes of a module refer to, in its submodules and in the containers of these too.

    With the arguments of a call: what these refer to as well, in objects of any class.
    """

    def __init__(self, module: nn.Module, arguments: Any = ()) -> None:
        self.before: dict[int, tuple[Any, Any]] = {}  # by id: containers and copies of them
        self.add([module], nn.Module)
        self.own = len(self.before)  # the others are those of the arguments
        self.add(arguments, object)

    def add(self, entries: Sequence[Any], kind: type) -> None:
        """Note containers, and what they and the attributes of objects of a kind contain."""
        pending = [*entries]
        while pending:
            each = pending.pop()
            container = isinstance(each, tuple | dict | list | set | deque)
            if not container and isinstance(each, kind) and hasattr(each, "__dict__") and not isinstance(each, PLAIN):
                each, container = vars(each), True
            if isinstance(each, tuple):
                pending += each
            elif container and id(each) not in self.before:
                self.before[id(each)] = each, _copied(each)
                pending += each.values() if isinstance(each, dict) else each

    def changes(self) -> Iterator[tuple[Any, Any, Any]]:
        """Yield containers whose entries are others by now, and the entries before and now."""
        for each, before in self.before.values():
            now = _copied(each)
            if _ids(before) != _ids(now):
                yield each, before, now

    def change(self) -> str:
        """Why a module cannot run twice: what it has left in an attribute or an argument; "" if nothing."""
        given = {id(each) for each, _ in [*self.before.values()][self.own :]}
        for changed, before, now in self.changes():
            if id(changed) in given:
                return (
                    "it changes a list, a mapping or an object among its arguments, such as a cache (use_cache=False), "
                    "which a second run would change again"
                )
            if isinstance(now, dict):
                pairs = [(before.get(name), now.get(name)) for name in before | now]
            else:
                pairs = list(zip_longest(before, now))
            for old, new in pairs:
                if new is old:
                    continue
                if _has_tensor(old):
                    return "it replaces a tensor in an attribute, which a second run would not find"
                if _has_tensor(new):
                    return "it leaves a tensor in an attribute, which a second run would find there"
                if isinstance(old, int | float) and isinstance(new, int | float) and old != new:
                    return "it changes a number in an attribute, which a second run would change again"
        return ""

    def restore(self) -> None:
        for each, before, _ in list(self.changes()):
            each.clear()
            if isinstance(each, dict):
                for name, entry in before.items():
                    each[name] = entry
            elif isinstance(each, set):
                each.update(before)
            else:
                each.extend(before)


def _has_tensor(entry: Any) -> bool:
    return isinstance(entry, nn.Module) or next(tensors(entry), None) is not None


def _copied(container: Any) -> Any:
    return dict(container) if isinstance(container, dict) else list(container)


def _ids(entries: Any) -> list[int]:
    return [id(each) for each in (*entries, *(entries.values() if isinstance(entries, dict) else ()))]


# ---------------------------------------------------------------- a step on fake tensors


class _AttentionKernels(TorchFunctionMode):
    """Chooses the attention kernel that a GPU would use, where this build of PyTorch has none of its kernels."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is nn.functional.scaled_dot_product_attention:
            return _attention(*args, **kwargs)
        return function(*args, **kwargs)


def _attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """Flash attention for half precision without a mask, else the memory-efficient kernel."""
    if enable_gqa and key.shape[-3] != query.shape[-3]:
        key, value = (each.repeat_interleave(query.shape[-3] // each.shape[-3], -3) for each in (key, value))
    half = query.dtype in (torch.float16, torch.bfloat16)
    if half and attn_mask is None and query.shape[-1] <= 256:
        pad = -query.shape[-1] % 8
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        padded = (nn.functional.pad(each, (0, pad)) if pad else each for each in (query, key, value))
        result = torch.ops.aten._scaled_dot_product_flash_attention(*padded, dropout_p, is_causal, False, scale=scale)
        return result[0][..., : value.shape[-1]] if pad else result[0]
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(~attn_mask, float("-inf"))
        attn_mask = attn_mask.expand(*query.shape[:-1], key.shape[-2])
    wants = torch.is_grad_enabled() and any(each.requires_grad for each in (query, key, value))
    return torch.ops.aten._scaled_dot_product_efficient_attention(
        query, key, value, attn_mask, wants, dropout_p, is_causal, scale=scale
    )[0]


@dataclass(slots=True)
class _FakeStep:
    """A model with fake parameters and inputs, ready to run one step."""

    model: nn.Module
    fakes: dict[int, torch.Tensor]
    names: dict[int, str]  # of parameters and buffers, by id of the fake
    parameters: dict[str, torch.Tensor]
    args: tuple[Any, ...]
    keywords: dict[str, Any]
    on: torch.device | None
    counters: set[int] = field(default_factory=set)  # ids of the fakes that count batches of norms
    numbers: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)  # before they were overwritten

    @classmethod
    def of(cls, model: nn.Module, inputs: Any, keywords: Any, on: torch.device | None, mode: Any) -> "_FakeStep":
        fakes: dict[int, torch.Tensor] = {}

        def fake(tensor: torch.Tensor) -> torch.Tensor:
            if id(tensor) not in fakes and _is_known(tensor):
                fakes[id(tensor)] = tensor.detach().clone()
            elif id(tensor) not in fakes:
                with mode:
                    copy = torch.empty_strided(
                        tensor.shape, tensor.stride(), dtype=tensor.dtype, device=_place(on or tensor.device)
                    )
                if isinstance(tensor, nn.Parameter):
                    copy = nn.Parameter(copy, tensor.requires_grad)
                fakes[id(tensor)] = copy.requires_grad_(tensor.requires_grad)
            return fakes[id(tensor)]

        parameters: dict[str, torch.Tensor] = {}
        names: dict[int, str] = {}
        counters: set[int] = set()
        for kind in (nn.Module.named_parameters, nn.Module.named_buffers):
            # once in each module that has it: of two names of one module, the second would put the fake back
            for path, module in model.named_modules():
                for name, tensor in kind(module, path, recurse=False, remove_duplicate=False):
                    parameters[name] = fake(tensor)
                    names.setdefault(id(parameters[name]), name)
                    if isinstance(module, NORMS) and tensor is module.num_batches_tracked:
                        counters.add(id(parameters[name]))
        if isinstance(inputs, torch.Tensor):
            error = ArgumentTypeError("inputs is a tensor; give a sequence of the model's arguments, (inputs,)")
            raise about("inputs", error)
        args, keywords = ((), dict(inputs)) if isinstance(inputs, Mapping) else (tuple(inputs), dict(keywords or {}))
        return cls(model, fakes, names, parameters, mapped(fake, args), mapped(fake, keywords), on, counters)

    def run(self, loss: Any, tracker: "_Tracker") -> torch.Tensor:
        """Run forward and backward with the fake parameters, which checkpoints read again, and return the loss."""

        class Whole(nn.Module):
            def __init__(self, model: nn.Module) -> None:
                super().__init__()
                self.model = model

            def forward(whole, args: Any, keywords: Any) -> torch.Tensor:
                scalar = _checked(whole.model(*args, **keywords), loss)
                tracker.start_backward()
                with _outside_autocast():
                    scalar.backward()
                return scalar

        parameters = {f"model.{name}": each for name, each in self.parameters.items()}
        whole, given = Whole(self.model), (self.args, self.keywords)
        return torch.func.functional_call(whole, parameters, given, tie_weights=False)

    @property
    def on_gpu(self) -> bool:
        """True if CUDA's allocator would count the bytes."""
        devices = [each.device for each in self.fakes.values()] if self.on is None else [self.on]
        return any(device.type == "cuda" for device in devices)

    def lacking(self) -> set[int]:
        """Ids of trainable tensors without a gradient."""
        return {id(each) for each in self.fakes.values() if each.requires_grad and each.grad is None}


@contextlib.contextmanager
def _outside_autocast() -> Iterator[None]:
    """Context of the backward part: trainers have autocast around the forward part alone, which empties its cache."""
    torch.clear_autocast_cache()
    enabled = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    with contextlib.ExitStack() as stack:
        for kind in enabled:
            stack.enter_context(torch.autocast(kind, enabled=False))
        depth = torch.autocast_increment_nesting()
        for _ in range(depth):
            torch.autocast_decrement_nesting()
        try:
            yield
        finally:
            for _ in range(depth - 1):
                torch.autocast_increment_nesting()


def _checked(result: Any, loss: Any) -> torch.Tensor:
    """Return the loss of a model's result."""
    scalar = loss(result) if callable(loss) else _loss_of(result)
    if not isinstance(scalar, torch.Tensor) or scalar.numel() != 1:
        raise GraphError(
            "the model's result is no loss: expected a scalar, or an entry `loss`; give the labels among the "
            "inputs, or loss= a function from the result to the loss"
        )
    if not scalar.requires_grad:
        raise GraphError(
            "the loss needs no gradient: no trainable parameter reaches it; check torch.no_grad() and requires_grad"
        )
    return scalar


def _is_known(tensor: torch.Tensor) -> bool:
    """True for small tensors of integers, which a model may read to choose its operators."""
    small = tensor.device.type == "cpu" and tensor.numel() <= KNOWN
    return small and not (tensor.is_floating_point() or tensor.is_complex())


def _place(device: torch.device) -> torch.device:
    """Return the device of fake tensors: the CPU, if PyTorch has no autograd for the one that is asked for."""
    if device.type == "meta" or (device.type == "cuda" and not torch.cuda.is_available()):
        return torch.device("cpu")
    return device


def _loss_of(result: Any) -> Any:
    if isinstance(result, Mapping) and "loss" in result:
        return result["loss"]
    return getattr(result, "loss", result)


class _Tracker(TorchDispatchMode):
    """Follows the operators of a step and the storages that they make; see `record` of its subclasses.

    The engine adds gradients in place if it alone owns the first one. Under a dispatch mode it adds out of place, so
    the sum is counted in place if the first gradient is freed at once.
    """

    def __init__(self, mode: Any, step: _FakeStep) -> None:
        super().__init__()
        self.mode, self.step = mode, step
        self.on = None if step.on is None else _place(step.on)
        self.on_gpu = step.on_gpu
        self.quiet = self.backward = False
        self.between_nodes = False  # the engine runs no node of autograd: it adds gradients
        self.viewed: set[int] = set()  # storages of which there have been views
        self.last: list[Any] = []  # weak references to the last results, whose nodes of autograd are not known yet

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if operator in FREE or self.quiet:
            return operator(*args, **kwargs)
        self.attach()
        result = self.result_of(operator, args, kwargs)
        summed = self.between_nodes and operator is torch.ops.aten.add.Tensor and _is_dense(args[0])
        self.record(operator, args, kwargs, result, summed)
        results = list(tensors(result))
        storages = {id(each.untyped_storage()) for each in results}
        if not operator._schema.is_mutable:
            self.viewed |= storages & {id(each.untyped_storage()) for each in tensors((args, kwargs))}
        elif not self.viewed.isdisjoint(storages):
            return result  # to read the autograd node of a view that was written would run operators
        self.last = [weakref.ref(each) for each in results]
        return result

    def result_of(self, operator: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator on fake tensors, or on the numbers of small tensors that parameters do not change."""
        arguments = list(tensors((args, kwargs)))
        known = [each for each in arguments if not isinstance(each, FakeTensor)]
        if len(known) < len(arguments) or torch.Tag.nondeterministic_seeded in operator.tags:
            if any(each is other for each in known for other in _written(operator, args, kwargs)):
                raise GraphError("the model writes numbers that depend on its parameters into a tensor of integers")
            return self.fake_result(operator, args, kwargs)
        if not operator._schema.is_mutable:
            try:
                result = self.fake_result(operator, args, kwargs)
            except DataDependent:
                result = None
            results = list(tensors(result))
            if any(each.numel() > KNOWN for each in (*results, *arguments)):
                return result
            if not arguments and any(each.is_floating_point() or each.is_complex() for each in results):
                return result
        kwargs = {name: torch.device("cpu") if name == "device" else each for name, each in kwargs.items()}
        self.mode.__exit__(None, None, None)
        try:
            written = [each for each in _written(operator, args, kwargs) if self.is_outside(each)]
            self.step.numbers += [(each, each.detach().clone()) for each in written]
            return operator(*args, **kwargs)
        finally:
            self.mode.__enter__()

    def fake_result(self, operator: Any, args: Any, kwargs: Any) -> Any:
        if str(operator) == "aten._ctc_loss.Tensor" and not isinstance(args[3], FakeTensor):
            return self.ctc_loss(args[0], self.largest(args[3]))
        if str(operator) == "aten._ctc_loss_backward.Tensor":  # has no fake kernel
            return self.contiguous(args[1].shape, args[1])
        args, kwargs = mapped(self.fake, args), mapped(self.fake, dict(kwargs))
        if self.on is not None and kwargs.get("device") == torch.device("cpu"):
            kwargs["device"] = self.on
        if str(operator) == "aten._grouped_mm.default" and args[0].dtype != torch.bfloat16:
            # fake tensors take only bfloat16 here, the kernels all
            halves = (self.empty(each.shape, each.stride(), torch.bfloat16, each.device) for each in args[:2])
            result = operator(*halves, *args[2:], **kwargs)
            return self.empty(result.shape, result.stride(), args[0].dtype, result.device)
        return operator(*args, **kwargs)

    def ctc_loss(self, log_probs: torch.Tensor, longest: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Results for known lengths of the targets; fake tensors have no kernel for the second one's shape."""
        steps, batch = log_probs.shape[0], log_probs.shape[1:-1]
        terms = self.contiguous(batch, log_probs)
        return terms, self.contiguous((*(batch or (1,)), steps, 2 * longest + 1), log_probs)

    def largest(self, known: torch.Tensor) -> int:
        self.mode.__exit__(None, None, None)
        try:
            return max(known.tolist(), default=0)
        finally:
            self.mode.__enter__()

    def contiguous(self, shape: Any, like: torch.Tensor) -> torch.Tensor:
        stride = [prod(shape[i + 1 :]) for i in range(len(shape))]
        return self.empty(shape, stride, like.dtype, like.device)

    def fake(self, tensor: torch.Tensor) -> torch.Tensor:
        """A fake tensor in place of one whose numbers are known."""
        if isinstance(tensor, FakeTensor):
            return tensor
        twin = self.empty(tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
        self.alias(twin, tensor)
        return twin

    def empty(self, shape: Any, stride: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty_strided(shape, stride, dtype=dtype, device=self.on or _place(device))

    def alias(self, twin: torch.Tensor, tensor: torch.Tensor) -> None:
        raise NotImplementedError

    def is_outside(self, tensor: torch.Tensor) -> bool:
        """True for a tensor that no operator of the step has made."""
        raise NotImplementedError

    def start_backward(self) -> None:
        """Leave the forward part."""
        self.attach()
        self.backward = True

    def attach(self) -> None:
        """Watch the autograd node of the last results."""
        for each in () if self.backward else self.last:
            made = each()
            node = None if made is None else made.grad_fn
            if node is not None:
                owner = self.newest()
                node.register_prehook(partial(self.enter_node, owner))
                node.register_hook(self.leave_node)
                break
        self.last = []

    def enter_node(self, owner: int, gradients: Any) -> None:
        self.between_nodes = False

    def leave_node(self, results: Any, gradients: Any) -> None:
        self.between_nodes = True

    def newest(self) -> int:
        return -1

    def record(self, operator: Any, args: Any, kwargs: Any, result: Any, summed: bool) -> None:
        raise NotImplementedError


def _is_dense(tensor: torch.Tensor) -> bool:
    """True if elements neither overlap nor leave gaps."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def _bytes(size: int, on_gpu: bool) -> int:
    return -(-size // CUDA_ROUNDING) * CUDA_ROUNDING if on_gpu else size


# ---------------------------------------------------------------- the peak of a step


class _Peak(_Tracker):
    """Counts the bytes of storages during each operator."""

    def __init__(self, mode: Any, step: _FakeStep) -> None:
        super().__init__(mode, step)
        self.seen = {id(each.untyped_storage()) for each in step.fakes.values()}
        self.live = self.peak = self.during = 0
        self.sum: int | None = None  # storage of the first of two gradients, just added

    def record(self, operator: Any, args: Any, kwargs: Any, result: Any, summed: bool) -> None:
        self.close()
        self.sum = id(args[0].untyped_storage()) if summed else None
        sizes = stored_bytes(operator, args, kwargs, result)
        given = {id(each.untyped_storage()) for each in tensors((args, kwargs))}
        for tensor, size in zip(tensors(result), sizes, strict=True):
            storage = tensor.untyped_storage()
            if id(storage) not in self.seen and id(storage) not in given:
                size = _bytes(size, self.on_gpu)
                self.seen.add(id(storage))
                self.live += size
                weakref.finalize(storage, self.freed, id(storage), size)
        self.during = self.live

    def close(self) -> None:
        """Count the last operator, now that it is known whether it was in place."""
        self.peak = max(self.peak, self.during)
        self.during = 0

    def alias(self, twin: torch.Tensor, tensor: torch.Tensor) -> None:
        self.seen.add(id(twin.untyped_storage()))
        weakref.finalize(twin.untyped_storage(), self.seen.discard, id(twin.untyped_storage()))

    def is_outside(self, tensor: torch.Tensor) -> bool:
        return id(tensor.untyped_storage()) not in self.seen

    def freed(self, storage: int, size: int) -> None:
        self.seen.discard(storage)
        self.live -= size
        if storage == self.sum:
            self.sum = None
            self.during -= size


def simulate_step(
    model: nn.Module,
    inputs: Sequence[Any] | Mapping[str, Any],
    *,
    keywords: Mapping[str, Any] | None = None,
    loss: Callable[[Any], torch.Tensor] | None = None,
    on: torch.device | str | None = None,
) -> int:
    """Return the peak bytes of storages in one training step on fake tensors, beyond parameters, buffers and inputs.

    Checkpoints and hooks of the model take effect. The arguments are those of `capture_step`.
    """
    with _fake_step(model, inputs, keywords, on) as (step, mode), _Peak(mode, step) as peak:
        step.run(loss, peak)
        peak.close()
    return peak.peak


@contextlib.contextmanager
def _fake_step(model: nn.Module, inputs: Any, keywords: Any, on: Any) -> Iterator[tuple[_FakeStep, Any]]:
    """Context of a step on fake tensors, without collections of cyclic garbage within; the model stays as it was."""
    on = None if on is None else torch.device(on)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    emulated = (
        _AttentionKernels() if on is not None and on.type != _place(on).type == "cpu" else contextlib.nullcontext()
    )
    gc.collect()
    collects = gc.isenabled()
    gc.disable()
    attributes, gradients, numbers = _Attributes(model), torch.is_grad_enabled(), []
    try:
        step = _FakeStep.of(model, inputs, keywords, on, mode)
        numbers = step.numbers
        with mode, emulated:
            yield step, mode
    except (*DataDependent, RuntimeError) as error:
        if not isinstance(error, DataDependent) and "tensor subclasses" not in str(error):  # Tensor.numpy()
            raise
        raise _reads_numbers(error) from error
    finally:
        attributes.restore()
        torch.set_grad_enabled(gradients)
        with torch.no_grad():
            for tensor, before in reversed(numbers):
                tensor.copy_(before)
        if collects:
            gc.enable()


def _reads_numbers(error: Exception) -> GraphError:
    """Return the error for a model that reads numbers, with the line of its sources."""
    library, package = (Path(str(each.__file__)).parent for each in (contextlib, torch))
    own = Path(__file__).parents[2]
    frames = traceback.extract_tb(error.__traceback__)
    others = [each for each in frames if not {package, own} & {*Path(each.filename).parents}]
    frame = next((each for each in reversed(others) if Path(each.filename).parent != library), frames[-1])
    return GraphError(
        "`{code}` (line {line} of {file}) reads numbers of a tensor, and a capture has none; for the capture, turn off "
        "what depends on data, such as layer drop, logging and masks as indices",
        code=frame.line or frame.name,
        line=frame.lineno,
        file=frame.filename,
    )


# ---------------------------------------------------------------- the graph of a step


@dataclass(eq=False)
class _Handle:
    """What autograd holds instead of a tensor that it saves."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    place: int
    block: int


@dataclass(slots=True, eq=False)
class _OperatorRow:
    """A node of the graph."""

    operator: Any
    path: str
    count: int  # earlier calls of the overload in this call of the block
    block: int
    reads: list[int]
    residents: list[int]
    values: list[int]
    call: Call
    draw: bool
    once: bool
    cached: bool  # by autocast
    owner: int


@dataclass(slots=True, eq=False)
class _Block:
    """A block while the step runs."""

    path: str
    calls: int = 0
    counts: Counter = field(default_factory=Counter)
    inputs: list[int] = field(default_factory=list)
    arguments: dict[int, list[str]] = field(default_factory=dict)  # names of those in an input
    results: set[int] = field(default_factory=set)
    rerun_end: int = 0
    trigger: int = -1
    release: int = -1
    refusal: str = ""


class _Recorder(_Tracker):
    """Rows of the graph of a step, as its operators run."""

    def __init__(self, mode: Any, step: _FakeStep, paths: Mapping[nn.Module, str], blocks: Sequence[str]) -> None:
        super().__init__(mode, step)
        self.rows: list[_OperatorRow] = []
        self.memory: list[int] = []
        self.producer: list[int] = []
        self.base: list[int] = []  # the value in whose bytes a value is, itself unless made in place
        self.version: dict[int, int] = {}  # last value that was made in place, by place
        self.live_until: list[int] = []  # last node during which storages live that autograd did not save
        self.released: list[int] = []
        self.place: dict[int, int] = {}  # by id of the storage: the value, or ~resident
        self.original: set[int] = set()  # storages of the forward part, not of an unpacked tensor
        self.handles: weakref.WeakSet[_Handle] = weakref.WeakSet()
        self.residents: list[tuple[str, str, int]] = []  # name, role, bytes
        self.sum: tuple[int, int] | None = None  # storages of the first gradient and of the sum, just added
        self.paths, self.outer = paths, [""]
        # in a rerun, modules of batch norms leave their statistics as they are
        self.norms = {path for module, path in paths.items() if isinstance(module, NORMS)}
        self.blocks = [_Block(path) for path in blocks]
        self.block_of = {path: b for b, path in enumerate(blocks)}
        self.block = -1
        self.attributes: _Attributes | None = None  # of the block, before its call
        self.reruns: set[int] = set()  # nodes whose gradient makes a checkpoint of the model run again
        self.constants: dict[int, int] = {}  # blocks whose Python makes tensors of numbers, by resident
        for fake in step.fakes.values():
            name = step.names.get(id(fake))
            role = "input" if name is None else "parameter" if isinstance(fake, nn.Parameter) else "state"
            self.add_resident(fake, name or f"input_{sum(each == 'input' for _, each, _ in self.residents)}", role)

    # ---- storages

    def add_resident(self, tensor: torch.Tensor, name: str, role: str) -> int:
        storage = tensor.untyped_storage()
        if id(storage) not in self.place:
            self.place[id(storage)] = ~len(self.residents)
            self.residents.append((name, role, _bytes(int(storage.nbytes()), self.on_gpu)))
            # its id stays taken while the step runs
            weakref.finalize(storage, self.place.pop, id(storage), None)
        return self.place[id(storage)]

    def place_of(self, tensor: torch.Tensor) -> int:
        """The value or resident in whose storage a tensor is; a tensor from outside is a new resident."""
        place = self.place.get(id(tensor.untyped_storage()))
        return self.add_resident(tensor, f"constant_{len(self.residents)}", "state") if place is None else place

    def freed(self, storage: int) -> None:
        """Note the last node during which a storage lived; a sum whose first term is freed at once was in place."""
        place = self.place.pop(storage, -1)
        self.original.discard(storage)
        last = len(self.rows) - 1
        if self.sum is not None and storage == self.sum[0]:
            total, self.sum = self.sum[1], None
            if place >= 0 and total in self.place:
                x = self.place[total]
                self.memory[x], self.base[x], self.place[total] = 0, place, place
                self.version[place] = x
                return
        if place >= 0:
            self.live_until[place] = max(self.live_until[place], last)

    def alias(self, twin: torch.Tensor, tensor: torch.Tensor) -> None:
        self.track(twin, self.place_of(tensor))

    def is_outside(self, tensor: torch.Tensor) -> bool:
        return self.place.get(id(tensor.untyped_storage()), RESIDENT) < 0

    def track(self, tensor: torch.Tensor, place: int) -> None:
        storage = tensor.untyped_storage()
        self.place[id(storage)] = place
        weakref.finalize(storage, self.freed, id(storage))

    def reads_of(self, places: Sequence[int]) -> tuple[list[int], list[int]]:
        """Values and residents that are read with some places, the last value made in place included."""
        found = [x for place in places for x in ([place] if place >= 0 else []) + self.version_of(place)]
        return list(dict.fromkeys(found)), list(dict.fromkeys(~place for place in places if place < 0))

    def version_of(self, place: int) -> list[int]:
        return [self.version[place]] if place in self.version else []

    def add_value(self, size: int, base: int | None = None) -> int:
        x = len(self.memory)
        self.memory.append(size)
        self.producer.append(len(self.rows))
        self.base.append(x if base is None else base)
        self.live_until.append(-1)
        self.released.append(-1)
        return x

    # ---- operators

    def newest(self) -> int:
        return len(self.rows) - 1

    def record(self, operator: Any, args: Any, kwargs: Any, result: Any, summed: bool) -> None:
        self.sum = None
        block = self.blocks[self.block] if self.block >= 0 and not self.backward else None
        cached = is_cached_cast(operator, args)
        count = 0
        if block is not None and not cached:
            count = block.counts[operator]
            block.counts[operator] += 1
        given = list(tensors((args, kwargs)))
        places = list(dict.fromkeys(map(self.place_of, given)))
        if operator is torch.ops.aten.lift_fresh.default:  # as torch.tensor(1) calls it
            self.constants |= dict.fromkeys(places, self.block)
        if self.backward:
            self.check_saved(given)
            if torch.is_grad_enabled() and self.owner >= 0:
                self.reruns.add(self.owner)
                if self.rows[self.owner].block >= 0:
                    self.refuse(self.rows[self.owner].block, "a part of it has a checkpoint already")
        results = list(tensors(result))
        sizes = stored_bytes(operator, args, kwargs, result)
        new = {
            id(each.untyped_storage()): (each, size)
            for each, size in zip(results, sizes, strict=True)
            if id(each.untyped_storage()) not in self.place
        }
        written = _written(operator, args, kwargs)
        effect = not results or operator.namespace in COLLECTIVES
        if not new and not written and not effect:
            return
        reads, residents = self.reads_of(places)
        values = []
        for each, size in new.values():
            x = self.add_value(_bytes(size, self.on_gpu))
            values.append(x)
            self.track(each, x)
            if not self.backward:
                self.original.add(id(each.untyped_storage()))
        for place in dict.fromkeys(map(self.place_of, written)):
            x = self.add_value(0, base=self.base[place] if place >= 0 else RESIDENT)
            values.append(x)
            self.version[place] = x
        self.check_written(written)
        if not values:
            values.append(self.add_value(0))
        once = effect or (self.outer[-1] not in self.norms and _updates_state(operator, args, kwargs))
        owner = self.owner if self.backward else FORWARD
        self.rows.append(
            _OperatorRow(
                operator,
                self.outer[-1],
                count,
                -1 if self.backward else self.block,
                reads,
                residents,
                values,
                Call.of(operator, args, kwargs, result),
                draws(operator, args, kwargs),
                once,
                cached,
                owner,
            )
        )
        if summed and new:
            self.sum = id(args[0].untyped_storage()), next(iter(new))

    def check_saved(self, arguments: Sequence[torch.Tensor]) -> None:
        """Refuse a block of which a gradient reads a value that autograd did not save."""
        for each in arguments:
            storage = id(each.untyped_storage())
            if storage in self.original:
                b = self.rows[self.producer[self.place[storage]]].block
                if b >= 0:
                    self.refuse(b, "a gradient reads a tensor of it that was not saved by save_for_backward")

    def check_written(self, written: Sequence[torch.Tensor]) -> None:
        """Refuse a block that writes into what is outside of it, except the counters of batch norms."""
        if self.block < 0 or self.backward:
            return
        for tensor in written:
            place = self.place_of(tensor)
            if place < 0:
                inside = self.constants.get(place, -1) == self.block or id(tensor) in self.step.counters
            else:
                maker = self.producer[place]
                inside = maker == len(self.rows) or self.rows[maker].block == self.block
            if not inside:
                given = place >= 0 or self.residents[~place][1] == "input"
                what = "one of its inputs" if given else "a buffer"
                self.refuse(self.block, f"it writes into {what}, which a second run would change again")

    def refuse(self, b: int, why: str) -> None:
        self.blocks[b].refusal = self.blocks[b].refusal or why

    # ---- autograd

    owner = NO_OWNER

    def enter_node(self, owner: int, gradients: Any) -> None:
        super().enter_node(owner, gradients)
        self.owner = owner

    def leave_node(self, results: Any, gradients: Any) -> None:
        super().leave_node(results, gradients)
        self.owner = NO_OWNER

    def pack(self, tensor: torch.Tensor) -> Any:
        if tensor.layout is not torch.strided:
            raise GraphError(
                "autograd saves a sparse tensor; plans are for dense ones: leave sparse=True out of the layer"
            )
        place = self.place_of(tensor)
        handle = _Handle(tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device, place, self.block)
        weakref.finalize(handle, self.release, place, self.block)
        self.handles.add(handle)
        if self.block >= 0:
            self.blocks[self.block].rerun_end = len(self.rows)
        return handle

    def unpack(self, handle: Any) -> torch.Tensor:
        if handle.block >= 0 and self.blocks[handle.block].trigger < 0:
            self.blocks[handle.block].trigger = len(self.rows)
        quiet, self.quiet = self.quiet, True
        try:
            tensor = self.empty(handle.size, handle.stride, handle.dtype, handle.device)
        finally:
            self.quiet = quiet
        # what is unpacked lives on in autograd, not in Python
        storage = tensor.untyped_storage()
        self.place[id(storage)] = handle.place
        weakref.finalize(storage, self.forget, id(storage), handle.place)
        return tensor

    def close(self) -> None:
        """Note what is live at the end of the step."""
        self.sum = None
        for place in self.place.values():
            if place >= 0:
                self.live_until[place] = len(self.rows) - 1
        for handle in self.handles:
            self.release(handle.place, handle.block)

    def forget(self, storage: int, place: int) -> None:
        self.place.pop(storage, None)
        self.release(place, -1)

    def release(self, place: int, block: int) -> None:
        last = len(self.rows) - 1
        if place >= 0:
            self.released[place] = max(self.released[place], last)
        if block >= 0:
            self.blocks[block].release = max(self.blocks[block].release, last)

    # ---- modules

    def enter_module(self, module: nn.Module, args: Any) -> None:
        path = self.paths.get(module)
        if path is None:
            return
        self.outer.append(path)
        b = self.block_of.get(path, -1)
        if self.backward:
            inside = [i for each, i in self.block_of.items() if f"{path}.".startswith(f"{each}.")]
            for i in inside or [i for each, i in self.block_of.items() if each.startswith(f"{path}.")]:
                self.refuse(i, "a part of it has a checkpoint already")
        elif b >= 0 and self.block < 0:
            block, self.block = self.blocks[b], b
            block.calls += 1
            block.counts.clear()

    def enter_block(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Note what a checkpoint of a block would hold."""
        block = self.blocks[self.block_of[self.paths[module]]]
        if self.blocks[self.block] is block:
            self.attributes = _Attributes(module, [*args, *kwargs.values()])
        if not self.backward:
            block.inputs += [place for place in map(self.place_of, tensors((args, kwargs))) if place >= 0]
            for name, tensor in named_tensors(args, kwargs):
                block.arguments.setdefault(self.place_of(tensor), []).append(name)

    def leave_module(self, module: nn.Module, args: Any, result: Any) -> None:
        path = self.paths.get(module)
        if path is None or path not in self.outer:
            return
        while self.outer.pop() != path:  # calls that ended in an exception have not left
            pass
        b = self.block_of.get(path, -1)
        if b >= 0 and b == self.block:
            self.blocks[b].results |= set(map(self.place_of, tensors(result)))
            change = self.attributes.change() if self.attributes is not None else ""
            if change:
                self.refuse(b, change)
            self.block, self.attributes = -1, None


def is_cached_cast(operator: Any, args: Any) -> bool:
    """True for the cast of a parameter, which autocast may have in its cache when a block runs again."""
    return operator is torch.ops.aten._to_copy.default and args[0].is_leaf and args[0].requires_grad


def _written(operator: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """Tensors into which an operator writes, by its schema."""
    if not operator._schema.is_mutable:
        return []
    arguments = operator._schema.arguments
    named = dict(zip([each.name for each in arguments], args, strict=False)) | dict(kwargs)
    writes = [each.name for each in arguments if each.alias_info is not None and each.alias_info.is_write]
    return list(tensors([named[name] for name in writes if name in named]))


def _updates_state(operator: Any, args: Any, kwargs: Any) -> bool:
    """True for normalization in training, which writes running statistics though its schema does not say so."""
    names = [each.name for each in operator._schema.arguments]
    if "running_mean" not in names or "save_mean" in names:
        return False
    named = dict(zip(names, args, strict=False)) | dict(kwargs)
    return named.get("running_mean") is not None and bool(named.get("training", named.get("train", True)))


def draws(operator: Any, args: Any, kwargs: Any) -> bool:
    """True if an operator draws from a generator; attention and dropout do only with a probability in training."""
    if torch.Tag.nondeterministic_seeded not in getattr(operator, "tags", ()):
        return False
    named = dict(zip([each.name for each in operator._schema.arguments], args, strict=False)) | dict(kwargs)
    return named.get("dropout_p", 1.0) != 0 and named.get("train", True) is not False


@dataclass(frozen=True, slots=True, eq=False)
class EagerCapture:
    """One training step as eager PyTorch runs it.

    Parameters
    ----------
    graph : ComputationGraph
        A node for each operator that stores or writes something. Views are part of their base; a node that writes in
        place has a value without bytes. Parameters, buffers and inputs are residents, gradients of parameters outputs.
    blocks : Blocks
    holds : Holds
    overloads : tuple of str
        Operator of each node, such as "aten.mm.default".
    paths : tuple of str
        Module that calls each node; of a backward node, that of its forward node.
    counts : int32[n]
        How often the overload came before in this call of the block; 0 outside of blocks.
    arguments : tuple of mapping
        By block: the names of the arguments that are in the storage of an input, by value.
    checkpoints : int
        Checkpoints that the model has without a plan.
    state : int
        Bytes of the generator's state that each checkpoint stashes where the step runs; 0 on a GPU.
    """

    graph: ComputationGraph
    blocks: Blocks
    holds: Holds
    overloads: tuple[str, ...]
    paths: tuple[str, ...]
    counts: Any
    arguments: tuple[Mapping[int, tuple[str, ...]], ...]
    checkpoints: int
    state: int

    def stashed(self, decisions: Sequence[str]) -> int:
        """Bytes of the states of the generator that checkpoints stash, and of one during a rerun."""
        count = self.checkpoints + sum(each != KEEP for each in decisions)
        return (count + 1) * self.state if count else 0

    def __repr__(self) -> str:
        return f"EagerCapture({self.graph!r}, {len(self.blocks.names)} blocks)"


@checked_arguments
def capture_step(
    model: nn.Module,
    inputs: Sequence[Any] | Mapping[str, Any],
    *,
    keywords: Mapping[str, Any] | None = None,
    loss: Callable[[Any], torch.Tensor] | None = None,
    on: torch.device | str | None = None,
    blocks: str | Sequence[str] | None = None,
    cost: Any = "roofline",
    device: AnyDevice | None = None,
    workspace: bool = False,
) -> EagerCapture:
    """Capture a training step, forward and backward, on fake tensors; nothing is computed or allocated.

    The model's mode, and contexts around the call such as autocast, are part of what is captured. Attributes of its
    modules are put back afterwards; what hooks store elsewhere is not.

    Parameters
    ----------
    model : torch.nn.Module
    inputs : sequence or mapping
        Arguments, by place or by name.
    keywords : mapping, optional
        Arguments by name, next to a sequence.
    loss : callable, optional
        From the model's result to a scalar; by default the result or its entry `loss`.
    on : torch.device or str, optional
        Where the step runs; "cuda" needs no GPU. By default where the tensors are.
    blocks : str or sequence of str, optional
        Patterns of module paths, such as "layers.*"; by default the entries of the outermost `nn.ModuleList`.
    cost, device, workspace
        As for `capture`.

    Returns
    -------
    EagerCapture

    Raises
    ------
    GraphError
        If the result is no loss, a parameter would have no gradient, or the model reads numbers of a tensor.
    PlanError
        If no module matches the patterns.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    >>> capture_step(model, (torch.ones(2, 8),), loss=torch.sum).graph.node_names()[:3]
    ['0.addmm', '1.relu', 'sum']
    """
    paths = {module: name for name, module in model.named_modules()}
    chosen = _chosen(model, blocks)
    with _fake_step(model, inputs, keywords, on) as (step, mode), contextlib.ExitStack() as hooks:
        recorder = _Recorder(mode, step, paths, chosen)
        hooks.callback(register_module_forward_pre_hook(recorder.enter_module).remove)
        hooks.callback(register_module_forward_hook(recorder.leave_module, always_call=True).remove)
        for path in chosen:
            module = model.get_submodule(path)
            hooks.callback(module.register_forward_pre_hook(recorder.enter_block, with_kwargs=True).remove)
        with recorder, saved_tensors_hooks(recorder.pack, recorder.unpack), _without_kernels() as operators:
            scalar = step.run(loss, recorder)
            recorder.close()
        _check_gradients(step, scalar, operators)
        return _assembled(recorder, step, scalar, cost, device, workspace)


def _chosen(model: nn.Module, patterns: str | Sequence[str] | None) -> list[str]:
    """Module paths of blocks, in the order of the model."""
    names = [name for name, _ in model.named_modules() if name]
    if patterns is None:
        lists = [name for name, module in model.named_modules() if isinstance(module, nn.ModuleList)]
        outer = [name for name in lists if not any(name.startswith(f"{each}.") for each in lists)]
        return [f"{name}.{i}" for name in outer for i in range(len(model.get_submodule(name)))]
    texts = [patterns] if isinstance(patterns, str) else list(patterns)
    wanted = [part.strip().split(".") for text in texts for part in text.split(",")]
    lost = [each for each in wanted if not any(_matches(name.split("."), each) for name in names)]
    if lost or not wanted:
        raise PlanError(
            "no module has the path {pattern!r}; the modules are {modules!l}"
            if lost
            else "blocks is empty; the modules are {modules!l}",
            pattern=".".join(lost[0]) if lost else "",
            modules=list(dict.fromkeys(re.sub(r"(?<![^.])\d+(?![^.])", "*", name) for name in names)) or ["none"],
        )
    return [name for name in names if any(_matches(name.split("."), each) for each in wanted)]


def _matches(parts: list[str], pattern: list[str]) -> bool:
    pairs = zip(parts, pattern, strict=False)
    return len(parts) == len(pattern) and all(wanted in ("*", part) for part, wanted in pairs)


@contextlib.contextmanager
def _without_kernels() -> Iterator[list[str]]:
    """Context that collects the operators of which PyTorch warns that they have no gradient; it may warn once each."""
    operators: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield operators
    for each in caught:
        operator, mark, _ = str(each.message).partition(": an autograd kernel was not registered")
        if mark:
            operators.append(operator)
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def no_gradient(operator: str, names: Sequence[str]) -> GraphError:
    """Return the error for parameters whose gradient ends at an operator without one."""
    return GraphError(
        "PyTorch has no gradient of {operator}, so {names!l} would have none; use an operator with a gradient, or "
        "register one (torch.library.register_autograd)",
        operator=operator,
        names=list(names) or ["what is before it"],
    )


def _check_gradients(step: _FakeStep, loss: torch.Tensor, operators: Sequence[str]) -> None:
    """Raise GraphError for parameters that gradients do not reach since an operator has none.

    A function of the model's own may give no gradient, and a parameter may be read without one.
    """
    lacking = {key: step.names.get(key, "an input") for key in step.lacking()}
    names, seen, pending = set(), set(), [(loss.grad_fn, False)]
    while pending and lacking:
        node, lost = pending.pop()
        if node is None or (node, lost) in seen:
            continue
        seen.add((node, lost))
        lost = lost or "NotImplemented" in node.name()
        if lost:
            names |= {lacking[key] for key in {id(getattr(node, "variable", None))} & lacking.keys()}
        pending += [(each, lost) for each, _ in node.next_functions]
    if names:
        raise no_gradient(next(iter(operators), "an operator"), sorted(names))


# ---------------------------------------------------------------- a graph from the rows


def _assembled(
    recorder: _Recorder, step: _FakeStep, loss: torch.Tensor, cost: Cost, device: AnyDevice | None, workspace: bool
) -> EagerCapture:
    """Return the graph, the blocks and the lives of what a recorder has seen."""
    rows, n = recorder.rows, len(recorder.rows)
    gradients = [each.grad for each in step.fakes.values() if each.grad is not None]
    places = [recorder.place_of(each) for each in [*gradients, loss]]
    outputs = {x for place in places if place >= 0 for x in [place, *recorder.version_of(place)]}
    read = {x for row in rows for x in row.reads}
    # PyTorch runs what nobody reads, too
    for row in rows:
        if read.isdisjoint(row.values) and outputs.isdisjoint(row.values):
            outputs |= {x for x in row.values if not recorder.memory[x]} or {_marked(recorder, row)}
    order = [x for row in rows for x in row.values]
    number = {x: i for i, x in enumerate(order)}
    memory = [recorder.memory[x] for x in order]
    forward = [row.owner == FORWARD for row in rows]
    compute, extra, unit = price([row.call for row in rows], cost, workspace, device)
    indptr, indices = from_lists([[number[x] for x in row.reads] for row in rows])
    resident_indptr, resident_indices = from_lists([sorted(row.residents) for row in rows])
    names, paths = _names(rows)
    graph = ComputationGraph.from_arrays(
        value_indptr=indptr_of([len(row.values) for row in rows]),
        read_indptr=indptr,
        read_indices=indices,
        memory=memory,
        compute=compute,
        workspace=extra,
        once=[row.once for row in rows],
        output=[x in outputs for x in order],
        forward_of=[row.owner for row in rows],
        resident=Resident(
            np.array([size for _, _, size in recorder.residents], np.int64),
            np.array([ROLES.index(role) for _, role, _ in recorder.residents], np.int8),
            resident_indptr,
            resident_indices,
            tuple(_free_names([name for name, _, _ in recorder.residents], names)),
        ),
        labels=Labels(tuple(names), ops=tuple(str(row.operator) for row in rows), compute_unit=unit),
    )
    last_read = graph.producer.copy()  # in the same part as the node of the value
    for v, row in enumerate(rows):
        last_read[[number[x] for x in row.reads if forward[v] == forward[recorder.producer[x]]]] = v
    held = np.minimum([recorder.live_until[x] for x in order], n - 1)
    # a block that runs again holds its values as long, even where their last reader is saved and does not run
    inside = np.array([row.block >= 0 for row in rows])[graph.producer]
    held = np.where(((held > last_read) | inside) & ~graph.output, held, -1)
    released = np.minimum([recorder.released[x] for x in order], n - 1)
    blocks = _blocks(recorder, graph, number, int(np.sum(forward)))
    arguments = {each.path: each.arguments for each in recorder.blocks}
    return EagerCapture(
        graph,
        blocks,
        Holds(held, released),
        tuple(str(row.operator) for row in rows),
        tuple(paths),
        np.array([row.count for row in rows], np.int32),
        tuple(
            {number[x]: tuple(names) for x, names in arguments[name].items() if x in number} for name in blocks.names
        ),
        len(recorder.reruns),
        0 if step.on_gpu else torch.get_rng_state().nbytes,
    )


def _marked(recorder: _Recorder, row: _OperatorRow) -> int:
    x = recorder.add_value(0)
    row.values.append(x)
    return x


def _names(rows: Sequence[_OperatorRow]) -> tuple[list[str], list[str]]:
    """Names of nodes and their modules, those of gradients with the module of the forward node."""
    used: Counter[str] = Counter()
    names, paths = [], []
    for row in rows:
        path = rows[row.owner].path if row.owner >= 0 else "" if row.owner == NO_OWNER else row.path
        name = ".".join(filter(None, (path, row.operator.overloadpacket.__name__)))
        used[name] += 1
        names.append(f"{name}_{used[name] - 1}" if used[name] > 1 else name)
        paths.append(path)
    return names, paths


def _free_names(residents: Sequence[str], names: Sequence[str]) -> list[str]:
    """Names of residents, changed where a node has that name."""
    taken = set(names)
    return [f"{name} (resident)" if name in taken else name for name in residents]


def _blocks(recorder: _Recorder, graph: ComputationGraph, number: Mapping[int, int], n_forward: int) -> Blocks:
    """The blocks that ran, in order."""
    rows, blocks = recorder.rows, recorder.blocks
    members: dict[int, list[int]] = {}
    for v, row in enumerate(rows):
        if row.block >= 0:
            members.setdefault(row.block, []).append(v)
    ran = sorted(members, key=lambda b: members[b][0])
    made_in = {x: row.block for row in rows for x in row.values}
    for row in rows[:n_forward]:
        for x in row.reads:
            b = made_in[x]
            if (
                b >= 0
                and b != row.block
                and recorder.base[x] != RESIDENT
                and recorder.base[x] not in blocks[b].results
                and not rows[recorder.producer[x]].cached
            ):
                recorder.refuse(b, "a value leaves it by another way than its result")
    for b in ran:
        if blocks[b].calls > 1:
            recorder.refuse(b, f"it is called {blocks[b].calls} times in a step")
    inputs = []
    for b in ran:
        inside = set(members[b])
        read = {x for v in members[b] for x in rows[v].reads if recorder.producer[x] not in inside}
        taken = {x for place in blocks[b].inputs for x in [place] if recorder.producer[place] not in inside}
        inputs.append(np.array(sorted(number[x] for x in taken | read), np.int32))
    fixed = [v for b in ran for v in members[b] if _is_fixed(recorder, rows[v])]
    for row in (rows[v] for v in fixed if rows[v].once):
        recorder.refuse(row.block, "it changes in place what an operator made that must not run a second time")
    triggered = [blocks[b].trigger for b in ran]
    end = [blocks[b].rerun_end for b in ran]
    release = [blocks[b].release if blocks[b].trigger >= 0 else -1 for b in ran]
    draws = [v for b in ran for v in members[b] if rows[v].draw]
    refusals = {i: blocks[b].refusal for i, b in enumerate(ran) if blocks[b].refusal}
    marks = set(draws), set(fixed)
    kinds: dict[Any, int] = {}
    numbers = []
    for i, b in enumerate(ran):
        key = _signature(graph, members[b], inputs[i], end[i], marks), triggered[i] >= 0, refusals.get(i)
        numbers.append(kinds.setdefault(key, len(kinds)))
    return Blocks(
        names=tuple(blocks[b].path for b in ran),
        members=tuple(np.array(members[b], np.int32) for b in ran),
        kinds=np.array(numbers, np.int32),
        rerun_end=np.array(end, np.int32),
        inputs=tuple(inputs),
        trigger=np.array(triggered, np.int32),
        release=np.array(release, np.int32),
        draws=np.array(draws, np.int32),
        fixed=np.array(fixed, np.int32),
        refusals=refusals,
    )


def _signature(graph: ComputationGraph, members: list[int], inputs: Any, end: int, marks: Any) -> Any:
    """Return a key, equal for blocks with the same operators, bytes, costs and reads by place in the block."""
    place = {int(x): (-1, i) for i, x in enumerate(inputs)}
    place |= {x: (i, x - int(graph.value_indptr[v])) for i, v in enumerate(members) for x in graph.values(v)}
    nodes = (
        (
            graph.labels.op(v),
            int(graph.compute[v]),
            int(graph.workspace[v]),
            bool(graph.once[v]),
            v < end,
            *(v in mark for mark in marks),
            tuple(int(graph.memory[x]) for x in graph.values(v)),
            tuple(place[x] for x in graph.reads(v)),
        )
        for v in members
    )
    return tuple(nodes), tuple(graph.memory[inputs].tolist())


def _is_fixed(recorder: _Recorder, row: _OperatorRow) -> bool:
    """True if a policy cannot save the outputs of a node: in place, written later, or in the cache of autocast."""
    places = {recorder.base[x] for x in row.values}
    written = any(recorder.base[x] != x for x in row.values) or any(place in recorder.version for place in places)
    return written or row.cached
