"""Bytes that one training step of a Llama of transformers takes on the CPU: eager, checkpointed, torch's planner, ours.

`python -m tests.benchmarks.torch_llama` writes docs/results/torch_llama.txt, the table of docs/torch_training.md.
"""

import torch
from torch._functorch import config
from transformers import LlamaConfig, LlamaForCausalLM

from remat_algos.interop.torch import backend
from remat_algos.interop.torch.storages import allocator_peak
from tests.benchmarks.occasion import RESULTS, Occasion

SHARES = (1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0)  # of the saved bytes, for torch
BUDGETS = ("100%", "80%", "60%", "50%", "40%", "least")
BATCH, TOKENS, VOCABULARY = 8, 128, 256


def new_model():
    """A Llama of four layers with the same numbers each time."""
    torch.manual_seed(1)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=64,
            intermediate_size=176,
            num_hidden_layers=4,
            num_attention_heads=4,
            use_cache=False,
        )
    )
    return model.train()


def measured(model, call, tokens):
    """The loss and the gradients of a step, and the allocator's peak in the next one."""

    def step():
        loss = call(input_ids=tokens, labels=tokens).loss
        loss.backward()
        return loss.detach()

    results = [step(), *(parameter.grad for parameter in model.parameters())]
    model.zero_grad()
    return results, allocator_peak(step, [*model.parameters(), *model.buffers(), tokens])


def planned(tokens, budget):
    """Results and the peak by our plan, and its report."""
    torch._dynamo.reset()
    model, chosen = new_model(), backend(budget)
    if budget == "today":
        model.gradient_checkpointing_enable()
    results, peak = measured(model, torch.compile(model, backend=chosen, dynamic=False), tokens)
    (report,) = chosen.reports
    return results, peak, report


def partitioned(tokens, share):
    """Results and the peak by torch's planner, of operators that are not fused."""
    torch._dynamo.reset()
    model = new_model()
    with config.patch(activation_memory_budget=share):
        return measured(model, torch.compile(model, backend="aot_eager", dynamic=False), tokens)


def rows(tokens):
    """What runs, the peak of the allocator in bytes, what is simulated or None, and whether results equal eager's."""
    model = new_model()
    expected, peak = measured(model, model, tokens)
    yield "eager", peak, None, True

    def equal(results):
        return all(map(torch.equal, results, expected))

    model = new_model()
    model.gradient_checkpointing_enable()
    results, peak = measured(model, model, tokens)
    ours, our_peak, report = planned(tokens, "today")
    yield "`gradient_checkpointing_enable()`", peak, report.references.as_is, equal(results)
    yield 'the same model, `"remat"`, budget `"today"`', our_peak, report.plan.simulation, equal(ours)
    for share in SHARES:
        results, peak = partitioned(tokens, share)
        yield f"`activation_memory_budget` {share}", peak, None, equal(results)
    for budget in BUDGETS:
        results, peak, report = planned(tokens, budget)
        yield f'`"remat"`, budget `"{budget}"`', peak, report.plan.simulation, equal(results)


def main():
    """Measure, print and write."""
    torch.set_num_threads(1)
    tokens = torch.randint(VOCABULARY, (BATCH, TOKENS), generator=torch.Generator().manual_seed(2))
    lines = [
        Occasion.now().paragraph("python -m tests.benchmarks.torch_llama"),
        "",
        "One thread, float32.",
        "",
        "| one step | allocator's peak | simulated | more compute | equal to eager |",
        "| --- | --- | --- | --- | --- |",
    ]
    print("\n".join(lines))
    for name, peak, simulation, equal in rows(tokens):
        simulated = overhead = ""
        if simulation is not None:
            simulated = f"{simulation.peak_memory / 1e6:.2f} MB"
            overhead = f"{100 * simulation.overhead / simulation.graph.needed_compute:.1f} %"
        same = "every bit" if equal else "no"
        lines.append(f"| {name} | {peak / 1e6:.2f} MB | {simulated} | {overhead} | {same} |")
        print(lines[-1], flush=True)
    (RESULTS / "torch_llama.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
