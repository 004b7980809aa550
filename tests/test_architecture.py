"""The rooms and what they import, read from the source; the public face."""

import ast
import graphlib
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import remat_algos
from tests.public import NAMESPACES, PUBLIC, TOP

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "remat_algos"
CORE = (
    *(
        "hooks",
        "forks",
        "c_output",
        "cache_folder",
        "kernels",
        "wording",
        "errors",
        "text",
        "arguments",
        "registry",
        "files",
        "rules",
    ),
    *("context", "effort", "ir", "result", "cost", "structure", "bounds", "schedule", "allocate", "solvers", "plan"),
    *("search", "questions"),
)
EXTRAS = ("teach", "zoo", "formats", "sweeps", "executor", "plot", "interop", "cli")
"""Rooms around the core, which plans and verifies without them."""
ROOMS = (*CORE, *EXTRAS)
FACE = (PACKAGE, f"{PACKAGE}.__main__")  # may reach everywhere
FOR_KERNELS = ("numpy", "math")


@dataclass(frozen=True)
class Import:
    """One name that a module asks another for."""

    module: str  # who imports
    line: int
    target: str  # the module that is imported, as far as it is known
    typing: bool  # under `if TYPE_CHECKING:`

    def __str__(self):
        return f"{self.module}, line {self.line}: {self.target}"


# ---------------------------------------------------------------- reading


def modules(root):
    """Dotted name to file, of the package and of the kernels."""
    found = {}
    for folder, name in ((root / PACKAGE, PACKAGE), (root / "kernels", f"{PACKAGE}.kernels")):
        for file in folder.rglob("*.py"):
            parts = file.relative_to(folder).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join((name, *parts))] = file
    return found


@cache
def imports(root):
    """Every import of every module, those inside functions too, relative ones spelled out."""
    known = modules(root)
    compiled = {f"{PACKAGE}.kernels.{file.stem}" for file in (root / "kernels").glob("*.pyx")}
    return [
        found for module, file in sorted(known.items()) for found in imports_of(module, file, known.keys() | compiled)
    ]


def imports_of(module, file, known):
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for branch in node.body
        for inner in ast.walk(branch)
    }
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        for target in targets(node, package, known):
            yield Import(module, node.lineno, target, id(node) in for_types)


def targets(node, package, known):
    """Dotted names of the modules that a node of the syntax tree imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        return [f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base for alias in node.names]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")) and node.args:
        name = node.args[0]
        return [name.value] if isinstance(name, ast.Constant) and isinstance(name.value, str) else []
    return []


def room_of(module):
    """The room that a module stands in, "" for the face and for what is not ours."""
    parts = module.split(".")
    return parts[1] if parts[0] == PACKAGE and len(parts) > 1 else ""


# ---------------------------------------------------------------- the rules


def violations(root):
    """One sentence for each broken rule."""
    found = imports(root)
    checks = (unknown_rooms(root), rightward(found), other_spellings(found), cycles(found), full_rooms(root))
    return [
        sentence
        for check in (*checks, kernels_that_look_around(root, found), numba_users(found), neighbours(root, found))
        for sentence in check
    ]


def unknown_rooms(root):
    for module in modules(root):
        if module not in FACE and room_of(module) not in ROOMS:
            yield f"{module} stands in no room; the rooms are {', '.join(ROOMS)}"


def rightward(found):
    """Imports go to rooms on the left or stay inside."""
    for use in found:
        here, there = room_of(use.module), room_of(use.target)
        if here in ROOMS and there in ROOMS and use.module not in FACE and ROOMS.index(here) < ROOMS.index(there):
            yield f"{use} lies to the right"
        if here in ROOMS and here not in EXTRAS and there in EXTRAS:
            yield f"{use} is an extra; the core does without"
        if here in ROOMS and use.target == PACKAGE and here != "cli":
            yield f"{use} is the public face; import from the room"


def other_spellings(found):
    """Always remat_algos.kernels, never kernels, nor any other room without the package."""
    for use in found:
        if use.target.split(".")[0] in ("kernels", "tests", "docs", "examples"):
            yield f"{use} is no part of the package; write {PACKAGE}.kernels"


def cycles(found):
    """Modules of a room that import each other in a ring, for type checks too."""
    inside = [use for use in found if room_of(use.module) == room_of(use.target) != ""]
    for room in ROOMS:
        sorter = graphlib.TopologicalSorter()
        for use in inside:
            if room_of(use.module) == room:
                sorter.add(use.module, use.target)
        try:
            sorter.prepare()
        except graphlib.CycleError as error:
            yield f"a ring in {room}: {' <- '.join(error.args[1])}"


def full_rooms(root):
    """A room's __init__.py says what the room is, and nothing else, but for the names that it gives when asked."""
    for module, file in modules(root).items():
        if file.name == "__init__.py" and module not in (PACKAGE, f"{PACKAGE}.kernels"):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            said = ast.get_docstring(tree) is not None
            if not said or not (len(tree.body) == 1 or is_namespace(tree.body[1:])):
                yield f"{module} holds more or less than a docstring and its public names"


