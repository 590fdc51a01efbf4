"""
Gather the facts of an installation on this host.

The probe of a home creates and deletes a few files of its own; nothing else is changed. A process of its own loads Airflow, because a broken Airflow must not end the command.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import psutil

from airflow_streaming.advice.installation.installation_checks import (
    PAGE,
    UI_PORTS,
    Installation,
    SeenAirflow,
    SeenHome,
    SeenHost,
    SeenRows,
    SeenRuntime,
    SeenServer,
)
from airflow_streaming.advice.installation.queue_probe import look_at_queues
from airflow_streaming.exceptions import HomeNotExclusive, RuntimeNotFound, StreamingError
from airflow_streaming.home.home import Home, open_home
from airflow_streaming.launch.java import find_java
from airflow_streaming.launch.runtime import resolve_runtime
from airflow_streaming.model.fleet.trigger_queues import NO_QUEUES, TriggerQueues
from airflow_streaming.model.uris import to_fsspec
from airflow_streaming.model.wire import MAX_RECORD_BYTES, parse_json
from airflow_streaming.storage.blobs import Blobs
from airflow_streaming.storage.fsspec_blobs import open_blobs
from airflow_streaming.storage.probe import check_initialized, race

FACTS: Final = "airflow_streaming.hooks.airflow_facts"
MARK: Final = "AIRFLOW_FACTS "
"""Begins the line with the facts; Airflow may log beside it."""
AIRFLOW_SECONDS: Final = 180.0
SERVER_SECONDS: Final = 10.0
HEALTH: Final = "/api/v2/monitor/health"
Opener = Callable[[str], Home]
BlobsOpener = Callable[[str], Blobs]


def _open_blobs(uri: str) -> Blobs:
    return open_blobs(to_fsspec(uri))


def _no_rows(home: Home) -> SeenRows:
    return SeenRows()


def gather(
    homes: Sequence[str],
    environment: Mapping[str, str] = os.environ,
    *,
    rows_of: Callable[[Home], SeenRows] = _no_rows,
    open_: Opener = open_home,
    blobs_of: BlobsOpener = _open_blobs,
    ask: Callable[[], tuple[dict[str, Any], str]] | None = None,
    get: Callable[[str], tuple[int, bytes]] | None = None,
) -> Installation:
    """
    Gather the facts.

    :param homes: Homes to try in addition to [streaming] homes.
    :param rows_of: Looks at the rows that triggers have left in a home.
    :param blobs_of: Opens its files, whose dates are compared with this host's clock.
    :param ask: Returns the facts of Airflow and the reason where they are missing.
    :param get: Returns status and content of an address; raises ``OSError``.
    """
    told, problem = (ask or ask_airflow)()
    seen = SeenAirflow.from_facts(told["airflow"]) if told else None
    queues = seen.trigger_queues if seen else NO_QUEUES
    java, java_problem = _java(environment)
    places = [*homes, *(home for home in told.get("homes", ()) if home not in homes)]
    return Installation(
        java=java,
        java_problem=java_problem,
        runtimes=tuple(_runtimes(told.get("runtimes", {}), environment)),
        homes=tuple(try_home(uri, open_, rows_of, blobs_of, queues) for uri in places),
        airflow=seen,
        airflow_problem=problem,
        server=SeenServer(problem="[api] base_url is not known")
        if seen is None
        else ask_server(seen.base_url, get or _get),
        host=look_at_host(told.get("driver_folder") or "/"),
    )


def ask_airflow() -> tuple[dict[str, Any], str]:
    """Return the facts of Airflow and the reason where they are missing."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", FACTS],
            capture_output=True,
            text=True,
            check=False,
            timeout=AIRFLOW_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as err:
        return {}, f"Airflow does not answer: {err}"
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            found: dict[str, Any] = json.loads(line.removeprefix(MARK))
            return found, ""
    last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no output"]
    return {}, f"Airflow cannot be loaded: {last[0][:300]}"


def _java(environment: Mapping[str, str]) -> tuple[str, str]:
    try:
        found = find_java("any", None, environment)
    except RuntimeNotFound:
        return "", "no Java in JAVA_HOME or on PATH"
    return f"Java {found.version} ({found.source})", ""


