"""
Looks at the file sinks of a stream before a launch, and moves one batch out of a sink that is ahead.

It works as a restore with rewound sinks does (``checkpoints.restore.file_sink_rewind``): recorded before the
first file moves, nothing is deleted, and any process continues a repair that was cut off. The drivers before
the launch must be proved gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from airflow_streaming.checkpoints.backup.live_copy import RELATIVE, SINK_LOG
from airflow_streaming.checkpoints.backup.pinned_logs import Incomplete, log_tail
from airflow_streaming.checkpoints.read.file_logs import MAX_SINK_LOG_BYTES
from airflow_streaming.checkpoints.read.journal import COMMITS, OFFSETS, log_batches
from airflow_streaming.checkpoints.repair.decide import (
    RepairCode,
    RepairDecision,
    SinkPosition,
    decide_repair,
)
from airflow_streaming.checkpoints.restore.file_sink_rewind import (
    Boundary,
    FileSinkRewind,
    RewindPlan,
)
from airflow_streaming.checkpoints.restore.sink_log import files_of, newest_batch, path_in_output
from airflow_streaming.checkpoints.restore.sink_output import Output, names_in, open_output
from airflow_streaming.checkpoints.state.stores import parse_name
from airflow_streaming.exceptions import (
    CheckpointRefused,
    FencedError,
    RecordError,
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
from airflow_streaming.model.records.upgrade import SinkFacts, SinkReplaySemantics, sink_facts_of
from airflow_streaming.model.spark.listing import FileStat, Listing
from airflow_streaming.model.spark.logs import MAX_LOG_BYTES, parse_commit_log, parse_offset_log
from airflow_streaming.model.uris import is_same_place, join
from airflow_streaming.storage.folders import Folders, open_folders

log: Final = logging.getLogger(__name__)
EPOCHS: Final = 5
"""Newest epochs of a deployment whose plans are read: a launch must not list a year of epochs."""
_FIRST_STORE: Final = "state/0/0"
"""Every stateful operator has its first partition here, or in the folders below it."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """
    The positions of one query, and where they were read.

    :param planned_at: When the newest plan was made, by the driver's clock.
    """

    position: SinkPosition
    checkpoint: str
    planned_at: datetime | None = None


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

    def before_launch(self, epoch: int, deployment: Deployment) -> list[Repaired]:
        """
        Put back every sink that has one batch more than its checkpoint; return the findings.

        A look that fails is logged and repairs nothing: the driver may reach what this host cannot.

        :raises StreamingError: a repair was begun and could not be finished, or a newer epoch exists. No
            driver may start.
        """
        if self._home.is_released(epoch):
            return []  # its driver works
        self._check_fence(epoch)
        sinks = self._sinks(deployment)
        done = [
            self._finish(epoch, repair, is_used=is_used(repair, deployment, sinks))
            for repair in self._home.unfinished_repairs()
        ]
        for facts in sinks:
            try:
                looked = look(facts, deployment, self._options)
            except StreamingError as err:
                log.warning("The sink of query %r was not read: %s", facts.query, err)
                continue
            done.append(self._repair(epoch, deployment, facts, looked))
        return [one for one in done if one is not None]

    def _sinks(self, deployment: Deployment) -> list[SinkFacts]:
        try:
            return stateful_file_sinks(self._home, deployment)
        except RecordError as err:
            log.warning("The plans of stream %s were not read: %s", self._home.name, err)
            return []

    def _may_move(self, epoch: int) -> bool:
        """Tell whether no newer epoch exists, and this epoch's standby waits at its barrier still."""
        newest = self._home.newest_epoch()
        is_newest = newest is not None and newest.number <= epoch
        return is_newest and not self._home.is_released(epoch)

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
        self, epoch: int, deployment: Deployment, facts: SinkFacts, looked: Looked
    ) -> Repaired | None:
        undone = self._home.undone_batches(facts.query, looked.checkpoint)
        decision = decide_repair(looked.position, undone)
        if decision.code is RepairCode.NOTHING:
            return None
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
        return self._finish(epoch, repair, is_used=True)

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

    def _finish(self, epoch: int, repair: SinkRepair, *, is_used: bool) -> Repaired | None:
        """
        Finish a recorded repair.

        It is abandoned where the deployment uses another checkpoint or output, or the checkpoint has committed
        the batch. A repair that a user has begun to undo is put back.
        """
        if self._home.repair_undo(repair.number) is not None:
            PutBack(repair, self._options).run()
            self._end(repair, RepairOutcome.ABANDONED)
            return None
        if (
            not is_used
            or _committed(open_folders(repair.checkpoint, self._options)) >= repair.batch
        ):
            self._end(repair, RepairOutcome.ABANDONED)
            return None

        def is_needed() -> bool:
            return self._may_move(epoch) and self._home.repair_end(repair.number) is None

        plan = self._rewind(repair).run(is_needed)
        self._end(repair, RepairOutcome.DONE, plan)
        return Repaired(query=repair.query, reason=_done_text(repair), plan=plan, repair=repair)

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


