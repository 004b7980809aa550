"""Rules of one's own: how they are compiled, what they may be, and the sentence that each bad one ends in."""

import ctypes
import gc
import math
import pickle
import random
import re
import shutil
import sys
import types
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from remat_algos.kernels import rules as kernel
from scipy import LowLevelCallable

import remat_algos as ra
from remat_algos import rules as module
from remat_algos.errors import ArgumentError
from remat_algos.rules import SIGNATURES
from remat_algos.schedule.emission import baseline
from remat_algos.solvers.methods.greedy_remat import RULES, walk
from remat_algos.structure.elimination import ELIMINATION_RULES, UndirectedGraph, eliminate

numba = pytest.importorskip("numba")

GRAPH = ra.differentiate(ra.zoo.build("lstm?steps=6").graph)
LIMIT = baseline(GRAPH).peak_memory // 2
OFFSET = 1.5
WEIGHTS = np.ones(3)


def h(nbytes, cost, since_read):
    return cost / (nbytes * since_read)


def h_in_other_order(since_read, nbytes, cost):
    return cost / (nbytes * since_read)


def halves(nbytes):
    return -nbytes / 2


numbers = st.floats(1, 1e12)


@given(st.lists(st.tuples(*[numbers] * 6), min_size=1, max_size=100))
@pytest.mark.parametrize("function", [h, h_in_other_order, numba.njit(h)])
def test_a_function_gets_its_arguments_by_name(function, rows):
    table = np.array(rows)
    expected = table[:, 1] / (table[:, 0] * table[:, 2])
    assert RULES.rule(function).values(table).tolist() == expected.tolist() == RULES.rule("dtr").values(table).tolist()


@given(st.lists(st.tuples(st.integers(0, 10**5), st.integers(0, 10**9)), min_size=1, max_size=20))
def test_built_in_elimination_rules_are_their_formulas(rows):
    degree, fill = np.array(rows, float).T
    table = np.stack([degree, fill, 0 * fill, 0 * fill], axis=1)
    scaled = {
        "fill": fill,
        "degree": degree,
        "ratio": np.floor(2**20 * fill / (degree + 1)),
        "steep_ratio": np.floor(2**20 * fill / ((degree + 1) * np.sqrt(degree + 1))),
        "density": np.floor(2**20 * fill / ((degree + 1) * (degree + 1))),
    }
    assert scaled.keys() == ELIMINATION_RULES.built_in.keys()
    for name, expected in scaled.items():
        assert ELIMINATION_RULES.rule(name).values(table).tolist() == expected.tolist()


@numba.cfunc("float64(intc, CPointer(float64))")
def in_c(n, x):
    return x[1] / (x[0] * x[2])


@numba.cfunc("float64(intc, CPointer(float64), CPointer(float64))")
def in_c_with_data(n, x, data):
    return data[0] * x[1] / (x[0] * x[2])


def test_every_way_to_write_a_rule_gives_the_same_walk():
    two = np.array([2.0])
    ways = [
        "dtr",
        h,
        LowLevelCallable(in_c.ctypes, signature=SIGNATURES[0]),
        LowLevelCallable(in_c_with_data.ctypes, two.ctypes.data_as(ctypes.c_void_p), signature=SIGNATURES[1]),
        LowLevelCallable.from_cython(kernel, "dtr"),
    ]
    orders = [walk(GRAPH, baseline(GRAPH).schedule, LIMIT, 4, rule=rule)[0].order.tolist() for rule in ways]
    assert orders[0] != walk(GRAPH, baseline(GRAPH).schedule, LIMIT, 4)[0].order.tolist()
    assert all(order == orders[0] for order in orders)


def test_a_plan_by_a_rule_of_ones_own_fits_and_names_the_rule(tmp_path):
    plan = ra.solve(GRAPH, LIMIT, solver="greedy_remat", rule=h, raw=True)
    assert plan.peak_memory <= LIMIT
    assert plan.details["rule"] == "h"
    plan.save(tmp_path / "plan.json")
    loaded = ra.Plan.load(tmp_path / "plan.json", GRAPH)
    assert (loaded.details["rule"], loaded.options["rule"]) == ("h", "function h")
    assert pickle.loads(pickle.dumps(plan)).options == plan.options
    in_c_too = ra.solve(
        GRAPH, LIMIT, solver="greedy_remat", rule=LowLevelCallable(in_c.ctypes, signature=SIGNATURES[0]), raw=True
    )
    assert in_c_too.record()["options"]["rule"] == in_c_too.details["rule"] == "C function"
    assert "rule" not in ra.solve(GRAPH, LIMIT, solver="greedy_remat", raw=True).details


def true_for_large(nbytes):
    return nbytes > 1000


