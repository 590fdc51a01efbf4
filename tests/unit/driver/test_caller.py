"""A job whose caller was killed: its files go before the JVM, with which the job may end."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from airflow_streaming.driver.jobs import caller
from airflow_streaming.driver.jobs.caller import leave_with_caller
from tests.patience import until


class Jvm:
    """Records what is done to it, and whether the folder was there."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.done = folder, list[tuple[str, bool]]()

    def freeze(self) -> None:
        self.done.append(("freeze", self._folder.exists()))

    def kill(self) -> None:
        self.done.append(("kill", self._folder.exists()))

    def is_gone_within(self, seconds: float) -> bool:
        return True


def test_the_files_go_before_the_jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    held = folder / "held"
    jvm, left = Jvm(folder), list[int]()
    monkeypatch.setattr(caller, "JvmProcess", lambda: jvm)
    monkeypatch.setattr(caller, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(os, "_exit", left.append)
    with held.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        leave_with_caller(str(held), str(folder))
        assert jvm.done == []
    until(lambda: left, "The end of the job")
    assert jvm.done == [("freeze", True), ("kill", False)]
    assert left == [1]


def test_without_a_caller_to_watch_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller.threading, "Thread", None)
    leave_with_caller("", "")
