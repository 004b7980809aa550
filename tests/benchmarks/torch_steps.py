"""Training steps of PyTorch within half of their memory: the peak of the allocator, and time beside torch's planner.

A part of `python -m tests.benchmarks.gpu_run`. On a GPU the models are as large as people train them; on the CPU they
are small, and one thread runs them.
"""

import gc
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch._functorch import config

from remat_algos.interop import torch as remat
from remat_algos.interop.torch.peaks import allocator_peak
from tests.interop.torch_models import GPT, SMALL, ResNet, UNet, images, make, words

LARGE = {
    "resnet50": (ResNet, lambda: images(256, 224, 1000)),
    "unet": (lambda: UNet(width=64, depth=4), lambda: images(16, 512, 2, dense=True)),
    "gpt": (lambda: GPT(12, 768, 12, 1024, 50257), lambda: words(8, 1024, 50257)),
}
BUDGET = "50%"
HALVINGS = 3  # of the range of torch's own budget
STEPS = 5  # timed, after one that compiles and one whose peak is measured


@dataclass(frozen=True, slots=True)
class Training:
    """A model and what it is trained on."""

    model: Any
    inputs: tuple[torch.Tensor, ...]

    @classmethod
    def of(cls, name: str) -> "Training":
        """By its name: on the GPU if there is one, else small on the CPU."""
        if not torch.cuda.is_available():
            model, inputs = make(name)
            return cls(model, inputs)
        torch.manual_seed(1)
        model, inputs = LARGE[name]
        return cls(model().cuda(), tuple(each.cuda() for each in inputs()))

    def measured(self, call: Callable[..., Any]) -> dict[str, Any]:
        """Peak of the allocator, median seconds of a step, and the loss; the reason if it cannot run."""
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
        found = {"peak": peak, "seconds": statistics.median(seconds), "loss": losses[-1].item()}
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            step()
            found["reserved"] = torch.cuda.max_memory_reserved()  # parameters, inputs and gaps too
        return found


def timed(step: Callable[[], None]) -> float:
    """Seconds until all of a step has been computed."""
    start = time.perf_counter()
    step()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def planned(training: Training, compiler: str) -> dict[str, Any]:
    """Within half of the memory by our plan."""
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
    """By torch's own planner, for a share of the bytes that are saved; without inductor by the backend that has it."""
    torch.compiler.reset()  # a graph that was compiled for another share would be used
    backend = "inductor" if compiler == "inductor" else "aot_eager_decomp_partition"
    with config.patch(activation_memory_budget=share):
        found = training.measured(torch.compile(training.model, backend=backend, dynamic=False))
    return found | {"share": share}


def at_the_peak(training: Training, peak: int, compiler: str) -> dict[str, Any]:
    """By torch's own planner with the largest share that was found to stay below a peak; the least if none does."""
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
    for name in names[:1] if quick else names:
        yield from of_model(name, ("eager",) if quick else ("eager", "inductor"))


def of_model(name: str, compilers: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The records of a model: without a plan and with ours by each compiler, then torch's planner at our peaks."""
    plain, ours = {}, {}
    for compiler in compilers:
        before = "" if compiler == "eager" else "inductor, "
        without = eager if compiler == "eager" else partial(by_torch, compiler=compiler, share=1.0)
        plain[compiler] = recorded(name, compiler, without)
        yield plain[compiler]
        ours[compiler] = recorded(name, f"{before}remat {BUDGET}", partial(planned, compiler=compiler), plain[compiler])
        yield ours[compiler]
    for compiler in compilers:
        if "peak" in ours[compiler]:
            method = f"{'' if compiler == 'eager' else 'inductor, '}activation_memory_budget"
            measure = partial(at_the_peak, peak=ours[compiler]["peak"], compiler=compiler)
            yield recorded(name, method, measure, plain[compiler])


def eager(training: Training) -> dict[str, Any]:
    """As PyTorch runs it."""
    return training.measured(training.model)


def recorded(
    name: str, method: str, measure: Callable[[Training], dict[str, Any]], beside: dict[str, Any] | None = None
) -> dict[str, Any]:
    """What a method gave for a model, and its slowdown beside what it is compared with."""
    torch.compiler.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    found = {"model": name, "method": method, **measure(Training.of(name))}
    if beside is not None and "seconds" in found and "seconds" in beside:
        found["slowdown"] = found["seconds"] / beside["seconds"]
    return found
