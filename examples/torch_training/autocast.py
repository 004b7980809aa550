"""Autocast to bfloat16, compared with the backend "aot_eager"."""

import torch
from network import batches, check, new_network


def train(net):
    optimizer = torch.optim.AdamW(net.parameters())
    for x, labels in batches():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = net(x, labels)
        loss.backward()
        optimizer.step()
    return net


net, expected = new_network(), new_network()
net.compile(backend="remat", options={"budget": "60%"}, dynamic=False)
expected.compile(backend="aot_eager", dynamic=False)
check(train(net), train(expected))
