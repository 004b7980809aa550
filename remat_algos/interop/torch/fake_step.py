"""One training step of a model on fake tensors; the model is restored afterwards."""

import contextlib
import gc
import pickle
import random
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import zip_longest
from math import isinf
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from remat_algos.errors import ArgumentError, ArgumentTypeError, GraphError, about
from remat_algos.interop import tuning
from remat_algos.interop.torch.stable_names import DATA_DEPENDENT, FakeTensorMode, without_modes
from remat_algos.interop.torch.storages import mapped, tensors

PLAIN = torch.Tensor, type, FunctionType, MethodType, ModuleType  # contain no other objects


def python_generators() -> bytes:
    return pickle.dumps((random.getstate(), np.random.get_state()))  # noqa: NPY002


class Attributes:
    """Snapshot of the objects to which a module's attributes refer, including submodules, containers and generators.

    The objects in `arguments` of a call are included too. `swapped` contains the ids of the model's tensors and of the
    fake tensors that replace them. A container counts as unchanged if tensors have only been replaced by their fake
    tensors or vice versa, as in the lists of parameters of `nn.RNNBase`.
    """

    def __init__(self, module: nn.Module, arguments: Any = (), swapped: Set[int] = frozenset()) -> None:
        self.swapped, self.generators = swapped, python_generators()
        # Key: id; entry: container and shallow copy. Containers of the module come first, then those of arguments.
        self.before: dict[int, tuple[Any, Any]] = {}
        self.add([module], nn.Module)
        self.own = len(self.before)
        self.add(arguments, object)

    def add(self, entries: Sequence[Any], kind: type) -> None:
        """Record containers recursively, and the attributes of contained objects that are instances of `kind`."""
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
        """Yield (container, entries before, entries now) for each container that has changed."""
        for each, before in self.before.values():
            now = _copied(each)
            if _ids(before) != _ids(now):
                yield each, before, now

    def change(self) -> str:
        """Describe the change in a module's call that makes recomputation impossible; "" if there is none."""
        if self.generators != python_generators():
            return "it draws from Python's or NumPy's generator, whose state PyTorch's checkpoints do not restore"
        in_arguments = {id(each) for each, _ in [*self.before.values()][self.own :]}
        for changed, before, now in self.changes():
            if id(changed) in in_arguments:
                return (
                    "it changes a list, a mapping or an object among its arguments, such as a cache (use_cache=False), "
                    "and recomputing it would change that again"
                )
            if isinstance(now, dict):
                pairs = [(before.get(name), now.get(name)) for name in before | now]
            else:
                pairs = list(zip_longest(before, now))
            for old, new in pairs:
                ids = {*map(id, tensors((old, new)))}
                if new is old or (ids and ids <= self.swapped):
                    continue
                if _has_tensor(old):
                    return "it replaces a tensor in an attribute, so recomputing it would read the new one"
                if _has_tensor(new):
                    return "it leaves a tensor in an attribute, which recomputing it would find there"
                if isinstance(old, int | float) and isinstance(new, int | float) and old != new:
                    return "it changes a number in an attribute, and recomputing it would change that again"
        return ""

    def restore(self) -> None:
        states = pickle.loads(self.generators)
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
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


def assumed(operator: Any, args: Any, kwargs: Any, known: Sequence[Any]) -> Any:
    """Return the value of all elements of a result, or None; assume finite elements, and 0.5 for random numbers."""
    name = operator.overloadpacket.__name__
    if name in ("isnan", "isinf", "isposinf", "isneginf"):
        return False
    if name in ("rand", "rand_like"):
        return 0.5
    if name in ("eq", "ne") and (args[0] is args[1] or (isinstance(args[1], float) and isinf(args[1]))):
        return (name == "eq") == (args[0] is args[1])
    alike = torch.Tag.pointwise in operator.tags or name in ("all", "any", "amax", "amin", "_to_copy")
    zeros = name in ("sum", "count_nonzero") and not any(known)
    if not known or None in known or not (alike or zeros):
        return None
    numbers = iter(known)
    with without_modes():
        ones = [torch.full((1,) * x.dim(), next(numbers)) if isinstance(x, torch.Tensor) else x for x in args]
        return operator(*ones, **{x: kwargs[x] for x in kwargs.keys() & {"alpha", "dtype"}}).item()


