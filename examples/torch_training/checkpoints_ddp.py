"""DistributedDataParallel: every process reads the same plan."""

import tempfile
from pathlib import Path

import torch
from compare import peak, print_peaks
from network import batches, new_network
from processes import mean_gradients, run
from torch.nn.parallel import DistributedDataParallel

from remat_algos.interop.torch import load_checkpoints, plan_checkpoints


def work(rank, path):
    net, plain, (x, labels) = new_network(), new_network(), batches()[rank]
    plan = load_checkpoints(path)
    plan.apply(net)
    model, unplanned = DistributedDataParallel(net), DistributedDataParallel(new_network())

    def step(model):
        torch.manual_seed(rank)  # for the dropout
        model(x, labels).backward()

    step(model)
    step(plain)
    expected = mean_gradients(plain)
    assert all(torch.equal(p.grad, mean) for p, mean in zip(net.parameters(), expected, strict=True))
    step(unplanned)
    measured, without = peak(model, step), peak(unplanned, step)
    if rank == 0:
        print_peaks(plan.peak_memory, measured, without)
        print("gradients are the mean of both processes, bit for bit")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "policy.json")
        plan_checkpoints(new_network(), batches(1)[0], "60%").save(path)
        run(work, path)
