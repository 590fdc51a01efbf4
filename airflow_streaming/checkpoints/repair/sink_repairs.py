"""
Looks at the file sinks of a stream before a launch, and moves one batch out of a sink that is ahead.

It works as a restore with rewound sinks does (``checkpoints.restore.file_sink_rewind``): recorded before the
first file moves, nothing is deleted, and any process continues a repair that was cut off. The drivers before
the launch must be proved gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from airflow_streaming.checkpoints.backup.live_copy import SINK_LOG
from airflow_streaming.checkpoints.backup.pinned_logs import Incomplete, log_tail
from airflow_streaming.checkpoints.read.file_logs import MAX_SINK_LOG_BYTES
from airflow_streaming.checkpoints.repair.decide import RepairCode, RepairDecision, decide_repair
from airflow_streaming.checkpoints.repair.put_back import PutBack, end_undo, finish_undo
from airflow_streaming.checkpoints.repair.sink_position import (
    Looked,
    file_sinks,
    is_used,
    log_listing,
    look,
    newest_commit,
    other_writers,
)
from airflow_streaming.checkpoints.restore.file_sink_rewind import (
    Boundary,
    FileSinkRewind,
    RewindPlan,
)
from airflow_streaming.checkpoints.restore.sink_output import Output, names_in, open_output
from airflow_streaming.exceptions import (
    CheckpointRefused,
    FencedError,
    RecordError,
    RestoreTaken,
    StreamingError,
)
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.repair import (
    REPAIR,
    RepairOutcome,
    SinkRepair,
    SinkRepairEnd,
)
from airflow_streaming.model.records.upgrade import SinkFacts
from airflow_streaming.storage.folders import open_folders

log: Final = logging.getLogger(__name__)


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


class SinkRepairs:
    """
    Repairs the file sinks of one stream on behalf of the task that launches its driver.

    :param home: The stream's records.
    :param by: Who acts, for the records.
    :param options: Passed to fsspec for checkpoints and outputs in remote stores.
    """

    def __init__(
        self,
        home: StreamHome,
        *,
        by: str,
        options: Mapping[str, Any] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._home, self._by, self._options, self._now = home, by, options, now
        self._is_stopped = False

    def before_launch(
        self, epoch: int, deployment: Deployment, *, by_hand: str = ""
    ) -> list[Repaired]:
        """
        Put back every sink that has one batch more than its checkpoint; return the findings.

        A look that fails is logged and repairs nothing: the driver may reach what this host cannot.

        :param by_hand: Command of a repair by hand. Where it is given, no repair is begun, and a repair or an
            undo that was cut off is finished all the same.
        :raises StreamingError: a repair was begun and could not be finished, or a newer epoch exists. No
            driver may start.
        """
        if self._home.is_released(epoch):
            return []  # its driver works
        return self._look(epoch, deployment, by_hand)

    def of_stopped(self, epoch: int, deployment: Deployment) -> list[Repaired]:
        """
        Do the same for a user, whose stream is stopped: also to a batch that an undo has put back.

        :param epoch: The newest one, whose driver is proved gone. A newer one ends the repair, and its launch
            finishes it.
        :raises StreamingError: as ``before_launch``.
        """
        self._is_stopped = True
        return self._look(epoch, deployment, "")

    def _look(self, epoch: int, deployment: Deployment, by_hand: str) -> list[Repaired]:
        self._check_fence(epoch)
        sinks = self._sinks(deployment)
        done = [self._undo(repair, deployment, sinks) for repair in self._home.unfinished_undos()]
        done += [
            self._continue(epoch, repair, deployment, sinks)
            for repair in self._home.unfinished_repairs()
        ]
        for facts in (one for one in sinks if one.is_stateful):
            try:
                looked = look(facts, deployment, self._options)
            except StreamingError as err:
                log.warning("The sink of query %r was not read: %s", facts.query, err)
                continue
            done.append(self._repair(epoch, deployment, sinks, facts, looked, by_hand))
        return [one for one in done if one is not None]

    def _sinks(self, deployment: Deployment) -> list[SinkFacts]:
        try:
            return file_sinks(self._home, deployment)
        except RecordError as err:
            log.warning("The plans of stream %s were not read: %s", self._home.name, err)
            return []

    def _may_move(self, epoch: int) -> bool:
        """Tell whether no newer epoch exists, and this epoch's standby waits at its barrier still."""
        newest = self._home.newest_epoch()
        is_newest = newest is not None and newest.number <= epoch
        return is_newest and (self._is_stopped or not self._home.is_released(epoch))

    def _check_fence(self, epoch: int) -> None:
        """
        Keep a task that slept from the sink of a driver that another task has started meanwhile.

        :raises FencedError: naming the epoch.
        """
        if not self._may_move(epoch):
            raise FencedError(
                f"Epoch {epoch} of stream {self._home.name!r} is not the newest, or its driver has started: its "
                "file sinks are not touched. The task of the newest epoch repairs them."
            )

    def _repair(
        self,
        epoch: int,
        deployment: Deployment,
        sinks: Sequence[SinkFacts],
        facts: SinkFacts,
        looked: Looked,
        by_hand: str,
    ) -> Repaired | None:
        undone = frozenset[int]()
        if not self._is_stopped:
            undone = self._home.undone_batches(facts.query, looked.checkpoint)
        if decide_repair(looked.position, undone).code is RepairCode.NOTHING:
            return None
        # Reads every stream of the home, and so only now.
        writers = other_writers(self._home, sinks, facts.query, facts.target)
        decision = decide_repair(replace(looked.position, writers=writers), undone, by_hand=by_hand)
        if decision.is_refused:
            return Repaired(query=facts.query, reason=decision.reason)
        repair = self._record_of(epoch, deployment, facts, looked, decision)
        try:
            self._rewind(repair).plan()
        except StreamingError as err:
            return Repaired(query=facts.query, reason=f"{decision.reason} {err}")
        self._check_fence(epoch)
        if not self._home.begin_repair(repair):
            raise CheckpointRefused(
                f"Another task began repair {repair.number} of stream {self._home.name!r} at the same "
                "moment. The next look continues it."
            )
        if self._is_settled(repair):
            raise _still_written(repair)
        return self._finish(epoch, repair)

    def _record_of(
        self,
        epoch: int,
        deployment: Deployment,
        facts: SinkFacts,
        looked: Looked,
        decision: RepairDecision,
    ) -> SinkRepair:
        return SinkRepair(
            number=self._home.next_repair(),
            stream=self._home.name,
            epoch=epoch,
            deployment=deployment.number,
            query=facts.query,
            checkpoint=looked.checkpoint,
            output=facts.target,
            batch=decision.batch,
            by=self._by,
            at=self._now(),
            planned_at=looked.planned_at,
        )

    def _undo(
        self, repair: SinkRepair, deployment: Deployment, sinks: Sequence[SinkFacts]
    ) -> Repaired | None:
        """Finish an undo that was cut off; it is given up where the batch can no longer move back."""
        end = partial(end_undo, self._home, repair, by=self._by, now=self._now)
        if not is_used(repair, deployment, sinks):
            end(RepairOutcome.ABANDONED)
            return None
        try:
            finish_undo(self._home, repair, self._options, by=self._by, now=self._now)
        except CheckpointRefused as err:
            end(RepairOutcome.ABANDONED)
            reason = f"The undo of repair {repair.number} was given up. {err}"
            return Repaired(query=repair.query, reason=reason)
        return None

    def _continue(
        self, epoch: int, repair: SinkRepair, deployment: Deployment, sinks: Sequence[SinkFacts]
    ) -> Repaired | None:
        """
        Finish a repair that was cut off.

        It is abandoned where the deployment uses another checkpoint or output, where another query writes to
        the output, or where the checkpoint has committed the batch.
        """
        if not is_used(repair, deployment, sinks):
            self._end(repair, RepairOutcome.ABANDONED)
            return None
        writers = other_writers(self._home, sinks, repair.query, repair.output)
        if writers:
            self._end(repair, RepairOutcome.ABANDONED)
            return Repaired(query=repair.query, reason=_abandoned_text(repair, writers))
        return None if self._is_settled(repair) else self._finish(epoch, repair)

    def _finish(self, epoch: int, repair: SinkRepair) -> Repaired:
        """
        Move the batch of a recorded repair out of the sink.

        :raises CheckpointRefused: an older driver committed the batch meanwhile. It is in the sink again.
        :raises RestoreTaken: a newer epoch exists, or another process has finished the repair.
        """

        def is_needed() -> bool:
            return (
                self._may_move(epoch)
                and self._home.repair_end(repair.number) is None
                and newest_commit(open_folders(repair.checkpoint, self._options)) < repair.batch
            )

        try:
            plan = self._rewind(repair).run(is_needed)
        except RestoreTaken as err:
            if self._is_settled(repair):
                raise _still_written(repair) from err
            raise
        if self._is_settled(repair):
            raise _still_written(repair)
        self._end(repair, RepairOutcome.DONE, plan)
        return Repaired(query=repair.query, reason=_done_text(repair), plan=plan, repair=repair)

    def _is_settled(self, repair: SinkRepair) -> bool:
        """Tell whether the checkpoint has committed the batch; it is then in the sink, and the repair ends."""
        if not PutBack(repair, self._options).after_commit():
            return False
        self._end(repair, RepairOutcome.ABANDONED)
        return True

    def _end(
        self, repair: SinkRepair, outcome: RepairOutcome, plan: RewindPlan | None = None
    ) -> None:
        self._home.end_repair(
            SinkRepairEnd(
                number=repair.number,
                outcome=outcome,
                by=self._by,
                at=self._now(),
                files=plan.files if plan else 0,
                size=plan.size if plan else 0,
            )
        )

    def _rewind(self, repair: SinkRepair) -> FileSinkRewind:
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
        f"Repair {repair.number} was given up: the folder of the file sink of query {repair.query!r} is "
        f"also that of {' and '.join(writers)}, with one log for all. Files that were moved before stay "
        f"in {repair.aside}. Give each query an output folder of its own."
    )


def _still_written(repair: SinkRepair) -> CheckpointRefused:
    return CheckpointRefused(
        f"Batch {repair.batch} of query {repair.query!r} was committed while a launch moved it out of the file "
        "sink: an older driver still writes. The batch is in the sink again. End that driver. The "
        "next launch looks again."
    )
