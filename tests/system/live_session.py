"""The Spark session of ``live_backups``: another process, with its queries and their input."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.patience import PATIENCE
from tests.quick_java import spark_environment
from tests.system.live_copies import Query

PROGRAM: Final = Path(__file__).with_name("live_queries.py")
STORES: Final = ("hdfs", "rocksdb", "changelog", "format2")
SHAPES: Final = ("agg", "dedup", "join", "state", "files")
FILES: Final = 18
ROWS: Final = 30


class Session:
    """
    One Spark session in its own process.

    :param runtime: The virtual environment that has pyspark.
    :param folder: Where the process works.
    :param packages: Folder with more packages for it, i.e. pandas and pyarrow for ``state``.
    :param program: What runs in it, with its arguments.
    :param apart: Make it and its Java a process group of their own, named by ``pid``.
    """

    def __init__(
        self,
        runtime: Path,
        folder: Path,
        packages: str = "",
        program: Sequence[str] = (str(PROGRAM),),
        *,
        apart: bool = False,
    ) -> None:
        self._process = subprocess.Popen(
            [str(runtime / "bin/python"), *program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={**spark_environment(runtime), "PYTHONPATH": packages},
            text=True,
            start_new_session=apart,
        )
        self.pid = self._process.pid
        self.version = str(self.answer()["ready"])

    def await_end(self) -> None:
        """Wait until the process has ended."""
        self._process.wait(PATIENCE)

    def order(self, **what: Any) -> None:
        """Send an order."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Wait for the next answer."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("@"):
                found: dict[str, Any] = json.loads(line[1:])
                return found
        raise RuntimeError(f"Spark ended with {self._process.wait()}.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        err: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End Spark."""
        self._process.communicate(timeout=PATIENCE) if err is None else self._process.kill()
        self._process.wait(PATIENCE)


def write_input(folder: Path, files: int = FILES) -> None:
    """Write the files of both streams; each has five seconds of events, some of them repeated."""
    chance = random.Random(7)
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    for stream, later in (("a", 0), ("b", 2)):
        (folder / stream).mkdir(parents=True)
        rows: list[dict[str, Any]] = []
        for number in range(files):
            repeated = rows[-ROWS:][::5]
            rows = [
                {
                    "k": f"k{chance.randrange(8)}",
                    "id": number * ROWS + place,
                    "v": chance.randrange(100),
                    "ts": (begin + timedelta(seconds=number * 5 + place % 5 + later)).isoformat(),
                }
                for place in range(ROWS)
            ]
            path = folder / stream / f"{number:03}.json"
            path.write_text("".join(json.dumps(row) + "\n" for row in repeated + rows))
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def queries(shapes: list[str], stores: list[str], version: str, folder: Path) -> Iterator[Query]:
    """Return the queries that this Spark can run."""
    for shape in shapes:
        for store in ["hdfs"] if shape == "files" else stores:
            if store == "format2" and version.startswith("3."):
                continue
            if shape == "state" and store == "hdfs" and not version.startswith("3."):
                continue
            name = f"{shape}-{store}"
            yield Query(
                name=name,
                shape=shape,
                store=store,
                input=folder / "input",
                checkpoint=folder / "checkpoints" / name,
                output=folder / "outputs" / name,
            )


def order_of(query: Query, files_a_batch: int) -> dict[str, Any]:
    """Return a query as the session is told of it."""
    return {
        "name": query.name.replace("-", "_"),
        "shape": query.shape,
        "store": query.store,
        "input": str(query.input),
        "checkpoint": str(query.checkpoint),
        "output": str(query.output),
        "files_a_batch": files_a_batch,
    }
