"""
Refusals of a restore: all reasons at once.

A restore is refused with all reasons together, so that no user fixes one only to meet the next.

The checks are the same for a restore and for its undo, which may also lead forward.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeGuard

from airflow_streaming.checkpoints.backup.records import COPY, Backup
from airflow_streaming.checkpoints.read.formats import newer_than, too_new
from airflow_streaming.checkpoints.read.report import (
    Checkpoint,
    FindingCode,
    SourcePosition,
    SourceType,
)
from airflow_streaming.checkpoints.restore.replay import (
    QueryReplay,
    Refusal,
    RefusalCode,
    SourceReplay,
)
from airflow_streaming.checkpoints.restore.sink_step import MovedAside, refusal_of, step_of
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.observation import DriverLiveness
from airflow_streaming.model.records.upgrade import SinkFacts

FOREACH_BATCH: Final = "foreachbatch"
"""How a plan names a sink that is a function of the author's."""
SHOWN: Final = 3
"""Names or problems in one message."""

_UNITS: Mapping[SourceType, str] = {
    SourceType.KAFKA: "records",
    SourceType.FILE: "entries of its log, each with the files of one batch",
    SourceType.NUMBER: "of its own steps",
    SourceType.RATE_MICRO_BATCH: "rows",
}

_STEPS: Final[Mapping[RefusalCode, str]] = {
    RefusalCode.SINK_SKIPS_STATE: (
        "The file sink has batches {first} to {last} already: Spark does not execute them, and their "
        "state is missing afterwards."
    ),
    RefusalCode.SINK_GAP: (
        "The file sink has batches up to {sink} and silently drops {first} to {last}, even if "
        "their content differs."
    ),
    RefusalCode.SINK_BEHIND: (
        "The file sink's log ends at batch {sink}: the output lacks batches {first} to {last}."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """
    Facts about the query that will run on the restored checkpoint.

    :param stream: The stream to restore; ``None`` for a restore outside any stream.
    :param claims: Id of the Spark query that owns each query's checkpoint, by the query's name.
    :param runtime: Spark version that will run on it.
    :param wanted_running: The stream's desired state is running.
    :param driver: The state of its driver; ``driver_detail`` is the same in words.
    :param own_locations: Checkpoints that the script chose itself, by the query's name.
    :param counts_from: By query id, the first batch that was written to the query's output after a
        handover; see ``QueryClaim.counts_from``.
    :param pending: The unfinished step of another change of the stream's checkpoint.
    :param rewinds_sinks: Output of file sinks after the backup will be moved aside.
    :param sinks: The sinks of each query, by the query's name; a missing query is unknown.
    """

    stream: str | None = None
    claims: Mapping[str, str] = field(default_factory=dict)
    runtime: str | None = None
    wanted_running: bool = False
    driver: DriverLiveness = DriverLiveness.NONE
    driver_detail: str = ""
    own_locations: Mapping[str, str] = field(default_factory=dict)
    counts_from: Mapping[str, int] = field(default_factory=dict)
    pending: str = ""
    rewinds_sinks: bool = False
    sinks: Mapping[str, SinkFacts] = field(default_factory=dict)

    def sink_of(self, folder: str) -> SinkFacts | None:
        """Return the sink of a query; a folder without a name belongs to the only query."""
        if not folder and len(self.sinks) == 1:
            return next(iter(self.sinks.values()))
        return self.sinks.get(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupied:
    """
    The content of the target place.

    :param names: Names of files and folders there.
    :param restore: Id of the backup of an unfinished restore to there; else empty.
    """

    names: tuple[str, ...] = ()
    restore: str = ""


def of_place(target: str, found: Occupied, backup_id: str) -> Iterator[Refusal]:
    """Refuse an unusable target place."""
    if found.restore.startswith(COPY):
        yield Refusal(
            code=RefusalCode.OTHER_RESTORE,
            message=f"A clone or carry-over to {target} was not finished. If it was cut off it "
            f"cannot continue: delete the folder {target}, or choose another place.",
        )
    elif found.restore and found.restore != backup_id:
        yield Refusal(
            code=RefusalCode.OTHER_RESTORE,
            message=f"A restore of backup {found.restore} to {target} was not finished. Finish it "
            "by asking for it again, or choose another place.",
        )
    elif found.names and not found.restore:
        yield Refusal(
            code=RefusalCode.TARGET_NOT_EMPTY,
            message=f"{target} is not empty: it has {_some(found.names)}. Nothing is ever "
            "written over, because Spark would load state that is left over. Choose a place that "
            "is missing or empty.",
        )


def of_stream(backup: Backup, circumstances: Circumstances) -> Iterator[Refusal]:
    """Refuse for the stream's or its driver's state."""
    stream = circumstances.stream
    if stream is not None and backup.stream != stream:
        yield Refusal(
            code=RefusalCode.OTHER_STREAM,
            message=f"Backup {backup.id} is of stream {backup.stream!r}, not of {stream!r}. Choose "
            "one of its own, or accept 'other_stream'.",
        )
    yield from of_driver(circumstances)


def of_driver(circumstances: Circumstances) -> Iterator[Refusal]:
    """Refuse an exchange of the checkpoint while the driver may run."""
    named = f"Stream {circumstances.stream!r}"
    if circumstances.pending:
        yield Refusal(
            code=RefusalCode.CHANGE_PENDING,
            message=f"{named} has an unfinished change: {circumstances.pending} Ask for the same "
            "again to finish it, or abandon it.",
        )
    if circumstances.wanted_running:
        yield Refusal(
            code=RefusalCode.WANTED_RUNNING,
            message=(
                f"The desired state of stream {circumstances.stream!r} is running. Stop it first and start it again "
                "afterwards."
            ),
        )
    detail = circumstances.driver_detail.rstrip(".")
    if circumstances.driver is DriverLiveness.ALIVE:
        yield Refusal(
            code=RefusalCode.DRIVER_ALIVE,
            message=f"{named} has a living driver ({detail}). Stop it and wait for its end.",
        )
    if circumstances.driver is DriverLiveness.UNPROVED:
        yield Refusal(
            code=RefusalCode.DRIVER_UNPROVED,
            message=f"{named} has a driver that is not proved gone ({detail}). Restore from its "
            "host, or make sure of it there and say so with 'airflow-streaming declare-dead'.",
        )


def of_queries(
    reports: Mapping[str, Checkpoint], circumstances: Circumstances
) -> Iterator[Refusal]:
    """
    Refuse for the state of the queries.

    :param reports: The backup's checkpoints, by the query's folder in the backup.
    """
    for name, location in sorted(circumstances.own_locations.items()):
        yield Refusal(
            code=RefusalCode.OWN_LOCATION,
            message=f"The script chose the checkpoint of query {name!r} itself ({location}), so a "
            "deployment cannot exchange it. Restore the backup to a place of its own and name that "
            "in the script, or let the script choose none.",
            query=name,
        )
    for name, query_id in sorted(circumstances.claims.items()):
        report = reports.get(name) or (reports.get("") if len(circumstances.claims) == 1 else None)
        if report is None:
            yield Refusal(
                code=RefusalCode.QUERY_MISSING,
                message=f"The stream runs query {name!r} and the backup does not have it, so it "
                "would start from nothing. Choose a backup that has it, or accept "
                "'query_missing'.",
                query=name,
            )
        elif report.query_id != query_id:
            yield Refusal(
                code=RefusalCode.QUERY_ID_DIFFERS,
                message=f"The backup of query {name!r} is of query id {report.query_id}, and the "
                f"stream's is {query_id}: it is another query, or one from before it was begun "
                "anew. Choose another backup, or accept 'query_id_differs'.",
                query=name,
            )


def of_checkpoint(
    report: Checkpoint,
    replay: QueryReplay,
    pinned: int,
    circumstances: Circumstances,
    aside: tuple[MovedAside, ...] = (),
) -> Iterator[Refusal]:
    """
    Refuse for one query's backup.

    :param pinned: The batch in the manifest.
    :param aside: Files that restores have moved out of the query's file sink.
    """
    who = named_query(replay.folder)
    if report.problems or report.last_committed_batch != pinned:
        yield Refusal(
            code=RefusalCode.UNSOUND,
            message=f"{who} in the backup is whole but not sound: {_unsound(report, pinned)} "
            "Choose another backup.",
            query=replay.folder,
        )
    first = circumstances.counts_from.get(report.query_id or "", 0)
    if pinned + 1 < first:
        yield Refusal(
            code=RefusalCode.BEFORE_HANDOVER,
            message=(
                f"{who} would go back to batch {pinned}, but its output was handed over at batch "
                f"{first}: earlier batches went to another output, and their numbers are already "
                f"used by the other lane here. Choose a backup of batch {first - 1} or later, or "
                "restore to a place of your own."
            ),
            query=replay.folder,
        )
    newer = too_new(report, circumstances.runtime)
    if newer:
        yield Refusal(
            code=RefusalCode.FORMAT_TOO_NEW,
            message=f"{who} has {' and '.join(newer)}; the runtime is Spark "
            f"{circumstances.runtime}. Run the stream on a newer Spark.",
            query=replay.folder,
        )
    if replay.sink_step is not None:
        yield refusal_of(replay.folder, replay.batch, replay.sink_step, aside)


def warnings(
    reports: Iterable[tuple[str, Checkpoint]], circumstances: Circumstances
) -> Iterator[str]:
    """Yield the warnings of a restore."""
    runtime = circumstances.runtime
    for folder, report in reports:
        if runtime and not too_new(report, runtime) and newer_than(report.spark_at_least, runtime):
            yield (
                f"{named_query(folder)} was last run by Spark {report.spark_at_least} or newer and "
                f"will run on {runtime}. Its formats can be read there, but settings that only the "
                "newer one pins are forgotten."
            )
        query = circumstances.sink_of(folder)
        answered = FindingCode.STATE_UNKNOWN if query and not query.is_stateful else None
        remarks = [remark for remark in report.remarks if remark.code is not answered]
        for remark in remarks[:SHOWN]:
            yield f"{named_query(folder)}: {remark.message}"


def named_query(folder: str) -> str:
    """Return how a query is called at the beginning of a sentence."""
    return f"Query {folder!r}" if folder else "The query"


def _unsound(report: Checkpoint, batch: int) -> str:
    if report.problems:
        return " ".join(problem.message for problem in report.problems[:SHOWN])
    found = report.last_committed_batch
    return f"its newest committed batch is {found}, and batch {batch} was pinned."


def _some(names: Sequence[str]) -> str:
    text = ", ".join(sorted(names)[:SHOWN])
    return text if len(names) <= SHOWN else f"{text} and {len(names) - SHOWN} more"


def going_back(
    folder: str,
    restored: Checkpoint,
    current: Checkpoint | None,
    *,
    sink_batch: int | None = None,
    is_unread: bool = False,
    rewinds: bool = False,
    sink: SinkFacts | None = None,
) -> QueryReplay:
    """
    Describe the effects of continuing a query from another checkpoint.

    :param restored: The new checkpoint.
    :param current: The checkpoint in use; ``None`` if it cannot be read.
    :param sink_batch: Newest batch in the file sink's log, -1 if empty; ``None`` if unseen.
    :param is_unread: That batch is known by the entry's name alone.
    :param rewinds: Output after the restored batch will be moved aside.
    :param sink: The query's sink; ``None`` if unknown.
    """
    batch = -1 if restored.last_committed_batch is None else restored.last_committed_batch
    planned = max(batch, restored.last_planned_batch or 0)
    sent = None if current is None else current.last_planned_batch
    step = step_of(restored, sink_batch, rewinds=rewinds)
    if is_unread and step is None:
        # A log whose newest entry cannot be read is never said to be in step.
        sink_batch = None
    going = QueryReplay(
        folder=folder,
        query_id=restored.query_id,
        batch=batch,
        current=None if current is None else current.last_committed_batch,
        again=(batch + 1, sent) if sent is not None and sent > batch else None,
        sources=tuple(_sources(restored, current)),
        sink_batch=sink_batch,
        sink_step=step,
        watermark_ms=restored.watermark_ms,
    )
    return replace(going, says=(*_way(going), *_reading(going), *_sink(going, planned, sink)))


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
            f"{who} continues after batch {batch}. The position of its present checkpoint is "
            "unknown, so the repeated batches are unknown too."
        )
    elif replay.current > batch:
        number = replay.current - batch
        yield f"{who} goes back {number} batches, from batch {replay.current} to batch {batch}."
    elif replay.current < batch:
        yield (
            f"{who} goes forward from batch {replay.current} to batch {batch}; it skips the input "
            "in between."
        )
    else:
        yield f"{who} continues where it is, after batch {batch}."


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


def _sink(replay: QueryReplay, planned: int, facts: SinkFacts | None) -> Iterator[str]:
    if replay.again is not None:
        first, last = replay.again
        yield f"The sink sees batches {first} to {last} again{_again(facts, first)}"
        if planned >= first:
            yield f"Batch {first} has its old limits; later ones may hold other rows than before."
        else:
            yield "They may hold other rows than before."
    if (
        facts is None
        or facts.habit is SinkReplaySemantics.FILE_LOG
        or replay.sink_batch is not None
    ):
        yield from _sink_log(replay, planned, is_file=facts is not None)


def _again(facts: SinkFacts | None, first: int) -> str:
    """Return how the query's sink handles repeated batches."""
    before = (
        "The replay may need fewer batches: output that a function wrote under an id stays until "
        f"that id is repeated, so remove the output of batches after {first - 1} first."
    )
    if facts is None:
        return (
            ": a Kafka sink writes their rows twice, a foreachBatch function is called with "
            "these ids once more, and a Delta table skips batches that it has, with their state. "
            f"{before}"
        )
    if facts.sink == FOREACH_BATCH:
        return f": its foreachBatch function is called with these ids once more. {before}"
    texts = {
        SinkReplaySemantics.FILE_LOG: ".",
        SinkReplaySemantics.APPENDS: f": {facts.sink} writes their rows twice.",
        SinkReplaySemantics.OVERWRITES: (
            f": {facts.sink} replaces the output of these ids. {before}"
        ),
        SinkReplaySemantics.REMEMBERS: f": {facts.sink} passes over the batches that it has, with their state.",
        SinkReplaySemantics.NOTHING: f", and {facts.sink} keeps nothing.",
    }
    return texts.get(
        facts.habit, f". The effect on sink {facts.sink!r} is unknown: check it for doubled rows."
    )


def _sink_log(replay: QueryReplay, planned: int, *, is_file: bool) -> Iterator[str]:
    sink, step = replay.sink_batch, replay.sink_step
    if sink is None:
        if replay.again is not None:
            read = (
                "The log of the file sink was not read"
                if is_file
                else "No log of a file sink was read"
            )
            yield f"{read}; a file sink drops ids that it has seen."
    elif step is not None:
        yield _STEPS[step.code].format(first=step.first, last=step.last, sink=sink)
    elif sink == replay.batch:
        yield "The file sink's log ends at the same batch: nothing is lost and nothing doubled."
    elif sink <= planned:
        yield (
            f"The file sink has batch {sink} already and drops it; nothing is lost, because it has its "
            "old limits."
        )
