"""Autocast to float16 with a GradScaler, compared with the backend "aot_eager"."""

import torch
from network import batches, check, new_network


def train(net):
    optimizer, scaler = torch.optim.AdamW(net.parameters()), torch.amp.GradScaler("cpu")
    for x, labels in batches():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = net(x, labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1)
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() >= 2**13  # few steps were skipped
    return net


net, expected = new_network(), new_network()
net.compile(backend="remat", options={"budget": "60%"}, dynamic=False)
expected.compile(backend="aot_eager", dynamic=False)
check(train(net), train(expected))
