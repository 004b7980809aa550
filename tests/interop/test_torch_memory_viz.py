"""PyTorch's own tool for memory snapshots reads those of plans."""

import base64
import json
import pickle
import re

import pytest
from torch.cuda import _memory_viz as memory_viz

import remat_algos as ra


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A plan with recomputation, and its snapshot as read from the file."""
    graph = ra.differentiate(ra.zoo.build("vgg16").graph)
    plan = ra.solve(graph, "80%", solver="chen_sqrt", allocator="arena")
    file = tmp_path_factory.mktemp("snapshot") / "plan.pickle"
    plan.save(file, "snapshot")
    return plan, pickle.loads(file.read_bytes())


def test_segsum_counts_the_arena(written):
    plan, data = written
    text = memory_viz.segsum(data)
    graph = plan.graph
    outputs = int(graph.memory[graph.output].sum())
    assert f"total_reserved: {memory_viz.Bytes(plan.reservation.memory)}" in text
    assert f"total_allocated: {memory_viz.Bytes(outputs)}" in text


def test_trace_lists_each_allocation_and_free(written):
    plan, data = written
    text = memory_viz.trace(data)
    graph = plan.graph
    some = int((graph.memory[plan.simulation.lifetimes.value] > 0).sum())
    some += int((graph.workspace[plan.schedule.order] > 0).sum())
    assert len(re.findall(r"^\w+ = seg_0\[|^\w+ = a\[", text, re.MULTILINE)) == some
    assert text.count("# free completed") == text.count("del ")


def test_memory_and_segments_name_what_is_left(written):
    _, data = written
    for flamegraph in (memory_viz.memory, memory_viz.segments):
        lines = flamegraph(data, format_flamegraph=lambda text: text)
        assert "gradients" in lines


@pytest.mark.parametrize("segments", [False, True])
def test_trace_plot_carries_the_snapshot(written, segments):
    _, data = written
    page = memory_viz.trace_plot(data, plot_segments=segments)
    (files,) = re.findall(r"const local_files = (.*)", page)
    (file,) = json.loads(files)
    assert pickle.loads(base64.b64decode(file["base64"])) == data


def test_segment_plot_carries_the_snapshot(written):
    assert "Allocator State History" in memory_viz.segment_plot(written[1])
