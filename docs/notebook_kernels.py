"""Kernels of pages, forked from one process that has imported what pages need; a page costs what its own cells cost.

Each page has a fresh process, as an ordinary kernel would be. Without `fork`, ordinary kernels run.
"""

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from importlib.metadata import EntryPoint

from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class ForkedKernel:
    """A forked kernel, as `LocalProvisioner` looks at processes; the pipe from it closes when it ends."""

    stdin = stdout = stderr = None

    def __init__(self, source, options):
        self.pipe, theirs = os.pipe()
        socket.send_fds(source, [json.dumps(options).encode()], [theirs])
        os.close(theirs)
        number = os.read(self.pipe, 20)
        if not number:
            raise RuntimeError("the process that forks kernels has ended; what it said stands above")
        self.pid = int(number)

    def poll(self):
        if self.pipe is not None and select.select([self.pipe], [], [], 0)[0]:
            os.close(self.pipe)
            self.pipe = None
        return None if self.pipe is not None else 0

    wait = poll  # called when the process has ended

    def send_signal(self, number):
        os.kill(self.pid, number)  # its number is not given again: its parent waits for it at the end of the build only


class ForkingProvisioner(LocalProvisioner):
    """Starts kernels in place of `jupyter_client`, in the environment that the build had when it began."""

    async def launch_kernel(self, cmd, cwd=None, **_):
        self.process = ForkedKernel(self.source, {"cwd": cwd, "arguments": cmd[cmd.index("-f") :]})
        self.pid = self.pgid = self.process.pid
        self.cwd = cwd
        return self.connection_info


def whole(outputs):
    """Outputs with each stream in one piece, as it was written: a kernel may send a line in two."""
    streams, kept = {}, []
    for output in outputs:
        if output["output_type"] == "stream" and output["name"] in streams:
            streams[output["name"]]["text"] += output["text"]
            continue
        if output["output_type"] == "stream":
            streams[output["name"]] = output = output.copy()
        kept.append(output)
    return kept


def setup(app):
    from myst_nb.core import render, utils

    # what it does alone ends each piece with a new line
    render.coalesce_streams = lambda outputs: utils.coalesce_streams(whole(outputs))
    path = [ROOT, os.environ.get("PYTHONPATH", "")]  # pages import docs.reproductions
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    if sys.platform == "linux":
        ForkingProvisioner.source, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-P", "-Xfrozen_modules=off", __file__, str(theirs.fileno())]
        forker = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        theirs.close()
        factory = KernelProvisionerFactory.instance()
        factory.provisioners["forked"] = EntryPoint("forked", f"{__name__}:ForkingProvisioner", factory.GROUP_NAME)
        factory.default_provisioner_name = "forked"
        app.connect("build-finished", lambda app, error: (ForkingProvisioner.source.close(), forker.wait()))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def fork_for_each_page(source):
    """Return in each child what to start, and in the parent nothing, when the build is over."""
    children = []
    while (message := socket.recv_fds(source, 1 << 16, 1))[0]:
        options, [pipe] = json.loads(message[0]), message[1]
        if child := os.fork():
            children.append(child)
            os.close(pipe)
            continue
        source.close()
        os.setsid()
        os.chdir(options["cwd"] or ".")
        sys.path.insert(0, "")  # a kernel imports modules of its folder
        os.write(pipe, str(os.getpid()).encode())  # it stays open until this process ends
        return options["arguments"]
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return None


def warm_kernel():
    """Import and do once what nearly every page does; returns the class of kernels."""
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # as a kernel sets it
    from ipykernel import debugger, ipkernel, kernelapp  # noqa: F401 (a kernel loads all three)
    from jupyter_client.localinterfaces import localhost
    from matplotlib import pyplot

    import remat_algos as ra

    chain = ra.differentiate(ra.ComputationGraph.from_edges([("a", "b"), ("b", "c"), ("c", "d")]))
    ra.plot.graph(chain, ax=pyplot.Figure().subplots()).figure.savefig(os.devnull, format="svg")
    ra.solve(chain)
    localhost()
    return kernelapp.IPKernelApp


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the build ends this process; kernels set their own
    kernel = warm_kernel()
    gc.freeze()
    parent = os.getpid()
    arguments = fork_for_each_page(socket.socket(fileno=int(sys.argv[1])))
    if arguments:
        # figures have a layout with room for all that is drawn, so that nothing has to be measured once more
        options = [f"--IPKernelApp.parent_handle={parent}", "--InlineBackend.print_figure_kwargs={}"]
        # pages need no cell that asks for drawings
        options += ["--IPKernelApp.matplotlib=inline", "--InlineBackend.figure_formats=svg"]
        kernel.launch_instance([*arguments, *options])
