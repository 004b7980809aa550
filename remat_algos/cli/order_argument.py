"""ORDER and --mirror: a user's schedule, and its simulation."""

import argparse
from typing import Any

from remat_algos.text.wording import shortened_path


def add_order(parser: argparse.ArgumentParser) -> None:
    """Add ORDER, and mirror counts in its place."""
    parser.add_argument(
        "order",
        metavar="ORDER",
        nargs="?",
        help="a plan, a list of names or ids, lines `compute X` and `free Y`, or npz with matrices R and S "
        "(default: the order of the graph)",
    )
    parser.add_argument(
        "--mirror",
        metavar="FILE",
        help="instead of ORDER: number of recomputations of each node, as a table node,count or JSON (m of chen2016)",
    )


def check_order(order: str | None, mirror: str | None) -> None:
    """Check that not both an order and counts are given."""
    if order is not None and mirror is not None:
        raise argparse.ArgumentTypeError(
            f"--mirror {shortened_path(mirror)} makes an order; leave out {shortened_path(order)}"
        )


def simulated_order(graph: Any, order: Any) -> Any:
    """The simulation of an order; errors name its file."""
    from remat_algos.errors import ScheduleError
    from remat_algos.schedule.simulation import simulate

    schedule = order.schedule(graph)
    try:
        return simulate(graph, schedule)
    except ScheduleError as error:
        forward = graph.is_training and graph.forward[schedule.order].all()
        remedy = "; the order has no gradients (--inference adds none)" if forward else ""
        raise ScheduleError(f"{order.source}: {error}{remedy}", error.step, error.node) from error


def simulated_mirror_counts(graph: Any, file: str) -> Any:
    """The simulation of the order by mirror counts; errors name their file."""
    from pathlib import Path

    from remat_algos.errors import GraphError, ScheduleError
    from remat_algos.formats.mirror_counts import read_mirror_counts
    from remat_algos.schedule.mirror import mirror_schedule
    from remat_algos.schedule.simulation import simulate

    counts = read_mirror_counts(graph, file)
    try:
        return simulate(graph, mirror_schedule(graph, counts))
    except GraphError as error:  # they add up to too many runs
        raise GraphError(f"{shortened_path(Path(file).name)}: {error}") from error
    except ScheduleError as error:  # they violate a mark
        raise ScheduleError(f"{shortened_path(Path(file).name)}: {error}", error.step, error.node) from error
