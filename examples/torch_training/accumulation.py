"""Two batches for each step of the optimizer."""

import torch
from network import batches, check, new_network


def train(net):
    optimizer = torch.optim.AdamW(net.parameters())
    for i, (x, labels) in enumerate(batches()):
        (net(x, labels) / 2).backward()
        if i % 2:
            optimizer.step()
            optimizer.zero_grad()
    return net


net = new_network()
options = {"device": "20MiB", "optimizer": "adamw", "accumulate": True}
net.compile(backend="remat", options=options, dynamic=False)
check(train(net), train(new_network()))
