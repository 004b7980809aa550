"""Parts of pages that scripts write: the lines between `<!-- NAME -->` and `<!-- end NAME -->`."""

import re


def part(name):
    return re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end {name} -->)", re.DOTALL)


def filled(text, name, lines):
    """The text of a page with other lines in one part, which is there once."""
    text, count = part(name).subn(lambda _: lines, text)
    if count != 1:
        raise ValueError(f"the page has {count} parts {name!r}")
    return text
