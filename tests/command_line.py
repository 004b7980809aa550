"""The command line, run in this process."""

import json
from dataclasses import dataclass

from remat_algos.cli.main import main


@dataclass
class Said:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def record(self):
        """The one JSON object; fails if there is anything else."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    @property
    def flat(self):
        """The text in one line, with one space between words, however it was wrapped."""
        return " ".join(self.out.split())

    @property
    def lines(self):
        return self.out.splitlines()


def runner(capsys):
    """Runs a command line; what it says is read back from `capsys`."""

    def run(*words):
        capsys.readouterr()
        code = main([str(word) for word in words])
        return Said(code, *capsys.readouterr())

    return run
