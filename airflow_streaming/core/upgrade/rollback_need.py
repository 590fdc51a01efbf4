"""
Whether anything has to be put back at all.

A new deployment that failed at once has committed nothing. If it has also left every format and
setting as it was, the old one starts again on the same checkpoint: a batch that was planned and not
committed is run again with the same limits, as after any failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from airflow_streaming.core.checkpoint.report import Checkpoint
from airflow_streaming.core.upgrade.rollback_sinks import SinkFacts, SinkHabit

_HARMLESS = frozenset({SinkHabit.NOTHING, SinkHabit.OVERWRITES, SinkHabit.FILE_LOG})
"""Habits by which a batch that was begun, and not committed, may be written again."""

_FORMATS = (
    "query_id",
    "offset_log_version",
    "commit_log_version",
    "state_format",
    "is_stateful",
    "shuffle_partitions",
    "async_progress",
)


def needs_rewind(
    before: Checkpoint,
    after: Checkpoint,
    sink: SinkFacts | None = None,
    *,
    sink_before: int | None = None,
    sink_after: int | None = None,
) -> str:
    """
    Return why one query's checkpoint has to be put back, in words; empty when it need not be.

    :param before: The checkpoint in the backup of the boundary.
    :param after: The same checkpoint now.
    :param sink: What is known of its sink.
    :param sink_before: Newest batch in the file sink's log in the backup; ``sink_after`` now.
    """
    return next(_reasons(before, after, sink, (sink_before, sink_after)), "")


def _reasons(
    before: Checkpoint,
    after: Checkpoint,
    sink: SinkFacts | None,
    logs: tuple[int | None, int | None],
) -> Iterator[str]:
    if after.problems:
        yield f"The checkpoint is not sound any more: {after.problems[0].message}"
    if after.last_committed_batch != before.last_committed_batch:
        yield (
            f"The new deployment has committed batches up to {after.last_committed_batch}; the old "
            f"one ended at {before.last_committed_batch}."
        )
    for name in _FORMATS:
        if getattr(after, name) != getattr(before, name):
            yield f"{name} is {getattr(after, name)} now and was {getattr(before, name)}."
    if dict(after.conf) != dict(before.conf):
        changed = sorted(_differences(before.conf, after.conf))
        yield f"The newest plan pins other settings than before: {', '.join(changed[:3])}."
    if _shape(after) != _shape(before):
        yield "The description of the state was written anew."
    if after.last_planned_batch != after.last_committed_batch:
        yield from _of_planned(after, sink)
    if (logs[1] if logs[1] is not None else -1) > (logs[0] if logs[0] is not None else -1):
        yield f"The file sink's log knows batch {logs[1]} already, by the new deployment's code."


def _of_planned(after: Checkpoint, sink: SinkFacts | None) -> Iterator[str]:
    if sink is not None and sink.habit in _HARMLESS:
        return
    yield (
        f"The new deployment may have begun batch {after.last_planned_batch}, and what the sink has "
        "of it is not known."
    )


def _differences(first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[str]:
    for key in {*first, *second}:
        if first.get(key) != second.get(key):
            yield key


def _shape(checkpoint: Checkpoint) -> list[Any]:
    """Return what a checkpoint says of its state, without how much there is of it."""
    return [
        (
            operator.id,
            operator.name,
            operator.partitions,
            operator.schema_version,
            dict(operator.state),
            # What sort of store it is, is told by files, of which a backup has fewer.
            sorted((store.name, store.partitions) for store in operator.stores),
        )
        for operator in checkpoint.operators
    ]
