"""Lower bounds for one memory limit or several: ever higher ones, up to the best that an effort allows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from remat_algos.bounds.closure import RESULTS, TWO_PATHS, ComputeBound, closure_bounds
from remat_algos.bounds.memory import forced_bytes, least_peak_bound
from remat_algos.context import WHOLE, Clock, Stop, until_stopped
from remat_algos.cost.links import Link
from remat_algos.effort import DEFAULT, Effort
from remat_algos.ir.graph import ComputationGraph
from remat_algos.text.amounts import fine_percent, percent
from remat_algos.wording import format_bytes


def rising_bounds(
    graph: ComputationGraph,
    limit: int | None,
    *,
    effort: str = DEFAULT,
    start: ComputeBound | None = None,
    closure: ComputeBound | None = None,
    last: bool = False,
    clock: Clock | None = None,
) -> Iterator[ComputeBound]:
    """Yield increasing lower bounds on the compute of every schedule within a limit of the peak, without residents.

    First one pass and closure bounds; for the effort "default", up to 3,000 nodes, also the moment bound of the node
    that proves the last of these; for "best", or with `last` (after a search, for the bound of the plan found), moment
    bounds of up to three nodes. A bound whose integer program was stopped holds, but may differ from machine to
    machine. If you stop iterating, the last bound holds; at its deadline the clock raises OutOfTime.

    `start` is a bound for the same graph and this or a larger limit: it holds, and its node and price are tried first.
    `closure` is the closure bound of exactly this limit, if known.
    """
    allowed = Effort.of(effort)
    count, seconds = allowed.last_moments if last else allowed.moments, allowed.moment_seconds
    clock = clock or Clock()
    peak, nodes = least_peak_bound(graph)
    if limit is not None and limit < peak and peak > forced_bytes(graph).max(initial=0):
        yield ComputeBound(graph.needed_compute, tuple(nodes), infeasible=True, forced=peak)
        return
    best = start or closure or ComputeBound(graph.needed_compute)
    yield best
    integers = limit is not None and count > 0 and graph.n_nodes <= allowed.moment_nodes
    if closure is None:
        clock.stage(WHOLE, "cuts", part=0.3 if integers else 1.0)
        for closure in closure_bounds(graph, limit, start=start, advance=clock.progress):
            if closure.infeasible or closure.compute > best.compute:
                best = closure
                yield best
    if limit is None or not integers or closure is None or closure.price is None:
        return
    from remat_algos.bounds.moments import PROGRAMS, choose_moments  # long, and not needed by most calls

    clock.stage(2 + (count - 1) * PROGRAMS, "integer programs")  # each begins where it is counted

    def look() -> None:
        clock.advance(1)

    own = choose_moments(graph, limit, closure.nodes[0], count=count, seconds=seconds, clock=clock, look=look)
    for found in own:
        if found.infeasible or found.compute > best.compute:
            best = ComputeBound(found.compute, found.nodes, infeasible=found.infeasible)
            yield best


@dataclass(frozen=True, slots=True, eq=False)
class BoundCurve:
    """Lower bounds on compute for rising limits: `bounds` the largest, `closures` the closure bound or one pass.

    A smaller limit never has a smaller bound. `stop` is how the search ended.
    """

    graph: ComputationGraph
    limits: tuple[int, ...]
    bounds: tuple[ComputeBound, ...]
    closures: tuple[ComputeBound, ...]
    stop: Stop = Stop.DONE

    COLUMNS = ("budget", "of base", "lower bound", "source", "proved at a run of")

    def at(self, limit: int) -> ComputeBound:
        """Return the bound of the next larger limit; one pass beyond the last."""
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

    A limit that was not reached in time has the bound for the next larger one. With a link, at its full rates, they
    bound the time of plans with copies.
    """
    from remat_algos.bounds.link_bound import rising_with_copies

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
