"""
What the Streams page costs: its API, its first view, scrolling, and many open pages.

    python -m benchmarks.streams_page --streams 200 --hours 24

A home with that many streams and that much history is written first, through the provider's own
writers; the history of a few streams is copied to the others, which have other names. The page's app
is served without Airflow around it, so the sign-in and the permission check of Airflow are not in the
figures. What is shown in a browser is measured with headless Chromium, and left out without one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import quote

import psutil

from airflow_streaming.home.history import PartCache
from airflow_streaming.home.live_lane import LiveLaneCache
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.plugins.access.page_store import PageStore
from airflow_streaming.plugins.board import Lane
from airflow_streaming.plugins.lists import timeline_view
from airflow_streaming.plugins.views import now_utc
from demo.airflow import free_port
from demo.waiting import PATIENCE
from tests.page.homes import KINDS, many, write_home
from tests.page.server import kept_in

KEPT = 12
"""Streams whose history is really written; the others get a copy."""
VIEWS = ("", "/series?seconds=3600", "/series?seconds=86400", "/timeline", "/changes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--batch", type=float, default=10.0, help="seconds between two batches")
    parser.add_argument("--asks", type=int, default=100, help="requests of each kind")
    parser.add_argument("--minutes", type=float, default=3.0, help="how long 20 pages are open")
    parser.add_argument(
        "--folder", type=Path, help="keep the home there, and use it if it is there"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="streams-page-") as scratch:
        home = given.folder or Path(scratch) / "home"
        if not home.exists():
            write(home, given.streams, given.hours, given.batch)
        print(
            f"{given.streams} streams, {given.hours:g} h of history, load {os.getloadavg()[0]:.1f}"
        )
        with served(home) as (address, server):
            requests(address, given.asks)
            first_view(address)
            pages(address, server, given.minutes)
        more = Path(scratch) / "more"
        write(more, 500, 0.5, 60.0)
        with served(more) as (address, _):
            scrolling(address)
        store_requests(home)


def write(home: Path, count: int, hours: float, batch: float) -> None:
    """Write a home; streams of one kind share what their drivers have written."""
    names = many(count)
    first = {kind: next((n for n, k in names.items() if k == kind), None) for kind in KINDS}
    real = {name: names[name] for name in [*filter(None, first.values())][:KEPT]}
    write_home(home, real, hours=hours, batch=batch)
    others = {name: kind for name, kind in names.items() if name not in real}
    # Records name their stream, so they are written; figures do not, so they are copied.
    write_home(home, others, hours=min(hours, 0.1), batch=batch)
    for name, kind in others.items():
        copy(home / str(first[kind]), home / name)


def copy(source: Path, target: Path) -> None:
    """Copy what the drivers of one stream have recorded of their batches."""
    for epoch in sorted((source / "epochs").iterdir()):
        for folder in ("progress", "summary"):
            if (epoch / folder).is_dir() and (target / "epochs" / epoch.name).is_dir():
                shutil.copytree(
                    epoch / folder, target / "epochs" / epoch.name / folder, dirs_exist_ok=True
                )


@contextmanager
def served(home: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Serve the page for a home in a process of its own, whose drivers beat in another thread."""
    port = free_port()
    command = [sys.executable, "-W", "ignore", "-m", "tests.page.server", str(home)]
    process = subprocess.Popen(
        [*command, "--port", str(port), "--quiet"], stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}/streaming/"
    try:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                reading = ask(f"{address}api/fleet")[1]["reading"]
            except OSError:
                time.sleep(0.2)
                continue
            if not reading:
                break
            time.sleep(0.5)
        yield address, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(PATIENCE)


def ask(url: str) -> tuple[float, Any, int]:
    """Return the seconds that a request took, what it gave, and its size."""
    begun = time.perf_counter()
    with urllib.request.urlopen(url, timeout=PATIENCE) as reply:  # noqa: S310 - our own server
        body = reply.read()
    return time.perf_counter() - begun, json.loads(body), len(body)


def p95(values: list[float]) -> float:
    return sorted(values)[max(0, round(0.95 * len(values)) - 1)]


def requests(address: str, asks: int) -> None:
    """Ask every kind of question about streams in turn."""
    print("\n| request | median ms | p95 ms | kB |\n|---|---:|---:|---:|")
    rows = ask(f"{address}api/fleet")[1]["streams"]
    asked: dict[str, list[tuple[float, int]]] = {}
    for number in range(asks):
        row = rows[number % len(rows)]
        base = f"{address}api/streams/{quote(row['dag'])}/{quote(row['stream'])}"
        for view in VIEWS:
            took, _, size = ask(f"{base}{view}")
            asked.setdefault(f"stream{view}", []).append((took, size))
        took, _, size = ask(f"{address}api/fleet")
        asked.setdefault("fleet", []).append((took, size))
    for name, found in asked.items():
        times = [1000 * one for one, _ in found]
        size = max(size for _, size in found) / 1000
        print(f"| {name} | {median(times):.0f} | {p95(times):.0f} | {size:.0f} |")
    every = [1000 * one for found in asked.values() for one, _ in found]
    print(f"| all | {median(every):.0f} | {p95(every):.0f} | |")


INTERACTIVE = "document.querySelectorAll('tr.row').length > 0"


