"""The link to the host on the command line."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remat_algos.cost.links import Link


TIMELINE = "timeline"
"""The picture of copies over time."""
PLANNED = "values may also be stored on the host and loaded back, over this link: "


def add_link(parser: argparse.ArgumentParser, meaning: str = PLANNED) -> None:
    """--link, --host and --link-share."""
    group = parser.add_argument_group("copies to the host (the costs of the graph must be times)")
    group.add_argument(
        "--link",
        metavar="LINK",
        type=_link,
        help=f"{meaning}pcie4, pcie5, nvlink-c2c, 50GB/s, 50GB/s,25GB/s (out, into), or the file of a device that "
        "states one",
    )
    group.add_argument("--host", metavar="SIZE", type=_host, help="limit of the bytes on the host, such as 64GiB")
    group.add_argument(
        "--link-share",
        metavar="SHARE",
        type=_share,
        help="share of the rates that plans use (90%%): a link that attains less than planned makes compute wait",
    )


def link_of(arguments: argparse.Namespace, default: Link | None = None) -> Link | None:
    """The link, or a default, with the limit of host bytes; None without one."""
    from remat_algos.cost.devices import get_link

    link = default if arguments.link is None else arguments.link
    for option, value in (("--host", arguments.host), ("--link-share", arguments.link_share)):
        if link is None and value is not None:
            raise argparse.ArgumentTypeError(f"{option} goes with --link; give that too")
    return None if link is None else get_link(link, arguments.host, arguments.link_share)


def check_timeline(picture: str | None, link: Link | None) -> None:
    """Check that the picture of copies over time has a link."""
    if picture == TIMELINE and link is None:
        raise argparse.ArgumentTypeError("--picture timeline shows copies over time; give --link, such as pcie5")


def _link(text: str) -> Any:
    from remat_algos.cost.devices import get_link

    return _checked(get_link, text)


def _host(text: str) -> Any:
    from remat_algos.cost.links import host_limit

    return _checked(host_limit, text)


def _share(text: str) -> Any:
    from remat_algos.cost.links import planned_share

    return _checked(planned_share, text)


def _checked(read: Any, text: str) -> Any:
    from remat_algos.errors import GraphError

    try:
        return read(text)
    except GraphError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
