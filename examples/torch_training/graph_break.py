"""A line that cannot be captured: a plan for each part, and a warning that names the line."""

import warnings

import torch
from network import Network, batches, check

from remat_algos.interop.torch import reports


@torch.compiler.disable
def watch(y):
    """Check a value, which torch.compile cannot capture."""
    assert y.isfinite().all()


class Watched(Network):
    def forward(self, x, labels):
        y = self.blocks(x)
        watch(y)
        return torch.nn.functional.cross_entropy(self.head(y), labels)


def train(net):
    torch.manual_seed(2)
    optimizer = torch.optim.AdamW(net.parameters())
    for x, labels in batches():
        optimizer.zero_grad()
        net(x, labels).backward()
        optimizer.step()
    return net


torch.manual_seed(1)
expected = train(Watched())
torch.manual_seed(1)
net = Watched()
net.compile(backend="remat", options={"budget": "7MiB"}, dynamic=False)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    train(net)
check(net, expected)
assert len(reports()) == 2
(line,) = reports()[-1].graph_breaks
assert any(line.split("/")[-1] in str(each.message) for each in caught)
print("graph break at", line.split("/")[-1])
print("all graphs within", reports()[-1].whole, "bytes")
