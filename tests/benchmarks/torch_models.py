"""Models of many kinds within half of their memory, compared with what runs without a plan.

`python -m tests.benchmarks.torch_models` writes docs/results/torch_models.txt; with names of models of
tests/interop/torch_zoo it only prints.
"""

import sys
import warnings
from dataclasses import dataclass

import torch
from torch._dynamo.exc import BackendCompilerFailed
from torch.utils._pytree import tree_leaves

import remat_algos as ra
from remat_algos.errors import GraphError
from remat_algos.interop import torch as remat
from tests.benchmarks.occasion import RESULTS as FOLDER
from tests.benchmarks.occasion import Occasion
from tests.interop.torch_zoo import CASES, make
from tests.interop.torch_zoo.cases import AOT_EAGER, EAGER, WITHOUT_ONEDNN

RESULTS = FOLDER / "torch_models.txt"
BUDGET = "50%"  # where none is that low, the lowest peak
STEPS = 3
LEARNING_RATE = 0.05


@dataclass(frozen=True)
class Row:
    """How a case ran through one door.

    `predicted` and `measured` are bytes, `share` of the peak of one pass, the highest of all graphs, and `overhead` of
    the compute of one pass.
    """

    equal: bool
    share: float
    predicted: int
    measured: int
    overhead: float


# ---------------------------------------------------------------- doors


def compiled(case):
    """The model of torch.compile, with workspaces in its plans, and what gives the reports of them."""
    backend = remat.backend(BUDGET, workspace=True)
    return torch.compile(case.model, backend=backend, dynamic=False), lambda: backend.reports


def rematerialized(case):
    """The module in the model's place, and what gives the report of its plan."""
    planned = remat.rematerialize(case.model, case.inputs, BUDGET, keywords=case.keywords)
    return planned, lambda: [planned.report]


DOORS = {"torch.compile": compiled, "rematerialize": rematerialized}


def doors_of(name):
    """Names of the doors through which a case can go."""
    return list(DOORS) if CASES[name].one_graph else ["torch.compile"]


# ---------------------------------------------------------------- steps


def loss_of(results):
    """The loss of transformers, else the sum of all results that have a gradient."""
    if hasattr(results, "loss"):
        return results.loss
    return sum(each.sum() for each in tree_leaves(results) if isinstance(each, torch.Tensor) and each.requires_grad)


def clear(case):
    """Set all gradients to None."""
    for leaf in (*case.model.parameters(), *case.inputs):
        leaf.grad = None


def train(call, case):
    """Losses, gradients and buffers of each step; at the end parameters, and the state of the generator."""
    torch.manual_seed(3)
    optimizer = torch.optim.SGD(case.model.parameters(), lr=LEARNING_RATE)
    seen = []
    for _ in range(STEPS):
        clear(case)
        loss = loss_of(call(*case.inputs, **case.keywords))
        loss.backward()
        gradients = [leaf.grad for leaf in (*case.model.parameters(), *case.inputs) if leaf.grad is not None]
        seen += [each.detach().clone() for each in (loss, *gradients, *case.model.buffers())]
        optimizer.step()
    return [*seen, *(each.detach().clone() for each in case.model.parameters()), torch.get_rng_state()]


def peaks_of(call, case):
    """The peaks of one step."""

    def step():
        clear(case)
        loss_of(call(*case.inputs, **case.keywords)).backward()

    clear(case)
    known = [each for each in tree_leaves((case.inputs, case.keywords)) if isinstance(each, torch.Tensor)]
    return remat.measure_peak(step, [*case.model.parameters(), *case.model.buffers(), *known])


def train_without_plan(name):
    """What a case gives by what it is compared with."""
    case, reference = make(name), CASES[name].reference
    call = torch.compile(case.model, backend="aot_eager", dynamic=False) if reference == AOT_EAGER else case.model
    with torch.backends.mkldnn.flags(enabled=reference != WITHOUT_ONEDNN):
        return train(call, case)


def one_pass_peak(graph):
    """The peak without recomputation."""
    return ra.simulate(graph, range(graph.n_nodes)).peak_memory


def run(name: str, door: str) -> Row:
    """Train a case through a door, and compare."""
    with torch._dynamo.config.patch(**CASES[name].config):
        torch.compiler.reset()
        expected, case = train_without_plan(name), make(name)
        torch.compiler.reset()
        call, reports_of = DOORS[door](case)
        trained = train(call, case)
        peaks = peaks_of(call, case)
    reports = reports_of()
    return Row(
        equal=len(trained) == len(expected) and all(map(torch.equal, trained, expected)),
        share=max(r.plan.peak_memory / one_pass_peak(r.plan.graph) for r in reports),
        predicted=reports[-1].whole,
        measured=peaks.allocator if peaks.storages is None else peaks.storages,
        overhead=sum(r.plan.overhead for r in reports) / sum(r.plan.graph.needed_compute for r in reports),
    )


# ---------------------------------------------------------------- table


COLUMNS = "equal  share   predicted    measured overhead"
HEAD = f"""\
{"":25}  {"torch.compile, with workspaces":45}  rematerialize
{"model":25}  {COLUMNS}  {COLUMNS}  special"""


def cells(name, door):
    """The cells of one case and door."""
    if door not in doors_of(name):
        return f"{'-':>5}{'':40}"
    try:
        row = run(name, door)
    except (GraphError, BackendCompilerFailed):
        return f"{'refused':45}"
    return (
        f"{'yes' if row.equal else 'no':>5} {100 * row.share:4.0f} % "
        f"{row.predicted:11,} {row.measured:11,} {100 * row.overhead:6.1f} %"
    )


def line(name):
    """A case through both doors."""
    case = CASES[name]
    note = "" if case.reference == EAGER else f"; equal to {case.reference}"
    return f"{name:25}  {cells(name, 'torch.compile')}  {cells(name, 'rematerialize')}  {case.special}{note}"


def main(names):
    """Run, print and write."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    measured_on, lines = Occasion.now().paragraph("python -m tests.benchmarks.torch_models"), [HEAD]
    print(HEAD)
    for name in names or CASES:
        lines.append(line(name))
        print(lines[-1], flush=True)
    if not names:
        RESULTS.write_text("\n".join([*lines, "", measured_on]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
