"""The page in a real browser, on a server that the test starts."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from tests.integration.plugin.api import serving
from tests.page.chrome import Page, browsing, chromium
from tests.page.demo_home import demo_home

with warnings.catch_warnings():
    # Starlette would rather have a successor of httpx that Airflow does not bring.
    warnings.simplefilter("ignore")
    from tests.page.server import AirflowApi, page_app

__all__ = ["demo_home"]


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
    # The cluster of a driver out of sight; declaring it dead needs a cluster that may be asked.
    monkeypatch.setenv("AIRFLOW__STREAMING__CLUSTERS", "spark-gw-2")
    root = FastAPI()
    airflow_api.add_to(root)
    root.mount("/streaming", page_app(home, monkeypatch.setattr))
    with serving(root) as address:
        yield f"{address}/streaming/app/"
