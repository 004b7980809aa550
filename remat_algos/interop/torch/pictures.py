"""Predicted and measured memory of a training step, side by side."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from remat_algos.interop.torch.peaks import allocations
from remat_algos.plan.plan import Plan
from remat_algos.plot.axes import byte_axis, ink, title
from remat_algos.plot.pictures.memory import memory
from remat_algos.text.units import format_bytes


def draw_step(plan: Plan, step: Callable[[], Any] | None, known: Iterable[torch.Tensor]) -> Any:
    """A figure of a plan's live memory and, if a step is given, of its CPU allocations."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 1 if step is None else 2, squeeze=False, figsize=(12, 4.8), layout="constrained")
    memory(plan, ax=axes[0, 0])
    if step is not None:
        held = np.cumsum([0, *allocations(step, known)])
        beside = axes[0, 1]
        beside.stairs(held[:-1], np.arange(held.size), color=ink(), linewidth=0.8)
        beside.set_xlabel("allocation or release of the step")
        top = max(float(held.max(initial=0)), axes[0, 0].get_ylim()[1])
        for each in axes[0]:
            each.set_ylim(0, top)
        byte_axis(beside.yaxis, int(top), "allocated beyond what was there")
        title(beside, [f"measured peak {format_bytes(int(held.max(initial=0)))}"])
    return figure
