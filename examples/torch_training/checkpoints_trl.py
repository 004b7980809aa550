"""TRL's SFTTrainer: the same keyword; its `gradient_checkpointing` is on by default."""

import tempfile

import torch
from compare import compare
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

from remat_algos.interop.torch import plan_checkpoints

torch.set_num_threads(1)
WORDS = {word: i for i, word in enumerate(["<pad>", "<eos>", "<unk>", *"abcdefghijklmnopqrstuvwxyz"])}
TEXTS = [" ".join(chr(97 + (i * j) % 26) for j in range(128)) for i in range(1, 17)]


def new_tokenizer():
    tokenizer = Tokenizer(models.WordLevel(WORDS, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def new_model():
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=4,
        num_attention_heads=4,
        use_cache=False,
    )
    return LlamaForCausalLM(config)


def train(model, **checkpoints):
    with tempfile.TemporaryDirectory() as folder:
        config = SFTConfig(
            folder,
            use_cpu=True,
            bf16=False,
            max_steps=3,
            per_device_train_batch_size=4,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            **checkpoints,
        )
        data = Dataset.from_dict({"text": TEXTS})
        SFTTrainer(model, config, train_dataset=data, processing_class=new_tokenizer()).train()
    return model


tokens = torch.tensor(new_tokenizer()(TEXTS[:4])["input_ids"])
model, inputs = new_model(), {"input_ids": tokens, "labels": tokens}
plan = plan_checkpoints(model, inputs, "60%")
train(model, gradient_checkpointing=True, gradient_checkpointing_kwargs=plan.kwargs)
expected = train(new_model(), gradient_checkpointing=False)
compare(plan, model, expected, lambda model: model(**inputs).loss.backward())
