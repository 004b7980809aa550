"""Any schedule of any joint graph gives, lowered, what the joint graph gives, in the predicted bytes."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as f

import remat_algos as ra
from remat_algos.interop import torch as remat
from remat_algos.interop.torch.lowering import split
from remat_algos.interop.torch.storages import _Storages
from remat_algos.schedule.schedule import with_copies

STATE = 5056  # bytes of a generator's state, which no dispatch mode sees
ONE = (
    torch.tanh,
    lambda x: f.dropout(x, 0.3),
    lambda x: torch.cat([part.t().t().sin() for part in x.chunk(2, 1)], 1),
    lambda x: x * torch.var_mean(x, 1, keepdim=True)[1],
    lambda x: x.sort(1)[0],
    lambda x: x.reshape(-1).view(8, 8).t(),
    lambda x: x.expand(2, 8, 8).sigmoid().sum(0),
)
TWO = (torch.add, torch.mul, torch.mm, torch.maximum)
VIEWS = (
    lambda buffer: buffer[0],
    lambda buffer: buffer.t(),
    lambda buffer: buffer[:, 2:3].expand(8, 8),
    lambda buffer: buffer.view(4, 16)[:, 8:].reshape(-1, 8)[:1],
    lambda buffer: buffer.unbind(1)[3],
    lambda buffer: buffer.chunk(2)[1][1],
)
"""Of a buffer of 8 times 8 that the model writes into: each can be added to 8 times 8 numbers."""


class Drawn(nn.Module):
    """Operators in random order, each on random earlier results; several results are returned.

    Two buffers are read through views, before and after the model writes into them.
    """

    def __init__(self, seed):
        super().__init__()
        self.seed = seed
        self.linear, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)
        self.register_buffer("mean", torch.ones(8, 8))
        self.register_buffer("count", torch.ones(8, 8))

    def forward(self, x):
        rng = random.Random(self.seed)
        values = [x, self.norm(self.linear(x))]
        for _ in range(rng.randint(2, 8)):
            if rng.random() < 0.2:
                buffer = rng.choice((self.mean, self.count))
                values.append(rng.choice(values) + rng.choice(VIEWS)(buffer))
                if rng.random() < 0.5:
                    with torch.no_grad():
                        rng.choice((self.mean, self.count)).mul_(0.5).add_(values[-1].detach().mean(0))
            elif rng.random() < 0.6:
                values.append(rng.choice(ONE)(rng.choice(values)))
            else:
                values.append(rng.choice(TWO)(rng.choice(values), rng.choice(values)))
        return values[-1].sum() + values[1].sum(), values[-2] * 2


def drawn_order(graph, rng):
    """A random order of all nodes, with random runs again of those that may."""
    indptr, indices = graph.predecessors
    waiting = {v: set(indices[indptr[v] : indptr[v + 1]].tolist()) for v in range(graph.n_nodes)}
    order, ran = [], set()
    while waiting:
        ready = [v for v, reads in waiting.items() if reads <= ran]
        again = [v for v in ran if not graph.once[v]]
        v = rng.choice(again) if again and rng.random() < 0.4 else rng.choice(ready)
        order.append(v)
        ran.add(v)
        waiting.pop(v, None)
    return order


def with_drawn_copies(captured, order, rng):
    """The order with random loads of what may leave, and values that linger beside their copies."""
    graph, schedule = captured.graph, ra.Schedule(order)
    made = {x: s for s, v in reversed(list(enumerate(order))) for x in graph.values(v)}
    loads, lingering, stores = [], [], []
    for x in rng.sample(range(graph.n_values), graph.n_values // 3):
        if graph.output[x] or not captured.tensors[x] or made[x] == len(order) - 1:
            continue  # what nothing reads may have no tensor
        steps = [rng.randrange(made[x] + 1, len(order)) for _ in range(rng.choice((1, 1, 2)))]
        loads += [(s, x) for s in steps]
        if rng.random() < 0.4:
            lingering.append((x, made[x], rng.randrange(made[x], len(order) + 1)))
        if rng.random() < 0.4:
            stores.append((rng.randint(made[x] + 1, min(steps)), x))
    return with_copies(graph, schedule, loads, lingering, stores)


def drawn_inputs(captured):
    """Inputs of the forward part, and gradients from outside."""
    inputs, tangents = [], []
    for node in captured.module.graph.find_nodes(op="placeholder"):
        like = node.meta["val"]
        tensor = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype)
        found = tangents if node.name.startswith("tangents") else inputs
        found.append(tensor.uniform_() if like.dtype.is_floating_point else tensor.zero_())
    return inputs, tangents


def same(results, expected):
    return all(a is b is None or torch.equal(a, b) for a, b in zip(results, expected, strict=True))


@pytest.mark.parametrize("seed", range(10))
def test_a_row_reads_what_is_lowered_as_read(seed):
    """The lowering takes views anew, so it reads what the first of a chain of views is stored in."""
    captured = remat.capture(Drawn(seed), (torch.ones(8, 8),))
    row_of = {node: v for v, node in enumerate(captured.operators) if node is not None}
    stored = {node for row in captured.tensors for node in row} | set(row_of)
    needed = {}
    for node in captured.module.graph.nodes:
        read = {x for each in node.all_input_nodes for x in needed[each]}
        if node in row_of:
            assert read <= set(captured.graph.reads(row_of[node]))
        if node.op != "output":
            needed[node] = set(captured.bases[node]) if node in stored else read
            assert set(captured.bases[node]) == needed[node]


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_a_lowered_schedule_computes_what_the_joint_graph_does(seed, copies):
    torch.manual_seed(seed)
    x = torch.randn(8, 8)
    captured = remat.capture(Drawn(seed), (x,))
    rng = random.Random(seed)
    order = drawn_order(captured.graph, rng)
    simulation = ra.simulate(captured.graph, with_drawn_copies(captured, order, rng) if copies else order)
    given, tangents = drawn_inputs(captured)
    inputs = [*given, *tangents]

    torch.manual_seed(seed)
    expected = captured.module(*inputs)

    lowered = remat.lower(captured, simulation)
    torch.manual_seed(seed)
    with _Storages(inputs) as storages:
        results = lowered(*inputs)
    assert same(results, expected)
    draws = sum(op is not None and "generator_state" in op.meta for op in captured.operators)
    arriving = sum(int(captured.graph.memory[x]) for x in captured.graph.values(captured.boundary))
    states = draws + (draws > 0)  # one more while one is drawn again
    unseen = STATE * states + arriving  # the tangents are there before the call
    assert simulation.peak_memory - unseen <= storages.peak <= simulation.peak_memory

    torch.manual_seed(seed)
    forward, backward = split(captured, simulation)
    passed = forward(*given)
    gradients = backward(*passed[captured.num_forward :], *tangents)
    assert same([*passed[: captured.num_forward], *gradients], expected)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_rows_of_more_graphs_read_what_is_lowered_as_read(seed):
    test_a_row_reads_what_is_lowered_as_read(seed)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(0, 10**6), st.booleans())
def test_more_lowered_schedules_compute_what_the_joint_graph_does(seed, copies):
    test_a_lowered_schedule_computes_what_the_joint_graph_does(seed, copies)
