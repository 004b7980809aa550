"""Plans that keep, recompute or offload: the search over a link, from the best plan without copies."""

from remat_algos.context import Clock, until_stopped
from remat_algos.cost.links import Link
from remat_algos.effort import Effort
from remat_algos.plan.request import Request
from remat_algos.schedule.annealing import Annealer
from remat_algos.schedule.simulation import Simulation
from remat_algos.solvers.candidates import Candidate

COPIES = "copies"
"""The method of plans with copies."""
MAX_RUNS = 30  # of one node, if a start has no more


def with_copies(request: Request, link: Link, limit: int, starts: list[Simulation], clock: Clock) -> Candidate | None:
    """The fastest schedule found that fits, with copies over a link; None if there is none.

    Parameters
    ----------
    request : Request
    link : Link
    limit : int
        Bytes.
    starts : list of Simulation
        The best plan without copies first: the schedule is never slower where that fits.
    clock : Clock
    """
    graph, effort = request.graph, Effort.of(request.task.effort)
    most_runs = max(int(each.runs.max(initial=0)) for each in starts)
    annealer = Annealer(
        graph,
        clock,
        max_runs=max(MAX_RUNS, most_runs),
        seed=request.task.seed,
        constraints=request.constraints,
        link=link,
    )
    begun = [annealer.annealed(each.schedule, limit, "the plan without copies") for each in starts]
    best = min(begun, key=lambda each: annealer.key(each, limit))
    goal = graph.needed_compute + request.task.slack
    with until_stopped() as ending:
        if not annealer.meets(best, limit, goal):
            work, count = effort.copies_work, effort.first_searches
            for found in annealer.rounds(begun, limit, work, count=count, goal=goal):
                best = min(best, found, key=lambda each: annealer.key(each, limit))
    clock.note(ending.stop)
    if best.figures[0] > limit:
        return None
    details = {"moves": best.moves, "start": best.start}
    return Candidate(best.simulation.schedule, details, simulation=best.simulation, solver=COPIES)
