from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from tests.integration.plugin.api import serving
from tests.page.chrome import Page, browsing, chromium
from tests.page.homes import write_home

with warnings.catch_warnings():
    # Starlette would rather have a successor of httpx that Airflow does not bring.
    warnings.simplefilter("ignore")
    from tests.page.server import AirflowApi, page_app


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


@pytest.fixture
def home(demo_home: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(demo_home, tmp_path / "home"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    if chromium() is None:
        pytest.skip("Chromium is not installed; no page is opened.")
    with browsing() as page:
        yield page


@pytest.fixture
def airflow_api() -> AirflowApi:
    return AirflowApi()


@pytest.fixture
def address(home: Path, airflow_api: AirflowApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    root = FastAPI()
    airflow_api.add_to(root)
    root.mount("/streaming", page_app(home, monkeypatch.setattr))
    with serving(root) as address:
        yield f"{address}/streaming/app/"
