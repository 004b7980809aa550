"""The Trainer of transformers with LoRA of peft: pass the plan as `activation_checkpointing_kwargs`."""

import tempfile

import torch
from compare import compare
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

from remat_algos.interop.torch import plan_checkpoints

torch.set_num_threads(1)
TOKENS = torch.randint(256, (16, 128), generator=torch.Generator().manual_seed(2))


def new_model():
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=4,
        num_attention_heads=4,
        use_cache=False,
    )
    model = get_peft_model(
        LlamaForCausalLM(config), LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    )
    model.enable_input_require_grads()  # needed for checkpoints
    return model


def train(model, **checkpoints):
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            use_cpu=True,
            max_steps=3,
            per_device_train_batch_size=4,
            report_to=[],
            disable_tqdm=True,
            **checkpoints,
        )
        data = [{"input_ids": each, "labels": each} for each in TOKENS]
        Trainer(model, arguments, train_dataset=data).train()
    return model


model, inputs = new_model(), {"input_ids": TOKENS[:4], "labels": TOKENS[:4]}
plan = plan_checkpoints(model, inputs, "60%")
train(model, activation_checkpointing=True, activation_checkpointing_kwargs=plan.kwargs)
compare(plan, model, train(new_model()), lambda model: model(**inputs).loss.backward())
