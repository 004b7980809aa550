"""Losses: cross entropy, squared differences, connectionist temporal classification."""

from __future__ import annotations

from math import prod

from remat_algos.errors import GraphError
from remat_algos.text.wording import shortened
from remat_algos.zoo.builder import ExtraValue
from remat_algos.zoo.network import Tensor
from remat_algos.zoo.reductions import Reductions


class Losses(Reductions):
    """Layers that compute one number from scores and targets."""

    def softmax_cross_entropy(self, x: Tensor, targets: Tensor, name: str = "loss") -> Tensor:
        """The mean of -log softmax at the targets: one number; its gradient reads the probabilities.

        Raises
        ------
        GraphError
            Unless there is one target per row of scores.
        """
        rows = {axis: prod(x.shape) // x.shape[axis] for axis in (-1, 1) if -len(x.shape) <= axis < len(x.shape)}
        if prod(targets.shape) not in rows.values():
            fault = f"{shortened(name)} has scores of shape {x.shape} for targets of {targets.shape}"
            raise GraphError(f"{self.model}: {fault}; give a target for each row of scores")
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
        """The mean of the squared differences: one number; its gradient reads x.

        Raises
        ------
        GraphError
            If the shapes differ.
        """
        self._same_shape(name, [x, target])
        if self.settings.primitive:
            with self.scope(name):
                square = self.pointwise("Square", [self.pointwise("Subtract", [x, target])])
            return self._mean(square, name)
        return self.run("MeanSquare", [x, target], (), name=self.named(name), elements=prod(x.shape), dtype="float32")

    def ctc_loss(self, x: Tensor, targets: Tensor, name: str = "loss") -> Tensor:
        """-log probability of a transcript, over all alignments; its gradient reads x and the forward probabilities.

        Raises
        ------
        GraphError
            Unless the scores have three axes and the targets two.
        """
        if (len(x.shape), len(targets.shape)) != (3, 2):
            fault = f"{shortened(name)} has scores of shape {x.shape} for targets of {targets.shape}"
            raise GraphError(f"{self.model}: {fault}; give (steps, batch, classes) and (batch, length)")
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
