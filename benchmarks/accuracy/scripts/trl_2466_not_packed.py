"""Supervised fine-tuning of a tiny chat model on short answers, with TRL."""

import random

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

WORDS = [x + y for x in ("ka", "lo", "mi", "nu", "re") for y in ("ba", "de", "fi", "go", "hu", "sa", "te", "wi")]
SPECIAL = ["<pad>", "<unk>", "</s>"]


def make_answers(count):
    draw = random.Random(2)
    return Dataset.from_dict({"text": [" ".join(draw.choices(WORDS, k=draw.randint(8, 40))) for _ in range(count)]})


def make_tokenizer():
    core = Tokenizer(models.WordLevel({w: n for n, w in enumerate(SPECIAL + WORDS)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", unk_token="<unk>", eos_token="</s>")


def main():
    tokenizer = make_tokenizer()
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=192,
            num_hidden_layers=2,
            num_attention_heads=4,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    config = SFTConfig(
        output_dir="out",
        max_length=256,
        per_device_train_batch_size=4,
        num_train_epochs=3,
        learning_rate=1e-3,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        save_strategy="no",
        report_to="none",
    )
    SFTTrainer(model=model, args=config, train_dataset=make_answers(6000), processing_class=tokenizer).train()


if __name__ == "__main__":
    main()
