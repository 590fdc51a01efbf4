"""
The log of a file sink, ``<output>/_spark_metadata``, beside the checkpoint of its query.

The sink passes over every batch that its log knows. So a checkpoint that was taken back behind the
log loses what those batches hold, unless they are planned with the very same limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from airflow_streaming.core.checkpoint.finding import Finding, FindingCode
from airflow_streaming.core.checkpoint.listing import Listing, Read
from airflow_streaming.core.checkpoint.report import Checkpoint
from airflow_streaming.core.checkpoint.sinklog import MAX_SINK_LOG_BYTES, parse_sink_log
from airflow_streaming.exceptions import RecordError

_ENTRY: Final = re.compile(r"(0|[1-9][0-9]{0,17})(\.compact)?", re.ASCII)


def sink_problems(listing: Listing, read: Read, checkpoint: Checkpoint) -> Iterator[Finding]:
    """
    Return what is wrong with a file sink's log, and whether it fits the checkpoint.

    :param listing: Of the ``_spark_metadata`` folder; paths in findings are in there.
    """
    entries = _entries(listing)
    if not entries:
        return
    yield from _ahead(max(entries), checkpoint)
    start = max((n for n, name in entries.items() if name.endswith(".compact")), default=0)
    for number in sorted(number for number in entries if number >= start):
        yield from _content(listing, read, entries[number])


def _ahead(newest: int, checkpoint: Checkpoint) -> Iterator[Finding]:
    planned, committed = checkpoint.last_planned_batch, checkpoint.last_committed_batch
    if planned is None or newest <= max(planned, -1 if committed is None else committed):
        return
    yield Finding(
        code=FindingCode.SINK_LOG_AHEAD,
        path=str(newest),
        message=f"The sink's log knows batches up to {newest}, the checkpoint plans none after "
        f"{planned}. Spark starts, and the sink passes over the next batches up to {newest} as if "
        "it had them: with other limits than the first time their rows are lost without a word. "
        "Restore the sink's log of the same backup, or give the query a new output folder.",
    )


def _content(listing: Listing, read: Read, name: str) -> Iterator[Finding]:
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
            "whoever reads the output through Spark fails too. Restore the sink's log of a backup.",
        )


def _entries(listing: Listing) -> dict[int, str]:
    found: dict[int, str] = {}
    for name in sorted(listing.files("")):
        match = _ENTRY.fullmatch(name)
        if match:
            # "9.compact" sorts after "9" and holds all of it.
            found[int(match[1])] = name
    return found
