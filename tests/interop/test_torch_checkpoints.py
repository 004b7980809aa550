"""Checkpoint policies per block: gradients are those of the model, bit for bit, whatever the treatments."""

import copy
import json
import pickle
import warnings
import weakref
from collections import Counter
from functools import partial
from itertools import product

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from remat_algos.errors import ArgumentError, BackendError, BudgetError, PlanError
from remat_algos.interop import torch as remat
from remat_algos.interop.torch import selective
from remat_algos.interop.torch.eager_capture import is_cached_cast
from remat_algos.interop.torch.selective import NORMS, savable
from remat_algos.plan.policy import Treatment
from tests.raising import raises

ADDMM = "aten.addmm.default"


class Block(nn.Module):
    """A residual block of two layers; `draw` is called between them."""

    def __init__(self, draw=nn.Identity, width=8):
        super().__init__()
        self.norm, self.up, self.draw, self.down = (
            nn.LayerNorm(width),
            nn.Linear(width, 16),
            draw(),
            nn.Linear(16, width),
        )

    def forward(self, x, scale=1.0):
        return x + self.down(self.draw(torch.nn.functional.gelu(self.up(self.norm(x))))) * scale


class Model(nn.Module):
    def __init__(self, block=Block, count=3, **options):
        super().__init__()
        width = options.get("width", 8)
        self.inside = nn.Linear(width, width)
        self.layers = nn.ModuleList(block(**options) for _ in range(count))

    def forward(self, x):
        x = self.inside(x)
        for layer in self.layers:
            x = layer(x)
        return x.square().mean()


def gradients(model, *inputs, call=None, steps=1):
    """Gradients of the sum of several steps, the buffers after it, and the state of the generator."""
    torch.manual_seed(3)
    model.zero_grad(set_to_none=True)
    for _ in range(steps):
        (model if call is None else call)(*inputs).backward()
    grads = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    return [*grads, *(b.clone() for b in model.buffers()), torch.get_rng_state()]


def assert_same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.equal(one, other)


def plan_of(*saved, count=None, decision="recompute"):
    """A plan for `layers.*`: for each a tuple of operators, or a decision."""
    saved = saved * count if count else saved
    return remat.CheckpointPlan(
        [
            Treatment(f"layers.{i}", each) if isinstance(each, str) else Treatment(f"layers.{i}", decision, each)
            for i, each in enumerate(saved)
        ]
    )


def operators_of(model, *inputs):
    """Operators of the first block's forward that a policy may save, as selectors."""
    counts, found, inside = Counter(), [], []

    class Listing(TorchDispatchMode):
        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            if inside and not is_cached_cast(operator, args):
                name = str(operator)
                if savable(name) and name != "aten.detach.default":
                    found.append(f"::{name}#{counts[name]}")
                counts[name] += 1
            return operator(*args, **(kwargs or {}))

    handles = [
        model.layers[0].register_forward_pre_hook(lambda *_: inside.append(1)),
        model.layers[0].register_forward_hook(lambda *_: inside.clear()),
    ]
    with Listing():
        model(*inputs)
    for handle in handles:
        handle.remove()
    return found


torch.set_num_threads(1)
X = torch.linspace(-1, 1, 4 * 8).view(4, 8)


class Rand(nn.Module):
    """A dropout whose draw is an operator with a result of its own."""

    def forward(self, x):
        x = x * (torch.rand_like(x) > 0.3)
        return x * (torch.rand_like(x) > 0.3)


def dropout_then_rand():
    return nn.Sequential(Rand(), nn.Dropout(0.4), Rand())


@pytest.mark.parametrize("draw", [nn.Identity, lambda: nn.Dropout(0.4), Rand, dropout_then_rand])
def test_every_operator_saved_alone_or_in_pairs_leaves_gradients_bit_equal(draw):
    torch.manual_seed(0)
    model = Model(draw=draw, count=2)
    expected = gradients(model, X)
    names = operators_of(model, X)
    assert any("addmm" in name for name in names)
    refused = set()
    for one in names:
        with plan_of((one,), ()).apply(model):
            try:
                assert_same(gradients(model, X), expected)
            except BackendError:
                refused.add(one.partition("#")[0])
    assert refused <= {"::aten.empty_like.default", "::aten.rand_like.default"}  # changed in place by bernoulli_ or gt_
    names = [each for each in names if each.partition("#")[0] not in refused]
    for one, other in product(names, [each for each in names if "rand" in each or "addmm" in each]):
        with plan_of((one, other), (other,)).apply(model):
            assert_same(gradients(model, X), expected)
    assert_same(gradients(model, X), expected)


