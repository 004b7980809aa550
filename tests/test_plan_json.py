"""The JSON of plans, byte for byte: the files of tests/golden/plans were written by an earlier version."""

import functools
import re
from pathlib import Path

import pytest

import remat_algos as ra
from remat_algos.plan.plan import Plan
from tests.benchmarks.layered_graphs import layered_graph

FOLDER = Path(__file__).parent / "golden" / "plans"
CHAIN = ra.ComputationGraph.from_edges([("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("a", "e")])
TRAINING = ra.differentiate(CHAIN)
EIGHT = ra.differentiate(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
SKIPS = ra.differentiate(
    ra.ComputationGraph.from_edges(
        [*((i, i + 1) for i in range(10)), (2, 5), (4, 8)],
        memory=[5, 6, 9, 1, 8, 4, 1, 3, 2, 6, 8],
        compute=[4, 7, 9, 2, 4, 1, 4, 7, 5, 3, 7],
    )
)
PLANS = {
    "solver_bound": (TRAINING, {"budget": 6}),
    "closure": (EIGHT, {"budget": 7, "solver": "chen_sqrt", "effort": "fast"}),
    "moments": (SKIPS, {"budget": "70%", "solver": "chen_sqrt"}),
    "narrower": (TRAINING, {"budget": 7, "solver": "milp", "raw": True}),
    "canonical": (TRAINING, {"budget": 7, "solver": "approximate_dp", "raw": True}),
    "peak_bound": (layered_graph(12, 0.4, 3), {"budget": "least", "effort": "fast"}),
    "arena": (TRAINING, {"budget": 7, "allocator": "arena", "effort": "fast"}),
    "pool": (TRAINING, {"budget": "100%", "allocator": "cupy_pool", "effort": "fast"}),
    "constraints": (TRAINING, {"budget": 7, "constraints": {"max_runs": 2}, "effort": "fast"}),
    "ids": (ra.ComputationGraph.from_edges([(0, 1), (1, 2), (0, 2)]), {"budget": ra.Budget(overhead="10%")}),
}


@functools.cache
def solved(name):
    graph, options = PLANS[name]
    return ra.solve(graph, **options)


def timeless(text):
    return re.sub(r'\n "seconds": .*', "", text)


@pytest.mark.parametrize("name", PLANS)
def test_a_file_is_read_and_written_again_byte_for_byte(name):
    file = FOLDER / f"{name}.json"
    assert Plan.load(file, PLANS[name][0]).text() == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PLANS)
def test_solve_writes_the_same_file_again(name):
    assert timeless(solved(name).text()) == timeless((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def test_the_files_hold_every_part_that_the_bounds_of_a_plan_have():
    texts = [file.read_text(encoding="utf-8") for file in FOLDER.iterdir()]
    for part in ("live_set_search", "closure", "moments", "one pass"):
        assert any(f'"bound_source": "{part}"' in text for text in texts), part
    for part in ('"nodes":', '"price":', "narrower_bound", '\n  "peak_bound"', "offsets", "constraints"):
        assert any(part in text for text in texts), part


HUGE = (2**63 - 1, 2**63, 10**200)
PLACES = {
    "memory budget": lambda number: {"budget": number},
    "overhead budget": lambda number: {"budget": ra.Budget(overhead=number)},
    "device budget": lambda number: {"budget": ra.Budget(device=number)},
    "seed": lambda number: {"seed": number},
    "gap": lambda number: {"gap": number},
    "option": lambda number: {"solver": "search", "max_moves": number},
    "run limit": lambda number: {"constraints": {"max_runs": number}},
    "run limit of a node": lambda number: {"constraints": {"max_runs": {"a": number}}},
    "smallest copy": lambda number: {"constraints": {"min_copy": number}},
    "region": lambda number: {"constraints": {"regions": {"all": ("*", number)}}},
}


@pytest.mark.parametrize("number", HUGE)
@pytest.mark.parametrize("place", PLACES)
def test_a_huge_number_is_refused_at_once_or_its_plan_is_read_again(place, number, tmp_path):
    arguments = {"budget": "100%", "effort": "fast"}
    arguments |= PLACES[place](number)
    if place == "gap" or (place in ("seed", "option") and number >= 2**63):
        with pytest.raises(ValueError, match=r"below 2\*\*63|at most 2\*\*63|points of overhead"):
            ra.solve(TRAINING, **arguments)
    else:
        plan = ra.solve(TRAINING, **arguments)
        plan.save(tmp_path / "plan.json")
        assert Plan.load(tmp_path / "plan.json", TRAINING).record() == plan.record()
