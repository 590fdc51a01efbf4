from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.checkpoints.vault.store import BackupStore
from tests.unit.checkpoints.made import local_store


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return local_store(tmp_path / "store")
