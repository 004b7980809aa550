"""Training of a network by a schedule that may rematerialize."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remat_algos.arguments import check_kind, checked_arguments
from remat_algos.errors import GraphError
from remat_algos.executor.array_backend import backend as backend_of
from remat_algos.executor.measurements import Execution
from remat_algos.executor.run import execute
from remat_algos.ir.arrays import brief
from remat_algos.ir.differentiate import differentiate
from remat_algos.plan.plan import Plan
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.wording import quoted, shortened
from remat_algos.zoo.network import Network

from .layer_operators import LayerOperators
from .optimizers import UPDATES


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """The result of a training.

    Parameters
    ----------
    losses : tuple of float
        Loss of each step, before its update.
    parameters : mapping of str to array
        Parameters after the last update.
    execution : Execution
        Execution of the last step.
    mismatches : list of (int, int, int)
        (training step, step, value) of each recomputed value that differs from its first instance.
    """

    losses: tuple[float, ...]
    parameters: Mapping[str, NDArray[Any]]
    execution: Execution
    mismatches: list[tuple[int, int, int]]

    __repr__ = brief

    @checked_arguments
    def same_as(self, other: Training) -> bool:
        """True if losses and parameters are equal bit for bit.

        Examples
        --------
        >>> from remat_algos.zoo.registry import build
        >>> network = build("feed_forward", batch=2, depth=2, width=4)
        >>> train(network, steps=1).same_as(train(network, steps=1, seed=1))
        False
        """
        alike = self.losses == other.losses and self.parameters.keys() == other.parameters.keys()
        return alike and all(
            array.tobytes() == other.parameters[name].tobytes() for name, array in self.parameters.items()
        )


@checked_arguments
def train(
    network: Network,
    plan: Plan | Simulation | None = None,
    steps: int = 5,
    *,
    learning_rate: float = 0.01,
    seed: int = 0,
    values: Mapping[str, Any] | None = None,
    backend: str = "numpy",
    checking: bool = False,
) -> Training:
    """Gradient descent on one batch: each step runs the plan's schedule with real layers, then updates the parameters.

    Updates in the graph, if any, do this instead. Losses and parameters are bit-identical with and without
    rematerialization.

    Parameters
    ----------
    network : Network
        As for `LayerOperators`.
    plan : Plan or Simulation, optional
        Plan for `differentiate(network.graph, parameter_gradients=True)`, or for the graph of `build` with the same
        options and an optimizer; by default for the former, without rematerialization.
    steps : int
    learning_rate : float
        Factor of the gradient, or of the optimizer's step, subtracted from a parameter.
    seed : int
        Seed of parameters, inputs and dropout.
    values : mapping of str to array, optional
        Inputs and parameters by name, in place of random ones.
    backend : {"numpy", "cupy"}
    checking : bool
        See `execute`.

    Returns
    -------
    Training

    Raises
    ------
    GraphError
        If `steps` or `plan` is invalid, the plan is for another graph or lacks gradients of parameters, values do not
        fit, or an operation cannot be run.
    BackendError
        If the backend cannot run here, or memory runs out.

    Examples
    --------
    >>> from remat_algos.zoo.registry import build
    >>> losses = train(build("feed_forward", batch=4, depth=2, width=8, features=4), steps=3).losses
    >>> losses[0] > losses[1] > losses[2]
    True
    """
    if steps < 1:
        raise GraphError(f"steps is {quoted(steps)}; give a whole number, 1 or more")
    simulation = _simulation(network, plan)
    operators = LayerOperators(network, simulation.graph, seed=seed, values=values, learning_rate=learning_rate)
    if not operators.gradients:
        remedy = "differentiate with parameter_gradients=True"
        raise GraphError(f"the graph of {shortened(network.name)} has no gradients of parameters; {remedy}")
    losses, mismatches = [], []
    for step in range(steps):
        operators.step = step
        execution = execute(simulation.graph, simulation, operators, backend=backend, checking=checking, outputs=True)
        losses.append(operators.loss)
        mismatches += [(step, *place) for place in execution.mismatches]
        if not operators.updates:
            _descend(operators, execution, backend)
    on = backend_of(backend)
    parameters = {name: np.array(on.to_host(operators.arrays[name])) for name in network.parameter_shapes}
    return Training(tuple(losses), parameters, execution, mismatches)


def _simulation(network: Network, plan: Plan | Simulation | None) -> Simulation:
    if plan is not None:
        check_kind(plan, Plan, "plan", Simulation)
        return plan.simulation if isinstance(plan, Plan) else plan
    graph = differentiate(network.graph, parameter_gradients=True)
    return simulate(graph, np.flatnonzero(graph.needed))


def _descend(operators: LayerOperators, execution: Execution, backend: str) -> None:
    """One step of gradient descent, in place."""
    assert execution.outputs is not None
    on = backend_of(backend)
    with on.running(), on.uncounted():
        for name, value in operators.gradients.items():
            parameter = operators.arrays[name]
            gradient = on.xp.asarray(execution.outputs[value].view(parameter.dtype)).reshape(parameter.shape)
            wide = np.float32 if parameter.dtype == np.float16 else parameter.dtype
            arrays = parameter.astype(wide), gradient.astype(wide)
            (parameter[...],) = UPDATES["sgd"](on.xp, operators.learning_rate, 0, *arrays)
    on.synchronize()
