"""The page docs/artifact.md: what the project states, the commands that show it, and what these take.

    python -m docs.artifact [--quick] [--write-page] [ITEM ...]

Runs the commands of the page, or those of some items, one after the other, each in a copy of the project, and compares
the files that it writes with those that are recorded. One line for each: the outcome, CPU seconds, and the peak memory
of its largest process. Exit code 1 if something differs that is not a time. `--write-page` keeps both figures in
docs/artifact.json, with the occasion, and writes the page; without ITEM and `--quick` it only writes the page.

Bytes are compared. Where a command measures times, or notes when and where it ran, these are left out on both sides.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from importlib.util import find_spec
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from docs import console, contributing
from docs.page_parts import filled, table
from docs.reproductions.page import wrapped
from tests.benchmarks.occasion import Occasion, commit

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
PAGE, RECORD = DOCS / "artifact.md", DOCS / "artifact.json"
BENCHMARKS = "docs/benchmarks.md"
SAME, TIMES, DIFFERS = "same", "same but for times", "differs"

OCCASION = r'\s*"measured_on": \{[^{}]*(?:\{[^{}]*\}[^{}]*)*\},?|^Measured on (?:.+\n?)+'
SECONDS = r'"\w*seconds\w*": (?:-?[\d.e-]+|\[[^\]]*\]|\{[^{}]*\})'
CELLS = r"(?<=\|)(?! *---).*$|^(?:Missed|Not run):.*$"  # of rows, all but nothing: how many there are
ROWS = r"(?m)(^\| [^|]+\|).*$|^(?:Missed|Not run|Measured on).*$"  # their first cells stay


@dataclass(frozen=True, slots=True)
class Item:
    """A command, and what it shows.

    `files` are patterns of what it writes alone: they are removed from the copy before. `pages` are renewed in part,
    and `prints` is a page with what it prints. `times` is a pattern of what is a time, or says when; its groups stay.
    `needs` are modules that must be installed.
    """

    name: str
    claim: str
    command: str
    files: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    prints: str = ""
    times: str = ""
    quick: bool = False
    needs: tuple[str, ...] = ()

    def written(self, folder: Path) -> set[str]:
        """Paths of its files in a copy of the project."""
        return {path.relative_to(folder).as_posix() for pattern in self.files for path in folder.glob(pattern)}

    def missing(self) -> list[str]:
        """What it needs and is not installed."""
        return [name for name in self.needs if find_spec(name) is None]


@dataclass(frozen=True, slots=True)
class Run:
    """How an item compared, what differs, and what its processes took."""

    outcome: str
    differences: tuple[str, ...]
    cpu_seconds: float
    peak_bytes: int


def example(script: str, claim: str, *figures: str, quick: bool = True) -> Item:
    """A script of `examples`, and its figures."""
    files = tuple(f"docs/figures/{figure}.svg" for figure in figures)
    return Item(script.partition("_")[2], claim, f"python examples/{script}.py", files, quick=quick)


def reproduction(paper: str, claim: str) -> Item:
    """A page with its tables and figures."""
    return Item(
        paper,
        claim,
        f"python -m docs.reproductions {paper}",
        (f"docs/reproductions/{paper}.md", f"docs/reproductions/{paper}_*"),
    )


def packings_claim() -> str:
    """What docs/results/packings.json shows."""
    summary = json.loads((DOCS / "results" / "packings.json").read_text("utf-8"))["summary"]
    more = 100 * (summary["largest_ratio"] - 1)
    return (
        f"{summary['at_max_live']:,} of {summary['packings']:,} packings of schedules of all solvers on the zoo take "
        f"the bytes that the worst step needs, the others at most {more:.1f} % more"
    )


def measured_pages() -> tuple[str, ...]:
    """The pages of `SENTENCES` in docs/measured_figures.py."""
    names = re.findall(r'^        "([\w/]+\.md)",$', (DOCS / "measured_figures.py").read_text("utf-8"), re.MULTILINE)
    return tuple(f"docs/{name}" for name in dict.fromkeys(names))


ITEMS = (
    reproduction("chen2016", "the memory of ResNets and of an LSTM under the plans of chen2016, with its numbers"),
    reproduction("echo2020", "footprints and overheads under the plans of echo2020, with its numbers"),
    reproduction("kumar2019", "peaks and lengths of the schedules of kumar2019, with its numbers"),
    reproduction("kusumoto2019", "seven networks under the strategies of kusumoto2019, with its numbers"),
    Item(
        "headlines",
        "the figures that the first page leads with, and its picture",
        "python docs/headline_figures.py",
        ("docs/figures/before_and_after.svg",),
        ("README.md", "docs/index.md"),
    ),
    Item(
        "animations",
        "plans that move, on a chain and a U-Net, and the numbers below them",
        "python docs/animations.py",
        ("docs/figures/animated_*.svg",),
        ("README.md", "docs/index.md", "docs/animations.md"),
    ),
    Item(
        "measured",
        "numbers in the sentences of pages on solvers and algorithms",
        "python docs/measured_figures.py",
        pages=measured_pages(),
    ),
    Item(
        "console",
        "what commands print on pages",
        "python docs/console.py",
        pages=("README.md", "docs/cli.md", "docs/start.md"),
        times=rf"(?m){console.SECONDS.pattern}",
    ),
    Item(
        "zoo",
        "the networks of the zoo, and their drawings",
        "python docs/zoo.py",
        ("docs/zoo.md", "docs/layers.md", "docs/figures/zoo_*.svg"),
        quick=True,
    ),
    Item(
        "validation",
        "executed on NumPy, plans of all solvers take the predicted bytes at each step, with the same values "
        "(compared: the summary, since some of the solvers have a time limit)",
        "python -m tests.benchmarks.gpu_validation --backend numpy --output docs/results/validation_numpy.json",
        ("docs/results/validation_numpy.json",),
        times=rf'(?m){OCCASION}|{SECONDS}|"node_costs": \{{[^}}]*\}}|"(?:time|long_overhead)_\w+": [\d.e-]+'
        r'|"(?:device|python|numpy|remat_algos)": ".*"|"long_overheads\w*": (?:[\d.]+|\{[^}]*\})|"found": [\d.]+'
        r'|"highest_peak": \d+|(?s:"skipped": \{.*?\}|"validations": \[.*\])',
    ),
    Item(
        "gpu_run",
        "what a GPU will be asked, tried small on the processors: each part ends, and its bytes are as predicted",
        "python -m tests.benchmarks.gpu_run --backend numpy --seconds 2400",
        ("docs/results/gpu_run_numpy.json", "docs/results/device_numpy.json"),
        times=rf'(?m){OCCASION}|{SECONDS}|(?s:"records": \[.*?^   \])|-?\d+\.\d+(?:e[-+]?\d+)?'
        r'|"(?:name|source)": ".*"|"memory": \d+',
        needs=("torch",),
    ),
    Item(
        "validation_page",
        "the page on validation says what is recorded",
        "python docs/validation.py",
        pages=("docs/validation.md",),
        quick=True,
    ),
    Item(
        "random_graphs",
        "how near solvers come to the optimum of 300 small random graphs",
        "python -m tests.benchmarks.random_dags",
        ("docs/results/kumar2019_random_dags.json",),
        times=rf"(?m){OCCASION}",
    ),
    Item(
        "packings",
        packings_claim(),
        "python -m tests.benchmarks.packings",
        ("docs/results/packings.json",),
        times=rf"(?m){OCCASION}|{SECONDS}",
    ),
    Item(
        "sweeps",
        "sweeps whose workers, drivers and disks fail have the results of undisturbed ones; what sweeps cost",
        "python -m tests.benchmarks.sweep_faults --write",
        files=("docs/results/sweeps.txt",),
        times=ROWS,
    ),
    Item(
        "golden_optima",
        "optima of 77 small graphs, on which two methods agree",
        "python -m tests.benchmarks.optima --golden",
        pages=("tests/golden/optima.json",),
    ),
    Item(
        "benchmarks",
        "seconds of",
        "python -m pytest tests/benchmarks --benchmark-only --write-benchmarks-page",
        files=("docs/results/benchmarks.txt",),
        pages=(BENCHMARKS,),
        times=ROWS,
    ),
    Item(
        "quality",
        "overhead, bound and gap of `solve` on networks, layered graphs and golden optima",
        "python -m pytest tests/benchmarks -k quality",
        files=("docs/results/quality.txt",),
        pages=(f"{BENCHMARKS}#quality",),
        times=ROWS,
    ),
    Item(
        "copies",
        "overhead in time and bound of `solve` with copies to the host",
        "python -m tests.benchmarks.copies",
        files=("docs/results/copies.txt",),
        pages=(f"{BENCHMARKS}#copies",),
        times=ROWS,
    ),
    Item(
        "compiled",
        "dense loops for each kind of vector unit, beside Numba",
        "python -m tests.benchmarks.compiled --write",
        files=("docs/results/compiled_*_calls.txt",),
        pages=("docs/compiled.md",),
        times=rf"{ROWS}|(?<=takes )\d+(?= ms)",
        needs=("numba",),
    ),
    Item(
        "by_the_book",
        "the files of examples/by_the_book: plain Python, Numba, and our solver",
        "python -m tests.benchmarks.by_the_book --write",
        pages=("docs/by_the_book.md",),
        times=ROWS,
        needs=("numba",),
    ),
    Item(
        "rules",
        "rules of `greedy_remat` on ten networks, and the cost of a call",
        "python -m tests.benchmarks.rules --write",
        pages=("docs/own_rules.md",),
        times=ROWS,
        needs=("numba",),
    ),
    Item(
        "pages",
        "cells of pages run, and links and references lead somewhere",
        "python -m sphinx -q -W --keep-going -b html docs build/docs",
        needs=("sphinx", "myst_nb"),
    ),
    example("1_first_plan", "a U-Net within 70 % of its memory", "first_plan"),
    example("2_own_edge_list", "decisions of one's own, simulated", "own_edge_list"),
    example(
        "3_compare_and_frontier",
        "the solvers and the frontier of a transformer block",
        "compare_and_frontier",
        quick=False,
    ),
    example("4_from_another_framework", "arrays in, an order of actions out", "from_another_framework"),
    example("5_lower_sets", "lower sets and formula (2) by hand", "lower_sets_lattice", "lower_sets_terms"),
    example("6_tree_decompositions", "bags and separators by hand", "twremat_decomposition", "twremat_schedule"),
    example("7_addresses", "addresses of a plan, as small as its live bytes allow", "addresses"),
    example("8_train_a_network", "bit-identical losses and parameters under three plans", "training", quick=False),
    example("9_own_operators", "a framework's own functions executed by a plan", "own_operators"),
    Item(
        "torch_gpt",
        "transformer blocks of PyTorch within half of their memory, with the same gradients",
        "python -m tests.benchmarks.occasion torch_gpt",
        ("docs/results/torch_gpt.txt", "docs/figures/torch_gpt.svg"),
        times=rf"(?m){OCCASION}|^seconds .*",
        needs=("torch",),
    ),
    Item(
        "torch_offload",
        "transformer blocks of PyTorch with copies to the host",
        "python -m tests.benchmarks.occasion torch_offload",
        ("docs/results/torch_offload.txt",),
        times=rf"(?m){OCCASION}|^seconds .*",
        needs=("torch",),
    ),
    Item(
        "torch_models",
        "models of many kinds within half of their memory, compared with eager",
        "python -m tests.benchmarks.torch_models",
        ("docs/results/torch_models.txt",),
        times=rf"(?m){OCCASION}",
        needs=("torch",),
    ),
    Item(
        "torch_budget",
        "plans compared with those of PyTorch's planner, on the same graphs",
        "python -m tests.benchmarks.torch_budget",
        ("docs/results/torch_budget.json", "docs/figures/torch_budget.svg", "tests/golden/torch/*"),
        times=rf"(?m){OCCASION}|{SECONDS}",
        needs=("torch",),
    ),
    Item(
        "torch_llama",
        "bytes of one step of a Llama: eager, checkpointed, by PyTorch's planner, by ours",
        "python -m tests.benchmarks.torch_llama",
        ("docs/results/torch_llama.txt",),
        times=rf"(?m){OCCASION}|^PyTorch .*",
        needs=("torch", "transformers"),
    ),
    Item(
        "torch_checkpoints",
        "checkpoint plans of ten models: predicted and measured peaks, and overheads compared with every_n_layers",
        "python -m tests.benchmarks.torch_checkpoints",
        ("docs/results/torch_checkpoints.txt",),
        times=rf"(?m){OCCASION}",
        needs=("torch", "transformers", "peft"),
    ),
    Item(
        "torch_runtimes",
        "checkpoint plans in ten runtimes of PyTorch: predicted and measured peaks, and results as without a plan",
        "python -m tests.benchmarks.torch_runtimes",
        ("docs/results/torch_runtimes.txt",),
        times=rf"(?m){OCCASION}",
        needs=("torch", "transformers", "peft", "trl", "accelerate", "lightning"),
    ),
    Item(
        "jax_mlp",
        "bytes of a function of JAX by plans, and by XLA",
        "python examples/jax_mlp.py",
        prints="docs/jax.md",
        needs=("jax",),
    ),
    Item(
        "jax_scan",
        "bytes of a scan of JAX by plans, and by XLA",
        "python examples/jax_scan.py",
        prints="docs/jax.md",
        times=r"(?m)(?<=gradients within )\S+$",  # XLA adds in another order
        needs=("jax",),
    ),
    Item(
        "onnx_order",
        "the order of execution of an ONNX model, within 60 % of its memory",
        "python -m tests.benchmarks.occasion onnx_order",
        ("docs/results/onnx_order.txt",),
        times=rf"(?m){OCCASION}",
        needs=("onnx",),
    ),
)

MEASURE = """\
import resource, subprocess, sys
with open(sys.argv[2], "wb") as out, open(sys.argv[3], "wb") as err:
    code = subprocess.call(sys.argv[1], shell=True, stdout=out, stderr=err)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""
