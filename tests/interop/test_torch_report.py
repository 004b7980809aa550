"""Which submodule keeps, recomputes and pays, what the last compilation planned, and a step drawn."""

import logging

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from remat_algos.errors import GraphError, GraphWarning
from remat_algos.interop import torch as remat
from remat_algos.interop.torch import compile_backends

X = torch.linspace(-1, 1, 256 * 16).view(256, 16)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.act, self.down = nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)

    def forward(self, x):
        return x + self.down(self.act(self.up(x)))


class Model(nn.Module):
    """Submodules in a list, in a dictionary, called twice, and in a checkpoint."""

    def __init__(self, checkpoints=False):
        super().__init__()
        self.blocks, self.heads = nn.ModuleList(Block() for _ in range(2)), nn.ModuleDict({"a b": nn.Linear(16, 16)})
        self.checkpoints = checkpoints

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpoints else block(x)
        head = self.heads["a b"]
        return head(head(x).tanh()).square().mean()


def compiled_graph(function, model, budget="100%"):
    backend = remat.backend(budget)
    torch.compiler.reset()
    torch.compile(function, backend=backend, dynamic=False)(X).backward()
    return backend.reports[-1].plan.graph


@pytest.mark.parametrize("checkpoints", [False, True])
def test_nodes_have_the_names_of_their_modules_by_both_doors(checkpoints):
    model = Model(checkpoints)
    names = remat.capture(model, (X,)).graph.node_names()
    assert names[:4] == ["blocks.0.up.addmm", "blocks.0.act.gelu", "blocks.0.down.addmm_1", "blocks.0.add"]
    assert {"heads.a b.addmm_4", "blocks.1.act.gelu_backward", "pow_1", "boundary"} <= set(names)
    assert compiled_graph(model, model).node_names() == names
    assert {name for name in names if name.startswith("blocks")} <= set(
        compiled_graph(lambda x: 2 * model(x), model).node_names()
    )


def test_the_names_are_unique_and_end_with_the_model():
    model = Model()
    outside = nn.Tanh()
    captured = remat.capture(model, (X,)).graph
    assert len(set(captured.node_names())) == captured.n_nodes
    with torch.no_grad():
        outside(model(X))
    assert remat.capture(nn.Sequential(model), (X,)).graph.node_names()[0] == "0.blocks.0.up.addmm"


def test_a_table_of_modules_adds_up():
    report = remat.rematerialize(Model(), (X,), "40%", solver="greedy_remat").report
    graph, simulation, one_pass = report.plan.graph, report.plan.simulation, report.references.one_pass
    for depth in (None, 1, 2, 3):
        table = report.modules(depth)
        assert sum(row.saved for row in table.modules) == sum(int(graph.memory[x]) for x, _ in simulation.saved)
        assert sum(row.compute for row in table.modules) == report.plan.overhead
        assert sum(row.freed for row in table.modules) >= sum(int(graph.memory[x]) for x, _ in one_pass.saved) - sum(
            row.saved for row in table.modules
        )
        prices = [row.compute / row.freed for row in table.modules if row.freed]
        assert prices == sorted(prices)
        assert set(table.recompute).isdisjoint(table.keep)
        assert all(name.count(".") < (depth or 9) for name in table.recompute + table.keep)
    assert {row.name for row in report.modules(1).modules} <= {"", "blocks", "heads"}
    named = dict(Model().named_modules())
    assert report.modules().recompute
    assert set(report.modules().recompute) <= set(named)
    text = str(report.modules(2))
    assert text.splitlines()[0].split() == ["module", "freed", "recomputed", "overhead", "saved"]
    assert "blocks.0" in text


def test_without_recomputation_all_is_kept():
    table = remat.rematerialize(Model(), (X,), "100%").report.modules(2)
    assert table.recompute == []
    assert {"blocks.0", "blocks.1"} <= set(table.keep)


def test_reports_of_the_backend_by_name(monkeypatch):
    monkeypatch.setattr(compile_backends, "_latest", [])
    with pytest.raises(GraphError, match='no graph to the backend "remat"; call the model first'):
        remat.reports()
    options = {"budget": "60%", "solver": "greedy_remat"}
    torch.compile(Model(), backend="remat", options=options, dynamic=False)(X).backward()
    (report,) = remat.reports()
    assert report.plan.limit == 60 * report.references.one_pass.peak_memory // 100


def test_a_model_of_which_nothing_is_captured_is_told(monkeypatch):
    monkeypatch.setattr(compile_backends, "_latest", [])
    call = torch.compile(nn.Sequential(nn.LSTM(16, 16)), backend="remat", options={"budget": "60%"}, dynamic=False)
    with pytest.warns(GraphWarning, match=r"remat plans no part of the model: .*LSTM\(16, 16\).*recurrent=True"):
        call(X[None])[0].sum().backward()
    with pytest.raises(GraphError, match=r"it did not capture: .*LSTM\(16, 16\).*recurrent=True"):
        remat.reports()


def test_a_frame_that_is_left_out_is_told():
    """A number that is read inside of a Sequential leaves the whole of it out, with no line of the model."""

    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16, momentum=None), nn.ReLU())

        def forward(self, x):
            return self.body(x).square().mean()

    backend = remat.backend("100%")
    with pytest.warns(GraphWarning, match=r"outside the plans .* self.body\(x\).*: Unsupported Tensor.item"):
        torch.compile(Loss(), backend=backend, dynamic=False)(X).backward()
    assert len(backend.reports[-1].graph_breaks) == 1
    assert "1 graph break outside the plan" in backend.reports[-1].summary()


def test_a_plan_is_logged_in_one_line(caplog):
    with caplog.at_level(logging.INFO, logger="remat_algos"):
        report = remat.rematerialize(Model(), (X,), "60%", solver="greedy_remat").report
    (record,) = [each for each in caplog.records if each.name.startswith("remat_algos")]
    assert record.levelno == logging.INFO
    assert record.getMessage() == report.summary()
    assert "limit" in report.summary()
    assert "overhead" in report.summary()


def test_a_step_is_drawn_beside_its_plan():
    model = Model()
    planned = remat.rematerialize(model, (X,), "60%", solver="greedy_remat")

    def step():
        model.zero_grad()
        planned(X).backward()

    step()
    figure = planned.report.plot(step, [*model.parameters(), X])
    predicted, measured = figure.axes
    assert predicted.get_ylim() == measured.get_ylim()
    assert measured.get_title().startswith("measured peak")
    assert len(planned.report.plot().axes) == 1
    with pytest.raises(GraphError, match="only on the CPU"):
        planned.report.plot(step, [torch.empty(1, device="meta")])
