"""
The sources' part of a pin: the entries of a log that a plan still reads.

A file source numbers the files it has seen in a log of its own, and the plan of a batch names the
last entry of it. Every tenth entry, ``K.compact``, has all entries up to it, so that the tail of
the log is enough. The file sink's log is made the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from airflow_streaming.core.checkpoint.listing import Listing, is_hidden
from airflow_streaming.core.checkpoint.logs import OffsetLog
from airflow_streaming.core.checkpoint.report import SourceType
from airflow_streaming.core.checkpoint.sources import source_of
from airflow_streaming.core.checkpoint.unready import Unready

COMPACTED_KEPT: Final = 2
"""Spark works out its interval of compaction from the two newest compacted entries."""

_FILE: Final = SourceType.FILE
_ENTRY: Final = re.compile(r"(0|[1-9][0-9]{0,17})(\.compact)?", re.ASCII)


def source_files(listing: Listing, plan: OffsetLog) -> list[str] | Unready:
    """
    Return the files of all sources' own logs that a plan needs.

    What a source keeps that is no file source's log, e.g. Kafka's initial offsets, is taken whole.
    """
    found: list[str] = []
    ends = {name: source_of(text) for name, text in plan.offsets}
    logs = {name: offset["logOffset"] for name, (kind, offset) in ends.items() if kind is _FILE}
    for name, last in logs.items():
        tail = log_tail(listing, f"sources/{name}", last)
        if isinstance(tail, Unready):
            return tail
        found.extend(tail)
    for name in listing.subfolders("sources"):
        if name not in logs:
            found.extend(everything(listing, f"sources/{name}"))
    return found


def log_tail(listing: Listing, folder: str, last: int) -> list[str] | Unready:
    """
    Return the newest compacted entries of a log up to an entry, and all entries after them.

    :param last: The last entry that is needed; -1 for none.
    """
    plain, compacted = _entries(listing.files(folder), last)
    kept = compacted[-COMPACTED_KEPT:]
    first = kept[-1] + 1 if kept else 0
    lost = next((entry for entry in range(first, last + 1) if entry not in plain), None)
    prefix = f"{folder}/" if folder else ""
    if lost is not None:
        return Unready(
            f"{prefix}{lost}",
            f"{folder or 'The log'} lacks entry {lost}, and entry {last} is needed.",
        )
    names = [f"{entry}.compact" for entry in kept]
    names.extend(str(entry) for entry in range(first, last + 1))
    return [prefix + name for name in names]


def _entries(names: Iterable[str], last: int) -> tuple[set[int], list[int]]:
    plain, compacted = set(), []
    for name in names:
        match = _ENTRY.fullmatch(name)
        if match is None or int(match[1]) > last:
            continue
        if match[2]:
            compacted.append(int(match[1]))
        else:
            plain.add(int(match[1]))
    return plain, sorted(compacted)


def everything(listing: Listing, folder: str) -> Iterator[str]:
    """Return every file under a folder but hidden ones and those that are being written."""
    for name in sorted(listing.files(folder)):
        if not is_hidden(name) and not name.endswith(".tmp"):
            yield f"{folder}/{name}"
    for below in listing.subfolders(folder):
        if not is_hidden(below):
            yield from everything(listing, f"{folder}/{below}")