def first_view(address: str) -> None:
    """Open the fleet in a browser that has nothing of it yet, several times."""
    from tests.page.chrome import browsing, chromium

    if chromium() is None:
        print("\nChromium is not installed: nothing is measured in a browser.")
        return
    took = []
    with browsing() as page:
        page.call("Network.enable")
        page.call("Network.setCacheDisabled", cacheDisabled=True)
        for _ in range(7):
            page.open("about:blank")
            page.call("Page.navigate", url=f"{address}app/")
            page.until(INTERACTIVE)
            took.append(page.eval("performance.getEntriesByName('rows')[0].startTime"))
    print(f"\nfirst view interactive: median {median(took):.0f} ms, greatest {max(took):.0f} ms")


FRAMES = """new Promise((done) => {
  const times = [];
  const begin = performance.now();
  let before = begin;
  const step = (now) => {
    times.push(now - before);
    before = now;
    window.scrollBy(0, 60);
    if (now - begin < 4000) requestAnimationFrame(step);
    else done(times.slice(2));
  };
  requestAnimationFrame(step);
})"""


def scrolling(address: str) -> None:
    """Scroll through a page of 500 streams and look at every frame."""
    from tests.page.chrome import browsing, chromium

    if chromium() is None:
        return
    with browsing() as page:
        page.open(f"{address}app/")
        page.until("document.querySelectorAll('tr.row').length === 50")
        found = page.eval(FRAMES)
    late = sum(1 for one in found if one > 50)
    print(
        f"500 streams, scrolling: {len(found)} frames, median {median(found):.1f} ms, "
        f"p95 {p95(found):.1f} ms, greatest {max(found):.0f} ms, {late} over 50 ms"
    )


def pages(address: str, server: psutil.Process, minutes: float) -> None:
    """Ask what twenty open pages ask, as often as they do, and look at the server's CPU time."""
    rows = ask(f"{address}api/fleet")[1]["streams"]
    used = server.cpu_times()
    before, begun = float(used.user + used.system), time.monotonic()
    asyncio.run(_poll(address, rows, minutes * 60))
    used, seconds = server.cpu_times(), time.monotonic() - begun
    share = (used.user + used.system - before) / seconds
    print(f"20 pages open for {minutes:g} min: {100 * share:.1f} % of a core")


async def _poll(address: str, rows: list[dict[str, Any]], seconds: float) -> None:
    import httpx

    async with httpx.AsyncClient(timeout=PATIENCE) as client:

        async def page(path: str, every: float, delay: float) -> None:
            await asyncio.sleep(delay)
            end, tag = time.monotonic() + seconds - delay, ""
            while time.monotonic() < end:
                reply = await client.get(address + path, headers={"If-None-Match": tag})
                tag = reply.headers.get("etag", "")
                await asyncio.sleep(every)

        tasks = [page("api/fleet", 5, number / 2) for number in range(10)]
        for number in range(10):
            row = rows[number * len(rows) // 10]
            base = f"api/streams/{quote(row['dag'])}/{quote(row['stream'])}"
            tasks += [
                page(base, 5, number / 2),
                page(f"{base}/series?seconds=3600", 15, number / 2),
                page(f"{base}/timeline?most=120&since={time.time() - 3600:.0f}", 30, number / 2),
            ]
        await asyncio.gather(*tasks)


class Counting:
    """A store that counts what is read of it: each is one request of an object store."""

    def __init__(self, store: LocalStore) -> None:
        self.store, self.uri, self.asked = store, store.uri, Counter[str]()

    def read(self, path: str) -> bytes | None:
        self.asked["read"] += 1
        return self.store.read(path)

    def names(self, folder: str) -> list[str]:
        self.asked["list"] += 1
        return self.store.names(folder)

    def create(self, path: str, data: bytes) -> None:
        raise AssertionError("a page writes nothing")

    replace = create

    def delete(self, path: str) -> None:
        raise AssertionError("a page deletes nothing")


def store_requests(home: Path) -> None:
    """Count what one page of a stream asks of a store, when nothing is known and when much is."""
    kept = next(one for one in kept_in(home) if one.stream == "orders_eu")
    store, later = Counting(LocalStore(str(home))), [0.0]

    def clock() -> float:
        return time.monotonic() + later[0]

    live = LiveLaneCache(PageStore(store, clock=clock), kept.stream, every=10.0, clock=clock)
    lane = Lane(live, kept, PartCache())

    def an_hour_ago() -> datetime:
        return now_utc() - timedelta(hours=1)

    def page() -> dict[str, Counter[str]]:
        told = {}
        for name, act in (
            ("status", lambda: lane.view().whole(now_utc())),
            ("series", lambda: lane.view().history.read(time.time() - 3600, time.time())),
            ("marks", lambda: timeline_view(lane.view().home, most=120, since=an_hour_ago())),
            ("timeline", lambda: timeline_view(lane.view().home, most=20)),
        ):
            store.asked.clear()
            act()
            told[name] = Counter(store.asked)
        return told

    print("\n| page | status | series | marks | timeline | all |\n|---|---:|---:|---:|---:|---:|")
    for name, seconds in (("cold", 0.0), ("warm, 5 s later", 5.0), ("10 s later", 5.0)):
        later[0] += seconds
        shown = page()
        told = [sum(asked.values()) for asked in shown.values()]
        print(f"| {name} | {' | '.join(map(str, told))} | {sum(told)} |")
        print({part: dict(asked) for part, asked in shown.items()}, file=sys.stderr)


if __name__ == "__main__":
    main()