def stateful_file_sinks(home: StreamHome, deployment: Deployment) -> list[SinkFacts]:
    """
    Return the file sinks of a deployment's stateful queries, as its drivers have recorded them.

    Plans of an earlier deployment count where it had the same script, output and arguments: a query that the
    script has no more would not execute its batch again.
    """
    for number in range(deployment.number, 0, -1):
        plans = home.newest_plans(number, epochs=EPOCHS)
        if not plans:
            continue
        wrote = home.deployment(number)
        if _writes(wrote) != _writes(deployment):
            return []
        return [
            facts
            for facts in sink_facts_of(plans, checkpoint=wrote.checkpoint)
            if facts.habit is SinkReplaySemantics.FILE_LOG and facts.is_stateful
        ]
    return []


def _writes(deployment: Deployment) -> tuple[object, ...]:
    return deployment.application_sha256, deployment.output, deployment.application_args


def _checkpoint_of(facts: SinkFacts, deployment: Deployment) -> str:
    return facts.own_checkpoint or join(deployment.checkpoint, facts.query)


def is_used(repair: SinkRepair, deployment: Deployment, sinks: Sequence[SinkFacts]) -> bool:
    """
    Tell whether a deployment continues the checkpoint and the output of a repair.

    :param sinks: Of the deployment, see ``stateful_file_sinks``; where the query is not among them, the
        place of the checkpoint decides.
    """
    for facts in sinks:
        if facts.query == repair.query:
            place = _checkpoint_of(facts, deployment)
            return is_same_place(place, repair.checkpoint) and is_same_place(
                facts.target, repair.output
            )
    return is_same_place(join(deployment.checkpoint, repair.query), repair.checkpoint)


def look(facts: SinkFacts, deployment: Deployment, options: Mapping[str, Any] | None) -> Looked:
    """
    Look at the checkpoint and, where a batch is open in it, at the sink of one query.

    :raises StreamingError: the checkpoint cannot be read.
    """
    uri = _checkpoint_of(facts, deployment)
    folders = open_folders(uri, options)
    # Offsets first, so that a batch is never seen committed and not planned.
    planned, committed = _newest(folders, OFFSETS), _committed(folders)
    position = SinkPosition(
        query=facts.query,
        planned=planned,
        committed=committed,
        sink=None,
        has_state_ids=False,
    )
    if not position.has_open_batch or not _has_state_ids(folders, committed):
        return Looked(position=position, checkpoint=uri)
    sink, unseen, lost = _look_at_log(facts.target, committed, options)
    return Looked(
        position=SinkPosition(
            query=facts.query,
            planned=planned,
            committed=committed,
            sink=sink,
            has_state_ids=True,
            unseen=unseen,
            lost=lost,
        ),
        checkpoint=uri,
        planned_at=_planned_at(folders, planned),
    )


def _look_at_log(
    output: str, committed: int, options: Mapping[str, Any] | None
) -> tuple[int | None, str, str]:
    """Return the newest batch of a sink's log, why it cannot be seen, and which entry it lacks."""
    if not output:
        return None, RELATIVE, ""
    try:
        entries = open_folders(join(output, SINK_LOG), options).entries("", list)
    except StreamingError as err:
        return None, str(err), ""
    if entries is None and committed >= 0:
        return None, f"There is no {join(output, SINK_LOG)}.", ""
    names = [entry.name for entry in entries or () if not entry.is_folder]
    newest = newest_batch(names)
    tail = log_tail(_listing(names), "", committed)
    return -1 if newest is None else newest, "", tail.path if isinstance(tail, Incomplete) else ""


def _listing(names: list[str]) -> Listing:
    return Listing({"": {name: FileStat(0) for name in names}})


