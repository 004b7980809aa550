"""Reports on the plan of a graph, and on the submodules of a model."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from remat_algos.errors import GraphError
from remat_algos.interop.torch.device_bytes import gradient_bytes
from remat_algos.interop.torch.references import References
from remat_algos.interop.torch.storages import allocations
from remat_algos.plan.plan import Plan
from remat_algos.result import Result
from remat_algos.schedule.simulation import Simulation
from remat_algos.text.amounts import percent
from remat_algos.wording import LONGEST_PATH, counted, exact_bytes, format_bytes, shortened


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """Figures for one submodule, named as in `named_modules`; the operators of the model itself have the name "".

    `saved` is the number of bytes that it saves for the backward part under the plan, and `freed` is the number of
    bytes that it saves in one pass, minus `saved`. `recomputed` is the number of bytes of recomputed values, and
    `compute` is the cost of their recomputation in the unit of the graph.
    """

    name: str
    saved: int
    freed: int
    recomputed: int
    compute: int


@dataclass(frozen=True, slots=True)
class ModuleTable(Result):
    """Table of submodules, ordered by recomputation cost per freed byte; overheads are in percent of one pass."""

    modules: tuple[ModuleRow, ...]
    one_pass: int

    COLUMNS = ("module", "freed", "recomputed", "overhead", "saved")

    @classmethod
    def of(cls, simulation: Simulation, one_pass: Simulation, depth: int | None = None) -> "ModuleTable":
        """Compare a plan with one pass; figures of submodules below `depth` are added to the submodule at `depth`."""
        graph = simulation.graph
        nodes = np.where(graph.forward | (graph.owner < 0), np.arange(graph.n_nodes), graph.owner)
        names = [".".join(graph.labels[v].split(".")[:-1][:depth]) for v in nodes.tolist()]
        saved, before, again, compute = (defaultdict[str, int](int) for _ in range(4))
        for run, sums in ((simulation, saved), (one_pass, before)):
            for x in {x for x, _ in run.saved}:
                sums[names[graph.producer[x]]] += int(graph.memory[x])
        for v in range(graph.n_nodes):
            if (more := int(simulation.runs[v]) - 1) > 0:
                again[names[v]] += more * int(graph.node_memory[v])
                compute[names[v]] += more * int(graph.compute[v])
        rows = [
            ModuleRow(name, saved[name], max(before[name] - saved[name], 0), again[name], compute[name])
            for name in dict.fromkeys(names)
            if saved[name] or before[name] or again[name]
        ]
        rows.sort(key=lambda row: (row.compute / row.freed if row.freed else float("inf"), -row.freed))
        return cls(tuple(rows), graph.needed_compute)

    @property
    def recompute(self) -> list[str]:
        """Names of submodules with recomputation, for example for a framework's list of checkpointed modules."""
        return [row.name for row in self.modules if row.recomputed and row.name]

    @property
    def keep(self) -> list[str]:
        """Names of submodules that save values and recompute nothing."""
        return [row.name for row in self.modules if row.saved and not row.recomputed and row.name]

    def record(self) -> dict[str, Any]:
        return {"one_pass": self.one_pass, "modules": [asdict(each) for each in self.modules]}

    def rows(self) -> Iterator[tuple[str, ...]]:
        for each in self.modules:
            sizes = format_bytes(each.freed), format_bytes(each.recomputed)
            overhead = percent(each.compute, self.one_pass)
            yield (each.name or "(the model)", *sizes, overhead, format_bytes(each.saved))


