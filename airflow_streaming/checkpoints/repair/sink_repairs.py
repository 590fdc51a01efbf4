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

from airflow_streaming.checkpoints.repair.batch_move import BatchMove, Repaired
from airflow_streaming.checkpoints.repair.decide import RepairCode, RepairDecision, decide_repair
from airflow_streaming.checkpoints.repair.put_back import end_undo, finish_undo
from airflow_streaming.checkpoints.repair.sink_position import (
    Looked,
    file_sinks,
    is_used,
    look,
    other_writers,
)
from airflow_streaming.exceptions import (
    CheckpointRefused,
    FencedError,
    RecordError,
    StreamingError,
)
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.repair import RepairOutcome, SinkRepair
from airflow_streaming.model.records.upgrade import SinkFacts

log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stream:
    """
    The stream of one call.

    :param epoch: The newest epoch; a newer epoch ends the work.
    :param sinks: Its file sinks.
    :param by_hand: Command of a repair by hand; see ``before_launch``.
    :param is_stopped: A user repairs a stopped stream; no launch does.
    """

    epoch: int
    deployment: Deployment
    sinks: Sequence[SinkFacts]
    by_hand: str = ""
    is_stopped: bool = False


class SinkRepairs:
    """Repairs the file sinks of one stream on behalf of the task that launches its driver."""

    def __init__(
        self,
        home: StreamHome,
        *,
        by: str,
        options: Mapping[str, Any] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._home, self._by, self._options, self._now = home, by, options, now

    def before_launch(
        self, epoch: int, deployment: Deployment, *, by_hand: str = ""
    ) -> list[Repaired]:
        """
        Put back every sink that has one batch more than its checkpoint; return the findings.

        A look that fails is logged and repairs nothing: the driver may reach what this host cannot.

        :param by_hand: Command of a repair by hand. With it a launch begins no repair. It still finishes an
            interrupted repair or undo.
        :raises StreamingError: a repair was begun and could not be finished, or a newer epoch exists. No
            driver may start.
        """
        if self._home.is_released(epoch):
            return []  # its driver works
        return self._look(epoch, deployment, by_hand=by_hand)

    def of_stopped(self, epoch: int, deployment: Deployment) -> list[Repaired]:
        """
        Do the same for a user, whose stream is stopped: also to a batch that an undo has put back.

        :param epoch: The newest one, whose driver is proved gone. A newer one ends the repair, and its launch
            finishes it.
        :raises StreamingError: as ``before_launch``.
        """
        return self._look(epoch, deployment, is_stopped=True)

    def _look(
        self, epoch: int, deployment: Deployment, *, by_hand: str = "", is_stopped: bool = False
    ) -> list[Repaired]:
        stream = _Stream(
            epoch=epoch,
            deployment=deployment,
            sinks=self._sinks(deployment),
            by_hand=by_hand,
            is_stopped=is_stopped,
        )
        self._check_fence(stream)
        done = [self._undo(repair, stream) for repair in self._home.unfinished_undos()]
        done += [self._continue(repair, stream) for repair in self._home.unfinished_repairs()]
        for facts in (one for one in stream.sinks if one.is_stateful):
            try:
                looked = look(facts, deployment, self._options)
            except StreamingError as err:
                log.warning("The sink of query %r was not read: %s", facts.query, err)
                continue
            done.append(self._repair(facts, looked, stream))
        return [one for one in done if one is not None]

    def _sinks(self, deployment: Deployment) -> list[SinkFacts]:
        try:
            return file_sinks(self._home, deployment)
        except RecordError as err:
            log.warning("The plans of stream %s were not read: %s", self._home.name, err)
            return []

    def _may_move(self, stream: _Stream) -> bool:
        """Tell whether no newer epoch exists, and this epoch's standby waits at its barrier still."""
        newest = self._home.newest_epoch()
        is_newest = newest is not None and newest.number <= stream.epoch
        return is_newest and (stream.is_stopped or not self._home.is_released(stream.epoch))

    def _check_fence(self, stream: _Stream) -> None:
        """
        Keep a task that slept from the sink of a driver that another task has started meanwhile.

        :raises FencedError: naming the epoch.
        """
        if not self._may_move(stream):
            raise FencedError(
                f"Epoch {stream.epoch} of stream {self._home.name!r} is not the newest, or its driver has "
                "started: its file sinks are not touched. The task of the newest epoch repairs them."
            )

    def _repair(self, facts: SinkFacts, looked: Looked, stream: _Stream) -> Repaired | None:
        undone = frozenset[int]()
        if not stream.is_stopped:
            undone = self._home.undone_batches(facts.query, looked.checkpoint)
        if decide_repair(looked.position, undone).code is RepairCode.NOTHING:
            return None
        # Reads every stream of the home, and so only now.
        writers = other_writers(self._home, stream.sinks, facts.query, facts.target)
        position = replace(looked.position, writers=writers)
        decision = decide_repair(position, undone, by_hand=stream.by_hand)
        if decision.is_refused:
            return Repaired(query=facts.query, reason=decision.reason)
        repair = self._record_of(facts, looked, decision, stream)
        move = self._move(repair)
        try:
            move.check()
        except StreamingError as err:
            return Repaired(query=facts.query, reason=f"{decision.reason} {err}")
        self._check_fence(stream)
        if not self._home.begin_repair(repair):
            raise CheckpointRefused(
                f"Another task began repair {repair.number} of stream {self._home.name!r} at the same "
                "moment. The next look continues it."
            )
        move.check_uncommitted()
        return move.run(partial(self._may_move, stream))

    def _record_of(
        self, facts: SinkFacts, looked: Looked, decision: RepairDecision, stream: _Stream
    ) -> SinkRepair:
        return SinkRepair(
            number=self._home.next_repair(),
            stream=self._home.name,
            epoch=stream.epoch,
            deployment=stream.deployment.number,
            query=facts.query,
            checkpoint=looked.checkpoint,
            output=facts.target,
            batch=decision.batch,
            by=self._by,
            at=self._now(),
            planned_at=looked.planned_at,
        )

    def _undo(self, repair: SinkRepair, stream: _Stream) -> Repaired | None:
        """Finish an interrupted undo; abandon it where the batch can no longer move back."""
        end = partial(end_undo, self._home, repair, by=self._by, now=self._now)
        if not is_used(repair, stream.deployment, stream.sinks):
            end(RepairOutcome.ABANDONED)
            return None
        try:
            finish_undo(self._home, repair, self._options, by=self._by, now=self._now)
        except CheckpointRefused as err:
            end(RepairOutcome.ABANDONED)
            reason = f"The undo of repair {repair.number} is abandoned. {err}"
            return Repaired(query=repair.query, reason=reason)
        return None

    def _continue(self, repair: SinkRepair, stream: _Stream) -> Repaired | None:
        """
        Finish a repair that was cut off.

        It is abandoned where the deployment uses another checkpoint or output, where another query writes to
        the output, or where the checkpoint has committed the batch.
        """
        move = self._move(repair)
        if not is_used(repair, stream.deployment, stream.sinks):
            move.end(RepairOutcome.ABANDONED)
            return None
        writers = other_writers(self._home, stream.sinks, repair.query, repair.output)
        if writers:
            return move.abandon(writers)
        return None if move.is_settled() else move.run(partial(self._may_move, stream))

    def _move(self, repair: SinkRepair) -> BatchMove:
        return BatchMove(self._home, repair, by=self._by, options=self._options, now=self._now)
