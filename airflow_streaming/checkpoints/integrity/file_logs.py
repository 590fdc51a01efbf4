"""
The logs of file sources and sinks: complete, in order, matching the output.

The sink passes over every batch that its log knows. So a checkpoint that was taken back behind the
log loses what those batches hold, unless they are planned with the very same limits.

A plan names the last entry it goes up to. On a restart Spark reads the newest compacted entry and
all after it, and needs each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from airflow_streaming.checkpoints.integrity.logs import RESTORE
from airflow_streaming.checkpoints.read.file_logs import (
    MAX_SINK_LOG_BYTES,
    MAX_SOURCE_LOG_BYTES,
    parse_sink_log,
    parse_source_log,
    source_of,
)
from airflow_streaming.checkpoints.read.journal import OFFSETS, Journal
from airflow_streaming.checkpoints.read.report import Checkpoint, Finding, FindingCode, SourceType
from airflow_streaming.checkpoints.state.file_checks import edited
from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.spark.listing import Listing, Read
from airflow_streaming.model.spark.logs import OffsetLog

_ENTRY: Final = re.compile(r"(0|[1-9][0-9]{0,17})(\.compact)?", re.ASCII)

_NEEDED: Final = (
    "The plan of the newest batch goes up to entry {last}, so Spark fails on a restart ('batch "
    "{last} doesn't exist'). " + RESTORE + " The source log and the offsets must be of one moment."
)


def sink_problems(listing: Listing, read: Read, checkpoint: Checkpoint) -> Iterator[Finding]:
    """
    Check a file sink's log, and whether it fits the checkpoint.

    :param listing: Of the ``_spark_metadata`` folder; paths in findings are relative to it.
    """
    entries = _sink_entries(listing)
    if not entries:
        return
    yield from _ahead(max(entries), checkpoint)
    start = max((n for n, name in entries.items() if name.endswith(".compact")), default=0)
    for number in sorted(number for number in entries if number >= start):
        yield from _sink_content(listing, read, entries[number])


def _ahead(newest: int, checkpoint: Checkpoint) -> Iterator[Finding]:
    planned, committed = checkpoint.last_planned_batch, checkpoint.last_committed_batch
    if planned is None or newest <= max(planned, -1 if committed is None else committed):
        return
    yield Finding(
        code=FindingCode.SINK_LOG_AHEAD,
        path=str(newest),
        message=f"The sink's log knows batches up to {newest}, the checkpoint plans none after "
        f"{planned}. Spark starts, and the sink passes over the next batches up to {newest} as if "
        "it had them: with other limits than the first time their rows are silently lost. "
        "Restore the sink's log of the same backup, or give the query a new output folder.",
    )


def _sink_content(listing: Listing, read: Read, name: str) -> Iterator[Finding]:
    stat = listing.stat(name)
    if stat is not None and stat.size > MAX_SINK_LOG_BYTES:
        return
    try:
        data = read(name, MAX_SINK_LOG_BYTES)
        if data is not None:
            parse_sink_log(data)
    except RecordError as err:
        yield Finding(
            code=FindingCode.SINK_LOG_UNREADABLE,
            path=name,
            message=f"The sink's log {name}: {err} Spark fails when it compacts the log, and "
            "every reader of the output through Spark fails too. Restore the sink's log of a backup.",
        )


def _sink_entries(listing: Listing) -> dict[int, str]:
    found: dict[int, str] = {}
    for name in sorted(listing.files("")):
        match = _ENTRY.fullmatch(name)
        if match:
            # "9.compact" sorts after "9" and holds all of it.
            found[int(match[1])] = name
    return found


def source_problems(listing: Listing, read: Read, journal: Journal) -> Iterator[Finding]:
    """Check the sources of the newest plan, and their logs."""
    plan, last = journal.newest_plan, journal.last_planned
    if plan is None or last is None:
        return
    # Spark reads the newest two plans.
    for batch in (last - 1, last):
        if batch in journal.plans:
            before = journal.plans.get(batch - 1)
            yield from _torn(journal.plans[batch], before, f"{OFFSETS}/{batch}")
    for name, text in plan.offsets:
        source, offset = source_of(text)
        if source is SourceType.FILE:
            yield from _of_one(listing, read, f"sources/{name}", _last(offset))


def source_remarks(listing: Listing) -> Iterator[Finding]:
    """Return source logs that are too large to read."""
    for name in listing.subfolders("sources"):
        for entry, stat in listing.files(f"sources/{name}").items():
            if stat.size > MAX_SOURCE_LOG_BYTES:
                yield Finding(
                    code=FindingCode.TOO_LARGE,
                    path=f"sources/{name}/{entry}",
                    message=f"sources/{name}/{entry} has {stat.size} bytes; nothing over "
                    f"{MAX_SOURCE_LOG_BYTES} is looked into here. Spark reads all of it whenever "
                    "the query starts.",
                )


def _torn(plan: OffsetLog, before: OffsetLog | None, path: str) -> Iterator[Finding]:
    """Tell of a plan that was cut off where it can still be parsed."""
    was = dict(before.offsets) if before else {}
    now = dict(plan.offsets)
    lost = [name for name in was if name not in now] if plan.log_version == 1 else []
    changed = [name for name in now if name in was and _is_cut(now[name], was[name])]
    if now and not lost and not changed:
        return
    what = f"the source {(*lost, *changed)[0]}" if now else "any source"
    yield Finding(
        code=FindingCode.LOG_UNREADABLE,
        path=path,
        message=f"{path} does not tell the offset of {what} as the plan before it did; it was cut "
        "off or edited. Spark fails on a restart with it ('There are [0] sources in the "
        f"checkpoint offsets', or an error of the source). {RESTORE}",
    )


def _is_cut(now: str, was: str) -> bool:
    # JSON that has become text. A source of its own making may always write text, and Spark writes
    # a dash before the first offset.
    sort, offset = source_of(now)
    before = source_of(was)[1]
    return sort is SourceType.CUSTOM and isinstance(offset, str) and _is_json(before)


def _is_json(offset: Any) -> bool:
    return offset is not None and not isinstance(offset, str)


def _of_one(listing: Listing, read: Read, folder: str, last: int) -> Iterator[Finding]:
    entries = _entries(listing, folder)
    if last < 0:
        return
    if not entries:
        yield Finding(
            code=FindingCode.SOURCE_LOG_MISSING,
            path=folder,
            message=f"The log of a file source is missing: {folder} has no entry. "
            f"{_NEEDED.format(last=last)}",
        )
        return
    start = _newest_compacted(entries)
    lacking = next((n for n in range(start, max(last, *entries) + 1) if n not in entries), None)
    if lacking is not None:
        yield Finding(
            code=FindingCode.SOURCE_LOG_BEHIND,
            path=f"{folder}/{lacking}",
            message=f"The log of a file source lacks entry {lacking}; it has {len(entries)} up to "
            f"{max(entries)}. {_NEEDED.format(last=last)}",
        )
    for number in sorted(number for number in entries if number >= start):
        yield from _content(listing, read, f"{folder}/{entries[number]}")


def _content(listing: Listing, read: Read, path: str) -> Iterator[Finding]:
    stat = listing.stat(path)
    if stat is not None and stat.size > MAX_SOURCE_LOG_BYTES:
        return
    why = ""
    try:
        data = read(path, MAX_SOURCE_LOG_BYTES)
        if data is None:
            return
        why = "" if parse_source_log(data) else "It has a version and no file in it."
        yield from edited(listing, read, path, data)
    except RecordError as err:
        why = str(err)
    if why:
        yield Finding(
            code=FindingCode.SOURCE_LOG_UNREADABLE,
            path=path,
            message=f"{path}: {why} Spark reads it on a restart to know which files the source has "
            f"seen, and fails or takes files in again. {RESTORE}",
        )


def _entries(listing: Listing, folder: str) -> dict[int, str]:
    found: dict[int, str] = {}
    for name in sorted(listing.files(folder)):
        match = _ENTRY.fullmatch(name)
        if match:
            # "9.compact" sorts after "9" and holds all of it.
            found[int(match[1])] = name
    return found


def _newest_compacted(entries: dict[int, str]) -> int:
    return max((n for n, name in entries.items() if name.endswith(".compact")), default=0)


def _last(offset: Any) -> int:
    found = offset.get("logOffset") if isinstance(offset, dict) else None
    return found if type(found) is int else -1
