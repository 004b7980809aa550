"""Graphs that run within a budget: through torch.compile, or in a backend of one's own; and captured ones."""

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx, nn

from remat_algos.arguments import checked_arguments
from remat_algos.errors import GraphError
from remat_algos.interop.torch.guards import check_before_backward
from remat_algos.interop.torch.joint import Captured
from remat_algos.interop.torch.planning import GraphReport, Partitioner, TrainingRequest, box
from remat_algos.interop.torch.private import (
    CAPTURE_RECURRENT,
    DataDependent,
    Tangent,
    allow_recurrent_layers,
    aot_autograd,
    checkpoint_regions,
    export_joint,
    not_captured,
    recurrent_layers,
)
from remat_algos.ir.budget import Amount, Budget
from remat_algos.text.wording import LONGEST_PATH, listed, quoted, shortened

REMEMBERED = 64  # options of torch.compile, each with its partitioner
_partitioners: OrderedDict[int, tuple[Mapping[str, Any], "TorchBackend"]] = OrderedDict()
_latest: list["TorchBackend"] = []  # what `remat` was called for last


class TorchBackend:
    """A backend of torch.compile that keeps each graph within a budget: `torch.compile(model, backend=...)`.

    Parameters
    ----------
    request : TrainingRequest
        `backend` makes one.

    Attributes
    ----------
    reports : list of GraphReport
        One per graph and shape, as they were compiled.
    """

    def __init__(self, request: TrainingRequest) -> None:
        self._partitioner = Partitioner(request)
        self.__name__ = "remat"  # what PyTorch calls it in messages

    def __repr__(self) -> str:
        return f"backend({str(self._partitioner.request.budget)!r}; {len(self.reports)} graphs)"

    @property
    def reports(self) -> list[GraphReport]:
        """One per graph and shape, as they were compiled."""
        return self._partitioner.reports

    def __call__(self, module: fx.GraphModule, inputs: Sequence[Any], **unused: Any) -> Callable[..., Any]:
        """Compile a graph that torch.compile has captured."""
        partitioner = self._partitioner
        partitioner.prepare(module, inputs)
        partitioner.reread = {}
        with recurrent_layers(), checkpoint_regions():
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


@checked_arguments
def backend(budget: Budget | Amount, *, compiler: str = "eager", recurrent: bool = False, **options: Any) -> Any:
    """A backend of torch.compile that keeps training within a budget.

    Parameters
    ----------
    budget : Budget, int or str
        Of the peak: bytes, "8GiB", or "50%" of each graph's own peak without rematerialization. Parameters, buffers
        and inputs are apart. Bytes are for all graphs of the model together.
    compiler : {"eager", "inductor"}
        What runs the modules. Inductor fuses and reorders: the prediction is no bound there, and `fit` measures.
    recurrent : bool
        Let torch.compile capture nn.LSTM, nn.GRU and nn.RNN, from now on and for every model: its setting `allow_rnn`.
    **options
        `solver`, `effort`, `rng`, `cost`, `workspace`, `infeasible`, `optimizer`, `accumulate`, `reserve`: see
        `TrainingRequest`.

    Returns
    -------
    TorchBackend or InductorBackend
        Its `reports` tell how each graph was planned.

    Raises
    ------
    TypeError, ValueError
        For options that are not known, and budgets that are none.

    Examples
    --------
    >>> import torch
    >>> planned = backend("100%")
    >>> model = torch.compile(torch.nn.Linear(8, 8), backend=planned, dynamic=False)
    >>> model(torch.ones(2, 8)).sum().backward()
    >>> len(planned.reports)
    1
    """
    if recurrent:
        allow_recurrent_layers()
    if compiler == "inductor":
        from remat_algos.interop.torch.inductor import InductorBackend

        return InductorBackend(budget, **options)
    if compiler != "eager":
        raise ValueError(f"the compiler {quoted(compiler)} is not known; use 'eager' or 'inductor'")
    return TorchBackend(TrainingRequest.of(budget, **options))


