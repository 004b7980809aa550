"""Plans for inductor, which fuses and reorders: predictions are not bounds there, and peaks are measured."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from remat_algos.errors import BackendError
from remat_algos.interop.torch.peaks import allocator_peak
from remat_algos.interop.torch.planning import GraphReport, Partitioner, TrainingRequest
from remat_algos.interop.torch.private import (
    CustomPartitioner,
    InputMutation,
    checkpoint_regions,
    inductor,
    origin,
    recurrent_layers,
)
from remat_algos.ir.budget import Amount, Budget

ATTEMPTS = 5  # number of limits that `fit` tries


class InductorPartitioner(CustomPartitioner):
    """A partitioner for inductor: its configuration's `custom_partitioner_fn`.

    Random operators run once: inductor has its own generators. Graphs that write into their inputs are refused.

    Parameters
    ----------
    budget, **options
        As for `backend`; `rng` is "once".

    Attributes
    ----------
    reports : list of GraphReport
        Reports on the plans; inductor's own peaks differ.
    """

    def __init__(self, budget: Budget | Amount, **options: Any) -> None:
        if options.get("rng", "once") != "once":
            raise ValueError('inductor replays no random operators; leave rng out, or give "once"')
        if options.get("link") is not None:
            raise ValueError("inductor reorders operators, so copies would not hide behind them; leave the link out")
        self.partitioner = Partitioner(TrainingRequest.of(budget, **{**options, "rng": "once"}))

    @property
    def reports(self) -> list[GraphReport]:
        """The reports on the plans."""
        return self.partitioner.reports

    def __call__(
        self, gm: fx.GraphModule, joint_inputs: Sequence[object], **known: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """The forward and the backward module of a joint graph."""
        returned = gm.graph.output_node().meta["desc"]
        if any(isinstance(origin(each), InputMutation) for each in returned) or gm.graph.find_nodes(
            op="call_function", target=torch.ops.aten.copy_.default
        ):
            raise BackendError(
                "the model writes into its buffers, which inductor does within the graph; "
                'leave {"compiler": "inductor"} out'
            )
        return self.partitioner(gm, joint_inputs, **known)

    def uuid(self) -> None:
        """None: modules compiled with a plan are not cached."""

    def __deepcopy__(self, memo: object) -> "InductorPartitioner":
        return self  # inductor copies its configuration; the reports are to stay in one place


@dataclass(frozen=True, slots=True)
class Attempt:
    """One limit and its measured result, in bytes."""

    limit: int
    predicted: int
    measured: int


class InductorBackend:
    """A backend of torch.compile: inductor, with the joint graph split by our plans.

    Random operators draw the same numbers as without inductor.

    Parameters
    ----------
    budget, **options
        As for `InductorPartitioner`.
    """

    def __init__(self, budget: Budget | Amount, **options: Any) -> None:
        self.partitioner = InductorPartitioner(budget, **options)
        self.__name__ = "remat"

    @property
    def reports(self) -> list[GraphReport]:
        """The reports on the plans."""
        return self.partitioner.reports

    def __call__(self, module: fx.GraphModule, inputs: Sequence[Any], **unused: Any) -> Callable[..., Any]:
        """Compile a graph that torch.compile has captured."""
        compile_fx, config = inductor()
        with (
            self.partitioner.partitioner.compiling(module, inputs),
            recurrent_layers(),
            checkpoint_regions(),
            config.patch(custom_partitioner_fn=self.partitioner, fallback_random=True, force_disable_caches=True),
        ):
            return compile_fx(module, inputs)

    def fit(self, step: Callable[[], Any], known: Iterable[torch.Tensor]) -> list[Attempt]:
        """Measure a training step, and plan for lower limits until it is within the budget.

        Everything that torch.compile has compiled in this process is discarded and compiled again when called.

        Parameters
        ----------
        step : callable
            Function without arguments; runs a model that torch.compile compiles with this backend.
        known : iterable of torch.Tensor
            Tensors that exist before, such as parameters and inputs, and are not counted.

        Returns
        -------
        list of Attempt
            The last one stays in use.

        Raises
        ------
        BackendError
            If the step stays above the budget.
        """
        present, attempts = list(known), list[Attempt]()
        for _ in range(ATTEMPTS):
            self.reports.clear()
            torch.compiler.reset()
            step()  # compiles
            attempts.append(Attempt(self._limit(), self.reports[-1].whole, allocator_peak(step, present)))
            target, last = attempts[0].limit, attempts[-1]
            if last.measured <= target:
                return attempts
            lower = min(last.limit, last.predicted) * target // last.measured
            self.partitioner.partitioner.request = replace(self.partitioner.partitioner.request, budget=lower)
        raise BackendError(
            f"inductor allocates {last.measured:,} bytes of {target:,} after {ATTEMPTS} plans; give a larger budget"
        )

    def _limit(self) -> int:
        """Bytes for all graphs together; a share needs a single graph."""
        request = self.partitioner.partitioner.request
        memory = None if request.is_share else Budget.of(request.budget).memory
        if isinstance(memory, int):
            return memory
        if len(self.reports) > 1:
            raise BackendError("the model has several graphs; give the budget in bytes to fit all of them together")
        limit = self.reports[0].plan.limit
        return self.reports[0].plan.peak_memory if limit is None else limit
