"""Policies per block: the simulation, and the cheapest one, against all policies by hand."""

import json
import pickle
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos.cost.links import Link
from remat_algos.errors import ArgumentError
from remat_algos.ir.parts import Backward, Labels
from remat_algos.plan.blocks import DECISIONS, Blocks, Holds, block_schedule
from remat_algos.plan.policy import Policy, every_nth
from tests.oracles import block_policies as oracle
from tests.raising import raises

UNSAVED = np.zeros((4, 0), np.int32)
LINK = Link(1e9, 1e9, latency=0, share=1.0)  # a byte takes 1 ns


def every(graph, blocks, n, **options):
    return Policy.of(graph, blocks, every_nth(blocks, n), **options)


@st.composite
def models(draw, blocks=(2, 3), operators=(3, 4), equal=None, large=6):
    """A training graph of a few blocks in a row, with a node before and after them."""
    equal = draw(st.booleans()) if equal is None else equal
    count = draw(st.integers(*blocks))

    def layer():
        size = draw(st.integers(*operators))
        rows = []
        for i in range(size):
            before = sorted(draw(st.sets(st.integers(-1, i - 1), min_size=1, max_size=2)))
            costs = [draw(st.integers(1, large)), draw(st.integers(0, large)), draw(st.sampled_from([0, 0, 2]))]
            rows.append((before if i else [-1], *costs, draw(st.integers(0, 9)) == 0, draw(st.integers(0, 9)) == 0))
        return rows

    layers = [layer()] * count if equal else [layer() for _ in range(count)]
    names, edges, memory, compute, workspace, once = ["first"], [], [draw(st.integers(1, large))], [1], [0], [False]
    for b, rows in enumerate(layers):
        start = len(names) - 1
        for i, (before, size, cost, scratch, single, skips) in enumerate(rows):
            edges += {(start + 1 + u, len(names)) for u in before} | ({(0, len(names))} if skips else set())
            workspace.append(scratch)
            once.append(single)
            names.append(f"layers.{b}.op{i}")
            memory.append(size)
            compute.append(cost)
    edges.append((len(names) - 1, len(names)))
    names.append("loss")
    graph = ra.ComputationGraph.from_edges(
        edges,
        memory=[*memory, 1],
        compute=[*compute, 1],
        workspace=[*workspace, 0],
        once=[*once, False],
        labels=Labels(names=tuple(names), compute_unit="ns"),
    )
    return ra.differentiate(graph)


def mask(graph, chosen):
    found = np.zeros(graph.n_nodes, bool)
    found[list(chosen)] = True
    return found


def cut(graph):
    return Blocks.of(graph, "layers.*")


# ---------------------------------------------------------------- the simulation


@given(graph=models(), data=st.data())
@settings(max_examples=100)
def test_the_simulation_has_the_bytes_that_eager_pytorch_has(graph, data):
    blocks = cut(graph)
    decisions = data.draw(st.lists(st.sampled_from(DECISIONS), min_size=len(blocks), max_size=len(blocks)))
    decisions = ["keep" if trigger < 0 else each for trigger, each in zip(blocks.trigger, decisions, strict=True)]
    saved = data.draw(st.sets(st.sampled_from(np.concatenate(blocks.members).tolist())))
    policy = Policy.of(graph, blocks, decisions, mask(graph, saved), link=LINK)
    assert (policy.peak_memory, policy.overhead) == oracle.eager_run(graph, blocks, decisions, saved)
    assert policy.overhead == sum(each.compute + each.copies for each in policy.treatments)


@given(graph=models(), data=st.data())
def test_longer_lives_only_add_to_the_simulation_of_the_order(graph, data):
    blocks = cut(graph)
    saved = mask(graph, data.draw(st.sets(st.sampled_from(np.concatenate(blocks.members).tolist()))))
    decisions = ["recompute"] * len(blocks)
    schedule = block_schedule(graph, blocks, decisions, saved)
    plain = ra.simulate(graph, schedule.order)
    longer = ra.simulate(graph, schedule)
    assert (longer.memory_trace >= plain.memory_trace).all()
    if not (longer.lifetimes.end > plain.lifetimes.end).any():
        assert np.array_equal(longer.memory_trace, plain.memory_trace)
    assert not block_schedule(graph, blocks, decisions, saved, "graph").lingering.size