"""A process of its own: the peak of a child is never below that of its parent."""


def project(folder: Path) -> Path:
    """A copy of the project, the files shared with other projects beside it."""
    copied = folder / "project"
    copied.mkdir()
    beside = next((place / "shared" for place in ROOT.parents if (place / "shared").is_dir()), None)
    if beside is not None:
        (folder / "shared").symlink_to(beside)
    return contributing.copy(copied)


def run(item: Item) -> Run:
    """Run an item in a copy of the project, and compare."""
    with tempfile.TemporaryDirectory() as name:
        folder = project(Path(name))
        for path in item.written(folder):
            (folder / path).unlink()
        out, err = Path(name, "out"), Path(name, "err")
        environment = contributing.environment(folder) | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "REMAT_COMMIT": commit(),
        }
        command = [sys.executable, "-c", MEASURE, item.command, str(out), str(err)]
        done = subprocess.run(
            command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, encoding="utf-8"
        )
        code, seconds, peak = done.stdout.split()
        found = list(compared(item, folder, out.read_text("utf-8", "replace")))
        if code != "0":
            last = [*out.read_text("utf-8", "replace").splitlines(), *err.read_text("utf-8", "replace").splitlines()]
            found.insert(0, f"exit code {code}: {' / '.join(last[-3:])[-300:]}")
    wrong = tuple(line for line in found if line)
    unit = 1 if sys.platform == "darwin" else 1024
    outcome = DIFFERS if wrong else TIMES if found else SAME
    return Run(outcome, wrong, float(seconds), int(peak) * unit)


