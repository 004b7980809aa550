"""`Layers`: all builder methods of networks, including losses and mixtures of experts."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from remat_algos.zoo.builder import ExtraValue
from remat_algos.zoo.convolutions import Convolutions
from remat_algos.zoo.network import Tensor
from remat_algos.zoo.products import Products

Expert = Callable[[Tensor, str], Tensor]


class Layers(Convolutions, Products):
    """All operations of networks: each method adds one or several operations and returns a `Tensor`.

    docs/layers.md describes each method. The name of an operation is the current scopes and `name`, with a number if it
    is already used. Sizes, axes and shapes that do not match raise GraphError.

    Examples
    --------
    A network of four operations: x -> conv -> norm -> relu -> loss.

    >>> from remat_algos.zoo.settings import Settings
    >>> net = Layers("small", Settings(workspace=0))
    >>> x = net.input("x", (8, 3, 32, 32))
    >>> y = net.relu(net.batch_norm(net.convolution(x, 16, 3, padding=1, bias=False)))
    >>> loss = net.mean_square(y, net.input("target", y.shape))
    >>> small = net.network()
    >>> small.n_parameters, small.macs, small.graph.node_names()
    (464, 3538944, ['conv', 'norm', 'relu', 'loss'])
    """

    # ---------------------------------------------------------------- losses

    def softmax_cross_entropy(self, x: Tensor, targets: Tensor, name: str = "loss") -> Tensor:
        """Cross-entropy of softmax(x) and the targets, averaged; its gradient reads the probabilities."""
        rows = {axis: prod(x.shape) // x.shape[axis] for axis in (-1, 1) if -len(x.shape) <= axis < len(x.shape)}
        if prod(targets.shape) not in rows.values():
            raise self.fault(
                "{name} has scores of shape {scores!w} but targets of {targets!w}; give one target per row of scores",
                name=name,
                scores=x.shape,
                targets=targets.shape,
            )
        if self.settings.primitive:
            axis = -1 if prod(targets.shape) == rows[-1] else 1
            with self.scope(name):
                below = self._below_largest(x, axis)
                total = self._reduced("Sum", self.pointwise("Exp", [below]), axis, name="sum")
                log = self.pointwise("Subtract", [below, self.pointwise("Log", [total])], name="log_softmax")
                picked = self.run("Slice", [log, targets], targets.shape, name=self.named("picked"))
            return self._mean(picked, name)
        return self.run(
            "SoftmaxCrossEntropy",
            [x, targets],
            (),
            name=self.named(name),
            extra=[ExtraValue("probabilities", x.shape, x.dtype)],
            elements=prod(x.shape),
            dtype="float32",
        )

    def mean_square(self, x: Tensor, target: Tensor, name: str = "loss") -> Tensor:
        """Mean squared error; its gradient reads x."""
        self._same_shape(name, [x, target])
        if self.settings.primitive:
            with self.scope(name):
                square = self.pointwise("Square", [self.pointwise("Subtract", [x, target])])
            return self._mean(square, name)
        return self.run("MeanSquare", [x, target], (), name=self.named(name), elements=prod(x.shape), dtype="float32")

    def ctc_loss(self, x: Tensor, targets: Tensor, name: str = "loss") -> Tensor:
        """CTC loss, -log of a transcript's probability; its gradient reads x and the forward probabilities."""
        if (len(x.shape), len(targets.shape)) != (3, 2):
            raise self.fault(
                "{name} has scores of shape {scores!w} and targets of {targets!w}; give (steps, batch, classes) and "
                "(batch, length)",
                name=name,
                scores=x.shape,
                targets=targets.shape,
            )
        rows = (x.shape[0], x.shape[1], 2 * targets.shape[1] + 1)
        return self.run(
            "CTCLoss",
            [x, targets],
            (),
            name=self.named(name),
            extra=[ExtraValue("alpha", rows, "float32")],
            flops=5 * prod(x.shape) + 6 * prod(rows),
            dtype="float32",
        )

    # ---------------------------------------------------------------- mixtures of experts

    def routed(self, x: Tensor, expert: Expert, experts: int, chosen: int, capacity: int) -> tuple[Tensor, Tensor]:
        """Transform each row of x by its experts; return the result and the load balancing loss."""
        if chosen > experts:
            raise self.fault(
                "chosen={chosen} is more than the {experts} experts; give {experts} or less",
                chosen=chosen,
                experts=experts,
            )
        rows = self.view(x, prod(x.shape[:-1]), x.shape[-1])
        with self.scope("moe"):
            probabilities = self.softmax(self.linear(rows, experts, bias=False, name="router"))
            places = self._places(probabilities, chosen)
            shares = self._shares(probabilities, places)
            sent = self._dispatched(rows, places, experts, capacity)
            results = [expert(part, f"expert{k}") for k, part in enumerate(sent)]
            gathered, full = (*places.shape, x.shape[-1]), self.named("taken")
            taken = self.run("Slice", [*results, places], gathered, name=full, saves=[places])
            y = self.matmul(self.view(shares, rows.shape[0], 1, chosen), taken, name="combined")
            return self.view(y, *x.shape), self._balance(probabilities, places)

    def _places(self, probabilities: Tensor, chosen: int) -> Tensor:
        return self.run(
            "Route",
            [probabilities],
            (probabilities.shape[0], chosen),
            name=self.named("route"),
            elements=chosen * prod(probabilities.shape),
            dtype="int32",
            gradient=False,
            once=True,
        )

    def _shares(self, probabilities: Tensor, places: Tensor) -> Tensor:
        shares = self.run("Slice", [probabilities, places], places.shape, name=self.named("shares"), saves=[places])
        if places.shape[1] == 1:
            return shares
        total = self.run("Sum", [shares], (places.shape[0], 1), name=self.named("total"), elements=prod(places.shape))
        return self.pointwise("Divide", [shares, total], name="weights")

    def _dispatched(self, rows: Tensor, places: Tensor, experts: int, capacity: int) -> list[Tensor]:
        room = min(rows.shape[0], -(-prod(places.shape) * capacity // (100 * experts)))
        shape = (room, rows.shape[1])
        extra = [ExtraValue(str(k), shape, rows.dtype, gradient=True) for k in range(1, experts)]
        return self.run_all(
            "Slice", [rows, places], shape, name=self.named("dispatch"), extra=extra, saves=[places], dtype=rows.dtype
        )

    def _balance(self, probabilities: Tensor, places: Tensor) -> Tensor:
        """Add the load balancing loss: sum over experts of load times mean probability (fedus2022, equation 4)."""
        experts = probabilities.shape[1:]
        with self.scope("balance"):
            load = self.run(
                "Sum", [places], experts, name=self.named("load"), elements=prod(places.shape), gradient=False
            )
            mean = self.run(
                "Mean", [probabilities], experts, name=self.named("mean"), elements=prod(probabilities.shape)
            )
            product = self.multiply(mean, load)
            return self.scale(self.run("Sum", [product], (), name=self.named("sum"), elements=experts[0]))
