from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.storage import LocalStore
from tests.unit.home.reigns import deploy


@pytest.fixture
def stream(tmp_path: Path) -> StreamHome:
    return StreamHome(LocalStore(str(tmp_path / "home")), "orders")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a home with one stream that was never cut over."""
    home = Home(LocalStore(str(tmp_path)))
    deploy(home, "orders", 1)
    return home
