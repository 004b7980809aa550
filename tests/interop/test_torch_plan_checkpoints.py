"""Plans of checkpoints by budget: the peak of a step, the blocks, and the forms of other runtimes."""

import contextlib
import copy
import pickle
from dataclasses import replace
from functools import partial
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

from remat_algos.errors import ArgumentError, ArgumentTypeError, BudgetError, PlanError
from remat_algos.interop import torch as remat
from remat_algos.interop.torch import selective
from remat_algos.interop.torch.checkpoints import _selected
from remat_algos.interop.torch.eager_capture import capture_step
from remat_algos.interop.torch.runtime_settings import RuntimeSetting, _chunks
from remat_algos.plan.blocks import DECISIONS
from remat_algos.plan.policy import Policy, Treatment
from tests.interop.test_torch_checkpoints import (
    ADDMM,
    AUTOCAST,
    MODELS,
    Attention,
    Block,
    Model,
    assert_same,
    gradients,
    ran_in,
)
from tests.interop.torch_step_peak import step_peak
from tests.raising import raises

X = torch.linspace(-1, 1, 1024 * 8).view(1024, 8)
WHOLE = {"nested", "shared"}
"""Models whose blocks can only be kept."""


@pytest.mark.parametrize("autocast", AUTOCAST)
@pytest.mark.parametrize("name", [*MODELS, "dropout"])
def test_a_plan_keeps_its_budget_and_the_gradients(name, autocast):
    torch.manual_seed(0)
    model = Model(draw=lambda: nn.Dropout(0.4)) if name == "dropout" else MODELS[name]()
    start = copy.deepcopy(model.state_dict())
    context = partial(torch.autocast, "cpu", torch.bfloat16) if autocast == "autocast" else contextlib.nullcontext

    def restored():
        model.load_state_dict(start)
        return model

    def step():
        return gradients(restored(), X, call=AUTOCAST[autocast](model))

    expected = step()
    whole = step_peak(restored(), (X,), context)
    for budget in ("80%", "least"):
        try:
            with context():
                plan = remat.plan_checkpoints(restored(), (X,), budget)
        except BudgetError:
            assert name in WHOLE
            continue
        assert budget == "least" or plan.peak_memory <= 0.8 * whole
        assert all(each.decision == "keep" for each in plan.treatments) == (name in WHOLE)
        assert ("refused" in str(plan)) == (name in WHOLE)
        with plan.apply(model):
            assert_same(step(), expected)
            peak = step_peak(restored(), (X,), context)
        assert peak <= plan.policy.peak_memory <= 1.03 * peak


def test_the_allocator_never_takes_more_than_predicted():
    model = Model(count=8, block=Block, width=64)
    x = torch.ones(4096, 64)
    for budget in ("100%", "70%", "least"):
        plan = remat.plan_checkpoints(model, (x,), budget)
        with plan.apply(model):
            peak = measured(model, x)
        assert peak - 64 <= plan.peak_memory <= 1.03 * peak  # an operator makes a scalar of its own


def measured(model, x):
    """Peak of the allocator in a step after another one."""

    def step():
        model.zero_grad(set_to_none=True)
        model(x).backward()

    step()
    model.zero_grad(set_to_none=True)
    return remat.measure_peak(step, [*model.parameters(), *model.buffers(), x]).allocator


