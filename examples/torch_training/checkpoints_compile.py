"""torch.compile of a model with a plan per block: its partitioner follows the policies."""

import torch
from compare import compare
from network import batches, new_network

from remat_algos.interop.torch import plan_checkpoints


def train(net):
    optimizer = torch.optim.AdamW(net.parameters())
    for x, labels in batches():
        optimizer.zero_grad()
        net(x, labels).backward()
        optimizer.step()
    return net


net, expected, inputs = new_network(), new_network(), batches(1)[0]
plan = plan_checkpoints(net, inputs, "60%")
plan.apply(net)
net.compile(backend="aot_eager")
expected.compile(backend="aot_eager")
compare(plan, train(net), train(expected), lambda model: model(*inputs).backward())
