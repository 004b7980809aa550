"""Policies of tensors: what a plan keeps, recomputes and offloads."""

import json
import pickle

import pytest

import remat_algos as ra
from remat_algos.cost.links import Link
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Labels

NAMES = (*(f"layers.{i}.{part}" for i in range(4) for part in ("attention.qk", "mlp.up", "mlp.down")), "loss")


def trained(**costs):
    """A chain of four layers and a loss, differentiated."""
    labels = Labels(names=NAMES, compute_unit="us")
    edges = [(i, i + 1) for i in range(len(NAMES) - 1)]
    return ra.differentiate(ComputationGraph.from_edges(edges, labels=labels, **costs))


@pytest.fixture(scope="module")
def offloaded():
    """A plan that keeps, recomputes and offloads."""
    n = len(NAMES)
    graph = trained(memory=[1000 + 10 * i for i in range(n)], compute=[10 + i % 3 for i in range(n)])
    link = Link(4e7, 4e7, latency=0)
    return ra.solve(graph, "45%", link=link, effort="fast")


def decisions_of(plan):
    """By hand: value -> decision, from the actions."""
    graph, found, made, recomputed, loaded = plan.graph, {}, set(), set(), set()
    backward = False
    live = set()
    for deed, x in plan.actions():
        if deed == "compute":
            if not graph.forward[x] and not backward:
                backward = True
                found.update((value, "keep") for value in live)
            values = set(graph.values(x))
            recomputed |= values & made
            made |= values
            live |= values
        elif deed == "free":
            live.discard(x)
        elif deed == "load":
            loaded.add(x)
            live.add(x)
    return {**found, **dict.fromkeys(recomputed, "recompute"), **dict.fromkeys(loaded, "offload")}


def test_every_tensor_has_the_decision_that_its_actions_show(offloaded):
    policy, graph = offloaded.policy(), offloaded.graph
    expected = {graph.value_name(x): decision for x, decision in decisions_of(offloaded).items()}
    assert {each.name: each.decision for each in policy.treatments} == expected
    assert {each.decision for each in policy.treatments} >= {"recompute", "offload"}
    for each in policy.treatments:
        assert each.decision == "recompute" or each.compute == 0 or each.decision == "offload"


def test_tensors_together_cost_what_the_plan_does(offloaded):
    graph, played = offloaded.graph, offloaded.timeline
    copied = int((played.store_end - played.store_begin).sum() + (played.load_end - played.load_begin).sum())
    treatments = offloaded.policy().treatments
    assert sum(each.compute for each in treatments) == offloaded.overhead  # each node has one value
    assert sum(round(each.copies * played.ticks) for each in treatments) == copied
    offloads = sum(each.memory for each in treatments if each.decision == "offload")
    assert offloads == graph.memory[offloaded.simulation.stores].sum()


@pytest.mark.parametrize("solver", ["chen_sqrt", "search", "no_remat"])
def test_without_a_link_nothing_is_offloaded(solver):
    plan = ra.solve(trained(), "70%" if solver != "no_remat" else None, solver=solver, effort="fast")
    policy = plan.policy()
    assert {each.name: each.decision for each in policy.treatments} == {
        plan.graph.value_name(x): decision for x, decision in decisions_of(plan).items()
    }
    assert sum(each.copies for each in policy.treatments) == 0
    assert sum(each.compute for each in policy.treatments) == plan.overhead


def test_the_record_is_json_with_the_lists_first(offloaded):
    record = json.loads(json.dumps(offloaded.policy().record()))
    assert [key for key in record if isinstance(record[key], list)] == ["keep", "recompute", "offload", "tensors"]
    assert record["compute_unit"] == "us"
    for each in record["tensors"]:
        assert each["name"] in record[each["decision"]]
        assert each["memory"] == offloaded.graph.memory[offloaded.graph.value_id(each["name"])]
    assert json.loads(offloaded.text("policy")) == offloaded.policy().record()
    assert pickle.loads(pickle.dumps(offloaded.policy())).record() == offloaded.policy().record()


def test_values_of_one_node_share_its_price():
    labels = Labels(names=("a.norm", "a.use"))
    graph = ComputationGraph.from_arrays(
        value_indptr=[0, 2, 3], read_indptr=[0, 0, 2], read_indices=[0, 1], compute=[7, 1], labels=labels
    )
    simulation = ra.simulate(graph, [0, 0, 1])
    plan = ra.Plan(graph, ra.Budget(), None, simulation, "hand", "hand", {}, None, 0.0)
    assert [each.compute for each in plan.policy().treatments] == [7, 7]


def test_remat_solve_prints_a_policy(remat):
    printed = remat("solve", "model:vgg16", "--budget", "80%", "--solver", "chen_sqrt", "--format", "policy")
    assert printed.code == 0
    assert printed.record["tensors"]