def _older_entries(output: Output, batch: int) -> dict[str, bytes]:
    """
    Return the entries of a sink's log that stay, from the newest compacted one on.

    :raises CheckpointRefused: one of them is missing.
    """
    tail = log_tail(_listing(names_in(output.folders, SINK_LOG)), "", batch)
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


def _newest(folders: Folders, log_name: str) -> int:
    entries = folders.entries(log_name, list) or ()
    return max(log_batches(entry.name for entry in entries), default=-1)


def _committed(folders: Folders) -> int:
    return _newest(folders, COMMITS)


def _has_state_ids(folders: Folders, committed: int) -> bool:
    """Tell whether the newest commit, or before the first one the state's files, have unique ids."""
    if committed >= 0:
        data = folders.read(f"{COMMITS}/{committed}", MAX_LOG_BYTES)
        return data is not None and bool(parse_commit_log(data).state_ids)
    return any(parsed.unique_id for parsed in filter(None, map(parse_name, _first_files(folders))))


def _first_files(folders: Folders) -> Iterator[str]:
    for entry in folders.entries(_FIRST_STORE, list) or ():
        if entry.is_folder:
            inner = folders.entries(f"{_FIRST_STORE}/{entry.name}", list) or ()
            yield from (one.name for one in inner)
        else:
            yield entry.name


def _planned_at(folders: Folders, batch: int) -> datetime | None:
    try:
        data = folders.read(f"{OFFSETS}/{batch}", MAX_LOG_BYTES)
        milliseconds = None if data is None else parse_offset_log(data).batch_ms
        return None if not milliseconds else datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (RecordError, ValueError, OverflowError, OSError):
        return None


def _done_text(repair: SinkRepair) -> str:
    return (
        f"The driver before died after the file sink of query {repair.query!r} had written batch "
        f"{repair.batch} and before the checkpoint committed it. The batch was moved to {repair.aside} "
        "and is executed again. A reader that has read its files already reads its rows again under "
        "new names."
    )


class PutBack:
    """
    Moves the batch of a repair back into its sink.

    :param options: Passed to fsspec for checkpoints and outputs in remote stores.
    """

    def __init__(self, repair: SinkRepair, options: Mapping[str, Any] | None = None) -> None:
        self._repair, self._options = repair, options
        self._output = open_output(repair.output, options)
        self._aside = repair.aside.removeprefix(repair.output.rstrip("/")).lstrip("/")

    def check(self) -> None:
        """
        Do nothing when the batch can be moved back, or lies there already.

        :raises CheckpointRefused: the batch was written or committed anew since.
        :raises HomeUnavailable: the sink or the checkpoint cannot be reached.
        """
        batch = self._repair.batch
        found = newest_batch(names_in(self._output.folders, SINK_LOG))
        newest = -1 if found is None else found
        if not self._entries() and newest >= batch:
            return
        is_committed = _committed(open_folders(self._repair.checkpoint, self._options)) >= batch
        if is_committed or newest != batch - 1:
            raise CheckpointRefused(
                f"The sink of query {self._repair.query!r} ends at batch {newest}, and repair "
                f"{self._repair.number} can be undone while it ends at {batch - 1} and the batch is not "
                f"committed. The files of before stay in {self._repair.aside}. Nothing was changed."
            )

    @property
    def is_done(self) -> bool:
        """Tell whether nothing of the batch is left to move back."""
        return not self._entries()

    def run(self) -> None:
        """
        Move it back; again changes nothing.

        :raises CheckpointRefused: as ``check``.
        :raises HomeUnavailable: as ``check``.
        """
        self.check()
        # The data first: a reader that meets the entry expects its files.
        for uri in files_of(self._entries(), f"{self._repair.aside}/log"):
            path = path_in_output(uri, self._output.uri)
            folder, _, name = path.rpartition("/")
            for one in (f"{folder}/.{name}.crc".lstrip("/"), path):
                self._output.move([(f"{self._aside}/data/{one}", one)])
        for name in names_in(self._output.folders, f"{self._aside}/log"):
            self._output.move([(f"{self._aside}/log/{name}", f"{SINK_LOG}/{name}")])

    def _entries(self) -> dict[str, bytes]:
        folders, place = self._output.folders, f"{self._aside}/log"
        names = [name for name in names_in(folders, place) if newest_batch([name]) is not None]
        return {name: folders.read(f"{place}/{name}", MAX_SINK_LOG_BYTES) or b"" for name in names}
