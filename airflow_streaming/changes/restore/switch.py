"""
The steps by which a stream switches to another checkpoint.

The change is recorded first, and a new deployment makes the switch: a task killed in between leaves
the stream on its old checkpoint, and a repetition continues. A stream that should run, or whose
driver is not proved dead, is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from airflow_streaming.checkpoints.backup.live_copy import with_only_query
from airflow_streaming.checkpoints.backup.recorded_sinks import known_logs, known_sinks
from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.reader import Reader, query_folders
from airflow_streaming.checkpoints.restore.refusal import Circumstances, of_driver
from airflow_streaming.checkpoints.restore.restore import Place
from airflow_streaming.exceptions import AlreadyExists, RecordError, RestoreRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import Launcher, driver_fate
from airflow_streaming.model.names import numbered
from airflow_streaming.model.pipeline.flows import query_of
from airflow_streaming.model.pipeline.program import is_pipeline
from airflow_streaming.model.records.control import (
    Change,
    ChangeEnd,
    ChangeKind,
    ChangeOutcome,
    DesiredState,
    Event,
    EventKind,
)
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import QueryClaim
from airflow_streaming.model.records.upgrade import SinkFacts
from airflow_streaming.model.uris import is_local, join, local_path, to_hadoop
from airflow_streaming.storage.folders import open_folders

log: Final = logging.getLogger(__name__)


def now_in_utc() -> datetime:
    """Return the time of day."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchRequest:
    """
    A requested change.

    :param what: Restore or undo.
    :param checkpoint: URI under which the queries will have their folders.
    :param backup: The backup to restore; empty for an undo.
    :param queries: Folder of each query under ``checkpoint``, by its folder in the backup.
    :param rewinds_sinks: File sinks go back too.
    """

    what: ChangeKind
    checkpoint: str
    reason: str
    backup: str = ""
    queries: Mapping[str, str] | None = None
    rewinds_sinks: bool = False


