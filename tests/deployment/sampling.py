"""Sample the processes, the home, the store and the logs of a deployment while it runs."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import fsspec
import psutil

from airflow_streaming.model.uris import to_fsspec
from tests.deployment.deployed import Deployment
from tests.deployment.requests import Kind as RequestKind
from tests.deployment.requests import counts
from tests.deployment.trends import Figure, Kind, Sample

MIB: Final = 2.0**20
COMPONENTS: Final = ("triggerer", "api-server", "scheduler", "dag-processor")
STREAM_FOLDERS: Final = ("checkpoints", "output")
"""Folders of the home that hold what Spark writes."""
REQUESTS: Final = re.compile(r"^SeaweedFS_s3_request_total\{.*\} ([0-9.e+]+)$", re.MULTILINE)
PATIENCE: Final = 10.0

FIGURES: Final = (
    *(Figure(name=f"{name} memory", unit="MiB", scale=MIB) for name in COMPONENTS),
    *(Figure(name=f"{name} handles", unit="files") for name in COMPONENTS),
    Figure(name="wrapper memory", unit="MiB a stream", scale=MIB),
    Figure(name="wrapper handles", unit="files a stream"),
    Figure(name="JVM memory", unit="MiB a stream", scale=MIB),
    Figure(name="JVM handles", unit="files a stream"),
    Figure(name="records", unit="objects"),
    Figure(name="records size", unit="MiB", scale=MIB),
    Figure(name="checkpoints", unit="objects"),
    Figure(name="output", unit="objects"),
    Figure(name="requests", unit="requests", kind=Kind.COUNTER),
    Figure(name="log lines", unit="lines", kind=Kind.COUNTER),
)


class Sampler(threading.Thread):
    """
    Samples a deployment until it is stopped.

    :param every: Seconds between two samples.
    :param file: Each sample is appended to it as a line of JSON.
    """

    def __init__(self, made: Deployment, every: float, file: Path) -> None:
        super().__init__(name="sampler", daemon=True)
        self._made, self._every, self._file = made, every, file
        self._stopping = threading.Event()
        self.samples: list[Sample] = []

    def run(self) -> None:
        begun = time.monotonic()
        while not self._stopping.wait(self._every):
            sample = Sample(at=time.monotonic() - begun, values=values(self._made))
            self.samples.append(sample)
            with self._file.open("a") as lines:
                lines.write(json.dumps(asdict(sample)) + "\n")

    def stop(self) -> None:
        """Take no more samples; returns when the thread has ended."""
        self._stopping.set()
        self.join()


def values(made: Deployment) -> dict[str, float]:
    """Return all figures that can be read now; a part of the deployment may be away."""
    found: dict[str, float] = {}
    looks: tuple[Callable[[], Mapping[str, float]], ...] = (
        lambda: of_components(made.airflow.pids()),
        lambda: of_drivers(made.stage.drivers.alive()),
        lambda: of_home(made.stage.home),
        lambda: of_store(made.metrics),
        lambda: {"log lines": count_lines(logs(made))},
    )
    for look in looks:
        with contextlib.suppress(OSError, psutil.Error):
            found |= look()
    return found


def of_components(pids: Mapping[str, int]) -> dict[str, float]:
    """Return memory and handles of Airflow's components, with their child processes; several of a kind add up."""
    found: Counter[str] = Counter()
    for name, pid in pids.items():
        kind = next((kind for kind in COMPONENTS if name.startswith(kind)), None)
        if kind is not None:
            leader = psutil.Process(pid)
            found.update(_of_processes(kind, [leader, *leader.children(recursive=True)]))
    return dict(found)


def of_drivers(tokens: Mapping[str, list[int]]) -> dict[str, float]:
    """
    Return memory and handles of an average driver: of its JVM, and of the Python process that wraps its script.

    :param tokens: Process ids by driver.
    """
    found: Counter[str] = Counter()
    for pid in (pid for pids in tokens.values() for pid in pids):
        process = psutil.Process(pid)
        found.update(_of_processes("JVM" if "java" in process.name() else "wrapper", [process]))
    return {name: value / len(tokens) for name, value in found.items()}


def _of_processes(kind: str, processes: Iterable[psutil.Process]) -> dict[str, float]:
    memory = handles = 0.0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            # Memory that only this process has: pages that forks share would count several times.
            memory += process.memory_full_info().uss
            handles += process.num_fds()
    return {f"{kind} memory": memory, f"{kind} handles": handles}


def of_home(uri: str) -> dict[str, float]:
    """Return objects and bytes of a home: the records, and what Spark writes."""
    files, root = fsspec.url_to_fs(to_fsspec(uri))
    files.invalidate_cache()
    found = Counter({"records": 0, "records size": 0, "checkpoints": 0, "output": 0})
    for path, entry in files.find(root, detail=True).items():
        kind = _kind_of(path.removeprefix(root).strip("/"))
        found[kind] += 1
        if kind == "records":
            found["records size"] += entry["size"] or 0
    return {name: float(value) for name, value in found.items()}


def _kind_of(path: str) -> str:
    """Return ``checkpoints``, ``output``, or ``records`` for everything else."""
    parts = path.split("/")
    return parts[1] if len(parts) > 1 and parts[1] in STREAM_FOLDERS else "records"


def of_store(metrics: str) -> dict[str, float]:
    """
    Return the requests that the S3 server has answered.

    :param metrics: Address of its metrics; empty where the home is a folder.
    """
    if not metrics:
        return {}
    with urllib.request.urlopen(metrics, timeout=PATIENCE) as reply:  # noqa: S310 - our own address
        return {"requests": sum(map(float, REQUESTS.findall(reply.read().decode())))}


def store_requests(made: Deployment) -> Counter[RequestKind]:
    """Return the requests to the store since the deployment began."""
    if made.requests is None:
        return Counter()
    with made.requests.open(errors="replace") as lines:
        return counts(lines, urlsplit(made.stage.home).netloc + urlsplit(made.stage.home).path)


def logs(made: Deployment) -> Iterator[Path]:
    """Yield the log files of Airflow, of its tasks and of the drivers, which all lie in its folder."""
    yield from made.airflow.home.rglob("*.log")


def count_lines(files: Iterable[Path]) -> float:
    """Return the lines of files; a file that is gone meanwhile has none."""
    lines = 0
    for file in files:
        with contextlib.suppress(FileNotFoundError), file.open("rb") as content:
            lines += sum(chunk.count(b"\n") for chunk in iter(lambda: content.read(1 << 20), b""))
    return float(lines)
