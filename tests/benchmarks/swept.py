"""Jobs of a benchmark as a sweep, whose folder is that of the commit: what was stopped goes on where it was."""

import shutil
from collections.abc import Sequence

from remat_algos.cli.output import progress_line
from remat_algos.sweeps.driver import sweep
from remat_algos.sweeps.jobs import SweepJob
from remat_algos.sweeps.results import SweepResults
from tests.benchmarks.occasion import ROOT, commit

_begun = set[str]()


def swept(jobs: Sequence[SweepJob], name: str) -> SweepResults:
    """The results of all jobs, in build/sweeps/COMMIT/NAME; nothing is kept where files differ from the commit.

    Raises
    ------
    RuntimeError
        If a job failed, or the sweep was interrupted.
    """
    at = commit()
    folder = ROOT / "build" / "sweeps" / at.partition(" ")[0] / name
    if not at.isalnum() and name not in _begun:  # it may be of another state of the files
        shutil.rmtree(folder, ignore_errors=True)
    _begun.add(name)
    with progress_line(keeps=False, every=60) as progress:
        results = sweep(jobs, folder, progress=progress)
    failed = [row["reason"] for row in results.records if row["outcome"] == "failed"]
    if failed or results.left:
        raise RuntimeError(f"{len(failed)} jobs failed, {results.left} are left; {folder}: {failed[:1]}")
    return results
