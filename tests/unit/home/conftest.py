from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.files.local import LocalStore
from airflow_streaming.home.home import StreamHome


@pytest.fixture
def stream(tmp_path: Path) -> StreamHome:
    return StreamHome(LocalStore(str(tmp_path / "home")), "orders")
