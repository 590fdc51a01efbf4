"""
How fast Airflow's API server answers while pages of homes that hang are asked for.

    python -m benchmarks.hanging_homes [--pages 200]

It serves Airflow's own API with our plugin, and asks for its list of dags: alone, beside 20 requests
for a dag, which are Airflow's own, and beside as many, and so many, for the driver log of a stream whose
home does not answer. It prints p50 and p95; what the third takes beyond the second is the plugin's.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import statistics
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.integration.plugin.api import RUN, add_dag, forge_xcom, serving, settings_of, signed_in

LOG = f"/streaming/tasks/hung/{RUN}/keep/-1/driver-log"
LIST = "/api/v2/dags"
OWN = "/api/v2/dags/hung/details"
LOOKS = 40
MOST_OWN = 20
"""Of 200 of its own requests at once Airflow's database sessions run out, with SQLite, for minutes."""


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
    headers = signed_in(address, "ann")
    # The clients are a process of their own: 200 of them beside the server would measure themselves.
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawned) as clients:
        alone = clients.submit(asked_beside, address, headers, LOG, 0).result()
        print(f"GET {LIST} alone: {_told(alone.looks)}")
        for count, what, path in (
            (min(pages, MOST_OWN), "of Airflow's own", OWN),
            (min(pages, MOST_OWN), "for homes that hang", LOG),
            (pages, "for homes that hang", LOG),
        ):
            seen = clients.submit(asked_beside, address, headers, path, count).result()
            print(f"GET {LIST} beside {count} requests {what}: {_told(seen.looks)}")
            print(f"  these requests: {_told(seen.pages)}, answers {dict(Counter(seen.codes))}")


class Asked(NamedTuple):
    """Seconds of the looks and of the requests beside them, and the codes of these."""

    looks: list[float]
    pages: list[float]
    codes: list[int]


def asked_beside(address: str, headers: dict[str, str], path: str, pages: int) -> Asked:
    """Ask for the list of dags again and again while so many requests for a path are under way."""
    return asyncio.run(_asked_beside(address, headers, path, pages))


async def _asked_beside(address: str, headers: dict[str, str], path: str, pages: int) -> Asked:
    limits = httpx.Limits(max_connections=pages + 1, max_keepalive_connections=pages + 1)
    async with httpx.AsyncClient(
        base_url=address, headers=headers, limits=limits, timeout=120
    ) as client:
        await client.get(LIST)
        crowd = [asyncio.create_task(_took(client, path)) for _ in range(pages)]
        looks: list[float] = []
        while len(looks) < (1 if pages else LOOKS) or not all(task.done() for task in crowd):
            looks.append((await _took(client, LIST))[1])
        answers = [await task for task in crowd]
    return Asked(looks, [took for _, took in answers], [code for code, _ in answers])


async def _took(client: httpx.AsyncClient, path: str) -> tuple[int, float]:
    begun = time.monotonic()
    code = (await client.get(path)).status_code
    return code, time.monotonic() - begun


def _told(seconds: list[float]) -> str:
    cuts = statistics.quantiles([*seconds, *seconds], n=20)
    told = f"p50 {statistics.median(seconds) * 1000:.0f} ms, p95 {cuts[18] * 1000:.0f} ms"
    return f"{told} (n = {len(seconds)})"


if __name__ == "__main__":
    main()
