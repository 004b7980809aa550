"""Lower bounds for one memory limit or several, as increasing sequences, and verification of claimed bounds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from remat_algos.bounds.bound import CLOSURE, LowerBound
from remat_algos.bounds.closure import cuts_of, in_ticks, one_pass
from remat_algos.bounds.memory import forced_bytes, least_peak_bound
from remat_algos.context import WHOLE, Clock, Stop, until_stopped
from remat_algos.cost.links import Link, LinkTimes
from remat_algos.effort import DEFAULT, Effort
from remat_algos.ir.graph import ComputationGraph
from remat_algos.wording import format_bytes


def rising(
    graph: ComputationGraph,
    limit: int | None,
    *,
    times: LinkTimes | None = None,
    effort: str = DEFAULT,
    start: LowerBound | None = None,
    closure: LowerBound | None = None,
    last: bool = False,
    clock: Clock | None = None,
) -> Iterator[LowerBound]:
    """Yield increasing lower bounds for all schedules whose peak, without residents, is within a limit.

    The bound of one pass comes first, then bounds from minimum cuts, then moment bounds if the effort allows them.
    More are allowed with `last`, for a plan that a search has returned. With copy `times`, the bounds are on the time
    of schedules that may also copy values over a link. At the deadline, the clock raises OutOfTime.

    `start` is a bound for this limit or a larger one; its node and price are tried first. `closure` is the closure
    bound for exactly this limit, if already computed.
    """
    allowed, clock = Effort.of(effort), clock or Clock()
    count = allowed.last_moments if last else allowed.moments
    none_fits = None if limit is None else _excess(graph, limit, times)
    if none_fits is not None:
        yield none_fits
        return
    best = start or closure or one_pass(graph, times)
    yield best
    integers = limit is not None and count > 0 and graph.n_nodes <= allowed.moment_nodes
    cut = closure
    if cut is None and limit is not None:
        clock.stage(WHOLE, "cuts", part=0.3 if integers else 1.0)
        for cut in cuts_of(graph, times).bounds(limit, start, clock.progress):
            if cut.infeasible or cut.amount > best.amount:
                best = cut
                yield best
    if limit is None or not integers or cut is None or cut.prices is None:
        return
    # Imported here because it is slow to import and few calls need it.
    from remat_algos.bounds.moments import PROGRAMS, choose_moments

    clock.stage(2 + (count - 1) * PROGRAMS, "integer programs")
    for bound in choose_moments(
        graph,
        limit,
        cut.nodes[0],
        times=times,
        count=count,
        seconds=allowed.moment_seconds,
        clock=clock,
    ):
        if bound.infeasible or bound.amount > best.amount:
            best = bound
            yield best


def _excess(graph: ComputationGraph, limit: int, times: LinkTimes | None) -> LowerBound | None:
    """Return the proof by `least_peak_bound` that no schedule fits; None if there is none, or if a cut can find it."""
    peak, nodes = least_peak_bound(graph, copies=times is not None)
    if limit >= peak or (times is None and peak <= forced_bytes(graph).max(initial=0)):
        return None
    bound = replace(one_pass(graph, times), infeasible=True)
    return bound if times else replace(bound, nodes=tuple(nodes), forced=peak)


def prove(
    graph: ComputationGraph,
    limit: int,
    bound: LowerBound,
    *,
    times: LinkTimes | None = None,
    seconds: float | None = None,
) -> LowerBound:
    """Return the lower bound within a limit that the nodes and prices of `bound` prove.

    It is computed by one minimum cut, or by an integer program if `bound` has no prices. If `bound` has no nodes, the
    result is the cost of one pass. `times` are copy times, for bounds on time; `seconds` limits the integer program.

    >>> edges = [(0, 1), (1, 2), (2, 3), (3, 4), (1, 4), (4, 5), (0, 5)]
    >>> graph = ComputationGraph.from_edges(edges, compute=[2, 2, 2, 4, 4, 4])
    >>> *_, bound = rising(graph, 3)
    >>> bound.amount, bound.nodes, prove(graph, 3, bound).amount, prove(graph, 4, bound).amount
    (20, (3,), 20, 18)
    """
    if not bound.nodes:
        return one_pass(graph, times)
    if bound.prices is None:
        from remat_algos.bounds.moments import moment_bound

        return moment_bound(graph, limit, bound.nodes, times=times, seconds=seconds)
    return cuts_of(graph, times).proof(limit, bound)


@dataclass(frozen=True, slots=True, eq=False)
class BoundCurve:
    """Closure bounds, and lower bounds on compute, for several ascending limits; `stop` says how the search ended."""

    graph: ComputationGraph
    limits: tuple[int, ...]
    bounds: tuple[LowerBound, ...]
    closures: tuple[LowerBound, ...]
    stop: Stop = Stop.DONE

    def at(self, limit: int) -> LowerBound:
        """Return the bound for the smallest of `limits` that is at least `limit`, else the compute of one pass."""
        for each, bound in zip(self.limits, self.bounds, strict=True):
            if each >= limit:
                return bound
        return LowerBound(self.graph.needed_compute)


def bound_curve(
    graph: ComputationGraph, limits: Sequence[int], clock: Clock, *, effort: str, link: Link | None = None
) -> BoundCurve:
    """Compute lower bounds for several limits, the largest first; each search starts at the previous bound."""
    ordered, (refined, ticks, times) = sorted(set(limits)), in_ticks(graph, link)
    first, closure, stop = one_pass(graph, times), None, Stop.DONE
    best = first
    bounds, closures = [best] * len(ordered), [best] * len(ordered)
    with until_stopped() as ending:
        for place, limit in reversed([*enumerate(ordered)]):
            part, name = 1 / (place + 1), f"lower bound within {format_bytes(limit)}: "
            with until_stopped() as share:
                own = clock.share(part, part, name)
                for fine in rising(refined, limit, times=times, effort=effort, start=closure, clock=own):
                    bound = replace(fine, amount=fine.amount // ticks)
                    if not bound.infeasible and bound.amount <= first.amount:
                        bound = first
                    if bound.infeasible or bound.amount >= best.amount:
                        best = bound
                    bounds[place] = best
                    if bound.source == CLOSURE and bound.prices is not None:
                        closure = closures[place] = bound
            stop |= share.stop
            if stop is Stop.INTERRUPTED:
                break
            bounds[:place] = [best] * place
            if best.infeasible:
                break
            clock.check()
    return BoundCurve(graph, tuple(ordered), tuple(bounds), tuple(closures), stop | ending.stop)
