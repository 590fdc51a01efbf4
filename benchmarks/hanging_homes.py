"""
How fast Airflow's API server answers while pages of homes that hang are asked for.

    python -m benchmarks.hanging_homes [--pages 200]

It serves Airflow's own API with our plugin, asks for its list of dags, first alone and then beside
so many requests for the driver log of a stream whose home does not answer, and prints p50 and p95.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.plugin.api import RUN, add_dag, forge_xcom, serving, settings_of, signed_in

LOG = f"/streaming/tasks/hung/{RUN}/keep/-1/driver-log"
LOOKS = 40


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=200, help="requests for pages that hang")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as text, pytest.MonkeyPatch.context() as patch:
        folder = Path(text)
        patch.setenv("AIRFLOW_HOME", str(folder / "airflow"))
        with settings_of(folder):
            from airflow.api_fastapi.app import create_app
            from airflow.utils.db import initdb

            initdb()
            home = str(folder / "home")
            add_dag(folder, "hung", home=home)
            forge_xcom("hung", home=home, stream="orders", home_conn_id=None)
            answers = _hang(patch)
            with serving(create_app(apps="core")) as address:
                _measure(address, asked.pages)
            answers.set()


def _hang(patch: pytest.MonkeyPatch) -> threading.Event:
    from airflow_streaming.hooks.home import StreamHomeHook

    answers = threading.Event()

    def get_conn(_: Any) -> Any:
        answers.wait(600)
        raise OSError("the home has answered at last")

    patch.setattr(StreamHomeHook, "get_conn", get_conn)
    return answers


def _measure(address: str, pages: int) -> None:
    limits = httpx.Limits(max_connections=pages + 1, max_keepalive_connections=pages + 1)
    headers = signed_in(address, "ann")
    with httpx.Client(base_url=address, headers=headers, limits=limits, timeout=120) as client:
        client.get("/api/v2/dags")
        print(f"GET /api/v2/dags alone:            {_told(_dags(client))}")
        with ThreadPoolExecutor(pages) as crowd:
            asked = [crowd.submit(_page, client) for _ in range(pages)]
            beside = _dags(client)
            found = [one.result() for one in asked]
        print(f"GET /api/v2/dags beside {pages} pages: {_told(beside)}")
        print(f"pages:                             {_told([took for _, took in found])}")
        print(f"answers to pages:                  {dict(Counter(code for code, _ in found))}")


def _page(client: httpx.Client) -> tuple[int, float]:
    begun = time.monotonic()
    code = client.get(LOG).status_code
    return code, time.monotonic() - begun


def _dags(client: httpx.Client) -> list[float]:
    found = []
    for _ in range(LOOKS):
        begun = time.monotonic()
        client.get("/api/v2/dags").raise_for_status()
        found.append(time.monotonic() - begun)
    return found


def _told(seconds: list[float]) -> str:
    cuts = statistics.quantiles(seconds, n=20)
    return f"p50 {statistics.median(seconds) * 1000:.0f} ms, p95 {cuts[18] * 1000:.0f} ms"


if __name__ == "__main__":
    main()
