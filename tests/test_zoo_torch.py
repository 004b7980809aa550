"""Networks of the zoo against what PyTorch and torchvision say of theirs; without tensors, on the device `meta`."""

from collections import Counter
from math import prod

import pytest

from remat_algos.zoo.layers import Layers
from remat_algos.zoo.registry import build
from remat_algos.zoo.settings import Settings
from tests.oracles.plain import plain

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra torchvision)")
torchvision = pytest.importorskip("torchvision", reason="torchvision is not installed (extra torchvision)")

nn, functional = torch.nn, torch.nn.functional
flop_counter = pytest.importorskip("torch.utils.flop_counter")

# Ours, theirs.
VISION = {
    **{f"resnet{depth}": f"resnet{depth}" for depth in (18, 34, 50, 101, 152)},
    **{f"vgg{depth}{norm}": f"vgg{depth}{norm}" for depth in (11, 13, 16, 19) for norm in ("", "_bn")},
    **{f"densenet{depth}": f"densenet{depth}" for depth in (121, 161, 169, 201)},
    "googlenet_bn": "googlenet",
    "mobilenet_v2": "mobilenet_v2",
    **{f"vit_{size}": f"vit_{size}" for size in ("b_16", "b_32", "l_16", "l_32", "h_14")},
}
TRACED = ("resnet18", "resnet50", "vgg19", "vgg11_bn", "densenet161", "googlenet_bn", "mobilenet_v2", "vit_b_16")

BATCH = 2


def vision(name):
    """torchvision's network, without numbers."""
    options = {"init_weights": False} if name.startswith("googlenet") else {}
    with torch.device("meta"):
        return getattr(torchvision.models, VISION[name])(**options).train()


def image():
    return torch.empty(BATCH, 3, 224, 224, device="meta")


# ---------------------------------------------------------------- parameters


@pytest.mark.parametrize("name", VISION)
def test_parameters_are_as_many_and_of_the_same_shapes(name):
    ours, theirs = build(name, batch=1), vision(name)
    assert ours.n_parameters == sum(p.numel() for p in theirs.parameters())
    assert Counter(ours.parameter_shapes.values()) == Counter(tuple(p.shape) for p in theirs.parameters())


# ---------------------------------------------------------------- shapes, in the order in which things run

KINDS = {
    "conv2d": "Convolution",
    "linear": "Linear",
    "max_pool2d": "MaxPooling",
    "_max_pool2d": "MaxPooling",
    "avg_pool2d": "AveragePooling",
    "adaptive_avg_pool2d": "AveragePooling",
    "batch_norm": "BatchNorm",
    "layer_norm": "LayerNorm",
    "relu": "ReLU",
    "relu6": "ReLU6",
    "hardtanh": "ReLU6",
    "gelu": "GELU",
    "cat": "Concat",
}


class Calls(torch.overrides.TorchFunctionMode):
    """Notes the kind and the shape of each result of `torch.nn.functional`."""

    def __init__(self):
        super().__init__()
        self.made = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        kind = KINDS.get(function.__name__)
        if kind and not self._idle(kind, args[0], result):
            self.made.append((kind, tuple(result.shape)))
        return result

    @staticmethod
    def _idle(kind, read, result):
        """Whether the zoo leaves it out: means of single pixels, and a single tensor that is joined."""
        return (kind == "AveragePooling" and result.shape == read.shape) or (kind == "Concat" and len(read) == 1)


def comparable(made):
    """Rows of a linear layer may stand in any order: attention of PyTorch has its batch second."""
    return [(kind, (prod(shape[:-1]), shape[-1]) if kind in ("Linear", "LayerNorm") else shape) for kind, shape in made]


@pytest.mark.parametrize("name", TRACED)
def test_operations_have_the_same_shapes_in_the_same_order(name):
    with Calls() as calls:
        vision(name)(image())
    inside = "self_attention.in_proj", "self_attention.out_proj"  # of one function of PyTorch; FLOPs are compared below
    layers = [layer for layer in build(name, batch=BATCH).layers if not layer.name.endswith(inside)]
    ours = [(layer.op, layer.shapes[0]) for layer in layers if layer.op in KINDS.values()]
    assert comparable(ours) == comparable(calls.made)


