"""Words that go with numbers."""


def counted(number: int, noun: str) -> str:
    """How many of what.

    Examples
    --------
    >>> counted(1, "node"), counted(1200, "step")
    ('1 node', '1,200 steps')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
