"""Libraries under the overlay, each script in a fresh interpreter; Project.run asserts that the tree did not change."""

from __future__ import annotations

from types import ModuleType

import pytest
from overlaid import Project

from autotune.probe.isolate.isolated import Isolated
from autotune.probe.overlay import native
from autotune.probe.overlay.world import World
from autotune.probe.patches import Patches


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def kinds(report):
    return {row["path"]: row["kind"] for row in report["redirected"]}


@pytest.mark.train
def test_torch_saves_every_step_and_fails_as_it_does_natively(project):
    report, lines = project.run("""
        import os, pathlib, torch
        for step in range(3):
            torch.save({"step": step}, "out/ckpt.pt")
            torch.save({"step": step}, pathlib.Path("out") / "café.pt")
            torch.save({"step": step}, "out/legacy.pt", _use_new_zipfile_serialization=False)
            with open("out/file.pt", "wb") as file:
                torch.save({"step": step}, file)
            for name in ("ckpt", "café", "legacy", "file"):
                assert torch.load(f"out/{name}.pt") == {"step": step}
        torch.save({"w": torch.ones(3)}, "out/w.pt")
        assert torch.load("out/w.pt", mmap=True)["w"].sum() == 3
        module = torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2))
        torch.jit.save(module, "out/traced.pt")
        torch.jit.load("out/traced.pt")
        module.save("out/method.pt")
        print(sorted(os.listdir("out")))
        os.remove("out/ckpt.pt")
        for action in (lambda: torch.load("out/ckpt.pt"), lambda: torch.save({}, "nowhere/x.pt")):
            try:
                action()
            except (OSError, RuntimeError) as error:
                print("out/ckpt.pt" in str(error) or "nowhere" in str(error))
    """)
    assert kinds(report) == {"out": "write", "out/ckpt.pt": "delete"}
    names = ["café.pt", "checkpoint-10", "ckpt.pt", "file.pt", "legacy.pt", "method.pt", "traced.pt", "w.pt"]
    assert lines == [str(names), "True", "True"]


@pytest.mark.train
def test_numpy_safetensors_and_tokenizers(project):
    report, lines = project.run("""
        import numpy as np, os, torch
        from safetensors import safe_open
        from safetensors.torch import load_file, save_file
        from tokenizers import Tokenizer, models
        np.save("out/a.npy", np.arange(3))
        assert np.load("out/a.npy", mmap_mode="r")[2] == 2
        table = np.memmap("out/table.bin", dtype="int32", mode="w+", shape=4)
        table[:] = 7
        table.flush()
        assert np.fromfile("out/table.bin", dtype="int32").tolist() == [7] * 4
        save_file({"w": torch.ones(2)}, "out/model.safetensors")
        assert load_file("out/model.safetensors")["w"].tolist() == [1, 1]
        with safe_open("out/model.safetensors", framework="pt") as file:
            assert list(file.keys()) == ["w"]
        tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
        tokenizer.save("out/tokenizer.json")
        assert Tokenizer.from_file("out/tokenizer.json").get_vocab_size() == 2
        print(tokenizer.model.save("out"))
        print(sorted(os.listdir("out")))
    """)
    assert kinds(report) == {"out": "write"}
    assert "'model.safetensors'" in lines[-1] and "'tokenizer.json'" in lines[-1] and "'vocab.json'" in lines[-1]


def test_sqlite_in_a_fresh_interpreter(project):
    report, lines = project.run("""
        import sqlite3
        base = sqlite3.connect("out/runs.db")
        base.execute("create table t (x)")
        base.commit()
        print(sqlite3.connect("out/runs.db").execute("select count(*) from t").fetchall())
    """)
    assert (kinds(report), lines) == ({"out/runs.db": "write"}, ["[(0,)]"])


def test_arrow_files_in_the_tree(project):
    pytest.importorskip("pyarrow")
    report, lines = project.run("""
        import pyarrow as pa, pyarrow.parquet as pq
        table = pa.table({"x": [1, 2]})
        pq.write_table(table, "out/x.parquet")
        with pa.OSFile("out/x.arrow", "wb") as sink, pa.RecordBatchFileWriter(sink, table.schema) as writer:
            writer.write_table(table)
        print(pq.read_table("out/x.parquet")["x"].to_pylist())
        print(pa.ipc.open_file(pa.memory_map("out/x.arrow")).read_all()["x"].to_pylist())
    """)
    assert (kinds(report), lines) == ({"out": "write"}, ["[1, 2]", "[1, 2]"])


def test_forked_and_spawned_processes_see_the_same_files(project):
    _, lines = project.run("""
        import multiprocessing, os, subprocess, sys
        def child():
            print(open("out/ckpt.pt").read(), os.path.exists("out/checkpoint-10"), flush=True)
            with open("out/from-child", "w") as file:
                file.write("child")
        with open("out/ckpt.pt", "w") as file:
            file.write("new")
        import shutil
        shutil.rmtree("out/checkpoint-10")
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join()
        print(open("out/from-child").read())
    """)
    assert lines == ["new False", "child"]


def test_processes_of_one_run_share_what_they_wrote(project):
    _, lines = project.run("""
        import subprocess, sys
        from overlay_settings import SETTINGS
        program = (
            "import json, sys; from autotune.probe.overlay import stand_ins;"
            "from autotune.probe.patches import Patches; stand_ins.install(json.loads(sys.argv[1]), Patches());"
            "print(open('out/ckpt.pt').read()); open('out/second', 'w').write('2')"
        )
        open("out/ckpt.pt", "w").write("new")
        command = [sys.executable, "-c", program, SETTINGS]
        print(subprocess.run(command, capture_output=True, text=True).stdout.strip())
        print(open("out/second").read())
    """)
    assert lines == ["new", "2"]