@pytest.mark.parametrize("name", TRACED)
def test_flops_are_twice_our_multiply_adds(name):
    counter = flop_counter.FlopCounterMode(display=False)
    model, x = vision(name), image()
    with counter:
        model(x)
    assert counter.get_total_flops() == 2 * build(name, batch=BATCH).macs


# ---------------------------------------------------------------- pooling

POOLED = [
    (length, kernel, stride, padding, cover)
    for length in (4, 7, 12)
    for kernel in (1, 2, 3)
    for stride in (1, 2, 3)
    for padding in range(kernel // 2 + 1)
    for cover in (False, True)
]


@pytest.mark.parametrize(("length", "kernel", "stride", "padding", "cover"), POOLED)
def test_pooling_covers_as_ceil_mode_does(length, kernel, stride, padding, cover):
    net = Layers("net", Settings())
    ours = net.max_pool(net.input("x", (1, 1, length)), kernel, stride, padding=padding, cover=cover)
    theirs = functional.max_pool1d(torch.empty(1, 1, length, device="meta"), kernel, stride, padding, ceil_mode=cover)
    assert ours.shape == tuple(theirs.shape)


# ---------------------------------------------------------------- what gradients read

SEQUENCE, WIDTH, HEADS = 6, 16, 2


class Saved:
    """What autograd keeps of a run, apart from parameters, buffers and inputs."""

    def __init__(self, model, *inputs):
        self.known = {storage(t) for t in (*model.parameters(), *model.buffers(), *inputs, LABELS, TARGET)}
        self.kept = {}
        with torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor):
            self.result = model(*inputs)

    def _pack(self, tensor):
        self.kept[storage(tensor)] = tensor.detach()  # held, so that no other takes its place
        return tensor

    @property
    def sizes(self):
        """Bytes of each tensor, views once."""
        return sorted(t.untyped_storage().nbytes() for at, t in self.kept.items() if at not in self.known)

    def roles(self, x):
        """What is kept: x, the result y, or bytes of another tensor."""
        names = {**dict.fromkeys(self.known), storage(x): "x", storage(self.result): "y"}
        kept = [names.get(at, t.untyped_storage().nbytes()) for at, t in self.kept.items()]
        return sorted((role for role in kept if role), key=str)


def storage(tensor):
    return tensor.untyped_storage().data_ptr()


def ours_saved(network, block):
    """Bytes of each value that gradients of a block read, apart from those that the block was given."""
    g = plain(network.graph)
    nodes = {v for v, layer in enumerate(network.layers) if layer.block == block}
    kept = {x for v in nodes for x in g.saved[v] if g.producer[x] in nodes}
    return sorted(g.memory[x] for x in kept)


class Call(nn.Module):
    """A function that reads x, and parameters of its own."""

    def __init__(self, function, *shapes):
        super().__init__()
        self.function = function
        self.own = nn.ParameterList(torch.rand(shape) for shape in shapes)

    def forward(self, x):
        return self.function(x, *self.own)


IMAGES, ROWS = (2, 4, 6, 6), (2, 5, 4)
LABELS, TARGET = torch.zeros(10, dtype=torch.int64), torch.zeros(ROWS)

