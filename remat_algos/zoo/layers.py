"""`Layers`: all builder methods of networks; losses and mixtures of experts are made of the others."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from remat_algos.zoo.builder import ExtraValue
from remat_algos.zoo.convolutions import Convolutions
from remat_algos.zoo.network import Tensor
from remat_algos.zoo.products import Products

Expert = Callable[[Tensor, str], Tensor]


class Layers(Convolutions, Products):
    """Operations of a network: each method adds one or several and returns a `Tensor`.

    docs/layers.md has a table for each. `name` is that of the operation, within the current scopes and with a number if
    it is in use. Sizes, axes and shapes that do not fit raise a GraphError.

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
        """The mean of -log softmax at the targets: one number; its gradient reads the probabilities."""
        rows = {axis: prod(x.shape) // x.shape[axis] for axis in (-1, 1) if -len(x.shape) <= axis < len(x.shape)}
        if prod(targets.shape) not in rows.values():
            raise self.fault(
                "{name} has scores of shape {scores!w} for targets of {targets!w}; give a target for each row of "
                "scores",
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
        """The mean of the squared differences: one number; its gradient reads x."""
        self._same_shape(name, [x, target])
        if self.settings.primitive:
            with self.scope(name):
                square = self.pointwise("Square", [self.pointwise("Subtract", [x, target])])
            return self._mean(square, name)
        return self.run("MeanSquare", [x, target], (), name=self.named(name), elements=prod(x.shape), dtype="float32")

    def ctc_loss(self, x: Tensor, targets: Tensor, name: str = "loss") -> Tensor:
        """-log probability of a transcript, over all alignments; its gradient reads x and the forward probabilities."""
        if (len(x.shape), len(targets.shape)) != (3, 2):
            raise self.fault(
                "{name} has scores of shape {scores!w} for targets of {targets!w}; give (steps, batch, classes) and "
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
        """Rows of x transformed by their experts, and the load balancing loss."""
        if chosen > experts:
            raise self.fault(
                "each word takes {chosen} of {experts} experts; give chosen={experts} or less",
                chosen=chosen,
                experts=experts,
            )
        rows = self.view(x, prod(x.shape[:-1]), x.shape[-1])
        with self.scope("moe"):
            probabilities = self.softmax(self.linear(rows, experts, bias=False, name="router"))
            places = self._places(probabilities, chosen)
            shares = self._shares(probabilities, places)
            sent = self._dispatched(rows, places, experts, capacity)
            made = [expert(part, f"expert{k}") for k, part in enumerate(sent)]
            gathered, full = (*places.shape, x.shape[-1]), self.named("taken")
            taken = self.run("Slice", [*made, places], gathered, name=full, saves=[places])
            y = self.matmul(self.view(shares, rows.shape[0], 1, chosen), taken, name="combined")
            return self.view(y, *x.shape), self._balance(probabilities, places)

    def _places(self, probabilities: Tensor, chosen: int) -> Tensor:
        """The place and expert of each row: `once`, since a second run might choose others."""
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
        """The probabilities of the chosen experts; if several, normalized to the sum 1."""
        shares = self.run("Slice", [probabilities, places], places.shape, name=self.named("shares"), saves=[places])
        if places.shape[1] == 1:
            return shares
        total = self.run("Sum", [shares], (places.shape[0], 1), name=self.named("total"), elements=prod(places.shape))
        return self.pointwise("Divide", [shares, total], name="weights")

    def _dispatched(self, rows: Tensor, places: Tensor, experts: int, capacity: int) -> list[Tensor]:
        """The rows that go to each expert, copied by one node."""
        room = min(rows.shape[0], -(-prod(places.shape) * capacity // (100 * experts)))
        shape = (room, rows.shape[1])
        extra = [ExtraValue(str(k), shape, rows.dtype, gradient=True) for k in range(1, experts)]
        return self.run_all(
            "Slice", [rows, places], shape, name=self.named("dispatch"), extra=extra, saves=[places], dtype=rows.dtype
        )

    def _balance(self, probabilities: Tensor, places: Tensor) -> Tensor:
        """Share of the rows times mean probability, summed over the experts and scaled (fedus2022, equation 4)."""
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
