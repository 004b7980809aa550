"""Train transformer blocks of PyTorch in half of their memory: two lines, and their cost.

You learn to give torch.compile a budget, to read what was planned, and to hold the prediction
against what was allocated.

Usage: python examples/torch_gpt.py [FOLDER]    (needs: python -m pip install -e '.[torch]')
"""

import sys
from pathlib import Path

import torch
from torch.nn import Linear, Sequential, TransformerEncoderLayer

import remat_algos as ra
from remat_algos.interop.torch import backend, measure_peak, rematerialize

FOLDER = Path(*sys.argv[1:2] or (Path(__file__).parents[1] / "docs" / "figures",))


class Network(Sequential):
    def forward(self, x, targets):
        return torch.nn.functional.cross_entropy(super().forward(x).flatten(0, 1), targets)


def step(call):
    torch.manual_seed(2)  # always the same random numbers
    model.zero_grad()
    call(x, targets).backward()
    return [parameter.grad for parameter in model.parameters()]


torch.manual_seed(1)
x, targets = torch.randn(8, 64, 128), torch.randint(512, (512,))
model = Network(*(TransformerEncoderLayer(128, 4, 512) for _ in range(4)), Linear(128, 512))
eager, half = step(model), backend("50%")
compiled = torch.compile(model, backend=half, dynamic=False)
assert all(map(torch.equal, step(compiled), eager))  # every bit
print(half.reports[0])
for call in (rematerialize(model, (x, targets), budget) for budget in ("100%", "50%")):
    assert all(map(torch.equal, step(call), eager))
    model.zero_grad()
    peaks = measure_peak(lambda call=call: step(call), [*model.parameters(), x, targets])
    print("predicted", call.plan.peak_memory, "bytes, measured", peaks)
ra.plot.save(ra.plot.memory(call.plan), FOLDER / "torch_gpt.svg")
