"""Quick pages of the papers, each made once for all tests, and the committed tables of the whole pages."""

import csv
from functools import cache
from pathlib import Path

from docs.reproductions.registry import get_page

PAGES = Path(__file__).resolve().parents[1]


@cache
def quick_page(paper):
    """The page of small networks."""
    return get_page(paper)(True, None)


def quick_tables(paper):
    """Its tables, by name."""
    return {table.name: table for table in quick_page(paper).tables}


def committed(paper, name):
    """The rows of a table of the whole page."""
    with (PAGES / f"{paper}_{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def column(table, name):
    return [row[list(table.columns).index(name)] for row in table.rows]


def rows_of(table):
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]
