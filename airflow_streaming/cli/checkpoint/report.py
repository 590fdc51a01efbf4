"""What ``checkpoint inspect`` prints for people."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow_streaming.cli.table import NOTHING, clock, columns, printable
from airflow_streaming.core.checkpoint.finding import Finding
from airflow_streaming.core.checkpoint.report import Checkpoint, Operator, SourcePosition

WIDTH: Final = 96
_LONGEST: Final = 60
"""Characters of an offset or a value; a topic of a thousand partitions fills no screen."""


def show(checkpoint: Checkpoint) -> str:
    """Return everything that a person wants to know of one checkpoint first."""
    lines = [_headline(checkpoint), "", *columns(_facts(checkpoint), gap=3)]
    if checkpoint.sources:
        lines += ["", *columns(_sources(checkpoint.sources))]
    if checkpoint.operators:
        lines += ["", *columns(_operators(checkpoint.operators))]
    for title, found in (("Problems", checkpoint.problems), ("Remarks", checkpoint.remarks)):
        if found:
            lines += ["", title, *_findings(found)]
    return "\n".join(printable(line) for line in lines)


def size(number: int) -> str:
    """Return a number of bytes as people read it, e.g. ``1.4 MB``."""
    amount = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{number} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def _headline(checkpoint: Checkpoint) -> str:
    number = len(checkpoint.problems)
    state = "SOUND" if not number else f"{number} PROBLEM{'' if number == 1 else 'S'}"
    return f"{checkpoint.uri}: {state}"


def _facts(checkpoint: Checkpoint) -> Iterator[tuple[str, str]]:
    yield "query id", checkpoint.query_id or NOTHING
    yield "written by", _writer(checkpoint)
    yield "committed batch", _batch(checkpoint.last_committed_batch)
    yield "planned batch", _batch(checkpoint.last_planned_batch)
    yield "can go back to", _ranges(checkpoint.rollback_batches)
    yield "watermark", _watermark(checkpoint.watermark_ms)
    yield "state", _state(checkpoint)
    yield "files", f"{checkpoint.files:,}, {size(checkpoint.size)}"


def _writer(checkpoint: Checkpoint) -> str:
    logs = f"offset log v{checkpoint.offset_log_version or '?'}, "
    logs += f"commit log v{checkpoint.commit_log_version or '?'}"
    oldest = checkpoint.spark_at_least
    return f"Spark {oldest} or later; {logs}" if oldest else f"unknown Spark; {logs}"


def _state(checkpoint: Checkpoint) -> str:
    if checkpoint.is_stateful is None:
        return "unknown: the checkpoint does not tell whether the query has any"
    if not checkpoint.is_stateful:
        return "none"
    pinned = checkpoint.shuffle_partitions
    return f"format {checkpoint.state_format or '?'}, {pinned or '?'} partitions"


def _watermark(milliseconds: int | None) -> str:
    if milliseconds is None:
        return NOTHING
    if milliseconds == 0:
        return "none yet"
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    return f"{clock(moment)} ({milliseconds})"


def _batch(number: int | None) -> str:
    return NOTHING if number is None else str(number)


def _ranges(batches: Sequence[int]) -> str:
    if not batches:
        return NOTHING
    parts: list[list[int]] = []
    for batch in batches:
        if parts and batch == parts[-1][1] + 1:
            parts[-1][1] = batch
        else:
            parts.append([batch, batch])
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in parts)


def _sources(sources: Sequence[SourcePosition]) -> Iterator[tuple[str, ...]]:
    yield "source", "type", "committed", "planned"
    for source in sources:
        yield source.name, str(source.source), _offset(source.committed), _offset(source.offset)


def _offset(offset: Any) -> str:
    if offset is None:
        return NOTHING
    text = offset if isinstance(offset, str) else json.dumps(offset, sort_keys=True)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _operators(operators: Sequence[Operator]) -> Iterator[tuple[str, ...]]:
    yield "operator", "name", "store", "kept in", "partitions", "version", "files", "size"
    for operator in operators:
        for store in operator.stores:
            yield (
                str(operator.id),
                operator.name or NOTHING,
                store.name,
                str(store.store),
                str(store.partitions),
                _batch(store.newest_version),
                str(store.files),
                size(store.size),
            )


def _findings(found: Sequence[Finding]) -> Iterator[str]:
    for finding in found:
        yield f"  {finding.code}  {finding.path}".rstrip()
        yield from textwrap.wrap(
            finding.message,
            WIDTH,
            initial_indent="    ",
            subsequent_indent="    ",
            break_on_hyphens=False,
            break_long_words=False,
        )
