"""Mutants of a module: one line is changed in a copy of the project, and the module's tests must fail.

`python -m tests.mutants remat_algos/search/solver_run.py --count 20`; `remat_algos.search.solver_run` is the same, and
`kernels/search.pyx` is a kernel, which alone is built again. A line is printed for each mutant, with the difference for
those that no test noticed; then the exit code is 1. An equivalent mutant is a reason to make the code simpler.

Tokens are mutated, of Python and of Cython alike: comparisons, arithmetic, `and`, `not`, whole numbers, `min`, the
order of two arguments; conditions are negated, statements dropped. Texts, signatures, declarations, annotations stay.

By default the tests are the doctests of the module and the test files that import it, those that bear its name first;
of a kernel also those of the modules that import it. Options of pytest follow `--`.
"""

import argparse
import difflib
import io
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import tokenize
from collections.abc import Iterator, Sequence
from importlib.util import cache_from_source
from keyword import iskeyword
from pathlib import Path
from typing import NamedTuple

from docs import contributing

ROOT = Path(__file__).resolve().parent.parent
OTHERS = {
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is": "is not", "in": "not in"},
    **{"+": "-", "-": "+", "*": "+", "//": "*", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "+=": "-=", "-=": "+="},
    **{"|=": "&=", "&=": "|=", "and": "or", "or": "and", "not": "", "True": "False", "False": "True"},
    **{"min": "max", "max": "min", "any": "all", "all": "any", "continue": "break", "break": "continue"},
}
CONDITIONS = ("if", "elif", "while")
COMPOUND = (*CONDITIONS, "for", "else", "try", "except", "finally", "with", "match", "case", "return", "yield", "pass")
DECLARATIONS = ("def", "cpdef", "ctypedef", "class", "from", "import", "cimport", "@", "async", "global")
DROPPED = re.compile(r" [-+*/|&]?= |\)$|^(raise|break|continue)\b")  # statements that need not be there
CAST = re.compile(r"<[a-z]\w*\*?>")  # of Cython
WORDS = (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING)
FIRST, FACTOR = 20.0, 5.0  # seconds allowed a mutant, and how often what the tests take without one
KILLED, SURVIVED, TIMEOUT, INVALID = "killed", "survived", "timeout", "invalid"


class Mutant(NamedTuple):
    """The number of a line, from 1 on, what replaces it, and the change in it."""

    number: int
    line: str
    change: str

    def applied(self, source: str) -> str:
        """The source with the line replaced."""
        lines = source.splitlines(keepends=True)
        lines[self.number - 1] = self.line + "\n"
        return "".join(lines)


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of one line of a text in Python or Cython."""
    lines = source.splitlines()
    for tokens in statements(source):
        words, (number, indent) = [token.string for token in tokens], tokens[0].start
        line, begin = lines[number - 1], 0
        if words[0] == "cdef" or words[1:2] == [":"]:  # a declaration or an annotation, perhaps with a value
            begin = words.index("=") if "=" in words else len(words)
        if words[0] in DECLARATIONS or (words[0] == "cdef" and "(" in words[:begin]):
            continue
        if begin == 0 and tokens[-1].end[0] == number:
            if words[0] in CONDITIONS and words[-1] == ":":
                negated = f"{words[0]} not ({line[tokens[1].start[1] : tokens[-1].start[1]]}):"
                yield Mutant(number, line[:indent] + negated, "negated")
            if words[0] not in COMPOUND and DROPPED.search(" ".join(words)):
                yield Mutant(number, line[:indent] + "pass", "dropped")
        for place in range(begin, len(tokens)):
            first, last, other = tokens[place], tokens[place], replacement(words, place)
            if other is None and (ends := two_arguments(words, place)):
                begins = (place + 2, ends[0] + 1)
                spans = [(tokens[i].start, tokens[j - 1].end) for i, j in zip(begins, ends, strict=True)]
                if spans[0][0][0] == spans[1][1][0]:
                    one, two = (lines[start[0] - 1][start[1] : end[1]] for start, end in spans)
                    first, last, other = tokens[begins[0]], tokens[ends[1] - 1], f"{two}, {one}"
            if other is not None:
                row, old = first.start[0], lines[first.start[0] - 1]
                before, after = old[: first.start[1]], old[last.end[1] :]
                yield Mutant(row, before + other + after, f"{old[len(before) : last.end[1]]} -> {other or 'nothing'}")


def statements(source: str) -> Iterator[list[tokenize.TokenInfo]]:
    """The tokens of each logical line that is more than a text, without casts."""
    tokens: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NEWLINE:
            if any(each.type != tokenize.STRING for each in tokens):
                yield tokens
            tokens = []
        elif token.type in WORDS and token.start[1] not in _in_casts(token.line):
            tokens.append(token)


def _in_casts(line: str) -> set[int]:
    """The columns of a line that are those of casts."""
    return {column for cast in CAST.finditer(line) for column in range(*cast.span())}


def replacement(words: Sequence[str], place: int) -> str | None:
    """What stands for one word of a statement in a mutant; None: it stays."""
    before, word, after = ["", *words, ""][place : place + 3]
    if word.isdigit():
        return str(int(word) + 1)
    if word in ("min", "max", "any", "all") and (before == "." or after != "("):
        return None
    if word in ("*", "&") and not re.search(r"[\w)\]]$", before):  # of arguments, of an address
        return None
    return None if (word == "in" and "for" in words) or (word, after) == ("is", "not") else OTHERS.get(word)


def two_arguments(words: Sequence[str], place: int) -> tuple[int, int] | None:
    """Where the first two arguments by position of a call end; None if it has no two, or is no call."""
    depth, ends = 0, []
    if not words[place].isidentifier() or iskeyword(words[place]) or words[place + 1 : place + 2] != ["("]:
        return None
    for at in range(place + 1, len(words)):
        depth += (words[at] in "([{") - (words[at] in ")]}")
        if depth == 0 or (depth == 1 and words[at] == ","):
            ends.append(at)
        elif depth == 1 and words[at] in ("=", "for", "lambda", "**"):
            return None
        if depth == 0 or len(ends) == 2:
            break
    return (ends[0], ends[1]) if len(ends) == 2 and ends[0] + 1 < ends[1] else None


# ---------------------------------------------------------------- which tests, and what comes of them


def module_file(name: str) -> Path:
    """The file of a module, from the project's root: of a path or a dotted name."""
    dotted = name.replace(".", "/").replace("remat_algos/kernels/", "kernels/")
    for path in (name, f"{dotted}.py", f"{dotted}.pyx"):
        if (ROOT / path).is_file():
            return (ROOT / path).relative_to(ROOT)
    raise SystemExit(f"no module {name}; name one such as remat_algos/search/solver_run.py or kernels/search.pyx")


