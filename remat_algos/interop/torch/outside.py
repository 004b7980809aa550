"""Parts of a model that torch.compile does not capture and that therefore run outside every plan."""

import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from remat_algos.errors import warn
from remat_algos.interop.torch.private_names import Break
from remat_algos.wording import LONGEST_PATH, listed, shortened

CALLERS_NAMED = 3  # per warning
warn_user = partial(warn, skipped=("torch", "contextlib"))
"""Warn, and name the user's line as the location instead of a line in PyTorch."""
_TORCH, _PYTHON = str(Path(torch.__file__).parent), sysconfig.get_path("stdlib")
_CALLED = str(Path(_TORCH, "_dynamo", "external_utils.py"))
_PARALLEL = tuple(str(Path(_TORCH, *each)) for each in (("nn", "parallel"), ("distributed",)))

HOOKS = "Module-level backwards hooks"
REMEDIES = {
    "Attempted to wrap RNN, GRU, or LSTM": "give the backend's option recurrent=True",
    HOOKS: "remove the hook, or use Tensor.register_hook for gradients of parameters",
    "Module-level forward hooks": "remove the hook",
    "torch.func.grad": "return the loss, and call loss.backward() outside the compiled function",
    "using `torch.autograd.grad`": "compute gradients outside the compiled function",
    "Unsupported Tensor.backward() call": "call backward outside the compiled function",
    "Unsupported Tensor.item() call": "compute with the tensor, not with its element",
    "Data dependent operator": "compute with the tensor, not with its element",
    "Dynamic shape operator": "use operators whose sizes do not depend on data",
}
"""Remedy for each reason that begins with the key; for other reasons PyTorch's own hint is printed."""
NO_HINT = (
    "Please report",
    "It may be possible to write",
    "This graph break is fundamental",
    "Enable compiled autograd",
)


@dataclass(frozen=True, slots=True)
class UnplannedPart:
    """A part of a model that runs outside every plan: its location, PyTorch's reason, and a remedy."""

    place: str
    reason: str
    remedy: str

    @classmethod
    def of(cls, graph_break: Break, model: Any) -> "UnplannedPart | None":
        """Describe a graph break. Return None if DDP or FSDP causes it on purpose, or if it is inside PyTorch."""
        reason, _, rest = graph_break.reason.partition("\n")
        context = rest.rpartition("Developer debug context: ")[2].partition("\n")[0].strip()
        reason = reason.rstrip(".") or "PyTorch gives no reason"
        if reason.startswith(HOOKS):
            context = listed(hooked_modules(model), CALLERS_NAMED)
        parallel = [frame[0].startswith(_PARALLEL) for frame in graph_break.frames]
        users = [frame for frame in graph_break.frames if not frame[0].startswith((_TORCH, _PYTHON, "<"))]
        if any(parallel[-1:] if users else parallel):
            return None
        if users:
            file, number, function, line = users[-1]
            place = f"{line or function} ({Path(file).name}, line {number})"
        elif graph_break.frames and graph_break.frames[0][0] == _CALLED:
            place = ""
        else:
            return None
        known_remedy = next((remedy for start, remedy in REMEDIES.items() if reason.startswith(start)), None)
        hints = [each.strip() for each in rest.split("Hint: ")[1:]]
        useful = [each.partition("\n")[0].rstrip(".") for each in hints if not each.startswith(NO_HINT)]
        remedy = known_remedy or (useful[0] if useful else "leave it out of the compiled model")
        return cls(place, f"{reason} ({context})" if context else reason, remedy)

    def __str__(self) -> str:
        return ": ".join(shortened(each, LONGEST_PATH) for each in (self.place, self.reason) if each)

    def with_remedy(self) -> str:
        return f"{self} ({shortened(self.remedy, LONGEST_PATH)})"


def hooked_modules(model: Any) -> list[str]:
    modules = model.named_modules() if isinstance(model, nn.Module) else ()
    return [name or type(each).__name__ for name, each in modules if each._backward_hooks]


def warn_of(parts: Sequence[UnplannedPart], planned: bool) -> None:
    """Warn about parts that run outside every plan, with remedies; without parts, warn that nothing was captured."""
    if not parts:
        warn_user(
            "remat plans no part of the model, because torch.compile captured no part of its first call; enable "
            "torch.compile, and make that call outside of dispatch modes and other compiled functions"
        )
        return
    described = "; ".join(map(UnplannedPart.with_remedy, parts[:CALLERS_NAMED]))
    if len(parts) > CALLERS_NAMED:
        described += f"; and {len(parts) - CALLERS_NAMED:,} more, in reports[-1].graph_breaks"
    if not planned:
        warn_user("remat plans no part of the model: {parts!w}", parts=described)
        return
    warn_user(
        "{count:part} of the model {run} outside the plans and the budget of remat: {parts!w}",
        count=len(parts),
        run="runs" if len(parts) == 1 else "run",
        parts=described,
    )