def compared(item: Item, folder: Path, printed: str = "") -> Iterator[str]:
    """What differs between a copy of the project in which an item has run and the project; "" for times alone."""
    after = contributing.files(folder)
    own = {path.relative_to(ROOT).as_posix() for path in (DOCS / "artifact.md", DOCS / "artifact.json")}
    for path in sorted((after.keys() | item.written(ROOT)) - own):
        recorded = (ROOT / path).read_bytes() if (ROOT / path).is_file() else None
        if recorded is None or path not in after:
            yield f"{path} is new" if recorded is None else f"{path} is not written"
        elif recorded != after[path]:
            yield difference(path, recorded, after[path], item.times)
    if item.prints:
        page = (ROOT / item.prints).read_text("utf-8")
        said, shown = (timeless(text, item.times).rstrip() for text in (printed, page))
        if said not in shown:
            other = next((line for line in said.splitlines() if line not in shown), "lines in another order")
            yield f"{item.prints} does not show what is printed: {other}"
        elif printed.rstrip() not in page:
            yield ""


def difference(path: str, recorded: bytes, written: bytes, times: str) -> str:
    """The first line that differs, "" if only times do."""
    try:
        texts = [timeless(content.decode("utf-8"), times) for content in (recorded, written)]
    except UnicodeDecodeError:
        return f"{path} has other bytes"
    if texts[0] == texts[1]:
        return ""
    old, new = (text.split("\n") for text in texts)
    line = next((i for i, pair in enumerate(zip(old, new, strict=False)) if len({*pair}) > 1), min(len(old), len(new)))
    was, now = (text[line][:160] if line < len(text) else "no line" for text in (old, new))
    return f"{path}, line {line + 1}: recorded {was!r}, now {now!r}"


