"""DistributedDataParallel, here by gloo with a group of one process."""

import tempfile
from pathlib import Path

import torch
from network import batches, check, new_network
from torch.nn.parallel import DistributedDataParallel


def train(net, model):
    optimizer = torch.optim.AdamW(net.parameters())
    for x, labels in batches():
        optimizer.zero_grad()
        model(x, labels).backward()
        optimizer.step()
    return net


with tempfile.TemporaryDirectory() as folder:
    store = Path(folder, "store").as_uri()
    torch.distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    net, expected = new_network(), new_network()
    model = DistributedDataParallel(net, bucket_cap_mb=1)
    options = {"budget": "12MiB"}
    planned = torch.compile(model, backend="remat", options=options, dynamic=False)
    check(train(net, planned), train(expected, DistributedDataParallel(expected)))
    torch.distributed.destroy_process_group()
