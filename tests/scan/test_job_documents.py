"""Jobs in YAML: their commands, line by line, and what each gets."""

from __future__ import annotations

import time

import pytest

from autotune.scan.job_documents import JobFile, read
from autotune.scan.job_requests import JobRequest

TRAINING = """\
# é
apiVersion: v1
kind: ConfigMap
metadata: {name: ü}
--- # the job
apiVersion: kubeflow.org/v1
kind: PyTorchJob
spec:
  pytorchReplicaSpecs:
    Master:
      template:
        spec:
          containers:
            - name: pytorch
              command:
                - torchrun
                - --nproc_per_node=4
                - "train.py"
              resources:
                limits: {nvidia.com/gpu: 2, cpu: 7500m, memory: 64Gi}
    Worker:
      replicas: 3
      template:
        spec:
          hostIPC: true
          containers:
            - name: side
              image: x
            - command: ["/bin/bash", "-c"]
              args:
                - |
                  cd /workspace
                  torchrun \\
                    worker.py
              resources:
                requests: {nvidia.com/gpu: "8", cpu: 4}
"""
JOB = """\
apiVersion: batch/v1
kind: Job
spec:
  parallelism: 2
  activeDeadlineSeconds: 3600
  template:
    spec:
      containers:
        - args: ["bash -c 'x'", "torchrun train.py"]
        - command: ["sh", "-c", "torchrun a.py && torchrun b.py"]
          volumeMounts: [{mountPath: /dev/shm, name: s}]
"""
GIB = 2**30
ONE, TWO = (5, "torchrun train.py"), (8, "torchrun train.py")
SKY = """\
resources:
  accelerators: {A100: 8}
  cpus: 16+
  memory: 256
num_nodes: 2
setup: pip install x
run: |
  torchrun train.py
"""
DSTACK = """\
type: task
nodes: 2
commands:
  - pip install x
  - 'torchrun train.py'
resources:
  gpu: 80GB:4
  cpu: 16
  memory: 64GB
  shm_size: 16GB
"""


def jobs(text: str) -> JobFile:
    found = read("job.yaml", text.encode())
    assert found is not None
    return found


def lines(found: JobFile) -> list[tuple[int, str]]:
    rows = enumerate(found.commands.decode().split("\n"), start=1)
    return [(number, " ".join(line.split())) for number, line in rows if line.strip()]


def told(found: JobRequest | None) -> tuple[object, ...]:
    assert found is not None
    return found.machines, found.cpus, found.gpus, found.memory_bytes, found.time_limit_s, found.has_small_shm


def test_a_list_of_words_is_one_line_and_a_block_stays() -> None:
    found = jobs(TRAINING)
    assert lines(found) == [
        (16, 'torchrun --nproc_per_node=4 "train.py"'),
        (32, "cd /workspace"),
        (33, "torchrun \\"),
        (34, "worker.py"),
    ]
    assert len(found.commands.decode()) == len(TRAINING)
    at = found.commands.decode().index("--nproc")
    assert TRAINING[at:].startswith("--nproc_per_node=4")


def test_each_command_gets_what_its_own_pod_asks_for() -> None:
    found = jobs(TRAINING)
    assert told(found.request(16)) == (4, 8, 2, 4 * 64 * GIB, None, True)
    assert told(found.request(33)) == (4, None, 8, None, None, False)
    assert found.request(4) is None


POD = """\
template:
  spec:
    containers:
      - command: [torchrun, train.py]
        volumeMounts: [{mountPath: /dev/shm/, name: s}]
"""


@pytest.mark.parametrize(
    ("head", "spec", "machines"),
    [
        ("batch/v1 Job", "backoffLimit: 2", 1),
        ("batch/v1 Job", "completions: 4", 1),
        ("batch/v1 Job", "completions: 4\nparallelism: 4", 4),
        ("batch/v1 Job", "completions: 1\nparallelism: 4", 1),
        ("apps/v1 StatefulSet", "replicas: 2", None),
        ("apps/v1 StatefulSet", "serviceName: x", None),
        ("batch.volcano.sh/v1alpha1 Job", "minAvailable: 2", None),
    ],
)
def test_the_pods_of_a_kind(head: str, spec: str, machines: int | None) -> None:
    version, kind = head.split()
    rows = "\n".join(f"  {row}" for row in (*spec.split("\n"), *POD.splitlines()))
    found = jobs(f"apiVersion: {version}\nkind: {kind}\nspec:\n{rows}\n").jobs[0].request
    assert (found.machines, found.has_small_shm) == (machines, False)


