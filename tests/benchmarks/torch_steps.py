"""Training steps of PyTorch within half of their memory: the peak of the allocator, and time beside torch's planner.

A part of `python -m tests.benchmarks.gpu_run`. On a GPU the models are as large as people train them; on the CPU they
are small, and one thread runs them.
"""

import gc
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch._functorch import config

from remat_algos.interop import torch as remat
from remat_algos.interop.torch.storages import allocator_peak
from tests.interop.torch_models import GPT, SMALL, ResNet, UNet, images, make, words

LARGE = {
    "resnet50": (ResNet, lambda: images(256, 224, 1000)),
    "unet": (lambda: UNet(width=64, depth=4), lambda: images(16, 512, 2, dense=True)),
    "gpt": (lambda: GPT(12, 768, 12, 1024, 50257, dropout=0), lambda: words(8, 1024, 50257)),
}
BUDGET = "50%"
HALVINGS = 3  # of the range of torch's own budget
GRADIENTS = "gradients"  # of a record; not written
STEPS = 5  # timed, after one that compiles and one whose peak is measured


@dataclass(frozen=True, slots=True)
class Training:
    """A model and what it is trained on."""

    model: Any
    inputs: tuple[torch.Tensor, ...]

    @classmethod
    def of(cls, name: str) -> "Training":
        """The model of that name: on the GPU if there is one, else a small one on the CPU."""
        if not torch.cuda.is_available():
            model, inputs = make(name)
            return cls(model, inputs)
        torch.manual_seed(1)
        model, inputs = LARGE[name]
        return cls(model().cuda(), tuple(each.cuda() for each in inputs()))

    @property
    def draws(self) -> bool:
        """True if a step draws random numbers, which compilers draw in other ways; our plans keep those of eager."""
        return any(getattr(module, "dropout", 0) for module in self.model.modules())

    def measured(self, call: Callable[..., Any]) -> dict[str, Any]:
        """Peak of the allocator, median seconds of a step, loss and gradients; the reason if it cannot run."""
        known = [*self.model.parameters(), *self.model.buffers(), *self.inputs]
        losses = []

        def step() -> None:
            for parameter in self.model.parameters():
                parameter.grad = None
            torch.manual_seed(3)
            loss = call(*self.inputs)
            loss.backward()
            losses.append(loss.detach())

        try:
            step()  # compiles
            self.model.zero_grad(set_to_none=True)
            peak = allocator_peak(step, known)
            seconds = [timed(step) for _ in range(STEPS)]
        except Exception as error:  # out of memory, or refused: what else is asked does not depend on it
            reason = getattr(error, "inner_exception", error)  # of a compiler
            return {"error": f"{type(reason).__name__}: {reason}".partition("\n")[0].partition("; ")[0][:200]}
        gradients = [parameter.grad.cpu() for parameter in self.model.parameters() if parameter.grad is not None]
        found = {
            "peak": peak,
            "seconds": statistics.median(seconds),
            "loss": losses[-1].item(),
            GRADIENTS: gradients,
        }
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            step()
            found["reserved"] = torch.cuda.max_memory_reserved()  # parameters, inputs and gaps too
        return found


