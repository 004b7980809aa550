"""Models under DistributedDataParallel, which splits a frame into a graph for each bucket of gradients."""

import multiprocessing

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra torch)")

from torch import nn  # noqa: E402

from remat_algos.interop import torch as remat  # noqa: E402
from remat_algos.interop.torch.peaks import allocator_peak  # noqa: E402

WIDTH, LAYERS, ROWS = 256, 12, 256
BUDGET = 7_200_000


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x.square().mean()


def one_process(rank, size, store, results):
    """Gradients, planned and not, and bytes of two steps, of one process of a group."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    torch.manual_seed(0)
    eager, net, x = Net(), Net(), torch.randn(ROWS, WIDTH) * (rank + 1)
    net.load_state_dict(eager.state_dict())
    planned = remat.backend(BUDGET, solver="greedy_remat")
    calls = [nn.parallel.DistributedDataParallel(each, bucket_cap_mb=1) for each in (eager, net)]
    compiled = torch.compile(calls[1], backend=planned, dynamic=False)

    def step(call, model):
        model.zero_grad()
        call(x).backward()

    peaks, equal = [], []
    for _ in range(2):
        step(calls[0], eager)
        peaks.append(allocator_peak(lambda: step(compiled, net), [x]))
        equal += [torch.equal(a.grad, b.grad) for a, b in zip(eager.parameters(), net.parameters(), strict=True)]
    reports = [(report.place, report.plan.limit, report.saved, report.whole) for report in planned.reports]
    assert planned.reports[-1].graph_breaks == ()
    results.put((rank, equal, peaks, reports))
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_graphs_of_one_frame_share_the_budget(size, tmp_path):
    spawn = multiprocessing.get_context("spawn")
    results = spawn.SimpleQueue()
    processes = [spawn.Process(target=one_process, args=(r, size, tmp_path / "store", results)) for r in range(size)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
        assert process.exitcode == 0
    for _ in processes:
        _, equal, peaks, reports = results.get()
        assert all(equal)
        assert len(reports) > 2
        (frame,) = {place[0] for place, *_ in reports}
        assert [place for place, *_ in reports] == [(frame, part) for part in range(len(reports))]
        left = BUDGET
        for _, limit, saved, _ in reports:
            assert limit == left
            left -= saved
        assert max(peaks[1:]) <= reports[-1][-1] <= BUDGET + 4 * LAYERS * (WIDTH + 1) * WIDTH  # the buckets
