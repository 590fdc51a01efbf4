"""
Observations and backups of an upgrade around its boundary.

A driver reports its batches some seconds later, and a killed driver never reports them. Where a committed batch
rules a rollback out, only the checkpoint counts.

The stages are read before and after the look at the stream, until both readings agree. A decision therefore
never combines a stage with a snapshot of another time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from airflow_streaming.changes.engine import agreed
from airflow_streaming.changes.judging.soak import (
    SoakBaseline,
    SoakFigures,
    SoakVerdict,
    backlog_of,
    judge_soak,
    written_by,
)
from airflow_streaming.changes.restore.migrated_copy import Migrator
from airflow_streaming.changes.restore.switch import location
from airflow_streaming.changes.upgrade.state import COPY, OWNER, UpgradeView
from airflow_streaming.checkpoints.backup.stream_backup import (
    BackupRequest,
    Open,
    backup_before,
    stream_sources,
)
from airflow_streaming.checkpoints.progress import Progress, no_progress
from airflow_streaming.checkpoints.vault.retention_policy import facts_for
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.checkpoints.vault.verify import verify
from airflow_streaming.exceptions import CheckpointError, CheckpointRefused, RecordError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.choices import Level, Origin
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.records.control import Change
from airflow_streaming.model.records.upgrade import RollbackMethod, UpgradeTerms
from airflow_streaming.model.records.upgrade_table import UPGRADE, Stage, UpgradeTransition
from airflow_streaming.model.wire import parse_json
from airflow_streaming.storage.folders import Folders, open_folders
from airflow_streaming.supervision.decide import ReconcileInput
from airflow_streaming.supervision.observer import Observer

FACT: Final = "committed"
"""Fact of stage ``stopped``: the newest committed batches of the old deployment."""
_BATCHES: Final = 500
"""Newest batches of an epoch that a soak reads."""
_CHUNKS: Final = 3
"""Oldest chunks of its history in which every query's first batch is looked for."""

_MOST_PROBLEMS = 3


class Committed:
    """Looks into the checkpoints of one stream."""

    def __init__(self, home: StreamHome, open_folders: Open = open_folders) -> None:
        self._home, self._open = home, open_folders

    def told(self) -> str:
        """Return the newest committed batch by each checkpoint's URI, in the format of a fact."""
        return json.dumps(self._batches(), sort_keys=True)

    def since(self, reached: Mapping[Stage, UpgradeTransition]) -> bool:
        """
        Tell whether any batch was committed after the stop of the old driver.

        A missing checkpoint counts as changed.

        :raises RecordError: the record names a checkpoint outside the stream.
        :raises HomeUnavailable: a store cannot be reached; the answer is unknown.
        """
        stopped = reached.get(Stage.STOPPED)
        if stopped is None:
            return False
        before: dict[str, int] = parse_json(stopped.facts.get(FACT, "{}").encode())
        self._check_ours(before, stopped)
        now = self._batches()
        seen_before = {uri: _newest(self._open(uri)) for uri in before}
        return seen_before != before or not now.keys() <= before.keys()

    def _check_ours(self, uris: Iterable[str], step: UpgradeTransition) -> None:
        """Refuse a checkpoint in a record that no deployment and no claim of the stream names."""
        newest = self._home.newest_deployment()
        numbers = range(1, newest.number + 1 if newest else 1)
        deployments = (self._home.deployment(number) for number in numbers)
        roots = [location(one.checkpoint).rstrip("/") for one in deployments]
        claims = (one for number in numbers for one in self._home.claims(number))
        claimed = {one.checkpoint.rstrip("/") for one in claims}
        for uri in uris:
            place = location(uri)
            is_below = any(place.startswith(f"{root}/") for root in roots)
            if ".." in uri.split("/") or not (is_below or place.rstrip("/") in claimed):
                raise RecordError(
                    f"Step {step.number} of change {step.change} of stream {self._home.name!r} names "
                    f"the checkpoint {uri}, and no deployment or claim of the stream names it. Put the "
                    "original record back."
                )

    def _batches(self) -> dict[str, int]:
        deployment = self._home.newest_deployment()
        if deployment is None:
            return {}
        request = BackupRequest(origin=Origin.BEFORE_UPGRADE, by="", open_folders=self._open)
        try:
            sources = stream_sources(self._home, deployment, request)
        except CheckpointError:
            return {}
        found = {source.folders.uri: _newest(source.folders) for source in sources}
        return {uri: batch for uri, batch in found.items() if batch is not None}


def _newest(folders: Folders) -> int | None:
    names = (entry.name for entry in folders.entries("commits", list) or ())
    return max((int(name) for name in names if name.isdecimal()), default=None)


class BackingUp:
    """
    Takes and verifies the backups of an upgrade.

    :param open_folders: Opens the checkpoints and outputs.
    """

    def __init__(
        self,
        home: StreamHome,
        store: BackupStore,
        *,
        by: str,
        now: Callable[[], datetime],
        open_folders: Open = open_folders,
        progress: Progress = no_progress,
    ) -> None:
        self._home, self._store = home, store
        self._by, self._now = by, now
        self._open, self._progress = open_folders, progress

    def take(self, change: Change, terms: UpgradeTerms, level: Level) -> str:
        """
        Take a backup, verify it, and return its id.

        :param level: Every byte is read while the stream runs; while it is down names and sizes
            must suffice, since a restore checks every byte anyway.
        :raises CheckpointError: there is nothing to back up, or it cannot be done.
        """
        request = BackupRequest(
            origin=Origin.BEFORE_UPGRADE,
            by=self._by,
            note=f"Change {change.number}: {change.reason}",
            facts=facts_for(self._home.store.uri, change.number),
            sink_logs=terms.sink_logs,
            open_folders=self._open,
            progress=self._progress,
            clock=self._now,
        )
        backup = backup_before(self._home, self._store, request)
        if not backup:
            raise CheckpointRefused(
                f"Stream {self._home.name!r} has committed no batch yet, so there is nothing to go "
                "back to. Wait for its first batch, or apply the deployment with restart=True."
            )
        found = verify(
            self._store, backup, level, by=self._by, now=self._now(), stream=self._home.name
        )
        if not found.holds:
            raise CheckpointError(
                f"Backup {backup} of stream {self._home.name!r} does not hold: "
                f"{' '.join(found.problems[:_MOST_PROBLEMS])}"
            )
        return backup


