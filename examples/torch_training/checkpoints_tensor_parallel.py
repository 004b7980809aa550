"""Tensor parallelism: policies run above DTensor, so the plan of the whole network serves each process."""

import torch
from compare import peak, print_peaks
from network import batches, new_network
from processes import run
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from remat_algos.interop.torch import plan_checkpoints


def parallel(net, mesh):
    for block in net.blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return net


def work(rank):
    mesh, (x, labels) = init_device_mesh("cpu", (2,)), batches(1)[0]
    plan = plan_checkpoints(new_network(), (x, labels), "60%")
    net, unplanned = parallel(new_network(), mesh), parallel(new_network(), mesh)
    plan.apply(net)

    def step(model):
        torch.manual_seed(0)  # for the dropout
        model(x, labels).backward()

    step(net)
    step(unplanned)
    for ours, theirs in zip(net.parameters(), unplanned.parameters(), strict=True):
        assert torch.equal(whole(ours.grad), whole(theirs.grad))
    measured, without = peak(net, step), peak(unplanned, step)
    if rank == 0:
        print_peaks(plan.peak_memory, measured, without)
        print("gradients are equal to those without a plan, bit for bit")


def whole(gradient):
    return gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient


if __name__ == "__main__":
    run(work)
