"""A schedule as a PyTorch memory snapshot, for pytorch.org/memory_viz and torch.cuda._memory_viz."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from remat_algos.allocate.allocation import Allocation, Buffers
from remat_algos.allocate.offsets import pack
from remat_algos.allocate.traces import Trace
from remat_algos.schedule.simulation import LOADED, ROLES, Simulation
from remat_algos.schedule.timeline import Timeline

# The viewer reads categories only if this one occurs.
OTHER = "unknown"


def snapshot(played: Timeline, allocation: Allocation | None = None) -> dict[str, Any]:
    """Return the allocations and frees of a schedule in one segment, in the form of `torch.cuda.memory._snapshot`.

    The category, which determines the colour, is the role. By default addresses come from `pack` without its exact
    search.
    """
    simulation = played.simulation
    if allocation is None:
        allocation = pack(Buffers.of(simulation), time_limit=0)
    else:
        allocation.buffers.places(simulation)
    frames, roles = _blocks(simulation, allocation.buffers)
    events, live = _events(played, allocation, frames, roles)
    size, blocks, end = allocation.size, [], 0
    for buffer in sorted(live, key=lambda b: int(allocation.offset[b])):
        address, n_bytes = int(allocation.offset[buffer]), int(allocation.buffers.size[buffer])
        blocks += [_block(end, address - end, "inactive", [])] if address > end else []
        blocks.append(_block(address, n_bytes, "active_allocated", frames[buffer]))
        end = address + n_bytes
    blocks += [_block(end, size - end, "inactive", [])] if size > end else []
    allocated = sum(int(allocation.buffers.size[b]) for b in live)
    segment = {
        **{"device": 0, "address": 0, "total_size": size, "stream": 0, "segment_type": "large"},
        **{"allocated_size": allocated, "active_size": allocated, "requested_size": allocated},
        **{"segment_pool_id": (0, 0), "is_expandable": False, "frames": _frame("arena", "plan", 0), "blocks": blocks},
    }
    return {"segments": [segment] if size else [], "device_traces": [events]}


def snapshot_bytes(played: Timeline, allocation: Allocation | None = None) -> bytes:
    """Return `snapshot` as a pickle; PyTorch's viewer reads protocols 2 to 4."""
    return pickle.dumps(snapshot(played, allocation), protocol=4)


def _events(
    played: Timeline, allocation: Allocation, frames: list[list[dict[str, Any]]], roles: list[str]
) -> tuple[list[dict[str, Any]], set[int]]:
    simulation, buffers = played.simulation, allocation.buffers
    pinned = _pinned(simulation, buffers)
    times = [int(at * played.tick_microseconds) for at in (*played.step_begin.tolist(), played.last)]
    live: set[int] = set()
    events = []

    def record(action: str, at: int, address: int, size: int, **more: Any) -> None:
        events.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": at, **more})

    if allocation.size:
        record("segment_alloc", 0, 0, allocation.size, category=OTHER, frames=_frame("arena", "plan", 0))
    trace = Trace.of_buffers(buffers, len(simulation.schedule))
    for event, step in zip(trace.event.tolist(), trace.step.tolist(), strict=True):
        buffer = event if event >= 0 else ~event
        size = int(buffers.size[buffer])
        if size == 0 or (event < 0 and buffer in pinned):
            continue
        place = (int(allocation.offset[buffer]), size)
        role, stack = roles[buffer], frames[buffer]
        if event >= 0:
            live.add(buffer)
            record("alloc", times[step], *place, category=role, frames=stack)
        else:
            live.discard(buffer)
            stack = stack + _frame(stack[0]["name"], "freed after", step)
            for action in ("free_requested", "free_completed"):
                record(action, times[step + 1], *place, category=role, frames=stack)
    return events, live


def _blocks(simulation: Simulation, buffers: Buffers) -> tuple[list[list[dict[str, Any]]], list[str]]:
    graph, lives, order = simulation.graph, simulation.lifetimes, simulation.schedule.order
    kinds = [(*ROLES, LOADED)[kind] for kind in simulation.instance_role.tolist()]
    frames, roles = [], []
    for i, step in zip(buffers.instance.tolist(), buffers.begin.tolist(), strict=True):
        role = kinds[i] if i >= 0 else "workspace"
        name = graph.value_name(int(lives.value[i])) if i >= 0 else graph.labels[int(order[step])]
        frames.append(_frame(str(name), role, step))
        roles.append(role)
    return frames, roles


def _pinned(simulation: Simulation, buffers: Buffers) -> set[int]:
    """Return the buffers that contain outputs at the end; an in-place chain is represented by its first buffer."""
    lives, first_run = simulation.lifetimes, simulation.schedule.first_run
    output = simulation.graph.output[lives.value] & first_run[lives.made_at]
    instances = np.flatnonzero((buffers.instance >= 0) & np.append(output, False)[buffers.instance])
    return set(buffers.first[instances].tolist())


def _block(address: int, size: int, state: str, frames: list[dict[str, Any]]) -> dict[str, Any]:
    return {"address": address, "size": size, "requested_size": size, "state": state, "frames": frames}


def _frame(name: str, role: str, step: int) -> list[dict[str, Any]]:
    return [{"name": name, "filename": role, "line": step}]
