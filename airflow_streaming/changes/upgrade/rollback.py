"""
Roll an upgrade back: checkpoints and sinks as they were at its boundary.

The backup of the old deployment's last batch is restored to a place of its own, under the number of
the change. The present checkpoints stay for inspection. Then file sinks, and the sinks of the
author's function, are rewound to that batch.

A repetition continues after a task that died. The new driver must be proved gone all the while, and
the old one must not have been started: its first batch ends the boundary.

The sinks are read only from the plans of the running deployment's own drivers: another version's
plans do not show them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from airflow_streaming.changes.restore.sinks import inspected, newest_planned
from airflow_streaming.changes.restore.switch import (
    beside,
    checkpoints_at,
    location,
    place_of,
    with_claims,
)
from airflow_streaming.changes.upgrade.rollback_plan import needs_rewind, plan_rollback
from airflow_streaming.checkpoints.backup.live_copy import SINK_LOG
from airflow_streaming.checkpoints.backup.records import Backup, QueryBackup
from airflow_streaming.checkpoints.copies import checkpoints_of
from airflow_streaming.checkpoints.integrity.state import Depth
from airflow_streaming.checkpoints.progress import Progress, no_progress
from airflow_streaming.checkpoints.read.reading import read_checkpoint
from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.checkpoints.restore.file_sink_rewind import RewindPlan
from airflow_streaming.checkpoints.restore.refusal import Circumstances
from airflow_streaming.checkpoints.restore.replay import OF_SINKS, RefusalCode
from airflow_streaming.checkpoints.restore.restore import (
    Moved,
    Prepared,
    check_allowed,
    prepare,
    write,
)
from airflow_streaming.checkpoints.restore.sink_log import newest_batch
from airflow_streaming.checkpoints.restore.sink_rewind import SinkRewind
from airflow_streaming.checkpoints.vault.contents import Verified
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import CheckpointError, RestoreRefused, RestoreTaken, SpecError
from airflow_streaming.gates.change_gate import gate_change
from airflow_streaming.gates.findings import GateDecision, GateFinding, GateReport, report_of
from airflow_streaming.gates.version.judge import can_come_back
from airflow_streaming.gates.version_gate import gate_version
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import Launcher, driver_fate
from airflow_streaming.model.arguments.accepted import REPLAY
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.pipeline.flows import query_of
from airflow_streaming.model.records.control import Change
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import QueryClaim
from airflow_streaming.model.records.upgrade import (
    RollbackPlan,
    SinkFacts,
    UpgradeTerms,
    sink_facts_of,
    without_facts,
)
from airflow_streaming.model.spark.plan import QueryPlan, ScriptPlan
from airflow_streaming.model.uris import join
from airflow_streaming.storage.folders import open_folders

__all__ = ["Restored", "claim_restored", "restore_boundary", "why_restore"]
# The sinks are put in step right after, and judged there. A query without a committed batch is in no
# backup: it starts from nothing, as it had.
_EXPECTED = OF_SINKS | {RefusalCode.QUERY_MISSING}

_CODE: Final = ("application_sha256", "application_args", "jars", "packages", "files")
"""Fields of a deployment that are the user's code."""
_OLD_UNKNOWN: Final = GateFinding(
    rule="plan.old",
    severity=GateDecision.UNKNOWN,
    message="The running version's plan was not recorded, so it is unknown whether it can resume from "
    "the new version's checkpoint.",
    evidence="the home has no plan of the running deployment",
    remedy="Start the running version once under this release.",
)


def why_restore(
    home: StreamHome,
    store: BackupStore,
    backup_id: str,
    *,
    sinks: Sequence[SinkFacts] = (),
    storage_options: Mapping[str, Any] | None = None,
) -> str:
    """
    Return why the boundary must be restored, in words; else empty.

    Empty means that the new deployment failed at once without a trace: the old one starts again on
    the same checkpoint.

    :param sinks: Of the old deployment.
    """
    backup = store.backup(backup_id)
    with store.hold(backup.stream, "restore", backup.id):
        return next(_reasons(home, store, backup, sinks, storage_options), "")


