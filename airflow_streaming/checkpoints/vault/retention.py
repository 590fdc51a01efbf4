"""
Apply a retention policy: delete manifests now, and unreferenced objects in a later run.

A backup is gone when its manifest is. Other backups may share its objects;
``checkpoint.collecting`` deletes the unshared ones. A killed run is finished by the next one.
Backups for a change stay until the change has ended (``retention_policy.ForChange``). Before any
deletion, a quick verification checks the backups that stay: an unusable backup takes no slot from a
usable one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from airflow_streaming.checkpoints.backup.records import (
    Backup,
    UnreadableVerification,
    Verification,
)
from airflow_streaming.checkpoints.progress import Phase, Progress, ProgressNow, no_progress
from airflow_streaming.checkpoints.vault.backup_trust import unreadable
from airflow_streaming.checkpoints.vault.garbage_collection import (
    GRACE,
    GarbageCollector,
    is_writing,
)
from airflow_streaming.checkpoints.vault.holds import Held
from airflow_streaming.checkpoints.vault.manifests import stored_sizes
from airflow_streaming.checkpoints.vault.retention_policy import (
    ChangeStanding,
    ForChange,
    RetentionPlan,
    changes_of,
    plan_retention,
    spare,
)
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.checkpoints.vault.verify import Examination
from airflow_streaming.exceptions import StreamingError
from airflow_streaming.home.home import Home, open_home
from airflow_streaming.model.arguments.choices import Level
from airflow_streaming.model.arguments.keeping import RetentionPolicy

log: Final = logging.getLogger(__name__)
HomeOpener = Callable[[str], Home]
"""Opens the home under a URI for reading, with the credentials for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """
    The result of a retention run, or of a dry run.

    :param plan: The backups that stay, with every reason, and the backups to remove.
    :param removed: Ids of the removed backups; in a dry run, of the backups to remove.
    :param held: Ids of backups that were left because a process reads them now.
    :param doomed: Number of objects listed for deletion by a later run.
    :param deleted: Number of objects deleted; ``deleted_size`` is their bytes.
    :param waiting: Number of doomed objects that a later run deletes.
    :param problems: Reasons why objects or backups were left, one sentence each.
    """

    plan: RetentionPlan
    removed: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    doomed: int = 0
    deleted: int = 0
    deleted_size: int = 0
    waiting: int = 0
    problems: tuple[str, ...] = ()


def apply_retention(
    store: BackupStore,
    stream: str,
    policy: RetentionPolicy,
    *,
    by: str,
    dry_run: bool = False,
    grace: timedelta = GRACE,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    progress: Progress = no_progress,
    homes: HomeOpener = open_home,
) -> Retained:
    """
    Remove a stream's backups that the policy does not keep, and collect unreferenced objects.

    :param by: The user, for the records.
    :param grace: See ``GRACE``; measured by the store's clock.
    :param clock: The time of day; the store's own counts when it is behind that.
    :param homes: Opens the home of a change that a backup was taken for; by default with the
        credentials of the environment.
    :raises HomeUnavailable: the store cannot be reached; the next run continues from there.
    """
    now = clock()
    # Reading the store's clock writes into the store, which a dry run must not do.
    told = now if dry_run else store.clock()
    collector = GarbageCollector(
        store=store, stream=stream, by=by, now=now, stored=told, progress=progress
    )
    plan, unusable = _plan(store, stream, policy, now if told is None else min(now, told), by)
    # In this order: the change of a listed backup was opened before the listing.
    plan = spare(plan, {one: standing_of(one, stream, homes) for one in changes_of(plan.remove)})
    go, held = _choose(plan, collector.living())
    if dry_run:
        return Retained(plan=plan, removed=go, held=held, problems=unusable)
    _remove(store, stream, go, progress)
    collected = collector.collect(grace)
    doomed, why_not = collector.doom()
    collector.sweep()
    return Retained(
        plan=plan,
        removed=go,
        held=held,
        doomed=doomed,
        deleted=collected.objects,
        deleted_size=collected.size,
        waiting=collected.waiting + doomed,
        problems=(*unusable, *filter(None, (*collected.problems, why_not))),
    )


def _plan(
    store: BackupStore, stream: str, policy: RetentionPolicy, now: datetime, by: str
) -> tuple[RetentionPlan, tuple[str, ...]]:
    """Return the plan, and the problems of backups that would have been relied on."""
    backups = store.backups(stream)
    of_each = [store.verifications(backup.id, stream) for backup in backups]
    said = [word for words in of_each for word in words]
    lost = tuple(_advice(word) for words in of_each for word in unreadable(words))
    there = stored_sizes(store.blobs, stream)
    checked: dict[str, tuple[str, ...]] = {}
    while True:
        plan = plan_retention(backups, said, policy, now)
        # Check every backup that would replace a removed one.
        new = [kept.backup for kept in plan.keep if kept.backup.id not in checked]
        if not new or not plan.remove:
            return plan, (*lost, *(problem for found in checked.values() for problem in found))
        for backup in new:
            checked[backup.id] = problems_of(store, backup, there)
            if checked[backup.id]:
                log.warning("Backup %s counts for nothing: %s", backup.id, checked[backup.id][0])
                said.append(_damaged(backup, checked[backup.id], now, by))


def _advice(word: UnreadableVerification) -> str:
    return (
        f"{word.problem} The result of this verification is unknown. Verify backup {word.backup} "
        "in full; until then retention keeps it."
    )


def problems_of(
    store: BackupStore, backup: Backup, there: Mapping[str, int] | None = None
) -> tuple[str, ...]:
    """Return the problems that a quick verification finds in a backup."""
    found = Examination(store, backup, thorough=False, progress=None, there=there).run()
    if len(found.problems) > 1:
        return (f"{found.problems[0]} There are {len(found.problems) - 1} more problems.",)
    return tuple(found.problems)


def _damaged(backup: Backup, problems: tuple[str, ...], now: datetime, by: str) -> Verification:
    return Verification(
        backup=backup.id, level=Level.QUICK, verified_at=now, by=by, problems=problems
    )


def standing_of(change: ForChange, stream: str, homes: HomeOpener) -> ChangeStanding:
    try:
        end = homes(change.home).stream(stream).change_end(int(change.number))
    except (StreamingError, ValueError) as err:
        log.warning("Backups for %s of %s stay: %s", change.in_words, stream, err)
        return ChangeStanding.UNKNOWN
    return ChangeStanding.OPEN if end is None else ChangeStanding.ENDED


def _choose(plan: RetentionPlan, living: Iterable[Held]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ids to remove, oldest first, and the ids that are held."""
    ids = tuple(backup.id for backup in reversed(plan.remove))
    # A backup at work needs objects of earlier ones, and none of their manifests.
    needed = [held.hold.backup if held.hold else "" for held in living if not is_writing(held)]
    if not all(needed):
        return (), ids  # this reader names no backup
    go = tuple(backup_id for backup_id in ids if backup_id not in needed)
    return go, tuple(backup_id for backup_id in ids if backup_id in needed)


def _remove(store: BackupStore, stream: str, ids: Collection[str], progress: Progress) -> None:
    for done, backup_id in enumerate(ids, start=1):
        store.delete_backup(backup_id, stream)
        progress(ProgressNow(phase=Phase.REMOVE, subject="backups", files=done, of=len(ids)))