def ran_in(model):
    """Names of the operators that ran in a step."""
    ran = []

    class Note(TorchDispatchMode):
        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            ran.append(str(operator))
            return operator(*args, **(kwargs or {}))

    with Note():
        model(X).backward()
    return ran


def test_saved_operators_do_not_run_again_and_others_do():
    model = Model(count=1)

    def products(*saved):
        with plan_of(saved).apply(model):
            return ran_in(model).count(ADDMM)

    assert products() == 3 + 1  # early stop: the last product is not wanted
    assert products(f"up::{ADDMM}#0") == 3


# ---------------------------------------------------------------- models of every kind


class Twice(Block):
    """Calls its layer twice."""

    def forward(self, x):
        return super().forward(super().forward(x))


class InPlace(Block):
    """Changes what it made in place."""

    def forward(self, x):
        y = self.up(x).mul_(2.0)
        return self.down(torch.relu_(y)).add_(x)


class Views(Block):
    def forward(self, x):
        a, b = self.up(x).view(-1, 2, 8).transpose(0, 1).unbind(0)
        return x + a.expand(2, *a.shape)[1] * b.t().contiguous().t()


class Nested(Block):
    """Has a checkpoint of its own inside."""

    def forward(self, x):
        return checkpoint(super().forward, x, use_reentrant=False) + x


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, x.square())
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        _, square = ctx.saved_tensors
        return 3 * square * gradient


class Custom(Block):
    def forward(self, x):
        return super().forward(Cube.apply(x))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)

    def forward(self, x):
        return self.inner(x.view(1, -1, 8)).view(-1, 8)


class Norm(Block):
    def __init__(self):
        super().__init__()
        self.batch = nn.BatchNorm1d(8)

    def forward(self, x):
        return super().forward(self.batch(x))


class NormInPlace(Norm):
    """Changes the result of its batch norm in place, as residual networks do."""

    def forward(self, x):
        return Block.forward(self, self.batch(x).relu_())


class Shared(Model):
    """Calls each of its layers twice."""

    def forward(self, x):
        for layer in [*self.layers, *self.layers]:
            x = layer(x)
        return x.square().mean()


class Frozen(Model):
    def __init__(self):
        super().__init__()
        for layer in self.layers:
            layer.up.requires_grad_(False)
        self.inside.requires_grad_(False)
        self.layers[0].requires_grad_(False)


class Several(Model):
    """Gives several results and takes keywords."""

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x=x, scale=torch.tensor(0.5)) if i % 2 else layer(x, scale=0.5)
        return x.square().mean()


MODELS = {
    "plain": Model,
    "twice": lambda: Model(Twice),
    "in_place": lambda: Model(InPlace),
    "views": lambda: Model(Views),
    "nested": lambda: Model(Nested),
    "custom": lambda: Model(Custom),
    "attention": lambda: Model(Attention),
    "batch_norm": lambda: Model(Norm),
    "batch_norm_in_place": lambda: Model(NormInPlace),
    "shared": Shared,
    "frozen": Frozen,
    "keywords": Several,
    "evaluation": lambda: Model(lambda: Block(lambda: nn.Dropout(0.5))).eval(),
}
AUTOCAST = {"no": lambda model: model, "autocast": lambda model: torch.autocast("cpu", torch.bfloat16)(model.forward)}


@pytest.mark.filterwarnings("ignore:the plan saves")  # the blocks of a model may run different operators
@pytest.mark.parametrize("autocast", AUTOCAST)
@pytest.mark.parametrize("name", MODELS)
def test_gradients_buffers_and_draws_are_those_of_the_model(name, autocast):
    torch.manual_seed(0)
    model = MODELS[name]()
    start = copy.deepcopy(model.state_dict())

    def run(x):
        model.load_state_dict(start)
        return gradients(model, x, call=AUTOCAST[autocast](model), steps=1 + (name == "batch_norm"))

    inputs = [X, X[:2], torch.cat([X, -X])]
    expected = [run(x) for x in inputs]
    context = torch.autocast("cpu", torch.bfloat16) if autocast == "autocast" else torch.enable_grad()
    with context:
        names = operators_of(model, X)
    plans = [plan_of((), count=3), plan_of((), count=3, decision="offload")]
    plans += [plan_of((one,), count=3) for one in names]
    refused = []
    for i, plan in enumerate(plans):
        with plan.apply(model):
            try:
                assert_same(run(inputs[i % 3]), expected[i % 3])
            except BackendError:
                refused += plan.treatments[0].saved
    assert name in ("in_place", "batch_norm_in_place") or not [each for each in refused if "empty_like" not in each]


