"""
Finding: one thing that is wrong with a checkpoint, what Spark would make of it, and the remedy.

The codes are the rows of a table that was measured on Spark 3.5 to 4.3: each defect was made in a
real checkpoint and the query was started on it. ``docs/checkpoints.md`` shows the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FindingCode(StrEnum):
    """What is wrong, by what it does."""

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
    """Empty, torn or not what the log should hold."""
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
    """A file that the next batch has to load."""
    STATE_FILE_DAMAGED = "state_file_damaged"
    """Truncated, of another size than recorded, or its checksum does not hold."""
    STATE_FROM_THE_FUTURE = "state_from_the_future"
    """Left over from an abandoned timeline; Spark may load it without a word."""
    OPERATOR_METADATA_MISSING = "operator_metadata_missing"
    OPERATOR_METADATA_UNREADABLE = "operator_metadata_unreadable"
    STATE_SCHEMA_MISSING = "state_schema_missing"
    STATE_SCHEMA_UNREADABLE = "state_schema_unreadable"
    FOREIGN_PATH = "foreign_path"
    """It names a file outside this checkpoint that has to be inside."""

    # The file sink's log.
    SINK_LOG_UNREADABLE = "sink_log_unreadable"
    SINK_LOG_AHEAD = "sink_log_ahead"
    """It knows batches that the checkpoint has not committed; the sink will drop them."""

    # Not wrong by itself.
    STATE_UNKNOWN = "state_unknown"
    """Whether the query has state cannot be told from what is there."""
    ASYNC_PROGRESS = "async_progress"
    """Commits have the gaps of asynchronous progress tracking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    One remark on a checkpoint.

    :param path: The file or folder, relative to the checkpoint; empty for the whole.
    :param message: What was found, what Spark does on a restart, and what to do next.
    """

    code: FindingCode
    path: str
    message: str
