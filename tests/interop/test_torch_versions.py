"""What every version of PyTorch takes, and what a version says that the compiled backend does not take."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import remat_algos.interop.torch as remat
from remat_algos.interop.torch.stable_names import DispatchMode

PRIVATE = "remat_algos.interop.torch.private_names"
FOLDER = Path(remat.__file__).parent
SCRIPTS = Path(__file__).resolve().parents[2] / "examples" / "torch_training"
EAGER = (
    "checkpoints",
    "costs",
    "device_bytes",
    "eager_capture",
    "fake_step",
    "runtime_settings",
    "selective",
    "stable_names",
    "storages",
)
"""Modules that work with versions of PyTorch without the private names of the compiled backend."""


def printed(*lines):
    """Run lines in an interpreter in which those private names cannot be imported, and return what it prints."""
    blocked = ["import sys", f"sys.modules[{PRIVATE!r}] = None", *lines]
    command = [sys.executable, "-W", "ignore", "-c", "\n".join(blocked)]
    return subprocess.run(command, check=True, timeout=120, capture_output=True, text=True).stdout


def test_eager_modules_need_no_private_names():
    imports = [f"import remat_algos.interop.torch.{name} as {name}" for name in EAGER]
    scripts = (
        f"sys.path.append({str(SCRIPTS)!r})",
        "import network, compare",
    )  # what the scripts of plans per block share
    assert printed(*imports, *scripts, "print('imported')") == "imported\n"


def test_a_peak_is_measured_with_any_version():
    lines = (
        "import torch",
        "from remat_algos.interop.torch import measure_peak",
        "x = torch.ones(1000)",
        "print(measure_peak(lambda: x.exp().exp(), [x]))",
    )
    assert printed(*lines) == "Peaks(storages=8000, allocator=8000)\n"


DOCUMENTED = "torch._subclasses.fake_tensor", "torch.utils._python_dispatch"
"""Modules of PyTorch whose modes its manual describes, under "Fake tensor" and "Extending PyTorch"."""


def private_names(source):
    """Private names of PyTorch in a file: modules, attributes and imported names; operators have names of their own."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "torch":
            names += [node.module] * (node.module not in DOCUMENTED) + [f"torch.{each.name}" for each in node.names]
        elif isinstance(node, ast.Import):
            names += [each.name for each in node.names]
        elif isinstance(node, ast.Attribute):
            names.append(ast.unparse(node))
    torch_names = [name for name in names if re.match(r"torch\.(?!ops\.)", name)]
    return [name for name in torch_names if re.search(r"\._[a-z]", name)]


def test_private_names_of_pytorch_are_in_two_files():
    names = {file.name: private_names(file.read_text()) for file in FOLDER.glob("*.py")}
    assert names.pop("private_names.py")
    assert names.pop("stable_names.py")
    assert {name: each for name, each in names.items() if each} == {}


def private_reads(source):
    """Private attributes that a file reads of objects from elsewhere, also by `getattr`, and what it overrides."""
    tree = ast.parse(source)
    nodes = [*ast.walk(tree)]
    own = {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            own |= {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            own |= {ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
    theirs = {name for kind in (DispatchMode, torch.nn.Module, torch.Tensor) for name in dir(kind)}
    names = [each for each in own if each in theirs]
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr not in own:
            names += [node.attr] * (not re.search(r"\bops\.|\baten\.", ast.unparse(node)))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr", "setattr", "attrgetter"):
            names += [each.value for each in node.args if isinstance(each, ast.Constant)]
    fields = "_fields"  # of Python's named tuples
    return sorted(name for name in names if re.match(r"_[a-zA-Z]", str(name)) and name != fields)


@pytest.mark.parametrize("name", [name for name in EAGER if name != "stable_names"])
def test_eager_modules_read_no_private_attributes_of_pytorch(name):
    assert private_reads((FOLDER / f"{name}.py").read_text()) == []


def test_each_private_attribute_is_seen():
    source = """
class Mode(DispatchMode):
    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self._count = x._version + module._parameters["weight"]._base.size
        return hasattr(operator, "_schema"), aten._to_copy.default, torch.ops.aten._foo, self._count, self.__class__
"""
    assert private_reads(source) == ["_base", "_parameters", "_schema", "_should_skip_dynamo", "_version"]


def release(version):
    return tuple(map(int, version.split(".")[:2]))


OLDEST, NEWEST = re.search(
    r'^OLDEST, NEWEST = "(.*)", "(.*)"$', (FOLDER / "private_names.py").read_text(), re.M
).groups()
compiled = pytest.mark.skipif(
    not release(OLDEST) <= release(torch.__version__) <= release(NEWEST),
    reason="the compiled backend does not take this version of PyTorch",
)
WINDOW = r"^capture, .* need PyTorch 2\.\d+ to 2\.\d+, and "
REMEDY = r": python -m pip install 'torch==2\.\d+\.\*', or use plan_checkpoints, which supports 2\.6 and newer"


def test_a_version_without_the_private_names_is_refused_in_one_sentence():
    lines = (
        f"import torch; torch.__version__ = '{OLDEST}.0'",
        "from torch._functorch import aot_autograd",
        "vars(aot_autograd).pop('aot_export_joint_with_descriptors', None)",
        "import remat_algos.interop.torch as remat",
        "try:",
        "    remat.backend",
        "except ImportError as error:",
        "    print(error)",
    )
    command = [sys.executable, "-W", "ignore", "-c", "\n".join(lines)]
    sentence = subprocess.run(command, check=True, timeout=120, capture_output=True, text=True).stdout
    lacking = rf"PyTorch {OLDEST}\.0 lacks a name that they use \(cannot import name .*\)"
    assert re.match(WINDOW + lacking + REMEDY + "\n$", sentence)


@pytest.fixture
def import_with(monkeypatch):
    """Import the private names with another number of the version."""

    def imported(version):
        monkeypatch.setattr(torch, "__version__", version)
        monkeypatch.delitem(sys.modules, PRIVATE, raising=False)
        return importlib.import_module(PRIVATE)

    if "private_names" in vars(remat):
        monkeypatch.setattr(remat, "private_names", remat.private_names)
    return imported


@pytest.mark.parametrize("version", ["2.6.0+cu124", "2.9.1", "2.11.0"])
def test_an_older_version_is_refused_in_one_sentence(import_with, version):
    with pytest.raises(ImportError, match=WINDOW + re.escape(f"this is PyTorch {version}") + REMEDY + "$"):
        import_with(version)


@compiled
@pytest.mark.parametrize("version", ["2.99.0", "3.0.0a0+git1a2b3c4"])
def test_a_newer_version_is_accepted_with_a_warning_of_one_sentence(import_with, version):
    with pytest.warns(UserWarning, match=WINDOW + re.escape(f"PyTorch {version} is not tested") + REMEDY + "$"):
        assert import_with(version).compile_joint


@compiled
@pytest.mark.parametrize("version", [f"{OLDEST}.0", f"{NEWEST}.1+cpu"])
def test_versions_of_the_window_are_accepted_without_a_warning(import_with, version):
    assert import_with(version).compile_joint
