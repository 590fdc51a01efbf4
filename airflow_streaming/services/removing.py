"""
Removes a whole stream: both lanes, their standby drivers, checkpoints and outputs in the home.

The removal is a change of the stream that stays open. While it is open nothing can begin another change,
deploy, take an epoch or want the stream running, so no task, trigger or command brings the stream back. A
task that took an epoch at the same moment is seen: the removal takes the next epoch of every folder as a
fence, and the removal ends when another driver has it. A run may be killed on any line; the next run
continues.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from airflow_streaming.changes.pruning.observe import real, used_by_others
from airflow_streaming.changes.removal import (
    ENDED,
    EPOCHS,
    OUTPUT,
    LaneFolder,
    RemovalFacts,
    going,
    refusals,
    strangers,
)
from airflow_streaming.checkpoints.backup.stream_backup import BackupRequest, Open, backup_before
from airflow_streaming.checkpoints.progress import Progress, no_progress
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.checkpoints.vault.verify import verify
from airflow_streaming.exceptions import AlreadyExists, RemovalRefused
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.launch.port import Launcher, driver_fate
from airflow_streaming.model.arguments.choices import Level, Origin
from airflow_streaming.model.names import base_of, folders_of, other_lane
from airflow_streaming.model.observation import DriverLiveness
from airflow_streaming.model.records.control import (
    Change,
    ChangeEnd,
    ChangeKind,
    ChangeOutcome,
    DesiredState,
    Event,
    EventKind,
)
from airflow_streaming.model.records.epoch import LaunchCause
from airflow_streaming.model.uris import join, overlap
from airflow_streaming.services.fleet_index import note_act
from airflow_streaming.services.streams import recorded, start
from airflow_streaming.storage.blobs import SYMBOLIC_LINK, Blobs, Stored
from airflow_streaming.storage.folders import open_folders
from airflow_streaming.supervision.actions import StreamActions

log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalRequest:
    """
    Parameters of a removal.

    :param released_by: The DAG that no longer keeps the stream, by the word of the user.
    :param keep_output: Leave the outputs in the home where they are.
    :param open_folders: Opens the checkpoints and outputs for the backup.
    """

    by: str
    reason: str
    released_by: str = ""
    keep_output: bool = False
    dry_run: bool = False
    progress: Progress = no_progress
    open_folders: Open = open_folders


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedStream:
    """
    Result of a removal, or of its dry run.

    :param change: The removal; ``None`` in a dry run.
    :param backups: Ids of the verified backups taken for it.
    :param refusals: Of a dry run: the reasons for a refusal.
    :param removed: Paths in the home.
    :param kept: Outputs that were kept, places outside of the home, and files of other programs.
    """

    stream: str
    change: Change | None = None
    backups: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = field(default=())


def remove_stream(
    home: Home,
    blobs: Blobs,
    name: str,
    store: BackupStore | None,
    launcher: Launcher,
    request: RemovalRequest,
) -> RemovedStream:
    """
    Remove a stream, or finish its removal.

    :param name: Of the stream, or of either lane.
    :param store: Takes the backup; ``None`` only in a dry run.
    :param launcher: How drivers can be seen from here.
    :raises RemovalRefused: it cannot be removed now; nothing was removed.
    :raises CheckpointError: it could not be backed up, or the backup is not sound; nothing was removed.
    """
    work = _Work(home, blobs, base_of(name), launcher, request)
    change = work.base.removal()
    if change is None:
        if not work.lanes():
            raise RemovalRefused(home.why_unknown(name))
        facts = work.facts(store.uri if store is not None else "")
        found = tuple(refusals(facts))
        if request.dry_run:
            return work.result(None, work.going(), refused=found)
        if found:
            raise RemovalRefused(" ".join([f"Stream {name!r} is not removed.", *found]))
        change = work.begin(store)
    elif request.dry_run:
        return work.result(change, work.going())
    note_act(work.base)
    work.fence(change)
    return work.result(change, work.delete())


def free_name(home: Home, name: str, *, by: str, reason: str) -> Change:
    """
    Let a new stream have the name of a removed one; its numbers continue.

    :return: The removal that has ended.
    :raises RemovalRefused: the stream was not removed, or its removal is not finished.
    """
    base = home.stream(base_of(name))
    change = base.removal()
    if change is None:
        raise RemovalRefused(f"Stream {base.name!r} was not removed, so its name is not blocked.")
    left = [one for one in folders_of(base.name) if "deployments" in home.store.names(one)]
    if left:
        raise RemovalRefused(
            f"The removal of {base.name!r} is not finished: {', '.join(left)} still has deployments. Finish it: "
            f"airflow-streaming remove {base.name} --reason TEXT."
        )
    base.end_change(
        ChangeEnd(
            number=change.number,
            outcome=ChangeOutcome.DONE,
            by=by,
            reason=reason,
            at=datetime.now(UTC),
            backup_before=change.backup,
        )
    )
    with recorded(f"The name {base.name} is free."):
        start(home.stream(live_lane(home, base.name)), by=by, reason=reason)
        _tell(base, by, f"The name is free for a new stream: {reason}")
    return change


class _Work:
    """A run of a removal."""

    def __init__(
        self, home: Home, blobs: Blobs, name: str, launcher: Launcher, request: RemovalRequest
    ) -> None:
        self._home, self._blobs, self._launcher, self._request = home, blobs, launcher, request
        self.base = home.stream(name)
        self._outside = sorted(set(self._places_outside()))

    def lanes(self) -> list[StreamHome]:
        """Return the lanes that have a deployment."""
        both = (self.base, self.base.beside(other_lane(self.base.name)))
        return [lane for lane in both if lane.deployment_numbers()]

    def facts(self, store: str) -> RemovalFacts:
        owner = self.base.owner()
        desired = self._home.stream(live_lane(self._home, self.base.name)).desired()
        used, unread = used_by_others(self._home, self.base.name)
        folders, going = tuple(self._folders()), self.going()
        linked = {f"{folder.name}/{link}" for folder in folders for link in folder.links}
        changes = (lane.unfinished_change() for lane in self.lanes())
        return RemovalFacts(
            stream=self.base.name,
            folders=folders,
            is_stopped=desired is not None and desired.state is DesiredState.STOPPED,
            change=next((one for one in changes if one is not None), None),
            dag=owner.dag_id if owner is not None else "",
            has_released=owner is not None and owner.dag_id == self._request.released_by,
            places=tuple(
                real(join(self._home.store.uri, path))
                for path in going
                if not path.partition("/")[2].startswith(EPOCHS)
            ),
            links=tuple(path for path in going if path in linked),
            used=tuple(filter(None, (*used, store))),
            unread=tuple(unread),
        )

    def begin(self, store: BackupStore | None) -> Change:
        """Back up the checkpoints, and record the removal."""
        if store is None:
            raise RemovalRefused("A removal needs a store for its backup. Nothing was removed.")
        before = self._newest()
        backups = [one for lane in self.lanes() if (one := self._back_up(lane, store))]
        if self._newest() != before:
            raise RemovalRefused(
                f"A driver of {self.base.name!r} was started while it was backed up. Nothing was removed."
            )
        deployments = [max(lane.deployment_numbers()) for lane in self.lanes()]
        change = Change(
            number=self.base.next_change(),
            stream=self.base.name,
            what=ChangeKind.REMOVE,
            replaced=max(deployments),
            deployment=max(deployments),
            checkpoint="",
            by=self._request.by,
            reason=self._request.reason,
            at=datetime.now(UTC),
            backup=", ".join(backups),
            store=store.uri if backups else "",
        )
        try:
            self.base.begin_change(change)
        except AlreadyExists as err:
            raise RemovalRefused(
                f"Another change of {self.base.name!r} was begun at the same moment. Nothing was removed."
            ) from err
        owner = self.base.owner()
        _tell(
            self.base,
            self._request.by,
            f"Removed: {self._request.reason}",
            backup=change.backup,
            store=change.store,
            dag=owner.dag_id if owner is not None else "",
        )
        return change

    def _back_up(self, lane: StreamHome, store: BackupStore) -> str:
        request = self._request
        asked = BackupRequest(
            origin=Origin.MANUAL,
            by=request.by,
            note=f"Before the removal of the stream: {request.reason}",
            open_folders=request.open_folders,
            progress=request.progress,
        )
        backup = backup_before(lane, store, asked)
        if not backup:
            return ""
        found = verify(
            store,
            backup,
            Level.FULL,
            by=request.by,
            now=datetime.now(UTC),
            stream=lane.name,
        )
        if found.problems:
            raise RemovalRefused(
                f"Backup {backup} of {lane.name!r} is not sound: {found.problems[0]} Nothing was removed."
            )
        return backup

    def _newest(self) -> list[int]:
        return [max(self._home.stream(one).epoch_numbers(), default=0) for one in self._names()]

    def fence(self, change: Change) -> None:
        """
        Take the next epoch of every folder, so that a driver of an older one ends.

        :raises RemovalRefused: A driver was started at the same moment. The removal is abandoned.
        """
        for folder in map(self._home.stream, self._names()):
            actions = StreamActions(folder, self._launcher, by=self._request.by)
            before = folder.newest_epoch()
            if before is not None and before.cause is LaunchCause.FENCE:
                actions.finish_fence(before)
            fate, evidence = self._fate(folder)
            if fate in ENDED:
                # A fence of an earlier change does not do: a task may be about to take the number after it.
                actions.fence(
                    before,
                    "The stream was removed.",
                    change=change.number,
                    deployment=change.deployment,
                )
                newest = folder.newest_epoch()
                if newest is not None and newest.cause is LaunchCause.FENCE:
                    continue
                evidence = "another task took the next epoch."
            raise self._given_up(change, folder.name, evidence)

    def _given_up(self, change: Change, folder: str, evidence: str) -> RemovalRefused:
        reason = f"A driver of {folder} was started at the same moment: {evidence}"
        if "deployments" not in self._home.store.names(self.base.name):
            return RemovalRefused(
                f"{reason} The removal stays open. Kill that driver and remove the stream again."
            )
        self.base.end_change(
            ChangeEnd(
                number=change.number,
                outcome=ChangeOutcome.ABANDONED,
                by=self._request.by,
                reason=reason,
                at=datetime.now(UTC),
            )
        )
        _tell(self.base, self._request.by, f"The removal was abandoned. {reason}")
        return RemovalRefused(f"{reason} Nothing was removed. Stop the stream and try again.")

    def going(self) -> list[str]:
        """Return the paths in the home to delete."""
        return [
            f"{folder.name}/{path}"
            for folder in self._folders()
            for path in going(folder, keep_output=self._request.keep_output)
        ]

    def delete(self) -> list[str]:
        """Delete the paths of the stream and return them."""
        removed = self.going()
        for path in removed:
            if path.endswith(".json"):
                self._blobs.delete(path)
            else:
                self._blobs.delete_tree(path)
        return removed

    def result(
        self, change: Change | None, removed: list[str], *, refused: tuple[str, ...] = ()
    ) -> RemovedStream:
        return RemovedStream(
            stream=self.base.name,
            change=change,
            backups=tuple(filter(None, change.backup.split(", "))) if change is not None else (),
            refusals=refused,
            removed=tuple(removed),
            kept=(*self._kept_places(), *self._outside),
        )

    def _kept_places(self) -> Iterator[str]:
        for folder in self._folders():
            if self._request.keep_output and OUTPUT in folder.names:
                yield f"{folder.name}/{OUTPUT}"
            yield from (f"{folder.name}/{one}" for one in strangers(folder))

    def _places_outside(self) -> Iterator[str]:
        for lane in self.lanes():
            own = join(self._home.store.uri, lane.name)
            for number in lane.deployment_numbers():
                deployment = lane.deployment(number)
                yield from (
                    one
                    for one in (deployment.checkpoint, deployment.output)
                    if one and not overlap(real(one), real(own))
                )

    def _folders(self) -> Iterator[LaneFolder]:
        for name in self._names():
            folder = self._home.stream(name)
            fate, evidence = self._fate(folder)
            names, epochs = self._blobs.entries(name), self._blobs.entries(f"{name}/{EPOCHS}")
            yield LaneFolder(
                name=name,
                fate=fate,
                evidence=evidence,
                newest=max(folder.epoch_numbers(), default=0),
                names=tuple(one.name for one in names),
                epochs=tuple(one.name for one in epochs),
                links=(*_links(names), *(f"{EPOCHS}/{one}" for one in _links(epochs))),
            )

    def _fate(self, folder: StreamHome) -> tuple[DriverLiveness, str]:
        """Return the state of the newest driver of a folder, of a promoted standby as the lane knows it."""
        waiting = folder.newest_epoch()
        if waiting is not None and waiting.serves:
            lane = folder.beside(waiting.serves)
            numbers = lane.epoch_numbers()
            for number in reversed(numbers):
                if lane.epoch(number).token == waiting.token:
                    if number == numbers[-1]:
                        return driver_fate(lane, self._launcher)
                    return DriverLiveness.DEAD, "a later epoch was begun"
        return driver_fate(folder, self._launcher)

    def _names(self) -> list[str]:
        return [one for one in folders_of(self.base.name) if self._home.store.names(one)]


def _links(entries: Sequence[Stored]) -> list[str]:
    return [one.name for one in entries if one.strange == SYMBOLIC_LINK]


def _tell(home: StreamHome, by: str, message: str, **facts: str) -> None:
    log.info("%s: %s", home.name, message)
    home.add_event(
        Event(event=EventKind.REMOVED, at=datetime.now(UTC), by=by, message=message, facts=facts)
    )