def is_namespace(statements):
    """Whether public names are those of the stub, and load when they are asked for."""
    attached = "__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)"
    library = re.compile(
        rf"""import lazy_loader
from {PACKAGE}.interop.optional import require
_get, __dir__, __all__ = lazy_loader.attach_stub\(__name__, __file__\)

def __getattr__\(name: str\) -> object:
    if name in __all__:
        require\('(\w+)', '\1'\)
    return _get\(name\)"""
    )
    text = ast.unparse(ast.Module(statements, []))
    return text == f"import lazy_loader\n{attached}" or library.fullmatch(text)


def kernels_that_look_around(root, found):
    """Kernels import NumPy, and what makes kernels."""
    makers = (f"{PACKAGE}.kernels", f"{PACKAGE}.kernels._built")
    for use in found:
        outward = room_of(use.module) == "kernels" != room_of(use.target) and use.module not in makers
        if outward and use.target.split(".")[0] not in FOR_KERNELS:
            yield f"{use} is nothing for a kernel"
    for file in sorted((root / "kernels").glob("*.p[yx][xd]")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            shared = re.match(rf"from {PACKAGE}\.kernels\.(\w+) cimport ", line)
            if shared and (file.parent / f"{shared[1]}.pxd").exists():
                continue
            if re.match(rf"\s*((from|import|cimport)\s+({PACKAGE}|kernels)\b|include\b)", line):
                yield f"kernels/{file.name}, line {number}: {line.strip()} is nothing for a kernel"


def numba_users(found):
    """Kernels are compiled ahead of time; Numba compiles the rules of users, and nothing else."""
    for use in found:
        if use.target.split(".")[0] == "numba" and room_of(use.module) != "rules":
            yield f"{use} is for rules alone"


def neighbours(root, found):
    """A solver imports another one only if its documentation says that it is built on it."""
    known = modules(root)
    solvers = {module for module, file in known.items() if room_of(module) == "solvers" and defines_solver(file)}
    for use in found:
        if use.module in solvers and use.target in solvers - {use.module} and not use.typing:
            name = use.target.rpartition(".")[2]
            tree = ast.parse(known[use.module].read_text(encoding="utf-8"))
            documented = (tree, *(node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)))
            if not any(f"`{name}`" in (ast.get_docstring(node) or "") for node in documented):
                yield f"{use} is another solver, of which no docstring says `{name}`"


def defines_solver(file):
    return any(
        isinstance(decorator, ast.Call) and ast.unparse(decorator.func).split(".")[-1] == "solver"
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
    )


# ---------------------------------------------------------------- this house


def test_the_house_breaks_no_rule():
    assert violations(ROOT) == []


def test_the_checker_reads_the_whole_house():
    found = imports(ROOT)
    assert {room_of(module) for module in modules(ROOT)} >= {*ROOMS}
    assert any(use.typing for use in found)
    assert any(use.module == "remat_algos.cli.commands.solve" and room_of(use.target) == "plan" for use in found)
    assert any(use.target == "remat_algos.kernels.lifetimes" for use in found)


