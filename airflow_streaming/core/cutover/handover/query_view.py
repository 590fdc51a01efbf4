"""What a handover has to know of one query's checkpoint: its plans, its sources' logs, no state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from airflow_streaming.core.checkpoint.logs import OffsetLog, parse_offset_log
from airflow_streaming.core.checkpoint.report import SourceType
from airflow_streaming.core.checkpoint.sources import source_of
from airflow_streaming.core.checkpoint.texts import MAX_LOG_BYTES, json_object
from airflow_streaming.core.cutover.handover.file_log import FileLog
from airflow_streaming.core.cutover.handover.position import COUNTING, Position, SourcePoint


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
