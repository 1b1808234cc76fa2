"""What is no file: trackers, the hub, child programs."""

from __future__ import annotations

import sys
import types

import pytest
from overlaid import Project

from autotune.probe.isolate import commands, hub, trackers
from autotune.probe.isolate.isolated import Isolated
from autotune.probe.patches import Patches


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


@pytest.fixture
def isolated():
    return Isolated()


@pytest.fixture
def patches():
    made = Patches()
    yield made
    made.restore()


def texts(rows, kind):
    return [row["what"] for row in rows[kind]]


@pytest.mark.parametrize(
    ("command", "shell", "said"),
    [
        (["git", "push", "https://user:secret@host/repo"], False, "git push"),
        (["/usr/bin/git", "-C", "x", "commit", "-m", "secret"], False, "git commit"),
        (["git", "rev-parse", "HEAD"], False, None),
        (["git", "rev-parse", "push"], False, None),
        (["git", "secret-alias"], False, "git"),
        ("rsync -a secret host:/", True, "rsync (in a shell)"),
        ("TOKEN=secret aws s3 cp a b", True, "aws (in a shell)"),
        (["nvidia-smi"], False, None),
        (b"/bin/cp", False, "cp"),
        (["cp", b"a", b"b"], False, "cp"),
        ([], False, None),
        ("", True, None),
    ],
)
def test_commands_are_named_without_their_arguments(command, shell, said):
    assert commands.describe(command, shell) == said


@pytest.mark.parametrize(
    ("words", "carries"),
    [(["python3", "x.py", "-E"], True), (["python", "-m", "x"], True), (["python", "-I", "x.py"], False)],
)
def test_a_python_child_carries_the_probe_unless_it_ignores_the_environment(monkeypatch, words, carries):
    monkeypatch.setenv("AUTOTUNE_REQUEST", "x")
    monkeypatch.setenv("PYTHONPATH", "boot")
    assert (commands.describe(words) is None) is carries
    assert commands.describe(words, environ={}) == words[0]
    assert (commands.describe(words, environ={b"AUTOTUNE_REQUEST": b"x", b"PYTHONPATH": b"y"}) is None) is carries
    monkeypatch.delenv("AUTOTUNE_REQUEST")
    assert commands.describe(words) == words[0]


@pytest.mark.parametrize(
    ("command", "shell", "said"),
    [
        ("cp a b", True, None),
        (["python", "-I", "x.py"], False, None),
        (["git", "push"], False, "git push"),
        (["git", "status"], False, None),
        ("tar c . | ssh host", True, "tar (in a shell)"),
        (["/usr/bin/curl", "x"], False, "curl"),
    ],
)
def test_where_the_kernel_holds_files_only_what_sends_is_named(command, shell, said):
    assert commands.describe(command, shell, holds_programs=True) == said


def test_child_programs_are_listed_and_run(project):
    report, lines = project.run("""
        import os, subprocess
        print(subprocess.run(["echo", "hidden"], capture_output=True, text=True).stdout.strip())
        os.mkdir("fresh")
        print(subprocess.run(["pwd"], cwd="fresh", capture_output=True, text=True).stdout.strip()[-14:])
        subprocess.run("exit 0", shell=True)
        os.system("exit 0")
        os.popen("sleep 0").close()
    """)
    assert lines == ["hidden", "/project/fresh"]
    said = texts(report, "not_isolated")
    assert said == [
        "subprocess: echo",
        "subprocess: pwd",
        "subprocess: exit (in a shell)",
        "os.system: exit (in a shell)",
        "subprocess: sleep (in a shell)",
    ]
    assert "hidden" not in str(report)


def test_a_forked_process_names_the_program_that_it_becomes(project):
    report, _ = project.run("""
        import os, posix
        pid = os.fork()
        if not pid:
            os.execv("/bin/ls", ["ls"])
        os.waitpid(pid, 0)
        os.waitpid(posix.posix_spawn("/bin/cat", ["cat", "/dev/null"], {}), 0)
    """)
    assert texts(report, "not_isolated") == ["os.posix_spawn: cat"]
    notes = [path.read_text() for path in project.run_dir.glob("not-isolated-*")]
    assert sorted(notes) == ["os.exec: ls\n", "os.posix_spawn: cat\n"]


def test_what_cannot_be_isolated_is_written_once_before_it_happens(tmp_path):
    isolated = Isolated(str(tmp_path))
    for what in ("os.exec: rm", "os.exec: rm", "a name\nof two lines"):
        isolated.not_isolated(what)
    (note,) = tmp_path.iterdir()
    assert note.read_text() == "os.exec: rm\na name\\nof two lines\n"
    Isolated(str(tmp_path / "gone")).not_isolated("it goes on")


def test_repeated_things_are_said_once(isolated):
    for _ in range(3):
        isolated.blocked("x")
    assert isolated.rows() == {"blocked": [{"what": "x (3 times)"}], "not_isolated": []}


