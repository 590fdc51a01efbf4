"""
The rows of a failed batch that hold the value which an error names.

An error of a cast or of Python's ``int()`` names the value and neither file nor row. The files of a batch are known,
so those on this machine are searched once, when the query has failed. A folder of another machine or of an object
store is not read: that takes money and time, and the driver is about to end.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

MOST_FILES: Final = 20
MOST_BYTES: Final = 16_000_000
"""Bytes of one file that are searched; a search of 20 such files takes seconds."""
MOST_ROWS: Final = 3
"""Rows that are named; a value that many rows have tells no row."""


def bad_rows(value: str, files: Iterable[str]) -> tuple[str, ...]:
    """
    Return the rows with a value, as ``line 3 of file:/in/a.json``; empty for none.

    :param files: Files of the failed batch, as the source's log has them.
    """
    found: list[str] = []
    for url in list(files)[:MOST_FILES]:
        for number in _lines_with(value, url):
            if len(found) == MOST_ROWS:
                return (*found, "and more")
            found.append(f"line {number} of {url}")
    return tuple(found)


def _lines_with(value: str, url: str) -> Iterator[int]:
    path = _local(url)
    if path is None:
        return
    with path.open("rb") as file:
        text = file.read(MOST_BYTES).decode("utf-8", "replace")
    yield from lines_with(value, text.splitlines())


def _local(url: str) -> Path | None:
    if not url.startswith("file:"):
        return None
    path = Path("/" + unquote(url.removeprefix("file:")).lstrip("/"))
    return path if path.is_file() else None


def lines_with(value: str, lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines of JSON, or of CSV, in which a field is the value."""
    return [
        number
        for number, line in enumerate(lines, start=1)
        if value in line and value in _fields(line)
    ]


def _fields(line: str) -> list[str]:
    try:
        return [*_leaves(json.loads(line))]
    except (ValueError, RecursionError):
        pass
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def _leaves(told: Any) -> Iterator[str]:
    if isinstance(told, dict):
        told = [*told.values()]
    if isinstance(told, list):
        for one in told:
            yield from _leaves(one)
    else:
        yield told if isinstance(told, str) else json.dumps(told)