def _runtimes(table: Mapping[str, Any], environment: Mapping[str, str]) -> list[SeenRuntime]:
    found = []
    for name in sorted(table):
        try:
            one = resolve_runtime(name, table, environment)
        except StreamingError as err:
            found.append(SeenRuntime(name=name, problem=str(err)))
        else:
            found.append(SeenRuntime(name=name, spark=one.spark_version, java=one.java))
    return found


def try_home(
    uri: str,
    open_: Opener = open_home,
    rows_of: Callable[[Home], SeenRows] = _no_rows,
    blobs_of: BlobsOpener = _open_blobs,
    queues: TriggerQueues = NO_QUEUES,
) -> SeenHome:
    """Let writers race in a home, time one file, and look at the rows of triggers and at their queues."""
    seen = SeenHome(uri=uri)
    try:
        home = open_(uri)
        seen = replace(seen, latency_ms=_latency(home), streams=len(home.streams()))
        seen = replace(seen, rows=rows_of(home))
        seen = replace(seen, queues=look_at_queues(home, queues, seen.rows.watched))
        race(home.store)
    except HomeNotExclusive as err:
        return replace(seen, flaw=str(err), skew_s=_skew(blobs_of(uri)))
    except StreamingError as err:
        return replace(seen, problem=str(err))
    try:
        check_initialized(home.store)
    except StreamingError:
        return replace(seen, is_made=False)
    return replace(seen, skew_s=_skew(blobs_of(uri)))


def _latency(home: Home) -> float:
    path = f"_store/check-{uuid.uuid4().hex}"
    begun = time.monotonic()
    home.store.create(path, b"check")
    home.store.read(path)
    taken = (time.monotonic() - begun) * 1000
    home.store.delete(path)
    return taken


def _skew(blobs: Blobs) -> float | None:
    """Return by how many seconds the store's clock is ahead; ``None`` where the store does not tell."""
    name = f"check-{uuid.uuid4().hex}"
    blobs.create(f"_store/{name}", b"check")
    now = datetime.now(UTC)
    try:
        found = [one.modified for one in blobs.entries("_store") if one.name == name]
    finally:
        blobs.delete(f"_store/{name}")
    return (found[0] - now).total_seconds() if found and found[0] else None


def ask_server(base_url: str, get: Callable[[str], tuple[int, bytes]]) -> SeenServer:
    """Ask the API server for the health of all components, and for the Streams page."""
    url = base_url.rstrip("/")
    try:
        status, body = get(f"{url}{HEALTH}")
        if status != HTTPStatus.OK:
            return SeenServer(problem=f"{url}{HEALTH} answers HTTP {status}")
        return SeenServer(health=_states(body), page=get(f"{url}{PAGE}")[0])
    except (OSError, ValueError) as err:
        return SeenServer(problem=f"{url} does not answer: {err}")


def _states(body: bytes) -> dict[str, str]:
    parts = parse_json(body)
    return {name: str((part or {}).get("status") or "") for name, part in parts.items()}


def _get(url: str) -> tuple[int, bytes]:
    if not url.startswith(("http://", "https://")):
        raise OSError("not an http address")
    try:
        with urllib.request.urlopen(url, timeout=SERVER_SECONDS) as reply:  # noqa: S310 - checked
            return reply.status, reply.read(MAX_RECORD_BYTES)
    except urllib.error.HTTPError as err:
        return err.code, b""


def look_at_host(folder: str) -> SeenHost:
    """Return the limits and the free resources of this host."""
    place = Path(folder)
    while not place.exists():
        place = place.parent
    return SeenHost(
        folder=folder,
        disk_free=shutil.disk_usage(place).free,
        memory_free=psutil.virtual_memory().available,
        open_files=_limit(resource.RLIMIT_NOFILE),
        processes=_limit(resource.RLIMIT_NPROC),
        free_ports=sum(map(_is_free, UI_PORTS)),
    )


def _limit(which: int) -> int | None:
    soft, _ = resource.getrlimit(which)
    return None if soft == resource.RLIM_INFINITY else soft


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