class Switching:
    """
    Changes one stream's checkpoint on behalf of one task or person.

    :param launcher: How the driver's processes can be seen from here; ``None`` for a task that makes
        no change.
    """

    def __init__(
        self,
        home: StreamHome,
        launcher: Launcher | None,
        *,
        by: str,
        now: Callable[[], datetime] = now_in_utc,
    ) -> None:
        self._home, self._launcher = home, launcher
        self._by, self._now = by, now

    def current(self) -> Deployment:
        """
        Return the deployment whose checkpoint is to be exchanged.

        :raises RestoreRefused: the stream has none.
        """
        current = self._home.newest_deployment()
        if current is None:
            raise RestoreRefused(
                f"Stream {self._home.name!r} has no deployment, so it has no checkpoint to "
                "exchange. Correct its name, or restore to a place of your own."
            )
        return current

    def circumstances(self, unfinished: Change | None = None) -> Circumstances:
        """
        Return the desired state, the driver and the sinks, for the decision whether a change may be made.

        :param unfinished: Another change that prevents this change.
        """
        desired = self._home.desired()
        fate, detail = driver_fate(self._home, self._launcher)
        return Circumstances(
            stream=self._home.name,
            wanted_running=desired is None or desired.state is DesiredState.RUNNING,
            driver=fate,
            driver_detail=detail,
            sinks=self._sinks(),
            pending="" if unfinished is None else words(unfinished),
        )

    def check_stopped(self, unfinished: Change | None = None) -> None:
        """
        Do nothing when the stream is stopped and no other change is unfinished.

        :param unfinished: See ``circumstances``.
        """
        refused = [refusal.message for refusal in of_driver(self.circumstances(unfinished))]
        if refused:
            raise RestoreRefused(" ".join(refused))

    def _sinks(self) -> dict[str, SinkFacts]:
        """Return what each query writes to, as far as drivers have recorded it."""
        current = self._home.newest_deployment()
        if current is None:
            return {}
        try:
            return {facts.query: facts for facts in known_sinks(self._home, current)}
        except RecordError as err:
            log.warning("The sinks of stream %r are unknown: %s", self._home.name, err)
            return {}

    def begin(self, request: SwitchRequest) -> Change:
        """
        Record a change that is about to be made.

        :raises RestoreRefused: another one was begun first.
        """
        current = self.current()
        change = Change(
            number=self._home.next_change(),
            stream=self._home.name,
            what=request.what,
            replaced=current.number,
            deployment=current.number + 1,
            checkpoint=request.checkpoint,
            by=self._by,
            reason=request.reason,
            at=self._now(),
            backup=request.backup,
            queries=dict(request.queries or {}),
            rewinds_sinks=request.rewinds_sinks,
        )
        self._check_none_unfinished()
        try:
            self._home.begin_change(change)
        except AlreadyExists as err:
            raise RestoreRefused(
                f"Another task started a change of the checkpoint of stream {self._home.name!r} at the "
                "same moment. Check that change before you ask again."
            ) from err
        return change

    def is_made(self, change: Change) -> bool:
        """Tell whether the stream has been given the checkpoint of a change."""
        newest = self.current()
        if newest.number < change.deployment:
            return False
        return self._home.deployment(change.deployment).checkpoint == change.checkpoint

    def is_overtaken(self, change: Change) -> bool:
        """Tell whether another deployment was made meanwhile, so that a change cannot be."""
        return self.current().number >= change.deployment and not self.is_made(change)

    def make(
        self,
        change: Change,
        ids: Mapping[str, str | None],
        *,
        backup_before: str = "",
        before_end: Callable[[], None] = lambda: None,
    ) -> Deployment:
        """
        Make the change: from here on the stream's next driver starts on the new checkpoint.

        :param ids: Id of the Spark query in each folder of the new checkpoint.
        :param before_end: Called between the new deployment and the end of the change; repeated by
            the task that finishes a dead task's change.
        :raises RestoreRefused: The stream was started or deployed meanwhile.
        """
        if not self.is_made(change):
            self._check_not_ended(change)
            self.check_stopped()
            self._deploy(change)
        self._claim(change, ids)
        if self._home.change_end(change.number) is None:
            before_end()
        self._end(change, ChangeOutcome.DONE, change.reason, backup_before)
        return self._home.deployment(change.deployment)

    def abandon(self, change: Change, reason: str, note: str = "") -> ChangeOutcome:
        """
        Abandon a change; return how it ended, which is done if it was made already.

        :param note: Further text for the timeline.
        """
        outcome = ChangeOutcome.DONE if self.is_made(change) else ChangeOutcome.ABANDONED
        return self._end(change, outcome, reason, "", note)

    def _check_none_unfinished(self) -> None:
        unfinished = self._home.unfinished_change()
        if unfinished is not None:
            raise RestoreRefused(
                f"Stream {self._home.name!r} has an unfinished change: {words(unfinished)} Ask for "
                "the same again to finish it, or give it up."
            )

    def _check_not_ended(self, change: Change) -> None:
        end = self._home.change_end(change.number)
        if end is not None or self.is_overtaken(change):
            why = end.reason if end is not None else "Another task created a deployment."
            self._end(change, ChangeOutcome.ABANDONED, why, "")
            raise RestoreRefused(
                f"Change {change.number} of stream {self._home.name!r} was aborted: {why} The stream "
                "stays on its present checkpoint."
            )

    def _deploy(self, change: Change) -> None:
        replaced = self._home.deployment(change.replaced)
        deployment = replace(
            replaced,
            number=change.deployment,
            checkpoint=change.checkpoint,
            created_at=self._now(),
            created_by=self._by,
        )
        try:
            self._home.create_deployment(deployment, self._home.application(replaced.number))
        except AlreadyExists:
            self._check_not_ended(change)

    def _claim(self, change: Change, ids: Mapping[str, str | None]) -> None:
        epoch = self._home.newest_epoch()
        for folder, query_id in ids.items():
            if folder and query_id:
                before = self._home.claim_of(query_id)
                claim = QueryClaim(
                    query=query_of(folder),
                    query_id=query_id,
                    checkpoint=location(join(change.checkpoint, folder)),
                    epoch=epoch.number if epoch else 0,
                    batch_shift=before.batch_shift if before else 0,
                    counts_from=before.counts_from if before else None,
                )
                self._home.add_claim(change.deployment, claim)

    def _end(
        self,
        change: Change,
        outcome: ChangeOutcome,
        reason: str,
        backup_before: str,
        note: str = "",
    ) -> ChangeOutcome:
        end = ChangeEnd(
            number=change.number,
            outcome=outcome,
            by=self._by,
            reason=reason,
            at=self._now(),
            backup_before=backup_before,
        )
        if self._home.change_end(change.number) is None:
            self._home.end_change(end)
            self._tell(change, outcome, note)
        return outcome

    def _tell(self, change: Change, outcome: ChangeOutcome, note: str) -> None:
        message = f"Change {change.number} {outcome}: {words(change)} {note}".rstrip()
        log.info("%s", message)
        self._home.add_event(
            Event(
                event=EventKind.CHECKPOINT_CHANGED,
                at=self._now(),
                by=self._by,
                message=message,
                facts={"backup": change.backup, "checkpoint": change.checkpoint},
            )
        )


def words(change: Change) -> str:
    """Return the effect of a change, in a sentence."""
    if change.what is ChangeKind.UPGRADE:
        return f"upgrading to deployment {change.deployment}, started by {change.by}."
    if change.what is ChangeKind.REMOVE:
        return f"the stream was removed by {change.by}."
    if change.what is ChangeKind.CUTOVER:
        return f"cutting over, started by {change.by}."
    if change.what is ChangeKind.UNDO:
        return f"going back to checkpoint {change.checkpoint}, started by {change.by}."
    return f"restoring backup {change.backup} to {change.checkpoint}, started by {change.by}."


