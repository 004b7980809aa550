"""Solvers that go wrong, and one that counts; workers of a sweep import this module."""

import os
import signal
import time

from remat_algos.schedule.emission import baseline
from remat_algos.solvers.methods.search import search
from remat_algos.solvers.registry import SOLVERS, Candidate, solver


def registered(function):
    """Register a function once, though several tests import this module."""
    if function.__name__ not in SOLVERS.entries:
        solver(portfolio=False)(function)
    return function


@registered
def hungry(graph, task, clock):
    """Takes all memory."""
    taken = []
    while True:
        taken.append(b"x" * 2**24)
    yield Candidate(baseline(graph).schedule)


@registered
def raising(graph, task, clock):
    """Raises what is no answer."""
    raise RuntimeError("of itself")
    yield


@registered
def endless(graph, task, clock):
    """Never ends, and looks at no clock."""
    while True:
        time.sleep(0.01)
    yield


@registered
def crashing(graph, task, clock):
    """Ends its process as a crash does."""
    os.kill(os.getpid(), signal.SIGSEGV)
    yield


@registered
def forking(graph, task, clock):
    """Starts a process that lives long, and ends its own."""
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    with open(os.environ["FORKED"], "w") as file:
        file.write(str(child))
    os.kill(os.getpid(), signal.SIGKILL)
    yield


@registered
def counting(graph, task, clock):
    """Takes a while, and leaves a line for each time that it ran to its end; what it finds depends on the seed."""
    time.sleep(float(os.environ.get("COUNTING_SECONDS", "0.05")))
    with open(os.environ["COUNTED"], "a") as file:
        file.write(f"{task.seed}\n")
    yield Candidate(baseline(graph).schedule)
    yield from search(graph, task, clock, max_moves=2_000)
