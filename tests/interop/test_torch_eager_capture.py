"""A captured eager step has the memory of a real one, operator for operator."""

import contextlib
import copy
import pickle
import random
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as f
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import remat_algos.interop.torch as remat
from remat_algos.errors import ArgumentTypeError, GraphError, PlanError
from remat_algos.interop.torch.eager_capture import capture_step
from remat_algos.plan.policy import Policy
from tests.interop.test_torch_checkpoints import Block, Model, assert_same, gradients
from tests.interop.torch_step_peak import step_peak
from tests.raising import raises


def capture(*args, **options):
    """Capture a graph of torch.compile, where this version of PyTorch has what that uses."""
    pytest.importorskip("remat_algos.interop.torch.private_names", exc_type=ImportError)
    return remat.capture(*args, **options)


torch.set_num_threads(1)
TOKENS = torch.arange(64).view(2, 32)


class Dropouts(nn.Module):
    """Residual blocks with dropout, whose masks are made in place."""

    def __init__(self, n=3, width=32):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.2), nn.Linear(4 * width, width))
            for _ in range(n)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, x, labels):
        for layer in self.layers:
            x = x + layer(x)
        return f.cross_entropy(self.head(x), labels)


class RootMeanSquare(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.to(torch.float32)
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def rotated(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class LlamaLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.before, self.between = heads, RootMeanSquare(width), RootMeanSquare(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x, *, positions):
        y = self.before(x)
        q, k, v = (each(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in (self.q, self.k, self.v))
        y = f.scaled_dot_product_attention(rotated(q, *positions), rotated(k, *positions), v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).flatten(-2))
        y = self.between(x)
        return x + self.down(f.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """The operators of a Llama; the head may be tied to the embedding."""

    def __init__(self, width=32, heads=4, n=3, tokens=64, tied=False):
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.layers = nn.ModuleList(LlamaLayer(width, heads) for _ in range(n))
        self.norm, self.head = RootMeanSquare(width), nn.Linear(width, tokens, bias=False)
        if tied:
            self.head.weight = self.embedding.weight
        self.register_buffer("frequencies", 1e4 ** -torch.arange(0, 1, 2 * heads / width))

    def forward(self, tokens, labels):
        x = self.embedding(tokens)
        angles = torch.arange(tokens.shape[1], device=tokens.device)[:, None] * self.frequencies
        angles = torch.cat((angles, angles), -1)
        for layer in self.layers:
            x = layer(x, positions=(angles.cos().to(x.dtype), angles.sin().to(x.dtype)))
        logits = self.head(self.norm(x))
        return {"loss": f.cross_entropy(logits.float().flatten(0, -2), labels.flatten()), "logits": logits}


class Encoder(nn.Module):
    """Convolutions and an encoder of images."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 4, 4), nn.BatchNorm2d(32), nn.ReLU(inplace=True))
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True) for _ in range(2))

    def forward(self, images):
        x = self.stem(images).flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return x.square().mean()


def dropouts():
    return Dropouts(), (torch.randn(16, 32), torch.zeros(16, dtype=torch.long))


def llama(**options):
    return Llama(**options), {"tokens": TOKENS, "labels": TOKENS}


def half():
    model, inputs = llama()
    return model.bfloat16(), inputs


def frozen():
    model, inputs = llama()
    model.embedding.requires_grad_(False)
    for layer in model.layers:
        layer.gate.requires_grad_(False)
    return model, inputs


def encoder():
    return Encoder(), (torch.randn(4, 3, 16, 16),)


AUTOCAST = partial(torch.autocast, "cpu", torch.bfloat16)
CASES = {
    "dropouts": (dropouts, contextlib.nullcontext),
    "llama": (llama, contextlib.nullcontext),
    "tied": (partial(llama, tied=True), contextlib.nullcontext),
    "half": (half, contextlib.nullcontext),
    "frozen": (frozen, contextlib.nullcontext),
    "autocast": (llama, AUTOCAST),
    "encoder": (encoder, contextlib.nullcontext),
}


def trace(captured):
    """Bytes during each node: from the operator that stores a value until nothing reads or holds it."""
    graph = captured.graph
    end = np.array(graph.producer, np.int64)
    for v in range(graph.n_nodes):
        for x in graph.reads(v):
            end[x] = max(end[x], v)
    end = np.maximum(end, captured.holds.live_until)
    value, _, kept, _ = captured.holds.saved
    np.maximum.at(end, value, kept)
    end[graph.output] = graph.n_nodes - 1
    change = np.zeros(graph.n_nodes + 1, np.int64)
    np.add.at(change, graph.producer, graph.memory)
    np.subtract.at(change, end + 1, graph.memory)
    return np.cumsum(change)[:-1] + graph.workspace


def measured(model, inputs, context):
    """Peak of a real step."""

    def step():
        model.zero_grad(set_to_none=True)
        with context():
            result = model(**inputs) if isinstance(inputs, dict) else model(*inputs)
            loss = result["loss"] if isinstance(result, dict) else result
            del result
        loss.backward()

    step()
    given = inputs.values() if isinstance(inputs, dict) else inputs
    model.zero_grad(set_to_none=True)
    return remat.measure_peak(step, [*model.parameters(), *model.buffers(), *given]).allocator


@pytest.mark.parametrize("case", CASES)
def test_a_captured_step_has_the_peak_of_a_real_one(case):
    make, context = CASES[case]
    model, inputs = make()
    with context():
        captured = capture_step(model, inputs)
    peak = trace(captured).max()
    assert step_peak(model, inputs, context) == peak
    allocated = measured(model, inputs, context)
    assert allocated <= peak + 64
    assert peak <= 1.03 * allocated


def test_a_capture_changes_neither_parameters_nor_buffers_nor_gradients():
    model, inputs = encoder()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    capture_step(model, inputs)
    assert all(torch.equal(before[name], each) for name, each in model.state_dict().items())
    assert all(each.grad is None for each in model.parameters())


class Stateful(nn.Module):
    """Three blocks, of which the last is the first again; each calls a function before its layer."""

    def __init__(self, function=lambda block, x: x, finish=lambda block, x: None):
        super().__init__()
        first, second = StatefulBlock(function), StatefulBlock(function)
        second.layer.weight = first.layer.weight
        self.layers, self.finish = nn.ModuleList([first, second, first]), finish

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        self.finish(self.layers[0], x)
        return x.square().mean()


class StatefulBlock(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.layer, self.norm, self.function = nn.Linear(8, 8), nn.BatchNorm1d(8), function
        self.register_buffer("average", torch.ones(8))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.table, self.past, self.named, self.plain = None, [], {"depths": [1]}, torch.ones(8)
        self.depth = 1

    def forward(self, x):
        return self.norm(self.layer(self.function(self, x)))


def lazy_table(block, x):
    if block.table is None:
        block.table = torch.linspace(0, 1, x.shape[-1])
    return x * block.table


def last(block, x):
    block.last = x.relu()
    return block.last


def moving_average(block, x):
    block.average = 0.9 * block.average + 0.1 * x.detach().mean()
    return x


def counter(block, x):
    block.calls += 1
    return x * (1 + block.calls)


def containers(block, x):
    block.past.append(x)
    block.named["depths"].append(2)
    block.named["x"] = x.detach()
    return x


def plain_tensor(block, x):
    return x + block.plain.mul_(2)


def other_modes(block, x):
    block.eval()
    vars(block).pop("past", None)
    block.register_forward_hook(lambda *_: None)
    block.new = nn.Linear(8, 8)
    return x


def no_gradients(block, x):
    torch.set_grad_enabled(False)


def error(block, x):
    raise LookupError


def error_in_backward(block, x):
    x.register_hook(partial(error, block))


STATES = {
    "shared": (),
    "lazy": (lazy_table,),
    "last": (last,),
    "buffer": (moving_average,),
    "counter": (counter,),
    "containers": (containers,),
    "plain": (plain_tensor,),
    "modes": (other_modes,),
    "gradients": (last, no_gradients),
    "forward": (last, error),
    "backward": (last, error_in_backward),
}


def contents(entry):
    """Ids of all entries of modules and of the containers in them, and the numbers of tensors."""
    if isinstance(entry, nn.Module):
        entry = vars(entry)
    entries = entry if isinstance(entry, dict) else dict(enumerate(entry))
    nested = {
        name: contents(each) for name, each in entries.items() if isinstance(each, dict | list | tuple | nn.Module)
    }
    numbers = {name: each.tolist() for name, each in entries.items() if type(each) in (torch.Tensor, nn.Parameter)}
    return {"ids": {name: id(each) for name, each in entries.items()}, "nested": nested, "numbers": numbers}


@pytest.mark.parametrize("case", STATES)
@pytest.mark.parametrize("door", [capture_step, remat.plan_checkpoints], ids=lambda door: door.__name__)
def test_a_capture_leaves_the_model_as_it_was(door, case):
    model, x = Stateful(*STATES[case]), torch.randn(16, 8)
    model.layers[0].norm.eval()
    before, generator = contents(model), torch.get_rng_state()
    options = {"budget": "least", "blocks": "layers.*"} if door is remat.plan_checkpoints else {}
    fails = {"gradients": GraphError, "forward": LookupError, "backward": LookupError}.get(case)
    with pytest.raises(fails) if fails else contextlib.suppress(PlanError):
        door(model, (x,), **options)
    assert torch.is_grad_enabled()
    assert contents(model) == before
    assert torch.equal(generator, torch.get_rng_state())
    copy.deepcopy(model)
    if not fails:
        trained = list(model.parameters())
        loss = model(x)
        assert type(loss) is torch.Tensor
        loss.backward()
        assert all(each.grad is not None for each in trained)


def test_blocks_say_when_they_run_again_and_what_is_held():
    model, inputs = llama()
    captured = capture_step(model, inputs)
    graph, blocks = captured.graph, captured.blocks
    assert blocks.names == ("layers.0", "layers.1", "layers.2")
    assert blocks.kinds.tolist() == [0, 0, 0]
    assert not blocks.refusals
    for b, members in enumerate(blocks.members):
        assert all(graph.labels[v].startswith(f"{blocks.names[b]}.") for v in members)
        # the last product and sum are after the last tensor that autograd saves
        assert [captured.overloads[v] for v in members if v >= blocks.rerun_end[b]] == [
            "aten.mm.default",
            "aten.add.Tensor",
        ]
        assert graph.forward_of[blocks.trigger[b]] in members
        assert blocks.trigger[b] < blocks.release[b]
        # the input of the block, and the cosines and sines
        assert len(blocks.inputs[b]) == 3


def test_a_loss_without_gradient_is_an_error():
    model, inputs = dropouts()
    with raises(GraphError), torch.no_grad():
        capture_step(model, inputs)
    with raises(GraphError):
        capture_step(model, inputs, loss=lambda loss: loss.expand(2))


def test_a_block_that_is_called_twice_is_refused():
    class Twice(Dropouts):
        def forward(self, x, labels):
            return super().forward(self.layers[0](x), labels)

    captured = capture_step(Twice(), dropouts()[1])
    assert list(captured.blocks.refusals) == [0]


@pytest.mark.parametrize("place", ["meta", "cuda"])
def test_a_step_is_captured_for_a_device_that_is_not_there(place):
    with torch.device("meta"):
        model = Llama()
        inputs = {"tokens": TOKENS.to("meta"), "labels": TOKENS.to("meta")}
    captured = capture_step(model, inputs, on=None if place == "meta" else place)
    assert len(captured.blocks.names) == 3
    assert ("aten._scaled_dot_product_efficient_attention.default" in captured.overloads) == (place == "cuda")
    assert (captured.graph.memory % 512 == 0).all() == (place == "cuda")


def checkpointed(model, blocks, decisions, saved):
    """A model with PyTorch's own checkpoints, which save the operators of each block by overload and count."""
    for name, decision, operators in zip(blocks.names, decisions, saved, strict=True):
        if decision == "recompute":
            block = model.get_submodule(name)
            options = {"context_fn": partial(selective, operators)} if operators else {}
            block.forward = partial(checkpoint, block.forward, use_reentrant=False, **options)
    return model


def selective(operators):
    counts = Counter()

    def policy(context, operator, *args, **kwargs):
        if operator is torch.ops.aten._to_copy.default and args[0].is_leaf and args[0].requires_grad:
            return CheckpointPolicy.PREFER_RECOMPUTE
        place = str(operator), counts[context.is_recompute, operator]
        counts[context.is_recompute, operator] += 1
        return CheckpointPolicy.MUST_SAVE if place in operators else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def random_policy(captured, rng):
    """Decisions, the nodes whose outputs stay, and the same by overload and count for each block."""
    graph, blocks = captured.graph, captured.blocks
    decisions, stays, saved = [], np.zeros(graph.n_nodes, bool), []
    for members in blocks.members:
        decisions.append(str(rng.choice(["keep", "recompute", "recompute"])))
        free = np.setdiff1d(members, np.concatenate([blocks.fixed, blocks.draws]))
        chosen = free[rng.random(free.size) < rng.choice([0, 0.2, 0.5, 1])] if decisions[-1] == "recompute" else []
        stays[chosen] = True
        saved.append({(captured.overloads[v], int(captured.counts[v])) for v in chosen})
    return decisions, stays, saved


@pytest.mark.parametrize("case", ["dropouts", "llama", "half", "frozen", "autocast"])
def test_a_policy_has_the_peak_of_the_checkpoints_of_pytorch(case):
    make, context = CASES[case]
    model, inputs = make()
    rng = np.random.default_rng(0)
    with context():
        captured = capture_step(model, inputs)
    for _ in range(4):
        decisions, stays, saved = random_policy(captured, rng)
        policy = Policy.of(captured.graph, captured.blocks, decisions, stays, holds=captured.holds)
        real = step_peak(checkpointed(make()[0], captured.blocks, decisions, saved), inputs, context)
        # a tensor that was computed again is freed when its last reader has run, one that autograd saved later
        assert real <= policy.peak_memory <= 1.005 * real


class Pair(nn.Module):
    """Returns a large value too, which it makes first."""

    def __init__(self):
        super().__init__()
        self.side, self.up, self.down = nn.Linear(8, 256), nn.Linear(8, 64), nn.Linear(64, 8)

    def forward(self, x):
        y = self.side(x)
        return self.down(f.gelu(self.up(x))), y


class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Pair()])

    def forward(self, x):
        z, y = self.layers[0](x)
        return z.square().mean() + y.mean()


def test_a_saved_output_that_a_block_returns_lives_to_the_end_of_its_rerun():
    model, inputs = Pairs(), (torch.randn(64, 8),)
    captured = capture_step(model, inputs)
    stays = np.array([name == "layers.0.side.addmm" for name in captured.graph.node_names()])
    assert captured.holds.live_until[captured.graph.values(int(stays.argmax()))][0] > captured.blocks.members[0][-1]
    policy = Policy.of(captured.graph, captured.blocks, ["recompute"], stays, holds=captured.holds)
    real = step_peak(checkpointed(model, captured.blocks, ["recompute"], [{("aten.addmm.default", 0)}]), inputs)
    assert real <= policy.peak_memory <= 1.005 * real


def test_a_gradient_of_what_is_read_first_belongs_to_the_backward_part():
    class First(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.ones(1, 8))

        def forward(self, x):
            return (self.bias.expand_as(x) * x).sum()

    graph = capture_step(First(), (torch.ones(4, 8),)).graph
    assert graph.node_names()[-1] == "sum_1"
    assert not graph.forward[-1]


def test_the_peak_of_storages_is_that_of_the_allocator():
    model, inputs = llama(n=4, tokens=256)
    captured = capture_step(model, inputs)
    decisions = ["recompute", "keep", "recompute", "recompute"]
    saved = [{("aten.mm.default", 1)}, set(), {("aten.mm.default", 4), ("aten.mm.default", 5)}, set()]
    checkpointed(model, captured.blocks, decisions, saved)
    simulated = step_peak(model, inputs)
    state = torch.get_rng_state().nbytes
    assert simulated <= measured(model, inputs, contextlib.nullcontext) <= simulated + 3 * state


@pytest.fixture(scope="module")
def without_gradient():
    """An operator that PyTorch runs, and warns that it has no gradient."""
    library = torch.library.Library("remat_eager", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: 2 * x, "CompositeExplicitAutograd")
    torch.library.register_fake("remat_eager::twice", torch.empty_like, lib=library)
    yield torch.ops.remat_eager.twice
    library._destroy()


class Between(nn.Module):
    """Two layers with an operator between them, and one that the loss does not read."""

    def __init__(self, operator):
        super().__init__()
        self.first, self.second, self.unread, self.operator = *(nn.Linear(4, 4) for _ in range(3)), operator

    def forward(self, x):
        return self.second(self.operator(self.first(x))).sum()


class NoGradient(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return 2 * x

    @staticmethod
    def backward(context, gradient):
        return None


@pytest.mark.parametrize("door", [capture, capture_step], ids=lambda door: door.__name__)
def test_parameters_before_an_operator_without_gradient_are_named(door, without_gradient):
    with raises(GraphError) as error:
        door(Between(without_gradient), (torch.ones(2, 4),))
    assert error.value.fields["operator"] == "remat_eager::twice"
    assert sorted(error.value.fields["names"]) == ["first.bias", "first.weight"]


@pytest.mark.parametrize("door", [capture, capture_step], ids=lambda door: door.__name__)
@pytest.mark.parametrize("operator", [torch.detach, NoGradient.apply], ids=["detach", "function"])
def test_a_model_may_stop_gradients(door, operator):
    graph = door(Between(operator), (torch.ones(2, 4),)).graph
    assert not any("first" in name for name in np.array(graph.node_names())[~graph.forward])


@pytest.mark.parametrize("door", [capture, partial(capture_step, on="cpu")], ids=["capture", "capture_step"])
@pytest.mark.parametrize("loss", [f.cross_entropy, f.nll_loss, f.multi_margin_loss])
def test_a_model_on_meta_has_the_gradients_of_the_cpu(door, loss):
    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 4)

        def forward(self, x, labels):
            return loss(self.layer(x), labels)

    sizes = []
    for device in ("cpu", "meta"):
        with torch.device(device):
            graph = door(Classifier(), (torch.zeros(2, 8), torch.zeros(2, dtype=torch.long))).graph
        sizes.append((graph.node_names(), graph.memory.tolist()))
    assert sizes[0] == sizes[1]


class Keeps(torch.autograd.Function):
    """Keeps a tensor for its gradient in an attribute."""

    @staticmethod
    def forward(context, x):
        context.result = x.exp()
        return 2 * context.result

    @staticmethod
    def backward(context, gradient):
        return 2 * gradient * context.result


def writes(block, x):
    return x.add_(1)


def checkpoints(block, x):
    return checkpoint(torch.tanh, x, use_reentrant=False)


def leaves(block, x):
    block.result = x.tanh()
    return block.result


def updates(block, x):
    block.average.mul_(0.9)
    return x + block.average


class Odd(nn.Module):
    """Blocks of which each calls a function."""

    def __init__(self, function):
        super().__init__()
        self.layers = nn.ModuleList(OddBlock(function) for _ in range(2))
        self.first = nn.Linear(8, 8)

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        results = [vars(layer).pop("result") for layer in self.layers if hasattr(layer, "result")]
        return x.sum() + sum(each.sum() for each in results)


class OddBlock(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.layer, self.function = nn.Linear(8, 8), function
        self.register_buffer("average", torch.ones(8))

    def forward(self, x):
        return self.layer(self.function(self, x))


@pytest.mark.parametrize(
    ("function", "refused"),
    [
        (lambda block, x: Keeps.apply(x), True),
        (writes, True),
        (checkpoints, True),
        (leaves, True),
        (updates, True),
        (lambda block, x: (x + 1).tanh_(), False),
        (lambda block, x: f.batch_norm(x, torch.zeros(8), torch.ones(8), training=True), False),
        (lambda block, x: f.batch_norm(x, torch.zeros(8), torch.ones(8), training=True).tanh_(), True),
    ],
    ids=["attribute", "input", "checkpoint", "result", "buffer", "in place", "norm", "norm in place"],
)
def test_a_block_that_cannot_run_again_is_refused(function, refused):
    model, x = Odd(function), torch.randn(32, 8)
    captured = capture_step(model, (x,))
    assert sorted(captured.blocks.refusals) == ([0, 1] if refused else [])
    assert trace(captured).max() == step_peak(model, (x,))


def number_in_python(block, x):
    block.depth += 1
    return x * block.depth


def removes(block, x):
    plain, block.plain = block.plain, None
    return x if plain is None else x + plain


def lazy_module(block, x):
    if block.table is None:
        block.table = nn.Identity()
    return block.table(x)


def made_inside(block, x):
    count = torch.tensor(0)
    count += 1
    return x * count


def argument(block, x):
    x, count = x
    count += 1
    return x * count


class Counted(Stateful):
    """Blocks that take a tensor of integers too."""

    def forward(self, x, count):
        for layer in self.layers[:2]:
            x = layer((x, count))
        return x.square().mean()


@pytest.mark.parametrize(
    ("function", "refused"),
    [
        (counter, "writes into a buffer"),
        (plain_tensor, "writes into a buffer"),
        (argument, "writes into one of its inputs"),
        (moving_average, "replaces a tensor in an attribute"),
        (removes, "replaces a tensor in an attribute"),
        (lazy_module, "leaves a tensor in an attribute"),
        (lazy_table, "leaves a tensor in an attribute"),
        (last, "leaves a tensor in an attribute"),
        (containers, "leaves a tensor in an attribute"),
        (number_in_python, "changes a number in an attribute"),
        (made_inside, ""),
        (lambda block, x: x, ""),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_a_block_that_changes_what_it_reads_is_refused(function, refused):
    x, count = torch.randn(16, 8), torch.zeros(16, 1, dtype=torch.long)
    model, inputs = (Counted(function), (x, count)) if function is argument else (Stateful(function), (x,))
    model.layers = model.layers[:2]
    captured = capture_step(model, inputs, blocks="layers.*")
    assert [captured.blocks.refusals.get(b, "")[3 : len(refused) + 3] for b in range(2)] == [refused] * 2
    assert bool(captured.blocks.refusals) == bool(refused)
    assert not count.any()


def test_a_block_that_writes_into_integers_that_the_model_makes_is_refused():
    class Made(Counted):
        def forward(self, x):
            return super().forward(x, torch.zeros(16, 1, dtype=torch.long))

    assert len(capture_step(Made(argument), (torch.randn(16, 8),)).blocks.refusals) == 2


@pytest.mark.parametrize(
    "function",
    [
        lambda block, x: x if x.mean() > 0.2 else block.layer(x),
        lambda block, x: x[x[:, 0] > 0],
        lambda block, x: x * float(x.mean()),
        lambda block, x: x * x.detach().tolist()[0][0],
        lambda block, x: x * x.detach().numpy().mean(),
    ],
    ids=["branch", "mask", "float", "list", "numpy"],
)
def test_a_model_that_reads_numbers_is_an_error_with_its_line(function):
    with raises(GraphError, file=__file__, line=function.__code__.co_firstlineno) as error:
        capture_step(Odd(function), (torch.randn(16, 8),))
    assert "lambda" in error.value.fields["code"]


def clamped(when):
    """A block that clamps its result when a check of its numbers says so."""

    def function(block, x):
        y = block.layer(x)
        return y.clamp(-1, 1) if when(y) else y

    return function


CHECKS = {
    "finite": lambda y: not torch.isfinite(y).all(),
    "infinite": lambda y: torch.isinf(y).any() or torch.isnan(y).any(),
    "of a sum": lambda y: torch.isnan(y.sum()).item(),
    "rows": lambda y: not torch.isfinite(y).all(dim=-1, keepdim=True).all(),
    "either": lambda y: (torch.isnan(y) | ~torch.isfinite(y)).any(),
    "itself": lambda y: (y != y).any(),
    "count": lambda y: torch.isnan(y).sum() > 0 or torch.count_nonzero(torch.isinf(y)),
    "absolute": lambda y: (y.abs() == float("inf")).any(),
    "numbers": lambda y: torch.isnan(y).float().add(1, alpha=2).sub(2).any(),
    "draw": lambda y: torch.rand([]) < 0.1,
    "drawn number": lambda y: torch.rand(1).item() < 0.1,
    "drawn rows": lambda y: (torch.rand(4)[2] < 0.1).item(),
}


@pytest.mark.parametrize("check", CHECKS)
def test_checks_of_usual_numbers_are_assumed_and_named(check):
    model, x = Odd(clamped(CHECKS[check])), torch.randn(32, 8)
    captured = capture_step(model, (x,))
    assert not captured.blocks.refusals
    assert "aten.clamp.default" not in captured.overloads
    (note,) = captured.notes
    assert "assumed to be finite" in note
    assert note.split()[0] in str(remat.plan_checkpoints(model, (x,), "least"))
    assert capture_step(Odd(lambda block, x: x), (x,)).notes == ()
    torch.manual_seed(1)  # the first draws are above 0.1
    assert trace(captured).max() == step_peak(model, (x,))


@pytest.mark.parametrize(
    "when",
    [
        lambda y: torch.isnan(y).masked_fill_(y > 0, True).any(),
        lambda y: (torch.isnan(y) | (y > 0)).any(),
        lambda y: y.abs().max() > 1e4,
        lambda y: torch.isfinite(y).sum() > 3,
    ],
    ids=["written", "unknown", "limit", "count"],
)
def test_other_numbers_are_not_assumed(when):
    with raises(GraphError) as error:
        capture_step(Odd(clamped(when)), (torch.randn(32, 8),))
    assert error.value.fields["file"] == __file__


def random_state():
    return pickle.dumps((random.getstate(), np.random.get_state()))  # noqa: NPY002


@pytest.mark.parametrize("draw", [random.random, np.random.rand], ids=["python", "numpy"])
def test_generators_of_python_and_numpy_are_watched(draw):
    x, before = torch.randn(32, 8), random_state()
    inside = capture_step(Odd(lambda block, x: x * draw()), (x,))
    assert list(inside.blocks.refusals) == [0, 1]

    class Outside(Odd):
        def forward(self, x):
            return super().forward(x if draw() < 2 else x + 1)

    outside = capture_step(Outside(lambda block, x: x), (x,))
    assert not outside.blocks.refusals
    for captured in (inside, outside):
        assert ["random numbers" in each for each in captured.notes] == [True]
    assert random_state() == before


def inner_gradient(block, x):
    with torch.enable_grad():
        z = x.detach().requires_grad_()
        return x * torch.autograd.grad(z.pow(3).sum(), z)[0]


def inner_backward(block, x):
    block.layer.bias.sum().backward()
    return x


class Penalty(Odd):
    """Adds the square of the gradient of its input, as forces of energies are trained."""

    def forward(self, x):
        x = x.detach().requires_grad_()
        result = super().forward(x).square()
        (slope,) = torch.autograd.grad(result, x, create_graph=True)
        return result + slope.square().sum()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Odd(inner_gradient), "it computes gradients"),
        (lambda: Odd(inner_backward), "it computes gradients"),
        (lambda: Penalty(lambda block, x: x.tanh()), "torch.autograd.grad reads"),
    ],
    ids=["inner", "inner backward", "penalty"],
)
def test_blocks_with_other_gradients_are_kept(make, why):
    model, x = make(), torch.randn(32, 8)
    expected = gradients(model, x)
    plan = remat.plan_checkpoints(model, (x,), "100%")
    assert [each.decision for each in plan.treatments] == ["keep"] * 2
    assert all(each.startswith(why) for each in plan.captured.blocks.refusals.values())
    assert len(plan.captured.blocks.refusals) == 2
    assert plan.policy.peak_memory == step_peak(model, (x,))
    with plan.apply(model):
        assert_same(gradients(model, x), expected)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")  # PyTorch's own, for jvp
def test_gradients_that_take_no_hooks_are_refused_in_a_sentence():
    x = torch.randn(32, 8, requires_grad=True)
    model = Odd(lambda block, x: x * torch.func.grad(lambda z: z.pow(3).sum())(x))
    with raises(GraphError) as error:
        capture_step(model, (x,))
    assert "torch.func.grad" in str(error.value)
    outside = partial(torch.autograd.grad, inputs=x, create_graph=True)
    with raises(GraphError) as error:
        capture_step(Odd(lambda block, x: x), (x,), loss=lambda loss: loss + outside(loss)[0].sum())
    assert "from outside" in str(error.value)
    for function in (torch.func.vmap(torch.tanh), lambda x: torch.func.jvp(torch.tanh, (x,), (x,))[1]):
        assert not capture_step(Odd(lambda block, x, run=function: run(x)), (x,)).blocks.refusals


class Recurrent(nn.Module):
    """Recurrent layers as blocks."""

    def __init__(self, kind, **options):
        super().__init__()
        self.layers = nn.ModuleList(kind(16, 16, **options) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)[0]
            x = x.unflatten(-1, (-1, 16)).sum(-2)
        return x.square().mean()


@pytest.mark.parametrize(
    "options", [{}, {"bidirectional": True, "batch_first": True}, {"num_layers": 2, "dropout": 0.2}]
)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_are_blocks(kind, options):
    torch.manual_seed(0)
    model, x = Recurrent(kind, **options), torch.randn(24, 16, 16)
    expected, before = gradients(model, x), contents(model)
    captured = capture_step(model, (x,))
    assert not captured.blocks.refusals
    assert contents(model) == before
    assert trace(captured).max() == step_peak(model, (x,))
    assert bool(captured.notes) == (kind is nn.LSTM)
    plan = remat.plan_checkpoints(model, (x,), "least", workspace=kind is nn.LSTM)
    assert any(each.decision == "recompute" for each in plan.treatments)
    assert not plan.captured.notes
    with plan.apply(model):
        assert_same(gradients(model, x), expected)
        allocated = measured(model, (x,), contextlib.nullcontext)
    assert allocated <= plan.peak_memory + 1024  # oneDNN's sum of the biases
    assert plan.peak_memory <= 1.05 * allocated


def test_buffers_of_recurrent_layers_on_a_gpu_are_named():
    captured = capture_step(Recurrent(nn.GRU), (torch.randn(8, 4, 16),), on="cuda")
    assert ["cuDNN" in each for each in captured.notes] == [True]


def test_a_bare_tensor_as_inputs_is_an_error():
    with raises(ArgumentTypeError):
        capture_step(Odd(writes), torch.randn(16, 8))


@pytest.mark.parametrize("blocks", ["foo.*", [], ["layers.*", "layers.*.up"]])
def test_a_pattern_without_a_module_is_an_error_with_the_paths(blocks):
    with raises(PlanError, modules=["layers", "layers.*", "layers.*.layer", "first"]):
        capture_step(Odd(writes), (torch.randn(16, 8),), blocks=blocks)


def test_a_view_that_is_written_is_captured():
    class Model(nn.Linear):
        def forward(self, x):
            y = torch.zeros_like(x)
            y[:, :4] = super().forward(x)[:, :4]
            return y.square().mean()

    model, x = Model(8, 8), torch.randn(32, 8)
    assert trace(capture_step(model, (x,))).max() == step_peak(model, (x,))


@dataclass
class Record:
    x: torch.Tensor
    seen: list = field(default_factory=list)


class Cache:
    """An object of a class of the model's own, as transformers has for keys and values."""

    def __init__(self):
        self.last = None
        self.counts = [{}]


@pytest.mark.parametrize(
    ("given", "change"),
    [
        (list, list.append),
        (lambda: Record(torch.ones(8)), lambda record, x: record.seen.append(x)),
        (Cache, lambda cache, x: setattr(cache, "last", x)),
        (Cache, lambda cache, x: cache.counts[0].update(x=x)),
    ],
    ids=["list", "dataclass", "attribute", "nested"],
)
def test_a_block_that_changes_an_argument_is_refused(given, change):
    def function(block, arguments):
        x, argument = arguments
        change(argument, x)
        return x

    class Given(Stateful):
        def forward(self, x):
            argument = given()
            for layer in self.layers[:2]:
                x = layer((x, argument))
            return x.sum()

    captured = capture_step(Given(function), (torch.randn(16, 8),), blocks="layers.*")
    assert [captured.blocks.refusals.get(b, "")[:16] for b in range(2)] == ["it changes a lis"] * 2


def test_blocks_take_and_return_dataclasses():
    class Takes(Block):
        def forward(self, record):
            return Record(super().forward(record.x))

    class Records(Model):
        def forward(self, record):
            for layer in self.layers:
                record = layer(record)
            return record.x.square().mean()

    model, record = Records(Takes), Record(torch.ones(1024, 8))
    captured = capture_step(model, (record,))
    assert not captured.blocks.refusals
    assert trace(captured).max() == step_peak(model, (record,))
    expected = gradients(model, record)
    with remat.plan_checkpoints(model, (record,), "60%").apply(model):
        assert_same(gradients(model, record), expected)


def test_lengths_of_ctc_that_are_known_are_read():
    class Speech(Model):
        def forward(self, x, targets):
            for layer in self.layers:
                x = layer(x)
            lengths = torch.full((3,), 20), torch.tensor([4, 2, 5])
            return f.ctc_loss(x.log_softmax(-1).transpose(0, 1), targets, *lengths)

    model, inputs = Speech(), (torch.randn(3, 20, 8), torch.ones(3, 5, dtype=torch.long))
    captured = trace(capture_step(model, inputs)).max()
    model(*inputs).backward()
    known = [*model.parameters(), *inputs]
    model.zero_grad(set_to_none=True)
    peak = remat.measure_peak(lambda: model(*inputs).backward(), known).storages
    assert captured == peak
