"""Calls of kernels that take memory, as `(small, large)`: `large` takes more than 4 MiB, `small` can be compared."""

import numpy as np
from remat_algos.kernels.elimination import FILL, EliminationRun

CASES = {}


def case(function):
    """Register what returns a pair of calls without arguments; both may be called again."""
    CASES[function.__name__] = function
    return function


def grid(rows, columns):
    """An undirected grid: indptr, indices."""
    place = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)
    tail = np.concatenate([place[:-1].ravel(), place[:, :-1].ravel()])
    head = np.concatenate([place[1:].ravel(), place[:, 1:].ravel()])
    source, target = np.concatenate([tail, head]), np.concatenate([head, tail])
    indptr = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=place.size))])
    return indptr.astype(np.int64), target[np.lexsort((target, source))].astype(np.int32)


@case
def elimination():
    def eliminate(graph):
        run = EliminationRun(*graph, np.arange(graph[0].size - 1, dtype=np.int32), FILL, True, 1000)
        run.run(10**9)
        return [array.tolist() for array in run.result()[:3]]

    few, many = grid(5, 5), grid(200, 200)
    return lambda: eliminate(few), lambda: eliminate(many)
