"""The decisions of echo, region by region: bytes released and allocated, compute, and the reason."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.ir.arrays import Bool, Int32, brief, check_place
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import RECOMPUTE
from remat_algos.kernels.regions import connected_components
from remat_algos.solvers.echo_choice import Choice, FeatureMaps
from remat_algos.text.layout import tabulated
from remat_algos.wording import counted, format_bytes, shortened

RECOMPUTED, KEPT = "recompute", "keep"
COLUMNS = ("region", "nodes", "recomputed", "released", "allocated", "overhead", "decision")


@dataclass(frozen=True, slots=True)
class Region:
    """Connected cheap nodes between heavy ones, and echo's decision about them.

    If all of them are kept, the figures are for recomputing everything that gradients need.

    Parameters
    ----------
    nodes : tuple of int
        Nodes that echo may recompute, ascending.
    rerun : int
        Number of them that are recomputed, or would be.
    feature_maps : int
        Bytes of the values of the region, and of the values that it reads, that gradients read: its stash if nothing
        is recomputed.
    released : int
        Bytes of the feature maps that are no longer stashed.
    allocated : int
        Bytes that are stashed instead, because recomputations read them.
    overhead : int
        Compute of the recomputations.
    decision : {"recompute", "keep"}
    reason : str
    """

    nodes: tuple[int, ...]
    rerun: int
    feature_maps: int
    released: int
    allocated: int
    overhead: int
    decision: str
    reason: str

    __repr__ = brief

    @checked_arguments
    def name(self, graph: ComputationGraph) -> str:
        """Names of its first and its last node; GraphError if the graph lacks them."""
        self._check(graph)
        first, last = graph.labels[self.nodes[0]], graph.labels[self.nodes[-1]]
        return first if len(self.nodes) == 1 else f"{first} .. {last}"

    @checked_arguments
    def record(self, graph: ComputationGraph) -> dict[str, Any]:
        """Return the JSON record, with the first and the last node in place of all."""
        self._check(graph)
        ends = {"first": graph.labels[self.nodes[0]], "last": graph.labels[self.nodes[-1]], "nodes": len(self.nodes)}
        return {**ends, **{name: value for name, value in asdict(self).items() if name != "nodes"}}

    def _check(self, graph: ComputationGraph) -> None:
        for node in (min(self.nodes), max(self.nodes)):
            check_place(node, graph.n_nodes, "node")


@checked_arguments
def find_echo_regions(
    graph: ComputationGraph,
    mode: str = "exact",
    only: str | Sequence[str] | None = None,
    also: str | Sequence[str] | None = None,
) -> list[Region]:
    """Return the regions of a graph and the decisions of `echo`, those that release the most bytes first.

    Without the heavy nodes the graph falls into connected parts, the regions: cheap nodes and the values that they
    compute or read. No value is in two regions, so their bytes sum to those of the whole graph.

    Parameters
    ----------
    graph : ComputationGraph
        With a backward part.
    mode, only, also
        As in `echo`.

    Returns
    -------
    list of Region

    References
    ----------
    echo2020, section V, where the regions are called partitioned subgraphs.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    >>> net = differentiate(ComputationGraph.from_edges(edges, [4, 8, 8, 4, 8, 8], [9, 1, 1, 9, 1, 1]))
    >>> for region in find_echo_regions(net):
    ...     print(region.name(net), region.released, region.allocated, region.overhead, region.reason)
    1 .. 2 16 0 2 its values are recomputed from 4 B
    4 .. 5 16 0 2 its values are recomputed from 4 B
    """
    choice = Choice.of(graph, mode, only, also)
    maps = choice.maps
    forced = maps.recomputable & (graph.mark == RECOMPUTE) if graph.mark is not None else np.zeros(graph.n_nodes, bool)
    of_node, of_value = _parts(maps)
    chosen = _Totals(of_node, of_value, choice)
    everything = _Totals(of_node, of_value, Choice.recomputing(maps, maps.recomputable))
    regions = []
    for part, nodes in _by_part(of_node, maps.recomputable):
        kept = not chosen.n_recomputed[part]
        figures = (everything if kept else chosen).figures(part)
        reason = _reason(figures, kept, bool(forced[list(nodes)].any()), mode)
        regions.append(Region(nodes, *figures, KEPT if kept else RECOMPUTED, reason))
    return sorted(
        regions, key=lambda region: (region.decision == KEPT, region.allocated - region.released, region.nodes)
    )


@dataclass(frozen=True, slots=True, eq=False)
class RegionReport:
    """The regions of a graph, as `explain` prints them for plans of `echo`."""

    graph: ComputationGraph
    regions: tuple[Region, ...]

    @classmethod
    def of(cls, graph: ComputationGraph, **options: Any) -> "RegionReport":
        """Return the regions under options of `echo`."""
        return cls(graph, tuple(find_echo_regions(graph, **options)))

    def record(self, limit: int | None = None) -> dict[str, Any]:
        """Return the JSON record, with at most `limit` regions."""
        records = [region.record(self.graph) for region in self.regions[:limit]]
        return {"regions": records, "regions_left_out": len(self.regions) - len(records)}

    def text(self, limit: int | None = None) -> str:
        """Return a table of at most `limit` regions, the reasons, and the sums over all."""
        graph, shown = self.graph, self.regions[:limit]
        names = [shortened(region.name(graph)) for region in shown]
        lines = tabulated(COLUMNS, map(self._cells, names, shown)) if shown else []
        for reason in dict.fromkeys(region.reason for region in shown if region.reason):
            of_reason = (name for name, region in zip(names, shown, strict=True) if region.reason == reason)
            lines.append(f"{', '.join(of_reason)}: {reason}")
        recomputed = [region for region in self.regions if region.decision == RECOMPUTED]
        saved = sum(region.released - region.allocated for region in recomputed)
        feature_maps = sum(region.feature_maps for region in self.regions)
        share = 100 * sum(region.overhead for region in recomputed) / max(1, graph.needed_compute)
        lines.append(
            f"{counted(len(self.regions), 'region')}, {len(recomputed):,} recomputed: {format_bytes(saved)} of "
            f"{format_bytes(feature_maps)} of feature maps saved, for {share:.2f} % of one pass"
        )
        return "\n".join(lines)

    def _cells(self, name: str, region: Region) -> tuple[str, ...]:
        """Return the row of a region under `COLUMNS`."""
        amounts = format_bytes(region.released), format_bytes(region.allocated)
        overhead = self.graph.labels.compute(region.overhead)
        return name, f"{len(region.nodes):,}", f"{region.rerun:,}", *amounts, overhead, region.decision


def _parts(maps: FeatureMaps) -> tuple[Int32, Int32]:
    """int32[n] and int32[n_values]: the connected part that each node and each value is in."""
    graph, n = maps.graph, maps.graph.n_nodes
    computed = np.flatnonzero(maps.recomputable[graph.producer] & ~graph.output)
    through = maps.recomputable[maps.reader]
    tail = np.concatenate([graph.producer[computed], n + maps.value[through]]).astype(np.int32)
    head = np.concatenate([n + computed, maps.reader[through]]).astype(np.int32)
    part = connected_components(n + graph.n_values, tail, head)
    return part[:n], part[n:]


def _by_part(of_node: Int32, cheap: Bool) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield each part that has cheap nodes, with these nodes."""
    nodes = np.flatnonzero(cheap)
    nodes = nodes[np.argsort(of_node[nodes], kind="stable")]
    parts, starts = np.unique(of_node[nodes], return_index=True)
    for part, begin, end in zip(parts.tolist(), starts, [*starts, nodes.size][1:], strict=True):
        yield part, tuple(nodes[begin:end].tolist())


