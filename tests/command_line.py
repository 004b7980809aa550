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


BUDGETED = ("--budget", "--overhead", "--device", "--plan", "--help", "-h")


def with_budget(words):
    """A command line; one that solves gets the lowest peak as its budget, if it is about something else."""
    words = [str(word) for word in words]
    given = any(word.partition("=")[0] in BUDGETED for word in words)
    return words if words[:1] not in (["solve"], ["run"]) or given else [*words, "--budget", "least"]


def runner(capsys):
    """Runs a command line (`with_budget`); what it says is read back from `capsys`."""

    def run(*words):
        capsys.readouterr()
        code = main(with_budget(words))
        return Said(code, *capsys.readouterr())

    return run
