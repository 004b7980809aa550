"""The Trainer of transformers: apply the plan to the model before passing it to the Trainer."""

import tempfile

import torch
from network import check
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


def new_model():
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=176,
        num_hidden_layers=2,
        num_attention_heads=4,
        use_cache=False,
    )
    return LlamaForCausalLM(config)


def train(model):
    torch.manual_seed(2)
    tokens = torch.randint(256, (16, 64))
    data = [{"input_ids": each, "labels": each} for each in tokens]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            use_cpu=True,
            max_steps=4,
            per_device_train_batch_size=4,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            gradient_accumulation_steps=2,
        )
        Trainer(model, arguments, train_dataset=data).train()
    return model


model = new_model()
model.compile(backend="remat", options={"budget": "60%"}, dynamic=False)
check(train(model), train(new_model()))
