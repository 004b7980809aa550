"""`auto` on random graphs and budgets beside every solver alone: it is never worse, and its bound holds for all.

Nothing has a lower peak than the budget "least", and where nothing fits its plan is the fallback.
"""

import remat_algos as ra
from remat_algos.context import Stop
from remat_algos.zoo.random import layered_dag
from tests.benchmarks.layered_graphs import layered_graph
from tests.fuzz.graphs import EXPONENTIAL, Call, Request, Subject, check_plan, fits, outcome, random_budget
from tests.fuzz.random_graphs import random_graph
from tests.oracles.simulation import Unsound
from tests.small_graphs import KINDS, small_graph

UNIT = "graphs"
LARGER = 0.15  # share of graphs of more than a few nodes, whose kinds of plan differ most
NODES = 10, 25  # of these, before differentiation
KIND = 0.1  # share of towers, encoders, stacks and the like
SIZES = 8, 30  # their numbers of nodes, gradients included
SECONDS = 0.2  # for solvers whose time may grow exponentially, and for the programs of a whole frontier by `milp`


def case(rng, report):
    """One graph and one budget: `auto`, then each solver."""
    try:
        subject = Subject(graph_of(rng))
    except ra.GraphError:
        return
    report.count("graphs")
    budget = random_budget(rng, subject)
    auto = Call(subject, budget, "auto")
    best = outcome(report, auto, auto)
    if isinstance(best, ra.Plan):
        report.count("plans of auto")
        check_plan(report, auto, best)
    elif not isinstance(best, ra.BudgetError):
        return
    no_lower(report, auto, best)
    for solver in ra.list_solvers():
        limited = solver.name == "milp" or (solver.name in EXPONENTIAL and not subject.small)
        call = Call(subject, budget, solver.name, time_limit=SECONDS if limited else None)
        alone = outcome(report, call, call)
        if isinstance(alone, ra.Plan):
            report.count("plans of one solver")
            compared(report, call, best, alone)


def no_lower(report, call, best):
    """A plan beside that of the budget "least", or the fallback where there is no plan."""
    found = best if isinstance(best, ra.Plan) else best.plan
    if found is None:
        return
    least = outcome(report, lowest := Call(call.subject, Request("least", lowest=True), "auto"), lowest)
    if not isinstance(least, ra.Plan):
        return
    report.count("plans of the lowest peak")
    reached = found.peak_memory
    if reached < least.peak_memory:
        fault(report, call, "a plan below the lowest peak", f"{reached} below {least.peak_memory}")
    elif found is not best and call.request.overhead is None and reached != least.peak_memory:
        fault(report, call, "the fallback is not that of least", f"{reached}, {least.peak_memory}")


def graph_of(rng):
    """A small graph of every feature, one of a kind, or a larger one with layers: forward, or with its gradients."""
    if rng.random() < KIND:
        return small_graph(rng.choice(sorted(KINDS)), rng.randrange(2**31), rng.randint(*SIZES))
    if rng.random() >= LARGER:
        return random_graph(rng)
    n_nodes, seed = rng.randint(*NODES), rng.randrange(2**31)
    if rng.random() < 0.5:
        return layered_graph(n_nodes, rng.uniform(0.25, 0.5), seed)
    return ra.differentiate(layered_dag(n_nodes, seed=seed))


def compared(report, call, best, alone):
    """A plan of one solver, which is simulated by the oracle: `auto` has one as good, and says nothing against it."""
    subject, lowest = call.subject, call.request.lowest
    found = subject.verdict(alone.schedule.order.tolist())
    if isinstance(found, Unsound) or not fits(call.request, found):
        fault(report, call, "a plan that does not keep to its budget", str(found))
    elif isinstance(best, ra.BudgetError):
        fault(report, call, "auto finds no plan where one solver does", f"peak {found.peak}; {best}")
    else:
        ours, theirs = (best.peak_memory, best.simulation.compute), (found.peak, found.compute)
        worse = ours > theirs if lowest else ours[1] > theirs[1]
        if worse and not lowest and best.report.stop is Stop.NEAR:
            report.count("as near the bound as was asked, where one solver is better")
        elif worse:
            fault(report, call, "auto is worse than one solver", f"{ours} by {best.method}, {theirs}")
        limit = best.peak_memory if lowest or best.limit is None else best.limit
        if best.bound.scope == "any order" and found.peak <= limit and found.compute < best.bound.amount:
            fault(
                report, call, "a plan below the bound of auto", f"{best.bound.amount} by {best.bound.source}, {theirs}"
            )


def fault(report, call, kind, detail):
    report.fault(kind, f"{detail}: {call}", call.files())