class _Totals:
    """Figures of a choice, summed over each region."""

    def __init__(self, of_node: Int32, of_value: Int32, choice: Choice) -> None:
        graph, before, stashed = choice.maps.graph, choice.maps.read_back, choice.stashed
        size = graph.n_nodes + graph.n_values
        self.n_recomputed = np.bincount(of_node[choice.recomputed], minlength=size)

        def over_regions(group: Int32, amount: np.ndarray, which: Bool) -> np.ndarray:
            total = np.zeros(size, np.int64)
            np.add.at(total, group[which], amount[which])
            return total

        self.feature_maps = over_regions(of_value, graph.memory, before)
        self.released = over_regions(of_value, graph.memory, before & ~stashed)
        self.allocated = over_regions(of_value, graph.memory, stashed & ~before)
        self.overhead = over_regions(of_node, graph.compute, choice.recomputed)

    def figures(self, part: int) -> tuple[int, int, int, int, int]:
        return tuple(  # type: ignore[return-value]
            int(row[part])
            for row in (self.n_recomputed, self.feature_maps, self.released, self.allocated, self.overhead)
        )


def _reason(figures: tuple[int, int, int, int, int], kept: bool, forced: bool, mode: str) -> str:
    _, feature_maps, released, allocated, _ = figures
    left = format_bytes(feature_maps - released + allocated)
    if not kept:
        if forced and allocated >= released:
            return "marked to be recomputed"
        if allocated > released:
            return f"mode {shortened(mode)} expects to release more than it allocates"
        return f"its values are recomputed from {left}"
    if not feature_maps:
        return "no gradient reads its values"
    if allocated >= released:
        return f"recomputing it would stash {left}, no less than its feature maps"
    return f"mode {shortened(mode)} expects to allocate no less than it would release"