PLANNED = """
import sys

sys.meta_path = [finder for finder in sys.meta_path if "ditable" not in repr(finder)]  # which would find the extras
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan
from remat_algos.search.solve import solve
from remat_algos.plan.verify import verify

graph = differentiate(ComputationGraph.from_edges([*((i, i + 1) for i in range(12)), (2, 6), (4, 9)]))
for budget, effort in (("60%", "default"), ("least", "fast")):
    plan = solve(graph, budget, effort=effort)
    plan.save("plan.json")
    assert verify(graph, plan.record()).peak_memory == plan.peak_memory
    assert Plan.load("plan.json", graph).schedule.order.tolist() == plan.schedule.order.tolist()
print(len(plan.schedule))
"""


def test_the_core_plans_and_verifies_in_a_copy_without_the_extras(tmp_path):
    copy = tmp_path / PACKAGE
    shutil.copytree(ROOT / PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", *EXTRAS))
    (copy / "__init__.py").write_text("")  # the face offers extras too
    (copy / "kernels").symlink_to(Path(remat_algos.kernels.__path__[0]))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PLANNED], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 26  # its nodes: some run twice


# ---------------------------------------------------------------- houses with a fault


def build(root, files):
    """A small house: the rooms ir, schedule and solvers, and the given files."""
    usual = {
        "remat_algos/__init__.py": "",
        "remat_algos/__main__.py": "from remat_algos.cli.main import main",
        "remat_algos/cli/__init__.py": '"""Cli."""',
        "remat_algos/cli/main.py": "from remat_algos import __version__\nfrom remat_algos.ir.graph import Graph",
        "remat_algos/ir/__init__.py": '"""Ir."""',
        "remat_algos/ir/graph.py": "from remat_algos.kernels.graph import depths\n"
        "from remat_algos.ir.parts import Labels",
        "remat_algos/ir/parts.py": "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from remat_algos.kernels.graph import depths\n"
        "def f():\n    from remat_algos.kernels import fast\n",
        "remat_algos/solvers/__init__.py": '"""Solvers."""',
        "remat_algos/solvers/registry.py": "from remat_algos.ir.graph import Graph",
        "remat_algos/solvers/one.py": "from .registry import solver\n@solver()\ndef one(graph, limit): pass",
        "remat_algos/solvers/two.py": "from remat_algos.solvers.registry import solver\n"
        "from remat_algos.solvers.one import one\n@solver()\ndef two(graph, limit):\n    'Better than `one`.'\n",
        "kernels/__init__.py": "",
        "kernels/graph.pyx": "import numpy as np\nfrom remat_algos.kernels.bitsets cimport has_bit\n",
        "kernels/bitsets.pxd": "from libc.stdint cimport uint64_t",
    }
    for name, text in {**usual, **files}.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text), encoding="utf-8")
    return violations(root)


OPEN = """\
'''Zoo.'''
import lazy_loader
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
"""


@pytest.mark.parametrize("files", [{}, {"remat_algos/zoo/__init__.py": OPEN, "remat_algos/zoo/a.py": "b = 1"}])
def test_a_sound_house_breaks_no_rule(tmp_path, files):
    assert build(tmp_path, files) == []


