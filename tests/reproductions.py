"""Quick pages of the papers, each made once for all tests."""

from functools import cache

from docs.reproductions.registry import get_page


@cache
def quick_page(paper):
    """The page of small networks."""
    return get_page(paper)(True, None)
