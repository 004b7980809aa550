"""Every command that searches has a time limit, and keeps it."""

import argparse
import importlib
import inspect
import re

import numpy as np
import pytest

from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.sharing import colour, share_storage
from remat_algos.bounds.memory import least_peak_bound, one_pass_bound
from remat_algos.cli.main import HELPS
from remat_algos.context import Clock, Stop, until_stopped
from remat_algos.formats.graph_files import write_graph
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.questions import tuning
from remat_algos.questions.compare import compare
from remat_algos.questions.fit import fit
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.one_pass import lower_passes
from remat_algos.search.solve import solve
from remat_algos.structure import treewidth
from remat_algos.structure.elimination import UndirectedGraph
from remat_algos.zoo.random import chain, layered_dag

WITHOUT = {"sweep"}  # it limits each job by --timeout
SEARCHES = {
    "solve": ["graph.json", "--budget", "least"],
    "compare": ["graph.json", "--budget", "100%"],
    "frontier": ["graph.json"],
    "order": ["graph.json"],
    "bound": ["graph.json", "--budget", "90%,50%"],
    "fit": ["--model", "unet?depth=2", "--vary", "batch", "--memory", "4GiB", "--solver", "chen_sqrt,no_remat"],
    "allocate": ["graph.json"],
    "allocate sharing": ["graph.json", "--method", "sharing"],
    "allocate colouring": ["graph.json", "--method", "colouring"],
    "width": ["graph.json"],
    "explain": ["graph.json", "--solver", "chen_sqrt"],
    "run": ["graph.json", "--budget", "least", "--repeats", "1"],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_graph(layered_dag(16, width=3, seed=3), tmp_path / "graph.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def options(module):
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    return {word for action in parser._actions for word in action.option_strings}


def test_each_command_that_shows_progress_has_a_time_limit():
    commands = {name: importlib.import_module(f"remat_algos.cli.commands.{name}") for name in HELPS}
    searching = {
        name
        for name, module in commands.items()
        if re.search(r"progress_line\(|searching\(|search_clock\(", inspect.getsource(module))
    }
    assert searching - WITHOUT == {words.split()[0] for words in SEARCHES}
    assert {name for name, module in commands.items() if "--time-limit" in options(module)} == searching - WITHOUT


@pytest.mark.parametrize("name", SEARCHES)
def test_without_any_time_there_is_a_result(remat, folder, name):
    said = remat(name.split()[0], *SEARCHES[name], "--time-limit", "0", "--json")
    assert (said.code, said.err) == (0, "")
    assert said.record


def test_a_start_in_the_past_leaves_no_search(remat, folder):
    said = remat("order", "graph.json", "--time-limit", "0", "--json")
    assert said.record["complete"] is False
    assert said.record["peak_memory"] == said.record["peak_without_rematerialization"]
    assert "a longer search may find a lower peak" in remat("order", "graph.json", "--time-limit", "0").flat


def test_a_comparison_shares_its_time_among_the_solvers(monkeypatch):
    given = []
    seconds = Clock.seconds

    def shared(clock, part):
        given.append(part)
        return seconds(clock, part)

    monkeypatch.setattr(Clock, "seconds", shared)
    compare(differentiate(chain(8)), "80%", solvers=["no_remat", "chen_sqrt", "chen_greedy"], time_limit=600)
    assert given[0] == tuning.SEARCH_SHARE
    assert [part for part in given if part in (1 / 3, 1 / 2)][:2] == [1 / 3, 1 / 2]


def test_a_fit_without_time_tries_one_value_for_each_solver():
    found = fit(lambda depth: differentiate(chain(depth)), 9, solvers=["no_remat", "chen_sqrt"], time_limit=0)
    assert [(len(entry.tried), entry.stop) for entry in found] == [(1, Stop.DEADLINE)] * 2
    assert all(entry.at_least for entry in found)


def test_a_cut_fit_is_told_from_an_interrupted_one(remat):
    said = remat("fit", *SEARCHES["fit"], "--time-limit", "0")
    assert said.code == 0
    assert "time limit reached; these are the largest values found" in said.flat


def test_the_bound_of_one_pass_is_no_more_than_proven_where_its_time_is_over():
    edges = [(0, 1), (0, 2), (1, 3), (3, 4), (2, 4)]
    graph = ComputationGraph.from_edges(edges, memory=[3, 1, 2, 4, 1], workspace=[0, 0, 0, 5, 0])
    assert one_pass_bound(graph, Clock(0))[0] == least_peak_bound(graph)[0] == 10
    assert one_pass_bound(graph, Clock(600))[0] == 12
    assert one_pass_bound(graph, Clock(0))[0] == 12  # known


def test_a_bound_that_cannot_be_stopped_is_not_begun_without_the_time_for_it(monkeypatch):
    monkeypatch.setattr("remat_algos.bounds.tuning.READS_A_SECOND", 1e-6)
    graph = layered_dag(16, width=3, seed=3)
    assert one_pass_bound(graph, Clock(600))[0] == least_peak_bound(graph)[0]
    monkeypatch.undo()
    assert one_pass_bound(graph, Clock(600))[0] == one_pass_bound(graph)[0]  # nothing less was remembered


def test_orders_of_one_pass_begin_with_that_of_ids():
    graph, peaks = layered_dag(16, width=3, seed=3), list[int]()
    with until_stopped() as ending:
        for each in lower_passes(graph, Clock(0), np.random.SeedSequence(0)):
            peaks.append(each.peak_memory)
    assert ending.stop is Stop.DEADLINE
    assert peaks == [baseline(graph).peak_memory]


def test_sharing_without_time_is_that_of_one_range():
    buffers = Buffers.of(baseline(differentiate(layered_dag(30, width=4, seed=1))))
    found = share_storage(buffers, time_limit=0)
    found.verify()
    assert np.array_equal(found.offset, share_storage(buffers, 0).offset)


def test_colouring_is_not_begun_without_the_time_for_it(monkeypatch):
    buffers = Buffers.of(baseline(differentiate(chain(9))))
    assert colour(buffers, time_limit=0).method == colour(buffers).method
    monkeypatch.setattr("remat_algos.allocate.tuning.PAIRS_A_SECOND", 0)
    found = colour(buffers, time_limit=0)
    found.verify()
    assert found.method == "separate"


def test_a_width_without_the_time_for_contraction_is_bounded_by_the_minimum_degree(monkeypatch):
    graph = UndirectedGraph.of(layered_dag(40, width=5, seed=2))
    whole = treewidth.width_bounds(graph)
    monkeypatch.setattr("remat_algos.structure.tuning.CONTRACTED_A_SECOND", 0)
    monkeypatch.setattr(treewidth, "contraction_bound", lambda graph: pytest.fail("it was begun"))
    found = treewidth.width_bounds(graph, time_limit=600)
    assert found.lower_bound <= whole.lower_bound
    assert found.width >= whole.lower_bound


def test_no_time_at_all_gives_a_plan():
    graph = differentiate(chain(12))
    assert solve(graph, "least", time_limit=0).peak_memory <= baseline(graph).peak_memory
