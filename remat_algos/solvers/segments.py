"""Cuts of the forward part into segments, for Chen's three methods."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.errors import ArgumentError, GraphError
from remat_algos.ir.arrays import Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.regions import keep_depths, segment_cuts
from remat_algos.structure.cuts import ForwardPart

CANDIDATES = ("articulation", "all")
MAX_COUNT = 2**31  # segments or splits: multiples stay exact in int64
KNOWN = (*CANDIDATES, "boundary1 (of chen_sqrt)")


def candidate_kinds(candidates: str | None) -> tuple[str, ...]:
    """Return the kinds of places to try: the requested one, or all."""
    return CANDIDATES if candidates is None else (candidates,)


def candidate_places(part: ForwardPart, candidates: str) -> Int64:
    """Places of the forward part where a cut may fall."""
    if candidates == "articulation":
        return part.articulations()
    if candidates == "all":
        return np.arange(part.nodes.size)
    raise ArgumentError("candidates is {candidates!r}; use {known!l}", candidates=candidates, known=KNOWN)


def named_places(graph: ComputationGraph, part: ForwardPart, names: Sequence[str]) -> list[int]:
    """Places of the nodes after which the user wants a cut."""
    nodes = np.array([graph.producer[graph.value_id(name)] for name in names], np.int64)
    places = np.searchsorted(part.nodes, nodes)
    for name, node, place in zip(names, nodes, places, strict=True):
        if place == part.nodes.size or part.nodes[place] != node:
            raise GraphError("{name!r} is not a needed node of the forward part; cut after one that is", name=name)
    return np.unique(places).tolist()


class Cutter:
    """Finds cuts into segments of about equal memory: bytes by place, int64[f], and the places where a cut may fall.

    >>> Cutter([4, 1, 1, 4, 1, 1], range(6)).cuts(0, 6, segments=3).tolist()
    [0, 3]
    """

    def __init__(self, memory: ArrayLike, places: ArrayLike) -> None:
        self.reached = np.concatenate([[0], np.cumsum(memory, dtype=np.int64)])
        self.places = np.asarray(places, np.int64)

    def cuts(self, begin: int, end: int, segments: int) -> Int64:
        """Return the first candidates in begin..end - 1 that reach each multiple of their memory / segments."""
        return segment_cuts(self.reached, self.places, begin, end, segments)

    def split_counts(self, until: Int64, splits: int, depth: int, keep_last: bool) -> Int64:
        """Depth in the tree of splits at which each place is kept.

        All places are cut `splits` times, each segment again, `depth` times over. A cut keeps its place and the values
        live across it `until` a later place. With `keep_last` the last part of a segment, which has just run, is no
        deeper than the segment itself.
        """
        return keep_depths(self.reached, self.places, until, splits, depth, keep_last)


def segment_counts(part: ForwardPart, cuts: ArrayLike, keep_last: bool) -> Int64:
    """Mirror counts int64[n]: 0 for the nodes at the cuts and those that are live across them, else 1."""
    places = np.asarray(cuts, np.int64)
    kept = part.boundary(places)
    kept[part.nodes[places]] = True
    if keep_last:
        kept[part.nodes[(places[-1] + 1 if places.size else 0) :]] = True
    return np.where(kept, 0, 1)


def both(keep_last: bool | None) -> tuple[bool, ...]:
    """Return the choices that `keep_last` leaves open."""
    if keep_last not in (None, True, False):
        raise ArgumentError("keep_last is {keep_last!r}; use True, False or None", keep_last=keep_last)
    return (True, False) if keep_last is None else (bool(keep_last),)


def check_positive(**options: Any) -> None:
    """Raise ValueError unless an option is None or a whole number of 1 or more."""
    for name, given in options.items():
        if given is not None and (not hasattr(given, "__index__") or isinstance(given, bool) or given < 1):
            raise ArgumentError("{name} is {given!r}; give a whole number of 1 or more", name=name, given=given)
        if given is not None and given > MAX_COUNT:
            raise ArgumentError(
                "{name} is {given}; give at most {max_count}", name=name, given=given, max_count=MAX_COUNT
            )
