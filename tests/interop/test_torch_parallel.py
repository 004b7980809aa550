"""Models of several processes: DistributedDataParallel, with a graph for each bucket of gradients, and others."""

import copy
import multiprocessing

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from remat_algos.interop import torch as remat
from remat_algos.interop.torch.storages import allocator_peak
from remat_algos.plan.policy import Treatment

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


def results_of(target, size, store, *args):
    """What each process of a group puts into the queue."""
    spawn = multiprocessing.get_context("spawn")
    results = spawn.SimpleQueue()
    processes = [spawn.Process(target=target, args=(rank, size, store, results, *args)) for rank in range(size)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
        assert process.exitcode == 0
    return [results.get() for _ in processes]


@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_graphs_of_one_frame_share_the_budget(size, tmp_path):
    for _, equal, peaks, reports in results_of(one_process, size, tmp_path / "store"):
        assert all(equal)
        assert len(reports) > 2
        (frame,) = {place[0] for place, *_ in reports}
        assert [place for place, *_ in reports] == [(frame, part) for part in range(len(reports))]
        left = BUDGET
        for _, limit, saved, _ in reports:
            assert limit == left
            left -= saved
        assert max(peaks[1:]) <= reports[-1][-1] <= BUDGET + 4 * LAYERS * (WIDTH + 1) * WIDTH  # the buckets


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))


def sharded(blocks):
    """FSDP2: each block gathers its parameters."""
    for block in blocks:
        torch.distributed.fsdp.fully_shard(block)
    torch.distributed.fsdp.fully_shard(blocks)
    return blocks


def tensor_parallel(blocks):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,))
    for block in blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return blocks


def pipeline(blocks):
    """A stage of two blocks on each process."""
    rank = torch.distributed.get_rank()
    return blocks[2 * rank : 2 * rank + 2]


def steps(kind, blocks, planned):
    """Losses of two steps of SGD; of a pipeline, on the last stage."""
    model, x = globals()[kind](blocks), torch.linspace(-1, 1, 64 * 32).view(64, 32)
    if planned is not None:
        model.compile(backend=planned, dynamic=False)
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    if kind == "pipeline":
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B

        rank = torch.distributed.get_rank()
        stage = PipelineStage(model, rank, 2, torch.device("cpu"))
        schedule = Schedule1F1B(stage, 4, loss_fn=nn.functional.mse_loss)
    for _ in range(2):
        optimizer.zero_grad()
        if kind == "pipeline":
            schedule.step(*((x,) if rank == 0 else ()), **({"target": x, "losses": losses} if rank else {}))
        else:
            losses.append(model(x).square().mean())
            losses[-1].backward()
        optimizer.step()
    return [*(each.detach() for each in losses), *(each.detach() for each in model.parameters())]


def trained(rank, size, store, results, kind):
    """Whether losses and parameters with and without a plan are equal, and the number of plans, of one process."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    torch.manual_seed(0)
    blocks, planned = nn.Sequential(*(Block() for _ in range(4))), remat.backend("60%", solver="greedy_remat")
    found = steps(kind, copy.deepcopy(blocks), None), steps(kind, copy.deepcopy(blocks), planned)
    local = [[each.to_local() if hasattr(each, "to_local") else each for each in values] for values in found]
    equal = [torch.equal(one, other) for one, other in zip(*local, strict=True)]
    results.put((equal, len(planned.reports)))
    torch.distributed.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sharded", "tensor_parallel", "pipeline"])
def test_two_processes_train_as_without_a_plan(kind, tmp_path):
    for equal, n_plans in results_of(trained, 2, tmp_path / "store", kind):
        assert len(equal) >= 8
        assert all(equal)
        assert n_plans >= 1


def gathered(rank, size, store, results, reshard):
    """Bytes of steps of FSDP2, from no gradients and from those of the step before, and what the report predicts."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    blocks, planned = nn.Sequential(*(Block() for _ in range(6))), remat.backend("60%", solver="greedy_remat")
    for block in blocks:
        torch.distributed.fsdp.fully_shard(block, reshard_after_forward=reshard)
    torch.distributed.fsdp.fully_shard(blocks)
    blocks.compile(backend=planned, dynamic=False)
    x = torch.linspace(-1, 1, 8 * 32).view(8, 32)

    def step():
        blocks.zero_grad()
        blocks(x).square().mean().backward()

    step()
    peaks = [allocator_peak(step, [x]) for _ in range(3)]
    results.put((peaks, planned.reports[-1].whole, sum(each.numel() * 4 for each in blocks.parameters())))
    torch.distributed.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("reshard", [True, False])