def _reasons(
    home: StreamHome,
    store: BackupStore,
    backup: Backup,
    sinks: Sequence[SinkFacts],
    options: Mapping[str, Any] | None,
) -> Iterator[str]:
    reading, facts = Verified(store, backup), {sink.query: sink for sink in sinks}
    for query in backup.queries:
        after, sink = inspected(query.checkpoint, options), facts.pop(query.folder, None)
        if after is None:
            yield f"The checkpoint {query.checkpoint} does not exist any more."
        else:
            reason = _need(reading, query, after, sink, options)
            yield from (f"Query {query.folder!r}: {reason}",) if reason else ()
    current = home.newest_deployment()
    if current is None:
        return
    for name in sorted(facts):
        # It had committed nothing, so no backup has it.
        report = inspected(join(current.checkpoint, name), options)
        if report is not None and report.last_committed_batch is not None:
            yield f"Query {name!r} has committed its first batches."


def _need(
    reading: Verified,
    query: QueryBackup,
    after: Checkpoint,
    sink: SinkFacts | None,
    options: Mapping[str, Any] | None,
) -> str:
    contents = reading.contents(query.folder)
    moved = Moved(contents, query.checkpoint)
    before = read_checkpoint(moved.listing, moved.read, uri=query.checkpoint, depth=Depth.NAMES)
    entries = (path.removeprefix(f"{SINK_LOG}/") for path in contents.members)
    return needs_rewind(
        before,
        after,
        sink,
        sink_before=newest_batch(entries),
        sink_after=_sink_batch(sink, options),
    )