class Sigmoid(nn.Module):
    """A block whose last operator saves its own result, the input of the next block."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x):
        return torch.sigmoid(self.down(torch.relu(self.up(x))))


def test_an_input_that_a_kept_block_saved_takes_bytes_of_the_device(monkeypatch):
    init = selective._HostCopy.__init__

    def uncounted(self, tensor):  # the host is not the device, though both are the CPU here
        with _disable_current_modes():
            init(self, tensor)

    monkeypatch.setattr(selective._HostCopy, "__init__", uncounted)
    model, x = nn.Sequential(*(Sigmoid() for _ in range(3)), nn.Linear(32, 1), nn.Flatten(0)), torch.ones(128, 32)
    captured = capture_step(model, (x,), loss=torch.mean, blocks="0,1,2")
    nothing, shown = np.zeros(captured.graph.n_nodes, bool), set()
    for decisions in product(DECISIONS, repeat=3):
        policy = Policy.of(captured.graph, captured.blocks, decisions, nothing, holds=captured.holds)
        treatments = _selected(policy, captured)
        shown |= {(before.decision, each.decision) for before, each in pairwise(treatments)}
        with remat.CheckpointPlan(treatments).apply(model):
            peak = step_peak(nn.Sequential(model, Mean()), (x,))
        assert peak <= policy.peak_memory <= 1.01 * peak, decisions
    assert ("recompute", "offload") in shown
    assert ("keep", "offload") not in shown


class Mean(nn.Module):
    def forward(self, x):
        return x.mean()


def test_what_a_plan_saves_does_not_run_again():
    torch.manual_seed(0)
    model = Model(count=4)
    plan = remat.plan_checkpoints(model, (X,), "75%")
    with plan.apply(model):
        products = ran_in(model).count(ADDMM)
    again = sum(
        2 - 1 - any("addmm" in operator for operator in each.saved)  # the last product of a block does not run again
        for each in plan.treatments
        if each.decision == "recompute"
    )
    assert products == 1 + 2 * 4 + again


def test_a_plan_for_one_batch_serves_others():
    torch.manual_seed(0)
    model = Model(Attention, count=4)
    plan = remat.plan_checkpoints(model, (X,), "60%")
    for x in (X[:512], torch.cat([X, X])):
        expected = gradients(model, x)
        with plan.apply(model):
            assert_same(gradients(model, x), expected)


def test_a_plan_of_a_model_on_meta_is_that_of_the_model():
    model = Model(count=4)
    plan = remat.plan_checkpoints(model, (X,), "70%")
    other = remat.plan_checkpoints(Model(count=4).to("meta"), (X.to("meta"),), "70%")
    assert other == plan
    expected = gradients(model, X)
    with pickle.loads(pickle.dumps(other)).apply(model):
        assert_same(gradients(model, X), expected)


def test_blocks_are_chosen_by_pattern():
    plan = remat.plan_checkpoints(Model(count=3), (X,), "least", blocks="layers.*.up, layers.*.down")
    assert [each.name for each in plan.treatments][:3] == ["layers.0.up", "layers.0.down", "layers.1.up"]
    with pytest.raises(PlanError):
        remat.plan_checkpoints(Model(), (X,), "80%", blocks="blocks.*")


def test_a_device_holds_parameters_inputs_and_the_optimizer_too():
    model = Model(count=4)
    whole = remat.plan_checkpoints(model, (X,), "100%")
    parameters = sum(each.nbytes for each in model.parameters())
    assert whole.resident_memory == parameters + X.nbytes
    left = int(0.8 * whole.peak_memory)
    for options, beside in (({}, 0), ({"optimizer": "adamw"}, 2 * parameters), ({"reserve": 4096}, 4096)):
        device = left + parameters + X.nbytes + beside
        plan = remat.plan_checkpoints(model, (X,), {"device": device, **options})
        assert plan.policy.limit == left
        assert whole.peak_memory > left >= plan.peak_memory


def test_a_rank_of_fsdp2_has_shards_two_blocks_and_their_gradients():
    model = Model(count=4)
    one = remat.plan_checkpoints(model, (X,), "100%")
    plan = remat.plan_checkpoints(model, (X,), "100%", shards={"world": 4})
    parameters = sum(each.nbytes for each in model.parameters())
    block = sum(each.nbytes for each in model.layers[0].parameters())
    rest = parameters - 4 * block
    assert plan.resident_memory == X.nbytes + parameters / 4 + 2 * (2 * block + rest)
    assert one.peak_memory - parameters <= plan.peak_memory <= one.peak_memory
    assert "1 of 4 shards" in str(plan)


class Counting(Block):
    """Counts its calls in a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return super().forward(x) * self.calls


def test_a_block_that_changes_a_buffer_is_kept():
    class Mixed(Model):
        def __init__(self):
            super().__init__(count=4)
            self.layers[1] = Counting()

    plan = remat.plan_checkpoints(Mixed(), (X,), "least")
    assert [each.decision for each in plan.treatments][:2] == ["recompute", "keep"]
    assert "buffer" in str(plan)


def test_other_runtimes_get_their_nearest_setting_with_its_price():
    torch.manual_seed(0)
    model = Model(count=4)
    plan = remat.plan_checkpoints(model, (X,), "70%")
    for setting in (plan.torchtitan(), plan.megatron(), plan.jax()):
        assert setting.peak_memory <= plan.policy.limit
        assert setting.overhead >= 0
        assert setting.share in str(setting)
    flags = plan.megatron().arguments
    assert flags[:5] == (
        "--recompute-granularity",
        "full",
        "--recompute-method",
        "block",
        "--recompute-num-layers",
    ) or (flags[:2] == ("--recompute-granularity", "selective"))
    assert all(each.startswith("layers.") and "::aten." in each for each in plan.torchtitan().arguments)
    whole = remat.plan_checkpoints(model, (X,), "100%")
    assert whole.megatron().arguments == ()
    assert "layers.*.up::aten.addmm.default" in whole.torchtitan().arguments
    assert whole.torchtitan().overhead == whole.jax().overhead == 0
    assert "up" in whole.jax().arguments


def test_settings_of_other_runtimes_need_the_graph_and_no_offload():
    with pytest.raises(PlanError):
        remat.CheckpointPlan([Treatment("a", "keep")]).megatron()
    model = Model(count=12)
    plan = remat.plan_checkpoints(
        model, (X,), "least", cost=lambda flops, moved: flops, device=None, link={"out": "10TB/s", "into": "10TB/s"}
    )
    assert "offload" in [each.decision for each in plan.treatments]
    with pytest.raises(PlanError):
        plan.torchtitan()
    expected = gradients(model, X)
    with plan.apply(model):
        assert_same(gradients(model, X), expected)


