"""Peaks of a training step with a plan per block, in every runtime that the scripts of examples/torch_training use.

`python -m tests.benchmarks.torch_runtimes` runs them and writes docs/results/torch_runtimes.txt, a table of
docs/torch_training.md. It needs transformers, peft, trl, accelerate, lightning and datasets.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass

from tests.benchmarks.occasion import RESULTS, ROOT, Occasion, installed

FOLDER = ROOT / "examples" / "torch_training"
PEAKS = re.compile(r"peak predicted (\d+), measured (\d+), without a plan (\d+) bytes")
SAME = re.compile(r"^(parameters|gradients) are (.*), bit for bit$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """The runtime of a script as the table names it, its packages, its processes, and how good its prediction is.

    A prediction is between the measured bytes and `above` times as many; None if it is of something else: a
    microbatch, or the model that is not compiled.
    """

    runtime: str
    packages: tuple[str, ...] = ()
    processes: int = 1
    above: float | None = 1.03


SCRIPTS = {
    "checkpoints_loop.py": Script("loop"),
    "checkpoints_lightning.py": Script("Lightning", ("lightning",)),
    "checkpoints_trainer.py": Script("Trainer, LoRA", ("transformers", "peft")),
    "checkpoints_trl.py": Script("SFTTrainer", ("trl",)),
    "checkpoints_accelerate.py": Script("accelerate", ("accelerate",)),
    "checkpoints_ddp.py": Script("DDP", processes=2),
    "checkpoints_fsdp2.py": Script("FSDP2", processes=2, above=1.25),
    "checkpoints_tensor_parallel.py": Script("tensor parallel", processes=2, above=1.5),
    "checkpoints_pipeline.py": Script("pipeline stages", processes=2, above=None),
    "checkpoints_compile.py": Script("torch.compile", above=None),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """What a script prints: bytes predicted, measured and without a plan, and what was equal."""

    peaks: tuple[tuple[int, int, int], ...]
    same: str


def measured(name: str) -> Measured:
    """Run a script; it fails where parameters or gradients differ."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-W", "ignore", str(FOLDER / name)]
    done = subprocess.run(command, env=environment, timeout=600, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name} failed: {done.stderr[-2000:]}")
    peaks = tuple(tuple(map(int, found)) for found in PEAKS.findall(done.stdout))
    (what, to) = SAME.findall(done.stdout)[0]
    return Measured(peaks, f"{what} {to}")


def check(name: str, found: Measured) -> None:
    """Raise AssertionError where a plan saves nothing, or a prediction is not that of the allocator."""
    assert found.peaks
    for predicted, peak, without in found.peaks:
        assert peak < without
        above = SCRIPTS[name].above
        assert above is None or peak <= predicted <= above * peak, (predicted, peak)


def cells(name: str, found: Measured) -> str:
    """Return the rows of the table."""
    script, rows = SCRIPTS[name], []
    versions = ", ".join(f"{package} {installed(package)}" for package in script.packages)
    for i, bytes_of in enumerate(found.peaks):
        runtime = script.runtime + (f", stage {i}" if len(found.peaks) > 1 else "") + (versions and f" ({versions})")
        mb = " | ".join(f"{each / 1e6:.2f}" for each in (bytes_of[2], bytes_of[0], bytes_of[1]))
        rows.append(f"| {runtime} | `{name}` | {script.processes} | {mb} | {found.same} |")
    return "\n".join(rows)


def main() -> None:
    """Run, check, print and write."""
    lines = [
        Occasion.now().paragraph("python -m tests.benchmarks.torch_runtimes"),
        "",
        "| runtime | script | processes | MB without a plan | predicted | measured | bit for bit |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    print("\n".join(lines))
    for name in SCRIPTS:
        found = measured(name)
        lines.append(cells(name, found))
        print(lines[-1], flush=True)
        check(name, found)
    (RESULTS / "torch_runtimes.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