def look(
    home: StreamHome,
    observer: Observer,
    change: Change,
    terms: UpgradeTerms,
    committed: Committed | None = None,
    repartitioned: Callable[[], bool] = lambda: False,
    migrator: Migrator | None = None,
) -> UpgradeView:
    """
    Look once.

    :param committed: Reads the committed batches; by default without credentials.
    :param repartitioned: Tells whether all state has the new number of partitions.
    :param migrator: Tells whether a migrated copy is there.
    """

    def between(history: Sequence[UpgradeTransition]) -> UpgradeView:
        reached = {step.after: step for step in history}
        is_closed = home.change_end(change.number) is not None
        situation = observer.situation(wants_standby=terms.prewarm)
        asks = _may_matter(terms, reached)
        return UpgradeView(
            change=change,
            terms=terms,
            situation=situation,
            history=tuple(history),
            soak=_soak(home, terms, reached, situation),
            has_committed=asks and (committed or Committed(home)).since(reached),
            is_repartitioned=UPGRADE.state_of(history) is Stage.REPARTITIONING and repartitioned(),
            is_migrated=_is_migrated(history, migrator),
            is_own_migration=_is_own(history, migrator),
            is_held=_is_held(home, situation),
            is_closed=is_closed,
        )

    where = f"change {change.number} of stream {home.name!r}"
    return agreed(lambda: home.upgrade_steps(change.number), between, where)


def _is_migrated(history: Sequence[UpgradeTransition], migrator: Migrator | None) -> bool:
    if migrator is None or UPGRADE.state_of(history) is not Stage.MIGRATING:
        return False
    return migrator.is_done(history[-1].facts[COPY])


def _is_own(history: Sequence[UpgradeTransition], migrator: Migrator | None) -> bool:
    if migrator is None or UPGRADE.state_of(history) is not Stage.MIGRATING:
        return False
    return bool(migrator.owner) and history[-1].facts.get(OWNER) == migrator.owner


def _is_held(home: StreamHome, situation: ReconcileInput) -> bool:
    seen = situation.seen
    if seen is None or seen.epoch.promotes is None:
        return False
    return not home.is_released(seen.epoch.number)


def _may_matter(terms: UpgradeTerms, reached: Mapping[Stage, UpgradeTransition]) -> bool:
    decided = {Stage.KEPT, Stage.LEFT, Stage.RESTORED}
    is_between = Stage.APPLYING in reached and decided.isdisjoint(reached)
    return is_between and terms.rollback.way is RollbackMethod.NONE


def _soak(
    home: StreamHome,
    terms: UpgradeTerms,
    reached: Mapping[Stage, UpgradeTransition],
    situation: ReconcileInput,
) -> SoakVerdict | None:
    launched = reached.get(Stage.LAUNCHED)
    if launched is None or not reached.keys().isdisjoint({Stage.JUDGED, Stage.ROLLING_BACK}):
        return None
    epoch, before = int(launched.facts["epoch"]), reached.get(Stage.BACKED_UP)
    fired = before.facts.get("firing", "") if before is not None else ""
    wrote = before.facts.get("wrote", "") if before is not None else ""
    batches = home.read_progress(epoch, limit=_BATCHES)
    return judge_soak(
        SoakBaseline(
            launched_at=launched.at,
            epoch=epoch,
            firing=frozenset(filter(None, fired.split("\n"))),
            wrote=_wrote(wrote),
        ),
        SoakFigures(
            seen=situation.seen,
            rules=situation.rules,
            batches=batches,
            first=first_batches(home, epoch, batches),
        ),
        terms.soak,
        situation.now,
    )


def written_lately(home: StreamHome, epoch: int) -> str:
    """Return the rows that each query of an epoch wrote, as a fact of a step; unknown ones are left out."""
    batches = home.read_progress(epoch, limit=_BATCHES)
    names = dict.fromkeys(batch.query for batch in batches)
    wrote = {name: written_by([one for one in batches if one.query == name]) for name in names}
    return "\n".join(f"{name}={rows}" for name, rows in wrote.items() if rows is not None)


def _wrote(fact: str) -> dict[str, int]:
    found = (line.rpartition("=") for line in fact.split("\n"))
    return {name: int(rows) for name, _, rows in found if name and rows.isdecimal()}


def first_batches(
    home: StreamHome, epoch: int, batches: Sequence[BatchProgress]
) -> dict[str, BatchProgress]:
    """Return each query's first batch of the epoch with a known backlog."""
    wanted = {batch.query for batch in batches if backlog_of(batch) is not None}
    found: dict[str, BatchProgress] = {}
    for chunk in home.progress_chunks(epoch)[:_CHUNKS]:
        if wanted <= found.keys():
            break
        for row in home.progress_rows(epoch, chunk)[0]:
            if backlog_of(row) is not None:
                found.setdefault(row.query, row)
    return found
