"""Training steps of PyTorch within half of their memory: the peak of the allocator, and time beside torch's planner.

A part of `python -m tests.benchmarks.gpu_run`. On a GPU the models are as large as people train them; on the CPU they
are small, and one thread runs them.
"""

import gc
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
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
        return {"peak": peak, "seconds": statistics.median(seconds), "loss": losses[-1].item()}


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
    backend = "inductor" if compiler == "inductor" else "aot_eager_decomp_partition"
    with config.patch(activation_memory_budget=share):
        found = training.measured(torch.compile(training.model, backend=backend, dynamic=False))
    return found | {"share": share}


def at_the_peak(training: Training, peak: int) -> dict[str, Any]:
    """By torch's own planner with the largest share that was found to stay below a peak; else with the least share."""
    low, high, found = 0.0, 1.0, by_torch(training, "eager", 0.0)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        tried = by_torch(training, "eager", middle)
        if tried.get("peak", peak + 1) <= peak:
            low, found = middle, tried
        else:
            high = middle
    return found


def results(quick: bool) -> Iterator[dict[str, Any]]:
    """One record for each model and way, those without a compiler first, each after what it is compared with.

    With `quick` one model, without inductor.
    """
    warnings.simplefilter("ignore")
    on_gpu = torch.cuda.is_available()
    if not on_gpu:
        torch.set_num_threads(1)
    yield {"torch": torch.__version__, "cuda": torch.version.cuda}
    names = list(LARGE) if on_gpu else [name for name in SMALL if not quick or name == "small gpt"]
    shares: dict[str, float] = {}
    for name in names:
        eager = recorded(name, "eager", lambda training: training.measured(training.model))
        yield eager
        ours = recorded(name, f"remat {BUDGET}", partial(planned, compiler="eager"), eager)
        yield ours
        if "peak" in ours:
            way = "activation_memory_budget"
            theirs = recorded(name, way, partial(at_the_peak, peak=ours["peak"]), eager)
            yield theirs
            shares[name] = theirs["share"]
    for name in sorted(() if quick else names, key=lambda name: "gpt" not in name):  # plans with buffers are refused
        plain = recorded(name, "inductor", partial(by_torch, compiler="inductor", share=1.0))
        yield plain
        yield recorded(name, f"inductor, remat {BUDGET}", partial(planned, compiler="inductor"), plain)
        way, share = "inductor, activation_memory_budget", shares.get(name, 0.0)
        yield recorded(name, way, partial(by_torch, compiler="inductor", share=share), plain)


def recorded(
    name: str, way: str, measure: Callable[[Training], dict[str, Any]], beside: dict[str, Any] | None = None
) -> dict[str, Any]:
    """What a way gave for a model, and how long its step takes beside the one that it is compared with."""
    torch.compiler.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    found = {"model": name, "way": way, **measure(Training.of(name))}
    if beside is not None and "seconds" in found and "seconds" in beside:
        found["times_as_long"] = found["seconds"] / beside["seconds"]
    return found
