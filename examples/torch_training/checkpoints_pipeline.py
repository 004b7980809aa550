"""Pipeline stages: each process plans its own stage, for one microbatch."""

import torch
from compare import peak, print_peaks
from network import Network, batches
from processes import run
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from remat_algos.interop.torch import plan_checkpoints

MICROBATCHES = 2


def new_stage(rank):
    """Return four of eight blocks; the last stage also has the head."""
    torch.manual_seed(1)
    net = Network(depth=8)
    return torch.nn.Sequential(*net.blocks[4 * rank : 4 * rank + 4], *([net.head] if rank else []))


def work(rank):
    (x, labels) = batches(1)[0]
    microbatch = x[: len(x) // MICROBATCHES].clone().requires_grad_(rank > 0)
    net, unplanned = new_stage(rank), new_stage(rank)
    targets = labels[: len(microbatch)]
    loss = (lambda logits: torch.nn.functional.cross_entropy(logits, targets)) if rank else torch.sum
    plan = plan_checkpoints(net, (microbatch,), "75%", loss=loss)
    plan.apply(net)

    def step(model):
        torch.manual_seed(rank)  # for the dropout
        stage = PipelineStage(model, rank, 2, torch.device("cpu"))
        schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=torch.nn.functional.cross_entropy)
        schedule.step(x) if rank == 0 else schedule.step(target=labels)

    step(net)
    step(unplanned)
    for ours, theirs in zip(net.parameters(), unplanned.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)
    peaks = (plan.peak_memory, peak(net, step), peak(unplanned, step))
    stages = [None] * 2
    torch.distributed.all_gather_object(stages, peaks)
    if rank == 0:
        for i, figures in enumerate(stages):
            print(f"stage {i}:", end=" ")
            print_peaks(*figures)
        print("gradients are equal to those without a plan, bit for bit")


if __name__ == "__main__":
    run(work)