class _AttentionKernels(TorchFunctionMode):
    """Mode that, in PyTorch without CUDA, selects the attention kernel that a GPU would use."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is nn.functional.scaled_dot_product_attention:
            return _attention(*args, **kwargs)
        return function(*args, **kwargs)


def _attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """Run the flash attention kernel for half precision without a mask, else the memory-efficient kernel."""
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
    needs_gradient = torch.is_grad_enabled() and any(each.requires_grad for each in (query, key, value))
    return torch.ops.aten._scaled_dot_product_efficient_attention(
        query, key, value, attn_mask, needs_gradient, dropout_p, is_causal, scale=scale
    )[0]


class FakeStep:
    """A model with fake parameters and inputs, ready to run one step.

    `fakes` maps ids of the model's tensors to fake tensors, and `parameters` maps names of parameters and buffers to
    fake tensors; a shared tensor has several names. `overwritten` lists the real tensors into which the step wrote,
    each with a copy of its earlier elements.
    """

    def __init__(self, model: nn.Module, inputs: Any, keywords: Any, on: torch.device | None, mode: Any) -> None:
        self.model, self.mode = model, mode
        self.on = None if on is None else place(on)
        self.fakes: dict[int, torch.Tensor] = {}
        self.parameters: dict[str, torch.Tensor] = {}
        self.overwritten: list[tuple[torch.Tensor, torch.Tensor]] = []
        for kind in (nn.Module.named_parameters, nn.Module.named_buffers):
            # Visit each module once: a second visit would take the fake tensor for the original one and restore the
            # fake tensor.
            for path, module in model.named_modules():
                for name, tensor in kind(module, path, recurse=False, remove_duplicate=False):
                    self.parameters[name] = self.fake(tensor)
        if inputs is None or isinstance(inputs, torch.Tensor | str):
            wrong = "inputs is a {kind}; give a sequence of the model's arguments, (inputs,), or a mapping of keywords"
            raise about("inputs", ArgumentTypeError(wrong, kind=type(inputs).__name__))
        args, keywords = ((), dict(inputs)) if isinstance(inputs, Mapping) else (tuple(inputs), dict(keywords or {}))
        self.args, self.keywords = mapped(self.fake, args), mapped(self.fake, keywords)
        devices = [each.device for each in self.fakes.values()] if on is None else [on]
        # If true, sizes are rounded as CUDA's allocator rounds them.
        self.on_gpu = any(device.type == "cuda" for device in devices)

    def fake(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the fake tensor for a tensor of the model; for a small tensor of integers, return a real copy."""
        if id(tensor) not in self.fakes and _is_known(tensor):
            self.fakes[id(tensor)] = tensor.detach().clone()
        elif id(tensor) not in self.fakes:
            with self.mode:
                copy = self.empty(tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
            if isinstance(tensor, nn.Parameter):
                copy = nn.Parameter(copy, tensor.requires_grad)
            self.fakes[id(tensor)] = copy.requires_grad_(tensor.requires_grad)
        return self.fakes[id(tensor)]

    def empty(self, shape: Any, stride: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty_strided(shape, stride, dtype=dtype, device=self.on or place(device))

    def run(self, loss: Any, start_backward: Callable[[], None]) -> torch.Tensor:
        """Run forward and backward; checkpoints read parameters again, so backward is inside `functional_call` too."""

        class Whole(nn.Module):
            def __init__(self, model: nn.Module) -> None:
                super().__init__()
                self.model = model

            def forward(whole, args: Any, keywords: Any) -> torch.Tensor:
                scalar = _checked(whole.model(*args, **keywords), loss)
                start_backward()
                with _outside_autocast():
                    scalar.backward()
                return scalar

        parameters = {f"model.{name}": each for name, each in self.parameters.items()}
        whole, call = Whole(self.model), (self.args, self.keywords)
        return torch.func.functional_call(whole, parameters, call, tie_weights=False)


@contextlib.contextmanager
def _outside_autocast() -> Iterator[None]:
    """Disable autocast and empty its cache for the backward part; trainers use autocast in the forward part only."""
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
    if callable(loss):
        scalar = loss(result)
    else:
        scalar = result["loss"] if isinstance(result, Mapping) and "loss" in result else getattr(result, "loss", result)
    if not isinstance(scalar, torch.Tensor) or scalar.numel() != 1:
        raise GraphError(
            "the model's result is not a loss: expected a scalar, or an entry `loss`; give the labels among the "
            "inputs, or loss=, a function from the result to the loss"
        )
    if not scalar.requires_grad:
        raise GraphError(
            "the loss depends on no trainable parameter, so it has no gradient; check torch.no_grad() and requires_grad"
        )
    return scalar


def _is_known(tensor: torch.Tensor) -> bool:
    """Return True for a small tensor of integers, whose elements a model may read to choose operators."""
    small = tensor.device.type == "cpu" and tensor.numel() <= tuning.KNOWN_ELEMENTS
    return small and not (tensor.is_floating_point() or tensor.is_complex())


def place(device: torch.device) -> torch.device:
    """Return the device for fake tensors; it is the CPU if this PyTorch has no autograd for the requested device."""
    if device.type == "meta" or (device.type == "cuda" and not torch.cuda.is_available()):
        return torch.device("cpu")
    return device


def _device(on: torch.device | str) -> torch.device:
    """Return the device `on`; raise ArgumentError for a device on which PyTorch's autograd would abort the process."""
    with contextlib.suppress(RuntimeError):
        if torch.device(on).type in ("cpu", "cuda", "meta") or torch.get_device_module(on).is_available():
            return torch.device(on)
    raise ArgumentError("this PyTorch has no device {on!r}; give cpu, or cuda, which needs no GPU here", on=str(on))


@contextlib.contextmanager
def fake_step(model: nn.Module, inputs: Any, keywords: Any, on: torch.device | str | None) -> Iterator[FakeStep]:
    """Yield a step on fake tensors and restore the model afterwards.

    Garbage collection is off during the step, so reference counting alone decides when a tensor is freed.
    """
    on = None if on is None else _device(on)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    emulated = (
        _AttentionKernels() if on is not None and on.type != place(on).type == "cpu" else contextlib.nullcontext()
    )
    gc.collect()
    collects = gc.isenabled()
    gc.disable()
    attributes, gradients, step = Attributes(model), torch.is_grad_enabled(), None
    try:
        step = FakeStep(model, inputs, keywords, on, mode)
        with mode, emulated:
            yield step
    except (*DATA_DEPENDENT, RuntimeError) as error:
        if isinstance(error, DATA_DEPENDENT) or "tensor subclasses" in str(error):  # raised by Tensor.numpy()
            raise _reads_numbers(error) from error
        if "support saved tensor hooks" in str(error):
            raise GraphError(
                "torch.func.grad, vjp, jacrev and hessian do not support hooks on saved tensors, which PyTorch's "
                "checkpoints need; compute such gradients with torch.autograd.grad"
            ) from error
        if "have been used in the graph" in str(error):
            raise GraphError(
                "the step computes a gradient for a tensor from outside; call torch.autograd.grad in forward"
            ) from error
        raise
    finally:
        attributes.restore()
        torch.set_grad_enabled(gradients)
        with torch.no_grad():
            for tensor, before in reversed([] if step is None else step.overwritten):
                tensor.copy_(before)
        if collects:
            gc.enable()


def _reads_numbers(error: Exception) -> GraphError:
    """Return the error for a model that reads elements of a tensor, with the line of its source code."""
    library, package = (Path(str(each.__file__)).parent for each in (contextlib, torch))
    own = Path(__file__).parents[2]
    frames = traceback.extract_tb(error.__traceback__)
    others = [each for each in frames if not {package, own} & {*Path(each.filename).parents}]
    frame = next((each for each in reversed(others) if Path(each.filename).parent != library), frames[-1])
    return GraphError(
        "`{code}` (line {line} of {file}) reads elements of a tensor, which have no values during a capture; for the "
        "capture, turn off code that depends on data, such as layer drop, logging and masks used as indices",
        code=frame.line or frame.name,
        line=frame.lineno,
        file=frame.filename,
    )
