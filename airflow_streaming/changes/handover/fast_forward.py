"""
How green's state reaches the live position: one planned batch of which the output is thrown away.

Green has read up to Y, blue up to X. The next batch of green is planned by us: it reads Y to X, with
the watermark of blue's last committed batch, and its output is thrown away. Afterwards green's state
holds what blue's holds: what blue has emitted is evicted, and nothing else. Blue's own next batch, if
it had planned one, or learned a later watermark, is planned for green in the same way; its output
counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from airflow_streaming.changes.handover.position import (
    COUNTING,
    Position,
    SourcePoint,
    covers,
    covers_sources,
    is_level,
    paired,
)
from airflow_streaming.changes.handover.source_log import FileLog, since_common
from airflow_streaming.checkpoints.read.file_logs import source_of
from airflow_streaming.checkpoints.read.report import SourceType
from airflow_streaming.exceptions import CheckpointRefused
from airflow_streaming.model.spark.logs import (
    MAX_LOG_BYTES,
    OffsetLog,
    json_object,
    parse_offset_log,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """
    The plan of one batch: ``offsets/<batch>``.

    :param data: As Spark wrote it; ``log`` is the same, parsed.
    """

    batch: int
    data: bytes
    log: OffsetLog

    @classmethod
    def parse(cls, batch: int, data: bytes) -> PlannedBatch:
        """
        Parse the plan in a file.

        :raises RecordError: The file is not a plan.
        """
        return cls(batch=batch, data=data, log=parse_offset_log(data))

    @property
    def watermark_ms(self) -> int:
        """Return the watermark that the batch works with; 0 for none."""
        return self.log.watermark_ms or 0

    def with_watermark(self, watermark_ms: int) -> PlannedBatch:
        """Return a plan of the same input with another watermark."""
        return replace(self, log=replace(self.log, watermark_ms=watermark_ms))

    def leading_to(self, ends: Mapping[str, str], like: PlannedBatch) -> bytes:
        """
        Return the plan of the batch after this one.

        All that it pins of the query's configuration is this one's.

        :param ends: Where each source ends.
        :param like: The other query's plan, whose watermark and time it takes.
        """
        version, head, *_ = self.data.decode().split("\n")
        about = json_object(head, "offset log", limit=MAX_LOG_BYTES)
        about["batchWatermarkMs"] = like.watermark_ms
        if like.log.batch_ms is not None:
            about["batchTimestampMs"] = like.log.batch_ms
        named = self.log.log_version > 1
        lines = (f"{name}:{ends[name]}" if named else ends[name] for name, _ in self.log.offsets)
        head = json.dumps(about, separators=(",", ":"), ensure_ascii=False)
        return "\n".join([version, head, *lines]).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryView:
    """
    A query's checkpoint.

    :param committed: Plan of its newest committed batch; ``None`` before the first.
    :param planned: The plan after it, if any.
    :param next_watermark_ms: The next watermark in that commit; 0 without one.
    :param logs: Of each file source, by name.
    :param origins: Of other sources, by name: the checkpoint's record of their first start.
    :param compact_interval: Compaction interval of a log without a compacted entry.
    """

    uri: str
    committed: PlannedBatch | None = None
    planned: PlannedBatch | None = None
    next_watermark_ms: int = 0
    logs: Mapping[str, FileLog] = field(default_factory=dict)
    origins: Mapping[str, bytes] = field(default_factory=dict)
    compact_interval: int = 10
    # A log may name a million files, and is read repeatedly at the same two places.
    _points: dict[tuple[str, str], SourcePoint] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def position(self) -> Position:
        """Return where it has committed."""
        return Position(batch=None) if self.committed is None else self.at(self.committed)

    def at(self, plan: PlannedBatch) -> Position:
        """Return where it stands after a plan."""
        points = tuple(self._point(name, text) for name, text in plan.log.offsets)
        return Position(batch=plan.batch, watermark_ms=plan.watermark_ms, sources=points)

    def log(self, name: str) -> FileLog:
        """Return the log of a file source; an empty one where it has not begun."""
        return self.logs.get(name) or FileLog(interval=self.compact_interval)

    def _point(self, name: str, text: str) -> SourcePoint:
        if (name, text) not in self._points:
            self._points[name, text] = self._made(name, text)
        return self._points[name, text]

    def _made(self, name: str, text: str) -> SourcePoint:
        sort, offset = source_of(text)
        files = self.log(name).up_to(offset["logOffset"]) if sort is SourceType.FILE else ()
        origin = self.origins.get(name, b"") if sort in COUNTING else b""
        return SourcePoint(
            name=name, source=sort, offset=text, files=frozenset(files), origin=origin
        )


def log_end(point: SourcePoint) -> int:
    """Return the last entry of a file source's log that a plan names; -1 for none."""
    _, offset = source_of(point.offset)
    return offset["logOffset"] if point.source is SourceType.FILE else -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FastForward:
    """
    A batch planned in green's checkpoint.

    :param written: Small files by path, in the order of writing; the plan itself,
        ``offsets/<batch>``, is last. Empty if the batch is planned already and only needs to run.
    :param removed: Existing entries of sources' logs that no plan has ever named and that are in
        the way; removed first. Their files are listed again.
    """

    batch: int
    written: Mapping[str, bytes] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotThere:
    """Blue has not come as far as green: looking again helps as long as blue runs."""

    reason: str