# Operation by operation: ours, theirs, and the shape of x.
OPERATIONS = {
    "convolution": (lambda n, x: n.convolution(x, 3, 3), Call(functional.conv2d, (3, 4, 3, 3), (3,)), IMAGES),
    "transposed convolution": (
        lambda n, x: n.transposed_convolution(x, 3, 2, stride=2),
        Call(lambda x, w: functional.conv_transpose2d(x, w, stride=2), (4, 3, 2, 2)),
        IMAGES,
    ),
    "linear": (lambda n, x: n.linear(x, 3), Call(functional.linear, (3, 4), (3,)), ROWS),
    "batch norm": (lambda n, x: n.batch_norm(x), nn.BatchNorm2d(4), IMAGES),
    "layer norm": (lambda n, x: n.layer_norm(x), nn.LayerNorm(4), ROWS),
    "group norm": (lambda n, x: n.group_norm(x, 2), nn.GroupNorm(2, 4), IMAGES),
    "relu": (lambda n, x: n.relu(x), nn.ReLU(), ROWS),
    "tanh": (lambda n, x: n.tanh(x), nn.Tanh(), ROWS),
    "sigmoid": (lambda n, x: n.sigmoid(x), nn.Sigmoid(), ROWS),
    "gelu": (lambda n, x: n.gelu(x), nn.GELU("tanh"), ROWS),
    "silu": (lambda n, x: n.silu(x), nn.SiLU(), ROWS),
    "softmax": (lambda n, x: n.softmax(x), nn.Softmax(-1), ROWS),
    "add": (lambda n, x: n.add(x, x), Call(lambda x: x + x), ROWS),
    "multiply": (lambda n, x: n.multiply(x, x), Call(lambda x: x * x), ROWS),
    "scale": (lambda n, x: n.scale(x), Call(lambda x: 5 * x), ROWS),
    "concat": (lambda n, x: n.concat(x, x), Call(lambda x: torch.cat([x, x], 1)), ROWS),
    "matmul": (lambda n, x: n.matmul(x, x, transposed=True), Call(lambda x: x @ x.transpose(1, 2)), ROWS),
    "dropout": (lambda n, x: n.dropout(x), Call(lambda x: torch.native_dropout(x, 0.5, True)[0]), ROWS),
    "upsample": (lambda n, x: n.upsample(x, 9, 9), nn.Upsample(scale_factor=1.5, mode="bilinear"), IMAGES),
    "mean of each channel": (lambda n, x: n.average_pool_to(x, 1, 1), nn.AdaptiveAvgPool2d(1), IMAGES),
    "mean square": (
        lambda n, x: n.mean_square(x, n.input("target", x.shape)),
        Call(lambda x: functional.mse_loss(x, TARGET)),
        ROWS,
    ),
}

# Those that differ, and what PyTorch keeps instead, on a CPU: x, y, or bytes of another tensor.
DIFFERENT = {
    "rms norm": (lambda n, x: n.rms_norm(x), nn.RMSNorm(4), ROWS, [40, "x"], [160, 40, "x"]),  # x / deviation too
    "max pooling": (lambda n, x: n.max_pool(x, 2, 2), nn.MaxPool2d(2), IMAGES, [576], [576, "x"]),
    "average pooling": (lambda n, x: n.average_pool(x, 2, 2), nn.AvgPool2d(2), IMAGES, [], ["x"]),  # for its shape
    "means of parts": (lambda n, x: n.average_pool_to(x, 2, 2), nn.AdaptiveAvgPool2d(2), IMAGES, [], ["x"]),
    "relu6": (lambda n, x: n.relu6(x), nn.ReLU6(), ROWS, ["y"], ["x"]),  # y where it runs in place
    "hard tanh": (lambda n, x: n.hard_tanh(x), nn.Hardtanh(), ROWS, ["y"], ["x"]),
    "cross-entropy": (  # the sum of the weights of the classes too
        lambda n, x: n.softmax_cross_entropy(x, n.input("targets", (2, 5), "int64")),
        Call(lambda x: functional.cross_entropy(x.flatten(0, 1), LABELS)),
        ROWS,
        [160],
        [160, 4],
    ),
}


def roles(layer, shape):
    """What the gradient of a layer of ours reads: x, its result y, or bytes of another value."""
    net = Layers("net", Settings())
    layer(net, net.copy(net.input("in", shape), name="x"))
    g = plain(net.network().graph)
    names = {g.value_names.index("x"): "x", g.values[-1][0]: "y"}
    return sorted((names.get(x, g.memory[x]) for x in g.saved[-1]), key=str)


@pytest.mark.parametrize(("layer", "theirs", "shape"), OPERATIONS.values(), ids=OPERATIONS)
def test_gradients_read_what_autograd_keeps(layer, theirs, shape):
    x = torch.rand(shape, requires_grad=True)
    assert Saved(theirs, x).roles(x) == roles(layer, shape)


