"""The report of a checkpoint: its content, and all its problems."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow_streaming.checkpoints.read.report import Checkpoint, Operator, SourcePosition
from airflow_streaming.checkpoints.read.report import Finding as CheckpointFinding
from airflow_streaming.model.spark.logs import NamedSink
from airflow_streaming.reports.report import (
    Block,
    Finding,
    Heading,
    Paragraph,
    Report,
    Tone,
    Verdict,
    Words,
    byte_text,
    counted,
    facts,
    report_of,
    table,
    value,
)
from airflow_streaming.reports.terminal import clock

_LONGEST: Final = 60
"""Characters of an offset; a topic of a thousand partitions fills no screen."""


_FORMAT_2: Final = (
    "State has checkpoint format 2. With a sink that skips a batch it has (a file sink, a Delta table, a "
    "function that returns early), a driver that dies between the sink's write and the commit leaves a "
    "checkpoint on which Spark fails at every start (CheckpointInfo length: 0). A launch by this provider "
    "puts a file sink back first."
)


def checkpoint_report(found: Checkpoint) -> Report:
    return report_of(_blocks(found))


def _blocks(found: Checkpoint) -> Iterator[Block]:
    problems = counted(len(found.problems), "problem")
    yield Verdict(
        subject=value(found.uri),
        word="sound" if found.is_sound else problems,
        tone=Tone.GOOD if found.is_sound else Tone.BAD,
    )
    yield facts(_facts(found))
    if found.sources:
        yield table(("source", "type", "committed", "planned"), map(_source, found.sources))
    if found.operators:
        yield table(
            ("operator", "name", "store", "kept in", "partitions", "version", "files", "size"),
            (row for operator in found.operators for row in _stores(operator)),
            "operator, partitions, version, files, size",
        )
    if found.is_stateful and found.state_format == 2:
        yield Paragraph(_FORMAT_2)
    yield from _findings("Problems", "problem", Tone.BAD, found.problems)
    yield from _findings("Remarks", "remark", Tone.NEUTRAL, found.remarks)


def _findings(
    title: str, label: str, tone: Tone, found: Sequence[CheckpointFinding]
) -> Iterator[Block]:
    if found:
        yield Heading(title)
    for one in found:
        yield Finding(
            label=label,
            tone=tone,
            rule=one.code.value,
            subject=value(one.path),
            message=one.message,
        )


def _facts(found: Checkpoint) -> Iterator[tuple[Words, Words]]:
    yield "query id", value(found.query_id or "")
    yield "written by", value(_writer(found))
    yield "committed batch", _batch(found.last_committed_batch)
    yield "planned batch", _batch(found.last_planned_batch)
    yield "can go back to", _ranges(found.rollback_batches)
    yield "watermark", _watermark(found.watermark_ms)
    if found.sinks:
        yield "sinks", value(", ".join(map(_sink, found.sinks)))
    yield "state", _state(found)
    yield "files", f"{found.files:,}, {byte_text(found.size)}"


def _writer(found: Checkpoint) -> str:
    logs = f"offset log v{found.offset_log_version or '?'}, "
    logs += f"commit log v{found.commit_log_version or '?'}"
    oldest = found.spark_at_least
    return f"Spark {oldest} or later; {logs}" if oldest else f"unknown Spark; {logs}"


def _sink(sink: NamedSink) -> str:
    provider = sink.provider.rpartition(".")[2]
    return f"{sink.name} ({provider}, {'active' if sink.is_active else 'earlier'})"


def _state(found: Checkpoint) -> str:
    if found.is_stateful is None:
        return "unknown: the checkpoint does not tell whether the query has any"
    if not found.is_stateful:
        return "none"
    return f"format {found.state_format or '?'}, {found.shuffle_partitions or '?'} partitions"


def _watermark(milliseconds: int | None) -> str:
    if milliseconds is None:
        return ""
    if milliseconds == 0:
        return "none yet"
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    return f"{clock(moment)} ({milliseconds})"


def _batch(number: int | None) -> str:
    return "" if number is None else str(number)


def _ranges(batches: Sequence[int]) -> str:
    parts: list[list[int]] = []
    for batch in batches:
        if parts and batch == parts[-1][1] + 1:
            parts[-1][1] = batch
        else:
            parts.append([batch, batch])
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in parts)


def _source(source: SourcePosition) -> tuple[Words, ...]:
    committed, planned = _offset(source.committed), _offset(source.offset)
    return value(source.name), str(source.source), value(committed), value(planned)


def _offset(offset: Any) -> str:
    if offset is None:
        return ""
    text = offset if isinstance(offset, str) else json.dumps(offset, sort_keys=True)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _stores(operator: Operator) -> Iterator[tuple[Words, ...]]:
    for store in operator.stores:
        yield (
            str(operator.id),
            value(operator.name or ""),
            value(store.name),
            str(store.store),
            str(store.partitions),
            _batch(store.newest_version),
            str(store.files),
            byte_text(store.size),
        )
