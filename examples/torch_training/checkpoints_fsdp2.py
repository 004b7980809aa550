"""FSDP2: apply the plan before or after `fully_shard`."""

import torch
from compare import peak, print_peaks
from network import batches, new_network
from processes import mean_gradients, run
from torch.distributed.fsdp import fully_shard

from remat_algos.interop.torch import plan_checkpoints


def sharded(net):
    for block in net.blocks:
        fully_shard(block)
    return fully_shard(net)


def work(rank):
    plain, (x, labels) = new_network(), batches()[rank]
    net = new_network()
    plan = plan_checkpoints(net, (x, labels), "60%", shards={"world": 2})
    plan.apply(net)
    net, unplanned = sharded(net), sharded(new_network())

    def step(model):
        torch.manual_seed(rank)  # for the dropout
        model(x, labels).backward()

    step(net)
    step(plain)
    expected = mean_gradients(plain)
    assert all(torch.equal(p.grad.full_tensor(), mean) for p, mean in zip(net.parameters(), expected, strict=True))
    step(unplanned)
    measured, without = peak(net, step), peak(unplanned, step)
    if rank == 0:
        print(plan)
        # Besides activations there are shards and inputs (counted in `before`), gathered blocks, and their gradients.
        before = x.nbytes + labels.nbytes + sum(p.to_local().nbytes for p in net.parameters())
        print_peaks(plan.peak_memory + plan.resident_memory - before, measured, without)
        print("gradients are the mean of both processes, bit for bit")


if __name__ == "__main__":
    run(work)
