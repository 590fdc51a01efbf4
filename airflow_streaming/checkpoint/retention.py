"""
Removes what a retention policy lets go of: the manifests now, and later what nothing refers to.

A backup is gone when its manifest is; its bytes may belong to others, and ``checkpoint.collecting``
deletes them when they do not. A run may be killed on any line: the next one finishes what it finds.
What was taken for a change stays until the change has ended (``core.checkpoint.for_change``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from airflow_streaming.checkpoint.collecting import GRACE, Collector, is_writing
from airflow_streaming.checkpoint.holds import Held
from airflow_streaming.checkpoint.progress import Phase, Progress, ProgressNow, no_progress
from airflow_streaming.checkpoint.store import BackupStore
from airflow_streaming.core.checkpoint.for_change import (
    ChangeStanding,
    ForChange,
    changes_of,
    spare,
)
from airflow_streaming.core.checkpoint.retention import (
    RetentionPlan,
    RetentionPolicy,
    plan_retention,
)
from airflow_streaming.exceptions import StreamingError
from airflow_streaming.home.home import Home, open_home

log: Final = logging.getLogger(__name__)

HomeOpener = Callable[[str], Home]
"""Opens the home under a URI for reading, with the credentials for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """
    What a run of retention did, or with a dry run would have done.

    :param plan: What stays, with every reason, and what goes.
    :param removed: Ids of the backups that were removed; with a dry run, of those that would be.
    :param held: Ids of those that go and were left, because somebody reads them now.
    :param doomed: Number of objects that were listed for a later run to delete.
    :param deleted: Number of objects deleted; ``deleted_size`` is their bytes.
    :param waiting: Number of doomed objects that a later run deletes.
    :param problems: Why something was left undone, a sentence each.
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
    homes: HomeOpener = lambda uri: open_home(uri, probe=False),
) -> Retained:
    """
    Remove a stream's backups that the policy does not keep, and collect what nothing refers to.

    :param by: Who asks, for the records.
    :param dry_run: Plan only; nothing is written.
    :param grace: See ``GRACE``; measured by the store's clock.
    :param clock: The time of day; the store's own counts when it is behind that.
    :param homes: Opens the home of a change that a backup was taken for; by default with the
        credentials of the environment.
    :raises HomeUnavailable: the store cannot be reached; the next run goes on from there.
    """
    now = clock()
    # A dry run writes nothing, and the store is asked for its time by writing.
    told = now if dry_run else store.clock()
    collector = Collector(
        store=store, stream=stream, by=by, now=now, stored=told, progress=progress
    )
    plan = _plan(store, stream, policy, now if told is None else min(now, told))
    # In this order: whatever is listed was taken for a change that was begun before.
    plan = spare(plan, {one: _standing(one, stream, homes) for one in changes_of(plan.remove)})
    go, held = _choose(plan, collector.living())
    if dry_run:
        return Retained(plan=plan, removed=go, held=held)
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
        problems=tuple(filter(None, (*collected.problems, why_not))),
    )


def _plan(store: BackupStore, stream: str, policy: RetentionPolicy, now: datetime) -> RetentionPlan:
    backups = store.backups(stream)
    said = [word for backup in backups for word in store.verifications(backup.id, stream)]
    return plan_retention(backups, said, policy, now)


def _standing(change: ForChange, stream: str, homes: HomeOpener) -> ChangeStanding:
    try:
        end = homes(change.home).stream(stream).change_end(int(change.number))
    except (StreamingError, ValueError) as err:
        log.warning("Backups for %s of %s stay: %s", change.in_words, stream, err)
        return ChangeStanding.UNKNOWN
    return ChangeStanding.OPEN if end is None else ChangeStanding.ENDED


def _choose(plan: RetentionPlan, living: Iterable[Held]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ids that go, oldest first, and those that would but are held."""
    ids = tuple(backup.id for backup in reversed(plan.remove))
    # A backup at work needs objects of earlier ones, and none of their manifests.
    needed = [held.hold.backup if held.hold else "" for held in living if not is_writing(held)]
    if not all(needed):
        return (), ids  # somebody reads, and does not say what
    go = tuple(backup_id for backup_id in ids if backup_id not in needed)
    return go, tuple(backup_id for backup_id in ids if backup_id in needed)


def _remove(store: BackupStore, stream: str, ids: Collection[str], progress: Progress) -> None:
    for done, backup_id in enumerate(ids, start=1):
        store.delete_backup(backup_id, stream)
        progress(ProgressNow(phase=Phase.REMOVE, subject="backups", files=done, of=len(ids)))
