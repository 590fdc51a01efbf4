"""
Remove old things of a stream that are not needed; see ``changes.pruning``.

A killed run, or a second run at the same time, does no harm: the next one continues. The removal of
a checkpoint or an output is recorded before its first file is deleted, and then the run checks
whether a change was opened meanwhile; a change that returns to an old checkpoint looks for that
record after it was opened. Of an epoch the record is deleted first: its other files are found again
by their folder.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from airflow_streaming.changes.pruning.decide import (
    FOLDER_OF,
    LaneFacts,
    Pruned,
    PruneItem,
    PrunePlan,
    Removed,
    decide_pruning,
    epochs_that_stay,
)
from airflow_streaming.changes.pruning.observe import (
    BackedUp,
    look_at_lanes,
    no_backups,
    open_change_of,
    used_by_others,
)
from airflow_streaming.exceptions import SpecError, StreamingError
from airflow_streaming.home.home import Home
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.model.arguments.keeping import PrunePolicy
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.names import Layout, base_of, number_of, other_lane
from airflow_streaming.model.records.control import (
    Event,
    EventKind,
    Removal,
    RemovalEnd,
    RemovalKind,
)
from airflow_streaming.model.records.epoch import Epoch
from airflow_streaming.model.uris import digest_of
from airflow_streaming.storage.blobs import Blobs

log: Final = logging.getLogger(__name__)
_CLOCK: Final = "_store/prune-clock.json"
"""Written to learn the time by the store's clock."""
_LOG: Final = re.compile(r"([0-9]+)\.log(?:[.-][0-9]{1,14}|\.part)?(?:\.(?:gz|bz2|xz|zst))?")
"""A driver's log, or a rotated one: ``000017.log.1``, ``000017.log-20260301.gz``."""
_WHOLE: Final = frozenset({RemovalKind.CHECKPOINT, RemovalKind.OUTPUT})


