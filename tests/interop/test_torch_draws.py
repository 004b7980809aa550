"""Random operators that run again draw what they drew first."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from remat_algos.interop import torch as remat
from remat_algos.interop.torch.calls import is_draw
from remat_algos.interop.torch.capture_model import read_joint_graph, tidy

TRACES_GENERATORS = torch.torch_version.TorchVersion(torch.__version__) >= "2.13"
# of other devices, or without dropout on the CPU
ELSEWHERE = ("_cudnn", "cudnn", "_flash", "_efficient", "_scaled_dot_product", "miopen", "_fused_dropout")
SHAPE = (2, 3, 4, 8)
OWN = {
    "size": SHAPE,
    "shape": SHAPE,
    "stride": (96, 32, 8, 1),
    "high": 9,
    "low": 1,
    "n": 12,
    "p": 0.4,
    "dropout_p": 0.4,
    "train": True,
    "training": True,
    "num_samples": 2,
    "device": torch.device("cpu"),
    "requires_grad": False,
    "mean": 0.0,
    "std": 1.0,
}
"""Arguments without a default, by name."""


def random_operators():
    """Every operator that PyTorch tags as random on the CPU; a capture takes those apart that consist of others."""
    for namespace in (torch.ops.aten, torch.ops.prims):
        for name in sorted(dir(namespace)):
            packet = getattr(namespace, name)
            for overload in packet.overloads() if hasattr(packet, "overloads") else ():
                operator = getattr(packet, overload)
                if torch.Tag.nondeterministic_seeded not in operator.tags or operator._schema.is_mutable:
                    continue
                # Older versions do not trace names of dimensions, and before 2.13 no generators.
                if "names" in overload or ("generator" in overload and not TRACES_GENERATORS):
                    continue
                if not name.startswith((*ELSEWHERE, "inductor")) and not operator._can_decompose():
                    yield operator


NOT_RUN = {
    ("aten._standard_gamma.default", torch.bfloat16),  # no kernel of PyTorch
    ("aten.binomial.default", torch.bfloat16),
    (
        "aten.randint_like.Tensor_generator",
        torch.float32,
    ),  # it cannot be traced: "high must be a scalar tensor and on CPU"
    ("aten.randint_like.Tensor_generator", torch.bfloat16),
}
GENERATOR = torch.Generator()
OPERATORS = list(random_operators())


def tensor(name, dtype):
    if name == "high":
        return torch.tensor(9)
    return torch.full(SHAPE, 0.5, dtype=dtype) if name in ("std", "noise", "p") else torch.rand(SHAPE, dtype=dtype)


def arguments(operator, dtype):
    """Arguments of a call on the CPU."""
    positional, named = [], {}
    for argument in operator._schema.arguments:
        kind = str(argument.type)
        if argument.name == "dtype":
            value = torch.int64 if "perm" in operator._schema.name or "randint" in operator._schema.name else dtype
        elif argument.name == "generator":
            value = GENERATOR if "generator" in operator._overloadname else None
        elif kind == "Tensor":
            value = tensor(argument.name, dtype)
            if "multinomial" in operator._schema.name:
                value = value[0, 0]
        elif argument.name in OWN or not argument.has_default_value():
            value = OWN[argument.name]
        else:
            value = argument.default_value
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            positional.append(value)
    return positional, named


def seed():
    torch.manual_seed(7)
    GENERATOR.manual_seed(7)


@pytest.mark.parametrize(
    ("operator", "dtype"),
    [
        pytest.param(each, dtype, id=f"{each}-{dtype}", marks=() if dtype == torch.float32 else pytest.mark.slow)
        for each in OPERATORS
        for dtype in (torch.float32, torch.bfloat16)
        if (str(each), dtype) not in NOT_RUN
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
def test_a_draw_that_runs_again_gives_what_it_gave(operator, dtype):
    given, named = arguments(operator, dtype)

    leaves, form = tree_flatten((given, named))
    tensors = {i: leaf for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.dim()}
    inputs = [torch.ones(()), *tensors.values()]

    def read_twice(x, *passed):
        passed = dict(zip(tensors, passed, strict=True))
        given, named = tree_unflatten([passed.get(i, leaf) for i, leaf in enumerate(leaves)], form)
        drawn = operator(*given, **named)
        drawn = drawn[0] if isinstance(drawn, tuple) else drawn
        return drawn * x, drawn + x

    traced = make_fx(torch.func.functionalize(read_twice), tracing_mode="fake", _allow_non_fake_inputs=True)
    module = traced(*inputs)
    module.graph.output_node().meta["desc"] = [None, None]
    model = read_joint_graph(tidy(module, True), 2, lambda nodes: ([1] * len(nodes), [0] * len(nodes), "ns"))
    draws = [v for v, node in enumerate(model.operators) if node is not None and is_draw(node)]
    assert draws
    again = [v for v in draws if not model.graph.once[v]]
    order = list(range(model.boundary))
    readers = [v for v in order if set(model.graph.reads(v)) & {x for d in draws for x in model.graph.values(d)}]
    first_reader = readers[0] if readers else order[-1]
    order[first_reader + 1 : first_reader + 1] = again
    order.append(model.boundary)
    lowered = remat.lower(model, order)
    seed()
    expected = module(*inputs)
    states = torch.get_rng_state(), GENERATOR.get_state()
    seed()
    results = lowered(*inputs)
    results += (torch.get_rng_state(), GENERATOR.get_state())
    for one, other in zip(results, [*expected, *states], strict=True):
        assert torch.equal(one, other)