def location(uri: str) -> str:
    """Return a checkpoint's qualified location, as a driver's claim names it."""
    return f"file:{local_path(uri)}" if is_local(uri) else to_hadoop(uri)


def beside(home: StreamHome, current: Deployment, change: int, *, kind: str = "restored") -> str:
    """
    Return where a change puts its checkpoints: beside the present ones, under its own number.

    No deployment is ever given such a place automatically, and no two changes have the same.

    :param kind: Begin of the folder's name.
    """
    parent = current.checkpoint.rpartition("/")[0]
    own = join(home.store.uri, home.name, "checkpoints")
    name = f"{kind}-{numbered(change)}"
    return join(own, name) if parent == own else f"{current.checkpoint}.{name}"


def place_of(
    home: StreamHome,
    backup: Backup,
    known: Circumstances,
    current: Deployment,
    to: str,
    sink_logs: Mapping[str, str] | None,
    storage_options: Mapping[str, Any] | None,
) -> Place:
    """
    Return the targets of a backup's queries, the replaced checkpoints, and their sinks.

    :param sink_logs: Logs of file sinks by query; they override the recorded ones and the backup's.
    :raises RestoreRefused: The backup has a single checkpoint, which may belong to several queries.
    """
    folders = _folders(backup, known)
    names = {folder: name for name, folder in folders.items()}
    if is_pipeline(current.application):
        folders = _flow_folders(home, current, backup)
    logs = {query.folder: query.sink_log for query in backup.queries if query.sink_log}
    for query, uri in known_logs(home, current).items():
        if query in names and (uri or names[query] not in logs):
            logs[names[query]] = uri
    given = with_only_query(sink_logs or {}, [query.folder for query in backup.queries])
    logs |= {names.get(query, query): uri for query, uri in given.items()}
    return Place(
        to=to,
        storage_options=storage_options,
        folders=folders,
        current={name: join(current.checkpoint, folder) for name, folder in folders.items()},
        sink_logs=logs,
    )


def _folders(backup: Backup, known: Circumstances) -> dict[str, str]:
    names = [query.folder for query in backup.queries]
    if names != [""]:
        return {name: name for name in names}
    if len(known.claims) != 1:
        raise RestoreRefused(
            f"Backup {backup.id} is of one checkpoint without a query's name, and stream "
            f"{known.stream!r} has {len(known.claims)} queries. Restore it to a place of its own."
        )
    return {"": next(iter(known.claims))}


def _flow_folders(home: StreamHome, current: Deployment, backup: Backup) -> dict[str, str]:
    """Return the folder in which a pipeline looks for each flow of a backup."""
    below = location(current.checkpoint) + "/"
    places = {
        claim.query: claim.checkpoint.removeprefix(below)
        for claim in _claims(home, current)
        if claim.checkpoint.startswith(below)
    }
    names = [query.folder for query in backup.queries]
    if unknown := sorted(set(names) - set(places)):
        raise RestoreRefused(
            f"Backup {backup.id} has {', '.join(map(repr, unknown))}, and the pipeline of stream {home.name!r} runs no "
            "such flow: Spark would not find its checkpoint. Choose a backup of the present flows."
        )
    return {name: places[name] for name in names}


def with_claims(known: Circumstances, home: StreamHome, current: Deployment) -> Circumstances:
    """
    Add the home's facts on the queries of the present checkpoints.

    :raises RecordError: A claim cannot be read.
    """
    claims: dict[str, str] = {}
    elsewhere: dict[str, str] = {}
    below = location(current.checkpoint) + "/"
    for claim in _claims(home, current):
        if claim.checkpoint.startswith(below):
            claims[query_of(claim.checkpoint.removeprefix(below))] = claim.query_id
            elsewhere.pop(claim.query, None)
        else:
            elsewhere[claim.query] = claim.checkpoint
    newest = (home.claim_of(query_id) for query_id in claims.values())
    return replace(
        known,
        claims=claims,
        own_locations=elsewhere,
        runtime=current.spark_version,
        counts_from={
            claim.query_id: claim.counts_from
            for claim in newest
            if claim is not None and claim.counts_from is not None
        },
    )


def checkpoints_at(
    uri: str, storage_options: Mapping[str, Any] | None = None
) -> dict[str, str | None]:
    """
    Return the id of the query in each folder of a stream's checkpoints.

    :raises RestoreRefused: One of them is not sound.
    """
    folders = open_folders(uri, storage_options)
    found: dict[str, str | None] = {}
    for name in query_folders(folders):
        report = Reader(folders.below(name)).inspect()
        if report.problems:
            raise RestoreRefused(
                f"{report.uri} is damaged: {report.problems[0].message} Nothing was changed."
            )
        found[name] = report.query_id
    return found


def _claims(home: StreamHome, current: Deployment) -> Iterator[QueryClaim]:
    """Return the claims of all deployments that share the present checkpoint, oldest first."""
    for number in range(1, current.number + 1):
        if home.deployment(number).checkpoint == current.checkpoint:
            yield from home.claims(number)
