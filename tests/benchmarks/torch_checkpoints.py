"""Plans per block of ten models of transformers: gradients, peaks, overhead beside `every_n_layers`, cost of Python.

`python -m tests.benchmarks.torch_checkpoints` writes docs/results/torch_checkpoints.txt, tables of
docs/torch_training.md, and ends with the figures that miss what is wanted; names of models choose, and write nothing.
"""

import contextlib
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
import transformers
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
from transformers.modeling_layers import GradientCheckpointingLayer

import remat_algos as ra
from remat_algos.errors import BudgetError
from remat_algos.interop.torch import plan_checkpoints
from remat_algos.interop.torch.checkpoints import CheckpointPlan
from remat_algos.interop.torch.eager_capture import EagerCapture, capture_step
from remat_algos.interop.torch.selective import savable
from remat_algos.interop.torch.storages import allocator_peak
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.block_policies import plan_policy
from remat_algos.plan.blocks import Blocks, Holds
from remat_algos.plan.policy import Policy, Treatment
from tests.benchmarks.occasion import RESULTS, Occasion

LAYERS, WIDTH, HEADS, BATCH, TOKENS, VOCABULARY = 4, 128, 4, 4, 128, 256
STEPS = (0, 1 / 4, 1 / 2, 3 / 4)
"""Budgets: the lowest peak found, and this share of the way from there to the peak without a plan."""
EVERY = (1, 2, 4)
LARGE = {
    "llama_7b": ("layers.*", "self_attn", "mlp"),
    "gpt2_xl": ("h.*", "attn", "mlp"),
    "vit_h_14": ("encoder.layers.*", "self_attention", "mlp"),
    "mixtral_8x7b": ("layers.*", "self_attn", "moe"),
}
"""Models of the zoo: their layers, and the modules of a layer; policies are for layers, or for these."""
DEVICE = "h100-sxm"
MOST_ABOVE, RATIO, PYTHON = 1.03, 0.6, 1.05  # wanted
FLOOR = 0.01  # a smaller ratio of overheads counts as this in the mean
COUNTS = 9  # steps of each kind, by turns, for the cost of Python

WITHIN = """\
| model | MB without a plan | predicted | measured | prediction above | gradients equal |
| --- | --- | --- | --- | --- | --- |"""
BESIDE = """\
| model | every_n_layers | its peak | its overhead | of the policy | ratio |
| --- | --- | --- | --- | --- | --- |"""

PYTHON_COST = """\
| tokens | no checkpoint | a plan | PyTorch's own contexts, MUST_SAVE |
| --- | --- | --- | --- |"""
SIZES = ((BATCH, TOKENS), (8, 256))

Inputs = dict[str, torch.Tensor]


def _text() -> Inputs:
    tokens = torch.randint(3, VOCABULARY, (BATCH, TOKENS), generator=torch.Generator().manual_seed(2))
    return {"input_ids": tokens, "labels": tokens}


def _decoder(kind: str, layers: int = LAYERS, width: int = WIDTH, heads: int = HEADS, **more: Any) -> torch.nn.Module:
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=11 * width // 4,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        use_cache=False,
        **more,
    )
    return getattr(transformers, f"{kind}ForCausalLM")(config)


def _vit() -> tuple[torch.nn.Module, Inputs]:
    config = transformers.ViTConfig(
        hidden_size=WIDTH,
        intermediate_size=4 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        image_size=64,
        patch_size=8,
        num_labels=10,
    )
    pixels = torch.randn(8, 3, 64, 64, generator=torch.Generator().manual_seed(2))
    return transformers.ViTForImageClassification(config), {"pixel_values": pixels, "labels": torch.arange(8)}


def _bert() -> tuple[torch.nn.Module, Inputs]:
    config = transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=4 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
    )
    inputs = _text()
    return transformers.BertForMaskedLM(config), inputs | {"attention_mask": torch.ones_like(inputs["input_ids"])}


def _t5() -> tuple[torch.nn.Module, Inputs]:
    config = transformers.T5Config(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        d_kv=WIDTH // HEADS,
        d_ff=4 * WIDTH,
        num_layers=LAYERS,
        num_heads=HEADS,
        use_cache=False,
        decoder_start_token_id=0,
    )
    return transformers.T5ForConditionalGeneration(config), _text()


