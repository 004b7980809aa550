"""Layers that several models have."""

from torch import nn
from torch.nn import functional as f


class Loss(nn.Module):
    """A model and a loss of its result."""

    def __init__(self, body, loss=lambda y: y.square().mean()):
        super().__init__()
        self.body, self.loss = body, loss

    def forward(self, *inputs):
        return self.loss(self.body(*inputs))


class Residual(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.body = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.body(x)


class Attend(nn.Module):
    """Attention of x over another sequence, by PyTorch's own function."""

    def __init__(self, width, heads=4, other=None, *, causal=False, dropout=0.0):
        super().__init__()
        self.heads, self.causal, self.dropout = heads, causal, dropout
        self.q, self.kv = nn.Linear(width, width), nn.Linear(other or width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, other=None):
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(-2, -3)
            for part in (self.q(x), *self.kv(x if other is None else other).chunk(2, -1))
        )
        y = f.scaled_dot_product_attention(q, k, v, is_causal=self.causal, dropout_p=self.dropout)
        return self.out(y.transpose(-2, -3).flatten(-2))


def feed_forward(width, more=4):
    return nn.LayerNorm(width), nn.Linear(width, more * width), nn.GELU(), nn.Linear(more * width, width)