@pytest.mark.parametrize(
    "options",
    [
        {"budget": {}},
        {"budget": {"dev": "1GiB"}},
        {"budget": {"device": "1GiB", "other": 1}},
        {"budget": {"memory": "4MiB", "optimizer": "adamw"}},
        {"budget": "80%", "shards": {"wrld": 2}},
        {"budget": "80%", "shards": {"world": 0}},
        {"budget": "80%", "shards": {"world": 2, "other": 1}},
    ],
)
def test_wrong_entries_are_refused_in_a_sentence(options):
    with pytest.raises(ArgumentError):
        remat.plan_checkpoints(Model(), (X,), **options)


@pytest.mark.parametrize("device", ["privateuseone", "ipu", "no_device"])
def test_a_device_that_this_pytorch_lacks_is_refused(device):
    """PyTorch ends the process when it looks for the gradients of such tensors."""
    with raises(ArgumentError, on=device):
        remat.plan_checkpoints(Model(), (X,), "80%", on=device)


@pytest.mark.parametrize("inputs", [None, "abc", torch.ones(2)])
def test_inputs_are_a_sequence_or_a_mapping(inputs):
    with raises(ArgumentTypeError, kind=type(inputs).__name__):
        remat.plan_checkpoints(Model(), inputs, "80%")


def test_gradients_of_earlier_batches_count_on_a_device():
    model = Model(count=4)
    once, again = (
        remat.plan_checkpoints(model, (X,), {"device": "1MiB", "optimizer": "sgd", "accumulate": accumulate})
        for accumulate in (False, True)
    )
    assert once.policy.limit - again.policy.limit == sum(each.nbytes for each in model.parameters())


def test_a_model_with_a_plan_is_not_planned():
    model = Model()
    with remat.plan_checkpoints(model, (X,), "80%").apply(model), raises(PlanError, block="layers.0"):
        remat.plan_checkpoints(model, (X,), "80%")


def test_a_budget_that_fails_names_itself_and_the_lowest_peak_succeeds():
    model = Model(count=6)
    lowest = remat.plan_checkpoints(model, (X,), "least")
    assert remat.plan_checkpoints(model, (X,), lowest.peak_memory).peak_memory == lowest.peak_memory
    for limit in (lowest.peak_memory - 1, lowest.policy.peak_memory - 1):
        with raises(BudgetError, limit=limit, reached=lowest.peak_memory):
            remat.plan_checkpoints(model, (X,), limit)


def test_a_budget_that_fails_says_which_blocks_can_only_be_kept():
    with raises(BudgetError, count=3, blocks=3):
        remat.plan_checkpoints(Model(Counting), (X,), "30%")


def test_megatron_checkpoints_chunks_of_blocks_if_that_is_cheapest():
    plan = remat.plan_checkpoints(Model(count=6, width=64), (torch.ones(1024, 64),), "least")
    own = plan.policy
    trials = []
    setting = RuntimeSetting.megatron(own, plan.captured)
    assert "full" in setting.arguments
    for count in (2, 3, 6):
        chunks = _chunks(own.graph, own.blocks, count)
        assert [len(each) for each in chunks.members] == [count * len(own.blocks.members[0])] * (6 // count)
        nothing = np.zeros(own.graph.n_nodes, bool)
        policy = Policy.of(own.graph, chunks, ["recompute"] * len(chunks), nothing, holds=plan.captured.holds)
        trials.append(policy)
    # each chunk runs again up to its last tensor that a gradient needs, so larger ones cost more
    assert [each.overhead for each in trials] == sorted(each.overhead for each in trials)


def test_the_peak_of_a_setting_of_megatron_has_the_states_of_the_generator():
    plan = remat.plan_checkpoints(Model(count=4), (X,), "100%")
    assert plan.megatron().peak_memory == plan.peak_memory == plan.policy.peak_memory
    plan = remat.plan_checkpoints(Model(count=4), (X,), "70%")
    setting = plan.megatron()
    assert setting.arguments
    assert setting.peak_memory <= plan.limit
    assert "its compiled trainer" in str(plan.torchtitan())


def test_the_cheaper_of_several_cuts_is_returned():
    model = Model(count=4)
    lowest = [remat.plan_checkpoints(model, (X,), "least", blocks=cut) for cut in ("layers.*.up", "layers.*")]
    plan = remat.plan_checkpoints(model, (X,), lowest[1].peak_memory, blocks="layers.*.up | layers.*")
    assert [each.name for each in plan.treatments] == [f"layers.{i}" for i in range(4)]
    assert plan.treatments == lowest[1].treatments
    assert f"{plan.peak_memory:,}" in str(plan)
    with raises(BudgetError, reached=min(each.peak_memory for each in lowest)):
        remat.plan_checkpoints(model, (X,), "1KiB", blocks="layers.*.up | layers.*")


def test_settings_without_names_say_what_they_do():
    plan = remat.plan_checkpoints(Model(count=4), (X,), "100%")
    empty = {"arguments": (), "peak_memory": 1, "overhead": 0, "share": ""}
    assert "no recomputation" in str(replace(plan.megatron(), **empty))
    assert all("everything is recomputed" in str(replace(each, **empty)) for each in (plan.jax(), plan.torchtitan()))