def timeless(text: str, times: str) -> str:
    """A text without what a pattern finds, but for its groups, and without empty lines at its end."""
    if not times:
        return text
    return re.sub(times, lambda found: "".join(group or "" for group in found.groups()), text).rstrip()


# the page


def compares(item: Item) -> str:
    """How its files are compared."""
    if item.times == ROWS:
        return "rows"
    if not (item.files or item.pages or item.prints):
        return "exit code"
    return "except times" if item.times else "bytes"


def titles() -> dict[str, str]:
    """The title of each table and figure, by its path, from the first page that shows it."""
    found: dict[str, str] = {}
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text("utf-8")
        shown = re.findall(r"!\[([^\]]*)\]\(([^)]*\.svg)\)", text)
        shown += re.findall(r"^\*\*(.*)\*\* \(\[CSV\]\((.*)\)\)$", text, re.MULTILINE)
        shown += re.findall(r"^Table:\s+\[([^\]]+)\]\(([^)]+)\)", text, re.MULTILINE)
        for title, link in shown:
            path = Path(os.path.normpath(page.parent / link))
            found.setdefault(path.relative_to(ROOT).as_posix(), " ".join(title.split()))
    return found


def sections() -> list[str]:
    """Headings of the page of benchmarks that one command writes."""
    headings = re.findall(r"^## (.*)$", (ROOT / BENCHMARKS).read_text("utf-8"), re.MULTILINE)
    return [heading for heading in headings if heading not in ("quality", "copies")]


