"""Training in PyTorch: the scripts and the tutorial, what their pages say, and the part of a run on a GPU."""

import json
import math
import re
import runpy
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch

from docs import notebooks
from remat_algos.interop.torch import backend
from tests.benchmarks import torch_runtimes, torch_steps
from tests.test_docs_tutorials import FOLDER, TO_FILL_IN, page_cells

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "examples" / "torch_training"
PAGE = (ROOT / "docs" / "torch_training.md").read_text(encoding="utf-8")
PEAK = r"^peak \d+ bytes, limit \d+$"
PRINTED = {
    "plain_loop.py": PEAK,
    "accumulation.py": PEAK,
    "autocast.py": PEAK,
    "grad_scaler.py": PEAK,
    "resume.py": PEAK,
    "ddp.py": PEAK,
    "with_accelerate.py": PEAK,
    "with_lightning.py": PEAK,
    "with_trainer.py": PEAK,
    "graph_break.py": r"^graph break at watch\(y\) \(graph_break.py, line \d+\): ",
    "frozen.py": r"^input 0 is float32\[8, 128\] on cpu, but was planned as float32\[512, 128\] on cpu;",
    "static_buffers.py": r"^l_x_ was changed in place between .* recomputes .*tanh.* from it; change it after",
}
CHECKPOINTS = {
    "checkpoints_loop.py": (),
    "checkpoints_compile.py": (),
    "checkpoints_lightning.py": ("lightning",),
    "checkpoints_accelerate.py": ("accelerate",),
    "checkpoints_trainer.py": ("transformers", "accelerate", "peft"),
    "checkpoints_trl.py": ("transformers", "accelerate", "datasets", "trl"),
    "checkpoints_ddp.py": (),
    "checkpoints_fsdp2.py": (),
    "checkpoints_tensor_parallel.py": (),
    "checkpoints_pipeline.py": (),
}
"""Scripts with a plan per block, and the packages that each needs."""
QUICK = ("checkpoints_loop.py", "checkpoints_compile.py")
HELPERS = {"network.py", "compare.py", "processes.py"}
NEEDS = {
    "with_accelerate.py": ("accelerate",),
    "with_lightning.py": ("lightning",),
    "with_trainer.py": ("transformers", "accelerate"),
}


def test_the_page_shows_every_script():
    written = {path.name for path in SCRIPTS.glob("*.py")}
    assert written == {*HELPERS, *PRINTED, *CHECKPOINTS}
    assert set(torch_runtimes.SCRIPTS) == set(CHECKPOINTS)
    assert set(re.findall(r"literalinclude} \.\./examples/torch_training/(\w+\.py)", PAGE)) == written


@pytest.fixture
def _other_threads_stay():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("_other_threads_stay")
@pytest.mark.parametrize("name", PRINTED)
def test_a_script_trains_as_without_a_plan(name, tmp_path, monkeypatch, capsys):
    """In this process, since each import of PyTorch takes seconds."""
    for needed in NEEDS.get(name, ()):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(SCRIPTS)
    monkeypatch.delitem(sys.modules, "network", raising=False)
    runpy.run_path(str(SCRIPTS / name), run_name="__main__")
    assert re.search(PRINTED[name], capsys.readouterr().out, re.MULTILINE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [pytest.param(x, marks=[] if x in QUICK else pytest.mark.slow) for x in CHECKPOINTS])
def test_a_plan_per_block_trains_as_without_one_within_its_peak(name):
    """`python -m pytest -m "slow or not slow" tests/interop/test_torch_training.py` runs all of them."""
    for needed in CHECKPOINTS[name]:
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    torch_runtimes.check(name, torch_runtimes.measured(name))


def test_accelerate_and_the_trainer_know_no_backend_by_the_name_remat():
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    with pytest.raises(ValueError, match="'REMAT' is not a valid DynamoBackend"):
        accelerate.Accelerator(cpu=True, dynamo_backend="remat")


def test_the_trainer_reads_the_arguments_of_a_model_that_torch_compile_has_wrapped_as_none():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    config = transformers.LlamaConfig(
        vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1
    )
    wrapped = torch.compile(transformers.LlamaForCausalLM(config), backend="remat", options={"budget": "60%"})
    arguments = transformers.TrainingArguments(use_cpu=True, report_to=[], save_strategy="no")
    data = [{"input_ids": torch.zeros(4, dtype=torch.long), "labels": torch.zeros(4, dtype=torch.long)}]
    with pytest.raises(ValueError, match="The batch received was empty"):
        transformers.Trainer(wrapped, arguments, train_dataset=data).train()


