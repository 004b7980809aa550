"""Models of transformers, from small configurations with random weights."""

from functools import partial

import torch

from tests.interop.torch_zoo.cases import AOT_EAGER, case

of_transformers = partial(case, library="transformers")
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def labelled(batch=4, length=24, count=100):
    tokens = torch.randint(3, count, (batch, length))
    return {"input_ids": tokens, "labels": tokens}


@of_transformers("rotary places, grouped queries", reference=AOT_EAGER)
def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**SMALL, num_key_value_heads=2, vocab_size=100, use_cache=False)
    return LlamaForCausalLM(config), (), labelled()


@of_transformers("gradient_checkpointing_enable", reference=AOT_EAGER)
def llama_checkpointed():
    model, *batch = llama()
    model.gradient_checkpointing_enable()
    return model, *batch


@of_transformers("dropout, tied weights, two graphs")
def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 100, "n_positions": 24}
    return GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, use_cache=False)), (), labelled()


@of_transformers("padding that is masked")
def bert():
    from transformers import BertConfig, BertForMaskedLM

    masked = (torch.arange(24) < torch.randint(8, 25, (4, 1))).long()
    config = BertConfig(**SMALL, vocab_size=100, max_position_embeddings=24)
    return BertForMaskedLM(config), (), labelled() | {"attention_mask": masked}


@of_transformers("buckets of distances, encoder and decoder")
def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 100}
    config = T5Config(**sizes, decoder_start_token_id=0, use_cache=False)
    return T5ForConditionalGeneration(config), (), labelled()


@of_transformers("sound by convolutions, encoder and decoder")
def whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        **{"vocab_size": 100, "d_model": 32, "num_mel_bins": 16, "max_source_positions": 32, "pad_token_id": 0},
        **{"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4},
        **{"encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "bos_token_id": 1, "eos_token_id": 2},
        **{"decoder_start_token_id": 1, "use_cache": False, "dropout": 0.1},
    )
    sound = {"input_features": torch.randn(4, 16, 64), "labels": torch.randint(3, 100, (4, 12))}
    return WhisperForConditionalGeneration(config), (), sound


@of_transformers("patches of an image, dropout")
def vit():
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(**SMALL, image_size=32, patch_size=8, num_labels=10, hidden_dropout_prob=0.1)
    batch = {"pixel_values": torch.randn(4, 3, 32, 32), "labels": torch.randint(10, (4,))}
    return ViTForImageClassification(config), (), batch


@of_transformers("tokens sorted by their experts", reference=AOT_EAGER)
def mixtral():
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(**SMALL, num_key_value_heads=2, vocab_size=100, num_local_experts=4, use_cache=False)
    return MixtralForCausalLM(config), (), labelled()


@of_transformers("the selective scan of transformers", reference=AOT_EAGER)
def mamba():
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(hidden_size=32, num_hidden_layers=2, state_size=4, vocab_size=100, use_cache=False)
    return MambaForCausalLM(config), (), labelled(2, 12)
