"""Operators and options that `validate` cannot work with, and operators that do not do all that they must."""

from dataclasses import replace

import numpy as np
import pytest

from remat_algos.errors import BackendError
from remat_algos.executor.operators import SyntheticOperators
from remat_algos.executor.validate import validate
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.solve import solve
from tests.public import refusal

CHAIN = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)], memory=1000))
PLAN = solve(CHAIN, 7000)


@pytest.mark.parametrize("arena", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_bytes_that_are_never_written_are_found_where_a_node_runs_again(share, arena):
    class Half(SyntheticOperators):
        def run(self, node, reads, residents, values, workspace):
            for value in values:
                value[: int(share * value.size)] = node + 1

    for size in (1000, 100_000):
        graph = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)], memory=size))
        found = validate(graph, solve(graph, 7 * size), operators=Half(graph), arena=arena, repeats=0)
        assert (found.simulation.runs > 1).any()
        assert not found.holds


@pytest.mark.parametrize(
    ("operators", "error", "sentence"),
    [
        (3, TypeError, "operators are 3; give an object with the methods of Operators"),
        (SyntheticOperators, TypeError, "give an object with the methods of Operators"),
    ],
)
def test_what_are_no_operators_is_told(operators, error, sentence):
    with pytest.raises(error, match=sentence):
        validate(CHAIN, PLAN, operators=operators)


@pytest.mark.parametrize("given_", [None, [None], [np.zeros(3, np.uint8)]])
def test_residents_that_the_graph_does_not_have_are_told(given_, monkeypatch):
    operators = SyntheticOperators(CHAIN)
    monkeypatch.setattr(operators, "residents", lambda backend: given_)
    with pytest.raises(BackendError, match=r"the operators give .* residents; the graph has 0"):
        validate(CHAIN, PLAN, operators=operators)


@pytest.mark.parametrize("repeats", [1.5, "3", True])
def test_repeats_are_a_whole_number(repeats):
    with pytest.raises(refusal(repeats, ValueError), match=r"repeats is .*; give a whole number"):
        validate(CHAIN, PLAN, repeats=repeats)


def test_long_times_are_told_in_seconds():
    found = validate(CHAIN, PLAN, repeats=1)
    found = replace(found, seconds=found.seconds * 0 + 2, seconds_predicted=found.seconds_predicted * 0 + 1e-5)
    steps = len(PLAN.schedule)
    assert dict(found.rows())["time"].startswith(f"{2 * steps} s, median of 1 timed run; {steps * 10} us predicted")


@pytest.mark.parametrize("name", ["seconds", "seconds_predicted"])
@pytest.mark.parametrize("other", [lambda times: times * 1j, lambda times: times.astype(str) + "s", lambda times: None])
def test_times_are_real_numbers(name, other):
    found = validate(CHAIN, PLAN, repeats=1)
    with pytest.raises(
        (TypeError, ValueError), match=r"seconds are .*; give an array of numbers|seconds have shape \(\)"
    ):
        replace(found, **{name: other(getattr(found, name))})
