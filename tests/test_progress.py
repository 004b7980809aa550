"""What a progress callback is told: a share of the whole run that never falls, whatever runs."""

from functools import partial
from itertools import pairwise

import pytest

from docs.reproductions.registry import _by_measurement
from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.offsets import pack
from remat_algos.cli.output import progress_text
from remat_algos.context import WHOLE, Clock
from remat_algos.effort import EFFORTS
from remat_algos.errors import BudgetError
from remat_algos.ir.budget import Budget
from remat_algos.ir.differentiate import differentiate
from remat_algos.questions.compare import compare
from remat_algos.questions.fit import fit
from remat_algos.questions.frontier import frontier
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.one_pass import lowest_pass
from remat_algos.search.solve import solve
from remat_algos.structure.elimination import UndirectedGraph
from remat_algos.structure.treewidth import width_bounds
from remat_algos.zoo.random import chain, layered_dag

pytestmark = pytest.mark.usefixtures("short_searches")

CHAIN = differentiate(chain(16))
LAYERED = differentiate(layered_dag(12, width=3, seed=5))
SHORT = differentiate(chain(5))
SMALL = layered_dag(14, width=3, seed=5)
QUICK = ["no_remat", "chen_sqrt", "chen_greedy", "greedy_remat", "twremat"]


def training(depth):
    return differentiate(chain(depth))


RUNS = {
    **{f"solve, {effort}": partial(solve, CHAIN, "70%", effort=effort) for effort in EFFORTS[:2]},
    "least": partial(solve, CHAIN, "least", effort="fast"),
    "overhead": partial(solve, LAYERED, None, solver="twremat"),
    "half an overhead": partial(solve, LAYERED, Budget(overhead="50%"), solver="liveness_dp"),
    "no time": partial(solve, LAYERED, "least", time_limit=0),
    "no search": partial(solve, CHAIN, "100%"),
    "raw": partial(solve, CHAIN, "60%", solver="chen_greedy", raw=True),
    "arena": partial(solve, CHAIN, "60%", solver="chen_sqrt", allocator="arena"),
    "pool": partial(solve, CHAIN, "80%", solver="chen_sqrt", allocator="cupy_pool"),
    "constraints": partial(solve, CHAIN, "60%", solver="chen_greedy", constraints={"max_runs": 2}),
    "frontier": partial(frontier, CHAIN, points=3, solvers=QUICK[:3]),
    "frontier with a search": partial(frontier, SHORT, points=2, effort="fast", solvers=["no_remat", "search"]),
    "frontier without time": partial(frontier, LAYERED, points=4, solvers=QUICK, time_limit=0),
    "compare": partial(compare, CHAIN, "70%", solvers=QUICK[:4]),
    "compare arenas": partial(compare, CHAIN, "70%", solvers=QUICK[:3], allocator="arena"),
    "compare without time": partial(compare, LAYERED, "70%", solvers=QUICK, time_limit=0),
    "fit": partial(fit, training, 9, solvers=["chen_sqrt", "no_remat"], most=64),
    "fit of some values": partial(fit, training, 9, solvers=["chen_sqrt"], values=[4, 8, 16, 32]),
    "fit without time": partial(fit, training, 9, solvers=["chen_sqrt"], most=64, time_limit=0),
    "width": partial(width_bounds, UndirectedGraph.of(SMALL), reduced=False),
    "addresses": partial(pack, Buffers.of(baseline(LAYERED))),
}


@pytest.mark.parametrize("name", RUNS)
def test_progress_is_a_share_that_never_falls_and_ends_at_the_whole(name):
    told = []
    RUNS[name](progress=lambda *news: told.append(news))
    counts = [done for done, _, _ in told]
    assert counts == sorted(counts)
    assert (counts[0] >= 0, counts[-1]) == (True, WHOLE)
    assert {total for _, total, _ in told} == {WHOLE}
    assert all(before != after for before, after in pairwise(told))


def test_progress_ends_where_nothing_fits():
    told = []
    with pytest.raises(BudgetError):
        solve(LAYERED, 1, solver="chen_sqrt", progress=lambda *news: told.append(news[0]))
    assert told[-1] == WHOLE


@pytest.mark.parametrize("limit", ["least", "75%"])
def test_a_search_reports_each_hundredth_of_its_moves(limit):
    """The moves that are made between two reports are few: no more than a fiftieth of all."""
    shares = []

    def progress(done, total, what):
        if " of its moves" in what:
            shares.append(int(what.partition(": ")[2].partition(" %")[0]))

    solve(LAYERED, limit, solver="search", raw=True, max_moves=100_000, progress=progress)
    steps = [after - before for before, after in pairwise(shares)]
    assert sorted(steps)[-2] <= 2  # one may be longer, where the bound is met or the lowest peak is known
    assert len(set(shares)) > 20


def test_the_methods_that_serve_are_counted():
    told = []
    compare(CHAIN, "70%", solvers=["revolve", *QUICK[:3]], progress=lambda *news: told.append(news[2]))
    numbers = {what.partition(",")[0] for what in told if what.startswith("method")}
    assert numbers <= {f"method {i} of 4" for i in range(1, 5)}
    told.clear()
    compare(LAYERED, "70%", solvers=["revolve", *QUICK[:3]], progress=lambda *news: told.append(news[2]))
    assert {what.partition(",")[0] for what in told if what.startswith("method")} == {
        f"method {i} of 3" for i in range(1, 4)
    }


def test_the_bound_after_a_search_reports_too():
    told = []
    solve(LAYERED, "least", solver="search", max_moves=5_000, progress=lambda *news: told.append(news[2]))
    assert told[-1].startswith("lower bound: ")


def test_an_order_of_one_pass_reports_its_moves_and_the_lowest_peak():
    told = []
    found = lowest_pass(SMALL, beam=1, search=True, max_moves=20_000, progress=lambda *news: told.append(news))
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    assert all(" % of its moves · best " in what for _, _, what in told)
    assert len(found) == SMALL.n_nodes


def test_measurements_that_follow_each_other_share_the_whole():
    told = []
    measurement = _by_measurement(Clock(progress=lambda *news: told.append(news)))
    for name in "abc":
        for done in (0, 500, 1000):
            measurement(done, 1000, name)
    assert [what for _, _, what in told] == [name for name in "abc" for _ in range(3)]
    assert [done for done, _, _ in told] == [0, 25, 50, 50, 73, 97, 97, 120, 142]


@pytest.mark.parametrize("width", [20, 40, 77, 117])
def test_the_line_of_a_terminal_fits_it_in_two_lines(width):
    what = "method 3 of 9, search: 41 % of its moves · best 62 % at +3.1 % · bound +2.0 %"
    lines = progress_text(450, 1000, what, 75, width).split("\n")
    assert len(lines) <= 2
    assert all(len(line) <= width for line in lines)
    assert lines[0].startswith("45 % · 1:15")
    assert ("Ctrl-C keeps the best" in lines[-1]) == (width >= 77)
    assert "Ctrl-C" not in progress_text(450, 1000, what, 75, width, keeps=False)
    assert "Ctrl-C" not in progress_text(450, 1000, "search: 3 % of its moves", 75, 117)
