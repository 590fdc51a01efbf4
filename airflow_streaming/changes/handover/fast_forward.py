"""
How green's state reaches the live position: positions, file logs and the fast-forward batch.

Two queries of the same sources number what they read each in their own way: the log of a file source
counts from the query's own first batch. What they share is what was read: files by their path, Kafka
records by topic, partition and offset. So positions are compared by that, and where a source has no
such words nothing is said.

It has an entry for every batch that found files. Every so many entries one is compacted: it repeats
all files so far, and is what Spark reads when it starts. Spark works the interval out from the
compacted entries that are there, so that whoever writes the next entry has to do likewise.

Green has read up to Y, blue up to X. The next batch of green is planned by us: it reads Y to X, with
the watermark of blue's last committed batch, and its output is thrown away. Afterwards green's state
holds what blue's holds: what blue has emitted is evicted, and nothing else. Blue's own next batch, if
it had planned one, or learned a later watermark, is planned for green in the same way; its output
counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from airflow_streaming.checkpoints.read.file_logs import MAX_SOURCE_LOG_BYTES, log_lines, source_of
from airflow_streaming.checkpoints.read.report import SourceType
from airflow_streaming.exceptions import CheckpointRefused, RecordError
from airflow_streaming.model.progress import is_at_least
from airflow_streaming.model.spark.logs import (
    MAX_LOG_BYTES,
    OffsetLog,
    integer,
    json_object,
    parse_offset_log,
    split_version,
    string,
)

COUNTING: Final = frozenset({SourceType.NUMBER, SourceType.RATE_MICRO_BATCH})
"""Sources that count from their own first start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePoint:
    """
    How far one source was read.

    :param name: Its number in the plan, from 0, or its name where the log has names.
    :param source: What sort of source, told by the offset's form.
    :param offset: As Spark wrote it; ``-`` before the first.
    :param files: Of a file source: the paths of all files that were read, as its log spells them.
    :param origin: Of a source that counts from its own first start, such as ``rate``: what its
        checkpoint keeps of that start. Two of different origin cannot be compared.
    """

    name: str
    source: SourceType
    offset: str
    files: frozenset[str] = frozenset()
    origin: bytes = b""

    @property
    def has_read(self) -> bool:
        """Tell whether anything was read."""
        if self.source is SourceType.FILE:
            return bool(self.files)
        return self.source is not SourceType.NOT_STARTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """
    How far a query is.

    :param batch: The batch after which it stands there; ``None`` before the first.
    :param watermark_ms: The watermark with which that batch has emitted and evicted, in
        milliseconds since 1970; 0 for none.
    :param sources: In plan order.
    """

    batch: int | None
    watermark_ms: int = 0
    sources: tuple[SourcePoint, ...] = ()


def covers(ahead: Position, behind: Position) -> bool | None:
    """
    Tell whether one query has read, and emitted, all that another has.

    :return: ``None`` when it cannot be told: the sources are others, or of an unknown sort.
    """
    if behind.batch is None:
        return True
    read = ahead.batch is not None and covers_sources(ahead.sources, behind.sources)
    return read and ahead.watermark_ms >= behind.watermark_ms


def covers_sources(ahead: Sequence[SourcePoint], behind: Sequence[SourcePoint]) -> bool | None:
    """Tell whether one query has read all that another has, whatever their watermarks are."""
    if len(ahead) != len(behind):
        return None
    answers = [_covers(mine, other) for mine, other in paired(ahead, behind)]
    return None if None in answers else all(answers)


def is_level(one: Position, other: Position) -> bool:
    """Tell whether two queries stand at the same place, with the same watermark."""
    return covers(one, other) is True and covers(other, one) is True


def paired(
    ours: Sequence[SourcePoint], theirs: Sequence[SourcePoint]
) -> list[tuple[SourcePoint, SourcePoint]]:
    """Return the sources that belong together: by name where the names are the same, else in order."""
    by_name = {point.name: point for point in theirs}
    if by_name.keys() == {point.name for point in ours}:
        return [(point, by_name[point.name]) for point in ours]
    return list(zip(ours, theirs, strict=True))