def prune(
    home: Home,
    blobs: Blobs,
    stream: str,
    policy: PrunePolicy,
    *,
    by: str,
    reason: str = "",
    dry_run: bool = False,
    driver_folder: Path | None = None,
    backed_up: BackedUp = no_backups,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Pruned:
    """
    Remove a stream's old things that are not needed, in both lanes.

    :param stream: Its name, or either lane's.
    :param by: The user, for the records.
    :param driver_folder: This host's folder of driver logs; ``None`` leaves them.
    :param backed_up: Returns the deployments named in backups; it matters for outputs.
    :param clock: The time of day; the store's own counts when it is behind that.
    :raises SpecError: The home has no such stream.
    :raises RecordError: A record of needed things cannot be read; no file was removed.
    :raises HomeUnavailable: The home cannot be read; the next run finishes this one.
    """
    lanes = look_at_lanes(home, blobs, stream, backed_up)
    if not lanes:
        raise SpecError(home.why_unknown(stream))
    now = clock() if dry_run else _earlier(clock(), blobs)
    used, unread = used_by_others(home, stream)
    plan = decide_pruning(lanes, used, policy, now)
    seen = {lane.lane: lane.deployments[-1].number for lane in lanes if lane.deployments}
    run = _Run(home=home, blobs=blobs, by=by, now=now, dry_run=dry_run, seen=seen)
    removed, lost = run.remove_all(plan.remove, are_others_known=not unread)
    if not plan.blocked and not dry_run:
        run.end_removals(stream)
    if driver_folder is not None and not plan.blocked:
        logs = driver_folder / digest_of(home.store.uri)
        removed += _logs(lanes, logs, plan, policy, now, dry_run=dry_run)
    problems = (*(problem for lane in lanes for problem in lane.problems), *unread, *lost)
    result = Pruned(stream=base_of(stream), plan=plan, removed=tuple(removed), problems=problems)
    if removed and not dry_run:
        _tell(home, result, by, reason, now)
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """
    A run.

    :param seen: The newest deployment of each lane in the plan.
    """

    home: Home
    blobs: Blobs
    by: str
    now: datetime
    dry_run: bool
    seen: Mapping[str, int]

    def remove_all(
        self, items: Iterable[PruneItem], *, are_others_known: bool
    ) -> tuple[list[Removed], list[str]]:
        """
        Return the removed things, and why the others were left, a sentence each.

        :param are_others_known: The use by other streams was read.
        """
        removed, problems = list[Removed](), list[str]()
        for item in items:
            what = f"{item.lane}: {item.what} {item.name}"
            if not are_others_known and item.what in _WHOLE:
                problems.append(f"{what} stays: it is not known whether another stream uses it.")
                continue
            try:
                done = self.remove(item)
            except StreamingError as err:
                problems.append(f"{what} was not removed whole: {err}")
                continue
            removed += [done] if done is not None else []
        return removed, problems

    def remove(self, item: PruneItem) -> Removed | None:
        """Remove one thing; ``None`` when a change or a deployment was begun meanwhile."""
        if item.what in _WHOLE:
            return self._remove_folder(item)
        layout = Layout(item.lane)
        if item.what is RemovalKind.EPOCH:
            number = int(item.name)
            folder = layout.epoch(number, "").rstrip("/")
            found = list(_files(self.blobs, folder))
            if not self.dry_run:
                # Files without their record are found by the folder; a record without the proof
                # that its driver ended would stay for ever.
                self.blobs.delete(layout.place(Epoch, number=number))
                self.blobs.delete_tree(folder)
            return _removed(item, [*found, 0])
        sizes = [self.blobs.size(path) or 0 for path in item.paths] if self.dry_run else []
        for path in () if self.dry_run else item.paths:
            sizes.append(self.blobs.size(path) or 0)
            self.blobs.delete(path)
        return _removed(item, sizes)

    def _remove_folder(self, item: PruneItem) -> Removed | None:
        folder = f"{Layout(item.lane).folder(FOLDER_OF[item.what])}/{item.name}"
        found = list(_files(self.blobs, folder))
        if self.dry_run:
            return _removed(item, found) if found else None
        lane = self.home.stream(item.lane)
        mark = lane.record_removal(
            Removal(
                number=0,
                stream=item.lane,
                what=item.what,
                name=item.name,
                reason=item.reason,
                by=self.by,
                at=self.now,
            )
        )
        if self._is_changing(item.lane):
            log.info("%s of %s stays: a change or a deployment was begun.", item.name, item.lane)
            return None
        self.blobs.delete_tree(folder)
        end = RemovalEnd(
            number=mark.number, files=len(found), size=sum(found), by=self.by, at=self.now
        )
        lane.end_removal(end)
        # An object store may continue listing a folder that has no file any more.
        return _removed(item, found) if found else None

    def end_removals(self, stream: str) -> None:
        """End the removals whose last file went in a run that was killed before it said so."""
        for name in (base_of(stream), other_lane(base_of(stream))):
            lane = self.home.stream(name)
            for one in lane.removals():
                folder = f"{Layout(name).folder(FOLDER_OF[one.what])}/{one.name}"
                is_left = lane.removal_end(one.number) is None
                if is_left and not any(True for _ in _files(self.blobs, folder)):
                    lane.end_removal(
                        RemovalEnd(number=one.number, files=0, size=0, by=self.by, at=self.now)
                    )

    def _is_changing(self, lane: str) -> bool:
        lanes = [self.home.stream(name) for name in (base_of(lane), other_lane(base_of(lane)))]
        if any(open_change_of(one) for one in lanes):
            return True
        # A deployment that the plan does not know may name the folder: a dag may go back to it.
        return any(
            max(one.deployment_numbers(), default=0) != self.seen.get(one.name, 0) for one in lanes
        )


def _removed(item: PruneItem, sizes: list[int]) -> Removed:
    return Removed(
        what=item.what,
        lane=item.lane,
        name=item.name,
        reason=item.reason,
        files=len(sizes),
        size=sum(sizes),
    )


def _files(blobs: Blobs, folder: str) -> Iterator[int]:
    """Yield the size of every file below a folder."""
    for entry in blobs.entries(folder):
        if entry.is_folder:
            yield from _files(blobs, f"{folder}/{entry.name}")
        else:
            yield entry.size


def _logs(
    lanes: list[LaneFacts],
    folder: Path,
    plan: PrunePlan,
    policy: PrunePolicy,
    now: datetime,
    *,
    dry_run: bool,
) -> Iterator[Removed]:
    before = now - plan.period
    for lane in lanes:
        stays = epochs_that_stay(lane, before, policy)
        newest = lane.epochs[-1].number if lane.epochs else 0
        for number, file in _log_files(folder / lane.lane):
            if number in stays or number >= newest:
                continue
            size = _remove_log(file, before, dry_run=dry_run)
            if size is not None:
                yield Removed(
                    what=RemovalKind.DRIVER_LOG,
                    lane=lane.lane,
                    name=file.name,
                    reason="older than the period",
                    files=1,
                    size=size,
                )


def _log_files(folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield the logs of a lane's drivers on this host, each with the number of its epoch."""
    if folder.is_symlink():
        log.warning("%s is a link; the logs behind it stay.", folder)
        return
    try:
        files = sorted(folder.glob("*.log*"))
    except OSError as err:
        log.warning("The driver logs in %s cannot be listed: %s", folder, err)
        return
    for file in files:
        named = _LOG.fullmatch(file.name)
        number = number_of(f"{named[1]}.json") if named else None
        if number is not None and not file.is_symlink():
            yield number, file


def _remove_log(file: Path, before: datetime, *, dry_run: bool) -> int | None:
    """Remove a log that was last written before a moment; return its size, ``None`` when it stays."""
    try:
        found = file.stat()
        if datetime.fromtimestamp(found.st_mtime, UTC) > before:
            return None
        if not dry_run:
            file.unlink(missing_ok=True)
    except OSError as err:
        log.warning("Driver log %s stays: %s", file, err)
        return None
    return found.st_size


def _earlier(now: datetime, blobs: Blobs) -> datetime:
    blobs.put(_CLOCK, now.isoformat().encode())
    name = _CLOCK.rpartition("/")[2]
    stored = [one.modified for one in blobs.entries("_store") if one.name == name]
    return min([now, *(moment for moment in stored if moment is not None)])


def _tell(home: Home, done: Pruned, by: str, reason: str, now: datetime) -> None:
    counts: dict[str, int] = {}
    for one in done.removed:
        counts[one.what.value] = counts.get(one.what.value, 0) + 1
    text = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    lane = home.stream(live_lane(home, done.stream))
    why = f" {reason}" if reason else ""
    lane.add_event(
        Event(
            event=EventKind.PRUNED,
            at=now,
            by=by,
            message=(
                f"Removed old things ({duration_text(done.plan.period)} or older) that are not "
                f"needed: {text}; {done.files} files, {done.size} bytes.{why}"
            ),
            facts={**{what: str(count) for what, count in counts.items()}, "bytes": str(done.size)},
        )
    )
