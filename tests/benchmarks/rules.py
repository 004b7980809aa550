"""Rules of `greedy_remat` on ten networks, and what a call costs: the tables of docs/own_rules.md.

`python -m tests.benchmarks.rules` prints them, with `--write` it writes them; with `--only` one of "networks", "calls".
"""

import argparse
import ctypes
import statistics
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

from scipy import LowLevelCallable

import remat_algos as ra
from docs.page_parts import fill, table
from remat_algos.rules import SIGNATURES
from remat_algos.schedule.emission import baseline
from remat_algos.solvers.methods.greedy_remat import RULES, walk
from remat_algos.solvers.registry import list_candidates
from remat_algos.structure.elimination import ELIMINATION_RULES, UndirectedGraph, eliminate
from remat_algos.text.amounts import percent
from tests.benchmarks.compiled import compiler
from tests.benchmarks.occasion import Occasion

PAGE = Path(__file__).parents[2] / "docs" / "own_rules.md"
NETWORKS = (
    *("vgg16", "resnet50", "densenet121", "googlenet", "mobilenet_v2"),
    *("unet", "pspnet", "lstm", "vit_b_16", "gpt2_small?batch=1&sequence=256"),
)
SHARE = 60  # % of the peak without recomputation
ROUNDS = 15


def xla(nbytes, limit):
    return limit // nbytes


def largest(nbytes):
    return -nbytes


def dtr(nbytes, cost, since_read):
    return cost / (nbytes * since_read)


def furthest(until_read):
    return -until_read


def fill_in(fill):
    return fill


def degree(degree):
    return degree


def training(name):
    return ra.differentiate(ra.zoo.build(name).graph)


C_SOURCE = """
double xla(int n, double *x) { return floor(x[5] / x[0]); }
double dtr(int n, double *x) { return x[1] / (x[0] * x[2]); }
double furthest(int n, double *x) { return -x[3]; }
double fill(int n, double *x) { return x[1]; }
double degree(int n, double *x) { return x[0]; }
"""
IN_C = {
    "xla": ["nbytes", "limit"],
    "dtr": ["nbytes", "cost", "since_read"],
    "furthest": ["until_read"],
    "fill": ["fill"],
    "degree": ["degree"],
}


@cache
def library():
    """The functions of C_SOURCE, compiled by the compiler of the kernels."""
    folder = Path(tempfile.mkdtemp())
    source, built = folder / "rules.c", folder / "rules.so"
    source.write_text("#include <math.h>\n" + C_SOURCE, "utf-8")
    subprocess.run([*compiler(), "-O2", "-shared", "-fPIC", source, "-o", built, "-lm"], check=True)
    return ctypes.CDLL(str(built))


def c_function(name):
    function = getattr(library(), name)
    function.restype, function.argtypes = ctypes.c_double, (ctypes.c_int, ctypes.POINTER(ctypes.c_double))
    return LowLevelCallable(function, signature=SIGNATURES[0])


def networks():
    """The table: compute above one pass within the limit, and the lowest peak of any walk, by rule."""
    rows = []
    for name in NETWORKS:
        graph = training(name)
        base = baseline(graph).peak_memory
        limit, overheads, peaks = base * SHARE // 100, [], []
        for rule in RULES.built_in:
            figures = [found.figures for found in list_candidates(graph, "greedy_remat", limit, rule=rule)]
            fitting = [compute for peak, compute in figures if peak <= limit]
            overheads.append(min(fitting) - graph.needed_compute if fitting else None)
            peaks.append(min(peak for peak, _ in figures))
        rows.append((name.partition("?")[0], graph.needed_compute, overheads, base, peaks))
    names = list(RULES.built_in)
    lines = [
        [name, *marked(overheads, compute), *marked(peaks, base)] for name, compute, overheads, base, peaks in rows
    ]
    heads = ["network", *names, *(f"{name}, lowest peak" for name in names)]
    return table(heads, lines, ["---", *["--:"] * (2 * len(names))])


def marked(amounts, whole):
    """Percentages, the least of them bold."""
    least = min((amount for amount in amounts if amount is not None), default=None)
    texts = ["none" if amount is None else percent(amount, whole) for amount in amounts]
    return [f"**{text}**" if amount == least else text for amount, text in zip(amounts, texts, strict=True)]


def medians(calls):
    """CPU seconds of each call: medians of rounds in which all run one after the other."""
    seconds = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            begin = time.process_time()
            call()
            seconds[name].append(time.process_time() - begin)
    return {name: statistics.median(each) for name, each in seconds.items()}


def calls():
    """The table: milliseconds of a walk and of an elimination by the built-in rule and by the compiled function."""
    graph = training("densenet121")
    order, limit = baseline(graph).schedule, baseline(graph).peak_memory // 2
    undirected = UndirectedGraph.of(training("gpt2_small?batch=1&sequence=256"))
    functions = {name: (c_function(name), reads) for name, reads in IN_C.items()}
    rows = []
    for function in (xla, dtr, furthest):
        name = function.__name__
        rules = {"built in": name, "yours": RULES.rule(function), "in C": RULES.rule(functions[name])}
        found = medians({key: lambda rule=rule: walk(graph, order, limit, 8, rule=rule) for key, rule in rules.items()})
        rows.append(("greedy_remat", name, found.values()))
    for function, name in ((fill_in, "fill"), (degree, "degree")):
        in_c = ELIMINATION_RULES.rule(functions[name])
        rules = {"built in": name, "yours": ELIMINATION_RULES.rule(function), "in C": in_c}
        found = medians({key: lambda rule=rule: eliminate(undirected, rule) for key, rule in rules.items()})
        rows.append(("eliminate", name, found.values()))
    lines = [
        [where, name, f"{1e3 * built_in:.3f}", f"{yours / built_in:.2f}", f"{in_c / built_in:.2f}"]
        for where, name, (built_in, yours, in_c) in rows
    ]
    heads = ["call", "rule", "built in (ms)", "yours, ratio", "C function, ratio"]
    return f"Measured on {Occasion.now()}:\n\n{table(heads, lines, ['---', '---', '--:', '--:', '--:'])}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the tables to docs/own_rules.md")
    parser.add_argument("--only", choices=["networks", "calls"])
    arguments = parser.parse_args()
    for name, make in {"networks": networks, "calls": calls}.items():
        if arguments.only in (None, name):
            lines = make()
            print(lines)
            if arguments.write:
                fill(PAGE, name, f"{lines}\n\n")


if __name__ == "__main__":
    main()
