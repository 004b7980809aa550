"""Sequences: states, recurrences, convolutions and attention."""

import torch
from torch import nn
from torch.nn import functional as f

from tests.interop.torch_models import GPT, words
from tests.interop.torch_zoo.cases import WITHOUT_ONEDNN, case
from tests.interop.torch_zoo.layers import Attend, Loss, Residual, feed_forward


class Mamba(nn.Module):
    """A state space that is selected by the input; h = a h + b, one step after the other or in doubling strides."""

    def __init__(self, scan, width=16, states=4):
        super().__init__()
        self.scan, self.states = scan, states
        self.inner, self.outer = nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.mix = nn.Conv1d(width, width, 4, padding=3, groups=width)
        self.select, self.step = nn.Linear(width, 2 * states), nn.Linear(width, width)
        self.decay = nn.Parameter(torch.arange(1.0, states + 1).log().repeat(width, 1))

    def forward(self, x):
        y, gate = self.inner(x).chunk(2, -1)
        y = f.silu(self.mix(y.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        b, c = self.select(y).chunk(2, -1)
        step = f.softplus(self.step(y))[..., None]
        h = self.scan((-step * self.decay.exp()).exp(), step * b[:, :, None] * y[..., None])
        return x + self.outer((h @ c[..., None])[..., 0] * f.silu(gate))


def scan_by_loop(a, b):
    h, states = torch.zeros_like(b[:, 0]), []
    for t in range(b.shape[1]):
        h = a[:, t] * h + b[:, t]
        states.append(h)
    return torch.stack(states, 1)


def scan_by_doubling(a, b):
    stride = 1
    while stride < b.shape[1]:
        before_a = f.pad(a[:, :-stride], (0, 0, 0, 0, stride, 0), value=1.0)
        before_b = f.pad(b[:, :-stride], (0, 0, 0, 0, stride, 0))
        a, b = a * before_a, a * before_b + b
        stride *= 2
    return b


@case("a loop over 24 steps")
def mamba_by_loop():
    return Loss(nn.Sequential(*(Mamba(scan_by_loop) for _ in range(2)))), (torch.randn(8, 24, 16),)


@case("a scan in doubling strides")
def mamba_by_scan():
    return Loss(nn.Sequential(*(Mamba(scan_by_doubling) for _ in range(2)))), (torch.randn(8, 24, 16),)


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.words, self.layer = nn.Embedding(50, 32), kind(32, 32, 2, batch_first=True, **options)
        self.head = nn.LazyLinear(50)

    def forward(self, tokens):
        return f.cross_entropy(self.head(self.layer(self.words(tokens))[0]).flatten(0, 1), tokens.flatten())


def recurrent(kind, **options):
    model, tokens = Recurrent(kind, **options), torch.randint(50, (8, 12))
    model(tokens)
    return model, (tokens,)


@case("both ways in time", config={"allow_rnn": True})
def gru():
    return recurrent(nn.GRU, bidirectional=True)


@case("dropout between the layers", reference=WITHOUT_ONEDNN, config={"allow_rnn": True})
def lstm():
    return recurrent(nn.LSTM, dropout=0.3)


@case("dropout between the layers", config={"allow_rnn": True})
def rnn_dropout():
    return recurrent(nn.RNN, dropout=0.3)


class Wave(nn.Module):
    def __init__(self, width=16, depth=6):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2**i) for i in range(depth))
        self.skips = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(depth))

    def forward(self, x):
        total = 0
        for i, (layer, skip) in enumerate(zip(self.layers, self.skips, strict=True)):
            a, b = layer(f.pad(x, (2**i, 0))).chunk(2, 1)
            y = a.tanh() * b.sigmoid()
            total = total + skip(y)
            x = x + y
        return total.relu().square().mean()


@case("dilated convolutions, sums of all layers")
def wavenet():
    return Wave(), (torch.randn(8, 16, 128),)


class Speech(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(20, 32, 5, 2, 2), nn.Hardswish(), nn.Conv1d(32, 12, 5, 1, 2))

    def forward(self, sound, text, lengths):
        scores = self.body(sound).permute(2, 0, 1).log_softmax(-1)
        return f.ctc_loss(scores, text, torch.full((len(text),), len(scores)), lengths)


@case("a loss with lengths that Python reads", one_graph=False)
def ctc():
    return Speech(), (torch.randn(4, 20, 80), torch.randint(1, 12, (4, 8)), torch.tensor([8, 7, 5, 6]))


class Fourier(nn.Module):
    """Tokens are mixed by a transform in both directions, as in FNet, and by learned complex weights."""

    def __init__(self, width=32, length=32):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(length // 2 + 1, width, dtype=torch.cfloat) / 8)
        self.body = nn.Sequential(*feed_forward(width))

    def forward(self, x):
        x = x + torch.fft.fft2(x).real / 32
        x = x + torch.fft.irfft(torch.fft.rfft(x, dim=1) * self.weight, n=x.shape[1], dim=1)
        return x + self.body(x)


@case("transforms, and complex weights")
def fft():
    return Loss(nn.Sequential(*(Fourier() for _ in range(3)))), (torch.randn(8, 32, 32),)


class Complex(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.layers = nn.ParameterList(torch.randn(width, width, dtype=torch.cfloat) / 8 for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = x @ layer
            x = torch.polar(x.abs().tanh(), x.angle()) + x.conj() * 0.1
        return torch.view_as_real(x).square().mean()


@case("complex numbers and their conjugates")
def complex_numbers():
    return Complex(), (torch.randn(128, 32, dtype=torch.cfloat),)


@case("dropout in attention and outside")
def gpt():
    return GPT(layers=2, width=64, length=32), words(8, 32)


@case("each token to two of four experts, by sorted gates")
def mixture_of_experts():
    return GPT(layers=2, width=64, length=32, experts=True), words(8, 32)


class Causal(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.attentions = nn.ModuleList(Attend(width, causal=True, dropout=0.1) for _ in range(3))
        self.bodies = nn.ModuleList(Residual(*feed_forward(width)) for _ in range(3))

    def forward(self, x):
        for attention, body in zip(self.attentions, self.bodies, strict=True):
            x = body(x + attention(f.rms_norm(x, x.shape[-1:])))
        return x.square().mean()


@case("PyTorch's attention with dropout")
def scaled_dot_product():
    return Causal(), (torch.randn(8, 32, 32),)


@case("encoder and decoder of PyTorch, with dropout")
def transformer():
    model = Loss(nn.Transformer(32, 4, 2, 2, 64, batch_first=True))
    return model, (torch.randn(4, 16, 32), torch.randn(4, 12, 32))


@case("layers with dropout; in evaluation they take another path")
def transformer_encoder():
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True, activation="gelu")
    return Loss(nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)), (torch.randn(8, 16, 32),)


class Pooled(nn.Module):
    """Two learned queries over a sequence of which some is padding; the weights are returned."""

    def __init__(self, width=32):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(2, width))
        self.attention = nn.MultiheadAttention(width, 4, 0.1, add_bias_kv=True, batch_first=True)

    def forward(self, x, padding):
        return self.attention(self.queries.expand(len(x), -1, -1), x, x, key_padding_mask=padding)


@case("nn.MultiheadAttention that returns its weights")
def multihead_attention():
    return Pooled(), (torch.randn(8, 16, 32), torch.arange(16) >= torch.randint(8, 17, (8, 1)))