def _covers(ahead: SourcePoint, behind: SourcePoint) -> bool | None:
    if not behind.has_read:
        return True
    if not ahead.has_read:
        return False
    if ahead.source is not behind.source:
        return None
    if ahead.source is SourceType.FILE:
        return behind.files <= ahead.files
    if ahead.source in COUNTING:
        return _counts_on(ahead, behind)
    if ahead.source is SourceType.KAFKA:
        return is_at_least(ahead.offset, behind.offset)
    return True if ahead.offset == behind.offset else None


def _counts_on(ahead: SourcePoint, behind: SourcePoint) -> bool | None:
    if not ahead.origin or ahead.origin != behind.origin:
        return None
    if ahead.source is SourceType.NUMBER:
        return is_at_least(ahead.offset, behind.offset)
    mine, other = (json.loads(point.offset)["offset"] for point in (ahead, behind))
    return bool(mine >= other)


DEFAULT_INTERVAL: Final = 10
"""Spark's own ``spark.sql.streaming.fileSource.log.compactInterval``."""
_PLAIN: Final = re.compile(
    r'^\{"path":"([^"\\\x00-\x1f]*)","timestamp":([0-9]{1,18}),"batchId":([0-9]{1,18})\}$',
    re.MULTILINE,
)
_HEAD, _TIME, _ENTRY = '{"path":"', '","timestamp":', ',"batchId":'


class Seen(NamedTuple):
    """When a file was last written, in milliseconds since 1970, and the entry that has it."""

    timestamp_ms: int
    entry: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLog:
    """
    What a file source has taken, in the order in which it did.

    :param files: By path; a path is spelled as in the log, with JSON's own escapes.
    :param last: Number of the newest entry, whether a batch was planned with it or not; -1 for none.
    :param interval: How many entries lie between two compacted ones.
    """

    files: Mapping[str, Seen] = field(default_factory=dict)
    last: int = -1
    interval: int = DEFAULT_INTERVAL

    def up_to(self, entry: int) -> dict[str, Seen]:
        """Return the files of the entries up to one."""
        return {path: seen for path, seen in self.files.items() if seen.entry <= entry}

    def name(self, entry: int) -> str:
        """Return the name of an entry's file."""
        return f"{entry}.compact" if (entry + 1) % self.interval == 0 else str(entry)

    def written(self, entry: int, files: Mapping[str, Seen]) -> bytes:
        """
        Return the content of a new entry.

        :param entry: Its number; entries from there on are taken as not being there.
        :param files: The files that it adds.
        """
        is_compacted = (entry + 1) % self.interval == 0
        before = self.up_to(entry - 1) if is_compacted else {}
        new = {path: Seen(seen.timestamp_ms, entry) for path, seen in files.items()}
        return "\n".join(
            ["v1", *(_line(path, seen) for path, seen in (before | new).items())]
        ).encode()


def entries_of(data: bytes) -> dict[str, Seen]:
    """
    Return the files of one entry, plain or compacted.

    :raises RecordError: it is no entry of a file source's log.
    """
    _, body = split_version(data, (1,), "source log", limit=MAX_SOURCE_LOG_BYTES)
    # All lines but those with an escape are taken at once, which is ten times as fast as one by one.
    plain = _PLAIN.findall(body)
    if len(plain) == body.count("\n") + 1:
        return {path: Seen(int(time), int(entry)) for path, time, entry in plain}
    return dict(map(_parsed, log_lines(body, "source log")))


