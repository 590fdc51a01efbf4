"""Moves the batch of one recorded repair out of its file sink, and ends the repair."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_streaming.checkpoints.backup.live_copy import SINK_LOG
from airflow_streaming.checkpoints.backup.pinned_logs import Incomplete, log_tail
from airflow_streaming.checkpoints.read.file_logs import MAX_SINK_LOG_BYTES
from airflow_streaming.checkpoints.repair.put_back import PutBack
from airflow_streaming.checkpoints.repair.sink_position import log_listing, newest_commit
from airflow_streaming.checkpoints.restore.file_sink_rewind import (
    Boundary,
    FileSinkRewind,
    RewindPlan,
)
from airflow_streaming.checkpoints.restore.sink_output import Output, names_in, open_output
from airflow_streaming.exceptions import CheckpointRefused, RestoreTaken
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.repair import (
    REPAIR,
    RepairOutcome,
    SinkRepair,
    SinkRepairEnd,
)
from airflow_streaming.storage.folders import open_folders


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """
    The finding of a launch at one sink that was, or may be, ahead.

    :param plan: The moved files; ``None`` where the repair was refused.
    :param repair: The record of it; ``None`` where the repair was refused.
    """

    query: str
    reason: str
    plan: RewindPlan | None = None
    repair: SinkRepair | None = None


class BatchMove:
    """
    Moves one batch out of its sink.

    :param repair: The repair; recorded before ``run``.
    :param options: Passed to fsspec for checkpoints and outputs in remote stores.
    """

    def __init__(
        self,
        home: StreamHome,
        repair: SinkRepair,
        *,
        by: str,
        options: Mapping[str, Any] | None,
        now: Callable[[], datetime],
    ) -> None:
        self._home, self._repair = home, repair
        self._by, self._options, self._now = by, options, now

    def check(self) -> None:
        """
        Do nothing when the batch can be moved.

        :raises StreamingError: the sink is damaged or cannot be reached.
        """
        self._rewind().plan()

    def run(self, may_move: Callable[[], bool]) -> Repaired:
        """
        Move the batch, and end the repair.

        :raises CheckpointRefused: an older driver committed the batch meanwhile. It is in the sink again.
        :raises RestoreTaken: a newer epoch exists, or another process has finished the repair.
        """
        try:
            plan = self._rewind().run(lambda: may_move() and self._is_needed())
        except RestoreTaken:
            self.check_uncommitted()
            raise
        self.check_uncommitted()
        self.end(RepairOutcome.DONE, plan)
        repair = self._repair
        return Repaired(query=repair.query, reason=_done_text(repair), plan=plan, repair=repair)

    def check_uncommitted(self) -> None:
        """
        Do nothing while the checkpoint has not committed the batch.

        :raises CheckpointRefused: it has. The batch is in the sink again, and the repair has ended.
        """
        if self.is_settled():
            raise _still_written(self._repair)

    def is_settled(self) -> bool:
        """Tell whether the checkpoint has committed the batch; it is then in the sink, and the repair ends."""
        if not PutBack(self._repair, self._options).after_commit():
            return False
        self.end(RepairOutcome.ABANDONED)
        return True

    def abandon(self, writers: Sequence[str]) -> Repaired:
        """End the repair of a sink with other writers."""
        self.end(RepairOutcome.ABANDONED)
        return Repaired(query=self._repair.query, reason=_abandoned_text(self._repair, writers))

    def end(self, outcome: RepairOutcome, plan: RewindPlan | None = None) -> None:
        """Record the end of the repair; the first recorded end counts."""
        self._home.end_repair(
            SinkRepairEnd(
                number=self._repair.number,
                outcome=outcome,
                by=self._by,
                at=self._now(),
                files=plan.files if plan else 0,
                size=plan.size if plan else 0,
            )
        )

    def _is_needed(self) -> bool:
        repair = self._repair
        return (
            self._home.repair_end(repair.number) is None
            and newest_commit(open_folders(repair.checkpoint, self._options)) < repair.batch
        )

    def _rewind(self) -> FileSinkRewind:
        repair = self._repair
        output = open_output(repair.output, self._options)
        boundary = Boundary(
            stream=repair.stream,
            query=repair.query,
            change=repair.number,
            backup=REPAIR,
            batch=repair.batch - 1,
            planned=repair.batch,
            kept=_older_entries(output, repair.batch - 1) if repair.batch else None,
            since=repair.planned_at or repair.at,
        )
        return FileSinkRewind(output, boundary)


def _older_entries(output: Output, batch: int) -> dict[str, bytes]:
    """
    Return the entries of a sink's log that stay, from the newest compacted one on.

    :raises CheckpointRefused: one of them is missing.
    """
    tail = log_tail(log_listing(names_in(output.folders, SINK_LOG)), "", batch)
    found = {}
    for name in () if isinstance(tail, Incomplete) else tail:
        data = output.folders.read(f"{SINK_LOG}/{name}", MAX_SINK_LOG_BYTES)
        if data is not None:
            found[name] = data
    if not found:
        raise CheckpointRefused(
            f"The sink's log {output.uri}/{SINK_LOG} does not have every batch up to {batch}. Nothing "
            "was changed. Restore the stream with its sinks rewound."
        )
    return found


def _done_text(repair: SinkRepair) -> str:
    return (
        f"The driver before died after the file sink of query {repair.query!r} had written batch "
        f"{repair.batch} and before the checkpoint committed it. The batch was moved to {repair.aside} "
        "and is executed again. A reader that has read its files already reads its rows again under "
        "new names."
    )


def _abandoned_text(repair: SinkRepair, writers: Sequence[str]) -> str:
    return (
        f"Repair {repair.number} is abandoned: the folder of the file sink of query "
        f"{repair.query!r} is also used by {' and '.join(writers)}, with one log for all. Files "
        f"that were moved before stay in {repair.aside}. Give each query an output folder of its "
        "own."
    )


def _still_written(repair: SinkRepair) -> CheckpointRefused:
    return CheckpointRefused(
        f"Batch {repair.batch} of query {repair.query!r} was committed while a launch moved it out of the file "
        "sink: an older driver still writes. The batch is in the sink again. End that driver. The "
        "next launch looks again."
    )
