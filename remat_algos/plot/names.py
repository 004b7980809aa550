"""Names that fit."""

import unicodedata


def shortened(name: str, most: int) -> str:
    """A name of at most so many characters: the middle gives way, what cannot be printed is a question mark.

    Examples
    --------
    >>> shortened("encoder.layer.11.attention.output", 16)
    'encoder.….output'
    >>> shortened("relu\\n1", 16)
    'relu?1'
    """
    printed = "".join("?" if unicodedata.category(c)[0] == "C" or c in "\u2028\u2029" else c for c in name)
    if len(printed) <= most:
        return printed
    head = most // 2
    return f"{printed[:head]}…{printed[len(printed) - (most - head - 1) :]}"[: max(most, 0)]