def compact_interval(compacted: Collection[int], default: int) -> int:
    """
    Return the interval by which Spark goes on compacting a log.

    :param compacted: Numbers of the compacted entries that are there.
    :param default: What the query's configuration says.
    """
    newest = sorted(compacted)[-2:]
    if len(newest) == 2:
        return newest[1] - newest[0]
    if not newest:
        return default
    size = newest[0] + 1
    if size <= default or default >= size // 2:
        return size
    # The smallest interval that is not below the wish and whose multiples meet the compacted entry.
    return next((step for step in range(default, size // 2 + 1) if size % step == 0), size)


def since_common(files: Iterable[str], known: Collection[str]) -> list[str]:
    """
    Return the files that are not known, from the first known one on.

    What another query has read before the first file that both have is its own past: files that
    are gone by now, or that the new query was told not to read. Without a file in common there is
    no such past.
    """
    ordered = list(files)
    first = next((number for number, path in enumerate(ordered) if path in known), 0)
    return [path for path in ordered[first:] if path not in known]


def _parsed(line: str) -> tuple[str, Seen]:
    told = json_object(line, "source log", limit=MAX_SOURCE_LOG_BYTES)
    spelled = json.dumps(string(told.get("path"), "path"), ensure_ascii=False)[1:-1]
    return spelled, Seen(
        integer(told.get("timestamp"), "timestamp"), integer(told.get("batchId"), "batchId")
    )


def _line(path: str, seen: Seen) -> str:
    if any(character < " " for character in path):
        raise RecordError(f"{path!r:.100} is not a path of a file source's log.")
    return f"{_HEAD}{path}{_TIME}{seen.timestamp_ms}{_ENTRY}{seen.entry}}}"


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
        Return the plan in a file.

        :raises RecordError: it is none.
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
    One query's checkpoint.

    :param committed: Plan of its newest committed batch; ``None`` before the first.
    :param planned: The plan after it, when there is one.
    :param next_watermark_ms: What that commit says of the watermark to come; 0 for nothing.
    :param logs: Of each file source, by name.
    :param origins: Of other sources, by name: what the checkpoint keeps of their first start.
    :param compact_interval: Interval by which a log that has no compacted entry is compacted.
    """

    uri: str
    committed: PlannedBatch | None = None
    planned: PlannedBatch | None = None
    next_watermark_ms: int = 0
    logs: Mapping[str, FileLog] = field(default_factory=dict)
    origins: Mapping[str, bytes] = field(default_factory=dict)
    compact_interval: int = 10
    # A log may name a million files, and is asked for again and again at the same two places.
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
    One batch that is planned in green's checkpoint.

    :param batch: Its number there.
    :param written: Small files by path, in the order in which they have to be written; the plan
        itself, ``offsets/<batch>``, is the last. Empty when the batch is planned already and only
        has to be run.
    :param removed: Entries of sources' logs that were there already, that no plan has ever named
        and that are in the way; they go first. Their files are listed again.
    """

    batch: int
    written: Mapping[str, bytes] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotThere:
    """
    Blue has not come as far as green: looking again helps as long as blue runs.

    :param reason: In words.
    """

    reason: str


def plan_absorption(green: QueryView, blue: QueryView) -> FastForward | NotThere | None:
    """
    Return the batch with which green comes to where blue has committed.

    :return: ``None`` when it stands there already.
    :raises CheckpointRefused: it can never be brought there.
    """
    if green.committed is None or blue.committed is None:
        return _without_a_batch(green, blue)
    # What green has planned is its own, or one of ours that was not run yet. It is run as it is:
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

    :return: ``None`` when blue has planned nothing, and green goes on by itself.
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
    Return where one stands after a plan, without the files that are its own past.

    What it has read before the first file that both have read is nothing that the other misses:
    those files are gone by now, or the other was told not to read them. That holds whichever of
    the two is ahead: what was no part of a handover is no part of the way back.
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
    return NotThere(reason=f"{who} has committed no batch yet, so there is no position to compare.")


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
            f"{blue.uri} has not read all that {green.uri} has; it is at batch {ahead.batch}. It must run "
            "until it has."
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
    # Blue's watermark rose with rows that green had read before it absorbed, and a query that goes
    # on from a planned batch forgets what it has seen before. Without this batch of no rows green
    # would let go of results as late as the next rows come.
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
