"""Cuts of the forward part into segments: what Chen's three methods share."""

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.structure.articulation import ForwardPart

CANDIDATES = ("articulation", "all")


def candidate_places(part: ForwardPart, candidates: str) -> Int64:
    """Places of the forward part where a cut may fall."""
    if candidates == "articulation":
        return part.articulations()
    if candidates == "all":
        return np.arange(part.nodes.size)
    raise ValueError(f"candidates is {candidates!r}; use {' or '.join(CANDIDATES)}")


def named_places(graph: ComputationGraph, part: ForwardPart, names: Sequence[str]) -> list[int]:
    """Places of the nodes that a user wants to cut after."""
    nodes = np.array([graph.producer[graph.value_id(name)] for name in names], np.int64)
    places = np.searchsorted(part.nodes, nodes)
    for name, node, place in zip(names, nodes, places, strict=True):
        if place == part.nodes.size or part.nodes[place] != node:
            raise GraphError(f"{name!r} is no needed node of the forward part; cut after one that is")
    return np.unique(places).tolist()


class Cutter:
    """Finds the cuts that divide runs of places into segments of about equal memory.

    Parameters
    ----------
    memory : int64[f]
        Bytes of the node at each place.
    places : int64[k]
        Where a cut may fall, ascending.

    Examples
    --------
    >>> Cutter([4, 1, 1, 4, 1, 1], range(6)).cuts(0, 6, segments=3)
    [0, 3]
    """

    def __init__(self, memory: ArrayLike, places: ArrayLike) -> None:
        self.reached = [0, *np.cumsum(memory, dtype=np.int64).tolist()]
        self.places = np.asarray(places, np.int64).tolist()
        self.reached_at = [self.reached[place + 1] for place in self.places]

    def cuts(self, begin: int, end: int, segments: int) -> list[int]:
        """The first candidates of begin..end - 1 that reach each multiple of their memory / segments."""
        base = self.reached[begin]
        memory = self.reached[end] - base
        at, stop = bisect_left(self.places, begin), bisect_left(self.places, end)
        found = []
        j = 1
        while j < segments:
            at = bisect_left(self.reached_at, base - (-j * memory // segments), at, stop)
            if at == stop:
                break
            found.append(self.places[at])
            if not memory:
                break
            j = (self.reached_at[at] - base) * segments // memory + 1  # the next multiple beyond this cut
            at += 1
        return found


def segment_counts(part: ForwardPart, cuts: Sequence[int], keep_last: bool) -> Int64:
    """Mirror counts int64[n]: 0 for the nodes at the cuts and what is alive across them, else 1."""
    kept = part.boundary(cuts)
    kept[part.nodes[list(cuts)]] = True
    if keep_last:
        kept[part.nodes[(cuts[-1] + 1 if cuts else 0) :]] = True
    return np.where(kept, 0, 1)


def both(choice: bool | None) -> tuple[bool, ...]:
    """The choices that an option leaves open."""
    return (True, False) if choice is None else (choice,)