def chain():
    """Two blocks of two operators, of 8 and 1 bytes each; gradients read all values."""
    names = ("first", *(f"layers.{b}.{part}" for b in range(2) for part in ("wide", "narrow")), "loss")
    graph = ra.ComputationGraph.from_edges(
        [(i, i + 1) for i in range(5)], memory=[1, 8, 1, 8, 1, 1], labels=Labels(names=names)
    )
    return ra.differentiate(graph)


def test_what_python_and_autograd_refer_to_lives_longer():
    graph, nothing = chain(), np.full(12, -1)
    blocks = cut(graph)
    none = np.zeros(12, bool)

    def trace(live_until=nothing, saved=UNSAVED):
        schedule = block_schedule(graph, blocks, ["recompute"] * 2, none, holds=Holds(live_until, saved))
        return schedule.order.tolist(), ra.simulate(graph, schedule).memory_trace

    def longer(**holds):
        """Bytes by which holds raise the live memory, and the nodes that run meanwhile."""
        more = trace(**holds)[1] - base
        return set(more[more != 0].tolist()), [(step, order[step]) for step in np.flatnonzero(more).tolist()]

    order, base = trace()
    local, until = 1, 4  # layers.0.wide is a local variable until the end of layers.1
    live_until = nothing.copy()
    live_until[local] = until
    assert longer(live_until=live_until) == ({8}, [(3, 3), (4, 4)])
    wide, inside, outside = 3, blocks.members[1][0], -1  # layers.1.wide, whose gradients read it before node 10
    first, again = (step for step, v in enumerate(order) if v == wide)
    size, steps = longer(saved=[[wide], [inside], [11], [10]])
    assert size == {8}
    assert steps[0][0] > again  # that of the rerun, not the first one
    assert steps[-1][1] == 10  # until a gradient has freed what it unpacked
    _, steps = longer(saved=[[wide], [outside], [11], [10]])
    assert first < steps[0][0] < again  # the reference is to the first one
    assert steps[-1][1] == 11
    # a branch without gradient, dropped after its last node in the forward part and in the rerun
    assert longer(saved=[[wide], [inside], [until], [until]])[1] == []


def test_an_input_on_the_host_is_not_on_the_device_too():
    graph, nothing = chain(), np.full(12, -1)
    blocks, saved = cut(graph), np.zeros(12, bool)
    (x,) = blocks.inputs[1].tolist()

    def instances(**holds):
        lives = Holds(**{"live_until": nothing, "saved": UNSAVED} | holds)
        schedule = block_schedule(graph, blocks, ["recompute", "offload"], saved, holds=lives)
        found = ra.simulate(graph, schedule).lifetimes
        order = schedule.order.tolist()
        (loaded,) = schedule.loads[:, 0].tolist()
        return order, loaded, found.end[found.value == x].tolist()

    order, loaded, (first, again) = instances()
    assert first == order.index(blocks.members[1][-1])  # its reader in the block is the one before
    taken = [[x], [blocks.members[1][0]], [order[-1]], [order[-1]]]
    assert instances(saved=taken)[2] == [first, len(order)]  # autograd refers to the copy that was loaded
    until = nothing.copy()
    until[x] = blocks.members[1][-1]
    assert instances(live_until=until)[2] == [first + 1, again]  # a variable of the caller, in the forward part
    assert loaded > first + 1


def test_an_input_that_autograd_has_for_a_block_without_checkpoint_stays_on_the_device():
    graph = chain()
    blocks, nothing = cut(graph), np.zeros(12, bool)
    for first, second in (("recompute", "offload"), ("keep", "recompute")):
        policy = Policy.of(graph, blocks, [first, "offload"], nothing)
        assert [each.decision for each in policy.treatments] == [first, second]
        assert policy.simulation.schedule.loads[:, 1].tolist() == (blocks.inputs[1].tolist() if first != "keep" else [])
    compiled = Policy.of(graph, blocks, ["keep", "offload"], nothing, semantics="graph")
    assert compiled.simulation.schedule.loads[:, 1].tolist() == blocks.inputs[1].tolist()


