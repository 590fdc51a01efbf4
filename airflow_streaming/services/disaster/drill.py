"""
Work on a disaster drill: restore the newest backup of each stream elsewhere, and run it to the present.

Live homes are only read, backups are held as for any restore, and outputs are discarded. Each stream is restored into
a folder of its own under ``_drill`` of the drill's home. A rehearsal runs the deployed script on a scratch copy of it,
so a kept folder stays as it was restored.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import Any, Final

from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.copies import OfRestored
from airflow_streaming.checkpoints.progress import Progress, no_progress
from airflow_streaming.checkpoints.restore.replay import ACCEPTABLE
from airflow_streaming.checkpoints.restore.restore import Place, Restored, restore
from airflow_streaming.checkpoints.vault.layout import check_apart
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import (
    BackupDamaged,
    CheckpointError,
    RestoreRefused,
    SpecError,
    StreamingError,
)
from airflow_streaming.gates.rehearsal import Rehearsed
from airflow_streaming.home.folder import APPEND_TRIES
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.jobs.drill import DrilledQuery
from airflow_streaming.model.jobs.recovery import (
    DisasterDrill,
    RecoveryResult,
    StreamRecovery,
)
from airflow_streaming.model.jobs.rehearsal import QUICK, Bounds
from airflow_streaming.model.names import numbered
from airflow_streaming.model.uris import join
from airflow_streaming.services.disaster.drills import Drills
from airflow_streaming.services.disaster.judge import Judgment, after_replay, judge, ran_nothing
from airflow_streaming.services.disaster.place import DrillPlace, check_place
from airflow_streaming.spark_jobs.rehearsal import rehearse
from airflow_streaming.spark_jobs.runner import Program
from airflow_streaming.storage.probe import ensure_exclusive

WORK: Final = "_drill"
"""The folder of restored checkpoints; no stream can have this name."""
DRILLED: Final = Bounds(until_caught_up=True, fails_on_loss=True, seconds=1800.0, sample=0)
"""As far as the present, with no row shown."""
_TOKEN_BYTES: Final = 4
IN_HOME: Final = "The backups lie in the live home: a disaster that takes the home takes them, too. Keep them in another place."


class DrillStopped(BaseException):
    """Another thread was interrupted; the streams in progress are given up and not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillMember:
    """
    A stream, as a drill needs it. Each function may raise ``StreamingError``.

    :param lane: Its live lane, under whose name the backups are kept.
    :param backups: Opens the store of its backups.
    :param program: Returns the program of a backup's deployment, with its output in the scratch.
    :param runtime: Returns the Spark for a backup.
    """

    lane: str
    backups: Callable[[], BackupStore]
    program: Callable[[Backup], Program]
    runtime: Callable[[Backup], Runtime]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillTerms:
    """
    How a drill is run.

    :param at_once: Streams at a time; each has a Spark of its own on this host.
    :param keeps: Leave the restored checkpoints in the drill's home.
    """

    bounds: Bounds = DRILLED
    at_once: int = 1
    keeps: bool = False


def begin_drill(
    place: DrillPlace,
    home: str,
    streams: Sequence[str],
    *,
    backups: str,
    open_backups: Callable[[], BackupStore],
    selector: str,
    key: str,
    by: str,
    now: datetime,
) -> DisasterDrill:
    """
    Return the unfinished drill of this request, or begin one; nothing is written before every check has passed.

    :param streams: In the order of the drill; of an unfinished drill its own streams count.
    :param backups: URI of the backup store.
    :raises SpecError: the place cannot be the home of a drill, there is no backup store, or no stream is selected.
    :raises BackupStoreMissing: the live home knows another store there.
    """
    check_place(place, home, backups)
    try:
        open_backups()
    except CheckpointError as err:
        raise SpecError(f"{err} Nothing was drilled.") from err
    drills = Drills(place.store)
    for _ in range(APPEND_TRIES):
        newest = drills.newest()
        is_ours = newest is not None and (newest.key, newest.home) == (key, home)
        if newest is not None and is_ours and not _is_finished(drills, newest):
            return newest
        if not streams:
            raise SpecError(f"No stream of {home} matches {selector!r:.200}. Nothing was drilled.")
        ensure_exclusive(place.store)
        drill = DisasterDrill(
            number=newest.number + 1 if newest else 1,
            home=home,
            selector=selector,
            key=key,
            streams=tuple(streams),
            by=by,
            at=now,
        )
        if drills.begin(drill):
            return drill
    raise SpecError(f"{place.store.uri} is used by other drills all the time. Try again.")


def run_drill(
    place: DrillPlace,
    drill: DisasterDrill,
    open_member: Callable[[str], DrillMember],
    terms: DrillTerms,
    *,
    now: Callable[[], datetime],
    progress: Progress = no_progress,
    tell: Callable[[StreamRecovery], None] = lambda _: None,
) -> list[StreamRecovery]:
    """
    Recover each stream that has no record yet, and return the recoveries of all.

    :param open_member: Returns a stream by its name; may raise ``StreamingError``.
    :param tell: Called with each new recovery.
    """
    drills, stop = Drills(place.store), Event()
    known = drills.recoveries(drill)

    def recover(name: str) -> StreamRecovery:
        one = _Recovery(place, drill, name, terms, stop, progress, now)
        try:
            found = drills.record(one.run(open_member))
            tell(found)
        except BaseException:
            stop.set()  # before this thread takes the next stream
            raise
        return found

    missing = [name for name in drill.streams if name not in known]
    with ThreadPoolExecutor(max_workers=terms.at_once) as pool:
        try:
            found = list(pool.map(recover, missing))
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    if not terms.keeps:
        place.blobs.delete_tree(_folder(drill))
    return [*known.values(), *found]