def plan_absorption(green: QueryView, blue: QueryView) -> FastForward | NotThere | None:
    """
    Return the batch with which green comes to where blue has committed.

    :return: ``None`` when it stands there already.
    :raises CheckpointRefused: it can never be brought there.
    """
    if green.committed is None or blue.committed is None:
        return _without_a_batch(green, blue)
    # Green's planned batch is its own, or one of ours that was not run yet. It runs unchanged:
    # parts of it may have been written under its number.
    is_pending = green.planned is not None and not _is_blues_next(green, blue)
    reason = _missing(green, blue, (green.planned if is_pending else None) or green.committed)
    if reason:
        return NotThere(reason=reason)
    if is_pending:
        return FastForward(batch=green.committed.batch + 1)
    if stands_level(green, blue):
        return None
    return _planned(green, blue, green.committed, blue.committed)


def plan_planned(green: QueryView, blue: QueryView) -> FastForward | None:
    """
    Return what blue would have run next, as green's next batch; green stands where blue stands.

    :return: ``None`` when blue has planned nothing, and green continues on its own.
    """
    following = _next_of(green, blue)
    if following is None or green.committed is None:
        return None
    if green.planned is not None:
        return FastForward(batch=green.committed.batch + 1)
    return _planned(green, blue, green.committed, following)


def stands_level(green: QueryView, blue: QueryView) -> bool:
    """Tell whether both have committed the same, with the same watermark."""
    if blue.committed is None or green.committed is None:
        return green.committed is blue.committed
    return _is_level(green, green.committed, blue, blue.committed)


def _is_level(one: QueryView, at: PlannedBatch, other: QueryView, to: PlannedBatch) -> bool:
    return is_level(_without_past(one, at, other, to), _without_past(other, to, one, at))


def _without_past(one: QueryView, at: PlannedBatch, other: QueryView, to: PlannedBatch) -> Position:
    """
    Return a query's position after a plan, without its own past files.

    Files it read before the first common file are not missing in the other query: they are gone by
    now, or the other was configured not to read them. That holds whichever of the two is ahead.
    """
    position, theirs = one.at(at), other.at(to).sources
    if len(theirs) != len(position.sources):
        return position
    points = {
        mine.name: replace(
            mine, files=mine.files & known.files | frozenset(_new_files(one, mine, known))
        )
        for mine, known in paired(position.sources, theirs)
        if not mine.files <= known.files
    }
    return replace(position, sources=tuple(points.get(own.name, own) for own in position.sources))


def _new_files(reader: QueryView, read: SourcePoint, known: SourcePoint) -> list[str]:
    ordered = (path for path in reader.log(read.name).files if path in read.files)
    return since_common(ordered, known.files)


def _without_a_batch(green: QueryView, blue: QueryView) -> NotThere | None:
    if green.committed is None and blue.committed is None and green.planned is None:
        return None
    who = blue.uri if blue.committed is None else green.uri
    return NotThere(reason=f"{who} has committed no batch yet, so its position is unknown.")


