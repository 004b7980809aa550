"""The networks of kusumoto2019's table 1: the paper's row for each, and our plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from docs.reproductions.kusumoto2019.canonical_plans import (
    CanonicalPlan,
    PaperNetwork,
    Planner,
    as_frameworks_save,
    by_liveness,
    chens,
    peak_of_a_tape,
)
from remat_algos.context import Progress
from remat_algos.forks import cached_property
from remat_algos.ir.differentiate import differentiate
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate

VANILLA, CHEN, LIVENESS = "Vanilla", "Chen's", "liveness_dp"
TIME, MEMORY_CENTRIC, EXACT_CENTRIC = "ApproxDP + TC", "ApproxDP + MC", "ExactDP + MC"
PLANNED = {  # the columns of table 1
    MEMORY_CENTRIC: ("pruned", "memory"),
    TIME: ("pruned", "time"),
    EXACT_CENTRIC: ("exact", "memory"),
    "ExactDP + TC": ("exact", "time"),
}
METHODS = (*PLANNED, CHEN, VANILLA)
OPTIONS = {  # options for the networks that the authors published
    "unet": {"wide_last": True},
    "resnet50": {"stride_first": True, "biased_stem": True},
    "resnet152": {"stride_first": True},
    "densenet161": {"stepwise": True},
}

# Name, batch, nodes; GB and percent less than vanilla under each method; GB of vanilla
_TABLE = """
PSPNet        2 385  2.7/71 3.1/67 2.8/70 3.2/66 4.0/58  9.4
U-Net         8  60  5.0/45 6.7/26 4.7/48 5.3/42 7.4/18  9.1
ResNet50     96 176  3.4/62 4.4/51 3.4/62 4.3/51 3.7/59  8.9
ResNet152    48 516  2.3/75 2.5/73 2.3/75 2.5/73 2.4/74  9.2
VGG19        64  46  4.5/36 5.5/22 4.5/36 5.5/22 4.7/34  7.0
DenseNet161  32 568  1.6/81 1.9/78 1.7/80 1.8/78 1.8/79  8.5
GoogLeNet   256 134  5.2/39 5.5/36 5.2/39 5.9/31 6.5/24  8.5
"""


@dataclass(frozen=True, slots=True)
class Reported:
    """A row of table 1.

    Parameters
    ----------
    network : PaperNetwork
    n_nodes : int
    totals : mapping of str to int
        Bytes by column.
    reductions : mapping of str to float
        Reduction against vanilla by column, as a share.
    """

    network: PaperNetwork
    n_nodes: int
    totals: Mapping[str, int]
    reductions: Mapping[str, float]

    @classmethod
    def of_row(cls, row: str) -> Reported:
        """A row from a line of the table."""
        label, batch, n_nodes, *cells = row.split()
        model = label.lower().replace("-", "")
        gigabytes, percents = zip(*(cell.split("/") for cell in cells[:-1]), strict=True)
        totals = [round(float(amount) * 1e9) for amount in (*gigabytes, cells[-1])]
        return cls(
            PaperNetwork(label, model, int(batch), OPTIONS.get(model, {})),
            int(n_nodes),
            dict(zip(METHODS, totals, strict=True)),
            dict(zip(METHODS, [*(int(share) / 100 for share in percents), 0.0], strict=True)),
        )


REPORTED = {row.network.label: row for row in map(Reported.of_row, _TABLE.strip().splitlines())}


class Measured:
    """A network and its plans.

    Parameters
    ----------
    network : PaperNetwork
    progress : callable, optional
    paper : Reported, optional
        The row of table 1 for it.

    Examples
    --------
    >>> unet = Measured.of_table_1("U-Net")
    >>> unet.totals[VANILLA] > unet.totals[MEMORY_CENTRIC] > unet.totals[LIVENESS]
    True
    """

    def __init__(self, network: PaperNetwork, progress: Progress | None = None, paper: Reported | None = None) -> None:
        self.label = network.label
        self.paper = paper
        self.network = network
        self.progress = _naming(progress, network.label)
        self.graph = self.network.training()
        self.planner = Planner(self.graph, self.progress)

    @classmethod
    def of_table_1(cls, label: str, progress: Progress | None = None) -> Measured:
        """A network of the paper by its label there."""
        return cls(REPORTED[label].network, progress, REPORTED[label])

    @cached_property
    def plans(self) -> dict[str, CanonicalPlan]:
        """Plans by column of table 1, except vanilla."""
        plans = {name: self.planner.plan(*which) for name, which in PLANNED.items()}
        return {**plans, CHEN: chens(self.graph)}

    @cached_property
    def lowered(self) -> list[Schedule]:
        """The schedules of `liveness_dp`, the lowest peak first."""
        return by_liveness(self.graph, self.progress)

    @cached_property
    def totals(self) -> dict[str, int]:
        """Bytes by column of table 1, and of `liveness_dp`."""
        totals = {name: self.beside(plan.peak) for name, plan in self.plans.items()}
        lowest = simulate(self.graph, self.lowered[0]).peak_memory
        return {**totals, VANILLA: self.taped(), LIVENESS: self.beside(lowest)}

    @property
    def one_pass(self) -> int:
        """T(V), the compute of the forward part."""
        return int(self.graph.compute[self.graph.forward].sum())

    @property
    def freed(self) -> int:
        """Bytes of one pass that frees values after their last read."""
        return self.beside(baseline(self.graph).peak_memory)

    def taped(self, *, published: bool = False, parameter_gradients: bool = True) -> int:
        """Bytes of one pass that keeps what gradients read, as in frameworks or as in the published graphs."""
        forward = self.network.forward()
        graph = forward if published else as_frameworks_save(forward)
        return self.beside(peak_of_a_tape(differentiate(graph, parameter_gradients=parameter_gradients)))

    def beside(self, peak: int) -> int:
        """A peak plus the resident bytes."""
        return peak + self.graph.resident_memory

    @cached_property
    def without_liveness(self) -> dict[str, int]:
        """Bytes by column of table 1, except vanilla, with all gradients of parameters."""
        graph, whole = differentiate(self.network.forward()), self.graph
        gradients = int(whole.memory[whole.output].sum())
        return {name: self.beside(plan.peak_without_liveness(graph) + gradients) for name, plan in self.plans.items()}

    def reduction(self, total: int) -> float:
        """Reduction against vanilla, as a share."""
        return round(1 - total / self.totals[VANILLA], 4)


def _naming(progress: Progress | None, label: str) -> Progress | None:
    return progress and (lambda done, total, what: progress(done, total, f"{label}: {what}"))
