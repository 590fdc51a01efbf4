"""Every test of this folder runs a whole Airflow and is marked so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.airflow import MADE_DATABASE, Airflow
from tests.quick_java import quick_java

__all__ = ["quick_java"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.system)


@pytest.fixture(scope="session", autouse=True)
def made_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Make Airflow's database once; every Airflow of these tests begins with a copy."""
    folder = tmp_path_factory.mktemp("database")
    made = Airflow(folder, dags=folder / "dags", environment={}, port=0).make_database()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MADE_DATABASE, str(made))
        yield
