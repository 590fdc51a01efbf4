"""Queries' checkpoints as a handover sees them, made of a few words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from airflow_streaming.changes.handover.fast_forward import PlannedBatch, QueryView
from airflow_streaming.changes.handover.source_log import FileLog, LogEntry

START: Final = "-"


def a_plan(
    batch: int, offsets: Sequence[str], *, watermark: int = 0, time: int = 1000, by: str = "green"
) -> PlannedBatch:
    """Return a plan whose configuration tells whose it is."""
    about = {"batchWatermarkMs": watermark, "batchTimestampMs": time, "conf": {"by": by}}
    return PlannedBatch.parse(batch, "\n".join(["v1", json.dumps(about), *offsets]).encode())


def a_log(*entries: Sequence[str], interval: int = 10) -> FileLog:
    """Return a file source's log of the files in each entry; a file's time is that of its entry."""
    files = {
        f"file:///in/{name}": LogEntry(1000 + number, number)
        for number, names in enumerate(entries)
        for name in names
    }
    return FileLog(files=files, last=len(entries) - 1, interval=interval)


def of_files(
    uri: str,
    entries: Sequence[Sequence[str]],
    *,
    batch: int = 5,
    end: int | None = None,
    planned: int | None = None,
    watermark: int = 0,
    following: int = 0,
    interval: int = 10,
) -> QueryView:
    """
    Return a query of one file source.

    :param end: Entry at which it has committed; the last one without.
    :param planned: Entry at which the batch after that ends, if there is one.
    :param following: Watermark that its commit tells.
    """
    log = a_log(*entries, interval=interval)
    last = log.last if end is None else end
    plans = [
        None if entry is None else a_plan(number, [log_offset(entry)], watermark=mark, by=uri)
        for number, entry, mark in ((batch, last, watermark), (batch + 1, planned, following))
    ]
    return QueryView(
        uri=uri,
        committed=plans[0],
        planned=plans[1],
        next_watermark_ms=following,
        logs={"0": log},
        compact_interval=interval,
    )


def of_kafka(
    uri: str,
    ends: Mapping[str, int],
    *,
    planned: Mapping[str, int] | None = None,
    watermark: int = 0,
) -> QueryView:
    """Return a query of one topic, by its partitions."""
    plan = None if planned is None else a_plan(6, [json.dumps({"t": dict(planned)})], by=uri)
    return QueryView(
        uri=uri,
        committed=a_plan(5, [json.dumps({"t": dict(ends)})], watermark=watermark, by=uri),
        planned=plan,
    )


def of_texts(uri: str, *offsets: str, origins: Mapping[str, bytes] | None = None) -> QueryView:
    """Return a query whose sources stand at the given offsets."""
    return QueryView(uri=uri, committed=a_plan(5, offsets, by=uri), origins=origins or {})


def log_offset(entry: int) -> str:
    return f'{{"logOffset":{entry}}}'