def test_the_hub_answers_without_network(project):
    pytest.importorskip("huggingface_hub")
    report, lines = project.run("""
        import huggingface_hub
        from huggingface_hub import HfApi, create_repo, upload_file
        print(create_repo("me/model", token="secret").repo_id)
        print(create_repo("data", repo_type="dataset").repo_type)
        commit = HfApi().upload_folder(repo_id="me/model", folder_path="out", commit_message="save", run_as_future=True)
        print(commit.done(), commit.result().commit_message)
        print(upload_file(path_or_fileobj=b"x", path_in_repo="x", repo_id="me/model").commit_url)
        print(HfApi().delete_repo("me/model"))
        print(huggingface_hub.create_commit("me/model", operations=[], commit_message="m").oid)
    """)
    assert lines[:3] == ["me/model", "dataset", "True save"]
    assert lines[3].endswith("/me/model/commit/" + "0" * 40)
    assert lines[4:] == ["None", "0" * 40]
    assert texts(report, "blocked") == [
        "huggingface_hub: create_repo (2 times)",
        "huggingface_hub: upload_folder",
        "huggingface_hub: upload_file",
        "huggingface_hub: delete_repo",
        "huggingface_hub: create_commit",
    ]
    assert "secret" not in str(report)


def test_every_writing_call_of_the_installed_hub_is_blocked_and_no_reading_one(patches, isolated):
    api = pytest.importorskip("huggingface_hub.hf_api")
    hub.block_api(api, patches, isolated)
    public = {name: call for name, call in vars(api.HfApi).items() if not name.startswith("_") and callable(call)}
    blocked = {name for name, call in public.items() if call.__qualname__.endswith("blocked")}
    assert {"create_commit", "upload_file", "upload_folder", "delete_repo", "move_repo", "create_tag"} <= blocked
    reads = (
        "list_",
        "get_",
        "model_info",
        "whoami",
        "hf_hub_",
        "snapshot_",
        "repo_exists",
        "file_exists",
        "dataset_info",
    )
    assert [name for name in blocked if name.startswith(reads)] == []
    assert api.create_repo.__func__ is api.HfApi.create_repo
    patches.restore()
    assert api.HfApi.create_repo.__qualname__ == "HfApi.create_repo"


def fake(monkeypatch, name, **attributes):
    module = types.ModuleType(name)
    vars(module).update(attributes)
    monkeypatch.setitem(sys.modules, name, module)
    return module


@pytest.mark.parametrize("name", sorted(trackers.KEYWORDS))
def test_a_tracker_is_started_in_its_own_offline_mode(monkeypatch, patches, isolated, name):
    attribute, keywords = trackers.KEYWORDS[name]
    module = fake(monkeypatch, name, **{attribute: lambda **given: given})
    native = getattr(module, attribute)
    trackers.callbacks(patches, isolated)[name](module)
    assert getattr(module, attribute)(project="p", mode="online") == {"project": "p", "mode": "online", **keywords}
    assert isolated.rows()["blocked"] == [{"what": f"{name}.{attribute} (disabled)"}]
    patches.restore()
    assert getattr(module, attribute) is native


def test_a_tracker_without_such_a_mode_is_replaced(monkeypatch, patches, isolated):
    def never(*args, **kwargs):
        raise AssertionError("reached the tracker")

    module = fake(monkeypatch, "trackio", init=never, log=never, finish=never)
    trackers.callbacks(patches, isolated)["trackio"](module)
    run = module.init(project="p")
    run.log({"loss": 1})
    module.log({"loss": 1})
    module.finish()
    with run as entered:
        entered["x"] = 1
    assert isolated.rows()["blocked"] == [{"what": "trackio.init"}]


@pytest.mark.parametrize(
    ("address", "used"),
    [
        ("https://user:pw@mlflow.host", "mlruns"),
        ("databricks", "mlruns"),
        ("file:///x", "file:///x"),
        ("mlruns", "mlruns"),
    ],
)
def test_mlflow_never_reaches_a_remote_server(monkeypatch, patches, isolated, address, used):
    module = fake(monkeypatch, "utils", _resolve_tracking_uri=lambda uri=None: uri or address)
    trackers.callbacks(patches, isolated)["mlflow.tracking._tracking_service.utils"](module)
    assert module._resolve_tracking_uri() == used
    assert bool(isolated.rows()["blocked"]) is (address != used)
    assert "pw" not in str(isolated.rows())


def test_wandb_itself_if_it_is_installed(project):
    pytest.importorskip("wandb")
    report, lines = project.run("""
        import wandb
        run = wandb.init(project="p")
        run.log({"loss": 1})
        wandb.log({"loss": 2})
        wandb.finish()
        print("done")
    """)
    assert lines[-1] == "done"
    assert texts(report, "blocked") == ["wandb.init (disabled)"]


def test_tensorboard_writers_go_to_scratch(project):
    pytest.importorskip("tensorboard")
    report, lines = project.run("""
        import os
        from torch.utils.tensorboard import SummaryWriter
        with SummaryWriter("runs/one") as writer:
            writer.add_scalar("loss", 1.0, 1)
        print(len(os.listdir("runs/one")))
    """)
    assert lines == ["1"]
    assert [row["path"].split("/")[0] for row in report["redirected"]] == ["runs"]