def _whisper() -> tuple[torch.nn.Module, Inputs]:
    config = transformers.WhisperConfig(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=4 * WIDTH,
        decoder_ffn_dim=4 * WIDTH,
        num_mel_bins=16,
        max_source_positions=TOKENS,
        max_target_positions=TOKENS,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    features = torch.randn(BATCH, 16, 2 * TOKENS, generator=torch.Generator().manual_seed(2))
    return transformers.WhisperForConditionalGeneration(config), {
        "input_features": features,
        "labels": _text()["labels"],
    }


def _lora() -> tuple[torch.nn.Module, Inputs]:
    import peft

    config = peft.LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    return peft.get_peft_model(_decoder("Llama"), config), _text()


MODELS: dict[str, Callable[[], tuple[torch.nn.Module, Inputs]]] = {
    "Llama": lambda: (_decoder("Llama"), _text()),
    "Qwen3": lambda: (_decoder("Qwen3", num_key_value_heads=2, head_dim=32), _text()),
    "Gemma": lambda: (_decoder("Gemma", num_key_value_heads=2, head_dim=32), _text()),
    "Mixtral": lambda: (_decoder("Mixtral", num_key_value_heads=2, num_local_experts=4), _text()),
    "ViT": _vit,
    "BERT": _bert,
    "T5": _t5,
    "Whisper": _whisper,
    "GPT-NeoX": lambda: (_decoder("GPTNeoX", attention_dropout=0.1, hidden_dropout=0.1), _text()),
    "Llama + LoRA": _lora,
}


def new_model(name: str) -> tuple[torch.nn.Module, Inputs]:
    """Return a model with the same numbers each time, in training, and its inputs."""
    torch.manual_seed(1)
    model, inputs = MODELS[name]()
    return model.train(), inputs


def step(model: torch.nn.Module, inputs: Inputs) -> None:
    """One forward and backward part, from one seed."""
    torch.manual_seed(3)
    model(**inputs).loss.backward()


def run(model: torch.nn.Module, inputs: Inputs) -> tuple[list[torch.Tensor], int]:
    """Gradients of a step, and the allocator's peak in the next one."""
    model.zero_grad(set_to_none=True)
    step(model, inputs)
    gradients = [each.grad for each in model.parameters() if each.grad is not None]
    model.zero_grad(set_to_none=True)
    known = [*model.parameters(), *model.buffers(), *inputs.values()]
    return gradients, allocator_peak(lambda: step(model, inputs), known)


def layers(model: torch.nn.Module) -> list[str]:
    """Module paths of the layers that transformers checkpoints, in the order in which it counts them."""
    return [name for name, module in model.named_modules() if isinstance(module, GradientCheckpointingLayer)]


def modules(model: torch.nn.Module, names: list[str]) -> list[str]:
    """Module paths of the children of layers; of a list of modules those of its entries."""
    paths = [f"{name}.{child}" for name in names for child, _ in model.get_submodule(name).named_children()]
    lists = [name for name in paths if isinstance(model.get_submodule(name), torch.nn.ModuleList)]
    return [name for name in paths if name not in lists] + (modules(model, lists) if lists else [])


# ---------------------------------------------------------------- within a budget


def within_budgets(name: str, missed: list[str]) -> Iterator[str]:
    """Rows of a model: plans at four budgets, beside what the allocator counts."""
    model, inputs = new_model(name)
    expected, base = run(model, inputs)
    lowest = plan_checkpoints(model, inputs, "least", blocks=layers(model))
    for share in STEPS:
        budget = int(lowest.peak_memory + share * (base - lowest.peak_memory))
        plan = plan_checkpoints(model, inputs, budget, blocks=layers(model)) if share else lowest
        with plan.apply(model):
            gradients, peak = run(model, inputs)
        equal = len(gradients) == len(expected) and all(map(torch.equal, gradients, expected))
        above = plan.peak_memory / peak
        place = f"{name} at {100 * plan.peak_memory / base:.0f} %"
        if not equal:
            missed.append(f"{place}: gradients differ")
        if not 1 <= above <= MOST_ABOVE:
            missed.append(f"{place}: predicted {plan.peak_memory}, measured {peak}")
        figures = f"{base / 1e6:.2f} | {plan.peak_memory / 1e6:.3f} | {peak / 1e6:.3f} | {100 * (above - 1):+.2f} %"
        yield f"| {name} | {figures} | {'every bit' if equal else 'no'} |"


# ---------------------------------------------------------------- beside every_n_layers


def beside_every(name: str, ratios: list[float], missed: list[str]) -> Iterator[str]:
    """Rows of a model: `every_n_layers`, and the policy for the same simulated peak."""
    model, inputs = new_model(name)
    names = layers(model)
    captured = [capture_step(model, inputs, blocks=each) for each in (names, modules(model, names))]
    whole = captured[0]
    for n in EVERY:
        chosen = {each for i, each in enumerate(names) if i % n == 0}
        decisions = ["recompute" if each in chosen else "keep" for each in whole.blocks.names]
        nothing = np.zeros(whole.graph.n_nodes, bool)
        today = Policy.of(whole.graph, whole.blocks, decisions, nothing, holds=whole.holds)
        fresh, _ = new_model(name)
        fresh.activation_checkpointing_enable(every_n_layers=n)
        _, peak = run(fresh, inputs)
        found = [_within(each.graph, today.peak_memory, each.blocks, each.holds) for each in captured]
        yield row_beside(name, n, today, peak, found, ratios, missed)


def large(name: str, ratios: list[float], missed: list[str]) -> Iterator[str]:
    """Rows of a model of the zoo in its own size, with the times of a roofline, nothing run."""
    graph = ra.differentiate(f"model:{name}?cost=roofline&device={DEVICE}&dtype=bfloat16")
    layer, *modules = LARGE[name]
    blocks = Blocks.of(graph, layer)
    for n in EVERY:
        decisions = ["keep" if i % n else "recompute" for i in range(len(blocks))]
        today = Policy.of(graph, blocks, decisions, np.zeros(graph.n_nodes, bool))
        cuts = (layer, ",".join(f"{layer}.{module}" for module in modules))
        found = [_within(graph, today.peak_memory, cut) for cut in cuts]
        yield row_beside(f"{name}, {len(blocks)} layers", n, today, None, found, ratios, missed)


def _within(graph: ComputationGraph, limit: int, blocks: Blocks | str, holds: Holds | None = None) -> Policy | None:
    with contextlib.suppress(BudgetError):
        return plan_policy(graph, limit, blocks, holds=holds)
    return None


def row_beside(
    name: str,
    n: int,
    today: Policy,
    measured: int | None,
    found: list[Policy | None],
    ratios: list[float],
    missed: list[str],
) -> str:
    """Return a row of `every_n_layers` and the cheapest policy for its peak; the ratio of the overheads is kept."""
    one, scale = today.graph.needed_compute, 1e6 if measured else 1e9
    peaks = f"{today.peak_memory / scale:.2f} {'MB' if measured else 'GB'}"
    if measured:
        peaks += f", measured {measured / scale:.2f}"
    if found[0] is None:
        missed.append(f"{name}, every_n_layers={n}: no policy of layers within its peak")
    overhead = min((each.overhead for each in found if each is not None), default=math.inf)
    ratio = overhead / today.overhead
    ratios.append(ratio)
    if ratio > 1:
        missed.append(f"{name}, every_n_layers={n}: overhead {ratio:.2f} times as high")
    shares = " | ".join(f"{100 * each / one:.2f} %" for each in (today.overhead, overhead))
    return f"| {name} | {n} | {peaks} | {shares} | {ratio:.2f} |"


def mean_ratio(ratios: list[float], missed: list[str]) -> str:
    """Return the sentence of the geometric mean; a ratio below 0.01 counts as 0.01."""
    mean = math.exp(statistics.fmean(math.log(max(each, FLOOR)) for each in ratios))
    if mean > RATIO:
        missed.append(f"ratio of overheads {mean:.2f}, wanted {RATIO}")
    return f"\nThe ratio of the overheads is {mean:.2f} in the geometric mean, and {max(ratios):.2f} at most.\n"


# ---------------------------------------------------------------- the cost of Python


def python_cost(batch: int, tokens: int) -> dict[str, float]:
    """Median CPU seconds of a step of a Llama of 8 layers and width 256, by how its outputs are saved."""
    torch.manual_seed(1)
    model = _decoder("Llama", layers=8, width=256, heads=8).train()
    inputs = dict.fromkeys(("input_ids", "labels"), torch.randint(3, VOCABULARY, (batch, tokens)))
    plan = save_all(capture_step(model, inputs, blocks=layers(model)))
    seconds: dict[str, list[float]] = {"no checkpoint": [], "plan": [], "PyTorch": []}
    for kind in list(seconds) * (COUNTS + 1):
        with contextlib.ExitStack() as applied:
            if kind == "plan":
                applied.enter_context(plan.apply(model))
            elif kind == "PyTorch":
                settings = {"use_reentrant": False, "context_fn": partial(create_selective_checkpoint_contexts, _save)}
                model.activation_checkpointing_enable(activation_checkpointing_kwargs=settings)
                applied.callback(model.activation_checkpointing_disable)
            model.zero_grad(set_to_none=True)
            begin = time.process_time()
            step(model, inputs)
            seconds[kind].append(time.process_time() - begin)
    return {kind: statistics.median(found[1:]) for kind, found in seconds.items()}


def _save(context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE


def save_all(captured: EagerCapture) -> CheckpointPlan:
    """Checkpoint every block, and save the outputs of all its operators."""
    treatments = []
    for block, members in zip(captured.blocks.names, captured.blocks.members, strict=True):
        operators = tuple(
            f"{captured.paths[v].removeprefix(block).removeprefix('.')}::{captured.overloads[v]}#{captured.counts[v]}"
            for v in members.tolist()
            if savable(captured.overloads[v])
        )
        treatments.append(Treatment(block, "recompute", operators))
    return CheckpointPlan(tuple(treatments))


def lines(names: list[str], missed: list[str]) -> Iterator[str]:
    """Yield the lines of the page, as they are measured."""
    yield Occasion.now().paragraph("python -m tests.benchmarks.torch_checkpoints")
    yield f"\n{LAYERS} layers of width {WIDTH}, {BATCH} x {TOKENS} tokens, float32 on a CPU with one thread:\n"
    yield WITHIN
    for name in names or MODELS:
        yield from within_budgets(name, missed)
    yield "\nOverheads are simulated, as shares of one step. The policy has at most the simulated peak of its row,"
    yield "with checkpoints around layers or around the modules of layers:\n"
    yield BESIDE
    ratios: list[float] = []
    for name in names or MODELS:
        yield from beside_every(name, ratios, missed)
    yield mean_ratio(ratios, missed)
    if not names:
        yield f"Models of the zoo in bfloat16, times of a roofline of {DEVICE}, simulated as eager PyTorch runs them:\n"
        yield BESIDE
        ratios = []
        for name in LARGE:
            yield from large(name, ratios, missed)
        yield mean_ratio(ratios, missed)
    yield f"CPU time of a step with every output saved, a Llama of 8 layers of width 256, medians of {COUNTS} steps:\n"
    yield PYTHON_COST
    for batch, tokens in SIZES:
        found = python_cost(batch, tokens)
        without = found["no checkpoint"]
        if found["plan"] > PYTHON * without:
            missed.append(
                f"Python costs {found['plan'] / without:.3f} times a step of {batch} x {tokens}, wanted {PYTHON}"
            )
        ratios_of = " | ".join(f"{found[kind] / without:.3f} x" for kind in ("plan", "PyTorch"))
        yield f"| {batch} x {tokens} | {1000 * without:.0f} ms | {ratios_of} |"


def main(names: list[str]) -> None:
    """Measure, print and write; exit with what misses the wanted figures."""
    torch.set_num_threads(1)
    missed: list[str] = []
    kept = []
    for line in lines(names, missed):
        print(line, flush=True)
        kept.append(line)
    if not names:
        (RESULTS / "torch_checkpoints.txt").write_text("\n".join(kept) + "\n", encoding="utf-8")
    if missed:
        sys.exit("\nmissed:\n" + "\n".join(missed))


if __name__ == "__main__":
    main(sys.argv[1:])
