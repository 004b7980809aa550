"""Which lines `python -m tests.mutants` makes of others, and which tests it runs."""

import pytest

from tests.mutants import compiles, default_tests, module_file, mutants

PYTHON = '''\
"""Texts with 1 < 2 stay, and so do comments."""  # 1 < 2

from remat_algos import one


def most(values: int | None, limit=3):
    """1 < 2"""
    count: int = 0
    if values is not None and limit <= 4:
        report(f"{limit + 1}", *values, end=1)
    while True:
        count += len(values) * max(limit, 7)
        break
    return [value for value in values if not value]
'''
OF_PYTHON = {
    8: {"    count: int = 1"},
    9: {
        "    if not (values is not None and limit <= 4):",
        "    if values is  None and limit <= 4:",
        "    if values is not None or limit <= 4:",
        "    if values is not None and limit < 4:",
        "    if values is not None and limit <= 5:",
    },
    10: {
        "        pass",
        '        report(f"{limit + 1}", *values, end=2)',
        '        report(*values, f"{limit + 1}", end=1)',
    },
    11: {"    while not (True):", "    while False:"},
    12: {
        "        pass",
        "        count -= len(values) * max(limit, 7)",
        "        count += len(values) + max(limit, 7)",
        "        count += len(values) * min(limit, 7)",
        "        count += len(values) * max(limit, 8)",
    },
    13: {"        pass", "        continue"},
    14: {"    return [value for value in values if  value]"},
}
CYTHON = """\
cdef inline int64 half(int64* p, int shift=1) except -1 nogil:
    cdef int* row = <int*>p, other
    cdef vector[int] slots
    if p[0] < <int64>shift:
        return p[0] >> shift
"""
OF_CYTHON = {
    4: {
        "    if not (p[0] < <int64>shift):",
        "    if p[1] < <int64>shift:",
        "    if p[0] <= <int64>shift:",
    },
    5: {"        return p[1] >> shift", "        return p[0] << shift"},
}


@pytest.mark.parametrize(("source", "expected"), [(PYTHON, OF_PYTHON), (CYTHON, OF_CYTHON)], ids=["Python", "Cython"])
def test_each_mutant_changes_one_line_of_code(source, expected):
    found = {}
    for mutant in mutants(source):
        found.setdefault(mutant.number, set()).add(mutant.line)
        before, after = source.splitlines(), mutant.applied(source).splitlines()
        assert [line for line, other in zip(before, after, strict=True) if line != other] == [before[mutant.number - 1]]
    assert found == expected


def test_what_is_no_python_is_no_mutant(tmp_path):
    for text, fits in (("1 < 2", True), ("not not in x", False)):
        (tmp_path / "module.py").write_text(text)
        assert compiles(tmp_path, (tmp_path / "module.py").relative_to(tmp_path)) is fits


def test_the_default_tests_a_module_are_its_doctests_and_the_files_that_import_it():
    of_module = default_tests(module_file("remat_algos.search.solver_run"))
    assert of_module[0] == "remat_algos/search/solver_run.py"
    assert {"tests/test_search_solver_run.py", "tests/test_plan_interrupted.py"} <= {*of_module}
    of_kernel = default_tests(module_file("kernels/search.pyx"))
    assert of_kernel == default_tests(module_file("remat_algos.kernels.search"))
    assert {"tests/test_solvers_search.py", "tests/test_schedule_one_pass.py"} <= {*of_kernel}
    assert "tests/test_search_solver_run.py" not in of_kernel
    with pytest.raises(SystemExit, match=r"no module plan\.nothing; name one such as"):
        module_file("plan.nothing")
