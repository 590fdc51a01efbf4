"""
The input of the cutovers: order lines that arrive in small files, and what has to come out of them.

Times of the lines are the time of day, so that the age of a row tells how fresh it is. No line is
later than the watermark allows, so that what has to come out does not depend on how the lines are
cut into batches: every window of a second has exactly one right row for each shop.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final, Self

EVERY: Final = 0.5
"""Seconds between two files."""

LINES: Final = 10
SHOPS: Final = ("north", "south", "east", "west")
WINDOW_MS: Final = 1000

Key = tuple[int, str]
"""Start of a window in milliseconds since 1970, or the id of a line; and a shop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """
    What comes out for one window and shop, or for one line.

    :param most: Only the new code counts it.
    """

    n: int
    total: int
    most: int | None = None


class Shop:
    """
    Writes the files in a thread of its own; a number is the name of a file.

    :param folder: Emptied by nobody: a second shop goes on with the next number.
    """

    def __init__(self, folder: Path, every: float = EVERY, seed: int = 0) -> None:
        self.folder, self._every, self._random = folder, every, Random(seed)
        folder.mkdir(parents=True, exist_ok=True)
        self._number = 1 + max((int(file.stem) for file in folder.glob("*.json")), default=0)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shop", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let no more files arrive."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        before = time.time()
        while not self._end.wait(self._every):
            now = time.time()
            self._write(before, now)
            before = now

    def _write(self, after: float, before: float) -> None:
        lines = [self._line(after, before, line) for line in range(LINES)]
        # A name with a dot in front is none that Spark reads.
        hidden = self.folder / f".{self._number:07}.json"
        hidden.write_text("\n".join(lines), encoding="utf-8")
        hidden.rename(self.folder / f"{self._number:07}.json")
        self._number += 1

    def _line(self, after: float, before: float, line: int) -> str:
        at = datetime.fromtimestamp(self._random.uniform(after, before), UTC)
        return json.dumps(
            {
                "id": self._number * LINES + line,
                "at": at.isoformat(timespec="milliseconds"),
                "shop": self._random.choice(SHOPS),
                "amount": self._random.randint(1, 1000),
            }
        )


def expected(folder: Path, query: str = "counts") -> dict[Key, Row]:
    """Return what a batch over all files gives: the right row of every window and shop, or line."""
    amounts: dict[Key, list[int]] = {}
    for line in _lines(folder):
        key = (line["id"] if query == "lines" else _window(line), line["shop"])
        amounts.setdefault(key, []).append(line["amount"])
    return {
        key: Row(n=len(found), total=sum(found), most=max(found)) for key, found in amounts.items()
    }


def _window(line: dict[str, Any]) -> int:
    at = round(datetime.fromisoformat(line["at"]).timestamp() * 1000)
    return at - at % WINDOW_MS


def _lines(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.glob("[0-9]*.json")):
        with contextlib.suppress(FileNotFoundError):
            yield from map(json.loads, file.read_text(encoding="utf-8").splitlines())
