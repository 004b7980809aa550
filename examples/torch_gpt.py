"""Train a GPT of PyTorch in half of its memory: two lines, and what they cost.

You learn to give torch.compile a budget, to read what was planned, and to hold the prediction
against what was allocated. Gradients are the same, bit for bit.

Usage: python examples/torch_gpt.py [FOLDER]    (needs PyTorch: python -m pip install 'remat_algos[torch]')
The figure goes to FOLDER, by default docs/figures.
"""

import copy
import sys
from functools import partial
from pathlib import Path

import torch
from torch import nn

import remat_algos as ra
from remat_algos.interop.torch import backend, measure_peak, rematerialize

LAYERS, WIDTH, HEADS, LENGTH, BATCH, WORDS = 4, 128, 4, 64, 8, 512


class GPT(nn.Module):
    """Blocks of attention and of a perceptron, with dropout."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        block = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.1, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.ModuleList(copy.deepcopy(block) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens, targets):
        hidden = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        x = self.words(tokens) + self.places
        for block in self.blocks:
            x = block(x, hidden)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())


def step(call, model):
    """Gradients in place of those of the last step, always with the same random numbers."""
    torch.manual_seed(2)
    model.zero_grad()
    call(*batch).backward()


def gradients(call, model):
    """Copies of those of one step."""
    step(call, model)
    return [parameter.grad.clone() for parameter in model.parameters()]


folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "figures")
torch.manual_seed(1)
model = GPT()
batch = torch.randint(WORDS, (BATCH, LENGTH)), torch.randint(WORDS, (BATCH, LENGTH))
eager = gradients(model, model)

planned = backend("50%")
compiled = torch.compile(model, backend=planned, dynamic=False)
assert all(map(torch.equal, gradients(compiled, model), eager))
print(planned.reports[0])

torch.compiler.reset()
for budget in ("100%", "50%"):
    call = rematerialize(model, batch, budget)
    assert all(map(torch.equal, gradients(call, model), eager))  # every bit
    model.zero_grad()
    peaks = measure_peak(partial(step, call, model), [*model.parameters(), *batch])
    one_pass = call.plan.graph.needed_compute
    print(
        f"{budget}: predicted {call.plan.peak_memory:,} bytes, tensors {peaks.storages:,}, "
        f"allocator {peaks.allocator:,}; {100 * call.plan.overhead / one_pass:.1f} % more compute"
    )
ra.plot.save(ra.plot.memory(call.plan), folder / "torch_gpt.svg")