def linked_files(item: Item) -> set[str]:
    """Files of an item that a page links which the item writes as a whole."""
    files = item.written(ROOT)
    text = "".join((ROOT / path).read_text("utf-8") for path in files if path.endswith(".md"))
    return {path for path in files if re.search(rf"\((?:figures/)?{re.escape(Path(path).name)}\)", text)} - {
        path for path in files if path.endswith(".md")
    }


def outputs(item: Item, known: dict[str, str]) -> str:
    """What an item shows, and links to its files and pages."""
    files = sorted(item.written(ROOT))
    shown = [path for path in files if path in known or path.startswith("docs/results/") or path.endswith(".md")]
    linked = linked_files(item)
    links = [link(path) for path in shown or files[:1] if path not in linked]
    links += [f"and the {len(linked)} tables and figures there"] if linked else []
    if item.pages == (BENCHMARKS,):
        links += [link(f"{BENCHMARKS}#{name}", name) for name in sections()]
    else:
        links += map(link, [*item.pages, *([item.prints] if item.prints else [])])
    return f"{item.claim}: {', '.join(links)}" if links else item.claim


def link(path: str, title: str = "") -> str:
    """A link from the page to a part of these pages, which have each reproduction on the page of its paper."""
    inside = re.sub(r"^reproductions/(\w+\.md)$", r"papers/\1", path.removeprefix("docs/"))
    if inside == path:
        return f"{title} (`{path}`)" if title else f"`{path}`"
    return f"[{title or inside.rpartition('/')[2]}]({inside})"