# ---------------------------------------------------------------- the cheapest policy


def exact(graph, semantics="eager", blocks=None, link=None):
    """Limits, the overhead of the policy within each, and the least of all policies."""
    blocks = cut(graph) if blocks is None else blocks

    def graph_run(graph, blocks, decisions, saved):
        found = ra.simulate(graph, block_schedule(graph, blocks, decisions, mask(graph, saved), "graph"))
        return found.peak_memory, found.overhead

    run = oracle.eager_run if semantics == "eager" else graph_run
    best = oracle.frontier(graph, blocks, run, link is not None, getattr(link, "host", None))
    for (peak, cost), (following, _) in zip(best, [*best[1:], (best[-1][0] + 1, 0)], strict=True):
        for limit in {peak, following - 1}:
            policy = ra.plan_policy(graph, limit, blocks, semantics=semantics, link=link)
            assert policy.peak_memory <= limit
            yield limit, policy.overhead, cost
    with raises(ra.BudgetError, reached=best[0][0]):
        ra.plan_policy(graph, best[0][0] - 1, blocks, semantics=semantics, link=link)
    assert ra.plan_policy(graph, "least", blocks, semantics=semantics, link=link).peak_memory == best[0][0]


@pytest.mark.parametrize("large", [6, 10**6], ids=["small", "large"])
@pytest.mark.parametrize("semantics", ["eager", "graph"])
@pytest.mark.parametrize("equal", [True, False], ids=["equal", "unequal"])
@given(data=st.data())
@settings(max_examples=12)
def test_no_policy_is_cheaper(semantics, equal, large, data):
    graph = data.draw(models(blocks=(2, 2), operators=(4, 5), equal=equal, large=large))
    for limit, overhead, cost in exact(graph, semantics):
        assert overhead == cost, limit


@pytest.mark.parametrize("semantics", ["eager", "graph"])
@given(graph=models(blocks=(3, 3), operators=(3, 3)))
@settings(max_examples=8)
def test_no_policy_of_three_blocks_is_cheaper(semantics, graph):
    for limit, overhead, cost in exact(graph, semantics):
        assert overhead == cost, limit


@given(graph=models(blocks=(2, 2), operators=(3, 3)))
@settings(max_examples=12)
def test_no_policy_with_copies_is_cheaper(graph):
    for limit, overhead, cost in exact(graph, link=LINK):
        assert overhead == cost, limit


def test_no_mix_of_options_is_cheaper_where_options_lengthen_each_other():
    names = ("first", *(f"layers.{b}.op{i}" for b in range(2) for i in range(3)), "loss")
    graph = ra.ComputationGraph.from_edges(
        [(0, 1), (1, 2), (2, 3), (1, 3), (3, 4), (4, 5), (4, 6), (5, 6), (6, 7)],
        memory=[1, 6, 1, 6, 6, 1, 6, 1],
        compute=[1, 0, 3, 5, 0, 3, 5, 1],
        once=[False, False, False, True, False, False, True, False],
        labels=Labels(names=names, compute_unit="ns"),
    )
    for limit, overhead, cost in exact(ra.differentiate(graph), link=LINK):
        assert overhead == cost, limit


@given(data=st.data())
@settings(max_examples=12)
def test_no_policy_within_the_bytes_of_the_host_is_cheaper(data):
    count = 3
    parts = ("in", "left", "right")
    names = ("first", "second", *(f"layers.{b}.{part}" for b in range(count) for part in parts), "loss")
    edges = [(3 * b + i, 3 * b + 2) for b in range(count) for i in (0, 1)]  # two inputs of each block
    edges += [(3 * b + 2, 3 * b + i) for b in range(count) for i in (3, 4)]
    edges += [(len(names) - 1 - i, len(names) - 1) for i in (1, 2)]
    costs = [data.draw(st.lists(st.integers(1, 9), min_size=len(names), max_size=len(names))) for _ in range(2)]
    graph = ra.ComputationGraph.from_edges(
        edges, memory=costs[0], compute=costs[1], labels=Labels(names=names, compute_unit="ns")
    )
    zeros = [0] * len(names)
    saves_reads = Backward(graph.read_indptr, graph.read_indices, graph.memory, [-1] * len(names), zeros)
    graph = ra.differentiate(replace(graph, backward=saves_reads))
    blocks = cut(graph)
    assert [inputs.size for inputs in blocks.inputs] == [2, 2, 2]
    link = replace(LINK, host=data.draw(st.integers(1, 40)))
    for limit, overhead, cost in exact(graph, blocks=blocks, link=link):
        assert overhead == cost, limit