RIGHT, ROOM, KERNEL = "lies to the right", "than a docstring", "is nothing for a kernel"
FOR_TYPES = "import typing\nif typing.TYPE_CHECKING:\n    from remat_algos.solvers.one import one"
IN_SILENCE = """\
from remat_algos.solvers.registry import solver
def f():
    from remat_algos.solvers import one
@solver(paper='x')
def three(graph, limit):
    'Alone.'
"""


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("ir/a.py", "from remat_algos.solvers.one import one", RIGHT),
        ("ir/a.py", "import remat_algos.solvers.one as best", RIGHT),
        ("ir/a.py", "from remat_algos import solvers", RIGHT),
        ("ir/a.py", "class A:\n    def f(self):\n        import remat_algos.cli.main", RIGHT),
        ("ir/a.py", "try:\n    import x\nexcept ImportError:\n    import remat_algos.cli", RIGHT),
        ("ir/a.py", FOR_TYPES, RIGHT),
        ("ir/a.py", "from ..solvers.one import one", RIGHT),
        ("ir/a.py", "from .. import solvers", RIGHT),
        ("ir/files/a.py", "from ...solvers.one import one", RIGHT),
        ("ir/files/__init__.py", '"""Files."""\nfrom ...cli import main', RIGHT),
        ("ir/a.py", "import importlib\nimportlib.import_module('remat_algos.solvers.one')", RIGHT),
        ("ir/a.py", "__import__('remat_algos.solvers')", RIGHT),
        ("ir/a.py", "import remat_algos", "is the public face"),
        ("solvers/a.py", "from remat_algos import solve", "is the public face"),
        ("ir/a.py", "def f():\n    import kernels", "write remat_algos.kernels"),
        ("ir/a.py", "from tests.oracles import plain", "is no part of the package"),
        ("utils/a.py", "", "utils.a stands in no room"),
        ("helpers.py", "", "helpers stands in no room"),
        ("ir/__init__.py", '"""Ir."""\nfrom remat_algos.ir.graph import Graph', ROOM),
        ("ir/__init__.py", "", ROOM),
        ("zoo/__init__.py", '"""Zoo."""\nfrom .a import b', ROOM),
        ("zoo/__init__.py", '"""Zoo."""\nx = 1', ROOM),
        ("ir/files/__init__.py", '"""Files."""\nx = 1', ROOM),
        ("../kernels/a.py", "from remat_algos.ir.graph import Graph", RIGHT),
        ("../kernels/a.py", "import scipy.sparse", KERNEL),
        ("ir/a.py", "def f():\n    import numba", "is for rules alone"),
        ("../kernels/a.pyx", "def f():\n    from remat_algos.ir import graph", KERNEL),
        ("../kernels/a.pyx", "from remat_algos.kernels.graph cimport _row", KERNEL),
        ("../kernels/a.pyx", 'include "b.pxi"', KERNEL),
        ("solvers/three.py", IN_SILENCE, "no docstring says `one`"),
    ],
)
def test_a_planted_fault_is_found(tmp_path, name, text, wanted):
    found = build(tmp_path, {f"remat_algos/{name}": text})
    assert any(wanted in sentence for sentence in found), found


TYPES = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from remat_algos.ir import a"
RINGS = {
    "of three": {"a.py": "from remat_algos.ir.b import b", "b.py": "from .c import c", "c.py": "from . import a"},
    "plain": {"a.py": "import remat_algos.ir.b", "b.py": "import remat_algos.ir.a"},
    "in a function": {"a.py": "from remat_algos.ir import b", "b.py": "def f():\n    from . import a"},
    "closed by types": {"a.py": "import remat_algos.ir.b", "b.py": TYPES},
    "closed where there are no types": {
        "a.py": "import remat_algos.ir.b",
        "b.py": TYPES.replace("from remat_algos.ir import a", "pass\nelse:\n    from remat_algos.ir import a"),
    },
    "through a subfolder": {
        "files/__init__.py": '"""Files."""',
        "files/a.py": "from ..b import b",
        "b.py": "from .files import a",
    },
}


@pytest.mark.parametrize("files", RINGS.values(), ids=RINGS)
def test_a_ring_is_found(tmp_path, files):
    (found,) = build(tmp_path, {f"remat_algos/ir/{name}": text for name, text in files.items()})
    assert found.startswith("a ring in ir: ")
    assert all(f"remat_algos.ir.{name[:-3].replace('/', '.')}" in found for name in files if "__" not in name)


# ---------------------------------------------------------------- the public face


def test_the_face_is_small_and_has_the_promised_names():
    promised = ["read_graph", "ComputationGraph", "differentiate", "Schedule", "simulate", "verify", "solve"]
    promised += ["compare", "Plan", "Budget", "list_solvers", "GraphError", "ScheduleError", "BudgetError"]
    assert set(promised) <= set(TOP)
    assert len(TOP) <= 36


def test_a_public_name_is_what_its_home_defines():
    for name, found in PUBLIC.items():
        room, _, plain = name.rpartition(".")
        if name in remat_algos._READING:
            assert found.__module__ == PACKAGE
            found = found.__wrapped__
        assert found.__name__ == plain
        assert found is getattr(importlib.import_module(found.__module__), plain), name
        assert found.__module__.startswith(f"{PACKAGE}.{room}"), name


