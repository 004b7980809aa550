"""Echo: recompute cheap nodes where that makes the stash of feature maps smaller."""

from collections.abc import Iterator, Sequence

from remat_algos.context import Clock
from remat_algos.ir.graph import ComputationGraph
from remat_algos.solvers.candidates import Candidate, Task
from remat_algos.solvers.echo_choice import Choice
from remat_algos.solvers.echo_regions import RegionReport
from remat_algos.solvers.registry import solver, training_graph


@solver(paper="echo2020", needs=training_graph, price=0.01, explain=RegionReport.of)
def echo(
    graph: ComputationGraph,
    task: Task,
    clock: Clock,
    *,
    mode: str = "exact",
    only: str | Sequence[str] | None = None,
    also: str | Sequence[str] | None = None,
) -> Iterator[Candidate]:
    """Recompute cheap nodes where that reduces the bytes that must stay in memory for the gradients.

    Convolutions and matrix products run once, and so do nodes of unknown operations that cost more than the mean. The
    stash is the minimum, in bytes, over all choices of the other nodes, and the choice is one with the fewest
    recomputations among those. The minimum stash is not always the minimum peak. There is one candidate, whatever the
    limit.

    Parameters
    ----------
    mode : {"exact", "paper"}
        Choose by a minimum cut of the whole graph, or by algorithm 1 of the paper with the two steps that the paper's
        figure 13 requires.
    only : str or sequence of str, optional
        Operations or layers, separated by commas: among nodes that are not heavy, only these may be recomputed. A
        layer is a part of a dotted node name: "attention" in "attention.step3.tanh", "layer" in "layer0.add".
    also : str or sequence of str, optional
        Operations or layers whose nodes may all be recomputed, heavy ones too.

    References
    ----------
    echo2020, sections IV and V; docs/solvers/echo.md says where "exact" differs.

    Examples
    --------
    Two heavy nodes of cost 9 and 4 bytes; the nodes after them are larger, and cheap.

    >>> from remat_algos.ir.differentiate import differentiate
    >>> edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    >>> net = differentiate(ComputationGraph.from_edges(edges, [4, 8, 8, 4, 8, 8], [9, 1, 1, 9, 1, 1]))
    >>> candidate = next(echo(net, Task(), Clock()))
    >>> " ".join(candidate.schedule.names(net)[6:])
    '4 5 grad(5) grad(4) grad(3) 1 2 grad(2) grad(1) grad(0)'
    >>> candidate.details["stash_without"], candidate.details["stash"]
    (40, 8)
    """
    choice = Choice.of(graph, mode, only, also)
    yield Candidate(choice.schedule(), {"mode": mode, **choice.figures})
