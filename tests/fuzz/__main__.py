"""Fuzzing by hand and in CI; exit code 1 if there was a fault."""

import argparse
import secrets
import sys
from pathlib import Path

from tests.fuzz import api, bounds, doors, files, graphs, portfolio, seeds, signals, units, untrusted
from tests.fuzz.campaign import Campaign

SECONDS = 60.0
DRIVERS = {
    driver.__name__.rpartition(".")[2]: driver
    for driver in (graphs, bounds, portfolio, files, doors, untrusted, api, seeds, units, signals)
}


def main(arguments: list[str] | None = None) -> int:
    """Run one driver, or one of its cases again."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("driver", choices=DRIVERS)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long (default: 60)")
    parser.add_argument(
        "--count", type=int, default=float("inf"), help="stop after N solves, graphs, files, calls, commands"
    )
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, which is printed")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first case (default: 0)")
    parser.add_argument("--case", type=int, metavar="N", help="run case N alone, in this process")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="folder for inputs of faults")
    chosen = parser.parse_args(arguments)
    driver = DRIVERS[chosen.driver]
    seed = secrets.randbelow(2**32) if chosen.seed is None else chosen.seed
    campaign = Campaign(chosen.driver, driver.case, driver.UNIT, seed, chosen.keep)
    if chosen.case is not None:
        campaign.replay(chosen.case)
    else:
        seconds = SECONDS if chosen.seconds == chosen.count == float("inf") else chosen.seconds
        print(f"{chosen.driver}: seed {seed}", flush=True)
        if driver is files and (missing := files.missing_libraries()):
            print(f"NOT TRIED, since it is not installed: files of {' and '.join(missing)}", flush=True)
        campaign.run(first=chosen.first, seconds=seconds, count=chosen.count)
    print(campaign.summary())
    return bool(campaign.kinds)


if __name__ == "__main__":
    sys.exit(main())
