"""Build the kernels with bounds checks and sanitizers in a folder of their own, and run a command on them there.

`python -m tests.sanitizers python -m pytest -s tests/test_structure_elimination.py`; without a command it only builds.
The exit code is that of the command; what a sanitizer finds ends it.
"""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "checked"
FOLDERS = ["remat_algos", "kernels", "tests", "docs", "examples"]
FILES = ["setup.py", "pyproject.toml", "README.md", "LICENSE"]
COMPILED = {".so", ".pyd", ".pyc"}
STAMP = runpy.run_path(str(ROOT / "kernels" / "_built.py"))["STAMP"]
LIBRARIES = ["libasan.so", "libubsan.so", "libstdc++.so"]  # they have to be there before Python is


def sources(root: Path) -> set[str]:
    """The files of a checkout, without what was compiled."""
    files = [file for folder in FOLDERS for file in (root / folder).rglob("*")] + [root / name for name in FILES]
    return {
        str(file.relative_to(root))
        for file in files
        if file.is_file() and "__pycache__" not in file.parts and file.suffix not in COMPILED and file.name != STAMP
    }


def copy_sources() -> None:
    """Bring the sources as they are now to the folder; what was compiled there stays."""
    known = sources(ROOT)
    for name in known:
        source, target = ROOT / name, FOLDER / name
        if not target.exists() or source.stat().st_mtime_ns != target.stat().st_mtime_ns:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    for name in sources(FOLDER) - known:
        (FOLDER / name).unlink()


def library(name: str) -> str:
    """Where the compiler has a library."""
    compiler = (os.environ.get("CC") or "gcc").split()[0]
    found = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    if not Path(found.stdout.strip()).is_absolute():
        raise SystemExit(f"{compiler} has no {name}; install GCC with its sanitizers, and set CC to it")
    return found.stdout.strip()


def main(command: list[str]) -> int:
    """Build, then run the command."""
    copy_sources()
    build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(build, cwd=FOLDER, env={**os.environ, "REMAT_CHECKED": "1"}, check=True)
    if not command:
        return 0
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(map(library, LIBRARIES)),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",  # Python itself leaks
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "PYTHONMALLOC": "malloc",  # or AddressSanitizer sees nothing of small arrays
        "PYTHONPATH": str(FOLDER),
    }
    return subprocess.run(command, cwd=FOLDER, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
