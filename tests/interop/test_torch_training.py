"""The scripts of docs/torch_training.md, and what that page says about frameworks around PyTorch."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from remat_algos.interop.torch import backend

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
    "frozen.py": r"^input 0 is float32\[8, 128\] on cpu, and was planned for as float32\[512, 128\] on cpu;",
    "static_buffers.py": r"^l_x_ was changed in place between .* computes .*tanh.* from it again; change it after",
}
NEEDS = {
    "with_accelerate.py": ("accelerate",),
    "with_lightning.py": ("lightning",),
    "with_trainer.py": ("transformers", "accelerate"),
}


def test_the_page_shows_every_script():
    written = {path.name for path in SCRIPTS.glob("*.py")}
    assert written == {"network.py", *PRINTED}
    assert set(re.findall(r"literalinclude} \.\./examples/torch_training/(\w+\.py)", PAGE)) == written


@pytest.mark.parametrize("name", PRINTED)
def test_a_script_trains_as_without_a_plan(name, tmp_path):
    for needed in NEEDS.get(name, ()):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    command = [sys.executable, SCRIPTS / name]
    done = subprocess.run(command, cwd=tmp_path, timeout=120, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(PRINTED[name], done.stdout, re.MULTILINE)
    assert list(tmp_path.iterdir()) == []


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
