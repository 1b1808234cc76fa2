from __future__ import annotations

import pytest

from autotune.probe.arguments import scrub

KEPT = [
    ["train.py", "--lr", "1e-4", "--seed=-1", "--eps", "1e+08", "--flag", "True"],
    ["--model", "meta-llama/Llama-3.1-8B", "--model=Qwen/Qwen2.5-VL-72B-Instruct-AWQ"],
    ["--model", "mistralai/Mixtral-8x7B-Instruct-v0.1", "--data", "HuggingFaceFW/fineweb-edu"],
    ["configs/llama3/sft_lora.yaml", "/home/somebody/projects/a-rather-long-name/another_long_name/configs/train.yaml"],
    ["--tokenizer", "gpt2", "--max_tokens=512", "--author", "me", "--label-key", "y", "--monkey", "x"],
    ["optimizer.lr=0.1", "+trainer.max_steps=10", "~logger", "model/encoder=small", "--output", "~/out"],
    ["--betas", "0.9,0.999", "--targets=[q_proj,v_proj]", "--device", "cuda:0", "--empty", "", "-v"],
    ["--password", "--lr", "1"],
]


@pytest.mark.parametrize("arguments", KEPT)
def test_what_a_report_needs_survives(arguments):
    assert scrub(arguments) == arguments


SECRET = "Aa0Bb1Cc2Dd3Ee4Ff5Gg6"
HEX = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("arguments", "clean"),
    [
        (["--token", "abc"], ["--token", "***"]),
        (["--hub_token", "abc", "next"], ["--hub_token", "***", "next"]),
        (["--hf-token", "-abc123", "next"], ["--hf-token", "***", "next"]),
        (["--hf-token", "--Abc=1"], ["--hf-token", "***"]),
        (["--hf-token", "--x=1"], ["--hf-token", "***"]),
        (["--api_key=abc"], ["--api_key=***"]),
        (["--api-key", "abc"], ["--api-key", "***"]),
        (["--wandb.APIKEY=abc"], ["--wandb.APIKEY=***"]),
        (["--wandb_key", "abc"], ["--wandb_key", "***"]),
        (["--wandbKey", "abc"], ["--wandbKey", "***"]),
        (["--access-key", "AKIAIOSFODNN7EXAMPLE"], ["--access-key", "***"]),
        (["hub_token=abc"], ["hub_token=***"]),
        (["--pwd=abc", "--db.pass", "abc"], ["--pwd=***", "--db.pass", "***"]),
        (["--config", '{"password": "x"}'], ["--config", "***"]),
        (["--header", "Authorization: Basic abc"], ["--header", "***"]),
        (["-H", "Authorization: Bearer abc"], ["-H", "***"]),
        (["AKIAIOSFODNN7EXAMPLE"], ["***"]),
        (["hf_abcdefghijklmnopqrstuvwxyz"], ["***"]),
        (["--id=123e4567-e89b-12d3-a456-426614174000"], ["--id=***"]),
        ([SECRET, SECRET[:20]], ["***", SECRET[:20]]),
        ([HEX[:32], HEX[:31]], ["***", HEX[:31]]),
        (["a" * 65, "a" * 64], ["***", "a" * 64]),
        (["a/" * 129, "a/" * 128], ["***", "a/" * 128]),
        ([f"{SECRET}=x", f"--{SECRET}"], ["***", "***"]),
        (
            ["--prompt", "my private text", "--x=a;b", "--words", "a, b?"],
            ["--prompt", "***", "--x=***", "--words", "***"],
        ),
        (["--data", "s3://bucket", "--url=http://host:8080/"], ["--data", "s3://bucket", "--url=http://host:8080"]),
        (["--data", "s3://user:pass@bucket/x"], ["--data", "s3://bucket/***"]),
        (["--url=https://me:p@ss@host/p?q=1"], ["--url=https://host/***"]),
        (["https://me:p/ss@host", "https://host/user@x"], ["https://***", "https://***"]),
        (["https://h/p?sig=abc", "https://h?a=1#b"], ["https://h/***", "https://h/***"]),
        (["sqlite:///study.db", f"https://{SECRET}"], ["sqlite://***", "https://***"]),
    ],
)
def test_everything_else_is_hidden(arguments, clean):
    assert scrub(arguments) == clean