def gradient_difference(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    """Largest relative difference of a parameter's gradient, in the 2-norm.

    Gradients below a thousandth of the norm of all, such as those that are zero but for rounding, are compared with
    that; infinity if one is missing or not finite.
    """
    if [g.shape for g in found] != [g.shape for g in expected]:
        return math.inf
    least = max(1e-3 * math.hypot(*(g.norm().item() for g in expected)), sys.float_info.min)
    differences = [(a - b).norm().item() / max(b.norm().item(), least) for a, b in zip(found, expected, strict=True)]
    return max(differences, default=0.0) if all(map(math.isfinite, differences)) else math.inf


def timed(step: Callable[[], None]) -> float:
    """Seconds until all of a step has been computed."""
    start = time.perf_counter()
    step()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def planned(training: Training, compiler: str) -> dict[str, Any]:
    """Measure our plan within half of the memory."""
    backend = remat.backend(BUDGET, compiler=compiler, workspace=True)
    found = training.measured(torch.compile(training.model, backend=backend, dynamic=False))
    if backend.reports:
        plan = backend.reports[-1].plan
        found |= {
            "predicted_peak": backend.reports[-1].whole,
            "planned_overhead": plan.overhead / plan.graph.needed_compute,
            "nodes": plan.graph.n_nodes,
        }
    return found


def by_torch(training: Training, compiler: str, share: float) -> dict[str, Any]:
    """Measure torch's own planner for a share of the saved bytes; without inductor by the backend that has it."""
    torch.compiler.reset()  # a graph that was compiled for another share would be used
    backend = "inductor" if compiler == "inductor" else "aot_eager_decomp_partition"
    with config.patch(activation_memory_budget=share):
        found = training.measured(torch.compile(training.model, backend=backend, dynamic=False))
    return found | {"share": share}


def at_the_peak(training: Training, peak: int, compiler: str) -> dict[str, Any]:
    """Measure torch's own planner with the largest share found to stay below a peak; the least if none does."""
    low, high, found = 0.0, 1.0, by_torch(training, compiler, 0.0)
    if found.get("peak", peak + 1) > peak:
        return found | {"reaches_peak": False}
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        tried = by_torch(training, compiler, middle)
        if tried.get("peak", peak + 1) <= peak:
            low, found = middle, tried
        else:
            high = middle
    return found | {"reaches_peak": True}


def results(quick: bool) -> Iterator[dict[str, Any]]:
    """The versions and the card; then a record for each model and method, after what it is compared with.

    With `quick` one model, without inductor.
    """
    warnings.simplefilter("ignore")
    on_gpu = torch.cuda.is_available()
    if not on_gpu:
        torch.set_num_threads(1)
    card = torch.cuda.get_device_name() if on_gpu else None
    yield {"torch": torch.__version__, "cuda": torch.version.cuda, "card": card}
    names = list(LARGE) if on_gpu else list(SMALL)
    names.sort(key=lambda name: "gpt" not in name)  # first: our plans for inductor refuse models with buffers
    names = names[:1] if quick else names
    compilers = ("eager",) if quick else ("eager", "inductor")
    for record in of_models(names, compilers):
        yield {key: value for key, value in record.items() if key != GRADIENTS}


def of_models(names: Sequence[str], compilers: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Each model without a plan and with ours by each compiler; then, since it takes longest, torch's planner."""
    pairs = []
    for name in names:
        for compiler in compilers:
            without = eager if compiler == "eager" else partial(by_torch, compiler=compiler, share=1.0)
            plain = recorded(name, compiler, without)
            yield plain
            measure = partial(planned, compiler=compiler)
            ours = recorded(name, by_compiler(compiler, f"remat {BUDGET}"), measure, plain)
            yield ours
            pairs.append((name, compiler, plain, ours))
    for name, compiler, plain, ours in pairs:
        if "peak" in ours:
            measure = partial(at_the_peak, peak=ours["peak"], compiler=compiler)
            yield recorded(name, by_compiler(compiler, "activation_memory_budget"), measure, plain)


def by_compiler(compiler: str, method: str) -> str:
    """Name a method with its compiler, if that is not the usual one."""
    return method if compiler == "eager" else f"{compiler}, {method}"


def eager(training: Training) -> dict[str, Any]:
    """Measure the model as PyTorch runs it."""
    return training.measured(training.model)


def recorded(
    name: str, method: str, measure: Callable[[Training], dict[str, Any]], beside: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The record of a model trained by a method, with its slowdown and gradients beside those of another."""
    torch.compiler.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    training = Training.of(name)
    found = {"model": name, "method": method, **measure(training)}
    if beside is not None and "seconds" in found and "seconds" in beside:
        found["slowdown"] = found["seconds"] / beside["seconds"]
        if method == f"remat {BUDGET}" or not training.draws:
            difference = gradient_difference(found[GRADIENTS], beside[GRADIENTS])
            found["gradient_difference"] = difference if math.isfinite(difference) else sys.float_info.max  # for JSON
        del found[GRADIENTS]
    return found