@given(graph=models(blocks=(2, 2), operators=(4, 4)), data=st.data())
@settings(max_examples=20)
def test_draws_and_what_must_not_be_saved_are_respected(graph, data):
    blocks = cut(graph)
    members = np.concatenate(blocks.members).tolist()
    draws = sorted(data.draw(st.sets(st.sampled_from(members), max_size=4)) - set(np.flatnonzero(graph.once)))
    fixed = sorted(data.draw(st.sets(st.sampled_from(members), max_size=2)) - set(np.flatnonzero(graph.once)))
    refusals = {0: "it is changed in place"} if data.draw(st.booleans()) else {}
    blocks = replace(blocks, draws=draws, fixed=fixed, refusals=refusals)
    assume(not any(graph.once[v] for v in members))
    for limit, overhead, cost in exact(graph, blocks=blocks):
        assert overhead == cost, limit


@pytest.mark.parametrize("semantics", ["eager", "graph"])
@given(graph=models(blocks=(3, 6), operators=(4, 11)))
@settings(max_examples=12)
def test_more_budget_never_costs_more_and_no_policy_is_below_the_bound(semantics, graph):
    base = ra.simulate(graph, np.flatnonzero(graph.needed)).peak_memory
    least = ra.plan_policy(graph, "least", "layers.*", semantics=semantics).peak_memory
    previous = None
    for limit in np.linspace(least, base, 6).astype(int).tolist():
        policy = ra.plan_policy(graph, limit, "layers.*", semantics=semantics)
        assert policy.peak_memory <= limit
        assert graph.needed_compute + policy.overhead >= policy.bound.amount
        assert policy.gap >= 0
        assert previous is None or policy.overhead <= previous
        previous = policy.overhead
    assert previous == 0


ROOFLINE = "cost=roofline&device=h100-sxm&dtype=bfloat16"
VIT = "encoder.layers.*|encoder.layers.*.self_attention,encoder.layers.*.mlp"
VIT += "|encoder.layers.*.self_attention.attention,encoder.layers.*.mlp"


@pytest.mark.parametrize(
    ("model", "blocks", "points"),
    [
        ("llama_7b", "layers.*", {"graph": 0.7, "eager": 2.5}),
        ("mixtral_8x7b", "layers.*", {"graph": 0.7, "eager": 2.5}),
        ("gpt2_xl", "h.*", {"graph": 0.7}),
        ("vit_h_14", VIT, {"graph": 0.7, "eager": 2.5}),
    ],
)
def test_a_policy_is_near_the_bound_of_every_schedule(model, blocks, points):
    graph = ra.differentiate(f"model:{model}?{ROOFLINE}")
    for semantics, most in points.items():
        for budget in ("80%", "50%", "35%", "25%"):
            policy = ra.plan_policy(graph, budget, blocks, semantics=semantics)
            extra = policy.overhead - (policy.bound.amount - graph.needed_compute)
            assert 100 * extra / graph.needed_compute <= most, (semantics, budget)


@pytest.mark.parametrize("semantics", ["eager", "graph"])
def test_a_policy_costs_less_than_what_is_set_today(semantics):
    ratios = []
    for model, part in (("llama_7b", "mlp"), ("mixtral_8x7b", "moe")):
        graph = ra.differentiate(f"model:{model}?{ROOFLINE}")
        for n in (1, 2, 4):
            today = every(graph, cut(graph), n, semantics=semantics)
            pattern = f"layers.*|layers.*.self_attn,layers.*.{part}"
            policy = ra.plan_policy(graph, today.peak_memory, pattern, semantics=semantics)
            ratios.append(policy.overhead / today.overhead)
    assert max(ratios) <= 1
    assert np.exp(np.mean(np.log(ratios))) <= 0.6


