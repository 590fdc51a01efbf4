"""
How many files wait in the folder of a file source.

Open-source Spark reports neither a newest offset nor a metric for them, from 3.5 to 4.3. In a
folder of this host, the names are counted against the files that the source has taken. For other
folders one call reads the source's own list: files of its last listing beyond the batch's limit.
This list misses files that arrived since that listing. It is missing where a source takes all
files, or the latest first. Remote folders are never listed from here, because listings of object
stores cost money and time.

The age of the oldest of these files tells when a cleaner removes it, where the stream's configuration says how long
files are kept. A source takes a file when it plans a batch. Until the batch is committed, a restart reads the file
again, so it counts as unread; the log of the source names the files of a planned batch.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from airflow_streaming.model.products.retention import Outlook, of_age
from airflow_streaming.model.progress import MAX_SOURCES, SourceProgress

MAX_FILES: Final = 100_000
"""Maximum number of names to count; larger folders are not counted."""
_PREFIX: Final = "FileStreamSource["
_MOST_PLANNED: Final = 5_000
"""Files of planned batches whose ages are read; with more the source does not tell how far it has read."""
_PLAIN: Final = frozenset("*?[]{}\\")
_SELECTIVE: Final = ("pathglobfilter", "recursivefilelookup", "filenameonly")
"""Options with which the files of a source are not simply those in its folder."""


class Waiting(NamedTuple):
    """
    The unread files of a source.

    :param oldest: When the oldest of them was written, in seconds since 1970.
    :param read_until: Every file that was written before is in a committed batch; ``None`` where that is unknown.
    """

    files: int
    oldest: float | None = None
    read_until: float | None = None

    def outlook(self, kept_for: float | None, now: float) -> Outlook:
        """Return when the source removes the first of them."""
        found = of_age(self.oldest, kept_for=kept_for, now=now)
        return replace(found, read_until=self.read_until)


def is_file_source(source: SourceProgress) -> bool:
    """Tell whether the source reads files and does not tell how many wait."""
    return source.source.startswith(_PREFIX) and source.backlog_files is None


def with_files(source: SourceProgress, waiting: Mapping[str, Waiting]) -> SourceProgress:
    """Return a source's figures with the files that were counted for it, if any were."""
    # Its description in the figures is cut.
    counts = [n for description, n in waiting.items() if description.startswith(source.source)]
    if not is_file_source(source) or len(counts) != 1:
        return source
    return replace(source, backlog_files=float(counts[0].files))


def files_waiting(
    jsq: Any, ends: Mapping[str, Any], clock: Callable[[], float] = time.time
) -> dict[str, Waiting]:
    """
    Return the files that wait for the file sources of a query, by the source's description.

    :param jsq: The Java ``StreamingQuery``.
    :param ends: End offsets of the latest committed batch, by the source's description.
    """
    found, at = {}, clock()
    for description, source in sources_of(jsq):
        if not description.startswith(_PREFIX):
            continue
        counted = _counted(source, description)
        if counted is None:
            continue
        waiting, is_whole = counted
        planned = planned_since(source, ends.get(description))  # behind the count, see there
        found[description] = with_planned(waiting, planned, is_whole=is_whole, at=at)
    return found


def with_planned(waiting: Waiting, planned: float | None, *, is_whole: bool, at: float) -> Waiting:
    """
    Return waiting files together with those of a planned batch.

    :param planned: When the oldest file of a planned batch was written, infinity without such a file; ``None``: unknown.
    :param is_whole: The folder itself was listed. A list of Spark's misses the files since its last trigger.
    :param at: The time before the count.
    """
    known = [one for one in (waiting.oldest, planned) if one is not None and one < math.inf]
    oldest = min(known, default=None)
    is_told = planned is not None and (is_whole or waiting.oldest is not None)
    read_until = (at if oldest is None else min(oldest, at)) if is_told else None
    return waiting._replace(oldest=oldest, read_until=read_until)


