"""The product on a GPU: what it says of scripts with one fault each, beside their times by CUDA events.

`scripts/gpu/` holds the scripts; REPAIRS, what their authors would write instead. Each is run natively, as it is and
repaired; probed to its end, so that one run has both the probe's times and the script's own; and diagnosed, with
what-ifs. Rows are kept in --out and not measured again. Needs a GPU (exits 3 without): `--small` tries the scripts on
a CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import shutil
import signal
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import measuring

GPU_SCRIPTS = measuring.SCRIPTS / "gpu"
NO_GPU = 3
STEPS = {"decoded_images": 25, "pageable_clips": 40, "micro_batches": 15, "small_kernels": 100, "masked_rows": 40}
SOME_STEPS = 40

Edits = tuple[tuple[str, str], ...]
REPAIRS: dict[str, dict[str, Edits]] = {
    "runs_ahead": {},
    "side_stream": {},
    "decoded_images": {"workers": (("shuffle=True)", "shuffle=True, num_workers=12, pin_memory=True)"),)},
    "full_precision": {
        "tf32": (("torch.manual_seed(0)\n", 'torch.manual_seed(0)\ntorch.set_float32_matmul_precision("high")\n'),),
        "bf16": (
            (
                "    logits = model(batch_tokens)\n    loss = nn.functional.cross_entropy("
                "logits.flatten(0, 1), batch_tokens.flatten())\n",
                "    with torch.autocast(device, dtype=torch.bfloat16):\n        logits = model(batch_tokens)\n"
                "        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch_tokens.flatten())\n",
            ),
        ),
    },
    "norms_every_step": {"on_the_device": ((".norm().item()", ".norm()"),)},
    "masked_rows": {
        "weights": (
            ("            if mask.any():\n", ""),
            (
                "                output[mask] = expert(inputs[mask]) * top[mask].unsqueeze(-1)\n",
                "            output = output + expert(inputs) * (top * mask).unsqueeze(-1)\n",
            ),
        )
    },
    "written_attention": {
        "sdpa": (
            (
                "        scores = query @ key.transpose(-2, -1) / math.sqrt(width // heads)\n"
                "        scores = (scores + self.mask[:count, :count]).softmax(dim=-1)\n"
                "        mixed = scores.to(value.dtype) @ value\n",
                "        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)\n",
            ),
        )
    },
    "planar_convolutions": {
        "channels_last": (
            ("make_model().to(device)", "make_model().to(device, memory_format=torch.channels_last)"),
            ("device=device) for", "device=device).to(memory_format=torch.channels_last) for"),
        )
    },
    "small_kernels": {"compiled": (("Model().to(device)", "torch.compile(Model().to(device))"),)},
    "looped_optimizer": {"fused": (("foreach=False", "fused=True"),)},
    "recomputed": {"kept": (("checkpoint(layer, hidden, use_reentrant=False)", "layer(hidden)"),)},
    "pageable_clips": {
        "pinned": (
            ("num_workers=0 if args.small else 12", "num_workers=0 if args.small else 12, pin_memory=True"),
            ("clips.to(device), labels.to(device)", "clips.to(device, non_blocking=True), labels.to(device)"),
        )
    },
    "micro_batches": {
        "one_batch": (("MICRO_BATCH = 2", "MICRO_BATCH = 32"), ("ACCUMULATION = 16", "ACCUMULATION = 1"))
    },
}
"""By script and by name of the repair: (old text, new text) of its edits."""

KINDS = ("native", "probed", "diagnosed")


def write_script(case: str, repair: str, folder: Path) -> Path:
    """The script, with the edits of a repair, and the module beside it."""
    text = (GPU_SCRIPTS / f"{case}.py").read_text(encoding="utf-8")
    for old, new in REPAIRS[case][repair] if repair else ():
        if text.count(old) != 1:
            raise SystemExit(f"gpu: {case}: {repair}: the text to replace is there {text.count(old)} times")
        text = text.replace(old, new)
    shutil.copy(GPU_SCRIPTS / "timing.py", folder)
    script = folder / f"{case}.py"
    script.write_text(text, encoding="utf-8")
    return script


def native(case: str, repair: str, args: argparse.Namespace) -> measuring.Json:
    """The script's own times, in a fork of this process, which has imported torch."""
    with tempfile.TemporaryDirectory(prefix="gpu-") as name:
        script = write_script(case, repair, Path(name))
        pid = os.fork()
        if not pid:
            run_in_fork(script, own_words(case, Path(name), args))
        began = time.monotonic()
        while not os.waitpid(pid, os.WNOHANG)[0]:
            if time.monotonic() - began > args.limit:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        path = Path(name) / "result.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"failed": "no result"}