@pytest.mark.parametrize("name", ["remat", "aot_eager"])
def test_a_compiled_module_follows_the_rate_of_a_dropout_and_no_hook_of_a_submodule(name):
    chosen = backend("100%") if name == "remat" else name
    eager = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 8))
    compiled, x = torch.compile(eager, backend=chosen, dynamic=False), torch.ones(4, 8)

    def results():
        for call in (compiled, eager):
            torch.manual_seed(1)
            yield call(x)

    assert torch.equal(*results())
    eager[1].p = 0.5
    assert torch.equal(*results())
    eager[2].register_forward_hook(lambda module, inputs, result: 2 * result)
    once, doubled = results()
    assert torch.equal(2 * once, doubled)


def printed(outputs):
    return "".join(line for output in outputs if output["output_type"] == "stream" for line in output["text"])


def test_the_cells_print_what_is_kept_and_accept_the_answers():
    """`python docs/notebooks.py` keeps it."""
    solutions = {"answers": {}}
    for cell in page_cells(FOLDER / "solutions.md", heading="Tutorial 6"):
        notebooks.run_cell(cell, solutions)
    answers, exercises, namespace = solutions["answers"], 0, {"__name__": "notebook"}
    notebook = json.loads((FOLDER / "6_pytorch.ipynb").read_text(encoding="utf-8"))
    kept = "".join(printed(cell["outputs"]) for cell in notebooks.code_cells(notebook))
    same_version = re.search("^PyTorch (.*)$", kept, re.MULTILINE)[1] == torch.__version__
    for cell in notebooks.code_cells(notebook):
        source = "".join(cell["source"])
        outputs = notebooks.run_cell(source, dict(namespace) if TO_FILL_IN in source else namespace)
        plt.close("all")
        if same_version:
            assert printed(outputs) == printed(cell["outputs"]), source
            assert [output["output_type"] for output in outputs] == [kind["output_type"] for kind in cell["outputs"]]
        if TO_FILL_IN in source:
            exercises += 1
            filled_in = source.replace(TO_FILL_IN, f"prediction = {answers[f'6.{exercises}']}")
            assert printed(notebooks.run_cell(filled_in, namespace)) == "right\n", source
    assert exercises == len(answers)


def test_a_model_is_trained_in_three_ways():
    about, eager, ours, theirs = torch_steps.results(quick=True)
    assert set(about) == {"torch", "cuda", "card"}
    assert [r["method"] for r in (eager, ours, theirs)] == ["eager", "remat 50%", "activation_memory_budget"]
    assert ours["loss"] == eager["loss"]
    assert abs(ours["predicted_peak"] - ours["peak"]) <= 4  # the gradient of the loss
    assert ours["peak"] < eager["peak"]
    assert 0 <= theirs["share"] < 1
    assert ours["slowdown"] > 0
    assert ours["gradient_difference"] == 0
    assert "gradient_difference" not in theirs  # other dropout masks


def test_a_wrong_gradient_of_one_parameter_is_seen():
    small, large, rounding = torch.ones(2), torch.full((3,), 100.0), torch.full((1,), 1e-9)
    expected = [small, large, rounding]
    assert torch_steps.gradient_difference(expected, expected) == 0
    assert torch_steps.gradient_difference([2 * small, large, rounding], expected) == pytest.approx(1)
    assert torch_steps.gradient_difference([small, large, -rounding], expected) < 1e-6
    assert torch_steps.gradient_difference([small, large], expected) == math.inf
    assert torch_steps.gradient_difference([small * math.nan, large, rounding], expected) == math.inf


def test_what_cannot_run_says_why(monkeypatch):
    training = torch_steps.Training.of("small gpt")

    def refuse(*inputs):
        raise RuntimeError("no memory\nat all")

    assert training.measured(refuse) == {"error": "RuntimeError: no memory"}
    assert torch_steps.recorded("small gpt", "eager", lambda training: {"error": "no"}, {"seconds": 1.0}) == {
        "model": "small gpt",
        "method": "eager",
        "error": "no",
    }
