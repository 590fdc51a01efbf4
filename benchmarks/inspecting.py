"""
How long it takes to read a checkpoint of ten thousand files, from its walk to the report.

    python -m benchmarks.inspecting

Makes checkpoints of a query with 200 state partitions and 100 batches out of the content of golden
ones, so that every file is what Spark writes, and reads each of them many times. The goal is 300
milliseconds for 10,000 files on a local disk, without the time to import the package.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from airflow_streaming.checkpoints.reader import Reader
from airflow_streaming.storage.folders import open_folders, walk
from tests.golden import golden_files

GOAL_MS: Final = 300
PARTITIONS: Final = 200
BATCHES: Final = range(100, 200)
VERSIONS: Final = range(153, 201)
"""Those that are left of each store; the last batch leaves version 200 behind."""
SNAPSHOT: Final = 190
ROUNDS: Final = 9

SHAPES: Final = ("agg", "agg_rocks_changelog", "agg_rocks")

Files = Iterator[tuple[str, bytes]]


def golden(shape: str) -> dict[str, bytes]:
    prefix = f"generated/spark-4.3.0/{shape}/checkpoint/"
    found = golden_files().items()
    return {path.removeprefix(prefix): data for path, data in found if path.startswith(prefix)}


def logs(files: dict[str, bytes]) -> Files:
    yield "metadata", files["metadata"]
    pinned = f'shuffle.partitions":"{PARTITIONS}"'.encode()
    plan = files["offsets/6"].replace(b'shuffle.partitions":"3"', pinned)
    for batch in BATCHES:
        yield f"offsets/{batch}", plan.replace(b'"logOffset":5', f'"logOffset":{batch}'.encode())
        yield f"commits/{batch}", files["commits/6"]
    entry = files["sources/0/5"]
    head, _, line = entry.partition(b"\n")
    yield "sources/0/199.compact", head + b"\n" + b"\n".join([line.strip()] * 2000)
    operator = files["state/0/_metadata/metadata"]
    told = f'"numPartitions":{PARTITIONS}'.encode()
    yield "state/0/_metadata/metadata", operator.replace(b'"numPartitions":3', told)
    yield "state/0/0/_metadata/schema", files["state/0/0/_metadata/schema"]


def state(shape: str, files: dict[str, bytes], partition: int) -> Files:
    folder, of = f"state/0/{partition}", f"state/0/{partition % 3}"
    if shape == "agg":
        for version in VERSIONS:
            yield f"{folder}/{version}.delta", files[f"{of}/7.delta"]
        yield f"{folder}/{SNAPSHOT}.snapshot", files[f"{of}/7.delta"]
        return
    newest = max(path for path in files if path.startswith(f"{of}/") and path.endswith(".zip"))
    if shape == "agg_rocks":
        for version in VERSIONS:
            yield f"{folder}/{version}.zip", files[newest]
    else:
        for version in VERSIONS:
            yield f"{folder}/{version}.changelog", files[f"{of}/7.changelog"]
        yield f"{folder}/{SNAPSHOT}.zip", files[newest]
    for path, data in files.items():
        if path.startswith(f"{of}/SSTs/"):
            yield f"{folder}/SSTs/{path.rpartition('/')[2]}", data


def build(shape: str, folder: Path) -> int:
    files, written = golden(shape), 0
    parts = (state(shape, files, partition) for partition in range(PARTITIONS))
    for path, data in (pair for part in (logs(files), *parts) for pair in part):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        written += 1
    return written


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return the median and the worst of some rounds, in milliseconds; the first is not counted."""
    work()
    taken = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        work()
        taken.append((time.perf_counter() - begun) * 1000)
    return statistics.median(taken), max(taken)


def measure(shape: str, folder: Path) -> None:
    written = build(shape, folder)
    folders = open_folders(str(folder))
    found = Reader(folders).inspect()
    walked, _ = timed(lambda: walk(folders))
    read, worst = timed(Reader(folders).inspect)
    told = "sound" if found.is_sound else f"{found.problems[0].message}"
    print(
        f"{shape}: {written} files, walk {walked:.0f} ms, whole report {read:.0f} ms (worst of "
        f"{ROUNDS}: {worst:.0f}; {read / written * 10_000:.0f} for 10,000 files, goal {GOAL_MS}), "
        f"{len(found.rollback_batches)} batches to go back to, {told}"
    )


def main() -> None:
    for shape in SHAPES:
        with tempfile.TemporaryDirectory(prefix="airflow-streaming-inspect-") as folder:
            measure(shape, Path(folder))


if __name__ == "__main__":
    main()