def test_a_rule_may_return_a_truth_value():
    assert RULES.rule(true_for_large).values(np.array([[9.0, 0, 0, 0, 0, 0], [9000.0, 0, 0, 0, 0, 0]])).tolist() == [
        0,
        1,
    ]


@numba.cfunc("float64(intc, CPointer(float64))")
def spoils_its_arguments(n, x):
    value = -x[0]
    x[0] = x[3] = 1e9
    return value


def test_a_c_function_can_name_the_arguments_that_it_reads_and_may_write_to_them():
    function = LowLevelCallable(spoils_its_arguments.ctypes, signature=SIGNATURES[0])
    assert RULES.rule((function, ["nbytes"])).picks == (0,)
    start = baseline(GRAPH).schedule
    orders = [walk(GRAPH, start, LIMIT, 4, rule=rule)[0].order.tolist() for rule in ((function, ["nbytes"]), "largest")]
    assert orders[0] == orders[1]
    with pytest.raises(ArgumentError, match="C function takes colour; its parameters are"):
        RULES.rule((function, ["colour"]))


def test_a_rule_keeps_the_c_function_and_its_data():
    data = np.array([3.0])
    function = LowLevelCallable(in_c_with_data.ctypes, data.ctypes.data_as(ctypes.c_void_p), signature=SIGNATURES[1])
    rule = RULES.rule(function)
    del function
    gc.collect()
    assert rule.values(np.array([[1.0, 2, 1, 0, 0, 0]])).tolist() == [6]


# ---------------------------------------------------------------- without numba


@pytest.fixture
def no_numba(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)


def test_without_numba_a_function_runs_as_python_and_one_sentence_says_so(no_numba):
    with pytest.warns(RuntimeWarning, match=r"rule h runs as Python, which is slow; .* '\.\[jit\]'"):
        rule = RULES.rule(h)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedules = [walk(GRAPH, baseline(GRAPH).schedule, LIMIT, 4, rule=each)[0] for each in (rule, "dtr")]
    assert schedules[0].order.tolist() == schedules[1].order.tolist()


def test_without_numba_an_interrupt_in_a_rule_is_an_interrupt(no_numba):
    def stopped(nbytes):
        raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning), pytest.raises(KeyboardInterrupt):
        walk(GRAPH, baseline(GRAPH).schedule, LIMIT, 4, rule=stopped)


def test_where_numba_may_not_compile_a_function_runs_as_python(monkeypatch):
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    with pytest.warns(RuntimeWarning, match="rule h runs as Python, which is slow; NUMBA_DISABLE_JIT is set"):
        rule = RULES.rule(h)
    assert rule.values(np.array([[2.0, 8, 2, 0, 0, 0]])).tolist() == [2]


# ---------------------------------------------------------------- bad rules


def raises_for_large(nbytes):
    if nbytes > 0:
        raise ValueError("too large")
    return 1.0


def divides_by_zero(nbytes):
    return 1 / (nbytes - nbytes)


def nan_for_all(nbytes):
    return math.nan


def nan_for_some(nbytes, until_read):
    return math.nan if until_read > 1 else nbytes


def random_number(nbytes):
    return np.random.random()  # noqa: NPY002


def random_of_the_library(nbytes):
    return random.random()


def nothing(nbytes):
    pass


def word(nbytes):
    return "largest"


def pair(nbytes, cost):
    return nbytes, cost


def imaginary(nbytes):
    return nbytes * 1j


def array(nbytes):
    return np.zeros(2)


def opens_a_file(nbytes):
    return float(open("/dev/null").read())


def misspelled(nbytes):
    return nbyte  # noqa: F821


def of_a_class(nbytes):
    return Fraction(nbytes)  # noqa: F821


def past_the_end(nbytes):
    return WEIGHTS[int(nbytes)]


def unknown_parameter(nbytes, colour):
    return nbytes


def any_parameters(*arguments):
    return arguments[0]


def only_keyword(*, nbytes):
    return nbytes


def no_parameter():
    return 1.0


def generator(nbytes):
    yield nbytes


class Callable:
    def __call__(self, nbytes):
        return nbytes


class Bytes:
    """Not a name of a rule."""


@numba.cfunc("float64(float64)")
def other_signature(nbytes):
    return nbytes


