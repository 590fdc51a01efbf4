"""What the unit tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_streaming.model import failures as text
from tests.unit.world import World, make_world


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """No unit test cuts the power, so nothing has to reach the disk."""
    # For each test, since others may run in the same session, and not by the fixture monkeypatch:
    # asked for here, it would undo a test's own patches too late.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        patch.setattr("os.sync", lambda: None)
        yield


@pytest.fixture(autouse=True)
def nothing_hidden_by_other_tests() -> Iterator[None]:
    """Secrets are hidden by the whole process, and here each test is one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "_HIDDEN", text._Hidden())
        yield


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return one stream with a real home, a fake launcher and a runtime that is only laid out."""
    return make_world(tmp_path, monkeypatch)