def minutes(seconds: float) -> str:
    """CPU minutes, two digits."""
    return "below 0.01" if seconds < 0.6 else f"{seconds / 60:.2f}" if seconds < 600 else f"{seconds / 60:.0f}"


def mebibytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"


def own_seconds(item: Item) -> float:
    """The sum of the CPU seconds in the rows of an item's result; 0 if they state none."""
    if item.name == "packings":
        return sum(
            packed["seconds"] for packed in json.loads((DOCS / "results" / "packings.json").read_text())["packings"]
        )
    _, _, heading = "".join(item.pages).partition("#")
    section = (ROOT / BENCHMARKS).read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    if heading:
        section = "".join((ROOT / path).read_text("utf-8") for path in item.files) or section
    rows = [line[2:-2].split(" | ") for line in section.splitlines() if line.startswith("| ")]
    column = next((cells.index("CPU s") for cells in rows if "CPU s" in cells), None) if heading else None
    if column is None:
        return 0.0
    amounts = [cells[column] for cells in rows if len(cells) > column] + re.findall(r"\| ([\d.]+) CPU s \|", section)
    return sum(float(amount) for amount in amounts if re.fullmatch(r"[\d.]+", amount))


def took(item: Item, record: dict[str, dict]) -> tuple[str, str]:
    """Return CPU minutes and memory as the page states them."""
    if found := record.get(item.name):
        return minutes(found["cpu_seconds"]), mebibytes(found["peak_bytes"])
    own = own_seconds(item)
    return (f"at least {minutes(own)}" if own else ""), ""


def escaped(rows: list[list[str]]) -> list[list[str]]:
    """Rows whose cells have no bar that would end them."""
    return [[cell.replace("|", r"\|") for cell in row] for row in rows]


def page(record: dict[str, dict]) -> str:
    """The page with what is recorded in its marked parts."""
    known = titles()
    commands, claims = [], []
    for item in ITEMS:
        cpu, memory = took(item, record)
        name = item.name + (" (quick)" if item.quick else "")
        needs = ", ".join(item.needs)
        commands.append([name, f"`{item.command}`", needs, compares(item), cpu, memory])
        claims.append([item.name, outputs(item, known)])
    parts = {
        "needed": needed(record),
        "commands": table(["item", "command", "needs", "compared", "CPU minutes", "memory"], escaped(commands)),
        "machines": f"Measured on {'; and on '.join(machines(record))}.",
        "claims": table(["item", "what it shows"], escaped(claims)),
    }
    return reduce(lambda text, part: filled(text, part[0], part[1] + "\n"), parts.items(), PAGE.read_text("utf-8"))


