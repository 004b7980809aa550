"""A small network with dropout, and its batches, for the other scripts of this folder."""

import torch
from torch import nn

from remat_algos.interop import torch as remat

torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(0.1)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.drop(self.down(nn.functional.gelu(self.up(self.norm(x)))))


class Network(nn.Module):
    def __init__(self, width=128, depth=4):
        super().__init__()
        self.blocks = nn.Sequential(*(Block(width) for _ in range(depth)))
        self.head = nn.Linear(width, 10)

    def forward(self, x, labels):
        return nn.functional.cross_entropy(self.head(self.blocks(x)), labels)


def new_network():
    torch.manual_seed(1)
    return Network()


def batches(n=4):
    torch.manual_seed(2)  # also for dropout
    return [(torch.randn(512, 128), torch.randint(10, (512,))) for _ in range(n)]


def check(trained, expected):
    """Compare parameters bit for bit, and print the peak of the plan and its limit."""
    for ours, theirs in zip(trained.parameters(), expected.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    for report in remat.reports():
        print("peak", report.plan.peak_memory, "bytes, limit", report.plan.limit)
