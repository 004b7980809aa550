"""Echo: recompute cheap nodes where that makes the stash of feature maps smaller."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from remat_algos.context import SearchContext
from remat_algos.ir.arrays import Bool, Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.wording import shortened
from remat_algos.schedule.mirror import honoured, mirror_schedule
from remat_algos.schedule.schedule import Schedule
from remat_algos.solvers.candidates import Candidate
from remat_algos.solvers.echo_literal import by_algorithm_1
from remat_algos.solvers.echo_mxnet import by_frontiers, mirror_path_schedule, mirror_places, mirrored_reads
from remat_algos.solvers.feature_maps import FeatureMaps
from remat_algos.solvers.heavy_nodes import recomputable_nodes
from remat_algos.solvers.registry import solver, training_graph

MODES = ("exact", "paper", "literal", "mxnet")


@solver(paper="echo2020", needs=training_graph, cheap=True)
def echo(
    graph: ComputationGraph,
    limit: int | None,
    context: SearchContext,
    *,
    mode: str = "exact",
    only: str | Sequence[str] | None = None,
    also: str | Sequence[str] | None = None,
) -> Iterator[Candidate]:
    """Recompute cheap nodes where that reduces the bytes that must stay in memory for the gradients.

    Convolutions and matrix products run once, and so do nodes of unknown operations that cost more than the mean. The
    stash is the minimum, in bytes, over all choices of the other nodes, and the choice is one with the fewest
    recomputations among those. The minimum stash is not always the minimum peak. One schedule, whatever the limit.

    Parameters
    ----------
    mode : {"exact", "paper", "literal", "mxnet"}
        How it chooses: by a minimum cut of the whole graph; by algorithm 1 of the paper with the two steps that the
        paper's figure 13 requires; by that algorithm as printed; or like the pass merged into MXNet, which has these
        steps, its own list of heavy operations, and an order of mirrors that is not topological.
    only : str or sequence of str, optional
        Operations or layers, separated by commas: of the nodes that are not heavy, only these may be recomputed. A
        layer is a part of a dotted node name, "attention" of "attention.step3.tanh", "layer" of "layer0.add".
    also : str or sequence of str, optional
        Operations or layers whose nodes may all be recomputed, heavy ones too.

    References
    ----------
    echo2020, sections IV and V; docs/solvers/echo.md says where "exact" differs.

    Examples
    --------
    Two heavy nodes of cost 9 and 4 bytes; what comes after them is larger, and cheap.

    >>> from remat_algos.ir.differentiate import differentiate
    >>> edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    >>> net = differentiate(ComputationGraph.from_edges(edges, [4, 8, 8, 4, 8, 8], [9, 1, 1, 9, 1, 1]))
    >>> found = next(echo(net, None, SearchContext()))
    >>> " ".join(found.schedule.names(net)[6:])
    '4 5 grad(5) grad(4) grad(3) 1 2 grad(2) grad(1) grad(0)'
    >>> found.details["stash_without"], found.details["stash"]
    (40, 8)
    """
    choice = Choice.of(graph, mode, only, also)
    details = {
        "mode": mode,
        "stash": choice.maps.memory(choice.stashed),
        "stash_without": choice.maps.memory(choice.maps.read_back),
        "rerun": int(np.count_nonzero(choice.rerun)),
    }
    yield Candidate(choice.schedule(), details)


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What echo recomputes, and what stays stashed.

    Parameters
    ----------
    maps : FeatureMaps
    rerun : bool[n]
        Nodes that are recomputed.
    stashed : bool[n_values]
        Values of first runs that gradients and recomputations read.
    place : int64[n], optional
        When MXNet's pass makes the mirror of each node; None where mirrors are made in topological order.
    """

    maps: FeatureMaps
    rerun: Bool
    stashed: Bool
    place: Int64 | None = None

    @classmethod
    def of(
        cls,
        graph: ComputationGraph,
        mode: str = "exact",
        only: str | Sequence[str] | None = None,
        also: str | Sequence[str] | None = None,
    ) -> "Choice":
        """The choice of a mode; ValueError for one that is none, or for a word that names nothing."""
        if mode not in MODES:
            raise ValueError(f"mode is {shortened(repr(mode))}; use {', '.join(MODES)}")
        maps = FeatureMaps.of(graph, recomputable_nodes(graph, mode, only, also))
        if mode == "mxnet":
            place = mirror_places(maps)
            mirrored = mirrored_reads(maps, place)
            rerun = maps.rerun(by_frontiers(maps), mirrored)
            return cls(maps, rerun, maps.stashed(rerun, mirrored), place)
        wanted = {"exact": FeatureMaps.least_stash, "paper": by_frontiers, "literal": by_algorithm_1}[mode](maps)
        rerun = maps.rerun(wanted)
        return cls(maps, rerun, maps.stashed(rerun))

    def schedule(self) -> Schedule:
        """Algorithm 2 of chen2016 with a mirror of each recomputed node."""
        if self.place is not None:
            return mirror_path_schedule(self.maps, self.rerun, self.place)
        return mirror_schedule(self.maps.graph, honoured(self.maps.graph, self.rerun.astype(np.int64)))