def default_tests(file: Path) -> list[str]:
    """The test files of a module by the rule that stands above."""
    names = [".".join(file.with_suffix("").parts).removeprefix("remat_algos.")]
    if file.parts[0] == "kernels":
        sources = (ROOT / "remat_algos").rglob("*.py")
        users = [source.relative_to(ROOT / "remat_algos") for source in sources if imports(source, names[0])]
        names += [".".join(user.with_suffix("").parts) for user in sorted(users)]
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    chosen = [test for test in files if any(imports(test, name) for name in names)]
    named = [test for test in files if any(test.stem.startswith(f"test_{name.replace('.', '_')}") for name in names)]
    doctests = [] if file.parts[0] == "kernels" else [file.as_posix()]
    return doctests + [test.relative_to(ROOT).as_posix() for test in dict.fromkeys(named + chosen)]


def imports(file: Path, name: str) -> bool:
    """Whether a file imports a module: `remat_algos.search.solve`, or `solve` from `remat_algos.search`."""
    parent, _, last = name.rpartition(".")
    pattern = rf"\bremat_algos\.{re.escape(name)}\b|from remat_algos\.{re.escape(parent)} import .*\b{last}\b"
    return re.search(pattern, file.read_text("utf-8")) is not None


def compiles(folder: Path, file: Path) -> bool:
    """Whether a module of the copy compiles; of kernels, only this one is built."""
    if file.suffix == ".py":
        try:
            return compile((folder / file).read_text("utf-8"), file, "exec") is not None
        except SyntaxError:
            return False
    for compiled in (folder / file).parent.glob(f"{file.stem}.*.so"):
        compiled.unlink()
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    environment = {**contributing.environment(folder), "REMAT_CFLAGS": "-O1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False).returncode == 0


def outcome(folder: Path, file: Path, source: str, command: Sequence[str], seconds: float | None) -> str:
    """What becomes of a source in the copy: whether the tests notice it."""
    (folder / file).write_text(source, "utf-8")
    Path(cache_from_source(str(folder / file))).unlink(missing_ok=True)  # two mutants of a second are one to it
    if not compiles(folder, file):
        return INVALID
    environment = contributing.environment(folder)
    quiet = {"cwd": folder, "env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, *command], start_new_session=True, **quiet) as process:
        try:
            return KILLED if process.wait(seconds) else SURVIVED
        except subprocess.TimeoutExpired:
            return TIMEOUT
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def main(words: Sequence[str] | None = None) -> int:
    """Try mutants of one module."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("module")
    parser.add_argument("--count", type=int, default=20, help="mutants that are tried (default 20)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (default 0)")
    parser.add_argument("--lines", metavar="A-B", help="only of these lines")
    parser.add_argument("--tests", nargs="+", help="test files, in place of those that import the module")
    words = sys.argv[1:] if words is None else [*words]
    end = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:end])
    file = module_file(arguments.module)
    source = (ROOT / file).read_text("utf-8")
    low, _, high = (arguments.lines or "1-1000000").partition("-")
    found = [each for each in mutants(source) if int(low) <= each.number <= int(high or low)]
    random.Random(arguments.seed).shuffle(found)
    tests = arguments.tests or default_tests(file)
    command = ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *words[end + 1 :], *tests]
    print(f"{len(found)} mutants of {file}; tests: {' '.join(tests)}", flush=True)
    counts = dict.fromkeys((KILLED, SURVIVED, TIMEOUT), 0)
    with tempfile.TemporaryDirectory() as name:
        folder, begun = contributing.copy(Path(name)), time.monotonic()
        if outcome(folder, file, source, command, None) != SURVIVED:
            raise SystemExit("the tests fail without a mutant")
        seconds = FIRST + FACTOR * (time.monotonic() - begun)
        for mutant in found:
            if sum(counts.values()) == arguments.count:
                break
            mutated = mutant.applied(source)
            ending = outcome(folder, file, mutated, command, seconds)
            if ending == INVALID:
                continue
            counts[ending] += 1
            print(f"{ending:9}{file}:{mutant.number}: {mutant.change}", flush=True)
            if ending == SURVIVED:
                print(*difflib.unified_diff(source.splitlines(), mutated.splitlines(), n=1, lineterm=""), sep="\n")
    print(", ".join(f"{count} {ending}" for ending, count in counts.items()))
    return int(counts[SURVIVED] > 0)


if __name__ == "__main__":
    sys.exit(main())