def planned_since(source: Any, end: Any) -> float | None:
    """
    Return when the oldest file of a batch that is planned and not committed was written; infinity without a file.

    A source takes files and writes them to its log under one lock, for which ``currentLogOffset`` waits
    (``FileStreamSource.fetchMaxOffset``). So the log has every file that was taken before the call.

    :param source: The Java source.
    :param end: The source's end offset in the latest committed batch.
    """
    committed = log_offset(end)
    if committed is None:
        return None
    oldest, read = math.inf, 0
    with contextlib.suppress(Exception):  # private fields, and a log that another thread compacts
        log, current = field_of(source, "metadataLog"), int(source.currentLogOffset())
        for number in range(committed + 1, current + 1):
            entries = log.get(number).get()
            read += len(entries)
            if read > _MOST_PLANNED:
                return None
            oldest = min([oldest, *(int(entry.timestamp()) / 1000 for entry in entries)])
        return oldest
    return None


def log_offset(end: Any) -> int | None:
    """Return the number in the offset of a file source; ``None`` for another form."""
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        return int((json.loads(end) if isinstance(end, str) else end)["logOffset"])
    return None


def sources_of(jsq: Any) -> list[tuple[str, Any]]:
    """Return the Java sources of a query with their descriptions; a query that starts has none."""
    sources = jsq.streamingQuery().sources()
    found = (sources.apply(position) for position in range(min(int(sources.size()), MAX_SOURCES)))
    return [(str(source.toString()), source) for source in found]


def _counted(source: Any, description: str) -> tuple[Waiting, bool] | None:
    """Return the files that the source has not taken, and whether its folder itself was listed."""
    folder = local_folder(description)
    if folder is not None and not _is_selective(source):
        seen = field_of(source, "seenFiles")
        if int(seen.size()) <= MAX_FILES:
            # A single call returns all names. They are URL-encoded, so they contain no blanks.
            taken = str(field_of(seen, "map").keySet().toString())[1:-1].split(", ")
            counted = count_unread(folder, {name_in(path) for path in taken})
            if counted is not None:
                return counted, True
    unread = field_of(source, "unreadFiles")
    if unread is None:
        return None
    return Waiting(int(unread.size()), _oldest_of(unread)), False


def _oldest_of(unread: Any) -> float | None:
    """Return when the first file of Spark's list was written; ``None`` where the list has no times."""
    with contextlib.suppress(Exception):
        if not bool(unread.isEmpty()):
            first = unread.head()
            # A pair in 3.5, a class of its own later.
            written = first._2() if str(first.getClass().getName()).startswith("scala.") else None
            return int(first.timestamp() if written is None else written) / 1000
    return None


def local_folder(description: str) -> str | None:
    """Return the plain local folder that a file source reads, if it is one."""
    where = description.removeprefix(_PREFIX).removesuffix("]")
    if not where.startswith("file:") or _PLAIN & set(where):
        return None
    return "/" + where.removeprefix("file:").lstrip("/")


def name_in(path: str) -> str:
    return unquote(path.rpartition("/")[2])


def count_unread(folder: str, taken: Collection[str]) -> Waiting | None:
    """
    Count the files of a flat folder that were not taken.

    ``None`` for a folder with folders in it, of which only Spark knows which it reads, and for one
    with more than 100,000 names.
    """
    waiting, oldest = 0, None
    with os.scandir(folder) as entries:
        for position, entry in enumerate(entries):
            if position >= MAX_FILES:
                return None
            # Spark takes names that begin so for files in the making.
            if entry.name.startswith((".", "_")) or entry.name.endswith("._COPYING_"):
                continue
            if entry.is_dir():
                return None
            if entry.name not in taken:
                waiting += 1
                with contextlib.suppress(FileNotFoundError):
                    written = entry.stat().st_mtime
                    oldest = written if oldest is None else min(oldest, written)
    return Waiting(waiting, oldest)


def _is_selective(source: Any) -> bool:
    options = str(field_of(source, "options").keySet().mkString(" ")).lower().split()
    return any(option in options for option in _SELECTIVE)


def field_of(java: Any, name: str) -> Any:
    """Return a private field of a Java object."""
    # These fields are private, and have kept their names from 3.5 to 4.3.
    field = java.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(java)
