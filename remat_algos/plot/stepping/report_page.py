"""The page of a report: one file that opens from disk, asks for nothing, and steps through plans."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from html import escape
from importlib.resources import files

from remat_algos.arguments import check_kind, checked_arguments
from remat_algos.errors import PlanError
from remat_algos.plan.plan import Plan
from remat_algos.plot.stepping.report_data import report_data
from remat_algos.schedule.baseline import baseline
from remat_algos.schedule.simulation import Simulation
from remat_algos.text.wording import counted, shortened

MAX_NODES = 10_000
MAX_PLAIN = 500_000  # characters of data; longer ones are compressed
BASELINE = "no rematerialization"


@checked_arguments
def report(plan: Plan | Simulation, beside: Plan | Simulation | None = None, *, title: str = "") -> str:
    """HTML on which a plan is stepped through beside another one.

    The page is one file without requests: graph, memory of the steps, schedule and the reasons of `explain` for every
    node. Data of more than 500,000 characters, about 1,000 nodes, are compressed in it.

    Parameters
    ----------
    plan : Plan or Simulation
    beside : Plan or Simulation, optional
        Of the same graph; by default every node once.
    title : str
        Of the page; by default what the graph is.

    Returns
    -------
    str

    Raises
    ------
    PlanError
        If the plans are of different graphs, or the graph has more than 10,000 nodes.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.plan.solve import solve
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> page = report(solve(chain, 7, solver="chen_greedy"))
    >>> page.count("<script"), page.count("no rematerialization") > 0
    (2, True)
    """
    check_kind(plan, Plan, "plan", Simulation)
    if beside is not None:
        check_kind(beside, Plan, "beside", Simulation)
    graph = plan.graph
    if graph.n_nodes > MAX_NODES:
        raise PlanError(
            f"a report steps through {MAX_NODES:,} nodes at most, and the graph has {counted(graph.n_nodes, 'node')}; "
            "make a coarser graph, such as one of layers"
        )
    if beside is not None and beside.graph.hash != graph.hash:
        raise PlanError("the two plans are of different graphs; give two plans of one graph")
    titles = [plan.method if isinstance(plan, Plan) else "plan"]
    titles.append(BASELINE if beside is None else beside.method if isinstance(beside, Plan) else "beside it")
    data = report_data([plan, baseline(graph) if beside is None else beside], titles)
    return page(data, title or data["graph"]["title"])


def page(data: dict[str, object], title: str) -> str:
    """The text of the page; no name can end its script."""
    folder = files("remat_algos.plot.stepping")
    style, script = ((folder / name).read_text("utf-8") for name in ("report.css", "report.js"))
    inline, kind = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c"), "json"
    if len(inline) > MAX_PLAIN:
        inline, kind = b64encode(zlib.compress(inline.encode())).decode(), "zlib"
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
<title>{escape(shortened(title))}</title>
<style>
{style}</style>
</head>
<body>
<script type="application/{kind}" id="data">{inline}</script>
<script>
{script}</script>
</body>
</html>
"""
