"""remat width: bound the treewidth of a graph."""

from __future__ import annotations

import argparse
from pathlib import Path

from remat_algos.cli.exits import ExitCode
from remat_algos.cli.graph_argument import add_graph, as_planned, read_source
from remat_algos.cli.output import TEXT, draw, print_result, print_text
from remat_algos.cli.shared_options import add, add_plot, searching, whole_number, writable
from remat_algos.context import Clock
from remat_algos.errors import RematError
from remat_algos.files import beginning
from remat_algos.formats.graphs.pace_text import GRAPH_FORMAT
from remat_algos.formats.pace import read_gr, td_text, write_td
from remat_algos.formats.registry import claims
from remat_algos.ir.graph import ComputationGraph
from remat_algos.result import Summary, entries
from remat_algos.structure.decompositions import TreeDecomposition
from remat_algos.structure.elimination import UndirectedGraph
from remat_algos.structure.treewidth import WidthBounds, width_bounds
from remat_algos.wording import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph(parser)
    group = parser.add_argument_group("search")
    exact = "compute the exact treewidth; requires at most 16 vertices after safe reductions"
    group.add_argument("--exact", action="store_true", help=exact)
    seeds = "number of elimination orders with random tie-breaking to try, after the deterministic ones (default: 8)"
    group.add_argument("--seeds", type=whole_number, default=8, metavar="N", help=seeds)
    limit = "stop SECONDS after the start, including reading, with the best decomposition found until then"
    add(parser, "time_limit", "seed", time_limit=limit)
    parser.add_argument(
        "--td", metavar="FILE", type=_td, help="write the decomposition in PACE's .td format, - for standard output"
    )
    add_plot(parser, "decomposition")


def _td(path: str) -> str:
    return path if path == TEXT else writable(path)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Search, print the bounds, write and draw the decomposition. Exit code 130: interrupted."""
    graph, directed, note = _graph(arguments)
    print_text(note)
    clock = Clock()
    with searching(arguments) as search:
        bounds = width_bounds(graph, seeds=arguments.seeds, exact=arguments.exact, **search)
    seconds = clock.elapsed
    decomposition = TreeDecomposition.of(bounds.elimination).reduce()
    if arguments.td == TEXT:
        print(td_text(decomposition, graph.n_vertices), end="", file=arguments.stdout)
    elif arguments.td:
        write_td(decomposition, arguments.td, graph.n_vertices)
    print_result(arguments, _summary(graph, bounds, decomposition.n_bags, seconds, arguments.td))
    names = [str(v + 1) for v in range(graph.n_vertices)] if directed is None else directed.node_names()
    draw(arguments, "decomposition", decomposition, names=names, graph=graph)
    return ExitCode.of(bounds.stop)


def _graph(arguments: argparse.Namespace) -> tuple[UndirectedGraph, ComputationGraph | None, str]:
    if _is_pace(arguments.graph):
        if arguments.nodes is not None:
            raise RematError("--nodes {nodes!p}: the width does not need sizes; leave it out", nodes=arguments.nodes)
        graph = read_gr(arguments.graph)
        return graph, None, f"{arguments.graph}: undirected, unchanged"
    # The width does not depend on sizes, so notes about them are not needed.
    directed = read_source(arguments)
    directed, note = as_planned(directed, arguments)
    return UndirectedGraph.of(directed), directed, note


def _is_pace(path: str) -> bool:
    file = Path(path)
    if file.name.endswith((".gr", ".gr.gz")) or not file.is_file():
        return file.name.endswith((".gr", ".gr.gz"))
    return claims(GRAPH_FORMAT, beginning(file, 2**16), "")


def _summary(graph: UndirectedGraph, bounds: WidthBounds, bags: int, seconds: float, written: str | None) -> Summary:
    width, bound = bounds.width, bounds.lower_bound
    rule, seed = bounds.details["rule"], bounds.details["seed"]
    chance = "" if seed is None else f", random ties of seed {seed}"
    orders = counted(bounds.details["orders"], "order") + ("" if bounds.stop.complete else ", then stopped")
    above = "the treewidth" if bounds.proven else f"at most {width - bound} above the treewidth"
    method = "safe reductions and the exact program" if rule == "exact" else f"{orders}: minimum {rule}{chance}"
    rows = [
        ("vertices", f"{graph.n_vertices:,}"),
        ("edges", f"{graph.n_edges:,}"),
        ("width", f"{width} ({above})"),
        ("lower bound", f"{bound}"),
        ("found by", method),
        ("bags", f"{bags:,}"),
        ("seconds", f"{seconds:.2f}"),
    ]
    if written is not None and written != TEXT:
        rows.append(("written", written))
    record = {
        **entries(graph, "vertices=n_vertices edges=n_edges"),
        **entries(bounds, "width lower_bound proven stop.complete"),
        **bounds.details,
        "bags": bags,
        "seconds": seconds,
        "written": written,
    }
    return Summary(record, rows)
