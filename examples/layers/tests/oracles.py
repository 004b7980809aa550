"""Layers of networks, element by element."""

from itertools import product
from math import inf, prod

import numpy as np


def convolution(x, weight, bias, shape, stride, padding, dilation, groups):
    y = np.zeros(shape)
    per_group = (weight.shape[1], weight.shape[0] // groups)
    for b, o, *at in np.ndindex(*shape):
        for c, *k in np.ndindex(*weight.shape[1:]):
            place = [a * s + j * d - p for a, s, j, d, p in zip(at, stride, k, dilation, padding, strict=True)]
            if inside(place, x.shape[2:]):
                y[b, o, *at] += weight[o, c, *k] * x[b, o // per_group[1] * per_group[0] + c, *place]
        y[b, o, *at] += bias[o]
    return y


def transposed_convolution(x, weight, bias, shape, stride, padding):
    y = np.zeros(shape) + bias.reshape(-1, *(1,) * (len(shape) - 2))
    for b, c, *at in np.ndindex(*x.shape):
        for o, *k in np.ndindex(*weight.shape[1:]):
            place = [a * s + j - p for a, s, j, p in zip(at, stride, k, padding, strict=True)]
            if inside(place, shape[2:]):
                y[b, o, *place] += x[b, c, *at] * weight[c, o, *k]
    return y


def pooling(x, shape, kernel, stride, padding):
    """(largest, where it stands in the flat image, mean over the whole window)."""
    largest, where, mean = np.full(shape, -inf), np.zeros(shape, int), np.zeros(shape)
    for b, c, *at in np.ndindex(*shape):
        for k in product(*map(range, kernel)):
            place = [a * s + j - p for a, s, j, p in zip(at, stride, k, padding, strict=True)]
            if inside(place, x.shape[2:]):
                element = x[b, c, *place]
                mean[b, c, *at] += element / prod(kernel)
                if element > largest[b, c, *at]:
                    largest[b, c, *at], where[b, c, *at] = element, np.ravel_multi_index(place, x.shape[2:])
    return largest, where, mean


def inside(place, lengths):
    return all(0 <= p < n for p, n in zip(place, lengths, strict=True))


def attention(q, k, v, heads):
    out = np.zeros(q.shape)
    size = q.shape[-1] // heads
    for b, h, r in np.ndindex(q.shape[0], heads, q.shape[1]):
        cut = slice(h * size, (h + 1) * size)
        shares = np.exp([q[b, r, cut] @ row[cut] / size**0.5 for row in k[b]])
        out[b, r, cut] = sum(share * row[cut] for share, row in zip(shares / shares.sum(), v[b], strict=True))
    return out


def masked_attention(q, k, v, heads, mask):
    """A row that may look at others alone, and at no other rows; one that may look at none is zeros."""
    out = np.zeros(q.shape)
    for r, allowed in enumerate(mask):
        if allowed.any():
            out[:, r : r + 1] = attention(q[:, r : r + 1], k[:, allowed], v[:, allowed], heads)
    return out


def lstm_cell(x, h, c, of_input, of_state, bias):
    i, f, g, o = np.split(x @ of_input.T + h @ of_state.T + bias, 4, axis=-1)
    c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
    return np.tanh(c) / (1 + np.exp(-o)), c


def ctc_loss(x, targets):
    """The mean of -log of the chance that an alignment of all is one of the transcript; 0 is the blank."""
    steps, batch, classes = x.shape
    shares = np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)
    chance = np.zeros(batch)
    for alignment in product(range(classes), repeat=steps):
        read = [c for t, c in enumerate(alignment) if c and (t == 0 or c != alignment[t - 1])]
        for b in range(batch):
            if read == targets[b].tolist():
                chance[b] += prod(shares[t, b, c] for t, c in enumerate(alignment))
    with np.errstate(divide="ignore"):
        return -np.log(chance).mean()


def experts(x, router, matrices, chosen, room):
    """(rows as their experts transform them, share of the rows times mean probability): every expert for every row."""
    shares = np.exp(x @ router.T) / np.exp(x @ router.T).sum(axis=1, keepdims=True)
    order = [sorted(range(len(matrices)), key=lambda e, row=row: -row[e])[:chosen] for row in shares]
    everything = np.array([x @ matrix.T for matrix in matrices])
    y, taken = np.zeros((len(x), everything.shape[-1])), [0] * len(matrices)
    for j, row in product(range(chosen), range(len(x))):
        expert = order[row][j]
        if taken[expert] < room:
            weight = shares[row, expert] / (sum(shares[row, e] for e in order[row]) if chosen > 1 else 1)
            y[row] += weight * everything[expert, row]
        taken[expert] += 1
    return y, sum(n / len(x) * share for n, share in zip(taken, shares.mean(axis=0), strict=True))
