"""Fine-tune a small Llama to turn spoken wishes into the calls of a smart home."""

import random
from collections.abc import Iterator

from datasets import Dataset
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import SFTConfig, SFTTrainer

ROOMS = "kitchen hall attic bedroom bathroom office garage cellar nursery porch pantry library".split()
DEVICES = {
    "lamp": ["on", "off", "dim", "warm", "cold"],
    "blind": ["up", "down", "half"],
    "heater": ["on", "off", "eco", "boost"],
    "speaker": ["play", "pause", "louder", "quieter"],
    "fan": ["slow", "fast", "off"],
    "door": ["lock", "unlock"],
    "vacuum": ["clean", "dock"],
}
OPENINGS = ["please", "could you", "i would like you to", "hey ,", "quickly", "when you can ,", ""]
TIMES = ["now", "tonight", "at dawn", "at noon", "in {} minutes", "at {} o'clock", "after {} hours"]
REASONS = [
    "because the guests of my sister arrive late",
    "since nobody sleeps there at the moment",
    "as the weather is going to turn quite cold",
    "before the delivery that we have been waiting for",
]


def wish(rng: random.Random) -> tuple[str, str]:
    """One wish in words, and the call that it means."""
    device = rng.choice(list(DEVICES))
    action, room = rng.choice(DEVICES[device]), rng.choice(ROOMS)
    time = rng.choice(TIMES).format(rng.randint(1, 60))
    words = f"{rng.choice(OPENINGS)} set the {room} {device} to {action} {time}"
    if rng.random() < 0.15:
        words += " " + rng.choice(REASONS)
    return words.strip(), f'{room} . {device} ( {action} , "{time}" )'


def conversation(rng: random.Random) -> str:
    """Mostly a single wish, now and then a whole routine."""
    count = 1 if rng.random() < 0.8 else rng.randint(2, 4)
    wishes = [wish(rng) for _ in range(count)]
    asked = " and then ".join(words for words, _ in wishes)
    called = " ; ".join(call for _, call in wishes)
    return f"user : {asked} house : {called}"


def conversations(count: int, seed: int) -> list[dict[str, str]]:
    rng = random.Random(seed)
    return [{"text": conversation(rng)} for _ in range(count)]


def texts(rows: list[dict[str, str]]) -> Iterator[str]:
    for row in rows:
        yield row["text"]


def build_tokenizer(rows: list[dict[str, str]], size: int = 1200) -> PreTrainedTokenizerFast:
    core = Tokenizer(models.BPE(unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\d"), behavior="isolated"),
            pre_tokenizers.Metaspace(),
        ]
    )
    core.decoder = decoders.Metaspace()
    core.train_from_iterator(
        texts(rows),
        trainers.BpeTrainer(vocab_size=size, special_tokens=["<unk>", "<pad>", "<eos>"], show_progress=False),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token="<unk>", pad_token="<pad>", eos_token="<eos>", model_max_length=128
    )


def build_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        use_cache=False,
    )
    return LlamaForCausalLM(config)


def settings() -> SFTConfig:
    return SFTConfig(
        output_dir="home_commands",
        dataset_text_field="text",
        max_length=128,
        per_device_train_batch_size=8,
        num_train_epochs=8,
        learning_rate=6e-4,
        lr_scheduler_type="cosine",
        warmup_steps=50,
        optim="adamw_torch_fused",
        bf16=False,
        gradient_checkpointing=False,
        logging_steps=50,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        use_cpu=True,
        seed=8,
    )


def main() -> None:
    set_seed(8)
    rows = conversations(8000, seed=8)
    tokenizer = build_tokenizer(rows)
    trainer = SFTTrainer(
        model=build_model(tokenizer),
        args=settings(),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    trainer.train()


if __name__ == "__main__":
    main()