def _missing(green: QueryView, blue: QueryView, wanted: PlannedBatch) -> str:
    """Tell what blue has not done of what green has; empty when it has done all."""
    if blue.committed is None:
        return f"{blue.uri} has committed no batch yet."
    behind = _without_past(green, wanted, blue, blue.committed)
    ahead = blue.position
    has_read = covers_sources(ahead.sources, behind.sources)
    if has_read is None:
        raise CheckpointRefused(_incomparable(green, blue))
    if not has_read:
        return (
            f"{blue.uri} is behind {green.uri}, which is at batch {ahead.batch}. It must run "
            "until it has caught up."
        )
    if not covers(ahead, behind):
        return (
            f"{blue.uri} is at watermark {ahead.watermark_ms} and {green.uri} at {behind.watermark_ms} "
            "(milliseconds since 1970): green has dropped results that blue has not emitted. Blue must "
            "run until its watermark is as late."
        )
    return ""


def _incomparable(green: QueryView, blue: QueryView) -> str:
    theirs, ours = blue.position.sources, green.position.sources
    if len(theirs) != len(ours):
        return (
            f"{blue.uri} reads {len(theirs)} sources and {green.uri} reads {len(ours)}, so one cannot "
            "resume from the other's position. Use parallel outputs."
        )
    for mine, other in paired(ours, theirs):
        if mine.has_read and other.has_read and mine.source is not other.source:
            return (
                f"Source {mine.name} of {green.uri} is of type {mine.source.value}, and of type "
                f"{other.source.value} in {blue.uri}: their positions mean different things. Use parallel "
                "outputs."
            )
    odd = [one for one in ours if one.source is SourceType.CUSTOM or one.source in COUNTING]
    named = ", ".join(f"{one.name} ({one.source.value})" for one in odd)
    return (
        f"How far {blue.uri} and {green.uri} are cannot be compared: the offsets of source {named} "
        "have no meaning that the two share. Use parallel outputs."
    )


def _is_blues_next(green: QueryView, blue: QueryView) -> bool:
    """Tell whether what green has planned is what blue would have run next."""
    following = _next_of(green, blue)
    if following is None or green.planned is None or not stands_level(green, blue):
        return False
    return _is_level(green, green.planned, blue, following)


def _next_of(green: QueryView, blue: QueryView) -> PlannedBatch | None:
    if blue.planned is not None:
        return blue.planned
    known = max(green.next_watermark_ms, blue.position.watermark_ms)
    if blue.committed is None or blue.next_watermark_ms <= known:
        return None
    # Blue's watermark rose with rows that green had read before it absorbed, and a query that
    # continues from a planned batch starts with the plan's watermark. Without this batch of no rows
    # green would emit results only as late as the next rows come.
    return blue.committed.with_watermark(blue.next_watermark_ms)


def _planned(
    green: QueryView, blue: QueryView, start: PlannedBatch, to: PlannedBatch
) -> FastForward:
    """Plan green's next batch up to a position of blue's."""
    written: dict[str, bytes] = {}
    removed: list[str] = []
    ends: dict[str, str] = {}
    for mine, theirs in paired(green.at(start).sources, blue.at(to).sources):
        ends[mine.name] = theirs.offset if theirs.has_read else mine.offset
        if SourceType.FILE not in (mine.source, theirs.source) or not theirs.has_read:
            continue
        new = _new_files(blue, theirs, mine)
        ends[mine.name] = mine.offset
        if not new:
            continue
        log, entry = green.log(mine.name), log_end(mine) + 1
        folder = f"sources/{mine.name}"
        files = {path: blue.log(theirs.name).files[path] for path in new}
        written[f"{folder}/{log.name(entry)}"] = log.written(entry, files)
        removed += (f"{folder}/{log.name(late)}" for late in range(log.last, entry - 1, -1))
        ends[mine.name] = f'{{"logOffset":{entry}}}'
    batch = start.batch + 1
    written[f"offsets/{batch}"] = start.leading_to(ends, to)
    return FastForward(batch=batch, written=written, removed=tuple(removed))
