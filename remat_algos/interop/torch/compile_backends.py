"""Backends of torch.compile that run graphs within a budget: eager, inductor, and a partition function.

Inductor fuses and reorders: predictions are not bounds there, and peaks are measured.
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
_latest: list["TorchBackend"] = []  # the model of the backend "remat" that was called last


class TorchBackend:
    """A backend of torch.compile that keeps each graph within a budget: `torch.compile(model, backend=...)`."""

    def __init__(self, partitioner: Partitioner) -> None:
        self.partitioner = partitioner
        self.__name__ = "remat"  # its name in PyTorch's messages

    def __repr__(self) -> str:
        return f"backend({str(self.partitioner.request.budget)!r}; {len(self.reports)} graphs)"

    @property
    def reports(self) -> list[GraphReport]:
        """One per graph and shape, in the order of compilation."""
        return self.partitioner.reports

    def __call__(self, module: fx.GraphModule, inputs: Sequence[Any], **unused: Any) -> Callable[..., Any]:
        """Compile a graph that torch.compile has captured."""
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
            raise ArgumentError('inductor replays no random operators; leave rng out, or give "once"')
        if options.get("link") is not None:
            raise ArgumentError("inductor reorders operators, so copies would not hide behind them; leave the link out")
        self.partitioner = Partitioner(TrainingRequest.of(budget, **{**options, "rng": "once"}))

    @property
    def reports(self) -> list[GraphReport]:
        """The reports on the plans."""
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


class InductorBackend(TorchBackend):
    """A backend of torch.compile: inductor, with the joint graph split by our plans; random numbers stay the same."""

    def __init__(self, budget: Budget | Amount, **options: Any) -> None:
        self._splitter = InductorPartitioner(budget, **options)
        super().__init__(self._splitter.partitioner)

    def __call__(self, module: fx.GraphModule, inputs: Sequence[Any], **unused: Any) -> Callable[..., Any]:
        """Compile a graph that torch.compile has captured."""
        compile_fx, config = inductor()
        with (
            self.partitioner.compiling(module, inputs),
            recurrent_layers(),
            checkpoint_regions(),
            config.patch(custom_partitioner_fn=self._splitter, fallback_random=True, force_disable_caches=True),
        ):
            return compile_fx(module, inputs)

    def fit(self, step: Callable[[], Any], known: Iterable[torch.Tensor]) -> list[Attempt]:
        """Measure a training step, and plan for lower limits until it is within the budget; keep the last attempt.

        `known` tensors, such as parameters and inputs, are not counted. All that torch.compile has compiled in this
        process is discarded and compiled again when called. BackendError if the step stays above the budget.
        """
        present, attempts = list(known), list[Attempt]()
        for _ in range(tuning.ATTEMPTS):
            self.reports.clear()
            torch.compiler.reset()
            step()  # compiles
            attempts.append(Attempt(self._limit(), self.reports[-1].whole, allocator_peak(step, present)))
            target, last = attempts[0].limit, attempts[-1]
            if last.measured <= target:
                return attempts
            lower = min(last.limit, last.predicted) * target // last.measured
            self.partitioner.request = replace(self.partitioner.request, budget=lower)
        raise BackendError(
            "inductor allocates {measured:,} bytes of {target:,} after {attempts} plans; give a larger budget",
            measured=last.measured,
            target=target,
            attempts=tuning.ATTEMPTS,
        )

    def _limit(self) -> int:
        """Bytes for all graphs together; a share needs a single graph."""
        request = self.partitioner.request
        memory = None if request.is_share else Budget.of(request.budget).memory
        if isinstance(memory, int):
            return memory
        if len(self.reports) > 1:
            raise BackendError("the model has several graphs; give the budget in bytes to fit all of them together")
        limit = self.reports[0].plan.limit
        return self.reports[0].plan.peak_memory if limit is None else limit


@checked_arguments
def backend(budget: Budget | Amount, *, compiler: str = "eager", **options: Any) -> Any:
    """Return a backend of torch.compile that keeps training within a budget.

    Parameters
    ----------
    budget : Budget, int or str
        Limit of the peak: bytes, "8GiB", or "50%" of each graph's own peak without rematerialization. Parameters,
        buffers and inputs are not counted. Bytes are for all graphs of the model together.
    compiler : {"eager", "inductor"}
        Compiler of the modules. Inductor fuses and reorders: the prediction is not a bound there, and `fit` measures.
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
        If an option is unknown or the budget invalid.

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
        raise ArgumentError("the compiler {compiler!r} is not known; use 'eager' or 'inductor'", compiler=compiler)
    return TorchBackend(partition_fn(budget, **options))


def remat(
    module: fx.GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Compile a graph for `torch.compile(model, backend="remat", options={"budget": "8GiB"}, dynamic=False)`.

    Options are those of `backend`; `device` instead of `budget`, in bytes, limits peak and residents together.
    """
    return _backend_by(options)(module, inputs)


def _backend_by(options: Mapping[str, Any] | None) -> "TorchBackend":
    """Return the backend of these options: the same for the same object."""
    known = _partitioners.get(id(options))
    if known is None:
        known = (options or {}, _backend_of(dict(options or {})))
        _partitioners[id(options)] = known  # keeps the options alive: their id stays unique
        if len(_partitioners) > 64:
            _partitioners.popitem(last=False)
    return known[1]


def _watcher(called: Any, options: Mapping[str, Any] | None, model: Any) -> Callable[[], Callable[[], None]] | None:
    """Return the function that watches calls of a model compiled by a backend; None for backends without our plans."""
    named = _backend_by(options) if called is remat else None
    plans = getattr(named or called, "partitioner", None) or keywords_of(called).get("partition_fn")
    partitioner = getattr(plans, "partitioner", plans)  # inductor's
    if not isinstance(partitioner, Partitioner):
        return None

    def monitor() -> Callable[[], None]:
        if named is not None:
            _latest[:] = [named]
        return partitioner.monitor(model)

    return monitor


at_compiled_calls(_watcher)


def reports() -> list[GraphReport]:
    """Reports on the graphs of the model of `torch.compile(model, backend="remat")` that was called last.

    Raises
    ------
    GraphError
        If there is none: torch.compile captures graphs at the first call, and nothing of some models.
    """
    planned = _latest[0].reports if _latest else []
    if not planned:
        parts = [part.with_remedy() for part in _latest[0].partitioner.parts.values()] if _latest else []
        left_out = f"; it left out: {'; '.join(parts)}" if parts else ""
        raise GraphError(
            'torch.compile has given no graph to the backend "remat"; call the model first{left_out!w}',
            left_out=left_out,
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
    """Return a partition function for AOTAutograd, for custom backends.

    PyTorch's own decompositions of nn.GRU, nn.RNN and nn.LSTM leave out the dropout between layers; a backend that
    captures these must take that into account. One that gives a link must run the modules call by call, in their order.

    Parameters
    ----------
    budget, **options
        As for `backend`.

    Returns
    -------
    Partitioner
        Called with `(joint, inputs, *, num_fwd_outputs, ...)` it gives the forward and the backward module.
    """
    return Partitioner(TrainingRequest.of(budget, **options))
