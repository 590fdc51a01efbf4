"""
Two positions of one query → what the way from one to the other means, in numbers and in sentences.

The way is the same whether a backup is restored or a restore is undone; it may lead forward, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeGuard

from airflow_streaming.core.checkpoint.refusal import named_query
from airflow_streaming.core.checkpoint.replay import QueryReplay, SourceReplay
from airflow_streaming.core.checkpoint.report import Checkpoint, SourcePosition, SourceType

_UNITS: Mapping[SourceType, str] = {
    SourceType.KAFKA: "records",
    SourceType.FILE: "entries of its log, each with the files of one batch",
    SourceType.NUMBER: "of its own steps",
    SourceType.RATE_MICRO_BATCH: "rows",
}


def going_back(
    folder: str,
    restored: Checkpoint,
    current: Checkpoint | None,
    *,
    sink_batch: int | None = None,
) -> QueryReplay:
    """
    Say what it means that a query goes on from another checkpoint of its own.

    :param restored: What it will go on from.
    :param current: The checkpoint in use; ``None`` when it cannot be read.
    :param sink_batch: Newest batch in the file sink's log; ``None`` when there is none or nobody
        looked.
    """
    batch = -1 if restored.last_committed_batch is None else restored.last_committed_batch
    planned = max(batch, restored.last_planned_batch or 0)
    sent = None if current is None else current.last_planned_batch
    dropped = sink_batch is not None and sink_batch > planned
    going = QueryReplay(
        folder=folder,
        query_id=restored.query_id,
        batch=batch,
        current=None if current is None else current.last_committed_batch,
        again=(batch + 1, sent) if sent is not None and sent > batch else None,
        sources=tuple(_sources(restored, current)),
        sink_batch=sink_batch,
        dropped=(planned + 1, sink_batch) if dropped and sink_batch is not None else None,
        watermark_ms=restored.watermark_ms,
    )
    return replace(going, says=(*_way(going), *_reading(going), *_sink(going, planned)))


def _sources(restored: Checkpoint, current: Checkpoint | None) -> Iterator[SourceReplay]:
    known = {} if current is None else {source.name: source for source in current.sources}
    for source in restored.sources:
        now = known.get(source.name)
        yield SourceReplay(
            name=source.name,
            source=source.source,
            back_to=source.committed,
            from_=None if now is None else now.offset,
            amount=None if now is None else _amount(source, now),
        )


def _amount(back_to: SourcePosition, now: SourcePosition) -> int | None:
    if back_to.source is not now.source:
        return None
    early, late = back_to.committed, now.offset
    match back_to.source:
        case SourceType.KAFKA:
            return _records(early, late)
        case SourceType.FILE:
            return _difference(early, late, "logOffset")
        case SourceType.RATE_MICRO_BATCH:
            return _difference(early, late, "offset")
        case SourceType.NUMBER if _is_number(early) and _is_number(late):
            return late - early
    return None


def _records(early: Any, late: Any) -> int | None:
    before, after = dict(_partitions(early)), dict(_partitions(late))
    # Where reading begins in a partition that one of the two does not know is the source's choice.
    if not before or before.keys() != after.keys():
        return None
    return sum(after[partition] - before[partition] for partition in before)


def _partitions(offset: Any) -> Iterator[tuple[tuple[str, str], int]]:
    for topic, partitions in offset.items() if isinstance(offset, Mapping) else ():
        for partition, number in partitions.items() if isinstance(partitions, Mapping) else ():
            if _is_number(number):
                yield (str(topic), str(partition)), number


def _difference(early: Any, late: Any, field: str) -> int | None:
    if not isinstance(early, Mapping) or not isinstance(late, Mapping):
        return None
    before, after = early.get(field), late.get(field)
    return after - before if _is_number(before) and _is_number(after) else None


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _way(replay: QueryReplay) -> Iterator[str]:
    who, batch = named_query(replay.folder), replay.batch
    if replay.current is None:
        yield (
            f"{who} goes on after batch {batch}. How far its present checkpoint has got is "
            "unknown, and so is what comes again."
        )
    elif replay.current > batch:
        number = replay.current - batch
        yield f"{who} goes back {number} batches, from batch {replay.current} to batch {batch}."
    elif replay.current < batch:
        yield (
            f"{who} goes forward from batch {replay.current} to batch {batch}; what lies between "
            "is not read by it again."
        )
    else:
        yield f"{who} goes on where it is, after batch {batch}."


def _reading(replay: QueryReplay) -> Iterator[str]:
    for source in replay.sources:
        if source.amount and source.source in _UNITS:
            verb = "reads again" if source.amount > 0 else "does not read"
            yield (
                f"Source {source.name} ({source.source}) {verb} {abs(source.amount)} "
                f"{_UNITS[source.source]}."
            )
        elif source.amount is None and source.from_ not in (None, source.back_to):
            yield (
                f"Source {source.name} ({source.source}) goes from {source.from_!s:.200} to "
                f"{source.back_to!s:.200}."
            )


def _sink(replay: QueryReplay, planned: int) -> Iterator[str]:
    if replay.again is not None:
        first, last = replay.again
        yield (
            f"The sink sees batches {first} to {last} again: a Kafka sink writes their rows twice, "
            "and a foreachBatch function is called with these ids once more."
        )
        if planned >= first:
            yield f"Batch {first} has its old limits; later ones may hold other rows than before."
        else:
            yield "They may hold other rows than before."
    if replay.sink_batch is None:
        if replay.again is not None:
            yield "No file sink's log was looked at; a file sink drops ids that it has seen."
    elif replay.dropped is not None:
        first, last = replay.dropped
        yield (
            f"The file sink has seen batches up to {replay.sink_batch} and drops {first} to {last} "
            "without a word, whatever they hold then."
        )
    elif replay.sink_batch > replay.batch:
        yield (
            f"The file sink has batch {replay.sink_batch} already and drops it; nothing is lost, "
            "because it has its old limits."
        )
    elif replay.sink_batch < replay.batch:
        yield (
            f"The file sink's log ends at batch {replay.sink_batch}: the output lacks batches "
            f"{replay.sink_batch + 1} to {replay.batch}."
        )
    else:
        yield "The file sink's log ends at the same batch: nothing is lost and nothing doubled."
