"""Figures in the sentences of pages, measured when this script runs.

Usage: python docs/measured_figures.py

It writes them into the pages; a slow test compares. A sentence of `SENTENCES` is found in its page
however its lines break; each `{name}` in it is a number that the function beside it measures.
"""

import re
import sys
from bisect import bisect_left
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import remat_algos as ra
from docs.reproductions.chen2016.networks import resnet
from remat_algos.bounds.closure import overhead_bound
from remat_algos.context import Clock
from remat_algos.effort import Effort
from remat_algos.schedule.annealing import SearchKernel
from remat_algos.schedule.emission import baseline, baseline_peak
from remat_algos.schedule.one_pass import lowest_pass
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.methods.chen_greedy import allocated
from remat_algos.solvers.methods.search import search
from remat_algos.solvers.registry import Task
from remat_algos.zoo.random import ladder, layered_dag
from tests.benchmarks.layered_graphs import layered_graph
from tests.benchmarks.optima import golden, graph_of

DOCS = Path(__file__).resolve().parent
NUMBER = r"\d[\d,]*(?:\.\d+)?"
APPENDIX_A = {"grid": "paper", "rank_by": "allocation", "keep_last": False}


def gib(amount):
    return f"{amount / 2**30:.2f}"


def more(plan):
    """Extra compute in percent of one pass."""
    return 100 * plan.overhead / plan.graph.needed_compute


def chain(n):
    """Nodes of one byte and cost 1, with gradients."""
    return ra.differentiate(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(n - 1)]))


def resnet50():
    return ra.differentiate(ra.zoo.build("resnet50").graph)


def searches_of_chen_greedy():
    """Bytes that the paper's allocator needs for the plans of three searches, on ResNet-101 of its reproduction."""
    graph = resnet(101)
    searches = {"paper": APPENDIX_A, "peak": {}, "allocation": {"rank_by": "allocation"}}
    return {
        name: gib(allocated(ra.solve(graph, "least", solver="chen_greedy", raw=True, **options).simulation))
        for name, options in searches.items()
    }


def plans_with_weighed_cost():
    """Plans of chen_greedy for the lowest peak of ResNet-50, with and without `weigh_cost`."""
    plans = {
        name: ra.solve(resnet50(), "least", solver="chen_greedy", raw=True, weigh_cost=name == "weighed")
        for name in ("weighed", "plain")
    }
    return {name: f"{plan.report.simulated:,}" for name, plan in plans.items()}


def chens_on_a_chain():
    """Lowest peaks of the three methods of chen2016 on 400 nodes, and their extra compute."""
    recursive, *others = (
        ra.solve(chain(400), "least", solver=name) for name in ("chen_recursive", "chen_sqrt", "chen_greedy")
    )
    assert len({(plan.peak_memory, plan.overhead) for plan in others}) == 1
    return {
        "low": str(recursive.peak_memory),
        "high": str(others[0].peak_memory),
        "most": f"{more(recursive):.0f}",
        "less": f"{more(others[0]):.0f}",
    }


def thresholds_of_drop_cheap():
    """Plans of drop_cheap for ResNet-50."""
    return {"plans": str(ra.solve(resnet50(), "least", solver="drop_cheap", raw=True).report.simulated)}


def resnets_with_echo():
    """Peak and residents of ResNet-152 planned by echo, as a share of those without rematerialization."""
    shares = {}
    for name, preactivation in (("before", True), ("behind", False)):
        network = ra.zoo.build("resnet152", batch=32, preactivation=preactivation)
        graph = ra.differentiate(network.graph, parameter_gradients=True)
        plan, base = (ra.solve(graph, "100%", solver=solver, raw=True) for solver in ("echo", "no_remat"))
        peaks = [each.peak_memory + graph.resident_memory for each in (plan, base)]
        shares[name] = f"{100 * peaks[0] / peaks[1]:.0f}"
    return shares


def lowest_peaks_of_twremat():
    """On chains of 17 and 65 nodes, the last of them the loss, whose gradients read only what their nodes read."""
    return {f"of{n}": str(ra.solve(ladder(n - 2), "least", solver="twremat").peak_memory) for n in (17, 65)}


