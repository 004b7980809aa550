"""The least compute of a ladder (`tests.ladders.ladder`) at a limit: Griewank and Walther's optimum (Revolve, 2000).

While b(i) runs, the limit holds b(i+1), b(i) and limit - 2 values of the forward chain, f(i) among them; while f(i)
runs, b(i+1) and the same number beside f(i), f(i-1) among them. So limit - 2 values of the chain, the newest among
them, can be kept from step to step: these are the checkpoints. Before bL has run there is room for one more, which
only fL can use. Nothing is before f0, so the chain starts again from nothing, as if from a checkpoint for free.
"""

import math
from functools import cache

from tests.books import book


def least_ladder_compute(length, limit):
    """Compute of the cheapest schedule of a ladder that never holds more than `limit`; None: there is none."""
    runs = advances(length + 1, limit - 2)
    return None if runs == math.inf else runs + length + 1


@cache
def advances(length, checkpoints):
    """Forward runs that reverse this many nodes, if no backward node has run before.

    The first checkpoint goes to node k: k runs, then the nodes after it with a checkpoint less, then those before it,
    as in Revolve. Until the first backward node has run, there is room for the value of the last node in addition to
    the checkpoints.
    """
    if length == 0:
        return 0
    if checkpoints <= 0:
        return 1 if length == 1 and checkpoints == 0 else math.inf
    return min(
        k + advances(length - k, checkpoints - 1) + book("revolve").recurrence(k, checkpoints)
        for k in range(1, length + 1)
    )