@pytest.mark.parametrize(("depth", "equal", "most"), [(32, True, 2.0), (50, False, 5.0)])
def test_a_policy_is_found_in_seconds(depth, equal, most):
    graph = ra.differentiate(f"model:llama_7b?depth={depth}&{ROOFLINE}")
    if not equal:
        noise = np.random.default_rng(0).uniform(0.5, 2, (2, graph.n_values))
        memory, compute = graph.memory * noise[0], graph.compute * noise[1, : graph.n_nodes]
        graph = graph.with_costs(memory=memory.astype(int), compute=compute.astype(int))
    assert len(set(cut(graph).kinds.tolist())) == (1 if equal else depth)
    begun = time.process_time()
    _ = ra.plan_policy(graph, "50%", "layers.*").bound
    assert time.process_time() - begun <= most


# ---------------------------------------------------------------- types, files, errors


@pytest.fixture(scope="module")
def llama():
    return ra.differentiate(f"model:llama_7b?depth=4&{ROOFLINE}")


def test_blocks_are_cut_by_module_paths(llama):
    blocks = Blocks.of(llama, "layers.*")
    assert blocks.names == tuple(f"layers.{b}" for b in range(4))
    assert blocks.kinds.tolist() == [0, 0, 0, 0]
    assert {llama.labels[v].split(".")[1] for v in blocks.members[2].tolist()} == {"2"}
    parts = Blocks.of(llama, "layers.*.self_attn, layers.*.mlp")
    assert len(parts) == 8
    assert parts.names[:2] == ("layers.0.self_attn", "layers.0.mlp")
    assert len(set(parts.kinds.tolist())) == 2
    assert (blocks.trigger < blocks.release).all()
    assert (np.diff(blocks.trigger) < 0).all()


@pytest.mark.parametrize("again", ["layers.*,layers.*", "layers.*,layers.0", ["layers.1", "layers.*"]])
def test_a_block_that_two_patterns_name_is_one(llama, again):
    once, twice = Blocks.of(llama, "layers.*"), Blocks.of(llama, again)
    assert once.names == twice.names
    assert [a.tolist() for a in once.members] == [a.tolist() for a in twice.members]


def test_members_ascend_and_are_of_one_block(llama):
    blocks = Blocks.of(llama, "layers.*")
    first, second, *others = blocks.members
    for wrong in (first[::-1], np.append(first[0], first)):
        with raises(ra.PlanError, name="layers.0"):
            replace(blocks, members=(wrong, second, *others))
        with raises(ra.PlanError, name="layers.0"):
            Blocks.from_members(llama, blocks.names, (wrong, second, *others))
    with raises(ra.PlanError, node=int(first[-1])):
        Blocks.from_members(llama, blocks.names, (first, np.append(first[-1], second), *others))


@pytest.mark.parametrize("pattern", ["", "layers.*,", ",layers.*", "layers.*|", ["layers.*", " "]])
def test_an_empty_pattern_is_refused(llama, pattern):
    with pytest.raises(ra.PlanError, match="empty part"):
        ra.plan_policy(llama, "60%", pattern)


def test_an_unequal_block_has_a_kind_of_its_own(llama):
    compute = llama.compute.copy()
    compute[llama.node_id("layers.2.mlp.silu")] += 1
    assert Blocks.of(llama.with_costs(compute=compute), "layers.*").kinds.tolist() == [0, 0, 1, 0]


def test_equal_neighbours_are_one_row(llama):
    policy = every(llama, Blocks.of(llama, "layers.*"), 1)
    assert [row[:3] for row in policy.rows()] == [("layers.0 to layers.3 (4)", "recompute", "none")]
    assert len(list(every(llama, Blocks.of(llama, "layers.*"), 2).rows())) == 4
    parts = every(llama, Blocks.of(llama, "layers.*.self_attn,layers.*.mlp"), 1)
    assert [row[0] for row in parts.rows()] == [
        "layers.0.self_attn to layers.3.self_attn (4)",
        "layers.0.mlp to layers.3.mlp (4)",
    ]
    labels = [line.split("  ")[0] for line in str(policy).splitlines()]
    assert labels[-4:] == ["peak", "overhead", "bound", "gap"]