def moves_of_the_search():
    """Changes of live bytes for each of 100,000 moves, and how many are accepted, in percent."""
    figures = {}
    for name, graph, share in (("network", resnet50(), 25), ("layered", layered_dag(1000), 80)):
        one_pass = baseline(graph)
        kernel = SearchKernel.of(graph, max_runs=30)
        kernel.start(one_pass.schedule, one_pass.peak_memory * share // 100, goal=-1)
        for part in range(100):
            kernel.cool(1.0, 0.01, part / 100)
            kernel.state.advance(1000)
        state = kernel.state
        figures[f"{name}_changes"] = f"{state.work / state.n_moves - 8:.1f}"
        figures[f"{name}_accepted"] = f"{100 * state.n_accepted / state.n_moves:.0f}"
    return figures


def golden_optima_of_the_search():
    """Of the optima of tests/golden, those that 20,000 moves from one pass find."""
    n_points = n_optimal = 0
    for entry in golden():
        graph = graph_of(entry)
        for limit, compute in entry["optima"]:
            if compute is not None:
                candidates = [each for each in search(graph, Task(limit), Clock(), max_moves=20_000) if each.simulation]
                n_points += 1
                n_optimal += any(each.figures[0] <= limit and each.figures[1] == compute for each in candidates)
    return {"points": str(n_points), "optimal": str(n_optimal)}


def one_pass_of_a_layered_graph():
    """Bytes of two orders of one pass; the least share of the first from which on the closure bound is 0."""
    graph = layered_graph(250, 0.43, seed=0)
    ids, lowest = baseline_peak(graph), simulate(graph, lowest_pass(graph, search=True)).peak_memory
    share = bisect_left(
        range(101), True, key=lambda share: overhead_bound(graph, ids * share // 100).amount == graph.needed_compute
    )
    return {"ids": f"{ids:,}", "share": str(share), "lowest": f"{lowest:,}", "of_ids": f"{100 * lowest / ids:.1f}"}


def seconds_for_moments():
    """Of the processor, by effort."""
    return {name: f"{Effort.of(name).moment_seconds:g}" for name in ("default", "best")}


SENTENCES = (
    (
        "theory/closure_bound.md",
        "The order of ids of `layered_graph(250, 0.43, seed=0)` of `tests/benchmarks` needs {ids} bytes. At {share} "
        "% of that and above, the bound is 0: for every step, the free nodes can be placed before or after it so that "
        "the live values fit without a second run. And `lowest_pass(graph, search=True)` finds an order of one pass in "
        "{lowest} bytes, {of_ids} %, so at that limit no valid bound is above 0.",
        one_pass_of_a_layered_graph,
    ),
    (
        "theory/moment_bound.md",
        'They stop after {default} s with `"default"` and after {best} s with `"best"`.',
        seconds_for_moments,
    ),
    (
        "solvers/segments.md",
        "the best plan of the paper's search needs {paper} GiB when allocated. Trying every b gives a plan of {peak} "
        "GiB if plans are ranked by peak, and of {allocation} GiB if they are ranked by allocation.",
        searches_of_chen_greedy,
    ),
    (
        "solvers/segments.md",
        "for the lowest peak of ResNet-50 {weighed} are simulated instead of {plain}.",
        plans_with_weighed_cost,
    ),
    (
        "solvers/segments.md",
        "On a chain of 400 equal nodes it reaches {low} bytes instead of the {high} of the other two methods, at "
        "{most} % instead of {less} % more compute",
        chens_on_a_chain,
    ),
    (
        "solvers/cheap.md",
        "Each distinct ratio of compute to bytes gives one plan: {plans} on ResNet-50,",
        thresholds_of_drop_cheap,
    ),
    (
        "solvers/cheap.md",
        "the network of MXNet's own test, come to {before} % (the test asks for less than 60 %). For "
        "`model:resnet152?batch=32`, with norms after the convolutions, they come to {behind} %.",
        resnets_with_echo,
    ),
    (
        "solvers/general.md",
        "In 100,000 moves on ResNet-50 at 25 %, from one pass, a move makes {network_changes} changes on average, and "
        "{network_accepted} % of the moves are accepted; on a random layered graph of 1,000 nodes at 80 % it makes "
        "{layered_changes}, and {layered_accepted} % are accepted.",
        moves_of_the_search,
    ),
    (
        "solvers/general.md",
        "With 20,000 moves from one pass it finds {optimal} of {points} proven optima of small graphs.",
        golden_optima_of_the_search,
    ),
    (
        "solvers/decompositions.md",
        "on 17 nodes of one byte it reaches {of17} bytes, on 65 nodes {of65}; 3 are enough for both.",
        lowest_peaks_of_twremat,
    ),
)


def place(page, sentence):
    """Where a sentence stands in the text of a page; a group for each number."""
    words = (
        re.sub(r"\\{(\w+)\\}", lambda name: f"(?P<{name[1]}>{NUMBER})", re.escape(word)) for word in sentence.split()
    )
    found = re.search(r"\s+".join(words), page)
    if found is None:
        raise ValueError(f"no page has the sentence {sentence!r}")
    return found


def renewed(page, sentence, figures):
    """The text of a page with these numbers in its sentence."""
    found = place(page, sentence)
    for name in sorted(figures, key=found.start, reverse=True):
        page = page[: found.start(name)] + figures[name] + page[found.end(name) :]
    return page


def main():
    for name, sentence, measure in SENTENCES:
        path = DOCS / name
        path.write_text(renewed(path.read_text("utf-8"), sentence, measure()), "utf-8")


if __name__ == "__main__":
    main()