def test_parameters_that_fsdp_gathers_are_in_the_bytes_of_all_graphs(reshard, tmp_path):
    for peaks, whole, parameters in results_of(gathered, 2, tmp_path / "store", reshard):
        assert parameters < max(peaks) <= whole


class Trained(nn.Sequential):
    """Checkpoints its blocks as the trainer of transformers does, hooks of `fully_shard` within the checkpoint."""

    kwargs = None

    def forward(self, x):
        for block in self:
            x = checkpoint(block, x, **self.kwargs) if self.kwargs else block(x)
        return x.square().mean()


def trained_by_a_trainer(rank, size, store, results, budget):
    """Whether gradients of three steps are the mean of both processes, with `plan.kwargs` under FSDP2."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    torch.manual_seed(0)
    net = Trained(*(Block() for _ in range(4)))
    plain, x = copy.deepcopy(net), torch.linspace(-1, 1 + rank, 1024 * 32).view(1024, 32)
    plan = remat.plan_checkpoints(net, (x,), budget, shards={"world": size})
    net.kwargs = plan.kwargs
    for block in net:
        torch.distributed.fsdp.fully_shard(block)
    torch.distributed.fsdp.fully_shard(net)
    equal = []
    for _ in range(3):
        for each in (net, plain):
            each.zero_grad()
            each(x).backward()
        for ours, theirs in zip(net.parameters(), plain.parameters(), strict=True):
            torch.distributed.all_reduce(theirs.grad)
            equal.append(torch.equal(ours.grad.full_tensor(), theirs.grad / size))
    results.put((equal, sum(each.decision == "recompute" for each in plan.treatments)))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["80%", "least"])
def test_a_trainer_shards_blocks_that_it_checkpoints_by_a_plan(budget, tmp_path):
    for equal, recomputed in results_of(trained_by_a_trainer, 2, tmp_path / "store", budget):
        assert len(equal) >= 12
        assert all(equal)
        assert recomputed >= 1


def offloaded(rank, size, store, results):
    """Whether gradients of tensor-parallel blocks are those without a plan, with DTensors offloaded or recomputed."""
    from torch.distributed.tensor import Shard, distribute_module, distribute_tensor

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    torch.manual_seed(0)
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (size,))
    net = distribute_module(nn.Sequential(*(Block() for _ in range(3))), mesh)
    x = distribute_tensor(torch.linspace(-1, 1, 8 * 32).view(8, 32), mesh, [Shard(0)])

    def gradients():
        net.zero_grad()
        net(x).square().mean().backward()
        return [each.grad.full_tensor() for each in net.parameters()]

    expected, equal = gradients(), []
    for decision, saved in (("offload", ()), ("recompute", ()), ("recompute", ("::aten.gelu.default#0",))):
        plan = remat.CheckpointPlan([Treatment(str(i), decision, saved) for i in range(3)])
        with plan.apply(net):
            equal += map(torch.equal, gradients(), expected)
    results.put(equal)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("size", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_inputs_of_blocks_that_are_dtensors_go_to_the_host(size, tmp_path):
    for equal in results_of(offloaded, size, tmp_path / "store"):
        assert len(equal) == 3 * 12
        assert all(equal)