def _is_finished(drills: Drills, drill: DisasterDrill) -> bool:
    return len(drills.recoveries(drill)) == len(drill.streams)


def _folder(drill: DisasterDrill) -> str:
    return f"{WORK}/{numbered(drill.number)}"


@dataclass(slots=True)
class _Found:
    """The facts about a stream so far."""

    backup: Backup | None = None
    restore_seconds: float = 0.0
    run_seconds: float = 0.0
    batches: int = 0
    rows: int = 0
    remarks: list[str] = field(default_factory=list)


class _Recovery:
    """The recovery of one stream, in a folder that no other try uses."""

    def __init__(
        self,
        place: DrillPlace,
        drill: DisasterDrill,
        name: str,
        terms: DrillTerms,
        stop: Event,
        progress: Progress,
        now: Callable[[], datetime],
    ) -> None:
        self._place, self._drill, self._name, self._terms = place, drill, name, terms
        self._stop, self._progress, self._now = stop, progress, now
        self._folder = f"{_folder(drill)}/{name}-{secrets.token_hex(_TOKEN_BYTES)}"
        self._found = _Found()

    def run(self, open_member: Callable[[str], DrillMember]) -> StreamRecovery:
        self._check()
        is_kept = False
        try:
            judgment = self._judged(open_member)
            is_kept = self._terms.keeps
        finally:
            if not is_kept:
                self._place.blobs.delete_tree(self._folder)
        found, backup = self._found, self._found.backup
        return StreamRecovery(
            drill=self._drill.number,
            name=self._name,
            result=judgment.result,
            at=self._now(),
            reason=judgment.reason,
            backup="" if backup is None else backup.id,
            backed_up_at=None if backup is None else backup.begun_at,
            restore_seconds=round(found.restore_seconds, 1),
            run_seconds=round(found.run_seconds, 1),
            batches=found.batches,
            rows=found.rows,
            size=0 if backup is None else backup.size,
            remarks=(*found.remarks, *judgment.remarks),
            kept=self._uri if is_kept and backup is not None else "",
        )

    @property
    def _uri(self) -> str:
        return join(self._place.store.uri, self._folder)

    def _judged(self, open_member: Callable[[str], DrillMember]) -> Judgment:
        try:
            return self._recovered(open_member(self._name))
        except BackupDamaged as err:
            return Judgment(RecoveryResult.DAMAGED_BACKUP, str(err))
        except RestoreRefused as err:
            return Judgment(RecoveryResult.REFUSED, str(err))
        except StreamingError as err:
            return Judgment(RecoveryResult.NOT_TRIED, str(err))

    def _recovered(self, member: DrillMember) -> Judgment:
        store = member.backups()
        if _lies_in(store.uri, self._drill.home):
            self._found.remarks.append(IN_HOME)
        listed = store.listed(member.lane)
        if not listed:
            text = f"{store.uri} has no backup of {member.lane!r}. Take one."
            return Judgment(RecoveryResult.NO_BACKUP, text)
        newest = max(listed, key=lambda one: one.id)
        if newest.backup is None:
            return Judgment(RecoveryResult.DAMAGED_BACKUP, newest.problem)
        self._found.backup = newest.backup
        program, runtime = member.program(newest.backup), member.runtime(newest.backup)
        if program.left_out:
            left_out = ", ".join(program.left_out)
            self._found.remarks.append(f"Run without secret settings: {left_out}.")
        restored = self._restored(store, newest.backup)
        return self._run_to_present(newest.backup, restored, program, runtime)

    def _restored(self, store: BackupStore, backup: Backup) -> Restored:
        begun = time.monotonic()
        place = Place(to=self._uri, storage_options=self._place.storage_options)
        # Warnings of a restore concern the sink, which a drill does not have.
        found = restore(store, backup.id, place, accept=ACCEPTABLE, progress=self._progress)
        self._found.restore_seconds = time.monotonic() - begun
        return found

    def _run_to_present(
        self, backup: Backup, restored: Restored, program: Program, runtime: Runtime
    ) -> Judgment:
        place = OfRestored(
            backup=backup,
            checkpoints=restored.checkpoints,
            storage_options=self._place.storage_options,
        )
        timed = _Timed(place)
        first = self._rehearsed(timed, program, runtime, self._terms.bounds)
        self._found.run_seconds = max(0.0, first.seconds - timed.seconds)
        self._found.batches = sum(query.batches for query in first.queries)
        self._found.rows = sum(query.input_rows for query in first.queries)
        if not ran_nothing(first):
            return judge(first, timed.planned)
        again = replace(place, replays=True)
        return after_replay(first, self._rehearsed(again, program, runtime, QUICK))

    def _rehearsed(
        self, place: Any, program: Program, runtime: Runtime, bounds: Bounds
    ) -> Rehearsed:
        return rehearse(
            *(place, program, runtime),
            bounds=bounds,
            progress=self._progress,
            check=self._check,
        )

    def _check(self) -> None:
        if self._stop.is_set():
            raise DrillStopped


class _Timed:
    """A place whose copies are timed: a recovery would run on the restored checkpoints themselves."""

    def __init__(self, place: OfRestored) -> None:
        self._place, self.seconds = place, 0.0
        self.subject = place.subject
        self.planned: frozenset[str] = frozenset()
        """Queries with a planned batch that has input."""

    def copies(self, folder: Path, progress: Progress) -> list[DrilledQuery]:
        begun = time.monotonic()
        found = self._place.copies(folder, progress)
        self.seconds = time.monotonic() - begun
        self.planned = frozenset(
            one.folder for one in found if one.runs is not None and one.has_input
        )
        return found


def _lies_in(store: str, home: str) -> bool:
    try:
        check_apart(store, home, what="backup store", other="home")
    except SpecError:
        return True
    return False