@pytest.mark.parametrize("semantics", ["eager", "graph"])
def test_a_saved_policy_is_simulated_again(llama, tmp_path, semantics):
    policy = ra.plan_policy(llama, "50%", "layers.*", semantics=semantics, link="pcie5")
    policy.save(tmp_path / "policy.json")
    again = Policy.load(tmp_path / "policy.json", llama)
    assert again.treatments == policy.treatments
    assert again.record() == policy.record()
    assert pickle.loads(pickle.dumps(policy)).record() == policy.record()
    record = json.loads((tmp_path / "policy.json").read_text())
    (tmp_path / "false.json").write_text(json.dumps(record | {"peak_memory": record["peak_memory"] - 1}))
    with raises(ra.PlanError, name="peak_memory", found=record["peak_memory"]):
        Policy.load(tmp_path / "false.json", llama)
    with pytest.raises(ra.PlanError):
        Policy.load(tmp_path / "policy.json", chain())


def _without(name):
    return lambda record: record.pop(name)


def _row(**entries):
    return lambda record: record["blocks"][0].update(entries)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        *((_without(name), name) for name in ("graph_hash", "semantics", "limit", "peak_memory", "overhead")),
        (lambda record: record.update(semantics="lazy"), "lazy"),
        (lambda record: record.update(semantics=["eager"]), "eager or graph"),
        (lambda record: record.update(limit="abc"), "abc"),
        (lambda record: record.update(limit=5), "limit of 5 B"),
        (lambda record: record.update(peak_memory=True), "peak_memory"),
        (lambda record: record.update(overhead="1"), "overhead"),
        (lambda record: record.update(blocks={}), "list of blocks"),
        (lambda record: record.update(blocks=[]), "list of blocks"),
        (lambda record: record.update(link=5), "link"),
        (lambda record: record["blocks"].__setitem__(0, "x"), "name"),
        (lambda record: record["blocks"][0].pop("name"), "name"),
        (lambda record: record["blocks"][0].pop("decision"), "decision"),
        (lambda record: record["blocks"].append(record["blocks"][0]), "not those of the graph"),
        (lambda record: record["blocks"].pop(), "claims"),
        (_row(name=3), "module path"),
        (_row(name="layers.*"), "not those of the graph"),
        (_row(decision="bogus"), "bogus"),
        (_row(decision=None), "decision"),
        (_row(saved="self_attn.q_proj"), "self_attn.q_proj"),
        (_row(saved=["no_such"]), "no_such"),
        (_row(saved=[3]), "saved"),
        (_row(saved=[["mlp.up"]]), "mlp.up"),
    ],
)
def test_a_damaged_policy_is_refused_in_a_sentence(llama, tmp_path, damage, said):
    ra.plan_policy(llama, "50%", "layers.*", link="pcie5").save(tmp_path / "policy.json")
    record = json.loads((tmp_path / "policy.json").read_text())
    damage(record)
    (tmp_path / "policy.json").write_text(json.dumps(record))
    with pytest.raises(ra.PlanError) as caught:
        Policy.load(tmp_path / "policy.json", llama)
    assert said in str(caught.value)
    assert str(caught.value).startswith("policy.json: ")
    assert "\n" not in str(caught.value)


def test_semantics_and_decisions_are_known_words(llama):
    plan = ra.solve(llama, "60%", effort="fast")
    blocks, nothing = Blocks.of(llama, "layers.*"), mask(llama, [])
    for refused in (
        lambda: plan.policy("layers.*", "lazy"),
        lambda: Policy.of(llama, blocks, ["recompute"] * 4, nothing, semantics="lazy"),
        lambda: every(llama, blocks, 2, semantics="lazy"),
    ):
        with raises(ArgumentError, semantics="lazy"):
            refused()
    with raises(ArgumentError, name="layers.1", decision="bogus"):
        Policy.of(llama, blocks, ["recompute", "bogus", "keep", "keep"], nothing)


