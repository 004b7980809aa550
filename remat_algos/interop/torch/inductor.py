"""Plans for inductor, which fuses and reorders: there a prediction is no bound, and peaks are measured."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from remat_algos.errors import BackendError
from remat_algos.interop.torch.peaks import allocator_peak
from remat_algos.interop.torch.planning import GraphReport, Partitioner, Request
from remat_algos.interop.torch.private import CustomPartitioner, InputMutation, inductor
from remat_algos.ir.budget import Amount, Budget

ATTEMPTS = 5  # limits that `fit` tries


class InductorPartitioner(CustomPartitioner):
    """A partitioner for inductor: its configuration's `custom_partitioner_fn`.

    Random operators run once: inductor has its own generators. Graphs that write into their inputs are refused.

    Parameters
    ----------
    budget, **options
        As of `backend`; `rng` is "once".

    Attributes
    ----------
    reports : list of GraphReport
        What was planned; inductor's own peaks differ.
    """

    def __init__(self, budget: Budget | Amount, **options: Any) -> None:
        if options.get("rng", "once") != "once":
            raise ValueError('inductor replays no random operators; leave rng out, or give "once"')
        self.partitioner = Partitioner(Request.of(budget, **{**options, "rng": "once"}))

    @property
    def reports(self) -> list[GraphReport]:
        """What was planned."""
        return self.partitioner.reports

    def __call__(
        self, gm: fx.GraphModule, joint_inputs: Sequence[object], **known: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """The forward and the backward module of a joint graph."""
        returned = gm.graph.output_node().meta["desc"]
        if any(isinstance(each, InputMutation) for each in returned) or gm.graph.find_nodes(
            op="call_function", target=torch.ops.aten.copy_.default
        ):
            raise BackendError(
                "the model writes into its buffers, which inductor does within the graph; "
                'leave {"compiler": "inductor"} out'
            )
        return self.partitioner(gm, joint_inputs, **known)

    def uuid(self) -> None:
        """None: what was compiled with a plan is not cached under one name."""

    def __deepcopy__(self, memo: object) -> "InductorPartitioner":
        return self  # inductor copies its configuration; the reports are to stay in one place


@dataclass(frozen=True, slots=True)
class Attempt:
    """One limit, and what came of it; all in bytes."""

    limit: int
    predicted: int
    measured: int


class InductorBackend:
    """A backend of torch.compile: inductor, with the forward part and the backward part cut by our plans.

    Parameters
    ----------
    request : Request
    """

    def __init__(self, request: Request) -> None:
        self.partitioner = InductorPartitioner(
            **{name: getattr(request, name) for name in request.__dataclass_fields__}
        )
        self.__name__ = "remat"

    @property
    def reports(self) -> list[GraphReport]:
        """What was planned."""
        return self.partitioner.reports

    def __call__(self, module: fx.GraphModule, inputs: Sequence[Any], **unused: Any) -> Callable[..., Any]:
        """Compile a graph that torch.compile has captured."""
        compile_fx, config = inductor()
        with config.patch(custom_partitioner_fn=self.partitioner):
            return compile_fx(module, inputs)

    def fit(self, step: Callable[[], Any], known: Iterable[torch.Tensor]) -> list[Attempt]:
        """Measure a training step, and plan again for a lower limit while it is above the budget.

        Parameters
        ----------
        step : callable
            Without arguments; of a model that torch.compile compiles with this backend.
        known : iterable of torch.Tensor
            What is there before, and not counted.

        Returns
        -------
        list of Attempt
            The last one is what runs from now on.

        Raises
        ------
        BackendError
            If the step stays above the budget.
        """
        present, attempts = list(known), []
        requested = self.partitioner.partitioner.request
        for _ in range(ATTEMPTS):
            self.reports.clear()
            torch.compiler.reset()
            step()  # compiles
            report = self.reports[-1]
            limit = report.plan.peak_memory if report.plan.limit is None else report.plan.limit
            measured = allocator_peak(step, present)
            attempts.append(Attempt(limit, report.whole, measured))
            target = attempts[0].limit
            if measured <= target:
                return attempts
            self.partitioner.partitioner.request = replace(
                requested, budget=min(limit, report.whole) * target // measured
            )
        raise BackendError(
            f"inductor allocates {measured:,} bytes of {target:,} after {ATTEMPTS} plans; give a larger budget"
        )