BAD = [
    (raises_for_large, "the greedy rule raises_for_large raised ValueError: too large for nbytes="),
    (divides_by_zero, "divides_by_zero raised ZeroDivisionError"),
    (nan_for_all, "nan_for_all returned nan for nbytes="),
    (nan_for_some, "nan_for_some returned nan for nbytes="),
    (random_number, "random_number returned 0."),
    (random_of_the_library, "random_of_the_library returned 0."),
    (nothing, "numba cannot compile nothing"),
    (word, "numba cannot compile word"),
    (pair, "numba cannot compile pair"),
    (imaginary, "numba cannot compile imaginary"),
    (array, "numba cannot compile array"),
    (opens_a_file, "numba cannot compile opens_a_file"),
    (misspelled, "name 'nbyte' is not defined"),
    (of_a_class, "name 'Fraction' is not defined"),
    (past_the_end, "past_the_end raised IndexError"),
    (unknown_parameter, "takes colour; its parameters are one or more of nbytes, cost"),
    (any_parameters, "takes *arguments; its parameters are"),
    (only_keyword, "takes nbytes; its parameters are"),
    (no_parameter, "takes nothing; its parameters are"),
    (generator, "numba cannot compile generator"),
    (Callable(), "give a function, a scipy.LowLevelCallable, or one of xla"),
    (Bytes, "give a function, a scipy.LowLevelCallable, or one of xla"),
    (3, "the greedy rule is 3; give a function"),
    (other_signature, "give a function, a scipy.LowLevelCallable, or one of xla"),
    ("dtrr", "there is no greedy rule 'dtrr'; did you mean dtr"),
    ("fill", "there is no greedy rule 'fill'; use xla, largest, dtr, furthest"),
    (LowLevelCallable(other_signature.ctypes), "signature 'double (double)'; use double (int, double *)"),
]


@pytest.mark.parametrize(("rule", "sentence"), BAD, ids=lambda part: getattr(part, "__name__", None))
def test_a_bad_rule_ends_in_one_sentence(rule, sentence):
    with pytest.raises(ArgumentError, match=re.escape(sentence)) as caught:
        ra.solve(GRAPH, LIMIT, solver="greedy_remat", rule=rule, raw=True)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


PYTHON_FAULTS = [
    (nothing, "nothing raised TypeError"),
    (word, "word raised TypeError"),
    (array, "array raised TypeError"),
    *BAD[:6],
    *BAD[12:18],
]


@pytest.mark.parametrize(("rule", "sentence"), PYTHON_FAULTS, ids=lambda part: getattr(part, "__name__", None))
@pytest.mark.filterwarnings("ignore:.*runs as Python")
def test_a_bad_rule_ends_in_one_sentence_without_numba(no_numba, rule, sentence):
    with pytest.raises(ArgumentError, match=re.escape(sentence)) as caught:
        ra.solve(GRAPH, LIMIT, solver="greedy_remat", rule=rule, raw=True)
    assert "\n" not in str(caught.value)


def test_a_bad_elimination_rule_ends_in_one_sentence():
    star = UndirectedGraph.from_edges(4, [(0, 1), (0, 2), (0, 3)])

    def below_two(degree):
        return 1 / (degree - 1)

    with pytest.raises(ArgumentError, match=r"elimination rule below_two raised ZeroDivisionError: .* for degree=1"):
        eliminate(star, below_two)


# ---------------------------------------------------------------- the cache


def test_compiled_rules_are_cached_by_all_that_they_read(tmp_path, monkeypatch):
    monkeypatch.setenv("REMAT_CACHE_DIR", str(tmp_path))
    module.cache_folder.cache_clear()

    def rule_with(source, **names):
        exec(source, names)
        return RULES.rule(names["rule"])

    def files():
        return len(list(tmp_path.rglob("*.nbc")))

    try:
        row = np.array([[8.0, 0, 0, 0, 0, 0]])
        source = "def rule(nbytes):\n    return nbytes * factor\n"
        assert rule_with(source, factor=2.0).values(row) == [16]
        assert files() == 1
        assert rule_with(source, factor=2.0).values(row) == [16]
        assert files() == 1
        assert rule_with(source, factor=3.0).values(row) == [24]  # only a global differs
        assert rule_with(source.replace("*", "+"), factor=2.0).values(row) == [10]
        assert files() == 3
        inner = numba.njit(lambda x: x + 1)
        assert rule_with("def rule(nbytes):\n    return inner(nbytes)\n", inner=inner).values(row) == [9]
        assert files() == 3  # what another function does is not known, so nothing is kept
        constants = types.ModuleType("constants")
        for constants.factor in (2.0, 3.0):
            found = rule_with("def rule(nbytes):\n    return nbytes * constants.factor\n", constants=constants).values(
                row
            )
            assert found == [8 * constants.factor]
        assert files() == 3  # nor what another module contains
        for damaged in tmp_path.rglob("*.nb?"):
            damaged.write_bytes(b"damaged")
        assert rule_with(source, factor=2.0).values(row) == [16]
        shutil.rmtree(tmp_path / "rules")
        assert rule_with(source, factor=2.0).values(row) == [16]
    finally:
        module.cache_folder.cache_clear()