def test_blocks_of_which_nothing_runs_again_may_be_offloaded(llama):
    blocks = Blocks.of(llama, "layers.*")
    kept, offloaded = (
        Policy.of(llama, blocks, [each] * 4, llama.forward.copy(), semantics="graph", link=LINK)
        for each in ("keep", "offload")
    )
    assert offloaded.simulation.overhead == 0
    assert offloaded.overhead > 0
    assert offloaded.simulation.peak_memory <= kept.simulation.peak_memory


def test_the_host_has_room_for_what_goes_there(llama):
    blocks = Blocks.of(llama, "layers.*")
    free = ra.plan_policy(llama, "least", blocks, link="nvlink-c2c")
    assert free.simulation.host_peak > 17 << 20
    with raises(ra.PlanError, host=1):
        Policy.of(llama, blocks, ["offload"] * 4, mask(llama, []), link=replace(free.link, host=1))


def with_costs_of_a_chain(parts, **costs):
    """Three blocks of operators in a row; costs by the part of an operator, 1 where none is given."""
    names = ("first", *(f"layers.{b}.{part}" for b in range(3) for part in parts), "loss")
    arrays = {
        what: [by_part.get(name.rpartition(".")[2], int(what != "workspace")) for name in names]
        for what, by_part in costs.items()
    }
    edges = [(i, i + 1) for i in range(len(names) - 1)]
    return ra.differentiate(ra.ComputationGraph.from_edges(edges, labels=Labels(names=names), **arrays))


@pytest.mark.parametrize("semantics", ["eager", "graph"])
@pytest.mark.parametrize("more", [0, 9])
def test_an_operator_of_cost_0_is_saved_where_its_workspace_is_the_peak(semantics, more):
    parts = ("wide", "free", *(f"more{i}" for i in range(more)), "tail")
    graph = with_costs_of_a_chain(
        parts, memory={"wide": 30, "free": 2, "tail": 30}, compute={"free": 0}, workspace={"free": 100}
    )
    blocks = cut(graph)
    free = [v for v in np.concatenate(blocks.members).tolist() if graph.labels[v].endswith("free")]
    runs_again, stays = (
        Policy.of(graph, blocks, ["recompute"] * 3, mask(graph, saved), semantics=semantics) for saved in ([], free)
    )
    assert stays.peak_memory < runs_again.peak_memory
    least = ra.plan_policy(graph, "least", blocks, semantics=semantics)
    assert least.peak_memory <= stays.peak_memory


@pytest.mark.parametrize("semantics", ["eager", "graph"])
@given(graph=models(blocks=(2, 5), operators=(3, 9)), data=st.data())
@settings(max_examples=30)
def test_no_uniform_policy_is_lower_or_cheaper(semantics, graph, data):
    blocks, n = cut(graph), graph.n_nodes
    holds = None
    if semantics == "eager":
        nodes, members = st.lists(st.integers(0, n - 1), min_size=n, max_size=n), np.concatenate(blocks.members)
        live_until, place, kept, again = (np.array(data.draw(nodes)) for _ in range(4))
        holds = Holds(live_until - 1, [np.arange(n), np.where(np.isin(place, members), place, -1), kept, again])
    least = ra.plan_policy(graph, "least", blocks, semantics=semantics, holds=holds)
    for each in (1, 2, 4):
        today = every(graph, blocks, each, semantics=semantics, holds=holds)
        assert least.peak_memory <= today.peak_memory
        within = ra.plan_policy(graph, today.peak_memory, blocks, semantics=semantics, holds=holds)
        assert within.overhead <= today.overhead


def test_an_operator_of_cost_0_spares_those_before_it(tmp_path):
    names = ("first", *(f"layers.{b}.{part}" for b in range(3) for part in ("dear", "free", "wide", "tail")), "loss")
    nodes = [
        {
            "name": name,
            "compute": 100 if name.endswith("dear") else 0 if name.endswith("free") else 1,
            "reads": list(names[max(0, i - 1) : i]),
            "values": [{"memory": 40 if name.endswith(("dear", "wide")) else 2, "output": name == "loss"}],
            "saved": list(names[max(0, i - 1) : i]) if name.endswith(("wide", "tail", "loss")) else [],
        }
        for i, name in enumerate(names)
    ]
    file = tmp_path / "graph.json"
    file.write_text(json.dumps({"format": "remat-graph", "version": 1, "nodes": nodes}))
    graph = ra.differentiate(str(file))
    for limit, overhead, cost in exact(graph, "graph"):
        assert overhead == cost, limit


