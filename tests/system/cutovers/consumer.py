"""
A consumer that reads the live output all the time, and what it has seen.

It asks for the live output before every look, reads each file once, and goes on in another output
with the first window that it has not seen yet. So it sees what any consumer does that follows the
live pointer: a row that is lost, doubled or wrong for it is so for everybody.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Self

from airflow_streaming.live import live
from tests.system.cutovers.shop import WINDOW_MS, Key, Row

SINK_LOG: Final = "_spark_metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """
    A moment at which the consumer saw a fresher row than ever before.

    :param at: Seconds since 1970.
    :param freshest: End of the newest window in it, in milliseconds since 1970.
    """

    at: float
    freshest: int

    @property
    def age(self) -> float:
        """Return how old the freshest row was in seconds."""
        return self.at - self.freshest / 1000


class Consumer:
    """
    Reads in a thread of its own.

    :param home: URI of the home.
    :param stream: The stream's name.
    :param every: Seconds between two looks.
    :param output: Read this output for ever instead of the live one.
    :param folder: What to read in the output; by default all of it.
    """

    def __init__(
        self,
        home: str,
        stream: str,
        *,
        every: float = 0.1,
        output: str | None = None,
        folder: str = "",
    ) -> None:
        self._home, self._stream, self._every, self._fixed = home, stream, every, output
        self._folder = folder
        self.times: Counter[Key] = Counter()
        self.rows: dict[Key, Row] = {}
        self.arrivals: list[Arrival] = []
        self.outputs: list[tuple[float, str]] = []
        self.looks, self.failures = 0, list[str]()
        self._cursor, self._seen = 0, set[str]()
        self._taking = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="consumer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(self._every):
            try:
                self.look()
            except Exception as err:  # noqa: BLE001 - told at the end, whatever it was
                self.failures.append(f"{type(err).__name__}: {err}")

    def look(self) -> None:
        """Read what is new in the live output."""
        output = self._fixed or live(self._stream, home=self._home).output
        output = f"{output}/{self._folder}" if self._folder else output
        self.looks += 1
        if not self.outputs or self.outputs[-1][1] != output:
            self.outputs.append((time.time(), output))
            # Another output is read from its beginning, and what was seen before passed over.
            self._seen, self._cursor = set(), max((key[0] for key in self.rows), default=-1) + 1
        new = [row for row in new_rows(output, self._seen) if row[0][0] >= self._cursor]
        self._take(new)

    def _take(self, new: Iterable[tuple[Key, Row]]) -> None:
        freshest = 0
        with self._taking:
            for key, row in new:
                self.times[key] += 1
                self.rows[key] = row
                freshest = max(freshest, key[0] + WINDOW_MS)
        if freshest and (not self.arrivals or freshest > self.arrivals[-1].freshest):
            self.arrivals.append(Arrival(at=time.time(), freshest=freshest))

    def taken(self) -> tuple[Counter[Key], dict[Key, Row]]:
        """Return how often each row was seen, and the rows, as of one moment."""
        with self._taking:
            return Counter(self.times), dict(self.rows)

    def pauses(self, after: float, before: float) -> list[float]:
        """Return the seconds between fresher rows that lie, in part at least, in a time."""
        pairs = pairwise([arrival.at for arrival in self.arrivals])
        return [late - early for early, late in pairs if late >= after and early <= before]


def joined(outputs: Iterable[str]) -> Iterator[tuple[Key, Row]]:
    """Return the rows of outputs, oldest first, each read on where the one before it ends."""
    cursor = 0
    for output in outputs:
        rows = [row for row in new_rows(output, set()) if row[0][0] >= cursor]
        cursor = max((key[0] + 1 for key, _ in rows), default=cursor)
        yield from rows


def new_rows(output: str, seen: set[str]) -> Iterator[tuple[Key, Row]]:
    """Return the rows of the files that were not seen yet, and remember the files."""
    folder = Path(output.removeprefix("file://"))
    is_ledger = not (folder / SINK_LOG).is_dir()
    for file in sorted(folder.glob("[0-9]*.json")) if is_ledger else _logged(folder, seen):
        if file.name in seen:
            continue
        yield from map(_row, _read(file))
        seen.add(file.name)


def _logged(folder: Path, seen: set[str]) -> list[Path]:
    """Return the files that the log of a file sink names in the entries that were not seen yet."""
    files: dict[str, Path] = {}
    for entry in sorted((folder / SINK_LOG).glob("[0-9]*"), key=_number):
        if entry.name in seen:
            continue
        with contextlib.suppress(FileNotFoundError):
            for line in entry.read_text(encoding="utf-8").splitlines()[1:]:
                path = Path(json.loads(line)["path"].removeprefix("file://"))
                files[path.name] = path
            seen.add(entry.name)
    return [*files.values()]


def _number(entry: Path) -> tuple[int, str]:
    return int(entry.name.split(".")[0]), entry.name


def _read(file: Path) -> list[dict[str, Any]]:
    if file.suffix == ".json":
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    import pyarrow.parquet  # type: ignore[import-untyped]

    return pyarrow.parquet.read_table(file).to_pylist()  # type: ignore[no-any-return]


def _row(told: dict[str, Any]) -> tuple[Key, Row]:
    row = Row(n=told["n"], total=told["total"], most=told.get("most"))
    return (told["second"] if "second" in told else told["id"], told["shop"]), row
