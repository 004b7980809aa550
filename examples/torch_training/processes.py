"""Two processes of gloo on this machine, for the scripts that need more than one."""

import os
import socket

import torch


def run(work, *args, world=2):
    """Call work(rank, *args) in each of `world` processes of one group."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(_one, (world, port, work, args), nprocs=world)


def _one(rank, world, port, work, args):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world))
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=world)
    work(rank, *args)
    torch.distributed.destroy_process_group()


def mean_gradients(model):
    """Gradients of a plain model, averaged over the processes."""
    for parameter in model.parameters():
        torch.distributed.all_reduce(parameter.grad)
        parameter.grad /= torch.distributed.get_world_size()
    return [parameter.grad for parameter in model.parameters()]
