"""
How many files wait in the folder of a file source.

Open-source Spark reports neither a newest offset nor a metric for them, from 3.5 to 4.3. In a
folder of this host, the names are counted against the files that the source has taken. For other
folders one call reads the source's own list: files of its last listing beyond the batch's limit.
This list misses files that arrived since that listing. It is missing where a source takes all
files, or the latest first. Remote folders are never listed from here, because listings of object
stores cost money and time.

A slow disk must not delay the heartbeat. The count runs in a separate thread, at most every 30 s
and at most 1 % of the time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote

from airflow_streaming.driver.errors import ErrorBoundary
from airflow_streaming.model.progress import SourceProgress

EVERY: Final = 30.0
MAX_FILES: Final = 100_000
"""Maximum number of names to count; larger folders are not counted."""
_PREFIX: Final = "FileStreamSource["
_SHARE: Final = 100
_PLAIN: Final = frozenset("*?[]{}\\")
_SELECTIVE: Final = ("pathglobfilter", "recursivefilelookup", "filenameonly")
"""Options with which the files of a source are not simply those in its folder."""


class FilesWaiting:
    """
    The files that wait for the file sources of one query.

    :param count: Counts them, by description of the source.
    """

    def __init__(
        self,
        count: Callable[[], Mapping[str, float]],
        *,
        name: str,
        what: str = "Counting the files that wait for",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._count, self._name, self._what, self._clock = count, name, what, clock
        self._known: Mapping[str, float] = {}
        self._next = float("-inf")
        self._thread: threading.Thread | None = None
        self._faults = ErrorBoundary()

    def known(self) -> Mapping[str, float]:
        """Return the newest counts, at once; a new count is begun if it is due."""
        counting = self._thread is not None and self._thread.is_alive()
        if not counting and self._clock() >= self._next:
            self._thread = threading.Thread(
                target=self._run, name="airflow-streaming-files", daemon=True
            )
            self._next = self._clock() + EVERY
            self._thread.start()
        return self._known

    def wait(self, seconds: float) -> None:
        """Wait for the count that runs."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        begun = self._clock()
        found: Mapping[str, float] = {}
        with self._faults.contained(f"{self._what} query {self._name!r}"):
            found = self._count()
        # Forget files that cannot be counted any more.
        self._known = found
        self._next = max(self._next, self._clock() + (self._clock() - begun) * _SHARE)


def is_file_source(source: SourceProgress) -> bool:
    """Tell whether the source reads files and does not tell how many wait."""
    return source.source.startswith(_PREFIX) and source.backlog_files is None


def with_files(source: SourceProgress, waiting: Mapping[str, float]) -> SourceProgress:
    """Return a source's figures with the files that were counted for it, if any were."""
    # Its description in the figures is cut.
    counts = [n for description, n in waiting.items() if description.startswith(source.source)]
    if not is_file_source(source) or len(counts) != 1:
        return source
    return replace(source, backlog_files=counts[0])


def count_waiting(jsq: Any) -> dict[str, float]:
    """
    Count the files that wait for the file sources of a query.

    :param jsq: The Java ``StreamingQuery``.
    """
    sources = jsq.streamingQuery().sources()
    found = {}
    for position in range(min(int(sources.size()), 20)):
        source = sources.apply(position)
        description = str(source.toString())
        if description.startswith(_PREFIX):
            waiting = _waiting(source, description)
            if waiting is not None:
                found[description] = float(waiting)
    return found


def _waiting(source: Any, description: str) -> int | None:
    folder = local_folder(description)
    if folder is not None and not _is_selective(source):
        seen = _field(source, "seenFiles")
        if int(seen.size()) <= MAX_FILES:
            # One call for all names. They are URL-encoded, so they contain no blanks.
            taken = str(_field(seen, "map").keySet().toString())[1:-1].split(", ")
            counted = count_unread(folder, {name_in(path) for path in taken})
            if counted is not None:
                return counted
    unread = _field(source, "unreadFiles")
    return None if unread is None else int(unread.size())


def local_folder(description: str) -> str | None:
    """Return the plain local folder that a file source reads, if it is one."""
    where = description.removeprefix(_PREFIX).removesuffix("]")
    if not where.startswith("file:") or _PLAIN & set(where):
        return None
    return "/" + where.removeprefix("file:").lstrip("/")


def name_in(path: str) -> str:
    return unquote(path.rpartition("/")[2])


def count_unread(folder: str, taken: Collection[str]) -> int | None:
    """
    Count the files of a flat folder that were not taken.

    ``None`` for a folder with folders in it, of which only Spark knows which it reads, and for one
    with more than 100,000 names.
    """
    waiting = 0
    with os.scandir(folder) as entries:
        for position, entry in enumerate(entries):
            if position >= MAX_FILES:
                return None
            # Spark takes names that begin so for files in the making.
            if entry.name.startswith((".", "_")) or entry.name.endswith("._COPYING_"):
                continue
            if entry.is_dir():
                return None
            waiting += entry.name not in taken
    return waiting


def _is_selective(source: Any) -> bool:
    options = str(_field(source, "options").keySet().mkString(" ")).lower().split()
    return any(option in options for option in _SELECTIVE)


def _field(java: Any, name: str) -> Any:
    # These fields are private, and have kept their names from 3.5 to 4.3.
    field = java.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(java)