def test_a_plan_comes_off_again_without_a_trace():
    model = Model()
    model.layers[1].forward = own = model.layers[1].forward
    before = [dict(each.__dict__) for each in model.modules()]
    names = list(model.state_dict())
    handle = plan_of((), count=3).apply(model)
    assert list(model.state_dict()) == names
    assert "forward" in model.layers[0].__dict__
    handle.remove()
    handle.remove()
    assert [dict(each.__dict__) for each in model.modules()] == before
    assert model.layers[1].forward is own


def test_without_gradients_nothing_is_checkpointed(monkeypatch):
    model = Model()
    with plan_of((), count=3).apply(model):
        monkeypatch.setattr(selective, "checkpoint", None)
        with torch.no_grad():
            assert model(X) > 0


@pytest.mark.parametrize("again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_of_a_model_have_the_plan_too(again):
    model = Model()
    expected = gradients(model, X)
    with plan_of((f"up::{ADDMM}#0",), count=3).apply(model):
        other = again(model)
    assert "forward" not in model.layers[0].__dict__
    assert other.layers[0].forward.args[0].__self__ is other.layers[0]
    assert_same(gradients(other, X), expected)


def test_what_a_plan_does_not_fit_is_refused_and_nothing_is_changed():
    model = Model()
    plan = plan_of((), count=3)
    with plan.apply(model), raises(PlanError, block="layers.0"):
        plan.apply(model)
    trained, parent = Model(), Model()
    trained.layers[2].gradient_checkpointing = parent.gradient_checkpointing = True
    cases = [
        (plan, trained, {"module": "layers.2"}),
        (plan, parent, {"module": "Model"}),
        (plan, Model(count=2), {"missing": ["layers.2"]}),
        (plan_of(("middle::aten.mm.default#0",)), model, {"block": "layers.0", "path": "middle"}),
        (plan_of(("::aten.view.default#0",)), model, {"block": "layers.0", "operator": "::aten.view.default#0"}),
        (plan_of(("::aten.relu_.default#0",)), model, {"block": "layers.0", "operator": "::aten.relu_.default#0"}),
    ]
    for plan, other, fields in cases:
        with raises(PlanError, **fields):
            plan.apply(other)
        assert all("forward" not in each.__dict__ for each in other.modules())
    for name in ("aten.nothing.default", "aten.addmm.__name__", "nothing.addmm.default"):
        with raises(ArgumentError, name=name):
            plan_of((f"::{name}#0",)).apply(model)
    with raises(PlanError, operator="addmm"):
        plan_of(("addmm",))
    with raises(PlanError, block="layers.0", decision="drop", known=["keep", "recompute", "offload"]):
        plan_of("drop")
    with raises(PlanError, block="a"):
        remat.CheckpointPlan([Treatment("a", "keep"), Treatment("a", "keep")])


def test_a_forward_that_was_replaced_since_is_not_lost():
    model = Model()
    handle = plan_of((), count=3).apply(model)
    model.layers[1].forward = lambda x: x
    with raises(PlanError, kind="Block"):
        handle.remove()
    assert "forward" in model.layers[0].__dict__


def test_an_error_inside_is_not_replaced_by_that_of_the_plan():
    def fail(model):
        with plan_of((), count=3).apply(model):
            model.layers[1].forward = lambda x: x
            raise MemoryError

    with pytest.raises(MemoryError):
        fail(Model())


def test_a_trainer_that_checkpoints_after_the_plan_is_refused():
    model = Model()
    with plan_of((), count=3).apply(model):
        model.layers[1].gradient_checkpointing = True
        with raises(PlanError, kind="Block"):
            model(X)
        with torch.no_grad():
            model(X)
        model.eval()
        model(X).backward()


def test_two_gradients_of_one_graph_and_gradients_of_gradients():
    model = Model(draw=lambda: nn.Dropout(0.3))

    def results():
        torch.manual_seed(5)
        x = X.clone().requires_grad_()
        loss = model(x)
        first, again = (torch.autograd.grad(loss, x, retain_graph=True)[0] for _ in range(2))
        (slope,) = torch.autograd.grad(loss, x, create_graph=True)
        return [first, again, *torch.autograd.grad(slope.square().sum(), [x, model.inside.weight])]

    expected = results()
    for saved in ((), (f"up::{ADDMM}#0",), (f"down::{ADDMM}#1",), "keep"):
        with plan_of(saved, count=3).apply(model):
            assert_same(results(), expected)


def test_a_saved_tensor_that_is_changed_in_place_is_refused_as_without_a_plan():
    class Changing(Model):
        def forward(self, x):
            x = torch.exp(self.inside(x))
            x = self.layers[0](x)
            saved = torch.exp(x)
            return saved.mul_(2).sum()

    model = Changing(count=1)
    with pytest.raises(RuntimeError, match="inplace"):
        model(X).backward()
    kwargs = plan_of("keep").kwargs
    with pytest.raises(BackendError):
        checkpoint(model, X, **kwargs).backward()


@pytest.mark.parametrize("saved", [(), (f"up::{ADDMM}#0", "::aten.gelu.default#0")])
def test_a_compiler_takes_a_model_with_a_plan(saved):
    torch.manual_seed(0)
    model = Model()
    expected = gradients(model, X)
    with plan_of(saved, "keep", ()).apply(model):
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        assert_same(gradients(model, X, call=compiled), expected)


@pytest.mark.parametrize("saved", [(), (f"up::{ADDMM}#0", "::aten.gelu.default#0")])
def test_a_compiler_takes_a_model_with_the_arguments_of_a_plan(saved):
    torch.manual_seed(0)
    model = Trained(draw=lambda: nn.Dropout(0.3))
    expected = [gradients(model, x, steps=2) for x in (X, torch.cat([X, X]))]
    model.kwargs = plan_of(saved, "keep", ()).kwargs
    torch.compiler.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for x, each in zip((X, torch.cat([X, X])), expected, strict=True):
        assert_same(gradients(model, x, call=compiled, steps=2), each)


@pytest.mark.parametrize("way", ["kwargs", "apply"])
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_draws_that_a_policy_saves_are_those_of_a_real_step(rate, way):
    """The dropout of each block is drawn once: gradients, and the generator after the step, are equal."""
    torch.manual_seed(0)
    model = Trained(draw=lambda: nn.Dropout(rate))
    expected, name = gradients(model, X, steps=3), "aten.bernoulli_.float"
    saved = [each for each in operators_of(model, X) if "mul" in each or "div" in each]
    assert saved
    count = ran_in(model).count(name)
    plan = plan_of((f"up::{ADDMM}#0", *saved), saved, ())
    if way == "apply":
        plan.apply(model)
    else:
        model.kwargs = plan.kwargs
    assert_same(gradients(model, X, steps=3), expected)
    assert ran_in(model).count(name) > count  # they are drawn again with the state of the generator from before


def test_a_block_with_a_generator_of_its_own_is_kept():
    """A checkpoint sets back PyTorch's own generators alone."""

    class Drawing(Block):
        def __init__(self):
            super().__init__()
            self.generator = torch.Generator().manual_seed(1)

        def forward(self, x):
            return super().forward(x * (torch.rand(x.shape, generator=self.generator) > 0.3))

    torch.manual_seed(0)
    model, again = Model(Drawing), Model(Drawing)
    again.load_state_dict(model.state_dict())
    plan = remat.plan_checkpoints(model, (X,), "100%", blocks="layers.*")
    assert [each.decision for each in plan.treatments] == ["keep"] * 3
    assert "a generator of its own" in str(plan)
    plan.apply(again)
    for layer in model.layers:
        layer.generator.manual_seed(1)
    assert_same(gradients(again, X), gradients(model, X))


# ---------------------------------------------------------------- blocks that run other operators again


class Lazy(nn.Module):
    """Makes a table in its first call, with or without gradients, from what comes in or from nothing."""

    def __init__(self, made, width=8):
        super().__init__()
        self.made, self.table = made, None
        self.one, self.other = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        if self.table is None:
            self.table = self.made(x.detach())
        return x + torch.sigmoid(self.other(torch.sigmoid(self.one(x)))) * torch.sigmoid(self.table)


TABLES = {
    "of the input": lambda x: torch.sigmoid(x),
    "without gradients": torch.no_grad()(lambda x: torch.sigmoid(x)),
    "of a shape of its own": lambda x: torch.sigmoid(torch.zeros(8)),
    "of a type of its own": lambda x: torch.sigmoid(x.double()).float(),
    "by other operators": lambda x: torch.cat([x, x])[: len(x)] * 2,
}


@pytest.mark.filterwarnings("ignore:the plan saves")  # without the table there are fewer
@pytest.mark.parametrize("place", [0, 1, 2, 3])
@pytest.mark.parametrize("name", TABLES)
def test_a_saved_output_never_answers_another_call(name, place):
    torch.manual_seed(0)
    model = Model(lambda: Lazy(TABLES[name]), count=2)
    expected = gradients(copy.deepcopy(model), X)
    with plan_of((f"::aten.sigmoid.default#{place}",), count=2).apply(model):
        try:
            found = gradients(model, X)
        except BackendError:
            pass
        else:
            assert_same(found, expected)
        for layer in model.layers:  # a table that is there is no obstacle
            assert layer.table is not None
        assert_same(gradients(model, X), expected)


def test_a_call_among_operators_without_gradients_is_told_from_another():
    class Masked(Lazy):
        def forward(self, x):
            if self.table is None:
                self.table = torch.no_grad()(torch.sigmoid)(x)
            with torch.no_grad():
                mask = torch.sigmoid(2 * x)
            return x + self.one(x) * mask * self.table

    model = Model(lambda: Masked(None), count=1)
    with plan_of(("::aten.sigmoid.default#0",)).apply(model):
        with pytest.raises(BackendError, match="ran another operator"):
            model(X).backward()
        expected = gradients(copy.deepcopy(model), X)
        assert_same(gradients(model, X), expected)


@torch.library.custom_op("remat_tests::noisy", mutates_args=())
def noisy(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rand_like(x)


noisy.register_autograd(lambda ctx, gradient: gradient * 2.0)


@pytest.mark.parametrize("saved", [("noisy", 0), ("noisy", 1), ("native_dropout", 0)])
def test_an_operator_that_draws_without_saying_so_may_be_saved(saved):
    class Noisy(Block):
        def forward(self, x):
            return super().forward(torch.tanh(torch.native_dropout(noisy(torch.tanh(noisy(x))), 0.3, True)[0]))

    name = "remat_tests.noisy.default" if saved[0] == "noisy" else "aten.native_dropout.default"
    torch.manual_seed(0)
    model = Model(lambda: Noisy(lambda: nn.Dropout(0.4)), count=2)
    expected = gradients(model, X)
    with plan_of((f"::{name}#{saved[1]}",), count=2).apply(model):
        assert_same(gradients(model, X), expected)


# ---------------------------------------------------------------- what goes to the host


class Pair(Block):
    """Takes a state of its own and a mask that all blocks read, within a tuple and by name."""

    def forward(self, x, pair, mask):
        own, scale = pair
        return super().forward(x * mask) * own[0] + scale + own[1]


class Pairs(Model):
    """Makes two tensors for each block, the second a part of a larger one, and a mask for all."""

    def __init__(self):
        super().__init__(Pair)
        self.made = None

    def forward(self, x):
        x = self.inside(x)
        mask, self.made = torch.sigmoid(x), []
        for layer in self.layers:
            own = torch.cat([x, x], 1).view(-1, 2, 8).unbind(1)
            made = {"x": x, "own": own[0], "mask": mask}
            self.made.append({name: weakref.ref(each.untyped_storage()) for name, each in made.items()})
            x = layer(x, (own, self.inside.bias), mask=mask)
        return x.square().mean() + mask.mean()


def test_all_inputs_that_no_other_block_takes_go_to_the_host_and_come_back():
    torch.manual_seed(0)
    model, x = Pairs(), X.repeat(64, 1)
    expected = gradients(model, x)
    plan = remat.plan_checkpoints(
        model,
        (x,),
        "least",
        blocks="layers.*",
        cost=lambda flops, moved: flops,
        link={"out": "10TB/s", "into": "10TB/s"},
    )
    away = [each for each in plan.treatments if each.decision == "offload"]
    assert away
    # the mask is read by all, and the bias is a parameter
    assert all(set(each.inputs) == {"0", "1.0.0", "1.0.1"} for each in away)
    live = []
    with plan.apply(model):
        loss = model(x)
        for each, made in zip(plan.treatments, model.made, strict=True):
            live.append({name: storage() is not None for name, storage in made.items()})
            if each.decision == "offload":
                assert live[-1] == {"x": False, "own": False, "mask": True}
        del loss
        assert_same(gradients(model, x), expected)
        assert_same(gradients(model, torch.cat([x, x])), [*gradients(model, torch.cat([x, x]))])
    copies = [storage() for made in model.made for storage in made.values()]
    assert copies == [None] * len(copies)


def test_a_plan_by_hand_sends_all_tensors_and_loads_each_storage_once(monkeypatch):
    torch.manual_seed(0)
    model, loaded = Pairs(), []
    expected = gradients(model, X)
    load = selective._HostCopy.load
    monkeypatch.setattr(selective._HostCopy, "load", lambda self: loaded.append(id(self)) or load(self))
    with plan_of((), count=3, decision="offload").apply(model):
        assert_same(gradients(model, X), expected)
    # x, both parts of one storage, and the mask: of the three blocks
    assert len(loaded) == 3 * 4
    assert len(set(loaded)) == 3 * 3


# ---------------------------------------------------------------- changes between the two parts


@pytest.mark.parametrize("way", ["kwargs", "apply"])
@pytest.mark.parametrize("saved", [(), (f"up::{ADDMM}#0",)])
def test_a_step_of_the_optimizer_before_the_backward_part_is_refused(saved, way):
    model = Trained()
    if way == "apply":
        plan_of(saved, count=3).apply(model)
    else:
        model.kwargs = plan_of(saved, count=3).kwargs
    optimizer = torch.optim.SGD(model.layers[1].parameters(), lr=0.1)
    for _ in range(2):
        loss = model(X)
        loss.backward()
        optimizer.step()
    loss = model(X)
    optimizer.step()
    with raises(BackendError, shape=(8,)):
        loss.backward()


def test_an_operator_that_never_comes_is_warned_of():
    model = Model(count=2)
    expected = gradients(model, X)
    for operator in (f"up::{ADDMM}#77", "::aten.sin.default#0"):
        with plan_of((operator, f"up::{ADDMM}#0"), ()).apply(model), pytest.warns(match="the plan saves") as seen:
            assert_same(gradients(model, X), expected)
        assert [operator.partition("::")[2] in str(each.message) for each in seen] == [True]


# ---------------------------------------------------------------- trainers


class Trained(Model):
    """Checkpoints its blocks as transformers does, in training; `order` is that of a pass."""

    kwargs, order, fails = None, None, None

    def forward(self, x):
        x = self.inside(x)
        for i in range(len(self.layers)) if self.order is None else self.order:
            call = partial(self.layers[i])
            x = checkpoint(call, x, **self.kwargs) if self.kwargs and self.training else call(x)
            if i == self.fails:
                raise MemoryError
        return x.square().mean()


def reruns(model, x=X):
    """How often each block ran its first layer in a step."""
    counts = [0] * len(model.layers)

    def count(i):
        counts[i] += 1

    handles = [each.norm.register_forward_pre_hook(lambda *_, i=i: count(i)) for i, each in enumerate(model.layers)]
    model(x).backward()
    for handle in handles:
        handle.remove()
    return counts


def test_a_trainer_runs_each_block_with_its_own_treatment():
    torch.manual_seed(0)
    model = Trained(draw=lambda: nn.Dropout(0.3))
    expected = gradients(model, X, steps=3)
    plan = plan_of("keep", (), (f"up::{ADDMM}#0",))
    model.kwargs = plan.kwargs
    assert_same(gradients(model, X, steps=3), expected)
    assert reruns(model) == [1, 2, 2]


class Marked(Block):
    """Marks a region for the profiler in the forward part alone, as `fully_shard` marks what it gathers."""

    marks = True

    def forward(self, x):
        if self.marks:
            with torch.profiler.record_function("gather"):
                self.marks = False
        return super().forward(x)


@pytest.mark.parametrize("way", ["kwargs", "apply"])
def test_marks_for_the_profiler_are_not_repeated(way):
    torch.manual_seed(0)
    model = Trained(Marked)
    expected = gradients(model, X)
    plan = plan_of((), (f"up::{ADDMM}#0",), ())
    if way == "apply":
        plan.apply(model)
    else:
        model.kwargs = plan.kwargs
    for layer in model.layers:
        layer.marks = True
    assert_same(gradients(model, X), expected)
    assert not any(layer.marks for layer in model.layers)


class NormTwice(Block):
    """Calls a batch norm twice; `options` of it."""

    def __init__(self, **options):
        super().__init__()
        self.batch = nn.Sequential(nn.BatchNorm1d(8, **options))

    def forward(self, x):
        return super().forward(self.batch(x) + self.batch(x * x))


@pytest.mark.parametrize("way", ["kwargs", "apply"])
@pytest.mark.parametrize("options", [{}, {"momentum": None}, {"track_running_stats": False}])
@pytest.mark.parametrize("saved", [(), (f"up::{ADDMM}#0",), ("::aten.native_batch_norm.default#1",)])
def test_batch_norms_update_their_statistics_once(saved, options, way):
    torch.manual_seed(0)
    model = Trained(lambda: NormTwice(**options))
    start = copy.deepcopy(model.state_dict())
    expected = gradients(model, X, steps=3)
    model.load_state_dict(start)
    plan = plan_of("keep", saved, saved)
    if way == "apply":
        plan.apply(model)
    else:
        model.kwargs = plan.kwargs
    assert_same(gradients(model, X, steps=3), expected)
    assert all(each.momentum == options.get("momentum", 0.1) for each in model.modules() if isinstance(each, NORMS))


DISTURBANCES = {
    "evaluation": lambda model: model.eval()(X) is not model.train(),
    "no_grad": lambda model: torch.no_grad()(model)(X),
    "forwards": lambda model: [model(X) for _ in range(3)],
    "order": lambda model: reruns_in(model, [2, 0, 1]),
    "part": lambda model: reruns_in(model, [0, 2]),
    "failed": lambda model: failed(model, 0),
    "failed_later": lambda model: failed(model, 1),
}


def reruns_in(model, order):
    model.order = order
    counts = reruns(model)
    model.order = None
    assert [counts[i] for i in order] == [[1, 2, 1][i] for i in order]


def failed(model, place):
    model.fails = place
    with pytest.raises(MemoryError):
        model(X)
    model.fails = None


@pytest.mark.parametrize("name", DISTURBANCES)
def test_other_passes_do_not_shift_the_treatments(name):
    model = Trained()
    expected = gradients(model, X)
    model.kwargs = plan_of("keep", (), "keep").kwargs
    assert reruns(model) == [1, 2, 1]
    DISTURBANCES[name](model)
    assert reruns(model) == [1, 2, 1]
    assert_same(gradients(model, X), expected)


def test_after_a_pass_that_fails_only_its_first_block_forgets_what_it_saves():
    model, saved = Trained(count=4), (f"up::{ADDMM}#0",)
    model.kwargs = plan_of("keep", (), saved, saved).kwargs
    assert ran_in(model).count(ADDMM) == 9 + 1
    failed(model, 0)
    assert ran_in(model).count(ADDMM) == 9 + 1


def test_a_first_pass_that_fails_does_not_shift_the_treatments():
    model = Trained()
    model.kwargs = plan_of("keep", (), "keep").kwargs
    failed(model, 1)
    assert reruns(model) == [1, 2, 1]


@pytest.mark.parametrize(("count", "seen"), [(2, 2), (4, "more")])
def test_a_trainer_with_other_blocks_than_the_plan_is_refused(count, seen):
    model = Trained(count=count)
    model.kwargs = plan_of("keep", (), "keep").kwargs
    with raises(ArgumentError, count=3, seen=seen):
        for _ in range(3):
            model(X)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda kwargs: pickle.loads(pickle.dumps(kwargs))])
