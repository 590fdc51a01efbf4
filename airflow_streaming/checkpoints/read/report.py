"""
The report on one query's checkpoint, with every defect found.

``None`` always means unknown: the checkpoint does not say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from airflow_streaming.model.codec import encode
from airflow_streaming.model.spark.logs import NamedSink


class FindingCode(StrEnum):
    """Kinds of findings."""

    # The checkpoint as a whole.
    NOT_A_CHECKPOINT = "not_a_checkpoint"
    STRANGE_FILE = "strange_file"
    """A link, pipe, socket or device; Spark never makes one."""
    UNKNOWN_FILE = "unknown_file"
    """A file that no Spark from 2.1 to 4.3 writes there."""
    TOO_LARGE = "too_large"
    UNFINISHED_RESTORE = "unfinished_restore"
    METADATA_MISSING = "metadata_missing"
    METADATA_UNREADABLE = "metadata_unreadable"

    # The two logs.
    LOG_UNREADABLE = "log_unreadable"
    """Empty, torn or of another format."""
    LOG_VERSION_UNKNOWN = "log_version_unknown"
    """Written by a Spark newer than this release knows."""
    LOG_EDITED = "log_edited"
    """It differs from the checksum beside it; Spark does not look."""
    OFFSETS_MISSING = "offsets_missing"
    """Commits without any plan."""
    COMMITS_MISSING = "commits_missing"
    """Plans of more than one batch and no commit."""
    OFFSETS_GAP = "offsets_gap"
    COMMITS_GAP = "commits_gap"
    BATCH_MISNAMED = "batch_misnamed"
    """The newest file of a log has leading zeros: Spark takes its number and misses the file."""
    BATCHES_SKIPPED = "batches_skipped"
    """Plans are ahead of commits by two or more: Spark runs the last only. Silent loss."""
    COMMIT_WITHOUT_PLAN = "commit_without_plan"
    UNFINISHED_REPARTITION = "unfinished_repartition"

    # The sources' own logs.
    SOURCE_LOG_MISSING = "source_log_missing"
    SOURCE_LOG_BEHIND = "source_log_behind"
    SOURCE_LOG_UNREADABLE = "source_log_unreadable"

    # State.
    STATE_MISSING = "state_missing"
    """No folder for an operator that has state."""
    STATE_PARTITIONS = "state_partitions"
    """Another number of partitions than the checkpoint is pinned to."""
    STATE_VERSION_MISSING = "state_version_missing"
    """A file that the next batch must load."""
    STATE_FILE_DAMAGED = "state_file_damaged"
    """Truncated, of another size than recorded, or its checksum does not hold."""
    STATE_FROM_THE_FUTURE = "state_from_the_future"
    """Left over from an abandoned timeline; Spark may silently load it."""
    OPERATOR_METADATA_MISSING = "operator_metadata_missing"
    OPERATOR_METADATA_UNREADABLE = "operator_metadata_unreadable"
    STATE_SCHEMA_MISSING = "state_schema_missing"
    STATE_SCHEMA_UNREADABLE = "state_schema_unreadable"
    FOREIGN_PATH = "foreign_path"
    """It names a file outside this checkpoint that must be inside."""

    # The file sink's log.
    SINK_LOG_UNREADABLE = "sink_log_unreadable"
    SINK_LOG_AHEAD = "sink_log_ahead"
    """It knows batches that the checkpoint has not committed; the sink will drop them."""

    # Not wrong as such.
    STATE_UNKNOWN = "state_unknown"
    """The files do not show whether the query has state."""
    ASYNC_PROGRESS = "async_progress"
    """Commits have the gaps of asynchronous progress tracking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    A remark on a checkpoint.

    :param path: The file or folder, relative to the checkpoint; empty for the whole.
    :param message: The defect, Spark's reaction on a restart, and the next step.
    """

    code: FindingCode
    path: str
    message: str


class SourceType(StrEnum):
    """The kind of source that an offset belongs to, by the offset's form alone."""

    KAFKA = "kafka"
    """``{"topic": {"0": 123}}``: the next offset of each partition."""
    FILE = "file"
    """``{"logOffset": 5}``: the last entry of the source's own log."""
    NUMBER = "number"
    """A number, as of the rate source or a socket."""
    RATE_MICRO_BATCH = "rate_micro_batch"
    """``{"offset": 40, "timestamp": 1700000000000}``."""
    CUSTOM = "custom"
    """Any other JSON, or plain text."""
    NOT_STARTED = "not_started"
    """No offset yet; Spark writes ``-``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePosition:
    """
    The planned position of one source.

    :param name: Its number in the plan, from 0, or its name where the log has names.
    :param source: The kind of source, by the offset's form.
    :param offset: The end of the newest planned batch: Spark's JSON, or its text if it is not JSON;
        ``None`` before the first.
    :param committed: The end of the newest committed batch.
    """

    name: str
    source: SourceType
    offset: Any
    committed: Any = None


class StoreType(StrEnum):
    """How a state store keeps its state, by its files."""

    HDFS = "hdfs"
    ROCKSDB = "rocksdb"
    ROCKSDB_CHANGELOG = "rocksdb_changelog"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateStore:
    """
    A state store of an operator, over all partitions.

    :param name: ``default`` but for joins.
    :param newest_version: The newest version that every partition can load; batch N writes version
        N + 1.
    :param size: Bytes of its files.
    """

    name: str
    store: StoreType
    partitions: int
    newest_version: int | None
    files: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """
    A stateful operator.

    :param id: Its number in the plan; 0 is nearest to the sink.
    :param name: Spark's name of it, e.g. ``stateStoreSave``; unknown with Spark 3.5 and older.
    :param schema_version: Version of its state schema files, 1 to 3.
    :param state: Spark's JSON of its user-defined state variables.
    """

    id: int
    name: str | None
    partitions: int | None
    stores: tuple[StateStore, ...] = ()
    schema_version: int | None = None
    state: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """
    The content of one query's checkpoint.

    :param query_id: Spark's id of the query.
    :param offset_log_version: Format of the offset log, 1 or 2; ``commit_log_version`` 1 to 3.
    :param state_format: State checkpoint format, 1 or 2; ``None`` without state.
    :param spark_at_least: The oldest Spark that can have written the newest plan, e.g. ``4.0``.
    :param last_planned_batch: Newest batch in the offset log.
    :param last_committed_batch: Newest batch in the commit log.
    :param watermark_ms: Event-time watermark the next batch continues from, in milliseconds since
        1970 as Spark wrote it; 0 means that the query has none yet.
    :param sources: Position of each source, in plan order.
    :param sinks: Sinks that the newest commit names; empty without sink evolution.
    :param operators: Stateful operators by number.
    :param is_stateful: ``None`` where a missing state folder and no state look the same.
    :param shuffle_partitions: Pinned number of state partitions.
    :param conf: Configuration that Spark pinned in the newest plan.
    :param lost_conf: Settings that earlier plans pinned and the newest does not, because an older
        Spark has run the query since.
    :param async_progress: Whether the logs have the gaps of asynchronous progress tracking.
    :param files: Number of files, hidden ones not counted; ``size`` is their bytes.
    :param rollback_batches: Committed batches the query could continue from if the checkpoint were
        cut back to them, oldest first.
    :param problems: Defects; empty for a sound checkpoint.
    :param remarks: Other noteworthy facts.
    """

    uri: str
    query_id: str | None = None
    offset_log_version: int | None = None
    commit_log_version: int | None = None
    state_format: int | None = None
    spark_at_least: str | None = None
    last_planned_batch: int | None = None
    last_committed_batch: int | None = None
    watermark_ms: int | None = None
    sources: tuple[SourcePosition, ...] = ()
    sinks: tuple[NamedSink, ...] = ()
    operators: tuple[Operator, ...] = ()
    is_stateful: bool | None = None
    shuffle_partitions: int | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    lost_conf: Mapping[str, str] = field(default_factory=dict)
    async_progress: bool = False
    files: int = 0
    size: int = 0
    rollback_batches: tuple[int, ...] = ()
    problems: tuple[Finding, ...] = ()
    remarks: tuple[Finding, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Tell whether nothing is wrong with it."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form that ``inspect --json`` prints."""
        values: dict[str, Any] = encode(self)
        return {**values, "is_sound": self.is_sound}