@pytest.mark.parametrize(("layer", "theirs", "shape", "read", "kept"), DIFFERENT.values(), ids=DIFFERENT)
def test_gradients_read_something_else_than_autograd_keeps(layer, theirs, shape, read, kept):
    x = torch.rand(shape, requires_grad=True)
    assert roles(layer, shape) == read
    assert Saved(theirs, x).roles(x) == kept


def test_gradients_of_convolution_norm_relu_pooling_read_the_same_bytes():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2, return_indices=True)
    )
    theirs = Saved(model, torch.rand(BATCH, 3, 10, 10))
    net = Layers("net", Settings())
    with net.block("block"):
        x = net.convolution(net.input("x", (BATCH, 3, 10, 10)), 8, 3, bias=False)
        net.max_pool(net.relu(net.batch_norm(x)), 2, 2)
    convolved, channels, pooled = BATCH * 8 * 8 * 8 * 4, 8 * 4, BATCH * 8 * 4 * 4 * 8
    assert (
        theirs.sizes == ours_saved(net.network(), "block") == sorted([convolved, channels, channels, convolved, pooled])
    )


class Block(nn.Module):
    """A layer of GPT-2, operation by operation."""

    def __init__(self, fused):
        super().__init__()
        self.fused = fused
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.packed, self.joined = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, hidden):
        x = x + dropout(self.joined(self.attention(self.packed(self.norm1(x)), hidden)))
        y = functional.gelu(self.up(self.norm2(x)), approximate="tanh")
        return x + dropout(self.down(y))

    def attention(self, packed, hidden):
        q, k, v = (side.unflatten(-1, (HEADS, -1)).transpose(1, 2) for side in packed.split(WIDTH, dim=-1))
        if self.fused:
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * (WIDTH // HEADS) ** -0.5
            shares = scores.masked_fill(hidden, float("-inf")).softmax(dim=-1)
            y = dropout(shares) @ v
        return y.transpose(1, 2).reshape(packed.shape[0], SEQUENCE, WIDTH)


def dropout(x):
    """As it runs on GPUs: the mask has a byte per element."""
    return torch.native_dropout(x, 0.1, True)[0]


def gpt(fused):
    return build("gpt2", batch=BATCH, sequence=SEQUENCE, depth=1, width=WIDTH, heads=HEADS, words=50, fused=fused)


def theirs_of(fused):
    hidden = torch.ones(SEQUENCE, SEQUENCE, dtype=torch.bool).triu(1)
    return Block(fused), torch.rand(BATCH, SEQUENCE, WIDTH, requires_grad=True), hidden


def flops_of_fused_attention(q, k, v, *_, **__):
    return flop_counter.sdpa_flop_count(q, k, v)


# PyTorch (2.11, 2.13) counts fused attention on GPUs only.
FUSED_ON_CPU = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: flops_of_fused_attention}


@pytest.mark.parametrize("fused", [False, True])
def test_a_block_of_gpt_has_the_same_flops_and_parameters(fused):
    model, *inputs = theirs_of(fused)
    counter = flop_counter.FlopCounterMode(display=False, custom_mapping=FUSED_ON_CPU)
    with counter:
        model(*inputs)
    network = gpt(fused)
    layers = [layer for layer in network.layers if layer.block == "h.0"]
    names = {name for layer in layers for name in layer.parameters}
    assert counter.get_total_flops() == sum(2 * layer.macs for layer in layers)
    assert sum(p.numel() for p in model.parameters()) == sum(prod(network.parameter_shapes[name]) for name in names)


def test_gradients_of_a_block_of_gpt_read_the_same_bytes():
    assert Saved(*theirs_of(False)).sizes == ours_saved(gpt(False), "h.0")


def test_gradients_of_a_block_of_gpt_with_fused_attention_read_the_same_bytes():
    assert sum(Saved(*theirs_of(True)).sizes) == sum(ours_saved(gpt(True), "h.0"))
