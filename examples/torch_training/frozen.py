"""Changes to the model that `rematerialize` follows, and settings that stay as captured."""

import copy

import torch
from network import batches, new_network

from remat_algos.errors import GraphError
from remat_algos.interop.torch import rematerialize

net, ((x, labels), *_) = new_network(), batches(1)
planned = rematerialize(net, (x, labels), "60%")


def losses(*inputs):
    results = []
    for call in (planned, net):
        torch.manual_seed(3)
        results.append(call(*inputs).item())
    return results


same = losses(x, labels)
assert same[0] == same[1]

net.eval()  # followed: plans again
assert losses(x, labels)[0] == losses(x, labels)[1] != same[0]
net.train()
net.head.weight.requires_grad_(False)  # followed: plans again
planned(x, labels).backward()
assert net.head.weight.grad is None

net.blocks[0].drop.p = 0.5  # frozen: the plan draws with 0.1
assert losses(x, labels)[0] == same[0] != losses(x, labels)[1]
net.blocks[0].drop.p = 0.1
handle = net.head.register_forward_hook(lambda module, inputs, result: 2 * result)  # frozen
assert losses(x, labels)[0] == same[0] != losses(x, labels)[1]
handle.remove()

try:
    planned(x[:8], labels[:8])  # refused: other shapes
except GraphError as error:
    print(error)
with torch.no_grad():
    planned(x[:8], labels[:8])  # the model itself
assert losses(x, labels) == same
assert copy.deepcopy(planned).state_dict().keys() == net.state_dict().keys()