def needed(record: dict[str, dict]) -> str:
    """Memory and time of all items that were measured, and the least that the others take where that is known."""
    memory = mebibytes(max((took["peak_bytes"] for took in record.values()), default=0))
    quick = [item.name for item in ITEMS if item.quick]
    seconds = {name: took["cpu_seconds"] for name, took in record.items()}
    rest = {item.name: own_seconds(item) for item in ITEMS if item.name not in record}
    unknown = ", ".join(f"`{name}`" for name, own in rest.items() if not own)
    every, fast = sum(seconds.values()), sum(seconds.get(name, 0) for name in quick)
    said = [
        f"{every / 60:.0f} CPU minutes for the {len(record)} measured items, "
        f"of which the {len(quick)} quick items take {fast / 60:.1f}",
        *(f"at least {minutes(own)} more for `{name}`" for name, own in rest.items() if own),
        *([f"not measured: {unknown}"] if unknown else []),
    ]
    lines = wrapped(f"- **Time**: {'; '.join(said)}", 118).replace("\n", "\n  ")
    return f"- **Memory**: {memory} for the largest process of those that were measured.\n{lines}."


def machines(record: dict[str, dict]) -> list[str]:
    """Processor, cores and versions of the runs, each once."""
    found = []
    for took in record.values():
        where = took["measured_on"]
        packages = ", ".join(f"{name} {version}" for name, version in where["packages"].items())
        found.append(f"{where['processor']}, {where['cores']} cores, Python {where['python']}, {packages}")
    return list(dict.fromkeys(found))


def recorded() -> dict[str, dict]:
    """The last run of each item that was as recorded."""
    return json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}


def keep(item: Item, found: Run, measured_on: Occasion) -> None:
    """Record a run."""
    record = recorded() | {
        item.name: {
            "measured_on": measured_on.record(item.command),
            "outcome": found.outcome,
            "cpu_seconds": round(found.cpu_seconds, 1),
            "peak_bytes": found.peak_bytes,
        }
    }
    in_order = {item.name: record[item.name] for item in ITEMS if item.name in record}
    RECORD.write_text(json.dumps(in_order, indent=1) + "\n", "utf-8")


def chosen(names: list[str], quick: bool) -> list[Item]:
    """The items of these names, or the quick ones, or all."""
    known = {item.name: item for item in ITEMS}
    for name in names:
        if name not in known:
            sys.exit(f"there is no item {name!r}; there are {', '.join(known)}")
    return [item for item in ITEMS if (item.name in names if names else item.quick or not quick)]


def main(arguments: list[str] | None = None) -> int:
    """Run, compare, print; write the page if asked."""
    parser = argparse.ArgumentParser(prog="python -m docs.artifact", description=__doc__.partition("\n")[0])
    parser.add_argument("items", nargs="*", metavar="ITEM", help="which commands (all)")
    parser.add_argument("--quick", action="store_true", help="the quick ones")
    parser.add_argument("--write-page", action="store_true", help="keep what they took, and write docs/artifact.md")
    given = parser.parse_args(arguments)
    wrong = 0
    only_page = given.write_page and not (given.items or given.quick)
    for item in [] if only_page else chosen(given.items, given.quick):
        if missing := item.missing():
            print(f"{item.name:<22} not run: needs {', '.join(missing)}", flush=True)
            continue
        occasion = Occasion.now()
        found = run(item)
        took = f"{found.cpu_seconds:8.1f} CPU s {mebibytes(found.peak_bytes):>10}"
        print(f"{item.name:<22} {found.outcome:<18} {took}", flush=True)
        for line in found.differences:
            print(f"    {line}", flush=True)
        wrong += found.outcome == DIFFERS
        if given.write_page and found.outcome != DIFFERS:
            keep(item, found, occasion)
    if given.write_page:
        PAGE.write_text(page(recorded()), "utf-8")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
