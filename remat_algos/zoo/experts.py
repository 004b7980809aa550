"""Mixtures of experts: rows choose experts, are sent to them, and gather their results."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from remat_algos.errors import GraphError
from remat_algos.text.wording import shortened
from remat_algos.zoo.builder import ExtraValue
from remat_algos.zoo.network import Tensor
from remat_algos.zoo.products import Products

Expert = Callable[[Tensor, str], Tensor]


class Experts(Products):
    """Mixtures of experts, of which each row uses a few."""

    def routed(self, x: Tensor, expert: Expert, experts: int, chosen: int, capacity: int) -> tuple[Tensor, Tensor]:
        """Rows of x transformed by their experts, and the load balancing loss.

        Raises
        ------
        GraphError
            If more experts are chosen than there are.
        """
        if chosen > experts:
            fault = f"each word takes {shortened(chosen)} of {shortened(experts)} experts"
            raise GraphError(f"{self.model}: {fault}; give chosen={shortened(experts)} or less")
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
