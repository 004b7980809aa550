"""Words that go with numbers, and words between commas."""

from collections.abc import Sequence

LONGEST_NAME = 40  # characters of a name in a message


def counted(number: int, noun: str) -> str:
    """How many of what.

    Examples
    --------
    >>> counted(1, "node"), counted(1200, "step")
    ('1 node', '1,200 steps')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: Sequence[str], most: int, total: int | None = None) -> str:
    """The first names, shortened, and how many more there are: of a total, where not all names are given.

    Examples
    --------
    >>> listed(["a", "b", "c"], 2), listed(["a", "b"], 2), listed(["a"], 2, total=2000)
    ('a, b and 1 more', 'a, b', 'a and 1,999 more')
    """
    shown = names[:most]
    more = (len(names) if total is None else total) - len(shown)
    return ", ".join(map(shortened, shown)) + (f" and {more:,} more" if more > 0 else "")


def comma_separated(given: str | Sequence[str]) -> list[str]:
    """The words of an option that may be one text with commas between them, or several such texts.

    Examples
    --------
    >>> comma_separated("ReLU, Tanh,"), comma_separated(["layer0", "ReLU,Tanh"])
    (['ReLU', 'Tanh'], ['layer0', 'ReLU', 'Tanh'])
    """
    texts = [given] if isinstance(given, str) else map(str, given)
    return [word.strip() for text in texts for word in text.split(",") if word.strip()]


def shortened(name: object, most: int = LONGEST_NAME) -> str:
    """A name as messages quote it: at most that many characters; the middle of a longer one is left out.

    Examples
    --------
    >>> shortened("encoder.layer.11.attention.output", 16), shortened("relu"), len(shortened("x" * 200_000))
    ('encoder.….output', 'relu', 40)
    """
    text = str(name)
    if len(text) <= most:
        return text
    head = most // 2
    return f"{text[:head]}…{text[len(text) - (most - head - 1) :]}"