@pytest.mark.parametrize("room", ["", *NAMESPACES])
def test_a_namespace_has_its_public_names_and_no_other(room):
    namespace = getattr(remat_algos, room) if room else remat_algos
    assert len(set(namespace.__all__)) == len(namespace.__all__)
    assert dir(namespace) == sorted(namespace.__all__)
    with pytest.raises(AttributeError, match=r"attribute '?nonsense'?$"):
        namespace.nonsense  # noqa: B018


def test_no_module_shadows_a_public_name():
    for module in modules(ROOT):
        room, _, name = module.rpartition(".")
        public = PUBLIC.get(f"{room}.{name}".removeprefix(f"{PACKAGE}."))
        assert public is None, f"{module} is a module and a public name: once it is imported, the name is the module"


def test_what_is_not_public_is_an_import_error():
    with pytest.raises(ImportError):
        from remat_algos import nonsense  # noqa: F401


STUB = ROOT / PACKAGE / "__init__.pyi"
STUBS = sorted((ROOT / PACKAGE).rglob("*.pyi"))


@pytest.mark.parametrize("file", STUBS, ids=lambda file: file.parent.name)
def test_a_stub_exports_the_public_names_and_no_others(file):
    """In a stub, `import x as x` exports x; `import x` only uses it, and `import x as _x` is written out below."""
    exported = []
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            exported += [alias.asname for alias in node.names if alias.asname == alias.name]
        elif isinstance(node, ast.FunctionDef):
            exported.append(node.name)
    package = importlib.import_module(".".join(file.parent.relative_to(ROOT).parts))
    assert sorted(exported) == sorted(package.__all__)


def parameters(function):
    """Name, kind and annotation of each, but for the first annotation."""
    given = function.args
    known = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    named = [(each.arg, each.annotation and ast.unparse(each.annotation)) for each in known if each]
    written = [re.sub(r"[\w.]+\.", "", annotation or "") for _, annotation in named[1:]]
    needed = len(given.args) - len(given.defaults), [default is None for default in given.kw_defaults]
    result = re.sub(r"[\w.]+\.", "", ast.unparse(function.returns))
    return [name for name, _ in named], written, len(given.args), needed, bool(given.vararg), bool(given.kwarg), result


@pytest.mark.parametrize("name", remat_algos._READING)
def test_the_stub_writes_out_the_parameters_of_functions_that_read_graphs(name):
    home = Path(inspect.getfile(inspect.unwrap(getattr(remat_algos, name))))

    def function(file, name):
        nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        return next(node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == name)

    stub, own = function(STUB, name), function(home, name)
    if name == "solve":  # it takes the arguments of `Request.of`
        own.args = function(home.with_name("request.py"), "of").args
        del own.args.args[0]
    assert ast.unparse(stub.args.args[0].annotation) == "ComputationGraph | str | os.PathLike[str]"
    assert parameters(stub) == parameters(own)


def test_the_package_says_that_it_is_typed():
    assert (ROOT / PACKAGE / "py.typed").exists()


def test_no_kernel_has_an_array_of_objects_of_cpp():
    """Cython makes no destructor call for its entries, so what they hold is never freed."""
    for path in sorted((ROOT / "kernels").glob("*.p[yx][xd]")):
        for line in path.read_text().splitlines():
            assert not re.match(r"\s+cdef .*(vector|pair|unordered_map|priority_queue)\[.*\] \w+\[\w+\]", line), (
                path.name
            )


TOP_LEVEL = {
    *(".ci", ".github", ".gitignore", ".pre-commit-config.yaml", "CITATION.cff", "CONTRIBUTING.md", "LICENSE"),
    *("MANIFEST.in", "README.md", "conftest.py", "docs", "examples", "kernels", "pyproject.toml", "remat_algos"),
    *("setup.py", "tests"),
}


def test_the_repository_keeps_nothing_that_a_run_left_behind():
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    kept = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {Path(line).parts[0] for line in kept.splitlines()} == TOP_LEVEL