@dataclass(frozen=True, slots=True)
class GraphReport(Result):
    """Report on the plan of one graph.

    references : schedules to compare the plan with
    replayed : number of recomputations of random operators
    capturing, planning, lowering : time in seconds
    place : number of the Python frame, and number of the part if DDP splits the frame. The graphs of one call to the
        model have increasing pairs; graphs with equal pairs are for different shapes
    saved : bytes that are live from the forward to the backward part, including outputs
    beside : bytes of optimizer states and of accumulated gradients, if the budget counts them
    whole : upper limit in bytes on the joint peak of the graphs planned up to now, without residents. It includes
        DDP's gradient buckets, which DDP creates again in the second step, and FSDP2's gathered parameters
    graph_breaks : parts of the model that torch.compile has not captured up to now, so they run outside every plan.
        Each is a line or a function, with PyTorch's reason
    """

    plan: Plan
    references: References
    replayed: int
    capturing: float
    planning: float
    lowering: float
    place: tuple[int, int]
    saved: int
    beside: int
    whole: int
    graph_breaks: tuple[str, ...]

    ENTRIES = "plan place replayed saved beside whole device_memory waiting graph_breaks capturing planning lowering"

    @property
    def device_memory(self) -> int:
        """Bytes of the peak, the residents and `beside` together."""
        return self.plan.peak_memory + self.plan.graph.resident_memory + self.beside

    @property
    def waiting(self) -> int:
        """Bytes of gradients that wait, at the peak, for the end of backward, or 0 if at most a tenth of the peak."""
        waiting = waiting_gradients(self.plan.simulation)
        return waiting if waiting * 10 > self.plan.peak_memory else 0

    def modules(self, depth: int | None = None) -> ModuleTable:
        """Return the table of submodules; figures of those below `depth` are added to the submodule at `depth`."""
        return ModuleTable.of(self.plan.simulation, self.references.one_pass, depth)

    def plot(self, step: Callable[[], Any] | None = None, known: Iterable[torch.Tensor] = ()) -> Any:
        """Draw the live memory of the plan, and if `step` is given, the allocations of this training step on the CPU.

        `step` is called once under the profiler of PyTorch; `known` lists CPU tensors that exist before this call.
        """
        from matplotlib import pyplot

        from remat_algos.plot.axes import byte_axis, ink, title
        from remat_algos.plot.pictures.memory import memory

        columns = 1 if step is None else 2
        figure, axes = pyplot.subplots(1, columns, squeeze=False, figsize=(12, 4.8), layout="constrained")
        memory(self.plan, ax=axes[0, 0])
        if step is not None:
            if any(tensor.device.type != "cpu" for tensor in known):
                raise GraphError("allocations can be measured only on the CPU; use measure_peak for other devices")
            live = np.cumsum([0, *allocations(step)[0]])
            measured = axes[0, 1]
            measured.stairs(live[:-1], np.arange(live.size), color=ink(), linewidth=0.8)
            measured.set_xlabel("allocation or release of the step")
            top = max(float(live.max()), axes[0, 0].get_ylim()[1])
            for each in axes[0]:
                each.set_ylim(0, top)
            byte_axis(measured.yaxis, int(top), "bytes allocated by the step")
            title(measured, [f"measured peak {format_bytes(int(live.max()))}"])
        return figure

    def summary(self) -> str:
        """Summarize the plan in one line: peak, limit, waiting gradients, overhead and graph breaks."""
        plan, graph, stores = self.plan, self.plan.graph, self.plan.simulation.stores
        limit = "" if plan.limit is None else f", limit {format_bytes(plan.limit)}"
        copies = f"; {counted(stores.size, 'value')} offloaded" if stores.size else ""
        outside = f"; {counted(len(self.graph_breaks), 'graph break')} outside the plan" if self.graph_breaks else ""
        overhead = "overhead" if plan.link is None else "overhead in time"
        waiting = f" (including {format_bytes(self.waiting)} of waiting gradients)" if self.waiting else ""
        return (
            f"graph of {counted(graph.n_nodes, 'node')}: peak {format_bytes(plan.peak_memory)}{waiting}{limit}, "
            f"{overhead} {percent(plan.overhead_in_time, graph.needed_compute)}{copies}; all graphs within "
            f"{format_bytes(self.whole)}{outside}"
        )

    def rows(self) -> list[tuple[str, str]]:
        plan, graph, simulation = self.plan, self.plan.graph, self.plan.simulation
        runs = counted(simulation.extra_runs, "extra run")
        limit = "" if plan.limit is None else f", limit {format_bytes(plan.limit)}"
        return [
            ("graph", repr(graph)),
            ("plan", f"{plan.method}; {runs}, {self.replayed:,} of them random draws"),
            ("peak", f"{exact_bytes(plan.peak_memory)}{limit}"),
            ("overhead", f"{percent(simulation.overhead, graph.needed_compute)} of one pass"),
            *(() if plan.timeline is None else plan.timeline.rows()),
            *self.references.rows(),
            ("saved", f"{format_bytes(self.saved)} from forward to backward"),
            (
                "device",
                f"{format_bytes(self.device_memory)}: parameters, buffers and inputs "
                f"{format_bytes(graph.resident_memory)}, optimizer {format_bytes(self.beside)}, peak "
                f"{format_bytes(plan.peak_memory)}, of which {format_bytes(gradient_bytes(graph))} are gradients",
            ),
            ("all graphs", f"at most {format_bytes(self.whole)}, without parts that are not captured"),
            *(("graph break", f"not planned: {shortened(line, LONGEST_PATH)}") for line in self.graph_breaks),
            ("seconds", f"capture {self.capturing:.2f}, planning {self.planning:.2f}, lowering {self.lowering:.2f}"),
        ]


def saved_bytes(simulation: Simulation) -> int:
    """Return the bytes that are live from the forward to the backward part."""
    return sum(int(simulation.graph.memory[x]) for x, _ in simulation.saved)


def waiting_gradients(simulation: Simulation) -> int:
    """Return the bytes by which the peak would decrease if each backward result were freed after its last read."""
    graph, order = simulation.graph, simulation.schedule.order.tolist()
    gradients = graph.output & ~graph.forward[graph.producer] & (graph.memory > 0)
    last: dict[int, int] = {}
    for step, v in enumerate(order):
        last.update((x, step) for x in (*graph.values(v), *graph.reads(v)) if gradients[x])
    left = np.zeros(len(order) + 1, np.int64)
    np.add.at(left, np.fromiter(last.values(), np.int64, len(last)) + 1, graph.memory[list(last)])
    trace = simulation.memory_trace - left.cumsum()[:-1]
    return simulation.peak_memory - int(trace.max(initial=0))
