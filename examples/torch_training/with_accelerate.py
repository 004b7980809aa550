"""Accelerate: plan the network before `prepare`, which accepts no other backends than its own."""

import torch
from accelerate import Accelerator
from network import batches, check, new_network


def train(net):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    optimizer = torch.optim.AdamW(net.parameters())
    data = torch.utils.data.DataLoader(batches(), batch_size=None)
    model, optimizer, data = accelerator.prepare(net, optimizer, data)
    for x, labels in data:
        with accelerator.accumulate(model):
            accelerator.backward(model(x, labels))
            optimizer.step()
            optimizer.zero_grad()
    return net


net = new_network()
net.compile(backend="remat", options={"budget": "60%"}, dynamic=False)
check(train(net), train(new_network()))
