"""Who may look into a process, by the kernel's settings: why not, and the way round. Yama is not in every kernel: its
setting is read from a fake tree."""

from __future__ import annotations

import os

import pytest
from msgspec.structs import replace
from test_attach_facts import ABOUT

from autotune.attach import access
from autotune.attach.target import Target

OWN = replace(ABOUT, uid=os.geteuid())


def why_not(root, **changes):
    return access.why_not(Target(replace(OWN, **changes), (), ()), root)


@pytest.fixture
def root(tmp_path):
    """root(scope): a tree in which the process's memory may not be opened."""

    def make(scope=None, *, memory=False):
        (tmp_path / "proc/7").mkdir(parents=True)
        if memory:
            (tmp_path / "proc/7/mem").touch()
        else:
            (tmp_path / "proc/7/mem").mkdir()  # a folder cannot be opened for reading
        if scope is not None:
            (tmp_path / "proc/sys/kernel/yama").mkdir(parents=True)
            (tmp_path / "proc/sys/kernel/yama/ptrace_scope").write_text(f"{scope}\n")
        return tmp_path

    return make


def test_where_the_kernel_lets_us_there_is_no_reason(root):
    assert why_not(root(1, memory=True)) == ("", "")


def test_a_process_that_is_gone_is_not_one_that_is_forbidden(tmp_path):
    assert why_not(tmp_path) == ("the process ended meanwhile", "")


def test_a_debugger_is_in_the_way(root):
    why, to_do = why_not(root(memory=True), tracer=99)
    assert "process 99 traces it already" in why
    assert to_do


@pytest.mark.parametrize(
    ("scope", "why", "to_do"),
    [
        (1, "ptrace_scope = 1", "sudo sysctl kernel.yama.ptrace_scope=0"),
        (2, "ptrace_scope = 2", "sudo env PATH"),
        (3, "ptrace_scope = 3", "AUTOTUNE_WATCH=1"),
        (0, "the capability SYS_PTRACE is missing", "docker run --cap-add SYS_PTRACE"),
        (None, "the capability SYS_PTRACE is missing", "docker run --cap-add SYS_PTRACE"),
    ],
)
def test_each_setting_of_yama_has_its_way_round(root, monkeypatch, scope, why, to_do):
    monkeypatch.setattr(access.os, "geteuid", lambda: 1000)
    found = access.why_not(Target(replace(OWN, uid=1000), (), ()), root(scope))
    assert why in found[0]
    assert to_do in found[1]
    assert "AUTOTUNE_WATCH=1" in found[1]


def test_root_in_a_container_without_the_capability(root, monkeypatch):
    monkeypatch.setattr(access.os, "geteuid", lambda: 0)
    why, to_do = access.why_not(Target(replace(OWN, uid=0), (), ()), root(2))
    assert "SYS_PTRACE" in why
    assert "--cap-add" in to_do
    assert "--user" not in to_do


def test_root_in_a_container_without_the_capability_may_look_as_the_user(root, monkeypatch):
    monkeypatch.setattr(access.os, "geteuid", lambda: 0)
    why, to_do = access.why_not(Target(replace(OWN, uid=1000), (), ()), root(0))
    assert "SYS_PTRACE" in why
    assert to_do.startswith("Run autotune as that user (in a container: docker exec --user 1000)")
    assert "--cap-add SYS_PTRACE" in to_do
