"""An input that the plan recomputes from is overwritten between forward and backward part."""

import torch
from network import Network, batches

from remat_algos.errors import GraphError
from remat_algos.interop.torch import backend


class Bounded(Network):
    def forward(self, x, labels):
        return super().forward(x.tanh(), labels)  # eager PyTorch saves only the result


torch.manual_seed(1)
net, ((first, labels), (second, _)) = Bounded(), batches(2)
planned = torch.compile(net, backend=backend("least"), dynamic=False)
x = first.clone()  # a static buffer, filled with each batch


def gradients(call, between):
    """Return gradients of the first batch; call `between` before the backward part."""
    x.copy_(first)
    net.zero_grad()
    torch.manual_seed(3)
    loss = call(x, labels)
    between()
    loss.backward()
    return torch.cat([parameter.grad.flatten() for parameter in net.parameters()])


def in_place():
    x.copy_(second)


def by_numpy():
    x.numpy()[...] = second.numpy()


def by_data():
    x.data.copy_(second)


expected = gradients(net, lambda: None)
for between in (in_place, by_numpy, by_data):
    assert torch.equal(gradients(net, between), expected)
assert torch.equal(gradients(planned, lambda: None), expected)
try:
    gradients(planned, in_place)
    raise AssertionError("the change was not noticed")
except GraphError as error:
    print(error)
for between in (by_numpy, by_data):
    assert not torch.equal(gradients(planned, between), expected)  # wrong, without an error
