"""Kernels of the pages are forked: each is a fresh process, and none outlives the build."""

import os
import sys
import time

import pytest

pytest.importorskip("ipykernel", reason="kernels of pages: NOT RUN, the packages of `docs` are not installed")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kernels of pages: NOT RUN, only Linux forks them")


class Build:
    """What an extension sees of Sphinx."""

    def connect(self, event, callback):
        assert event == "build-finished"
        self.finish = lambda: callback(self, None)


@pytest.fixture
def build(monkeypatch):
    from jupyter_client.provisioning import KernelProvisionerFactory

    from docs import notebook_kernels

    build = Build()
    notebook_kernels.setup(build)
    yield build
    build.finish()
    KernelProvisionerFactory.clear_instance()


def executed(folder, *cells):
    """The outputs of a page's cells as text."""
    from nbclient import NotebookClient
    from nbformat.v4 import new_code_cell, new_notebook

    page = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    NotebookClient(page, timeout=60, resources={"metadata": {"path": str(folder)}}).execute()
    return ["".join(output.get("text", "") for output in cell.outputs).strip() for cell in page.cells]


def test_a_line_that_a_kernel_sends_in_pieces_is_one_line(build):
    from myst_nb.core import render
    from nbformat.v4 import new_output

    pieces = [("stdout", "order"), ("stderr", "slow\n"), ("stdout", " 0 1 2\nnext"), ("stdout", "\n")]
    outputs = [new_output("stream", name=name, text=text) for name, text in pieces]
    found = render.coalesce_streams([outputs[0], new_output("display_data"), *outputs[1:]])
    assert [(output.get("name"), output.get("text")) for output in found] == [
        ("stdout", "order 0 1 2\nnext\n"),
        (None, None),
        ("stderr", "slow\n"),
    ]
    assert outputs[0]["text"] == "order"


@pytest.mark.filterwarnings("ignore")  # of jupyter_client and asyncio
def test_pages_run_apart_where_they_are_told_and_end_with_the_build(build, tmp_path):
    from nbclient.exceptions import CellExecutionError, DeadKernelError

    about = "import os; print(os.getcwd(), os.getpid(), os.getppid(), 'x' in dir()); x = 1"
    first, second = (executed(tmp_path, about)[0].split() for _ in range(2))
    assert first[0] == second[0] == str(tmp_path)
    assert first[1] != second[1]
    assert first[2:] == second[2:] == [second[2], "False"]
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        executed(tmp_path, "1 / 0")
    with pytest.raises(DeadKernelError):
        executed(tmp_path, "import os; os.kill(os.getpid(), 9)")
    begun = time.monotonic()
    build.finish()
    assert time.monotonic() - begun < 10
    for process in (first[1], second[1], second[2]):
        with pytest.raises(ProcessLookupError):
            os.kill(int(process), 0)
