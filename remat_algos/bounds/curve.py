"""Lower bounds on compute for several limits of memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from remat_algos.bounds.certificate import rising_bounds, rising_with_copies
from remat_algos.bounds.compute import RESULTS, TWO_PATHS, ComputeBound
from remat_algos.context import Clock, Stop, until_stopped
from remat_algos.cost.links import Link
from remat_algos.ir.graph import ComputationGraph
from remat_algos.text.units import fine_percent, format_bytes, percent


@dataclass(frozen=True, slots=True, eq=False)
class BoundCurve:
    """Lower bounds on compute that never fall as the limit falls.

    For each limit, rising, `bounds` has the largest bound, `closures` the closure bound, which has a cut, or one pass.
    `stop` is how the search ended.
    """

    graph: ComputationGraph
    limits: tuple[int, ...]
    bounds: tuple[ComputeBound, ...]
    closures: tuple[ComputeBound, ...]
    stop: Stop = Stop.DONE

    COLUMNS = ("budget", "of base", "lower bound", "source", "proved at a run of")

    def at(self, limit: int) -> ComputeBound:
        """The bound of the next larger limit; one pass beyond the last."""
        for each, bound in zip(self.limits, self.bounds, strict=True):
            if each >= limit:
                return bound
        return ComputeBound(self.graph.needed_compute)

    def rows(self, base: int) -> Iterator[tuple[str, ...]]:
        """Yield the cells under `COLUMNS`; shares are of `base`, and of one pass."""
        graph, one_pass = self.graph, self.graph.needed_compute
        for limit, bound in zip(self.limits, self.bounds, strict=True):
            extra = "no schedule fits" if bound.infeasible else f"+{fine_percent(bound.compute - one_pass, one_pass)}"
            steps = (" or " if bound.source == TWO_PATHS else ", ").join(graph.labels[v] for v in bound.nodes)
            if bound.source == RESULTS:
                steps = "the last node that makes a result"
            source = "" if bound.infeasible else bound.source
            yield format_bytes(limit), percent(limit, base), extra, source, steps


def bound_curve(
    graph: ComputationGraph, limits: Sequence[int], clock: Clock, *, effort: str, link: Link | None = None
) -> BoundCurve:
    """Compute lower bounds for several limits, the largest first; each search starts at the last node and price.

    Equal limits count once. A limit that was not reached in time has the bound for the next larger one. With a link, at
    its full rates, they bound the time of plans with copies.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> [bound.compute for bound in bound_curve(chain, [9, 7, 5], Clock(), effort="fast").bounds]
    [31, 29, 27]
    """
    ordered = sorted(set(limits))
    best, closure, stop = ComputeBound(graph.needed_compute), None, Stop.DONE
    found, closures = [best] * len(ordered), [best] * len(ordered)
    with until_stopped() as ending:
        for place, limit in reversed([*enumerate(ordered)]):
            part, name = 1 / (place + 1), f"lower bound within {format_bytes(limit)}: "
            with until_stopped() as share:
                own = clock.share(part, clock.within_stage(part, name))
                rising = (
                    rising_bounds(graph, limit, effort=effort, start=closure, clock=own)
                    if link is None
                    else rising_with_copies(graph, limit, link, effort=effort, clock=own)
                )
                for bound in rising:
                    if bound.infeasible or bound.compute >= best.compute:
                        best = bound
                    found[place] = best
                    if bound.price is not None:
                        closure = closures[place] = bound
            stop |= share.stop
            if stop is Stop.INTERRUPTED:
                break
            found[:place] = [best] * place
            if best.infeasible:
                break
            clock.check()
    return BoundCurve(graph, tuple(ordered), tuple(found), tuple(closures), stop | ending.stop)