def test_the_policy_nearest_to_a_plan_saves_what_the_plan_keeps(llama):
    plan = ra.solve(llama, "60%", effort="fast")
    policy = plan.policy(blocks="layers.*")
    kept = {llama.value_name(x) for x, _ in plan.saved}
    for each in policy.treatments:
        again = {
            llama.labels[v] for v in np.flatnonzero(plan.simulation.runs > 1) if llama.labels[v].startswith(each.name)
        }
        assert (each.decision == "keep") == (not again)
        assert {f"{each.name}.{operator}" for operator in each.saved} <= kept
    assert policy.overhead >= plan.overhead * 0.9
    assert policy.peak_memory <= llama_peak(llama)


def llama_peak(graph):
    return ra.simulate(graph, np.flatnonzero(graph.needed)).peak_memory


def test_of_several_cuts_the_cheapest_is_taken(llama):
    cuts = ("layers.*", "layers.*.self_attn,layers.*.mlp")
    alone = [ra.plan_policy(llama, "70%", each).overhead for each in cuts]
    assert ra.plan_policy(llama, "70%", "|".join(cuts)).overhead == min(alone)
    deep = "10%"  # for which the second cut is too coarse
    with pytest.raises(ra.BudgetError):
        ra.plan_policy(llama, deep, "|".join(cuts))


def test_what_is_no_block(llama):
    with raises(ra.PlanError, pattern="blocks.*", modules=["layers.*", "layers.*.self_attn", "layers.*.mlp", "head"]):
        ra.plan_policy(llama, "50%", "blocks.*")
    with raises(ra.PlanError, one="layers.0", other="layers.0.mlp"):
        ra.plan_policy(llama, "50%", "layers.*,layers.*.mlp")
    names = ("a.one", "b.one", "a.two", "loss")
    graph = ra.ComputationGraph.from_edges([(0, 1), (1, 2), (0, 2), (2, 3)], labels=Labels(names=names))
    with raises(ra.PlanError, block="a", node="b.one"):
        ra.plan_policy(ra.differentiate(graph), "50%", "a")
    with pytest.raises(ra.PlanError, match="backward part"):
        ra.plan_policy(graph, "50%", "b")
    plain = ra.differentiate(ra.ComputationGraph.from_edges([(0, 1), (1, 2)]))
    with raises(ra.PlanError, pattern="layers.*", modules=[]):
        ra.plan_policy(plain, "50%", "layers.*")
    with raises(ArgumentError, overhead="10%"):
        ra.plan_policy(llama, ra.Budget("50%", overhead="10%"), "layers.*")
    with pytest.raises(ValueError, match="semantics"):
        ra.plan_policy(llama, "50%", "layers.*", semantics="lazy")
    with pytest.raises(ValueError, match="holds"):
        ra.plan_policy(llama, "50%", "layers.*", holds=Holds([-1], UNSAVED))


def test_a_budget_may_count_residents_or_be_near_the_lowest(llama):
    resident = llama.resident_memory
    limit = llama_peak(llama) // 2
    policy = ra.plan_policy(llama, ra.Budget(device=limit + resident), "layers.*")
    assert policy.limit == limit
    lowest, near = (ra.plan_policy(llama, budget, "layers.*") for budget in ("least", "least+10%"))
    assert lowest.limit is None
    assert lowest.peak_memory <= near.peak_memory <= lowest.peak_memory * 1.1
    assert near.overhead < lowest.overhead


def test_a_block_that_is_refused_is_kept(llama):
    blocks = replace(Blocks.of(llama, "layers.*"), refusals={1: "it changes a value in place"})
    policy = ra.plan_policy(llama, "60%", blocks)
    assert policy.treatments[1].decision == "keep"
    assert every(llama, blocks, 1).treatments[1].decision == "keep"
    with raises(ra.PlanError, name="layers.1"):
        Policy.of(llama, blocks, ["recompute"] * 4, mask(llama, []))