def test_what_a_shell_is_given_in_a_list() -> None:
    found = jobs(JOB)
    assert lines(found) == [(9, '"bash -c \'x\'" "torchrun train.py"'), (10, "torchrun a.py && torchrun b.py")]
    assert told(found.request(10)) == (2, None, None, None, 3600, False)


@pytest.mark.parametrize(
    ("text", "command", "expected"),
    [
        (SKY, TWO, (2, None, 8, 512 * GIB, None, None)),
        (SKY.replace("{A100: 8}", "A100:4").replace("16+", "16"), TWO, (2, 16, 4, 512 * GIB, None, None)),
        (SKY.replace("{A100: 8}", "{A100: 8, H100: 4}"), TWO, (2, None, None, 512 * GIB, None, None)),
        (SKY.replace("{A100: 8}", "H100"), TWO, (2, None, 1, 512 * GIB, None, None)),
        (DSTACK, ONE, (2, 16, 4, 128 * GIB, None, None)),
        (DSTACK.replace("  shm_size: 16GB\n", ""), ONE, (2, 16, 4, 128 * GIB, None, True)),
        (DSTACK.replace("80GB:4", "80GB:1.."), ONE, (2, 16, None, 128 * GIB, None, None)),
    ],
)
def test_skypilot_and_dstack(text: str, command: tuple[int, str], expected: tuple[object, ...]) -> None:
    found = jobs(text)
    assert command in lines(found)
    assert told(found.request(command[0])) == expected


@pytest.mark.parametrize(
    "text",
    [
        "run: train\n",
        "commands: [a]\n",
        "type: task\ncommands: {a: b}\n",
        "kind: Job\nspec: {containers: [{command: [a]}]}\n",
        "apiVersion: v1\nkind: Pod\nspec:\n  containers: [{{ .Values.x }}]\n",
        "apiVersion: v1\nkind: Pod\nspec: {containers: []}\n",
        "- containers:\n",
        "",
        "resources: {}\nrun: [a, b]\n",
    ],
)
def test_what_is_no_job(text: str) -> None:
    assert read("job.yaml", text.encode()) is None


def test_many_documents_take_no_more_than_their_length() -> None:
    document = JOB + "".join(f"# {number} {'é' * 40}\n" for number in range(20))
    data = "---\n".join([document] * 120).encode()
    started = time.process_time()
    found = read("jobs.yaml", data)
    assert found is not None
    assert time.process_time() - started < 8  # 1.5 s, and a minute when each is padded with those before it
    lines = data.decode().splitlines()
    assert len(found.jobs) == 240
    assert all("torchrun" in lines[one.first - 1] or "torchrun" in lines[one.last - 1] for one in found.jobs)
    last = found.jobs[-1]
    at = last.request.places["time_limit_s"]
    assert lines[at.line - 1][at.column - 1 :] == "3600"
    assert read("jobs.yaml", data) is found


def test_many_containers_take_no_more_than_their_number() -> None:
    head = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n"
    data = head + "  - {command: [torchrun, a.py], resources: {limits: {cpu: 4}}}\n" * 2000
    started = time.process_time()
    found = read("pod.yaml", data.encode())
    assert found is not None
    assert time.process_time() - started < 15
    assert [one.request.cpus for one in found.jobs] == [4] * 2000
    assert {one.request.machines for one in found.jobs} == {1}


@pytest.mark.parametrize("value", ["9" * 5000, '"' + "9" * 5000 + '"', "9" * 400 + "Gi", "9" * 5000 + "m", "1e999"])
@pytest.mark.parametrize("key", ["cpu", "memory", "nvidia.com/gpu"])
def test_a_number_of_thousands_of_digits_is_not_known(key: str, value: str) -> None:
    text = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n"
    text += f"  - {{command: [torchrun, a.py], resources: {{limits: {{{key}: {value}}}}}}}\n"
    found = read("pod.yaml", text.encode())
    request = found.jobs[0].request if found is not None else None
    assert request is None or (request.cpus, request.memory_bytes, request.gpus) == (None, None, None)