def test_copies_of_the_arguments_begin_anew(again):
    model = Trained()
    model.kwargs = plan_of("keep", (), "keep").kwargs
    model(X)
    other = Trained()
    other.kwargs = again(model.kwargs)
    assert reruns(other) == [1, 2, 1]


def test_a_trainer_cannot_offload():
    with raises(PlanError, blocks=["layers.1"]):
        assert plan_of("keep", "offload").kwargs


# ---------------------------------------------------------------- files


PLAN = remat.CheckpointPlan(
    [
        Treatment("a", "keep", (), 3),
        Treatment("b", "recompute", ("up::aten.mm.default#4",), 7, 9),
        Treatment("c", "offload", inputs=("0", "pair.1")),
    ],
    peak_memory=100,
    overhead=9,
    bound=8,
    gap=0.25,
    report="two\nlines",
)


def test_a_plan_comes_back_from_its_file(tmp_path):
    file = tmp_path / "policy.json"
    PLAN.save(file)
    assert remat.load_checkpoints(file) == PLAN == pickle.loads(pickle.dumps(PLAN)) == copy.deepcopy(PLAN)
    assert str(remat.load_checkpoints(file)) == "two\nlines"
    assert repr(PLAN) == "<CheckpointPlan: 1 keep, 1 recompute, 1 offload, peak 100 B>"


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such folder; create it first.*policy\.json"):
        PLAN.save(tmp_path / "no" / "such" / "policy.json")


