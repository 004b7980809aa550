"""Backpropagation with data dropping in a linear chain network: chen2016, section 4.1, algorithm 1.

The algorithm divides a chain of layers into segments. The first pass remembers only the input of each segment. The
backward pass recomputes the inputs of the layers of one segment at a time.

Input
    weight    float64[n, d]  layer[i] maps v, float64[d], to tanh(weight[i] v), element by element
    begin     int64[k + 1]   segment j has the layers begin[j] to begin[j + 1] - 1; begin[0] = 0, begin[k] = n
    v, label  float64[d]     input of the chain, and its target

Output
    g         float64[d]     gradient of the loss, half the squared distance to the label, by the input of the chain
    dw        float64[n, d]  its gradient by the weights
    runs      int64[t]       i for layer[i].forward, n for the gradient of the loss, n + 1 + i for layer[i].backward
    stored    int64          maximum number of arrays in temp and localtemp

Differences from the text
    The layers are a fixed network, because the compiled function takes arrays, not objects with methods.
    An entry of temp is counted as free after its segment, and so is localtemp; the text does not free memory.
    The second loop runs the last layer of a segment again, as in the text, although nothing reads that output.
"""

import numpy as np
from numba import njit


@njit
def forward(weight, i, v):
    """Return the output of layer[i]."""
    return np.tanh(weight[i] * v)


@njit
def backward(weight, i, g, v):
    """Return the gradients by the input v and by the weights of layer[i] for the gradient g by its output."""
    slope = 1.0 - np.tanh(weight[i] * v) ** 2
    return g * slope * weight[i], g * slope * v


@njit
def algorithm_1(weight, begin, v, label):
    """Return the gradients by the input and by the weights, the runs, and the maximum number of stored arrays."""
    n, d = weight.shape
    k = begin.size - 1
    temp, localtemp = np.empty((k, d)), np.empty((n, d))
    dw = np.empty((n, d))
    runs, t = np.empty(3 * n + 1, np.int64), 0
    # for j = 1 to length(segments) do
    for j in range(k):
        # temp[j] <- v
        temp[j] = v
        # for i = segments[j].begin to segments[j].end - 1 do
        for i in range(begin[j], begin[j + 1]):
            # v <- layer[i].forward(v)
            v = forward(weight, i, v)
            runs[t] = i
            t += 1
    # g <- gradient(v, label)
    g = v - label
    runs[t] = n
    t += 1
    stored = k
    # for j = length(segments) to 1 do
    for j in range(k - 1, -1, -1):
        # v <- temp[j], localtemp <- empty hashtable
        v = temp[j]
        stored = max(stored, j + 1 + begin[j + 1] - begin[j])
        # for i = segments[j].begin to segments[j].end - 1 do
        for i in range(begin[j], begin[j + 1]):
            # localtemp[i] <- v
            localtemp[i] = v
            # v <- layer[i].forward(v)
            v = forward(weight, i, v)
            runs[t] = i
            t += 1
        # for i = segments[j].end - 1 to segments[j].begin do
        for i in range(begin[j + 1] - 1, begin[j] - 1, -1):
            # g <- layer[i].backward(g, localtemp[i])
            g, dw[i] = backward(weight, i, g, localtemp[i])
            runs[t] = n + 1 + i
            t += 1
    return g, dw, runs[:t], stored


def main():
    n = 9
    weight = np.linspace(0.5, 1.5, 2 * n).reshape(n, 2)
    v, label = np.array([0.5, -1.0]), np.array([0.0, 0.25])
    for k in (1, 3, 9):
        g, dw, runs, stored = algorithm_1(weight, np.arange(0, n + 1, n // k), v, label)
        names = [f"f{i}" if i < n else "loss" if i == n else f"b{i - n - 1}" for i in runs]
        print(f"{k} segments, {stored} arrays stored: {' '.join(names)}")
        print(f"    gradient by the input {np.round(g, 6)}, by the last weights {np.round(dw[-1], 6)}")


if __name__ == "__main__":
    main()
