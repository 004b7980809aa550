"""Train transformer blocks of PyTorch in half of their memory, with copies to the host.

A value is loaded back if that takes less time than recomputing it.

You learn to give a model a link to the host, to read what leaves the device, and to hold the
predictions against what was allocated.

Usage: python examples/torch_offload.py    (needs: python -m pip install -e '.[torch]')
"""

import torch
from torch.nn import Linear, Sequential, TransformerEncoderLayer

from remat_algos.cost import Device
from remat_algos.interop.torch import measure_peak, rematerialize


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
eager = step(model)
device = Device("small device", {"float32": 1e13}, bandwidth=1.5e12, launch=4e-6, memory=2**34)
for options in ({}, {"link": "pcie5", "device": device}):
    call = rematerialize(model, (x, targets), "50%", **options)
    assert all(map(torch.equal, step(call), eager))  # every bit
    model.zero_grad()
    peaks = measure_peak(lambda call=call: step(call), [*model.parameters(), x, targets])
    print(call.report.summary())
    print("predicted", call.plan.peak_memory, "bytes, measured", peaks)
print(call.report)