DAMAGES = {
    "format": lambda record: record.update(format="remat-plan"),
    "version": lambda record: record.update(version=2),
    "blocks": lambda record: record.update(blocks={}),
    "block": lambda record: record["blocks"].append(3),
    "name": lambda record: record["blocks"][0].update(name=3),
    "decision": lambda record: record["blocks"][0].update(decision="drop"),
    "saved": lambda record: record["blocks"][1].update(saved=["mm"]),
    "missing": lambda record: record["blocks"][1].pop("memory"),
    "peak": lambda record: record.update(peak_memory="100"),
    "negative": lambda record: record.update(peak_memory=-3.5),
    "no_number": lambda record: record.update(overhead=float("nan")),
    "gap": lambda record: record.pop("gap"),
    "inputs": lambda record: record["blocks"][2].update(inputs=[0]),
    "report": lambda record: record.update(report="text"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_refused_in_one_sentence_with_its_name(name, tmp_path):
    record = PLAN.record()
    DAMAGES[name](record)
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(record))
    with pytest.raises(PlanError, match=r"^policy\.json: .*"):
        remat.load_checkpoints(file)


def test_half_a_file_is_refused(tmp_path):
    file = tmp_path / "policy.json"
    PLAN.save(file)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(PlanError, match=r"policy\.json"):
        remat.load_checkpoints(file)


def test_a_plan_for_fewer_layers_warns_of_those_that_it_does_not_know(tmp_path):
    plan = plan_of("recompute", "keep", "recompute")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan.apply(Model(count=3)).remove()
    with pytest.warns(UserWarning, match=r"no blocks layers\.3.*layers\.4: they keep everything"):
        plan.apply(Model(count=5)).remove()


def test_blocks_that_a_user_left_out_of_the_planned_model_are_no_news():
    model, x = Model(count=4), torch.randn(4, 8)
    plan = remat.plan_checkpoints(model, (x,), "least", blocks=["layers.1", "layers.2"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan.apply(model).remove()


def test_a_model_with_checkpoints_of_its_own_is_told_to_switch_them_off():
    class Own(Model):
        def forward(self, x):
            for layer in self.layers:
                x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
            return self.inside(x).square().mean()

    with pytest.raises(PlanError, match="the model already checkpoints these blocks itself; switch"):
        remat.plan_checkpoints(Own(), (torch.randn(4, 8, requires_grad=True),), "least")


@pytest.mark.parametrize(
    ("budget", "error", "words"),
    [
        ({"device": "1kB", "optimizer": "adamw"}, BudgetError, "less than parameters, inputs and optimizer states"),
        ({"device": "1GiB", "accumulate": "x"}, TypeError, "accumulate is 'x'; give True or False"),
    ],
)
def test_what_a_budget_of_a_device_says_when_it_is_wrong(budget, error, words):
    with pytest.raises(error, match=words):
        remat.plan_checkpoints(Model(), (torch.randn(4, 8),), budget)
