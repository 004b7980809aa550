"""The uncertainty of costs on the command line."""

import argparse

from remat_algos.text.wording import quoted, shortened

HUNDRED = 100


def noise(text: str) -> float:
    """A share above 0 and at most 1, written as 20% or as 0.2."""
    number, sign, rest = text.strip().partition("%")
    try:
        share = float(number) / (HUNDRED if sign else 1)
    except ValueError:
        share = 0
    if rest or not 0 < share <= 1:
        hint = f"; did you mean {shortened(number)}%?" if not sign and 1 < share <= HUNDRED else ""
        raise argparse.ArgumentTypeError(
            f"{quoted(text)} is not a noise; give more than 0% and at most 100%, as 20%{hint}"
        )
    return share
