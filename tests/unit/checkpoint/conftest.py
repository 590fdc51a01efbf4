from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.checkpoint.store import BackupStore
from tests.unit.checkpoint.made import local_store


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test pulls the plug, so that nobody has to wait until bytes are on the disk."""
    monkeypatch.setattr("os.fsync", lambda handle: None)
    monkeypatch.setattr("os.sync", lambda: None)


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return local_store(tmp_path / "store")
