"""Backends (with or without inductor) and a partition function for torch.compile that keep graphs within a budget.

Inductor fuses and reorders operators. Its peak can exceed the prediction, so it is measured.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from remat_algos.arguments import checked_arguments
from remat_algos.errors import ArgumentError, ArgumentTypeError, BackendError, GraphError
from remat_algos.interop import tuning
from remat_algos.interop.torch.planning import Partitioner, TrainingRequest, box, check_before_backward
from remat_algos.interop.torch.private_names import (
    CustomPartitioner,
    InputMutation,
    aot_autograd,
    at_compiled_calls,
    checkpoint_regions,
    inductor,
    keywords_of,
    origin,
    recurrent_layers,
)
from remat_algos.interop.torch.report import GraphReport
from remat_algos.interop.torch.storages import allocator_peak
from remat_algos.ir.budget import Amount, Budget

_partitioners: OrderedDict[int, tuple[Mapping[str, Any], "TorchBackend"]] = OrderedDict()
_latest: list["TorchBackend"] = []  # backend of the latest call


class TorchBackend:
    """A backend of torch.compile that keeps each graph within a budget: `torch.compile(model, backend=...)`."""

    def __init__(self, partitioner: Partitioner) -> None:
        self.partitioner = partitioner
        self.__name__ = "remat"  # PyTorch's messages print this name

    def __repr__(self) -> str:
        return f"backend({str(self.partitioner.request.budget)!r}; {len(self.reports)} graphs)"

    @property
    def reports(self) -> list[GraphReport]:
        """One report per graph and shape, in the order of compilation."""
        return self.partitioner.reports

    def __call__(self, module: fx.GraphModule, inputs: Sequence[Any], **unused: Any) -> Callable[..., Any]:
        partitioner = self.partitioner
        partitioner.reread = {}
        with partitioner.compiling(module, inputs), recurrent_layers(), checkpoint_regions():
            forward = partitioner.compile_forward
            call = aot_autograd(fw_compiler=forward, bw_compiler=box, partition_fn=partitioner)(module, inputs)
        names = [node.name for node in module.graph.find_nodes(op="placeholder")]
        reread = [(names[key], key, again) for key, again in partitioner.reread.items() if isinstance(key, int)]
        if not reread:
            return call

        def run(*inputs: Any) -> Any:
            results = call(*inputs)
            check_before_backward(results, [(name, inputs[place], again) for name, place, again in reread])
            return results

        return run


class InductorPartitioner(CustomPartitioner):
    """A partitioner for inductor, as its option `custom_partitioner_fn`.

    The arguments are those of `backend`, except that `rng` is "once": random operators are not recomputed, because
    inductor has its own generators. BackendError is raised for graphs that write into their inputs.
    """

    def __init__(self, budget: Budget | Amount, **options: Any) -> None:
        if options.get("rng", "once") != "once":
            raise ArgumentError('inductor cannot replay random operators; remove rng, or give "once"')
        if options.get("link") is not None:
            raise ArgumentError("inductor reorders operators, so copies would not overlap with them; remove the link")
        self.partitioner = Partitioner(TrainingRequest.of(budget, **{**options, "rng": "once"}))

    @property
    def reports(self) -> list[GraphReport]:
        """Reports on the plans; inductor's own peaks differ from the predicted ones."""
        return self.partitioner.reports

    def __call__(
        self, gm: fx.GraphModule, joint_inputs: Sequence[object], **known: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Return the forward and the backward module of a joint graph."""
        returned = gm.graph.output_node().meta["desc"]
        if any(isinstance(origin(each), InputMutation) for each in returned) or gm.graph.find_nodes(
            op="call_function", target=torch.ops.aten.copy_.default
        ):
            raise BackendError(
                "the model writes into its buffers, which inductor does inside the graph; "
                'remove {"compiler": "inductor"}'
            )
        return self.partitioner(gm, joint_inputs, **known)

    def uuid(self) -> None:
        """Return None: inductor must not cache modules compiled with a plan."""

    def __deepcopy__(self, memo: object) -> "InductorPartitioner":
        # Inductor deep-copies its configuration, which contains this object; the copies must share its reports.
        return self


@dataclass(frozen=True, slots=True)
class Attempt:
    """The limit of a plan, with its predicted and its measured peak, all in bytes."""

    limit: int
    predicted: int
    measured: int


class InductorBackend(TorchBackend):
    """A backend of torch.compile: inductor with plans for joint graphs; random numbers are those of eager PyTorch."""

    def __init__(self, budget: Budget | Amount, **options: Any) -> None:
        self._splitter = InductorPartitioner(budget, **options)
        super().__init__(self._splitter.partitioner)

    def __call__(self, module: fx.GraphModule, inputs: Sequence[Any], **unused: Any) -> Callable[..., Any]:
        compile_fx, config = inductor()
        with (
            self.partitioner.compiling(module, inputs),
            recurrent_layers(),
            checkpoint_regions(),
            config.patch(custom_partitioner_fn=self._splitter, fallback_random=True, force_disable_caches=True),
        ):
            return compile_fx(module, inputs)

    def fit(self, step: Callable[[], Any], present: Iterable[torch.Tensor]) -> list[Attempt]:
        """Measure a training step and plan it again with a lower limit, until the measured peak is within the budget.

        Tensors in `present`, such as parameters and inputs, are not counted. All code that torch.compile has
        compiled in this process is discarded, and compiled again when it is called. Raise BackendError if the peak
        stays above the budget.
        """
        present, attempts = list(present), list[Attempt]()
        for _ in range(tuning.ATTEMPTS):
            self.reports.clear()
            torch.compiler.reset()
            step()  # the first step compiles
            attempts.append(Attempt(self._limit(), self.reports[-1].whole, allocator_peak(step, present)))
            target, last = attempts[0].limit, attempts[-1]
            if last.measured <= target:
                return attempts
            lower = min(last.limit, last.predicted) * target // last.measured
            self.partitioner.request = replace(self.partitioner.request, budget=lower)
        raise BackendError(
            "inductor still allocates {measured:,} bytes after {attempts} plans, which exceeds the budget of "
            "{target:,}; give a larger budget",
            measured=last.measured,
            target=target,
            attempts=tuning.ATTEMPTS,
        )

    def _limit(self) -> int:
        """Return the limit in bytes for all graphs together; a relative budget is only allowed for a single graph."""
        request = self.partitioner.request
        memory = None if request.is_share else Budget.of(request.budget).memory
        if isinstance(memory, int):
            return memory
        if len(self.reports) > 1:
            raise BackendError("the model has several graphs; give one budget in bytes for all of them")
        limit = self.reports[0].plan.limit
        return self.reports[0].plan.peak_memory if limit is None else limit


@checked_arguments
def backend(budget: Budget | Amount, *, compiler: str = "eager", **options: Any) -> Any:
    """Return a backend of torch.compile that keeps training within a budget.

    Parameters
    ----------
    budget : Budget, int or str
        Limit of the peak: bytes, "8GiB", or "50%" of each graph's own peak without rematerialization. Parameters,
        buffers and inputs are not counted. A limit in bytes applies to all graphs of the model together.
    compiler : {"eager", "inductor"}
        Compiler for the planned modules. Inductor fuses and reorders operators, so its peak can exceed the prediction;
        the method `fit` of its backend measures the peak and plans again.
    **options
        `solver`, `effort`, `rng`, `cost`, `device`, `workspace`, `infeasible`, `optimizer`, `accumulate`, `reserve`,
        `link`, `recurrent`: see `TrainingRequest`.

    Returns
    -------
    TorchBackend or InductorBackend
        Its `reports` describe the plan of each graph.

    Raises
    ------
    TypeError, ValueError
        If an option is unknown or the budget is invalid.

    Examples
    --------
    >>> import torch
    >>> planned = backend("100%")
    >>> model = torch.compile(torch.nn.Linear(8, 8), backend=planned, dynamic=False)
    >>> model(torch.ones(2, 8)).sum().backward()
    >>> len(planned.reports)
    1
    """
    if compiler == "inductor":
        return InductorBackend(budget, **options)
    if compiler != "eager":
        raise ArgumentError("unknown compiler {compiler!r}; use 'eager' or 'inductor'", compiler=compiler)
    return TorchBackend(partition_fn(budget, **options))


def remat(
    module: fx.GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Compile a graph for `torch.compile(model, backend="remat", options={"budget": "8GiB"}, dynamic=False)`.

    The options are those of `backend`. The option `device`, if it replaces `budget`, limits the sum of peak and
    residents.
    """
    return _backend_by(options)(module, inputs)


def _backend_by(options: Mapping[str, Any] | None) -> "TorchBackend":
    """Return the backend for an options object; calls with the same object return the same backend."""
    entry = _partitioners.get(id(options))
    if entry is None:
        # The entry keeps the options alive, so that no other object can have the same id.
        entry = (options or {}, _backend_of(dict(options or {})))
        _partitioners[id(options)] = entry
        if len(_partitioners) > 64:
            _partitioners.popitem(last=False)
    return entry[1]


def _monitor_of(called: Any, options: Mapping[str, Any] | None, model: Any) -> Callable[[], Callable[[], None]] | None:
    named = _backend_by(options) if called is remat else None
    plans = getattr(named or called, "partitioner", None) or keywords_of(called).get("partition_fn")
    partitioner = getattr(plans, "partitioner", plans)  # InductorPartitioner wraps its partitioner
    if not isinstance(partitioner, Partitioner):
        return None

    def monitor() -> Callable[[], None]:
        if named is not None:
            _latest[:] = [named]
        return partitioner.monitor(model)

    return monitor


at_compiled_calls(_monitor_of)


def reports() -> list[GraphReport]:
    """Return the reports on the graphs of the model with `backend="remat"` that was called last.

    Raise GraphError if there is no report, because the model was not called yet or torch.compile captured no graph.
    """
    planned = _latest[0].reports if _latest else []
    if not planned:
        parts = [part.with_remedy() for part in _latest[0].partitioner.parts.values()] if _latest else []
        unplanned = f"; it did not capture: {'; '.join(parts)}" if parts else ""
        raise GraphError(
            'torch.compile has passed no graph to the backend "remat"; call the model first{left_out!w}',
            left_out=unplanned,
        )
    return planned


def _backend_of(options: dict[str, Any]) -> Any:
    if "budget" in options:
        return backend(**options)
    if options.get("device") is None:
        raise ArgumentTypeError('give a budget, such as {"budget": "8GiB"} or {"device": "16GiB", "optimizer": "adam"}')
    return backend(Budget(device=options.pop("device")), **options)


@checked_arguments
def partition_fn(budget: Budget | Amount, **options: Any) -> Partitioner:
    """Return a partition function of AOTAutograd, for a custom backend.

    PyTorch's own decompositions of nn.GRU, nn.RNN and nn.LSTM omit the dropout between layers; a backend that captures
    these modules must take that into account. If `link` is given, the backend must execute the calls in each module one
    by one, in their order.

    Parameters
    ----------
    budget, **options
        As for `backend`.

    Returns
    -------
    Partitioner
        Callable that takes `(joint, inputs, *, num_fwd_outputs, ...)` and returns the forward and backward modules.
    """
    return Partitioner(TrainingRequest.of(budget, **options))
