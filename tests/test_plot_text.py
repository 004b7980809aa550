"""What pictures look like in characters."""

from remat_algos import plot
from remat_algos.allocate.allocation import Allocation, Buffers
from remat_algos.bounds.rising import bound_curve
from remat_algos.context import Clock
from remat_algos.cost.links import Link
from remat_algos.executor.validate import validate
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Labels
from remat_algos.questions.frontier import frontier
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.schedule.timeline import timeline


def test_addresses():
    allocation = Allocation(Buffers([0, 1, 2], [2, 3, 4], [2, 2, 1]), [0, 1, 2], [0, 2, 0], 4, "by hand", 4)
    assert plot.text("addresses", allocation, width=40, height=4).split("\n") == [
        "3 buffers over 4 steps, by hand",
        "arena 4 B, 1.000 of max live",
        "     4 B │    ████████",
        "         │    ████████",
        "         │████████",
        "       0 │████████████████",
        "         └────────────────",
        "    step  0              3",
        "█ buffer",
    ]


def test_breakdown():
    labels = Labels(names=("conv", "relu"), ops=("Convolution", "ReLU"))
    graph = ComputationGraph.from_edges([(0, 1)], memory=[6, 2], labels=labels)
    assert plot.text("breakdown", graph, width=48).split("\n") == [
        "footprint 8 B: peak 8 B",
        "by layer",
        "convolution   6 B   75.0 %  ███████████████",
        "activation    2 B   25.0 %  █████",
        "by data structure",
        "other values  8 B  100.0 %  ████████████████████",
        "compute by layer",
        "activation    1   50.0 %  ███████████",
        "convolution   1   50.0 %  ███████████",
    ]


def test_frontier():
    chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    assert plot.text("frontier", frontier(chain, solvers=["chen_sqrt"]), width=60).split("\n") == [
        "down to 7 B, 63.6 % of the memory, for 16.0 % more compute",
        "18 nodes; peak 11 B without rematerialization",
        "            peak  of base  overhead",
        "  bound      4 B   36.4 %           █████████",
        "chen_sqrt: 5 plans",
        "  *          7 B   63.6 %    16.0 % ███████████████",
        "  *          8 B   72.7 %    12.0 % █████████████████",
        "  *          9 B   81.8 %     8.0 % ████████████████████",
        "  *         10 B   90.9 %     4.0 % ██████████████████████",
        "  *         11 B  100.0 %     0.0 % ████████████████████████",
        "* no plan is better in both",
    ]


def test_bounds():
    chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    assert plot.text("bounds", bound_curve(chain, [9, 7, 5], Clock(), effort="fast"), width=40).split("\n") == [
        "lower bounds for 18 nodes; peak 11 B",
        "without rematerialization",
        "no schedule goes below 4 B, 36.4 % of",
        "that",
        "   limit  of base  overhead",
        "     5 B   45.5 %    24.0 % █████████████",
        "     7 B   63.6 %    16.0 % █████████",
        "     9 B   81.8 %     8.0 % ████",
    ]


def test_validation():
    chain = ComputationGraph.from_edges([("A", "B"), ("B", "C")], memory=[2000, 1000, 500])
    assert plot.text("validation", validate(chain, Schedule([0, 1, 2]), repeats=0), width=40, height=6).split("\n") == [
        "3 steps on numpy, each as predicted",
        "peak predicted 3 KiB, measured 3 KiB",
        "   3 KiB │    ████",
        "         │    ████",
        "         │████████",
        "         │████████████",
        "         │████████████",
        "         │████████████",
        "       0 └────────────",
        "    step  0          2",
        "█ as predicted",
    ]


def test_matrix():
    graph = ComputationGraph.from_edges([("A", "B"), ("A", "C"), ("B", "C")])
    assert plot.text("matrix", simulate(graph, [0, 1, 0, 2])).split("\n") == [
        "peak 3 B, as without recomputation, for 33.3 % more compute",
        "3 nodes in 4 steps, 1 extra run",
        "R: the stage computes the node; S: it is live when the stage starts",
        "█ first run  ▒ recomputed  │ live  · not live",
        "columns 0=A, 1=B, 2=C",
        "stage  R    S",
        "    0  █··  ···",
        "    1  ·█·  │··",
        "    2  ▒·█  ·│·",
    ]


def test_timeline():
    edges = [(0, 1), (1, 2), (2, 3), (0, 3)]
    graph = ComputationGraph.from_edges(edges, memory=[4, 2, 2, 1], compute=2, labels=Labels(compute_unit="s"))
    played = timeline(simulate(graph, Schedule([0, 1, 2, 3], loads=[(3, 0)])), Link(2, 4, latency=0))
    assert plot.text("timeline", played, width=42, height=6).split("\n") == [
        "time 9 s, 12.5 % more than one pass;",
        "compute waits 12.5 % of one pass",
        "peak 7 B",
        "4 nodes in 4 steps, no extra runs, 1 load",
        "     7 B │                     ▼",
        "         │                     ▚▚▚▚▚▚▚▚▚▚▚",
        "         │       ████████      ▚▚▚▚▚▚▚▚▚▚▚",
        "         │█████████████████████▚▚▚▚▚▚▚▚▚▚▚",
        "         │████████████████████████████████",
        "         │████████████████████████████████",
        "       0 └────────────────────────────────",
        "    time  0                            9 s",
        " compute  █████████████████████▃  ▁███████",
        "     out         ███████▂",
        "      in                       ▆███",
        "busy compute 88.9 %, out 22.2 %, in 11.1 %",
        "of the time; height: busy share of a",
        "column",
        "█ kept  ▚ loaded from the host",
        "on the host, at most 4 B",
    ]
