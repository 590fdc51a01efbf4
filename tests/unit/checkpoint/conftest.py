from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.checkpoint.store import BackupStore
from tests.unit.checkpoint.made import local_store


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return local_store(tmp_path / "store")