@pytest.mark.train
def test_trainer_that_saves_rotates_and_pushes_every_step(project):
    pytest.importorskip("transformers")
    report, lines = project.run("""
        import os, torch
        from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
        config = LlamaConfig(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1,
                             num_key_value_heads=1, vocab_size=16, max_position_embeddings=16)
        rows = [{"input_ids": torch.arange(8), "labels": torch.arange(8)} for _ in range(8)]
        args = TrainingArguments("out", max_steps=3, save_steps=1, save_total_limit=1, per_device_train_batch_size=1,
                                 report_to=[], disable_tqdm=True, use_cpu=True, push_to_hub=True,
                                 hub_model_id="me/tiny", hub_strategy="every_save")
        trainer = Trainer(LlamaForCausalLM(config), args, train_dataset=rows)
        trainer.train()
        print([name for name in sorted(os.listdir("out")) if name.startswith("checkpoint")])
        print("model.safetensors" in os.listdir("out/checkpoint-3"), trainer.hub_model_id)
        args.max_steps = 4
        again = Trainer(LlamaForCausalLM(config), args, train_dataset=rows)
        again.train(resume_from_checkpoint=True)
        print("resumed, ended at", again.state.global_step)
    """)
    wanted = ["['checkpoint-3']", "True me/tiny", "resumed, ended at 4"]
    assert [line for line in lines if line in wanted] == wanted
    assert report["not_isolated"] == []
    blocked = " ".join(row["what"] for row in report["blocked"])
    assert "huggingface_hub: create_repo" in blocked and "huggingface_hub: upload_folder" in blocked


@pytest.mark.train
def test_traces_of_the_profiler(project):
    report, lines = project.run("""
        import json, os, torch
        from torch.profiler import ExecutionTraceObserver, profile, tensorboard_trace_handler
        def work():
            torch.ones(3) + 1
        with profile() as first:
            work()
        first.export_chrome_trace("out/trace.json")
        print("traceEvents" in json.load(open("out/trace.json")))
        with torch.autograd.profiler.profile() as second:
            work()
        second.export_chrome_trace("out/old.json")
        with profile(on_trace_ready=tensorboard_trace_handler("out/tb")):
            work()
        observer = ExecutionTraceObserver().register_callback("out/execution.json")
        observer.start()
        work()
        observer.stop()
        observer.unregister_callback()
        print(len(os.listdir("out/tb")), os.path.getsize("out/execution.json") > 0)
    """)
    assert lines == ["True", "1 True"]
    assert kinds(report)["out"] == "write"


@pytest.mark.train
def test_what_the_script_has_just_written_can_be_imported(project):
    _, lines = project.run("""
        import _ctypes_test, ctypes, importlib, importlib.util, os, shutil, sys
        os.makedirs("made/inner")
        for path in ("made/__init__.py", "made/inner/__init__.py", "made/inner/last.py", "single.py"):
            with open(path, "w") as file:
                file.write("X = 7")
        native = "out/" + os.path.basename(_ctypes_test.__file__)
        shutil.copy(_ctypes_test.__file__, native)
        sys.path.insert(0, "out")
        sys.path.insert(0, os.getcwd())
        importlib.invalidate_caches()
        import single, made.inner.last
        print(single.X, made.inner.last.X)
        spec = importlib.util.spec_from_file_location("by_path", "single.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        print(module.X)
        del sys.modules["_ctypes_test"]
        sys.path[:] = [folder for folder in sys.path if "lib-dynload" not in folder]
        print("project" in importlib.import_module("_ctypes_test").__file__)
        print(ctypes.CDLL(native)._testfunc_i_bhilfd is not None)
        try:
            import nowhere
        except ModuleNotFoundError as error:
            print(error)
    """)
    assert lines == ["7 7", "7", "True", "True", "No module named 'nowhere'"]


@pytest.mark.train
def test_a_compiler_finds_its_files_in_the_folder_that_it_is_told(project):
    report, lines = project.run("""
        import os, subprocess, torch
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = "kernels"
        from torch._inductor.runtime.cache_dir_utils import cache_dir
        with open(os.path.join(cache_dir(), "one.cpp"), "w") as file:
            file.write("int one;")
        print(subprocess.run(["cat", os.path.join(cache_dir(), "one.cpp")], capture_output=True, text=True).stdout)
        print(os.listdir("kernels"), os.environ["TORCHINDUCTOR_CACHE_DIR"] == os.path.abspath("kernels"))
    """)
    assert lines == ["int one;", "['one.cpp'] True"]
    assert "kernels" in " ".join(kinds(report))


@pytest.mark.parametrize(
    ("name", "dotted"),
    [
        ("polars", "DataFrame.write_parquet"),
        ("polars", "LazyFrame.sink_csv"),
        ("duckdb", "connect"),
        ("pyarrow.dataset", "write_dataset"),
        ("xgboost", "Booster.save_model"),
        ("lightgbm", "Dataset.save_binary"),
    ],
)
def test_libraries_that_write_behind_our_back_are_named(tmp_path, name, dotted):
    owner, _, attribute = dotted.rpartition(".")
    module = ModuleType(name)
    if owner:
        setattr(module, owner, type(owner, (), {attribute: lambda self, value: value + 1}))
    else:
        setattr(module, attribute, lambda value: value + 1)
    isolated = Isolated()
    native.callbacks(World(Project(tmp_path).settings()), Patches(), isolated)[name](module)
    write = getattr(getattr(module, owner)() if owner else module, attribute)
    assert write(1) == 2
    assert isolated.rows()["not_isolated"] == [{"what": f"{name}.{dotted} writes files from compiled code"}]