def remat(
    module: fx.GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """What `torch.compile(model, backend="remat", options={"budget": "8GiB"}, dynamic=False)` calls for each graph.

    Options are those of `backend`; or, in place of `budget`, `device`, for the peak and all that is resident together.

    Raises
    ------
    TypeError, ValueError
        For options that are not known or missing.
    """
    known = _partitioners.get(id(options))
    if known is None:
        known = (options or {}, _backend_of(dict(options or {})))
        _partitioners[id(options)] = known  # which keeps the options alive, and so the id theirs
        if len(_partitioners) > REMEMBERED:
            _partitioners.popitem(last=False)
    _latest[:] = [known[1]]
    return known[1](module, inputs)


def reports() -> list[GraphReport]:
    """How the graphs of the model were planned that `torch.compile(model, backend="remat")` compiled last.

    Raises
    ------
    GraphError
        If it compiled none: it does so at the first call, and a model of which it captures nothing has none.
    """
    if not _latest:
        missed = listed([shortened(what, LONGEST_PATH) for what in not_captured()])
        why = f"; it could not capture: {missed} ({CAPTURE_RECURRENT}, or use rematerialize)" if missed else ""
        raise GraphError(f'torch.compile has given no graph to the backend "remat"; call the model first{why}')
    return _latest[0].reports


def _backend_of(options: dict[str, Any]) -> Any:
    device = options.pop("device", None)
    if (device is None) == ("budget" not in options):
        raise TypeError(
            'give one of two options, such as {"budget": "8GiB"} or {"device": "16GiB", "optimizer": "adam"}'
        )
    return backend(**options) if device is None else backend(Budget(device=device), **options)


@checked_arguments
def partition_fn(budget: Budget | Amount, **options: Any) -> Partitioner:
    """A partition function for AOTAutograd, for backends of one's own.

    PyTorch's own decompositions of nn.GRU, nn.RNN and nn.LSTM leave out the dropout between layers; a backend that
    captures these must mind that.

    Parameters
    ----------
    budget, **options
        As of `backend`.

    Returns
    -------
    Partitioner
        Called with `(joint, inputs, *, num_fwd_outputs, ...)` it gives the forward and the backward module.
    """
    return Partitioner(TrainingRequest.of(budget, **options))


@checked_arguments
def capture(
    model: nn.Module,
    inputs: Sequence[Any],
    *,
    keywords: Mapping[str, Any] | None = None,
    rng: str = "replay",
    cost: Any = "roofline",
    workspace: bool = False,
) -> Captured:
    """The computation graph of a model, forward and backward; nothing is run.

    Parameters
    ----------
    model : torch.nn.Module
    inputs : sequence
        Arguments; tensors on the device "meta" will do.
    keywords : mapping, optional
        Arguments by name.
    rng, cost, workspace
        As of `backend`. With `workspace` or the cost "profile" operators are run, each kind once.

    Returns
    -------
    Captured
        Its `graph` is what every tool takes; `save` writes it.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    >>> graph = capture(model, (torch.ones(2, 8),)).graph
    >>> graph.node_names()
    ['0.addmm', '1.relu', 'boundary', '1.threshold_backward', '0.mm', '0.sum_1']
    """
    request = TrainingRequest.of("100%", rng=rng, cost=cost, workspace=workspace)
    with contextlib.ExitStack() as stack:
        joint = export(stack, model, inputs, keywords or {})
        return request.capture(joint.graph_module, _forward_outputs(joint.graph_module))


def export(stack: contextlib.ExitStack, model: nn.Module, inputs: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """The joint graph of a model, with what AOTAutograd needs to compile it."""
    try:
        with recurrent_layers():
            return export_joint(stack, model, tuple(inputs), dict(keywords))
    except DataDependent as error:
        raise GraphError(
            "the model's Python depends on data, so it is no one graph; use "
            "torch.compile(model, backend='remat', options={'budget': ...}, dynamic=False)"
        ) from error


def _forward_outputs(joint: fx.GraphModule) -> int:
    """How many outputs of a joint graph are of the forward part; behind them each input has a gradient, or None."""
    inputs = joint.graph.find_nodes(op="placeholder")
    n_tangents = sum(isinstance(node.meta.get("desc"), Tangent) for node in inputs)
    return len(joint.graph.output_node().args[0]) - (len(inputs) - n_tangents if n_tangents else 0)
