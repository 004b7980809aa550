"""The entry point of the command `remat` and of `python -m remat_algos`."""

import time

from remat_algos.cli.exits import interruptible

STARTED = time.monotonic()


def start() -> int:
    """Run the command line of this process, and return its exit code."""
    return interruptible(_main)


def _main() -> int:
    from remat_algos.cli.main import main  # a slow import

    return main(started=STARTED)


if __name__ == "__main__":
    raise SystemExit(start())