def run_in_fork(script: Path, words: list[str]) -> NoReturn:
    try:
        os.chdir(script.parent)
        sys.argv = [str(script), *words]
        sys.path.insert(0, str(script.parent))
        runpy.run_path(str(script), run_name="__main__")
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def probed(case: str, repair: str, args: argparse.Namespace) -> measuring.Json:
    """A run to its end with the probe attached over the measured steps: its own times, and the probe's."""
    with tempfile.TemporaryDirectory(prefix="gpu-") as name:
        script = write_script(case, repair, Path(name))
        words = own_words(case, Path(name), args)
        document, ended = measuring.diagnose(
            [sys.executable, str(script), *words],
            ["--keep-going", "--no-what-ifs", "--no-lock", "--warmup", "10", "--steps", str(steps_of(case, args))],
            cwd=Path(name),
            environ=os.environ,
            limit_s=args.limit,
        )
        if document is None:
            return {"failed": measuring.failure(ended), "err": ended.err[-3000:]}
        return {"own": result_of(ended, Path(name)), "document": document, "recordings": measuring.recordings(document)}


def diagnosed(case: str, repair: str, args: argparse.Namespace) -> measuring.Json:
    """`autotune diagnose`, as a user types it."""
    with tempfile.TemporaryDirectory(prefix="gpu-") as name:
        script = write_script(case, repair, Path(name))
        small = ["--small"] if args.small else []
        document, ended = measuring.diagnose(
            [sys.executable, str(script), *small],
            ["--no-lock"] if args.parallel > 1 else [],
            cwd=Path(name),
            environ=os.environ,
            limit_s=args.limit,
        )
        if document is None:
            return {"failed": measuring.failure(ended), "err": ended.err[-3000:], "wall_s": ended.wall_s}
        return {"document": document, "recordings": measuring.recordings(document), "wall_s": ended.wall_s}


def own_words(case: str, folder: Path, args: argparse.Namespace) -> list[str]:
    small = ["--small"] if args.small else []
    return ["--steps", str(steps_of(case, args)), "--result", str(folder / "result.json"), *small]


def steps_of(case: str, args: argparse.Namespace) -> int:
    return 5 if args.small else STEPS.get(case, SOME_STEPS)


def result_of(ended: measuring.Ended, folder: Path) -> measuring.Json:
    path = folder / "result.json"
    if ended.code != 0 or not path.exists():
        return {"failed": measuring.failure(ended), "err": ended.err[-3000:]}
    return {**json.loads(path.read_text(encoding="utf-8")), "wall_s": ended.wall_s}


MEASURES = {"native": native, "probed": probed, "diagnosed": diagnosed}


def jobs(args: argparse.Namespace) -> list[tuple[str, str, str, str]]:
    """(name of the row, kind, script, repair), natives first; repairs are run natively alone."""
    found = []
    for kind in args.kinds:
        for case in args.only:
            repairs = ["", *REPAIRS[case]] if kind == "native" else [""]
            turns = range(args.turns if kind != "diagnosed" else 1)
            for repair in repairs:
                found += [(f"{kind}-{case}{'-' * bool(repair)}{repair}-{turn}", kind, case, repair) for turn in turns]
    return found


def row(name: str, kind: str, case: str, repair: str, args: argparse.Namespace) -> measuring.Json:
    return measuring.kept(args.out, name, lambda: MEASURES[kind](case, repair, args))


def has_gpu() -> bool:
    # Asked of the driver: torch's own question would leave CUDA unusable in forks.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    import torch

    return torch.cuda.is_available()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(REPAIRS), default=list(REPAIRS), metavar="SCRIPT")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--turns", type=int, default=1, help="runs of each native and probed script (1)")
    parser.add_argument("--parallel", type=int, default=1, help="diagnoses at once, to see that they end well (1)")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which a run is ended (300)")
    parser.add_argument("--out", type=Path, required=True, help="folder of the rows")
    parser.add_argument("--small", action="store_true", help="sizes for a CPU")
    args = parser.parse_args()
    if not args.small and not has_gpu():
        print("gpu: torch does not see a CUDA device; nothing was measured", file=sys.stderr)
        raise SystemExit(NO_GPU)
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    wanted = jobs(args)
    for job in [job for job in wanted if job[1] == "native"]:
        row(*job, args)
    with ThreadPoolExecutor(args.parallel) as pool:
        for future in [pool.submit(row, *job, args) for job in wanted if job[1] != "native"]:
            future.result()


if __name__ == "__main__":
    main()
