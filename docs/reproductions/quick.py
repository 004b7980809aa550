"""Quick pages: a paper's tables and figures on small networks, without its numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from docs.reproductions.page import Figure, Page, Part, Table, gigabytes, in_gigabytes
from remat_algos.wording import format_bytes

NOTE = """\
Quick page: the networks here are small ones, not those of the paper, and no number here can be compared with the \
paper's. It shows what is measured and in which form; `python -m docs.reproductions {}` measures the paper's networks \
and explains each table."""
PLACE = re.compile(r" \((Figures?|Tables?|Sections?) [^)]*\)")  # in the paper
UNIT = ", in GB of 10^9 bytes"  # places in the paper, in titles of tables


def quick_page(page: Page, networks: Mapping[str, str]) -> Page:
    """The page of small networks: the tables and figures of a page, without its text and quoted numbers.

    Parameters
    ----------
    page : Page
        Measured on small networks. Paragraphs and columns of the paper's numbers are left out, headings kept. Bytes
        are in binary units throughout.
    networks : mapping of str to str
        The networks, by their labels in tables.

    Examples
    --------
    >>> sizes = Table("sizes", "Sizes (Table 1)", {"network": str, "paper": str, "ours": str}, [("chain of 4", 9, 8)])
    >>> page = Page("chen2016", "chains", ["## Sizes (Section 5)", "As in the paper.", sizes])
    >>> [(table.title, *table.columns) for table in quick_page(page, {"chain of 4": "chain(4)"}).tables]
    [('Networks of this page', 'network', 'what is run'), ('Sizes', 'network', 'ours')]
    """
    rows = [(label, f"`{run}`") for label, run in networks.items()]
    named = Table("networks", "Networks of this page", {"network": str, "what is run": str}, rows)
    kept = [_without_paper(part) for part in page.parts if not isinstance(part, str) or part.startswith("#")]
    behind: list[Part | None] = [*kept[1:], None]
    used = [part for part, after in zip(kept, behind, strict=True) if not (_is_heading(part) and _is_heading(after))]
    return Page(page.paper, "a quick page on small networks", [NOTE.format(page.paper), named, *used])


def _is_heading(part: Part | None) -> bool:
    """True if a kept part is a heading, or missing."""
    return part is None or isinstance(part, str)


def as_reference(model: str, options: Mapping[str, Any]) -> str:
    """A model and its options as on the command line.

    Examples
    --------
    >>> as_reference("resnet", {"depth": 62, "preactivation": True})
    'model:resnet?depth=62&preactivation=true'
    """
    words = (f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in options.items())
    return f"model:{model}?{'&'.join(words)}"


def _without_paper(part: Part) -> Part:
    """A part of a page without places in the paper, its numbers and its unit."""
    if isinstance(part, str):
        return PLACE.sub("", part)
    if isinstance(part, Figure):
        return replace(part, title=PLACE.sub("", part.title))
    names = list(part.columns)
    heads = [i for i, head in enumerate(names) if not re.search(r"\bpaper\b", head)]
    heads = [i for i in heads if names[i] != "by" or {row[i] for row in part.rows} != {"ours"}]
    shown = {names[i]: part.columns[names[i]] for i in heads}
    return replace(
        part,
        title=PLACE.sub("", part.title).replace(UNIT, ""),
        columns={name: format_bytes if show in (gigabytes, in_gigabytes) else show for name, show in shown.items()},
        rows=[tuple(row[i] for i in heads) for row in part.rows],
    )
