"""A checkpoint on disk after half of the training, loaded into a network without a plan."""

import tempfile
from pathlib import Path

import torch
from network import batches, check, new_network

OPTIONS = {"budget": "60%"}


def train(net, optimizer, data):
    for x, labels in data:
        optimizer.zero_grad()
        net(x, labels).backward()
        optimizer.step()


expected = new_network()
train(expected, torch.optim.AdamW(expected.parameters()), batches())

net, data = new_network(), batches()
net.compile(backend="remat", options=OPTIONS, dynamic=False)
optimizer = torch.optim.AdamW(net.parameters())
train(net, optimizer, data[:2])

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "checkpoint.pt")
    state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}
    torch.save(state, path)
    saved = torch.load(path)

resumed = new_network()
resumed.load_state_dict(saved["net"])
resumed.compile(backend="remat", options=OPTIONS, dynamic=False)
optimizer = torch.optim.AdamW(resumed.parameters())
optimizer.load_state_dict(saved["optimizer"])
torch.set_rng_state(saved["rng"])
train(resumed, optimizer, data[2:])
check(resumed, expected)
