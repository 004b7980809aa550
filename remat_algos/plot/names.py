"""Names that fit."""


def shortened(name: str, most: int) -> str:
    """A name of at most so many characters, whose middle gives way.

    Examples
    --------
    >>> shortened("encoder.layer.11.attention.output", 16), shortened("relu", 16)
    ('encoder.….output', 'relu')
    """
    if len(name) <= most:
        return name
    head = most // 2
    return f"{name[:head]}…{name[len(name) - (most - head - 1) :]}"
