"""Accelerate: apply the plan to the network before or after `prepare`."""

import torch
from accelerate import Accelerator
from compare import compare
from network import batches, new_network

from remat_algos.interop.torch import plan_checkpoints


def train(net, plan=None):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    optimizer = torch.optim.AdamW(net.parameters())
    data = torch.utils.data.DataLoader(batches(), batch_size=None)
    model, optimizer, data = accelerator.prepare(net, optimizer, data)
    if plan is not None:
        plan.apply(accelerator.unwrap_model(model))
    for x, labels in data:
        with accelerator.accumulate(model):
            accelerator.backward(model(x, labels))
            optimizer.step()
            optimizer.zero_grad()
    return net


net, inputs = new_network(), batches(1)[0]
plan = plan_checkpoints(net, inputs, "60%")
compare(plan, train(net, plan), train(new_network()), lambda model: model(*inputs).backward())
