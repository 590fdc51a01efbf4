"""A home that does not answer costs its own pages, and nothing else that the API server serves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.integration.plugin.api import RUN, add_dag, forge_xcom, serving, settings_of, signed_in

pytestmark = pytest.mark.filterwarnings("ignore")

REQUESTS = 45
LOG = f"/streaming/tasks/hung/{RUN}/keep/-1/driver-log"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("api")
    with settings_of(folder):
        from airflow.api_fastapi.app import create_app
        from airflow.utils.db import initdb

        initdb()
        home = str(folder / "home")
        add_dag(folder, "hung", home=home)
        forge_xcom("hung", home=home, stream="orders", home_conn_id=None)
        with serving(create_app(apps="core")) as address:
            yield address


@pytest.fixture
def hangs(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let every home hang until the end of the test."""
    from airflow_streaming.hooks.home import StreamHomeHook

    answers = threading.Event()

    def get_conn(_: Any) -> Any:
        answers.wait(120)
        raise OSError("the home has answered at last")

    monkeypatch.setattr(StreamHomeHook, "get_conn", get_conn)
    yield answers
    answers.set()


def test_airflow_answers_while_45_pages_wait_for_a_home_that_hangs(
    address: str, hangs: threading.Event, record_property: Callable[[str, object], None]
) -> None:
    limits = httpx.Limits(max_connections=REQUESTS + 1)
    client = httpx.Client(base_url=address, headers=signed_in(address, "ann"), limits=limits)

    def get(path: str, timeout: float) -> tuple[int, float]:
        begun = time.monotonic()
        try:
            reply = client.get(path, timeout=timeout)
        except httpx.TimeoutException:
            return 0, time.monotonic() - begun
        if reply.status_code == 503:
            assert int(reply.headers["Retry-After"]) >= 1
        return reply.status_code, time.monotonic() - begun

    with client, ThreadPoolExecutor(REQUESTS) as crowd:
        get("/api/v2/dags", 60)
        pages = [crowd.submit(get, LOG, 60) for _ in range(REQUESTS)]
        time.sleep(1)
        dags = [get("/api/v2/dags", 10) for _ in range(5)]
        waited = [page.result() for page in pages]

    record_property("dags", dags)
    record_property("pages", sorted(took for _, took in waited))
    assert [code for code, _ in dags] == [200] * 5, dags
    assert {code for code, _ in waited} == {503}, waited