def _sink_batch(sink: SinkFacts | None, options: Mapping[str, Any] | None) -> int | None:
    if sink is None or sink.habit is not SinkReplaySemantics.FILE_LOG or not sink.target:
        return None
    folders = open_folders(join(sink.target, SINK_LOG), options)
    return newest_batch(entry.name for entry in folders.entries("", list) or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """
    The old deployment's new start.

    :param checkpoint: URI with a folder for every query: the checkpoint of the deployment to be
        made.
    :param ids: Id of the Spark query in each folder.
    :param batches: The newest committed batch of each query.
    :param rewound: The result of rewinding the sinks.
    """

    checkpoint: str
    ids: Mapping[str, str | None]
    batches: Mapping[str, int]
    rewound: tuple[RewindPlan, ...] = ()


def restore_boundary(
    home: StreamHome,
    store: BackupStore,
    backup_id: str,
    change: Change,
    *,
    launcher: Launcher | None,
    sinks: Sequence[SinkFacts] = (),
    rewind: SinkRewind | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
    is_needed: Callable[[], bool] = lambda: True,
) -> Restored:
    """
    Restore the boundary backup to a place of its own and rewind the sinks.

    The driver must be proved gone; the desired state may be running. A repetition after a kill
    continues; after success it changes nothing and returns the same.

    :param sinks: Of the old, backed-up deployment: ``sink_facts_of`` its plans.
    :param rewind: Rewinds the sinks; by default file sinks only.
    :param is_needed: Called before every removing step.
    :raises RestoreRefused: With every reason, e.g. a driver that is not proved gone, or a query
        with an unknown sink; no file was changed.
    :raises RestoreTaken: Another task is restoring now; try again later.
    :raises CheckpointRefused: A sink cannot be rewound.
    """
    backup = store.backup(backup_id)
    _check_covered(backup, sinks)
    sink_rewind = rewind or SinkRewind(storage_options=storage_options)
    with store.hold(backup.stream, "restore", backup.id):
        restoring = _Restoring(home, store, launcher, storage_options, progress)
        # Seen before anything is put back; the checkpoint stays as it is.
        places = {query.folder: query.checkpoint for query in backup.queries} | _migrated(
            home, change, backup
        )
        queries = {facts.query: places.get(facts.query, "") for facts in sinks}
        newest = newest_planned(queries, storage_options)
        restored = restoring.run(backup, change)
        rewound = sink_rewind.run(store, backup, change.number, sinks, newest, is_needed=is_needed)
    return replace(restored, rewound=tuple(rewound))


def _migrated(home: StreamHome, change: Change, backup: Backup) -> dict[str, str]:
    """Return the checkpoints of a new deployment that ran on copies; the old ones do not tell its batches."""
    newest = home.newest_deployment()
    if newest is None or newest.number != change.deployment:
        return {}
    if newest.checkpoint == home.deployment(change.replaced).checkpoint:
        return {}
    return {query.folder: join(newest.checkpoint, query.folder) for query in backup.queries}


def _check_covered(backup: Backup, sinks: Sequence[SinkFacts]) -> None:
    # A checkpoint that goes back alone loses the rows of every batch that its sink remembers.
    unknown = without_facts([query.folder for query in backup.queries], sinks)
    if unknown:
        raise RestoreRefused(
            f"Backup {backup.id} has query {', '.join(map(repr, unknown))}, whose sink is unknown and so "
            "cannot be rewound. Nothing was changed. Rewind the sink by hand, and restore the backup "
            "with 'airflow-streaming checkpoint restore'."
        )


class _Restoring:
    def __init__(
        self,
        home: StreamHome,
        store: BackupStore,
        launcher: Launcher | None,
        storage_options: Mapping[str, Any] | None,
        progress: Progress,
    ) -> None:
        self._home, self._store, self._launcher = home, store, launcher
        self._storage_options, self._progress = storage_options, progress

    def run(self, backup: Backup, change: Change) -> Restored:
        ready = self._prepare(backup, change)
        if not self._is_written(ready, backup):
            self._write(ready, backup)
        return Restored(
            checkpoint=ready.plan.target,
            ids=_ids(ready, backup),
            batches={ready.folders[query.folder]: query.batch for query in backup.queries},
        )

    def _prepare(self, backup: Backup, change: Change) -> Prepared:
        """Judge the restore as if its place were free, because it may hold its own earlier work."""
        replaced = self._home.deployment(change.replaced)
        fate, detail = driver_fate(self._home, self._launcher)
        # The desired state is running on purpose, and the open change is this one.
        known = Circumstances(stream=self._home.name, driver=fate, driver_detail=detail)
        known = with_claims(known, self._home, replaced)
        to = beside(self._home, replaced, change.number)
        place = place_of(self._home, backup, known, replaced, to, None, self._storage_options)
        ready = prepare(self._store, backup, place, known, _EXPECTED, self._progress)
        if not self._is_written(ready, backup):
            check_allowed(ready.plan)
            return ready
        others = tuple(
            refusal
            for refusal in ready.plan.refusals
            if refusal.code is not RefusalCode.TARGET_NOT_EMPTY
        )
        check_allowed(replace(ready.plan, refusals=others))
        return ready

    def _write(self, ready: Prepared, backup: Backup) -> None:
        try:
            write(ready, self._progress)
        except RestoreTaken:
            # Another task asked for the same; if it was faster, all is well.
            if not self._is_written(ready, backup):
                raise

    def _is_written(self, ready: Prepared, backup: Backup) -> bool:
        try:
            found = checkpoints_at(ready.plan.target, self._storage_options)
        except CheckpointError:
            return False
        return found == _ids(ready, backup)


def claim_restored(home: StreamHome, deployment: int, restored: Restored) -> None:
    """
    Record which query owns which restored checkpoint, before anything is launched there.

    A checkpoint that vanished before its first start is refused then, not started empty.
    """
    epoch = home.newest_epoch()
    for folder, query_id in restored.ids.items():
        if folder and query_id:
            before = home.claim_of(query_id)
            claim = QueryClaim(
                query=query_of(folder),
                query_id=query_id,
                checkpoint=location(join(restored.checkpoint, folder)),
                epoch=epoch.number if epoch else 0,
                batch_shift=before.batch_shift if before else 0,
                counts_from=before.counts_from if before else None,
            )
            home.add_claim(deployment, claim)


def _ids(ready: Prepared, backup: Backup) -> dict[str, str | None]:
    known = {query.folder: query.query_id for query in backup.queries}
    return {folder: known[name] for name, folder in ready.folders.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """
    The state to return to; the new driver is proved gone and fenced.

    :param boundary: Id of the backup of exactly the old deployment's last batch.
    :param deployment: Number of the deployment that will continue from there.
    :param is_needed: False as soon as another task has finished it; call it right before every step
        that removes or overwrites. From then on the old deployment may write there again.
    """

    change: Change
    terms: UpgradeTerms
    boundary: str
    deployment: int
    is_needed: Callable[[], bool]


class TakingBack(Protocol):
    """Rewinds checkpoint and sinks to the old deployment's end."""

    def why(self, undo: Undo) -> str:
        """
        Return why a rewind is needed, in words.

        Empty if the new deployment failed at once and committed no batch.
        """

    def rewind(self, undo: Undo) -> str:
        """
        Rewind checkpoint and sinks; return the URI of the old deployment's checkpoint.

        :raises RestoreTaken: Another task is restoring now; try again later.
        :raises StreamingError: Not possible; the stream stays down until a user acts.
        """


class BoundaryBack:
    """
    Goes back to the boundary backup.

    :param rewind: Rewinds sinks; only needed for sinks other than file sinks.
    """

    def __init__(
        self,
        home: StreamHome,
        store: BackupStore,
        launcher: Launcher,
        *,
        rewind: SinkRewind | None = None,
        storage_options: Mapping[str, Any] | None = None,
        progress: Progress = no_progress,
    ) -> None:
        self._home, self._store, self._launcher = home, store, launcher
        self._rewind, self._options, self._progress = rewind, storage_options, progress

    def why(self, undo: Undo) -> str:
        """Return why anything needs to be put back; see ``TakingBack``."""
        return why_restore(
            self._home,
            self._store,
            undo.boundary,
            sinks=undo.terms.sinks,
            storage_options=self._options,
        )

    def rewind(self, undo: Undo) -> str:
        """Put checkpoint and sinks back; see ``TakingBack``."""
        restored = restore_boundary(
            self._home,
            self._store,
            undo.boundary,
            undo.change,
            launcher=self._launcher,
            sinks=undo.terms.sinks,
            rewind=self._rewind,
            storage_options=self._options,
            progress=self._progress,
            is_needed=undo.is_needed,
        )
        claim_restored(self._home, undo.deployment, restored)
        return restored.checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """
    The author's declarations for a rollback.

    :param habits: How a sink handles a repeated batch id, by the query's name.
    :param has_rewinder: A function takes batches back out of the sinks.
    :param accepted: Codes of findings that a user accepts.
    """

    habits: Mapping[str, SinkReplaySemantics] = field(default_factory=dict)
    has_rewinder: bool = False
    accepted: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentPair:
    """
    Both deployments, and what their queries are.

    :param old: Plans that the drivers of the current one recorded.
    """

    current: Deployment
    proposed: Deployment
    old: Sequence[QueryPlan]
    new: ScriptPlan


def sinks_of(
    both: DeploymentPair, habits: Mapping[str, SinkReplaySemantics]
) -> tuple[SinkFacts, ...]:
    """
    Return the sinks that a rollback must rewind: the running deployment's.

    :param habits: The author's declarations, by query.
    :return: Empty if unknown.
    :raises SpecError: A habit names an unknown query.
    """
    # A query that only the new version starts has nothing to go back to.
    old, new = ({plan.query for plan in plans} for plans in (both.old, both.new.queries))
    if not old:
        return ()
    values = {query: habit for query, habit in habits.items() if query in old or query not in new}
    try:
        return sink_facts_of(both.old, values, checkpoint=both.current.checkpoint)
    except ValueError as err:
        raise SpecError(str(err)) from err


def way_back_of(
    home: StreamHome,
    both: DeploymentPair,
    sinks: Sequence[SinkFacts],
    ways: Ways,
    storage_options: Mapping[str, Any] | None,
    *,
    is_migrated: bool = False,
) -> RollbackPlan:
    """
    Return how to go back once the new deployment has committed batches.

    :param sinks: See ``sinks_of``.
    :param storage_options: Of the checkpoints' store.
    :param is_migrated: The new deployment's state is migrated, so the old one cannot resume from it.
    """
    checkpoints = checkpoints_of(home, storage_options).checkpoints
    back = GateReport()
    if both.current.spark_version != both.proposed.spark_version:
        back = gate_version(
            checkpoints,
            both.current.spark_version,
            both.proposed.spark_version,
            conf=both.proposed.conf,
            plans=both.old,
            storage_options=storage_options,
            judge=can_come_back,
        )
    return plan_rollback(
        sinks,
        back=back,
        code_back=_code_back(checkpoints, both, storage_options),
        queries=checkpoints,
        has_rewinder=ways.has_rewinder,
        accepts_replay=REPLAY in ways.accepted,
        is_migrated=is_migrated,
    )


def is_same_code(current: Deployment, proposed: Deployment) -> bool:
    """Tell whether two deployments run the same code, whatever their configuration is."""
    return current.has_py_files_of(proposed) and all(
        getattr(current, name) == getattr(proposed, name) for name in _CODE
    )


def _code_back(
    checkpoints: Mapping[str, str], both: DeploymentPair, storage_options: Mapping[str, Any] | None
) -> GateReport | None:
    if is_same_code(both.current, both.proposed):
        return None
    if not both.old:
        return report_of([_OLD_UNKNOWN])
    deployed = ScriptPlan(
        application=both.current.application,
        spark=both.current.spark_version,
        queries=tuple(both.old),
    )
    return gate_change(
        checkpoints, both.new.queries, deployed, storage_options=storage_options, versions=None
    )
