"""Every test of this folder needs Spark, or a server that the test starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.quick_java import quick_spark

__all__ = ["quick_spark"]

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.integration)
