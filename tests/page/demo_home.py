"""A home that tests of the page share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.page.homes import write_home


@pytest.fixture(scope="session")
def demo_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a home with three streams and two hours of history, once for all tests."""
    folder = tmp_path_factory.mktemp("page") / "home"
    write_home(
        folder,
        {"orders_eu": "healthy", "clicks_eu": "gave_up", "fraud_eu": "cutover"},
        hours=2,
        batch=30,
    )
    return folder
