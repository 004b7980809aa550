"""Overheads under sampled costs, one sample and one run after the other."""

import math

import numpy as np

from tests.oracles.plain import plain


def sampled_costs(graph, deviation, samples, seed):
    """A list of costs for each sample, of lognormal factors with mean 1."""
    g = plain(graph)
    normal = np.random.default_rng(seed).standard_normal((len(g.reads), samples)).tolist()
    variance = math.log(1 + deviation**2)
    return [
        [g.compute[v] * math.exp(math.sqrt(variance) * normal[v][s] - variance / 2) for v in g.nodes]
        for s in range(samples)
    ]


def slow_overheads(graph, order, costs):
    """The overhead of an order under each sample, as a share of running every needed node once."""
    needed = plain(graph).needed()
    shares = []
    for cost in costs:
        one_pass = math.fsum(cost[v] for v in needed)
        shares.append((math.fsum(cost[v] for v in order) - one_pass) / one_pass if one_pass else 0.0)
    return shares


def slow_quantile(overheads):
    """The lowest overhead that nine in ten do not exceed."""
    return min(x for x in overheads if 10 * sum(y <= x for y in overheads) >= 9 * len(overheads))


def slow_variance_shares(graph, order, deviation):
    """The share of each node in the variance of the overhead, by changing its cost a little up and down."""
    g, needed = plain(graph), plain(graph).needed()

    def overhead(cost):
        one_pass = math.fsum(cost[v] for v in needed)
        return (math.fsum(cost[v] for v in order) - one_pass) / one_pass if one_pass else 0.0

    squares = []
    for v in g.nodes:
        up, down = ([c * (1 + sign * 1e-4 * (u == v)) for u, c in enumerate(g.compute)] for sign in (1, -1))
        change = overhead(up) - overhead(down)
        squares.append((change * deviation) ** 2 if abs(change) > 1e-12 else 0)  # below it is rounding
    total = math.fsum(squares)
    return [square / total if total else 0.0 for square in squares]
