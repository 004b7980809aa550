"""What `execute` takes for a schedule, and what it says of anything else."""

import re

import pytest

from remat_algos.errors import AllocationError, ClaimError, GraphError, PlanError
from remat_algos.executor.operators import SyntheticOperators
from remat_algos.executor.run import execute
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.solve import solve
from remat_algos.schedule.simulation import simulate

CHAIN = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)], memory=1000))
OTHER = ComputationGraph.from_edges([(0, 1)])


def test_a_plan_its_record_its_file_and_its_simulation_are_one_schedule(tmp_path):
    plan = solve(CHAIN, "70%")
    plan.save(tmp_path / "plan.json")
    forms = [plan, plan.record(), tmp_path / "plan.json", plan.simulation, plan.schedule, plan.schedule.order.tolist()]
    for form in forms:
        assert execute(CHAIN, form).checksums.tolist() == execute(CHAIN, plan.schedule).checksums.tolist()


def test_claims_of_a_plan_are_verified_before_it_runs():
    record = solve(CHAIN, "70%").record()
    with pytest.raises(ClaimError, match="claims peak_memory 1"):
        execute(CHAIN, record | {"peak_memory": 1})


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"graph": [(0, 1)]}, TypeError, "graph is a list; give a ComputationGraph (read_graph, from_networkx and"),
        ({"schedule": None}, TypeError, "None cannot be run; give a plan, its record or its file, a schedule, or ids"),
        ({"schedule": "nowhere.json"}, PlanError, "no such file: nowhere.json"),
        ({"schedule": simulate(OTHER, [0, 1])}, GraphError, "the simulation is of another graph; give the graph"),
        ({"operators": SyntheticOperators(OTHER)}, GraphError, "these operators were made for another graph; make"),
        ({"operators": 3}, TypeError, "operators are 3; give an object with the methods of Operators: prepare"),
        ({"operators": SyntheticOperators}, TypeError, "yntheticOperators'>; give an object with the methods"),
        (
            {"allocation": 3},
            TypeError,
            "allocation is an int; give an Allocation (pack(",
        ),
        ({"seed": "x"}, TypeError, "seed is 'x'; give a whole number"),
        ({"limit": -1}, AllocationError, "limit is -1; give a whole number of bytes"),
    ],
)
def test_what_cannot_be_run_is_told_in_one_sentence(options, error, sentence):
    given = {"graph": CHAIN, "schedule": solve(CHAIN, "70%").schedule} | options
    with pytest.raises(error, match=re.escape(sentence)):
        execute(**given)
