"""Your own training loop, with a plan per block."""

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


net, inputs = new_network(), batches(1)[0]
plan = plan_checkpoints(net, inputs, "60%")
plan.apply(net)
print(plan)
compare(plan, train(net), train(new_network()), lambda model: model(*inputs).backward())
